//! `longhaul check`: what a provider would refuse, and what a rewrite must not have changed.

use std::fmt::Write;
use std::process::ExitCode;

use longhaul_engine::Dialect;
use longhaul_engine::check::{self, RULES, Severity, Violation};
use serde::Serialize;

use crate::body::{self, Body};
use crate::cli::CheckArgs;
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct Answer {
    dialect: Dialect,
    dialect_sure: bool,
    host: &'static str,
    model: String,
    violations: Vec<Violation>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let to = args.answer.output.as_deref();
    let Some(path) = &args.body else {
        list_rules(args)?;
        return Ok(ExitCode::SUCCESS);
    };
    let body = Body::read(path)?;
    let (transcript, _) = body.parse(&args.told)?;
    let model = body::model(&args.told, &transcript);
    let target = model.target(transcript.dialect);
    let mut violations = check::check(&body.text, transcript.dialect, &target);
    if let Some(before) = &args.before {
        let before = Body::read(before)?;
        before.parse(&args.told)?;
        violations.extend(check::compare(&before.text, &body.text, transcript.dialect, &target));
    }
    violations.sort_by_key(|violation| violation.severity);
    let refused = violations.iter().any(|violation| violation.severity == Severity::Error);
    let (dialect, dialect_sure) = (transcript.dialect, transcript.dialect_sure);
    let answer = Answer { dialect, dialect_sure, host: target.host.name(), model: model.name, violations };
    if args.answer.json {
        output::write_json(to, &answer)?;
    } else {
        output::write(to, page(&body.shown, &answer).as_bytes())?;
    }
    Ok(if refused { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn page(shown: &str, answer: &Answer) -> String {
    let Answer { dialect, host, model, violations, .. } = answer;
    let sure = match (answer.dialect_sure, dialect) {
        (true, _) => "",
        (false, Dialect::Messages) => " (by its shape it could be chat too; --dialect tells)",
        (false, _) => " (by its shape it could be messages too; --dialect tells)",
    };
    let mut page = String::new();
    for Violation { rule, severity, at, message } in violations {
        let at = if at.is_empty() { "/" } else { at };
        let _ = writeln!(page, "{:7} {rule:4} {at}: {message}", name(*severity));
    }
    let count = |severity| violations.iter().filter(|v| v.severity == severity).count();
    let verdict = match (count(Severity::Error), count(Severity::Warning), count(Severity::Silent)) {
        (0, 0, 0) => "accepted".to_owned(),
        (0, warnings, silent) => {
            format!("accepted, as far as is known; warnings: {warnings}, silent losses: {silent}")
        }
        (errors, warnings, silent) => {
            format!("refused; errors: {errors}, warnings: {warnings}, silent losses: {silent}")
        }
    };
    let _ = writeln!(page, "{shown}: {dialect} for {model} on {host}{sure}: {verdict}");
    page
}

fn name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Silent => "silent",
    }
}

fn list_rules(args: &CheckArgs) -> Result<(), Failure> {
    let to = args.answer.output.as_deref();
    if args.answer.json {
        return output::write_json(to, &RULES);
    }
    let rows: Vec<[String; 3]> = RULES
        .iter()
        .map(|r| [r.number.to_owned(), name(r.severity).to_owned(), r.meaning.to_owned()])
        .collect();
    output::write(to, output::table(&rows).as_bytes())
}
