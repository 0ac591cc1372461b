//! A whole output in one line: the tool, its target, its outcome and its size. A failed one keeps its error lines.

use super::kind::Kind;
use super::kinds::search;
use super::outcome::{Ended, Outcome, verdict};
use super::page::Page;
use super::proposal::{ERROR_LINES, ERROR_WIDTH, counted, number};
use super::rows;
use super::{Digest, Source};
use crate::clip::{on_one_line, signed};
use crate::facts::FactKind;
use crate::texts::is_cut;
use crate::tools::{Call, Family, named};
use serde_json::Value;
use std::cell::OnceCell;
use std::fmt::Write as _;

/// What a tool without a name is called.
pub(super) const UNNAMED: &str = "tool";
/// No line of a digest has more bytes: the longest have a tool, two targets and a few words of ours.
pub(super) const LONGEST_LINE: usize = 2_000;
/// How much of a command, a query or a path is shown.
const TARGET_WIDTH: usize = 120;

/// The one-line digest of an output: ``[terminal] ran `npm test` → exit 0, 47 lines``. A text shorter than that is its own.
///
/// Where the output failed, up to three of its error lines follow on lines of their own.
#[must_use]
pub fn one_line(source: &Source<'_>) -> Digest {
    read(source, |page, kind| {
        let (text, left_out) = written(source, page, kind);
        Digest { kind: kind(), text, left_out }
    })
}

/// The text of the one-line digest. Most need no kind, which costs more than all the rest.
pub(crate) fn line(source: &Source<'_>) -> String {
    read(source, |page, kind| written(source, page, kind).0)
}

/// A failure in one line, with a remark about it and the error that says most: ``[bash] ran `make` → exit 2, failed, 92 lines;
/// succeeded later: error: disk full``.
pub(crate) fn failure(source: &Source<'_>, remark: &str) -> String {
    read(source, |page, kind| {
        let ended = Ended { outcome: Outcome::Failed, ..Ended::of(page, kind, source.failed) };
        let mut line = first(source, page, kind, ended);
        let _ = write!(line, "; {remark}");
        let errors = || page.facts.of_kind(FactKind::Error);
        if let Some(error) = errors().find(|error| error.is_specific()).or_else(|| errors().next()) {
            let _ = write!(line, ": {}", on_one_line(&error.text, ERROR_WIDTH));
        }
        line
    })
}

/// Reads a source; its kind is told when somebody asks, and once.
fn read<T>(source: &Source<'_>, then: impl FnOnce(&Page<'_>, &dyn Fn() -> Kind) -> T) -> T {
    let call = Call::of(source.tool, source.arguments);
    let page = Page::of(source.text, source.focus, &call).made_of(source.bytes);
    let known = OnceCell::new();
    then(&page, &|| *known.get_or_init(|| source.kind.unwrap_or_else(|| rows::detect(&page))))
}

/// The tool, what was done, and what fetches the original.
fn first(source: &Source<'_>, page: &Page<'_>, kind: &dyn Fn() -> Kind, ended: Ended) -> String {
    let tool = page.call.tool.as_deref().unwrap_or(UNNAMED);
    let recall = source.handle.map_or_else(String::new, |handle| format!(" (recall {handle})"));
    format!("[{tool}] {}{recall}", said(page, kind, ended))
}

/// The line with the error lines of a failure, and how many lines are not in it.
fn written(source: &Source<'_>, page: &Page<'_>, kind: &dyn Fn() -> Kind) -> (String, usize) {
    let ended = Ended::of(page, kind, source.failed);
    let mut line = first(source, page, kind, ended);
    let mut quoted = 0;
    if ended.failed() {
        let errors = || page.facts.of_kind(FactKind::Error);
        let specific = errors().filter(|error| error.is_specific());
        let verdicts = errors().filter(|error| !error.is_specific());
        for error in specific.chain(verdicts).take(ERROR_LINES) {
            quoted += 1;
            line.push('\n');
            line.push_str(&signed(error.text.trim(), ERROR_WIDTH));
        }
        // What ended it from outside has no word of failing in it.
        if let Some(verdict) = verdict(page).filter(|_| quoted == 0) {
            quoted += 1;
            line.push('\n');
            line.push_str(&signed(verdict.text, ERROR_WIDTH));
        }
    }
    if line.len() > source.text.len() && !source.text.is_empty() {
        return (source.text.to_owned(), 0);
    }
    (line, page.facts.full_lines().saturating_sub(quoted))
}

