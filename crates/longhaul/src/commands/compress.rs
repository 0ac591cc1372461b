//! `longhaul compress`: one compaction of each body.
//!
//! ```text
//! BODY ──one document──▶ job ──▶ show, outputs
//!   └──── a body a line, several files ──▶ many: the same on all cores, in order
//! ```

use std::process::ExitCode;

use crate::body::Body;
use crate::cli::CompressArgs;
use crate::config::Environment;
use crate::failure::Failure;
use crate::input::{self, Held, Lines};
use crate::output::{self, Layout};

use job::{Call, Memory};
use outputs::Outputs;

mod job;
mod many;
mod outputs;
mod places;
mod show;

pub(crate) fn run(args: &CompressArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    places::refuse(args)?;
    let call = Call::new(args, environment)?;
    match args.bodies.as_slice() {
        [path] if args.jsonl => many::lines(&call, Lines::open(path)?),
        [path] if args.out_dir.is_none() => match input::one_or_lines(path)? {
            Held::One(bytes) => one(&call, bytes),
            Held::Lines(lines) => many::lines(&call, lines),
        },
        _ => many::files(&call),
    }
}

fn one(call: &Call<'_>, bytes: Vec<u8>) -> Result<ExitCode, Failure> {
    let args = call.args;
    let shown = input::shown(&args.bodies[0]);
    let text = input::text(&shown, bytes)?;
    let body = Body { shown, text };
    let done = call.compress(&mut Memory::default(), &body)?;
    if !args.quiet {
        for line in show::headlines(&done) {
            output::say(&line);
        }
        output::show(&show::page(call, &done), args.color.into());
    }
    let mut outputs = Outputs::open(call, Layout::Page)?;
    if !args.preview {
        outputs.keep(&done)?;
        let text = done.text.as_deref().unwrap_or(&body.text);
        output::write(args.answer.output.as_deref(), text.as_bytes())?;
    }
    outputs.tell(&done)?;
    outputs.close()?;
    Ok(ExitCode::SUCCESS)
}
