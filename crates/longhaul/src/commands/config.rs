//! `longhaul config`: what is in force and where each value came from.

use serde::Serialize;
use serde_json::Value;

use crate::cli::ConfigArgs;
use crate::config::{Environment, Leaf, Origin, Settings};
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
}

impl<'s> Row<'s> {
    fn new(leaf: &'s Leaf) -> Self {
        Row { key: leaf.path.join("."), value: &leaf.value, origin: &leaf.origin }
    }
}

pub(crate) fn run(args: &ConfigArgs, environment: &Environment) -> Result<(), Failure> {
    let settings = Settings::load(args.config.config.as_deref(), environment, Vec::new())?;
    let to = args.answer.output.as_deref();
    if args.answer.json {
        let values = settings.values.iter().map(Row::new).collect();
        return output::write_json(
            to,
            &Answer { values, notes: &settings.notes, warnings: &settings.warnings },
        );
    }
    settings.say_notes(&settings.warnings);
    let rows: Vec<[String; 3]> = settings
        .values
        .iter()
        .map(|leaf| [leaf.path.join("."), leaf.value.to_string(), leaf.origin.to_string()])
        .collect();
    output::write(to, output::table(&rows).as_bytes())
}
