//! `longhaul check`: what a provider would refuse, and what a rewrite must not have changed.

use std::path::PathBuf;
use std::process::ExitCode;

use longhaul_engine::Dialect;
use longhaul_engine::check::{self, RULES, Severity, Violation};
use serde::Serialize;

use crate::body::{self, Body};
use crate::cli::CheckArgs;
use crate::failure::Failure;
use crate::output::{self, BAD, FAIR, GOOD, Line, Page, STRONG};

/// The rule that calls need the definitions of their tools. Where a session's file does not hold these, its agent still sends them.
const NEEDS_TOOLS: &str = "A10";

#[derive(Serialize)]
struct Answer {
    dialect: Dialect,
    dialect_sure: bool,
    host: &'static str,
    model: String,
    violations: Vec<Violation>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let to = args.answer.to();
    let Some(path) = &args.body else {
        list_rules(args)?;
        return Ok(ExitCode::SUCCESS);
    };
    output::refuse_inputs(
        to,
        [Some(path), args.before.as_ref()].into_iter().flatten().map(PathBuf::as_path),
    )?;
    let body = Body::read(path, &args.told)?;
    body.say_session(&args.answer);
    let (transcript, _) = body.parse(&args.told)?;
    let model = body::model(&args.told, &transcript);
    let target = model.target(transcript.dialect);
    let mut violations = check::check(&body.text, transcript.dialect, &target);
    if let Some(before) = &args.before {
        let before = Body::read(before, &args.told)?;
        before.parse(&args.told)?;
        violations.extend(check::compare(&before.text, &body.text, transcript.dialect, &target));
    }
    if body.session.as_ref().is_some_and(|read| read.session.tools.is_none()) {
        violations.retain(|violation| violation.rule != NEEDS_TOOLS);
    }
    violations.sort_by_key(|violation| violation.severity);
    let refused = violations.iter().any(|violation| violation.severity == Severity::Error);
    let (dialect, dialect_sure) = (transcript.dialect, transcript.dialect_sure);
    let answer = Answer { dialect, dialect_sure, host: target.host.name(), model: model.name, violations };
    if args.answer.json {
        output::write_json(to, &answer)?;
    } else {
        output::give(to, &page(&body.shown, &answer))?;
    }
    Ok(if refused { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn page(shown: &str, answer: &Answer) -> Page {
    let Answer { dialect, host, model, violations, .. } = answer;
    let sure = match (answer.dialect_sure, dialect) {
        (true, _) => "",
        (false, Dialect::Messages) => " (by its shape it could be chat too; --dialect tells)",
        (false, _) => " (by its shape it could be messages too; --dialect tells)",
    };
    let mut page = Page::default();
    for Violation { rule, severity, at, message } in violations {
        let at = if at.is_empty() { "/" } else { at };
        let style = if *severity == Severity::Error { BAD } else { FAIR };
        let line = Line::default().styled(style, format!("{:7}", name(*severity)));
        page.line(line.plain(format!(" {rule:4} {at}: {message}")));
    }
    let count = |severity| violations.iter().filter(|v| v.severity == severity).count();
    let (style, verdict) = match (count(Severity::Error), count(Severity::Warning), count(Severity::Silent)) {
        (0, 0, 0) => (GOOD, "accepted".to_owned()),
        (0, warnings, silent) => {
            (FAIR, format!("accepted, as far as is known; warnings: {warnings}, silent losses: {silent}"))
        }
        (errors, warnings, silent) => {
            (BAD, format!("refused; errors: {errors}, warnings: {warnings}, silent losses: {silent}"))
        }
    };
    let line = Line::default().styled(STRONG, shown);
    page.line(line.plain(format!(": {dialect} for {model} on {host}{sure}: ")).styled(style, verdict));
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
    let to = args.answer.to();
    if args.answer.json {
        return output::write_json(to, &RULES);
    }
    let mut page = Page::default();
    page.table(RULES.iter().map(|rule| [rule.number, name(rule.severity), rule.meaning]));
    output::give(to, &page)
}
