//! Finds the lines of a tool result that show how the call ended: the error line, the totals of a test run,
//! or else the last output.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::weights::{
    self, MAX_KEY_LINE_BYTES, MAX_KEY_LINES, MAX_QUOTED_ERRORS, MAX_SEARCHED_BYTES, SHORT_OUTPUT_BYTES,
    SHORT_OUTPUT_LINES, TAIL_BYTES,
};
use super::words::{EVIDENCE_WORDS, contains_any};
use super::{NamedValue, json_fields, named_values};
use crate::action::{Action, Outcome, Verb};
use crate::block_cache::ContentKey;
use crate::digest::OUTPUT_WORDS;
use crate::facts::{FactKind, Facts};
use crate::tools::values_named;
use crate::transcript::{BlockKind, ToolCall};
use crate::truncate;

/// The lines or fields of a tool result that show how the call ended.
#[derive(Debug)]
pub(crate) struct KeyLines {
    /// Lines copied from the results, or rendered fields of a JSON result.
    pub(crate) lines: Vec<String>,
    /// Whether `lines` contains JSON fields.
    pub(crate) is_data: bool,
    /// The values in a JSON result that identify something.
    pub(crate) values: Vec<NamedValue>,
    /// The content key of all results together, by which equal results are recognized.
    pub(crate) results_key: ContentKey,
}

impl KeyLines {
    /// Extracts the key lines of a call's results. Fields that repeat one of `arguments` are left out.
    pub(super) fn extract(
        tool_call: &ToolCall<'_>,
        arguments: &Map<String, Value>,
        action: &Action,
        is_refused: bool,
    ) -> Self {
        let mut lines = Vec::new();
        let whole = ContentKey::from_parts(tool_call.results.iter().map(|block| block.raw().as_bytes()));
        let failed = action.outcome == Outcome::Failed || is_refused;
        for block in tool_call.results.iter().filter(|block| block.kind == BlockKind::Text) {
            let size = block.text.map_or(0, |text| text.at.len());
            let is_object = matches!(&*block.opening(2), "{\"" | "[{");
            let is_read = size <= TAIL_BYTES || size <= MAX_SEARCHED_BYTES && (failed || is_object);
            let text = if is_read { block.text() } else { block.ending(TAIL_BYTES) };
            let (text, is_all) = match unwrap_result(&text) {
                UnwrappedResult::Text(words, is_all) => (words, is_all),
                UnwrappedResult::Json(_) if failed => (text.clone(), true),
                UnwrappedResult::Json(value) => {
                    return Self {
                        lines: json_fields::render_fields(&value, arguments),
                        is_data: true,
                        values: named_values::values_of_result(&value),
                        results_key: whole,
                    };
                }
            };
            if failed {
                push_error_lines(&text, &mut lines);
            }
            // The last line of a command that only reads something does not show an outcome.
            if lines.is_empty() && (failed || !action.is_read_only) {
                let ending = truncate::last_bytes(&text, TAIL_BYTES);
                let is_cut = !is_read || ending.len() < text.len();
                // The cut may have left only part of the first line, which would misquote it.
                let rest = ending.split_once('\n').map(|(_, rest)| rest).filter(|_| is_cut);
                push_printed_lines(rest.unwrap_or(ending), action, is_all && !is_cut, &mut lines);
            }
        }
        lines.truncate(MAX_KEY_LINES);
        Self { lines, is_data: false, values: Vec::new(), results_key: whole }
    }

    /// Returns all lines joined into one.
    pub(crate) fn joined(&self) -> String {
        self.lines.join(if self.is_data { ", " } else { " … " })
    }

    pub(super) fn size(&self) -> usize {
        let values = self.values.iter().map(|named| named.name.len() + named.value.len() + 48);
        self.lines.iter().map(String::len).chain(values).sum()
    }
}

/// Returns what a call printed, without the JSON object that an agent may wrap around it.
pub(crate) fn printed_text(result: &str) -> Cow<'_, str> {
    match unwrap_result(result) {
        UnwrappedResult::Text(words, _) => words,
        UnwrappedResult::Json(_) => Cow::Borrowed(result),
    }
}

/// A result without the JSON object that an agent may wrap around it.
enum UnwrappedResult<'t> {
    /// The text, and whether it is the complete output.
    Text(Cow<'t, str>, bool),
    /// An object without a text field, or a list of objects.
    Json(Value),
}

