//! `longhaul engines`: the engines there are, and where each is from.

use longhaul_engine::plan::{Engine, Source};
use longhaul_engine::policy::EngineName;
use longhaul_server::plugins::Lying;
use serde::Serialize;

use crate::cli::EnginesArgs;
use crate::config::{Environment, Settings};
use crate::engines::{Available, Waiting};
use crate::failure::Failure;
use crate::output::{self, BAD, FAINT, GOOD, Line, Page, STRONG};

#[derive(Serialize)]
struct Row {
    name: String,
    /// What it does; nothing of a plug-in whose manifest cannot be read.
    does: Option<String>,
    from: &'static str,
    /// Where a plug-in lies.
    path: Option<String>,
    /// Why it cannot be used.
    problem: Option<String>,
    /// Whether it is the one that compacts where none is named.
    in_force: bool,
}

impl Row {
    fn of(engine: &dyn Engine, in_force: &EngineName) -> Self {
        let from = match engine.source() {
            Source::BuiltIn => "built-in",
            Source::Host => "host",
            Source::Plugin(_) => "plug-in",
        };
        let (name, does) = (engine.name(), Some(engine.about().to_owned()));
        Self { in_force: name == *in_force, name: name.to_string(), does, from, path: None, problem: None }
    }

    fn lying(there: &Lying, in_force: Option<&str>) -> Self {
        let path = there.folder.display().to_string();
        Self {
            name: there.name.clone(),
            does: there.manifest.as_ref().ok().map(|manifest| manifest.about.clone()),
            from: "plug-in",
            problem: there.manifest.as_ref().err().cloned(),
            in_force: in_force == Some(path.as_str()),
            path: Some(path),
        }
    }
}

pub(crate) fn run(args: &EnginesArgs, environment: &Environment) -> Result<(), Failure> {
    let flags = args.plugins.flag().into_iter().collect();
    let settings = Settings::load(args.config.config.as_deref(), environment, flags)?;
    let available = Available::new(&settings, environment, Waiting::User)?;
    let chosen = available.engines.of(&settings.engine.context.engine);
    let plugin = match chosen.source() {
        Source::Plugin(folder) => Some(folder),
        Source::Host | Source::BuiltIn => None,
    };
    let name = if plugin.is_some() { EngineName::from(String::new()) } else { chosen.name() };
    let is_plugin = |engine: &&dyn Engine| matches!(engine.source(), Source::Plugin(_));
    let built_in = available.engines.all().filter(|engine| !is_plugin(engine));
    let mut rows: Vec<Row> = built_in.map(|engine| Row::of(engine, &name)).collect();
    rows.extend(available.lying.iter().map(|there| Row::lying(there, plugin.as_deref())));
    let to = args.answer.to();
    if args.answer.json {
        return output::write_json(to, &rows);
    }
    settings.say_notes(&[]);
    available.notes.iter().for_each(|line| output::say(line));
    let mut page = Page::default();
    page.table(rows.iter().map(|row| {
        let force = if row.in_force { "in force" } else { "" };
        let says = match (&row.does, &row.problem) {
            (_, Some(problem)) => Line::default().styled(BAD, problem),
            (does, None) => Line::from(does.as_deref().unwrap_or_default()),
        };
        let from =
            row.path.as_ref().map_or_else(|| row.from.to_owned(), |path| format!("{}, {path}", row.from));
        let from = Line::default().styled(FAINT, from);
        [Line::default().styled(STRONG, &row.name), says, from, Line::default().styled(GOOD, force)]
    }));
    output::give(to, &page)
}
