//! One-line digests: the tool, its target, its outcome and the size of its output. A failure keeps its error
//! lines.

use super::kind_table;
use super::kinds::search;
use super::outcome::{CallOutcome, Outcome, final_error_line};
use super::output_kind::OutputKind;
use super::parsed_output::ParsedOutput;
use super::proposal::{count_with_noun, format_count};
use super::weights::{MAX_ERROR_LINE_CHARS, MAX_ERROR_LINES, MAX_TARGET_CHARS};
use super::{Digest, ToolOutput};
use crate::facts::FactKind;
use crate::texts::ends_with_cut_placeholder;
use crate::tools::{ParsedCall, ToolFamily, values_named};
use crate::truncate::{to_one_line, truncate_with_ellipsis};
use serde_json::Value;
use std::cell::OnceCell;
use std::fmt::Write as _;

/// The name that a digest gives to a tool without a name.
pub(super) const UNNAMED_TOOL: &str = "tool";

/// Digests an output to one line: ``[terminal] ran `npm test` → exit 0, 47 lines``. An output shorter than
/// that is returned unchanged.
///
/// If the call failed, up to three error lines follow on lines of their own.
#[must_use]
pub fn one_line_digest(source: &ToolOutput<'_>) -> Digest {
    with_parsed_output(source, |output, kind| {
        let (text, left_out) = render_with_errors(source, output, kind);
        Digest { kind: kind(), text, left_out }
    })
}

/// Returns only the text of the one-line digest. It is faster than [`one_line_digest`], because most calls
/// need no detection of the kind.
pub(crate) fn one_line_text(source: &ToolOutput<'_>) -> String {
    with_parsed_output(source, |output, kind| render_with_errors(source, output, kind).0)
}

/// Describes a failure in one line, with a remark and the most specific error: ``[bash] ran `make` → exit 2,
/// failed, 92 lines; succeeded later: error: disk full``.
pub(crate) fn failure_line(source: &ToolOutput<'_>, remark: &str) -> String {
    with_parsed_output(source, |output, kind| {
        let ended = CallOutcome { outcome: Outcome::Failed, ..CallOutcome::from_output(output, kind, source.failed) };
        let mut line = head_line(source, output, kind, ended);
        let _ = write!(line, "; {remark}");
        let errors = || output.facts.of_kind(FactKind::Error);
        if let Some(error) = errors().find(|error| error.is_specific()).or_else(|| errors().next()) {
            let _ = write!(line, ": {}", to_one_line(&error.text, MAX_ERROR_LINE_CHARS));
        }
        line
    })
}

