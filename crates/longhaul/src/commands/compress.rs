//! `longhaul compress`: one compaction of one body.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use longhaul_engine::Tokens;
use longhaul_engine::known::Known;
use longhaul_engine::plan::{Fate, Keep, Outcome, Plan, Report, Step, Trigger, Wish};
use longhaul_engine::policy::Policy;
use longhaul_engine::redact::SessionKey;
use serde::Serialize;

use super::stats::Row;
use crate::body::{self, Body};
use crate::cli::CompressArgs;
use crate::config::{Environment, Settings};
use crate::engine;
use crate::failure::Failure;
use crate::originals::{self, Secrets};
use crate::output;

/// The report, with what only the caller knows.
#[derive(Serialize)]
struct Answer<'r> {
    body: &'r str,
    #[serde(flatten)]
    report: &'r Report,
    elapsed_ms: f64,
}

pub(crate) fn run(args: &CompressArgs, environment: &Environment) -> Result<(), Failure> {
    let start = Instant::now();
    if args.answer.json && args.answer.output.is_none() && !args.preview {
        return Err(Failure::Wrong(
            "--json without -o would mix the report with the body; give -o FILE".to_owned(),
        ));
    }
    refuse_shared_files(args)?;
    let body = Body::read(&args.body)?;
    let (transcript, notes) = body.parse(&args.told)?;
    let model = body::model(&args.told, &transcript);
    let settings =
        Settings::load(args.config.config.as_deref(), environment, args.policy.flags(&model.name))?;
    let (policy, _) = Policy::new(&settings.config, &model).map_err(|invalid| settings.refused(&invalid))?;
    let kept = args.originals.as_ref().map(|file| (file, Secrets::Out));
    let kept = kept.or(args.originals_raw.as_ref().map(|file| (file, Secrets::AsTheyWere)));
    let wish = Wish {
        trigger: Trigger::Manual,
        force: args.force,
        to_tokens: args.to_tokens.map(Tokens),
        focus: args.focus.clone(),
        keep: if kept.is_some() { Keep::Originals(document_key(&body.text)) } else { Keep::Nothing },
        session: None,
    };
    let plan = engine::plan(&policy, &wish, &mut Known::default(), &transcript).map_err(|refused| {
        Failure::World(format!("a mistake of ours kept {} as it is: {refused}", body.shown))
    })?;
    let (mut report, outcome) = match plan {
        Plan::Leave(report) => (report, None),
        Plan::Ready(outcome) => (outcome.report.clone(), Some(outcome)),
    };
    report.notes.extend(body::note_lines(&transcript, &notes));
    if model.is_assumed("window") && args.policy.context_length.is_none() {
        report.notes.push(format!("the window of {} is assumed to be {} tokens", model.name, policy.window));
    }
    let answer =
        Answer { body: &body.shown, report: &report, elapsed_ms: start.elapsed().as_secs_f64() * 1_000.0 };
    if !args.quiet {
        say(&report, &policy);
    }
    write(args, &body.text, outcome, kept)?;
    if let Some(file) = args.log.as_deref().filter(|_| report.changed && !args.preview) {
        log(file, &report)?;
    }
    if let Some(file) = &args.report {
        output::write_json(Some(file), &answer)?;
    }
    if args.answer.json {
        output::write_json(args.answer.output.as_deref().filter(|_| args.preview), &answer)?;
    }
    Ok(())
}

/// Refuses a call in which one file would be written over by another. The body's own file may take the result.
fn refuse_shared_files(args: &CompressArgs) -> Result<(), Failure> {
    let kept = args.originals.as_deref().or(args.originals_raw.as_deref());
    let written = [
        ("-o", args.answer.output.as_deref()),
        ("--originals", kept),
        ("--report", args.report.as_deref()),
        ("--log", args.log.as_deref()),
    ];
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut files: Vec<(&str, std::path::PathBuf)> = Vec::new();
    for (option, path) in written.into_iter().filter_map(|(option, path)| Some((option, real(path?)))) {
        if let Some((other, _)) = files.iter().find(|(_, file)| *file == path) {
            return Err(Failure::Wrong(format!(
                "{other} and {option} name the same file; give each its own"
            )));
        }
        if option != "-o" && path == real(&args.body) {
            return Err(Failure::Wrong(format!("{option} names the body's own file; give it another")));
        }
        files.push((option, path));
    }
    Ok(())
}

/// Handles of one document: the same body gives the same ones.
fn document_key(text: &str) -> SessionKey {
    SessionKey::new(*blake3::hash(text.as_bytes()).as_bytes())
}

/// Writes the originals, then the body: what is removed is safe before it is gone.
fn write(
    args: &CompressArgs,
    before: &str,
    outcome: Option<Outcome>,
    kept: Option<(&std::path::PathBuf, Secrets)>,
) -> Result<(), Failure> {
    if args.preview {
        return Ok(());
    }
    let Some(Outcome { body, originals, .. }) = outcome else {
        return output::write(args.answer.output.as_deref(), before.as_bytes());
    };
    if let Some((file, secrets)) = kept {
        originals::append(file, originals, secrets)?;
    }
    output::write(args.answer.output.as_deref(), body.as_bytes())
}

/// One line when it starts, one when it is done, and what a person should know.
fn say(report: &Report, policy: &Policy) {
    let before = report.tokens.before;
    let share = 100.0 * before.number() as f64 / policy.window.max(1) as f64;
    output::say(&format!(
        "{before} tokens, {share:.0} % of the window of {}; {}: {}",
        output::grouped(policy.window as u64),
        report.engine,
        report.reason
    ));
    if report.changed {
        let saved = 100.0 * report.ratio;
        let (messages, tokens) = (&report.messages, &report.tokens);
        let digested = report.blocks.iter().filter(|block| block.fate == Fate::Digested).count();
        output::say(&format!(
            "{} → {} tokens ({saved:.0} % smaller), {} → {} messages; {digested} outputs digested, {} units dropped",
            tokens.before, tokens.after, messages.before, messages.after, report.units.dropped
        ));
    } else {
        output::say("nothing changed");
    }
    for rung in &report.ladder {
        let step = match rung.step {
            Step::DigestAll => "still too large: every output outside the protected zone became a line",
            Step::DropOldest => "still too large: the oldest units were dropped",
            Step::Restart => "still too large: a new session begins with what was said first and last",
        };
        output::say(&format!("{step}, {} → {} tokens", rung.tokens[0], rung.tokens[1]));
    }
    if report.changed && report.blocks.iter().any(|block| block.handle.is_none()) {
        output::say("what was removed is not kept; --originals FILE keeps it");
    }
    report.notes.iter().for_each(|note| output::say(note));
}

fn log(file: &Path, report: &Report) -> Result<(), Failure> {
    let row = Row {
        engine: report.engine.clone(),
        reason: report.reason.clone(),
        tokens_before: report.tokens.before.number(),
        tokens_after: report.tokens.after.number(),
        messages_before: report.messages.before,
        messages_after: report.messages.after,
        ratio: report.ratio,
    };
    let shown = file.display();
    let world = |error: &dyn std::fmt::Display| Failure::World(format!("cannot append to {shown}: {error}"));
    let line = serde_json::to_string(&row).map_err(|error| world(&error))? + "\n";
    let open = OpenOptions::new().create(true).append(true).open(file);
    open.and_then(|mut log| log.write_all(line.as_bytes())).map_err(|error| world(&error))
}