/// What every form ends with: the outcome, then the size.
struct Results {
    outcome: Vec<String>,
    lines: String,
    chars: String,
}

impl Results {
    fn with(&self, size: &str) -> String {
        let all: Vec<&str> = self.outcome.iter().map(String::as_str).chain([size]).collect();
        all.join(", ")
    }
}

fn said(page: &Page<'_>, kind: &dyn Fn() -> Kind, ended: Ended) -> String {
    let call = page.call;
    let tests = ended.tests.map(|tests| match tests.failed {
        0 => format!("{} passed", number(tests.passed)),
        failed => format!("{} passed, {} failed", number(tests.passed), number(failed)),
    });
    let results = Results {
        outcome: ended.words().into_iter().chain(tests).collect(),
        lines: counted(page.facts.lines, "line"),
        chars: page.length(),
    };
    match call.family {
        Some(Family::Run | Family::Code) => {
            format!("ran `{}` → {}", shown(call.command(), "a command"), results.with(&results.lines))
        }
        Some(Family::Read) => was_read(call, ended, &results),
        Some(Family::Write) => wrote(call, &results),
        Some(Family::Edit) => {
            format!("edited {} → {}", shown(call.path(), "a file"), results.with(&results.chars))
        }
        Some(Family::Search) => searched(call, page, &results),
        Some(Family::List) => {
            let noun = if kind() == Kind::Listing { "entry" } else { "line" };
            let size = counted(page.facts.full_lines(), noun);
            format!("{} → {}", shown(call.path(), "."), results.with(&size))
        }
        Some(Family::WebSearch) => {
            format!("'{}' → {}", shown(call.web_query(), ""), results.with(&results.chars))
        }
        Some(Family::Fetch | Family::Browser) => {
            format!("{} → {}", shown(call.address(), "page"), results.with(&results.chars))
        }
        Some(Family::Delegate) => {
            format!("delegated '{}' → {}", shown(call.task(), ""), results.with(&results.chars))
        }
        Some(Family::Todo) => format!("{} → {}", items(call), results.with(&results.chars)),
        Some(Family::Memory) => {
            format!("{} → {}", shown(call.note(), ""), results.with(&results.chars))
        }
        None => general(call, &results),
    }
}

/// An argument on one line, or what to say without it.
fn shown(argument: Option<String>, otherwise: &str) -> String {
    argument.map_or_else(|| otherwise.to_owned(), |text| on_one_line(&text, TARGET_WIDTH))
}

fn was_read(call: &Call, ended: Ended, results: &Results) -> String {
    let from = call.argument(&["offset", "start_line", "line_start", "view_range"]).unwrap_or_default();
    let from: usize = from.split(' ').next().and_then(|from| from.parse().ok()).unwrap_or(1);
    let failed = if ended.failed() { " → failed" } else { "" };
    format!("{} from line {} ({}){failed}", shown(call.path(), "a file"), from.max(1), results.chars)
}

fn wrote(call: &Call, results: &Results) -> String {
    // What was cut from the arguments earlier cannot be counted any more.
    let content = call.argument(&["content", "file_text", "contents", "text"]).filter(|text| !is_cut(text));
    let size =
        content.map_or_else(String::new, |text| format!(" ({})", counted(text.lines().count(), "line")));
    let outcome = if results.outcome.is_empty() {
        String::new()
    } else {
        format!(" → {}", results.outcome.join(", "))
    };
    format!("wrote {}{size}{outcome}", shown(call.path(), "a file"))
}

