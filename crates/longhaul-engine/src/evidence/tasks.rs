//! Task lists: those in the arguments of todo tools, and check boxes in text.

use serde_json::Value;

use crate::lines::{LineBreak, Lines};
use crate::truncate;

use super::TaskState;
use super::weights::{MAX_TASK_CHARS, MAX_TASKS};
use crate::tools::values_named;

/// One task of a task list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) text: String,
    pub(crate) state: TaskState,
}

/// Reads the tasks in the arguments of a todo tool.
pub(super) fn parse_tasks(arguments: &str) -> Vec<Task> {
    let Ok(value) = serde_json::from_str::<Value>(arguments) else { return parse_check_boxes(arguments) };
    let mut found = Vec::new();
    collect_tasks(&value, &mut found);
    found.truncate(MAX_TASKS);
    found
}

fn collect_tasks(value: &Value, found: &mut Vec<Task>) {
    const TEXTS: [&str; 7] = ["content", "step", "text", "title", "task", "description", "name"];
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_tasks(item, found)),
        Value::String(text) => found.extend(parse_check_boxes(text)),
        Value::Object(map) => {
            let text = values_named(map, &TEXTS).next().and_then(Value::as_str);
            let status = values_named(map, &["status", "state"]).next().and_then(Value::as_str).and_then(parse_state);
            let ticks = ["done", "completed", "checked"];
            let ticked = values_named(map, &ticks).next().and_then(Value::as_bool);
            let kind = status.or(ticked.map(|done| if done { TaskState::Done } else { TaskState::Open }));
            match (text, kind) {
                (Some(text), Some(kind)) => {
                    found.push(Task {
                        text: truncate::first_chars(text.trim(), MAX_TASK_CHARS).to_owned(),
                        state: kind,
                    });
                }
                _ => map.values().for_each(|value| collect_tasks(value, found)),
            }
        }
        _ => {}
    }
}

fn parse_state(status: &str) -> Option<TaskState> {
    match status.to_ascii_lowercase().replace(['-', ' '], "_").as_str() {
        "completed" | "complete" | "done" | "finished" => Some(TaskState::Done),
        "in_progress" | "active" | "doing" | "started" => Some(TaskState::InProgress),
        "pending" | "todo" | "open" | "not_started" | "queued" | "blocked" | "waiting" => Some(TaskState::Open),
        _ => None,
    }
}

/// Reads the lines of a text that have a check box (`[ ]`, `[x]`, `[-]`).
pub(super) fn parse_check_boxes(text: &str) -> Vec<Task> {
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
            ("[-]", TaskState::InProgress),
            ("[~]", TaskState::InProgress),
        ]
        .into_iter()
        .find_map(|(mark, kind)| Some((kind, line.strip_prefix(mark)?.trim())))?;
        (!rest.is_empty()).then(|| Task { text: truncate::first_chars(rest, MAX_TASK_CHARS).to_owned(), state: kind })
    };
    Lines::new(text, LineBreak::Newline).filter_map(|line| item(line.text)).take(MAX_TASKS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(items: &[Task]) -> Vec<(&str, TaskState)> {
        items.iter().map(|item| (item.text.as_str(), item.state)).collect()
    }

    #[test]
    fn lists_of_tasks_are_read_in_the_common_forms() {
        let expected = [("Add tests", TaskState::Done), ("Fix lint", TaskState::InProgress), ("Push", TaskState::Open)];
        for arguments in [
            r#"{"todos":[{"content":"Add tests","status":"completed"},{"content":"Fix lint","status":"in_progress"},{"content":"Push","status":"pending"}]}"#,
            r#"{"plan":[{"step":"Add tests","status":"done"},{"step":"Fix lint","status":"in-progress"},{"step":"Push","status":"todo"}]}"#,
            r#"{"todos":"[x] Add tests\n[-] Fix lint\n[ ] Push"}"#,
            "- [x] Add tests\n- [~] Fix lint\n1. [ ] Push\nno box",
        ] {
            assert_eq!(shown(&parse_tasks(arguments)), expected, "{arguments}");
        }
        assert_eq!(parse_tasks("{\"path\":\"a.rs\"}"), []);
    }
}
