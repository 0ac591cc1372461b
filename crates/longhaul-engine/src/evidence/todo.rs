//! Lists of tasks with marks: the arguments of todo tools, and check boxes in text.

use serde_json::Value;

use crate::clip;
use crate::lines::{Breaks, Lines};

use super::TaskState;
use crate::tools::named;

/// A list with more items than this is a document.
const MOST: usize = 100;

/// So much of an item is kept.
const WIDTH: usize = 2_000;

/// One task of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) text: String,
    pub(crate) kind: TaskState,
}

/// The tasks in the arguments of a todo tool.
pub(super) fn items(arguments: &str) -> Vec<Item> {
    let Ok(value) = serde_json::from_str::<Value>(arguments) else { return checklist(arguments) };
    let mut found = Vec::new();
    collect(&value, &mut found);
    found.truncate(MOST);
    found
}

fn collect(value: &Value, found: &mut Vec<Item>) {
    const TEXTS: [&str; 7] = ["content", "step", "text", "title", "task", "description", "name"];
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::String(text) => found.extend(checklist(text)),
        Value::Object(map) => {
            let text = named(map, &TEXTS).next().and_then(Value::as_str);
            let status = named(map, &["status", "state"]).next().and_then(Value::as_str).and_then(kind);
            let ticks = ["done", "completed", "checked"];
            let ticked = named(map, &ticks).next().and_then(Value::as_bool);
            let kind = status.or(ticked.map(|done| if done { TaskState::Done } else { TaskState::Open }));
            match (text, kind) {
                (Some(text), Some(kind)) => {
                    found.push(Item { text: clip::start(text.trim(), WIDTH).to_owned(), kind });
                }
                _ => map.values().for_each(|value| collect(value, found)),
            }
        }
        _ => {}
    }
}

fn kind(status: &str) -> Option<TaskState> {
    match status.to_ascii_lowercase().replace(['-', ' '], "_").as_str() {
        "completed" | "complete" | "done" | "finished" => Some(TaskState::Done),
        "in_progress" | "active" | "doing" | "started" => Some(TaskState::Doing),
        "pending" | "todo" | "open" | "not_started" | "queued" | "blocked" | "waiting" => {
            Some(TaskState::Open)
        }
        _ => None,
    }
}

/// The check boxes of a text.
pub(super) fn checklist(text: &str) -> Vec<Item> {
    if !text.contains("[ ]") && !text.contains("[x]") && !text.contains("[X]") {
        return Vec::new();
    }
    let item = |line: &str| {
        let line = line.trim_start();
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let line = line[digits..].trim_start_matches(['-', '*', '+', '.', ')']).trim_start();
        let (kind, rest) = [
            ("[ ]", TaskState::Open),
            ("[x]", TaskState::Done),
            ("[X]", TaskState::Done),
            ("[-]", TaskState::Doing),
            ("[~]", TaskState::Doing),
        ]
        .into_iter()
        .find_map(|(mark, kind)| Some((kind, line.strip_prefix(mark)?.trim())))?;
        (!rest.is_empty()).then(|| Item { text: clip::start(rest, WIDTH).to_owned(), kind })
    };
    Lines::new(text, Breaks::Newline).filter_map(|line| item(line.text)).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(items: &[Item]) -> Vec<(&str, TaskState)> {
        items.iter().map(|item| (item.text.as_str(), item.kind)).collect()
    }

    #[test]
    fn lists_of_tasks_are_read_in_the_common_forms() {
        let expected =
            [("Add tests", TaskState::Done), ("Fix lint", TaskState::Doing), ("Push", TaskState::Open)];
        for arguments in [
            r#"{"todos":[{"content":"Add tests","status":"completed"},{"content":"Fix lint","status":"in_progress"},{"content":"Push","status":"pending"}]}"#,
            r#"{"plan":[{"step":"Add tests","status":"done"},{"step":"Fix lint","status":"in-progress"},{"step":"Push","status":"todo"}]}"#,
            r#"{"todos":"[x] Add tests\n[-] Fix lint\n[ ] Push"}"#,
            "- [x] Add tests\n- [~] Fix lint\n1. [ ] Push\nno box",
        ] {
            assert_eq!(shown(&items(arguments)), expected, "{arguments}");
        }
        assert_eq!(items("{\"path\":\"a.rs\"}"), []);
    }
}
