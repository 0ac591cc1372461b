//! `longhaul explain`: every number that holds for a model, and why.

use longhaul_engine::models::{self, Model};
use longhaul_engine::policy::{Derived, Policy, Warning};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::ExplainArgs;
use crate::config::{Environment, Settings};
use crate::engines::{Available, Waiting};
use crate::failure::Failure;
use crate::output::{self, Line, Page, STRONG};

#[derive(Serialize)]
struct Answer<'p> {
    model: &'p Model,
    numbers: Vec<Number<'p>>,
    notes: &'p [String],
    warnings: &'p [Warning],
}

/// A derived number, with the places where what it rests on was typed.
#[derive(Serialize)]
struct Number<'p> {
    #[serde(flatten)]
    derived: &'p Derived,
    from: Vec<String>,
}

pub(crate) fn run(args: &ExplainArgs, environment: &Environment) -> Result<(), Failure> {
    let flags = args.policy.flags(&args.model);
    let settings = Settings::load(args.config.config.as_deref(), environment, flags)?;
    let (policy, warnings) = Policy::new(&settings.engine, &models::find(&args.model))
        .map_err(|invalid| settings.refused(&invalid))?;
    let from = |derived: &Derived| settings.typed_in(&derived.why);
    let numbers = policy.explain().iter().map(|derived| Number { derived, from: from(derived) }).collect();
    let available = Available::new(&settings, environment, Waiting::User)?;
    let notes = [settings.notes.clone(), available.notes.clone(), summaries(&settings).into_iter().collect()];
    let notes = notes.concat();
    let answer = Answer { model: &policy.model, numbers, notes: &notes, warnings: &warnings };
    let to = args.answer.to();
    if args.answer.json {
        return output::write_json(to, &answer);
    }
    settings.say_notes(&warnings);
    available.notes.iter().for_each(|line| output::say(line));
    if let Some(line) = summaries(&settings) {
        output::say(&line);
    }
    output::give(to, &page(&answer))
}

/// Who writes summaries, where that is not code alone.
fn summaries(settings: &Settings) -> Option<String> {
    let name = settings.shell.auxiliary.compression.model.as_ref()?;
    Some(format!(
        "{name} is configured for summaries: compress --summarizer auto and summarize ask it, nothing else does"
    ))
}

fn page(answer: &Answer) -> Page {
    let model = answer.model;
    let row = match &model.row {
        Some(row) => format!("row {row} of the model table"),
        None => "no row of the model table matches; every fact is assumed".to_owned(),
    };
    let mut page = Page::default();
    page.line(Line::default().styled(STRONG, &model.name).plain(format!(": {row}")));
    if let (Some(source), Some(checked)) = (&model.source, &model.checked) {
        page.line(format!("confirmed {checked} by {source}"));
    }
    page.blank();
    page.line(Line::default().styled(STRONG, "facts"));
    let facts = json!(model.facts);
    let facts = facts.as_object().into_iter().flatten();
    let mark = |assumed: bool| if assumed { "assumed" } else { "" }.to_owned();
    let rows: Vec<[String; 3]> = facts
        .map(|(fact, value)| [format!("  {fact}"), shown(value), mark(model.is_assumed(fact))])
        .collect();
    page.table(rows);
    page.blank();
    page.line(Line::default().styled(STRONG, "numbers"));
    let number = |Number { derived, from }: &Number| {
        let why = if from.is_empty() {
            derived.why.clone()
        } else {
            format!("{}: {}", derived.why, from.join(", "))
        };
        [format!("  {}", derived.name), shown(&derived.value), mark(derived.assumed), why]
    };
    page.table(answer.numbers.iter().map(number));
    page
}

/// A value as people read it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        value => value.as_u64().map_or_else(|| value.to_string(), output::grouped),
    }
}