fn unwrap_result(text: &str) -> UnwrappedResult<'_> {
    const NAMES: [&str; 8] = ["output", "stdout", "stderr", "error", "message", "result", "content", "text"];
    let value = match text.trim_start().as_bytes() {
        [b'{', b'"', ..] | [b'[', b'{', ..] => serde_json::from_str(text),
        _ => return UnwrappedResult::Text(Cow::Borrowed(text), text.len() < TAIL_BYTES),
    };
    match value {
        Ok(Value::Object(map)) => {
            let words = values_named(&map, &NAMES).filter_map(Value::as_str).collect::<Vec<_>>();
            match words.iter().find(|words| !words.trim().is_empty()).or(words.first()) {
                Some(words) => UnwrappedResult::Text(Cow::Owned((*words).to_owned()), true),
                None => UnwrappedResult::Json(Value::Object(map)),
            }
        }
        Ok(value) => UnwrappedResult::Json(value),
        Err(_) => UnwrappedResult::Text(Cow::Borrowed(text), false),
    }
}

/// Returns a line without a bracketed remark that the agent added at its end.
fn strip_trailing_wrapper(line: &str) -> &str {
    let in_brackets = wrapper_prefixes().filter(|wrapper| wrapper.starts_with('['));
    let wrapped = in_brackets.filter_map(|wrapper| line.find(wrapper)).min();
    line[..wrapped.unwrap_or(line.len())].trim()
}

fn push_line(line: &str, lines: &mut Vec<String>) {
    let line = truncate::first_bytes(strip_trailing_wrapper(line), MAX_KEY_LINE_BYTES);
    if !line.is_empty() && lines.len() < MAX_KEY_LINES && !lines.iter().any(|other| other == line) {
        lines.push(line.to_owned());
    }
}

/// Adds the lines that report what went wrong: the last line of a stack trace, or the first error lines.
fn push_error_lines(text: &str, lines: &mut Vec<String>) {
    let facts = Facts::scan(text);
    let is_echo = |line: &str| line.starts_with("cd ") || line.starts_with("$ ");
    let says = |line: &str| !is_wrapper(line) && !is_heading(line) && !reports_no_error(line) && !is_echo(line);
    if let Some(metrics) = test_totals_line(text) {
        push_line(metrics, lines);
    }
    // Editors may repeat the whole edit before they report why they refused it, so the search starts at the
    // end.
    if let Some(line) = text.lines().rev().find(|line| contains_any(line, &EVIDENCE_WORDS.refusals)) {
        return push_line(line, lines);
    }
    // Editors that check syntax list the errors below this heading.
    let listed = text.split_once("ERRORS:\n").map(|(_, list)| list.lines().take_while(|line| line.starts_with("- ")));
    if let Some(listed) = listed {
        return listed.take(MAX_QUOTED_ERRORS).for_each(|line| push_line(line.trim_start_matches("- "), lines));
    }
    let specific: Vec<&str> = facts
        .of_kind(FactKind::Error)
        .filter(|fact| fact.is_specific())
        .map(|fact| fact.text.trim())
        .filter(|line| says(line))
        .filter_map(|line| text.get(text.find(line)?..).and_then(|rest| rest.lines().next()))
        .collect();
    let trace = text.contains(TRACEBACK_HEADER);
    let chosen: Vec<&str> = match (trace, specific.as_slice()) {
        (_, []) => text.lines().map(str::trim).filter(|line| is_informative(line) && says(line)).take(1).collect(),
        (true, all) => all.iter().rev().take(1).copied().collect(),
        (false, all) => all.iter().take(MAX_QUOTED_ERRORS).copied().collect(),
    };
    let went_through = |line: &&str| EVIDENCE_WORDS.finished_steps.iter().any(|step| line.starts_with(step.as_str()));
    for line in text.lines().find(went_through).into_iter().chain(chosen) {
        push_line(line, lines);
    }
    facts.of_kind(FactKind::FailingTest).take(MAX_QUOTED_ERRORS).for_each(|fact| push_line(&fact.text, lines));
}

/// The first line of a Python stack trace.
const TRACEBACK_HEADER: &str = "Traceback (most recent call last)";

/// Returns the line with the totals of a test run, from the last lines.
fn test_totals_line(text: &str) -> Option<&str> {
    let counts = |line: &str, noun: &str| {
        let before = line.find(noun).map(|at| line[..at].trim_end());
        before.is_some_and(|before| before.ends_with(|c: char| c.is_ascii_digit()))
    };
    let is_tally = |line: &&str| {
        line.len() < SHORT_OUTPUT_BYTES
            && (counts(line, "passed") || counts(line, "failed"))
            && !line.contains("0 passed; 0 failed")
    };
    text.lines().rev().take(weights::TOTALS_LINES).find(is_tally)
}

