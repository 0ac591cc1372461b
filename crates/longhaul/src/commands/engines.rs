//! `longhaul engines`: the engines there are.

use longhaul_engine::models;
use longhaul_engine::policy::{EngineName, Policy};
use serde::Serialize;

use crate::cli::EnginesArgs;
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::output::{self, GOOD, Line, Page, STRONG};

#[derive(Serialize)]
struct Row {
    name: &'static str,
    does: &'static str,
    /// Whether it is the one that compacts where none is named.
    in_force: bool,
}

pub(crate) fn run(args: &EnginesArgs, environment: &Environment) -> Result<(), Failure> {
    let settings = Settings::load(args.config.config.as_deref(), environment, Vec::new())?;
    let (policy, _) = Policy::new(&settings.engine, &models::find("unknown"))
        .map_err(|invalid| settings.refused(&invalid))?;
    let row = |engine: EngineName| Row {
        name: engine.name(),
        does: does(engine),
        in_force: engine == policy.engine,
    };
    let rows = EngineName::ALL.map(row);
    let to = args.answer.to();
    if args.answer.json {
        return output::write_json(to, &rows);
    }
    settings.say_notes(&[]);
    let mut page = Page::default();
    page.table(rows.map(|row| {
        let force = if row.in_force { "in force" } else { "" };
        [Line::default().styled(STRONG, row.name), row.does.into(), Line::default().styled(GOOD, force)]
    }));
    output::give(to, &page)
}

/// What an engine does, in a line.
pub(crate) fn does(engine: EngineName) -> &'static str {
    match engine {
        EngineName::Compressor => {
            "shortens what is old and, if that is not enough, folds it into a checkpoint; the default"
        }
        EngineName::SacredZone => "digests old tool outputs only, the largest first; nothing is folded",
    }
}
