//! `longhaul compress`: one compaction of each body.
//!
//! ```text
//! BODY ──one document──▶ job ──▶ show, outputs
//!   └──── a body a line, several files ──▶ many: the same on all cores, in order
//! ```

use std::path::Path;
use std::process::ExitCode;

use longhaul_engine::transcript::UnitKind;
use longhaul_engine::wire;

use crate::body::Body;
use crate::cli::{CompressArgs, Shown};
use crate::config::Environment;
use crate::failure::Failure;
use crate::input::{self, Held, Lines};
use crate::output::{self, Layout};
use crate::{session, store};

use job::{Call, Memory};
use outputs::Outputs;

mod asked;
mod backup;
mod diff;
mod job;
mod live;
mod many;
mod outputs;
mod places;
mod recorded;
mod show;

pub(crate) fn run(args: &CompressArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    if let Some(session) = &args.live {
        return live::run(args, session, environment);
    }
    places::refuse(args)?;
    let call = Call::new(args, environment)?;
    if let ([path], false) = (args.bodies.as_slice(), args.out_dir.is_some())
        && store::named(path).is_some()
    {
        let body = call.read(path)?;
        if args.in_place {
            refuse_session(&body)?;
        }
        return one(&call, &body);
    }
    if let ([path], false) = (args.bodies.as_slice(), args.jsonl || args.out_dir.is_some())
        && let Some(read) = session::read(path, &args.told, args.told.extent())?
    {
        let body = Body::of_session(read);
        if args.in_place {
            refuse_session(&body)?;
        }
        if !args.quiet {
            body.say_session(&args.answer);
        }
        return one(&call, &body);
    }
    match args.bodies.as_slice() {
        [path] if args.jsonl => many::lines(&call, Lines::open(path)?),
        [path] if args.out_dir.is_none() => match input::one_or_lines(path)? {
            Held::One(bytes) => {
                let shown = input::shown(path);
                let text = input::text(&shown, bytes)?;
                one(&call, &Body::of_text(shown, text))
            }
            Held::Lines(_) if args.show.is_some() => {
                let shown = input::shown(path);
                Err(Failure::Wrong(format!("{shown} holds several bodies; --show takes one")))
            }
            Held::Lines(lines) => many::lines(&call, lines),
        },
        _ => many::files(&call),
    }
}

/// A session's file is its agent's, and no body.
fn refuse_session(body: &Body) -> Result<(), Failure> {
    let agents = body.session.as_ref().map(|read| read.session.agent.name());
    match agents.or(body.stored.as_ref().map(|_| "the store")) {
        Some(whose) => Err(Failure::Wrong(format!(
            "{} is a session of {whose}, which no result can replace; give -o FILE",
            body.shown
        ))),
        None => Ok(()),
    }
}

fn one(call: &Call<'_>, body: &Body) -> Result<ExitCode, Failure> {
    let args = call.args;
    let done = call.compress(&mut Memory::for_one_body(), body)?;
    if !args.quiet {
        for line in show::headlines(&done) {
            output::say(&line);
        }
        output::show(&show::page(call, &done));
    }
    let shortfall = done.shortfall();
    if let Some(line) = &shortfall {
        output::say_failure(line);
    }
    let mut outputs = Outputs::open(call, Layout::Page)?;
    let text = done.text.as_deref().unwrap_or(&body.text);
    if !args.is_preview() {
        outputs.keep(&done)?;
        match args.bodies.first().filter(|_| args.in_place) {
            Some(file) => write(args, file, text, done.text.is_some())?,
            None => output::write(args.answer.to(), text.as_bytes())?,
        }
    }
    outputs.tell(&done)?;
    outputs.close()?;
    if args.show == Some(Shown::Checkpoint) {
        show_checkpoint(args, &body.shown, text)?;
    }
    Ok(ExitCode::from(u8::from(shortfall.is_some())))
}

/// Writes a result to its file. In place of its body only if it differs, and not before that is kept.
fn write(args: &CompressArgs, file: &Path, text: &str, changed: bool) -> Result<(), Failure> {
    if args.in_place {
        if !changed {
            return Ok(());
        }
        let backup = backup::keep(file)?;
        if !args.quiet {
            output::say(&format!("{} was kept as {}", file.display(), backup.display()));
        }
    }
    output::write(Some(file), text.as_bytes())
}

/// Prints the checkpoint that stands in a body.
fn show_checkpoint(args: &CompressArgs, shown: &str, text: &str) -> Result<(), Failure> {
    let (transcript, _) = wire::parse(args.told.dialect, text)
        .map_err(|error| Failure::Wrong(format!("{shown} is {error}")))?;
    let checkpoint = transcript.units.iter().rev().find_map(|unit| match &unit.kind {
        UnitKind::Checkpoint(block) => Some(block.text()),
        _ => None,
    });
    match checkpoint {
        Some(checkpoint) => {
            output::write(args.answer.to(), format!("{}\n", checkpoint.trim_end()).as_bytes())
        }
        None => Err(Failure::No(format!(
            "no checkpoint was made of {shown}: nothing was folded; --to-tokens N asks for a smaller result"
        ))),
    }
}
