//! `longhaul check`: lists what a provider would refuse, and with `--before` what a rewrite must not have
//! changed.

use std::borrow::Cow;
use std::path::PathBuf;
use std::process::ExitCode;

use longhaul_engine::ApiFormat;
use longhaul_engine::check::{self, RULES, Severity, Violation};
use serde::Serialize;

use crate::cli::CheckArgs;
use crate::failure::Failure;
use crate::output::{self, EMPHASIS_STYLE, ERROR_STYLE, Page, SUCCESS_STYLE, StyledLine, WARNING_STYLE};
use crate::request_body::{self, RequestBody};

/// The rule that tool calls need the definitions of their tools. It is ignored for a session file without
/// definitions, because the agent sends them anyway.
const TOOLS_RULE: &str = "A10";

#[derive(Serialize)]
struct CheckOutput {
    dialect: ApiFormat,
    dialect_sure: bool,
    host: &'static str,
    model: String,
    violations: Vec<Violation>,
}

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let to = args.output.file();
    let Some(path) = &args.body else {
        list_rules(args)?;
        return Ok(ExitCode::SUCCESS);
    };
    output::refuse_overwriting_inputs(
        to,
        [Some(path), args.before.as_ref()].into_iter().flatten().map(PathBuf::as_path),
    )?;
    let body = RequestBody::read(path, &args.input)?;
    body.print_session_notes(&args.output);
    let (transcript, _) = body.parse(&args.input)?;
    let model = request_body::stated_model(&args.input, &transcript);
    let target = model.target(transcript.api_format);
    let sent =
        body.agent_session.as_ref().map_or(Cow::Borrowed(&body.text), |loaded| Cow::Owned(loaded.body_with_prompt()));
    let mut violations = check::check(&sent, transcript.api_format, &target);
    if let Some(before) = &args.before {
        let before = RequestBody::read(before, &args.input)?;
        before.parse(&args.input)?;
        violations.extend(check::compare(&before.text, &body.text, transcript.api_format, &target));
    }
    if body.agent_session.as_ref().is_some_and(|loaded| loaded.session.tools.is_none()) {
        violations.retain(|violation| violation.rule != TOOLS_RULE);
    }
    violations.sort_by_key(|violation| violation.severity);
    let refused = violations.iter().any(|violation| violation.severity == Severity::Error);
    let (api_format, dialect_sure) = (transcript.api_format, transcript.is_api_format_certain);
    let output =
        CheckOutput { dialect: api_format, dialect_sure, host: target.host.name(), model: model.name, violations };
    if args.output.json {
        output::write_json(to, &output)?;
    } else {
        output::write_page(to, &page(&body.label, &output))?;
    }
    Ok(if refused { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn page(shown: &str, output: &CheckOutput) -> Page {
    let CheckOutput { dialect, host, model, violations, .. } = output;
    let sure = match (output.dialect_sure, dialect) {
        (true, _) => "",
        (false, ApiFormat::Messages) => " (its shape also fits chat; set --dialect)",
        (false, _) => " (its shape also fits messages; set --dialect)",
    };
    let mut page = Page::default();
    for Violation { rule, severity, at, message } in violations {
        let at = if at.is_empty() { "/" } else { at };
        let style = if *severity == Severity::Error { ERROR_STYLE } else { WARNING_STYLE };
        let line = StyledLine::default().styled(style, format!("{:7}", severity_name(*severity)));
        page.add_line(line.plain(format!(" {rule:4} {at}: {message}")));
    }
    let count = |severity| violations.iter().filter(|v| v.severity == severity).count();
    let (style, verdict) = match (count(Severity::Error), count(Severity::Warning), count(Severity::Silent)) {
        (0, 0, 0) => (SUCCESS_STYLE, "accepted".to_owned()),
        (0, warnings, silent) => {
            (WARNING_STYLE, format!("accepted, as far as is known; warnings: {warnings}, silent losses: {silent}"))
        }
        (errors, warnings, silent) => {
            (ERROR_STYLE, format!("refused; errors: {errors}, warnings: {warnings}, silent losses: {silent}"))
        }
    };
    let line = StyledLine::default().styled(EMPHASIS_STYLE, shown);
    page.add_line(line.plain(format!(": {dialect} for {model} on {host}{sure}: ")).styled(style, verdict));
    page
}

fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Silent => "silent",
    }
}

fn list_rules(args: &CheckArgs) -> Result<(), Failure> {
    let to = args.output.file();
    if args.output.json {
        return output::write_json(to, &RULES);
    }
    let mut page = Page::default();
    page.add_table(RULES.iter().map(|rule| [rule.number, severity_name(rule.severity), rule.meaning]));
    output::write_page(to, &page)
}
