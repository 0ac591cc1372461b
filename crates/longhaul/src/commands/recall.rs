//! `longhaul recall`: a removed block again.

use std::process::ExitCode;

use serde::Serialize;

use crate::cli::RecallArgs;
use crate::failure::Failure;
use crate::originals::{self, Row};
use crate::{input, output};

#[derive(Serialize)]
struct Answer<'r> {
    #[serde(flatten)]
    row: &'r Row,
    /// Whether the text is still the one that was kept.
    intact: bool,
}

pub(crate) fn run(args: &RecallArgs) -> Result<ExitCode, Failure> {
    let to = args.answer.to();
    output::refuse_inputs(to, [args.originals.as_path()])?;
    let (shown, handle) = (input::shown(&args.originals), &args.handle);
    let Some(row) = originals::find(&input::read_text(&args.originals)?, handle) else {
        return Err(Failure::No(format!(
            "{shown} has no block {handle}; its handles stand in the digests and in the report"
        )));
    };
    let intact = row.is_intact();
    if args.answer.json {
        output::write_json(to, &Answer { row: &row, intact })?;
    } else {
        output::write(to, row.text.as_bytes())?;
    }
    if intact {
        return Ok(ExitCode::SUCCESS);
    }
    output::say_failure(&format!(
        "the block {handle} in {shown} does not match its hash: its text was changed after it was kept"
    ));
    Ok(ExitCode::from(1))
}
