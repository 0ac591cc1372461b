//! `longhaul config`: what is in force, where each value came from, and which of them nothing goes by yet.

use serde::Serialize;
use serde_json::Value;

use crate::cli::ConfigArgs;
use crate::config::{Environment, Keys, Leaf, Origin, Settings};
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Answer<'s> {
    values: Vec<Row<'s>>,
    notes: &'s [String],
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
    fn new(leaf: &'s Leaf, keys: &Keys) -> Self {
        let has_effect = keys.has_effect(&leaf.path);
        Row { key: leaf.path.join("."), value: &leaf.value, origin: &leaf.origin, has_effect }
    }
}

pub(crate) fn run(args: &ConfigArgs, environment: &Environment) -> Result<(), Failure> {
    let settings = Settings::load(args.config.config.as_deref(), environment, Vec::new())?;
    let to = args.answer.output.as_deref();
    let keys = Keys::new();
    let values: Vec<Row<'_>> = settings.values.iter().map(|leaf| Row::new(leaf, &keys)).collect();
    if args.answer.json {
        return output::write_json(
            to,
            &Answer { values, notes: &settings.notes, warnings: &settings.warnings },
        );
    }
    settings.say_notes(&settings.warnings);
    let line = |Row { key, value, origin, has_effect }: Row<'_>| {
        let effect = if has_effect { "" } else { "no effect yet" };
        [key, value.to_string(), origin.to_string(), effect.to_owned()]
    };
    let rows: Vec<[String; 4]> = values.into_iter().map(line).collect();
    output::write(to, output::table(&rows).as_bytes())
}