/// Adds the most informative of the last printed lines, or the whole output if it is short (`whole` says that
/// none of it is missing).
fn push_printed_lines(text: &str, action: &Action, whole: bool, lines: &mut Vec<String>) {
    let failed = action.outcome == Outcome::Failed;
    // Skips separator lines, the `> …` lines in which script runners repeat a command, and warnings of
    // commands that worked.
    let says = |line: &&str| {
        line.contains(char::is_alphanumeric)
            && !is_wrapper(line)
            && !line.starts_with("> ")
            && (failed || !is_warning(&line.to_lowercase()))
    };
    let mut said: Vec<&str> = text.lines().map(strip_trailing_wrapper).filter(says).collect();
    // If the command did not fail, only the last line of a stack trace counts as output.
    if let Some(trace) = said.iter().rposition(|line| line.starts_with(TRACEBACK_HEADER)) {
        let above = said.len() - 1;
        said.drain(trace..above);
    }
    let short = whole
        && said.len() <= SHORT_OUTPUT_LINES
        && said.iter().map(|line| line.len()).sum::<usize>() <= SHORT_OUTPUT_BYTES;
    if short {
        return push_line(&said.join(" | "), lines);
    }
    if matches!(action.verb, Verb::Write | Verb::Edit) {
        return test_totals_line(text).or(said.first().copied()).into_iter().for_each(|line| push_line(line, lines));
    }
    let rate = |line: &&str| {
        let verdict = ["pass", "fail", "error", "result", "total", "ok", "expected", "success", "✓", "✗", "="];
        let lower = line.to_lowercase();
        let hits = verdict.iter().filter(|word| lower.contains(**word)).count().min(weights::MAX_OUTCOME_RATE);
        let says =
            hits + usize::from(line.bytes().any(|byte| byte.is_ascii_digit())) + usize::from(is_informative(line));
        let complains = ["error", "exception", "fail", "not found"].iter().any(|word| lower.contains(word))
            && !reports_no_error(line);
        let commits = line.starts_with('[')
            && line.contains("] ")
            && line.split(']').next().is_some_and(|head| head.contains(' '));
        if is_warning(&lower) {
            return 0;
        }
        says + weights::ERROR_RATE * usize::from(complains) + weights::COMMIT_RATE * usize::from(commits)
    };
    let last = said.iter().rev().take(weights::RATED_LINES).copied().collect::<Vec<_>>();
    // Among lines with the same score, the newest one is chosen.
    let best = last.iter().rev().max_by_key(|line| rate(line)).copied();
    let end = last.iter().copied().find(|line| rate(line) > 0);
    let best = best.filter(|line| rate(line) > 0);
    let mut chosen: Vec<&str> =
        test_totals_line(text).map_or_else(|| best.into_iter().chain(end).collect(), |metrics| vec![metrics]);
    chosen.dedup();
    chosen
        .into_iter()
        .filter(|line| is_informative(line) || line.len() <= SHORT_OUTPUT_BYTES)
        .for_each(|line| push_line(line, lines));
}

/// Returns whether a line is a warning or a hint, which says nothing about the outcome.
fn is_warning(lower: &str) -> bool {
    contains_any(lower, &EVIDENCE_WORDS.warnings)
}

/// Returns whether a line is long enough to be informative: two words, or five characters of a script without
/// spaces.
fn is_informative(line: &str) -> bool {
    const LETTERS: usize = 4;
    line.split_whitespace().nth(1).is_some()
        || line.chars().filter(|c| super::sentence_fingerprint::is_unspaced_script(*c)).nth(LETTERS).is_some()
}

/// Returns whether a line only introduces the lines below it: the header of a stack trace or a short heading.
fn is_heading(line: &str) -> bool {
    let is_heading = line.ends_with(':') && line.split_whitespace().nth(2).is_none();
    is_heading || line.starts_with(TRACEBACK_HEADER)
}

/// Returns whether a line reports that there was no error, even if it contains the word.
fn reports_no_error(line: &str) -> bool {
    contains_any(&line.to_lowercase(), &EVIDENCE_WORDS.reassurances)
}

fn wrapper_prefixes() -> impl Iterator<Item = &'static str> {
    OUTPUT_WORDS.wrappers.iter().chain(&EVIDENCE_WORDS.around).map(String::as_str)
}

fn is_wrapper(line: &str) -> bool {
    let line = line.trim();
    let is_shell_prompt = line.ends_with(['$', '#']) && (line == "bash-$" || line.contains('@'));
    is_shell_prompt
        || wrapper_prefixes().any(|opener| line.starts_with(opener))
        || line.starts_with('[') && line.ends_with("Result:")
        || EVIDENCE_WORDS.asides.iter().any(|words| line.starts_with(words.as_str()))
}
