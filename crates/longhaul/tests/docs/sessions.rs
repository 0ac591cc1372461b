//! Sessions as Claude Code and Codex write them.

use serde_json::{Value, json};

/// The name of the session of Claude Code.
const ID: &str = "8c1f2f0a";

/// The example six times over, each time for another part of the program.
pub(crate) fn claude() -> Vec<Value> {
    let example = std::fs::read_to_string(super::root().join("examples/session.json")).unwrap();
    let example: Value = serde_json::from_str(&example).unwrap();
    let messages = &example["messages"].as_array().unwrap()[1..];
    let mut lines = Vec::<Value>::new();
    for part in 0..6 {
        for message in messages {
            let (number, seconds) = (lines.len(), lines.len() * 12);
            let message = claude_message(message, part, number);
            lines.push(json!({
                "type": message["role"], "uuid": format!("{ID}-{number}"), "sessionId": ID, "isSidechain": false,
                "parentUuid": number.checked_sub(1).map(|parent| format!("{ID}-{parent}")), "cwd": "/home/me/app",
                "timestamp": format!("2026-11-17T09:{:02}:{:02}.000Z", seconds / 60, seconds % 60), "message": message,
            }));
        }
    }
    lines
}

/// A message of the example, about one part of the program, in the shape of the Messages API.
fn claude_message(message: &Value, part: usize, number: usize) -> Value {
    let said = |value: &Value| value.as_str().unwrap_or("").replace("src/", &format!("part{part}/src/"));
    let id = |call: &Value| format!("toolu_{part}_{}", call.as_str().unwrap());
    let content = said(&message["content"]);
    match message["role"].as_str().unwrap() {
        "user" => json!({"role": "user", "content": content}),
        "tool" => {
            let result =
                json!({"type": "tool_result", "tool_use_id": id(&message["tool_call_id"]), "content": content});
            json!({"role": "user", "content": [result]})
        }
        _ => {
            let mut blocks = vec![json!({"type": "text", "text": content})];
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let input: Value = serde_json::from_str(&said(&call["function"]["arguments"])).unwrap();
                blocks.push(json!({"type": "tool_use", "id": id(&call["id"]), "name": "Bash", "input": input}));
            }
            // What a client with a large system prompt pays: nearly all of it is read from the cache.
            let usage = json!({
                "input_tokens": 4, "cache_read_input_tokens": 14_000 + 330 * number,
                "cache_creation_input_tokens": 700, "output_tokens": 60,
            });
            json!({
                "id": format!("msg_{number}"), "role": "assistant", "model": "claude-sonnet-4-5", "content": blocks, "usage": usage,
            })
        }
    }
}

pub(crate) fn codex() -> Vec<Value> {
    let line =
        |kind: &str, payload: Value| json!({"timestamp": "2026-11-16T09:00:00Z", "type": kind, "payload": payload});
    let said = |role: &str, kind: &str, words: &str| {
        line("response_item", json!({"type": "message", "role": role, "content": [{"type": kind, "text": words}]}))
    };
    let start =
        json!({"id": "0199a2c4", "cwd": "/home/me/site", "base_instructions": {"text": "You are a programmer."}});
    vec![
        line("session_meta", start),
        line("turn_context", json!({"model": "gpt-5.1-codex"})),
        said("user", "input_text", "Make the page load faster"),
        said("assistant", "output_text", "The images were too large; they are smaller now."),
    ]
}
