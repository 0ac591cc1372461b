//! `longhaul compress`: compacts each request body once.
//!
//! ```text
//! one request body ────────────────▶ compact_request ──▶ text_page, side_outputs
//! several files, or one per line ──▶ batch: the same on all cores, with results in input order
//! ```

use std::path::Path;
use std::process::ExitCode;

use longhaul_engine::transcript::TurnKind;
use longhaul_engine::wire;

use crate::cli::{CompressArgs, ResultPart};
use crate::config::Environment;
use crate::failure::Failure;
use crate::input::{self, InputContent, InputLines};
use crate::output::{self, JsonLayout};
use crate::request_body::RequestBody;
use crate::{agent_session, store};

use compact_request::{CompressResult, CompressRun, WorkerCache};
use side_outputs::SideOutputs;

mod backup;
mod batch;
mod compact_request;
mod diff;
mod live;
mod model_summary;
mod output_paths;
mod side_outputs;
mod stored_session;
mod text_page;

pub(crate) fn run(args: &CompressArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    if let Some(session) = &args.live {
        return live::run(args, session, environment);
    }
    output_paths::check_paths(args)?;
    let run = CompressRun::new(args, environment)?;
    if let ([path], false) = (args.bodies.as_slice(), args.out_dir.is_some())
        && store::session_name_in(path).is_some()
    {
        let body = run.read_request(path)?;
        if args.in_place {
            refuse_replacing_session(&body)?;
        }
        return compress_one(&run, &body);
    }
    if let ([path], false) = (args.bodies.as_slice(), args.jsonl || args.out_dir.is_some())
        && let Some(loaded) = agent_session::load(path, &args.input, args.input.extent())?
    {
        let body = RequestBody::from_agent_session(loaded);
        if args.in_place {
            refuse_replacing_session(&body)?;
        }
        if !args.quiet {
            body.print_session_notes(&args.output);
        }
        return compress_one(&run, &body);
    }
    match args.bodies.as_slice() {
        [path] if args.jsonl => batch::compress_lines(&run, InputLines::open(path)?),
        [path] if args.out_dir.is_none() => match input::read_single_or_lines(path)? {
            InputContent::Single(bytes) => {
                let shown = input::label(path);
                let text = input::decode_text(&shown, bytes)?;
                compress_one(&run, &RequestBody::from_text(shown, text))
            }
            InputContent::Lines(_) if args.show.is_some() => {
                let shown = input::label(path);
                Err(Failure::InvalidInput(format!("{shown} contains several requests; --show accepts one")))
            }
            InputContent::Lines(lines) => batch::compress_lines(&run, lines),
        },
        _ => batch::compress_files(&run),
    }
}

/// Refuses `--in-place` for a session: its file belongs to the agent or the store, and is not a request body.
fn refuse_replacing_session(body: &RequestBody) -> Result<(), Failure> {
    let agents = body.agent_session.as_ref().map(|loaded| loaded.session.agent.name());
    match agents.or(body.stored_session.as_ref().map(|_| "the store")) {
        Some(owner) => Err(Failure::InvalidInput(format!(
            "{} is a session of {owner} and cannot be replaced; give -o FILE",
            body.label
        ))),
        None => Ok(()),
    }
}

fn compress_one(run: &CompressRun<'_>, body: &RequestBody) -> Result<ExitCode, Failure> {
    let args = run.args;
    let result = run.compress(&mut WorkerCache::with_all_cores(), body)?;
    if !args.quiet {
        for line in text_page::headlines(&result) {
            output::print_message(&line);
        }
        output::print_page(&text_page::page(run, &result));
    }
    let shortfall = result.shortfall_message();
    if let Some(line) = &shortfall {
        output::print_failure(line);
    }
    let mut outputs = SideOutputs::open(run, JsonLayout::Pretty)?;
    let text = result.text.as_deref().unwrap_or(&body.text);
    if !args.is_preview() {
        outputs.save_originals(&result)?;
        match args.bodies.first().filter(|_| args.in_place) {
            Some(file) => write_request(args, file, body, &result)?,
            None => output::write(args.output.file(), text.as_bytes())?,
        }
    }
    outputs.write_result(&result)?;
    outputs.close()?;
    if args.show == Some(ResultPart::Checkpoint) {
        print_checkpoint(args, &body.label, text)?;
    }
    Ok(ExitCode::from(u8::from(shortfall.is_some())))
}

/// Writes a result to its file. With `--in-place`, it writes only a changed request, and makes a backup
/// first.
fn write_request(args: &CompressArgs, file: &Path, body: &RequestBody, result: &CompressResult) -> Result<(), Failure> {
    if args.in_place {
        if result.text.is_none() {
            return Ok(());
        }
        let backup = backup::create_backup(file)?;
        if !args.quiet {
            output::print_message(&format!("the backup of {} is {}", file.display(), backup.display()));
        }
    }
    output::write(Some(file), result.text.as_deref().unwrap_or(&body.text).as_bytes())
}

/// Prints the newest checkpoint in a request body, or fails if there is none.
fn print_checkpoint(args: &CompressArgs, shown: &str, text: &str) -> Result<(), Failure> {
    let (transcript, _) =
        wire::parse(args.input.dialect, text).map_err(|error| Failure::InvalidInput(format!("{shown} is {error}")))?;
    let checkpoint = transcript.turns.iter().rev().find_map(|turn| match &turn.kind {
        TurnKind::Checkpoint(block) => Some(block.text()),
        _ => None,
    });
    match checkpoint {
        Some(checkpoint) => output::write(args.output.file(), format!("{}\n", checkpoint.trim_end()).as_bytes()),
        None => Err(Failure::Negative(format!(
            "{shown} has no checkpoint, because nothing was summarized; --to-tokens N requests a smaller result"
        ))),
    }
}
