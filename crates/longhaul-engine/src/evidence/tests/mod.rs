//! Small transcripts and what a critical reader would note down from each.

mod replies;
mod requests;
mod rules;
mod work;

use serde_json::{Value, json};

use super::*;
use crate::wire;

/// Who says what, in a few strokes.
enum Turn<'a> {
    User(&'a str),
    Assistant(&'a str),
    /// Tool, arguments, result.
    Call(&'a str, Value, &'a str),
    /// A call with words before it.
    Saying(&'a str, &'a str, Value, &'a str),
}

use Turn::{Assistant, Call, Saying, User};

fn body(turns: &[Turn<'_>]) -> String {
    let mut messages = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let mut call = |words: Value, tool: &str, arguments: &Value, result: &str| {
            let id = format!("call_{at}");
            let function = json!({"name": tool, "arguments": arguments.to_string()});
            messages.push(json!({"role": "assistant", "content": words, "tool_calls": [{"id": id, "type": "function", "function": function}]}));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
        };
        match turn {
            User(text) => messages.push(json!({"role": "user", "content": text})),
            Assistant(text) => messages.push(json!({"role": "assistant", "content": text})),
            Call(tool, arguments, result) => call(Value::Null, tool, arguments, result),
            Saying(words, tool, arguments, result) => call(json!(words), tool, arguments, result),
        }
    }
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

fn evidence(turns: &[Turn<'_>]) -> Evidence {
    let body = body(turns);
    let (transcript, _) = wire::parse(None, &body).unwrap();
    Evidence::of(&mut Known::default(), &transcript)
}

fn run(command: &str) -> Value {
    json!({"command": command})
}

fn states(turns: &[Turn<'_>]) -> Vec<RequestState> {
    evidence(turns).requests.iter().map(|request| request.state).collect()
}

#[test]
fn what_is_known_changes_nothing() {
    let turns = [
        User("Always use tabs. Fix src/a.rs."),
        Call("bash", run("cargo build"), "error: no"),
        Call("bash", run("cargo build"), "exit code: 0"),
        Assistant("I've fixed src/a.rs because it was broken."),
        User("Thanks, now add a test."),
    ];
    let mut known = Known::default();
    for count in 1..=turns.len() {
        let body = body(&turns[..count]);
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let warm = format!("{:?}", Evidence::of(&mut known, &transcript));
        let cold = format!("{:?}", Evidence::of(&mut Known::default(), &transcript));
        let nowhere = format!("{:?}", Evidence::of(&mut Known::with_room(1), &transcript));
        assert_eq!((&warm, &cold), (&cold, &nowhere));
    }
}