fn searched(call: &Call, page: &Page<'_>, results: &Results) -> String {
    let place =
        call.path().map_or_else(String::new, |path| format!(" in {}", on_one_line(&path, TARGET_WIDTH)));
    let found = search::matches(page);
    let size =
        found.map_or_else(|| counted(page.facts.full_lines(), "line"), |found| counted(found, "match"));
    format!("'{}'{place} → {}", shown(call.pattern(), ""), results.with(&size))
}

fn items(call: &Call) -> String {
    let names = ["todos", "plan", "items", "tasks"];
    let items = named(&call.arguments, &names).find_map(Value::as_array).map(Vec::len);
    items.map_or_else(|| "list".to_owned(), |items| counted(items, "item"))
}

fn general(call: &Call, results: &Results) -> String {
    let arguments = call.named_arguments();
    let size = results.with(&format!("{}, {}", results.lines, results.chars));
    if arguments.is_empty() { size } else { format!("{} → {size}", on_one_line(&arguments, TARGET_WIDTH)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Focus;

    /// The line for a call whose result is this text, fifty times over so that it is worth shortening.
    fn line(tool: &str, arguments: &str, text: &str) -> String {
        let text = text.repeat(50);
        let focus = Focus::none();
        let source = Source {
            text: &text,
            bytes: None,
            tool: Some(tool),
            arguments: Some(arguments),
            kind: None,
            failed: None,
            focus: &focus,
            handle: None,
        };
        one_line(&source).text
    }

    #[test]
    fn each_family_has_its_form() {
        for (tool, arguments, text, expected) in [
            (
                "terminal",
                r#"{"command":"npm test"}"#,
                "all is well\n",
                "[terminal] ran `npm test` → 50 lines",
            ),
            (
                "read_file",
                r#"{"path":"config.py"}"#,
                "x = 1\n",
                "[read_file] config.py from line 1 (300 chars)",
            ),
            (
                "Read",
                r#"{"file_path":"a.rs","offset":120}"#,
                "x = 1\n",
                "[Read] a.rs from line 120 (300 chars)",
            ),
            (
                "grep",
                r#"{"pattern":"let","path":"src/"}"#,
                "src/a.rs:3:let x\n",
                "[grep] 'let' in src/ → 50 matches",
            ),
            (
                "write_file",
                r#"{"path":"a.py","content":"a\nb\n"}"#,
                "written\n",
                "[write_file] wrote a.py (2 lines)",
            ),
            ("apply_patch", r#"{"path":"a.py"}"#, "done\n", "[apply_patch] edited a.py → 250 chars"),
            ("LS", r#"{"path":"src"}"#, "src/main.rs\n", "[LS] src → 50 entries"),
            ("web_search", r#"{"query":"cache"}"#, "a text\n", "[web_search] 'cache' → 350 chars"),
            (
                "browser_navigate",
                r#"{"url":"https://a.b"}"#,
                "a page\n",
                "[browser_navigate] https://a.b → 350 chars",
            ),
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
            assert_eq!(line(tool, arguments, text), expected);
        }
    }

    #[test]
    fn a_short_result_is_left_as_it_is() {
        let focus = Focus::none();
        let source = Source {
            text: "ok",
            bytes: None,
            tool: None,
            arguments: None,
            kind: None,
            failed: None,
            focus: &focus,
            handle: None,
        };
        assert_eq!(one_line(&source).text, "ok");
    }

    #[test]
    fn a_failed_result_keeps_its_error_lines() {
        let text = "working\n".repeat(90) + "error: disk full\nExit code: 28\n";
        let focus = Focus::none();
        let arguments = Some(r#"{"command":"make"}"#);
        let source = Source {
            text: &text,
            bytes: None,
            tool: Some("bash"),
            arguments,
            kind: None,
            failed: None,
            focus: &focus,
            handle: None,
        };
        assert_eq!(one_line(&source).text, "[bash] ran `make` → exit 28, failed, 92 lines\nerror: disk full");
    }
}
