//! Sessions written down in a few lines, as bodies of each dialect.
//!
//! ```text
//! user   look at this [image]
//! bash   {"command":"make"} → working\n ×90 + error: disk full\nExit code: 2
//! & Read {"file_path":"a.rs"} ✗ no such file          a second call of the same reply; the wire says that it failed
//! ```
//!
//! `×N` repeats a piece, `+` joins pieces, `\n` is a line break, `[image]` a small picture.

use longhaul_engine::Dialect;
use serde_json::{Value, json};

/// A one-pixel picture.
pub const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";

/// One line of a session.
#[derive(Clone, Debug)]
pub enum Turn {
    User(String),
    Calls(Vec<Call>),
}

/// A call and its result.
#[derive(Clone, Debug)]
pub struct Call {
    pub tool: String,
    pub arguments: String,
    pub result: String,
    pub failed: bool,
}

/// Reads the notation.
pub fn read(text: &str) -> Vec<Turn> {
    let mut turns = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (beside, line) = line.strip_prefix("& ").map_or((false, line), |line| (true, line));
        let (who, rest) = line.split_once(' ').unwrap();
        if who == "user" {
            turns.push(Turn::User(expanded(rest.trim())));
            continue;
        }
        let failed = rest.contains(" ✗ ");
        let (arguments, result) = rest.split_once(if failed { " ✗ " } else { " → " }).unwrap();
        let call = Call {
            tool: who.into(),
            arguments: expanded(arguments.trim()),
            result: expanded(result),
            failed,
        };
        match turns.last_mut() {
            Some(Turn::Calls(calls)) if beside => calls.push(call),
            _ => turns.push(Turn::Calls(vec![call])),
        }
    }
    turns
}

fn expanded(text: &str) -> String {
    let piece = |piece: &str| match piece.rsplit_once(" ×") {
        Some((piece, times)) => piece.replace("\\n", "\n").repeat(times.trim().parse().unwrap()),
        None => piece.replace("\\n", "\n"),
    };
    // Arguments keep their escapes: they are JSON.
    if text.starts_with('{') {
        return text
            .split(" + ")
            .map(|part| {
                part.rsplit_once(" ×")
                    .map_or(part.to_owned(), |(part, times)| part.repeat(times.trim().parse().unwrap()))
            })
            .collect();
    }
    text.split(" + ").map(piece).collect()
}

/// The session as a body.
pub fn body(dialect: Dialect, turns: &[Turn]) -> String {
    let mut items = Vec::new();
    let mut next = 0;
    for turn in turns {
        match turn {
            Turn::User(text) => items.push(json!({"role": "user", "content": content(dialect, text)})),
            Turn::Calls(calls) => {
                let first = next;
                next += calls.len();
                let ids: Vec<String> = (first..next).map(|id| format!("call_{id}")).collect();
                step(dialect, &mut items, calls, &ids);
            }
        }
    }
    match dialect {
        Dialect::Responses => json!({"model": "m", "input": items}),
        _ => json!({"model": "m", "messages": items}),
    }
    .to_string()
}

fn step(dialect: Dialect, items: &mut Vec<Value>, calls: &[Call], ids: &[String]) {
    let input = |call: &Call| serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
    match dialect {
        Dialect::Chat => {
            let tool_calls: Vec<Value> = calls.iter().zip(ids).map(|(call, id)| {
                json!({"id": id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}})
            }).collect();
            items.push(json!({"role": "assistant", "content": "I do.", "tool_calls": tool_calls}));
            for (call, id) in calls.iter().zip(ids) {
                items.push(
                    json!({"role": "tool", "tool_call_id": id, "content": content(dialect, &call.result)}),
                );
            }
        }
        Dialect::Messages => {
            let mut blocks = vec![json!({"type": "text", "text": "I do."})];
            blocks.extend(calls.iter().zip(ids).map(
                |(call, id)| json!({"type": "tool_use", "id": id, "name": call.tool, "input": input(call)}),
            ));
            items.push(json!({"role": "assistant", "content": blocks}));
            let results: Vec<Value> = calls.iter().zip(ids).map(|(call, id)| {
                let mut result = json!({"type": "tool_result", "tool_use_id": id, "content": content(dialect, &call.result)});
                if call.failed {
                    result["is_error"] = json!(true);
                }
                result
            }).collect();
            items.push(json!({"role": "user", "content": results}));
        }
        Dialect::Responses => {
            items.push(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I do."}]}));
            for (call, id) in calls.iter().zip(ids) {
                items.push(json!({"type": "function_call", "call_id": id, "name": call.tool, "arguments": call.arguments}));
            }
            for (call, id) in calls.iter().zip(ids) {
                items.push(json!({"type": "function_call_output", "call_id": id, "output": content(dialect, &call.result)}));
            }
        }
    }
}

fn content(dialect: Dialect, text: &str) -> Value {
    let Some((words, _)) = text.split_once("[image]") else { return json!(text) };
    let url = format!("data:image/png;base64,{PNG}");
    let (kind, image) = match dialect {
        Dialect::Chat => ("text", json!({"type": "image_url", "image_url": {"url": url}})),
        Dialect::Messages => (
            "text",
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}),
        ),
        Dialect::Responses => ("input_text", json!({"type": "input_image", "image_url": url})),
    };
    json!([{"type": kind, "text": words.trim()}, image])
}
