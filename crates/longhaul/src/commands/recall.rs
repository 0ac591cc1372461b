//! `longhaul recall`: a removed block again.

use std::process::ExitCode;

use crate::cli::RecallArgs;
use crate::failure::Failure;
use crate::{input, originals, output};

pub(crate) fn run(args: &RecallArgs) -> Result<ExitCode, Failure> {
    let shown = input::shown(&args.originals);
    let Some(row) = originals::find(&input::read_text(&args.originals)?, &args.handle) else {
        output::say(&format!(
            "{shown} has no block {}; its handles stand in the digests and in the report",
            args.handle
        ));
        return Ok(ExitCode::from(1));
    };
    let to = args.answer.output.as_deref();
    if args.answer.json {
        output::write_json(to, &row)?;
    } else {
        output::write(to, row.text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
