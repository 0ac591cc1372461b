//! A whole output in one line: the tool, its target, its outcome and its size. A failed one keeps its error lines.

use super::draft::{counted, number};
use super::kind::{self, Kind};
use super::kinds::search;
use super::outcome::{Origin, Outcome};
use super::page::Page;
use super::tools::{Call, Family, on_one_line};
use super::{Digest, Source};
use crate::facts::FactKind;
use crate::lines::clip;

/// Error lines that a failed output keeps, and how much of each.
const ERROR_LINES: usize = 3;
const ERROR_WIDTH: usize = 160;
/// How much of a command, a query or a path is shown.
const TARGET_WIDTH: usize = 120;

/// The one-line digest of an output: ``[terminal] ran `npm test` → exit 0, 47 lines``. A text shorter than that is its own.
///
/// Where the output failed, up to three of its error lines follow on lines of their own.
#[must_use]
pub fn one_line(source: &Source<'_>) -> Digest {
    let call = Call::of(source.tool, source.arguments);
    let page = Page::of(source.text, source.focus, &call);
    let kind = source.kind.unwrap_or_else(|| kind::detect(&page));
    let outcome = Outcome::of(&page, Origin::of(&page, kind::row(kind)));
    let tool = call.tool.as_deref().unwrap_or("tool");
    let mut line = format!("[{tool}] {}", said(&call, &page, kind, outcome));
    if let Some(handle) = source.handle {
        line.push_str(&format!(" (recall {handle})"));
    }
    let mut quoted = 0;
    if outcome.failed {
        let errors = || page.facts.of_kind(FactKind::Error);
        let specific = errors().filter(|error| error.is_specific());
        let verdicts = errors().filter(|error| !error.is_specific());
        for error in specific.chain(verdicts).take(ERROR_LINES) {
            quoted += 1;
            let text = error.text.trim();
            let shown = clip(text, ERROR_WIDTH);
            line.push('\n');
            line.push_str(shown);
            if shown.len() < text.len() {
                line.push('…');
            }
        }
    }
    if line.len() > source.text.len() && !source.text.is_empty() {
        return Digest { kind, text: source.text.to_owned(), left_out: 0 };
    }
    Digest { kind, text: line, left_out: page.facts.full_lines().saturating_sub(quoted) }
}

fn said(call: &Call, page: &Page<'_>, kind: Kind, outcome: Outcome) -> String {
    let lines = counted(page.facts.lines, "line");
    let chars = format!("{} chars", number(page.source.chars().count()));
    let path = || on_one_line(&call.path().unwrap_or_else(|| "a file".into()), TARGET_WIDTH);
    let mut results = outcome.words();
    match call.family {
        Some(Family::Run | Family::Code) => {
            let command = on_one_line(&call.command().unwrap_or_else(|| "a command".into()), TARGET_WIDTH);
            results.push(lines);
            format!("ran `{command}` → {}", results.join(", "))
        }
        Some(Family::Read) => {
            let from = call.argument(&["offset", "start_line", "line_start", "view_range"]).unwrap_or_default();
            let from: usize = from.split(' ').next().and_then(|from| from.parse().ok()).unwrap_or(1);
            let failed = if outcome.failed { " → failed" } else { "" };
            format!("{} from line {} ({chars}){failed}", path(), from.max(1))
        }
        Some(Family::Write) => {
            let size = call.argument(&["content", "file_text", "contents", "text"]);
            let size = size.map_or_else(String::new, |text| format!(" ({})", counted(text.lines().count(), "line")));
            format!("wrote {}{size}{}", path(), arrow(&results))
        }
        Some(Family::Edit) => format!("edited {}{}", path(), arrow(&[results, vec![chars]].concat())),
        Some(Family::Search) => {
            let pattern = call.argument(&["pattern", "query", "regex", "queries", "search_term", "glob_pattern", "class_name", "function_name"]);
            let place = call.path().map_or_else(String::new, |path| format!(" in {}", on_one_line(&path, TARGET_WIDTH)));
            let found = match search::matches(page) {
                Some(matches) => counted(matches, "match"),
                None => counted(page.facts.full_lines(), "line"),
            };
            results.push(found);
            format!("'{}'{place} → {}", on_one_line(&pattern.unwrap_or_default(), TARGET_WIDTH), results.join(", "))
        }
        Some(Family::List) => {
            results.push(counted(page.facts.full_lines(), if kind == Kind::Listing { "entry" } else { "line" }));
            format!("{} → {}", call.path().map_or_else(|| ".".into(), |path| on_one_line(&path, TARGET_WIDTH)), results.join(", "))
        }
        Some(Family::WebSearch) => {
            let query = call.argument(&["query", "q", "search_query", "queries"]).unwrap_or_default();
            results.push(chars);
            format!("'{}' → {}", on_one_line(&query, TARGET_WIDTH), results.join(", "))
        }
        Some(Family::Fetch | Family::Browser) => {
            let target = call.argument(&["url", "urls", "uri", "action", "ref", "element", "selector", "key", "direction", "text"]);
            results.push(chars);
            format!("{} → {}", on_one_line(&target.unwrap_or_else(|| "page".into()), TARGET_WIDTH), results.join(", "))
        }
        Some(Family::Delegate) => {
            let task = call.argument(&["description", "goal", "task", "prompt", "message"]).unwrap_or_default();
            results.push(chars);
            format!("delegated '{}' → {}", on_one_line(&task, TARGET_WIDTH), results.join(", "))
        }
        Some(Family::Todo) => {
            let items = ["todos", "plan", "items", "tasks"].iter().find_map(|name| call.arguments.get(*name)?.as_array().map(Vec::len));
            let items = items.map_or_else(|| "list".to_owned(), |items| counted(items, "item"));
            format!("{items}{}", arrow(&[results, vec![chars]].concat()))
        }
        Some(Family::Memory) => {
            let what = call.argument(&["action", "command", "operation"]).unwrap_or_default();
            let target = call.argument(&["target", "path", "key", "query", "content", "fact"]).unwrap_or_default();
            format!("{}{}", on_one_line(&format!("{what} {target}"), TARGET_WIDTH), arrow(&[results, vec![chars]].concat()))
        }
        None => {
            results.extend([lines, chars]);
            let arguments = call.arguments.keys().filter_map(|name| Some(format!("{name}={}", on_one_line(&call.argument(&[name])?, 40))));
            let arguments = on_one_line(&arguments.collect::<Vec<_>>().join(", "), TARGET_WIDTH);
            if arguments.is_empty() { results.join(", ") } else { format!("{arguments} → {}", results.join(", ")) }
        }
    }
}

fn arrow(results: &[String]) -> String {
    if results.is_empty() { String::new() } else { format!(" → {}", results.join(", ")) }
}
