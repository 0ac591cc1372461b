//! The essential rules of Chat Completions.

use std::collections::HashSet;

use serde_json::Value;

use super::super::prompt::list;
use super::super::refusal::Refusal;

pub(super) fn judge(request: &Value) -> Result<(), Refusal> {
    if list(&request["messages"]).next().is_none() {
        let message =
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(Refusal::invalid(message).code("empty_array").param("messages"));
    }
    // The calls of the latest reply, and those of them that were answered.
    let (mut calls, mut answered): (Vec<&str>, HashSet<&str>) = Default::default();
    for (m, message) in list(&request["messages"]) {
        content(m, message)?;
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            answer(m, id, &calls, &mut answered)?;
            continue;
        }
        all_answered(m, &calls, &answered)?;
        calls = list(&message["tool_calls"]).filter_map(|(_, call)| call["id"].as_str()).collect();
        answered.clear();
    }
    all_answered(list(&request["messages"]).count(), &calls, &answered)
}

fn content(m: usize, message: &Value) -> Result<(), Refusal> {
    let speaks = ["tool_calls", "function_call", "refusal", "audio"];
    let excused = message["role"] == "assistant" && speaks.iter().any(|field| !message[field].is_null());
    if message["content"].is_null() && !excused {
        let message = "Invalid value for 'content': expected a string, got null.";
        return Err(Refusal::invalid(message).param(format!("messages.[{m}].content")));
    }
    if message["content"].as_array().is_some_and(Vec::is_empty) {
        let message = format!(
            "Invalid 'messages[{m}].content': empty array. Expected an array with minimum length 1, but got an empty array instead."
        );
        return Err(Refusal::invalid(message).code("empty_array").param(format!("messages[{m}].content")));
    }
    Ok(())
}

fn answer<'v>(m: usize, id: &'v str, calls: &[&str], answered: &mut HashSet<&'v str>) -> Result<(), Refusal> {
    if !calls.contains(&id) {
        let message = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
        return Err(Refusal::invalid(message).param(format!("messages.[{m}].role")));
    }
    if !answered.insert(id) {
        return Err(Refusal::invalid(format!("Duplicate value for 'tool_call_id' of {id} in message[{m}]")));
    }
    Ok(())
}

fn all_answered(m: usize, calls: &[&str], answered: &HashSet<&str>) -> Result<(), Refusal> {
    let open: Vec<&str> = calls.iter().copied().filter(|id| !answered.contains(id)).collect();
    if open.is_empty() {
        return Ok(());
    }
    let message = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The \
         following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    Err(Refusal::invalid(message).param(format!("messages.[{m}].role")))
}
