//! `longhaul config`: what is in force, where each value came from, and which of them nothing goes by yet.

use serde::Serialize;
use serde_json::Value;

use crate::cli::ConfigArgs;
use crate::config::{Environment, FILE, FileRead, Found, Leaf, Origin, Settings, has_effect};
use crate::engines::{Available, Waiting};
use crate::failure::Failure;
use crate::output::{self, FAINT, Line, Page, STRONG};

#[derive(Serialize)]
struct Answer<'s> {
    /// The nearest file that was read, which wins over the others.
    file: Option<&'s str>,
    /// The reason why it was read.
    found: Option<Found>,
    /// All files that were read, the lowest layer first.
    files: &'s [FileRead],
    values: Vec<Row<'s>>,
    notes: Vec<String>,
    warnings: &'s [longhaul_engine::policy::Warning],
}

#[derive(Serialize)]
struct Row<'s> {
    key: String,
    value: &'s Value,
    origin: &'s Origin,
    has_effect: bool,
}

impl<'s> Row<'s> {
    fn new(leaf: &'s Leaf) -> Self {
        let has_effect = has_effect(&leaf.path);
        Row { key: leaf.path.join("."), value: &leaf.value, origin: &leaf.origin, has_effect }
    }
}

pub(crate) fn run(args: &ConfigArgs, environment: &Environment) -> Result<(), Failure> {
    output::refuse_inputs(args.answer.to(), args.config.config.as_deref())?;
    let settings = Settings::load(args.config.config.as_deref(), environment, Vec::new())?;
    let available = Available::new(&settings, environment, Waiting::User)?;
    let to = args.answer.to();
    let values: Vec<Row<'_>> = settings.values.iter().map(Row::new).collect();
    if args.answer.json {
        let file = settings.files.last();
        let answer = Answer {
            file: file.map(|file| file.name.as_str()),
            found: file.map(|file| file.found),
            files: &settings.files,
            values,
            notes: [settings.notes.clone(), available.notes.clone()].concat(),
            warnings: &settings.warnings,
        };
        return output::write_json(to, &answer);
    }
    settings.say_notes(&settings.warnings);
    available.notes.iter().for_each(|line| output::say(line));
    let line = |Row { key, value, origin, has_effect }: Row<'_>| {
        let effect = if has_effect { "" } else { "no effect yet" };
        let style = if *origin == Origin::Default { FAINT } else { STRONG };
        let origin = Line::default().styled(style, origin.to_string());
        [key.into(), value.to_string().into(), origin, Line::default().styled(FAINT, effect)]
    };
    let mut page = Page::default();
    for FileRead { name, found, trusted } in settings.files.iter().rev() {
        let rights = if *trusted { "" } else { ", not trusted: it sets numbers only" };
        page.line(format!("configuration: {name}, {}{rights}", found.words()));
    }
    if settings.files.is_empty() {
        page.line(format!("configuration: none, so defaults; longhaul init writes a {FILE} to begin with"));
    }
    page.blank();
    page.table(values.into_iter().map(line));
    output::give(to, &page)
}
