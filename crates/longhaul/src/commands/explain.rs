//! `longhaul explain`: prints every number that applies to a model, with the reason for it.

use longhaul_engine::models::{self, Model};
use longhaul_engine::policy::{ConfigWarning, DerivedValue, Policy};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::ExplainArgs;
use crate::config::{Environment, Settings};
use crate::engines::{AvailableEngines, PluginCaller};
use crate::failure::Failure;
use crate::output::{self, EMPHASIS_STYLE, Page, StyledLine};

#[derive(Serialize)]
struct ExplainOutput<'p> {
    model: &'p Model,
    numbers: Vec<ExplainRow<'p>>,
    notes: &'p [String],
    warnings: &'p [ConfigWarning],
}

/// A derived number, with the places where the user set the values behind it.
#[derive(Serialize)]
struct ExplainRow<'p> {
    #[serde(flatten)]
    derived: &'p DerivedValue,
    from: Vec<String>,
}

pub(crate) fn run(args: &ExplainArgs, environment: &Environment) -> Result<(), Failure> {
    let flags = args.policy.config_flags(&args.model);
    let settings = Settings::load(args.config.config.as_deref(), environment, flags)?;
    let (policy, warnings) = Policy::new(&settings.engine, &models::find(&args.model))
        .map_err(|invalid| settings.invalid_value_failure(&invalid))?;
    let from = |derived: &DerivedValue| settings.origins_of_named_keys(&derived.why);
    let numbers = policy.explain().iter().map(|derived| ExplainRow { derived, from: from(derived) }).collect();
    let available = AvailableEngines::new(&settings, environment, PluginCaller::User)?;
    let notes = [settings.notes.clone(), available.notes.clone(), summarizer_note(&settings).into_iter().collect()];
    let notes = notes.concat();
    let output = ExplainOutput { model: &policy.model, numbers, notes: &notes, warnings: &warnings };
    let to = args.output.file();
    if args.output.json {
        return output::write_json(to, &output);
    }
    settings.print_notes(&warnings);
    available.notes.iter().for_each(|line| output::print_message(line));
    if let Some(line) = summarizer_note(&settings) {
        output::print_message(&line);
    }
    output::write_page(to, &page(&output))
}

/// Names the model that writes summaries, if one is configured.
fn summarizer_note(settings: &Settings) -> Option<String> {
    let name = settings.app.auxiliary.compression.model.as_ref()?;
    Some(format!("{name} is configured for summaries; the gateway, compress --summarizer auto and summarize use it"))
}

fn page(output: &ExplainOutput) -> Page {
    let model = output.model;
    let row = match &model.row {
        Some(row) => format!("row {row} of the model table"),
        None => "no row of the model table matches; every fact is assumed".to_owned(),
    };
    let mut page = Page::default();
    page.add_line(StyledLine::default().styled(EMPHASIS_STYLE, &model.name).plain(format!(": {row}")));
    if let (Some(source), Some(checked)) = (&model.source, &model.checked) {
        page.add_line(format!("confirmed {checked} by {source}"));
    }
    page.add_blank();
    page.add_line(StyledLine::default().styled(EMPHASIS_STYLE, "facts"));
    let facts = json!(model.facts);
    let facts = facts.as_object().into_iter().flatten();
    let assumed_label = |assumed: bool| if assumed { "assumed" } else { "" }.to_owned();
    let rows: Vec<[String; 3]> = facts
        .map(|(fact, value)| [format!("  {fact}"), format_value(value), assumed_label(model.is_assumed(fact))])
        .collect();
    page.add_table(rows);
    page.add_blank();
    page.add_line(StyledLine::default().styled(EMPHASIS_STYLE, "numbers"));
    let number = |ExplainRow { derived, from }: &ExplainRow| {
        let why = if from.is_empty() { derived.why.clone() } else { format!("{}: {}", derived.why, from.join(", ")) };
        [format!("  {}", derived.name), format_value(&derived.value), assumed_label(derived.assumed), why]
    };
    page.add_table(output.numbers.iter().map(number));
    page
}

/// Formats a value for a person.
fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        value => value.as_u64().map_or_else(|| value.to_string(), output::group_digits),
    }
}