/// Calls `then` with the parsed output, and a function that detects its kind at most once.
fn with_parsed_output<T>(
    source: &ToolOutput<'_>,
    then: impl FnOnce(&ParsedOutput<'_>, &dyn Fn() -> OutputKind) -> T,
) -> T {
    let call = ParsedCall::parse(source.tool, source.arguments);
    let output = ParsedOutput::parse(source.text, source.focus, &call).with_original_bytes(source.original_bytes);
    let kind = OnceCell::new();
    then(&output, &|| *kind.get_or_init(|| source.kind.unwrap_or_else(|| kind_table::detect_kind(&output))))
}

/// Returns the line itself: the tool, the description of the call, and the recall ID.
fn head_line(
    source: &ToolOutput<'_>,
    output: &ParsedOutput<'_>,
    kind: &dyn Fn() -> OutputKind,
    ended: CallOutcome,
) -> String {
    let tool = output.call.tool.as_deref().unwrap_or(UNNAMED_TOOL);
    let recall = source.recall_id.map_or_else(String::new, |recall_id| format!(" (recall {recall_id})"));
    format!("[{tool}] {}{recall}", describe_call(output, kind, ended))
}

/// Returns the line followed by the error lines of a failure, and the number of lines left out.
fn render_with_errors(
    source: &ToolOutput<'_>,
    output: &ParsedOutput<'_>,
    kind: &dyn Fn() -> OutputKind,
) -> (String, usize) {
    let ended = CallOutcome::from_output(output, kind, source.failed);
    let mut line = head_line(source, output, kind, ended);
    let mut quoted = 0;
    if ended.is_failed() {
        let errors = || output.facts.of_kind(FactKind::Error);
        let specific = errors().filter(|error| error.is_specific());
        let verdicts = errors().filter(|error| !error.is_specific());
        for error in specific.chain(verdicts).take(MAX_ERROR_LINES) {
            quoted += 1;
            line.push('\n');
            line.push_str(&truncate_with_ellipsis(error.text.trim(), MAX_ERROR_LINE_CHARS));
        }
        // A program that was ended from outside prints no error line, only a final message.
        if let Some(verdict) = final_error_line(output).filter(|_| quoted == 0) {
            quoted += 1;
            line.push('\n');
            line.push_str(&truncate_with_ellipsis(verdict.text, MAX_ERROR_LINE_CHARS));
        }
    }
    if line.len() > source.text.len() && !source.text.is_empty() {
        return (source.text.to_owned(), 0);
    }
    (line, output.facts.nonblank_lines().saturating_sub(quoted))
}

/// The parts that every description ends with: the outcome, then the size.
struct ResultParts {
    outcome: Vec<String>,
    lines: String,
    chars: String,
}

impl ResultParts {
    fn join_with(&self, size: &str) -> String {
        let all: Vec<&str> = self.outcome.iter().map(String::as_str).chain([size]).collect();
        all.join(", ")
    }
}

fn describe_call(output: &ParsedOutput<'_>, kind: &dyn Fn() -> OutputKind, ended: CallOutcome) -> String {
    let call = output.call;
    let tests = ended.test_counts.map(|tests| match tests.failed {
        0 => format!("{} passed", format_count(tests.passed)),
        failed => format!("{} passed, {} failed", format_count(tests.passed), format_count(failed)),
    });
    let results = ResultParts {
        outcome: ended.to_words().into_iter().chain(tests).collect(),
        lines: count_with_noun(output.facts.lines, "line"),
        chars: output.length_text(),
    };
    match call.family {
        Some(ToolFamily::Run | ToolFamily::Code) => {
            format!("ran `{}` → {}", argument_or(call.command(), "a command"), results.join_with(&results.lines))
        }
        Some(ToolFamily::Read) => describe_read(call, ended, &results),
        Some(ToolFamily::Write) => describe_write(call, &results),
        Some(ToolFamily::Edit) => {
            format!("edited {} → {}", argument_or(call.path(), "a file"), results.join_with(&results.chars))
        }
        Some(ToolFamily::Search) => describe_search(call, output, &results),
        Some(ToolFamily::List) => {
            let noun = if kind() == OutputKind::Listing { "entry" } else { "line" };
            let size = count_with_noun(output.facts.nonblank_lines(), noun);
            format!("{} → {}", argument_or(call.path(), "."), results.join_with(&size))
        }
        Some(ToolFamily::WebSearch) => {
            format!("'{}' → {}", argument_or(call.web_query(), ""), results.join_with(&results.chars))
        }
        Some(ToolFamily::Fetch | ToolFamily::Browser) => {
            format!("{} → {}", argument_or(call.web_target(), "page"), results.join_with(&results.chars))
        }
        Some(ToolFamily::Delegate) => {
            format!("delegated '{}' → {}", argument_or(call.task(), ""), results.join_with(&results.chars))
        }
        Some(ToolFamily::Todo) => {
            format!("{} → {}", describe_item_count(call), results.join_with(&results.chars))
        }
        Some(ToolFamily::Memory) => {
            format!("{} → {}", argument_or(call.memory_note(), ""), results.join_with(&results.chars))
        }
        None => describe_other(call, &results),
    }
}

/// Returns an argument on one line, or `otherwise` if it is missing.
fn argument_or(argument: Option<String>, otherwise: &str) -> String {
    argument.map_or_else(|| otherwise.to_owned(), |text| to_one_line(&text, MAX_TARGET_CHARS))
}

fn describe_read(call: &ParsedCall, ended: CallOutcome, results: &ResultParts) -> String {
    let from = call.argument(&["offset", "start_line", "line_start", "view_range"]).unwrap_or_default();
    let from: usize = from.split(' ').next().and_then(|from| from.parse().ok()).unwrap_or(1);
    let failed = if ended.is_failed() { " → failed" } else { "" };
    format!("{} from line {} ({}){failed}", argument_or(call.path(), "a file"), from.max(1), results.chars)
}

fn describe_write(call: &ParsedCall, results: &ResultParts) -> String {
    // If the argument was cut earlier, its lines cannot be counted.
    let content =
        call.argument(&["content", "file_text", "contents", "text"]).filter(|text| !ends_with_cut_placeholder(text));
    let size = content.map_or_else(String::new, |text| format!(" ({})", count_with_noun(text.lines().count(), "line")));
    let outcome =
        if results.outcome.is_empty() { String::new() } else { format!(" → {}", results.outcome.join(", ")) };
    format!("wrote {}{size}{outcome}", argument_or(call.path(), "a file"))
}

fn describe_search(call: &ParsedCall, output: &ParsedOutput<'_>, results: &ResultParts) -> String {
    let place = call.path().map_or_else(String::new, |path| format!(" in {}", to_one_line(&path, MAX_TARGET_CHARS)));
    let found = search::count_matches(output);
    let size = found.map_or_else(
        || count_with_noun(output.facts.nonblank_lines(), "line"),
        |found| count_with_noun(found, "match"),
    );
    format!("'{}'{place} → {}", argument_or(call.pattern(), ""), results.join_with(&size))
}

fn describe_item_count(call: &ParsedCall) -> String {
    let names = ["todos", "plan", "items", "tasks"];
    let items = values_named(&call.arguments, &names).find_map(Value::as_array).map(Vec::len);
    items.map_or_else(|| "list".to_owned(), |items| count_with_noun(items, "item"))
}

fn describe_other(call: &ParsedCall, results: &ResultParts) -> String {
    let arguments = call.named_arguments();
    let size = results.join_with(&format!("{}, {}", results.lines, results.chars));
    if arguments.is_empty() { size } else { format!("{} → {size}", to_one_line(&arguments, MAX_TARGET_CHARS)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Focus;

    /// Returns the line for a call whose result is this text 50 times, so that it is long enough to be
    /// shortened.
    fn one_line_of(tool: &str, arguments: &str, text: &str) -> String {
        let text = text.repeat(50);
        let focus = Focus::none();
        let source = ToolOutput {
            text: &text,
            original_bytes: None,
            tool: Some(tool),
            arguments: Some(arguments),
            kind: None,
            failed: None,
            focus: &focus,
            recall_id: None,
        };
        one_line_digest(&source).text
    }

    #[test]
    fn each_family_has_its_form() {
        for (tool, arguments, text, expected) in [
            ("terminal", r#"{"command":"npm test"}"#, "all is well\n", "[terminal] ran `npm test` → 50 lines"),
            ("read_file", r#"{"path":"config.py"}"#, "x = 1\n", "[read_file] config.py from line 1 (300 chars)"),
            ("Read", r#"{"file_path":"a.rs","offset":120}"#, "x = 1\n", "[Read] a.rs from line 120 (300 chars)"),
            ("grep", r#"{"pattern":"let","path":"src/"}"#, "src/a.rs:3:let x\n", "[grep] 'let' in src/ → 50 matches"),
            ("write_file", r#"{"path":"a.py","content":"a\nb\n"}"#, "written\n", "[write_file] wrote a.py (2 lines)"),
            ("apply_patch", r#"{"path":"a.py"}"#, "done\n", "[apply_patch] edited a.py → 250 chars"),
            ("LS", r#"{"path":"src"}"#, "src/main.rs\n", "[LS] src → 50 entries"),
            ("web_search", r#"{"query":"cache"}"#, "a text\n", "[web_search] 'cache' → 350 chars"),
            ("browser_navigate", r#"{"url":"https://a.b"}"#, "a page\n", "[browser_navigate] https://a.b → 350 chars"),
            (
                "web_extract",
                r#"{"urls":[{"url":"https://a.b/c"},{"url":"https://d.e","format":"text"}]}"#,
                "a page\n",
                "[web_extract] https://a.b/c https://d.e → 350 chars",
            ),
            ("fetch", r#"{"url":{"href":"https://a.b/c"}}"#, "a page\n", "[fetch] https://a.b/c → 350 chars"),
            ("Task", r#"{"description":"look"}"#, "found it\n", "[Task] delegated 'look' → 450 chars"),
            ("TodoWrite", r#"{"todos":[{},{}]}"#, "noted\n", "[TodoWrite] 2 items → 300 chars"),
            ("memory", r#"{"command":"view","path":"/m"}"#, "noted\n", "[memory] view /m → 300 chars"),
            ("get_order", r#"{"id":7}"#, "shipped\n", "[get_order] id=7 → 50 lines, 400 chars"),
        ] {
            assert_eq!(one_line_of(tool, arguments, text), expected);
        }
    }

    #[test]
    fn a_short_result_is_left_as_it_is() {
        let focus = Focus::none();
        let source = ToolOutput {
            text: "ok",
            original_bytes: None,
            tool: None,
            arguments: None,
            kind: None,
            failed: None,
            focus: &focus,
            recall_id: None,
        };
        assert_eq!(one_line_digest(&source).text, "ok");
    }

    #[test]
    fn a_failed_result_keeps_its_error_lines() {
        let text = "working\n".repeat(90) + "error: disk full\nExit code: 28\n";
        let focus = Focus::none();
        let arguments = Some(r#"{"command":"make"}"#);
        let source = ToolOutput {
            text: &text,
            original_bytes: None,
            tool: Some("bash"),
            arguments,
            kind: None,
            failed: None,
            focus: &focus,
            recall_id: None,
        };
        assert_eq!(one_line_digest(&source).text, "[bash] ran `make` → exit 28, failed, 92 lines\nerror: disk full");
    }
}
