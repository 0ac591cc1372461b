//! `longhaul engines`: the engines there are.

use longhaul_engine::models;
use longhaul_engine::plan::{Engine, Engines};
use longhaul_engine::policy::Policy;
use serde::Serialize;

use crate::cli::EnginesArgs;
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::output::{self, GOOD, Line, Page, STRONG};

#[derive(Serialize)]
struct Row<'e> {
    name: String,
    does: &'e str,
    /// Whether it is the one that compacts where none is named.
    in_force: bool,
}

impl<'e> Row<'e> {
    fn of(engine: &'e dyn Engine, policy: &Policy) -> Self {
        let name = engine.name();
        Self { in_force: name == policy.engine, name: name.to_string(), does: engine.about() }
    }
}

pub(crate) fn run(args: &EnginesArgs, environment: &Environment) -> Result<(), Failure> {
    let settings = Settings::load(args.config.config.as_deref(), environment, Vec::new())?;
    let (policy, _) = Policy::new(&settings.engine, &models::find("unknown"))
        .map_err(|invalid| settings.refused(&invalid))?;
    let engines = Engines::default();
    let rows: Vec<Row<'_>> = engines.all().map(|engine| Row::of(engine, &policy)).collect();
    let to = args.answer.to();
    if args.answer.json {
        return output::write_json(to, &rows);
    }
    settings.say_notes(&[]);
    let mut page = Page::default();
    page.table(rows.iter().map(|row| {
        let force = if row.in_force { "in force" } else { "" };
        [Line::default().styled(STRONG, &row.name), row.does.into(), Line::default().styled(GOOD, force)]
    }));
    output::give(to, &page)
}
