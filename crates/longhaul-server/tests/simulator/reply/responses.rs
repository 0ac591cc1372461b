//! Answers as Responses writes them.

use serde_json::{Value, json};

use super::{Reply, deltas};

pub(super) fn id(reply: &Reply<'_>) -> String {
    reply.id("resp_")
}

pub(super) fn whole(reply: &Reply<'_>) -> Value {
    response(reply, "completed", &output(reply), &usage(reply))
}

fn response(reply: &Reply<'_>, status: &str, output: &[Value], usage: &Value) -> Value {
    let request = reply.request;
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    json!({
        "id": id(reply), "object": "response", "created_at": reply.created, "status": status, "error": null,
        "incomplete_details": null, "instructions": request["instructions"], "model": reply.model, "output": output,
        "parallel_tool_calls": true, "previous_response_id": request["previous_response_id"],
        "store": request["store"] != false, "tools": tools, "usage": usage,
    })
}

/// The items that the model says.
pub(super) fn output(reply: &Reply<'_>) -> Vec<Value> {
    let say = reply.say;
    let mut items = Vec::new();
    if !say.thinking.is_empty() {
        let summary = json!([{ "type": "summary_text", "text": say.thinking }]);
        let mut item = json!({ "id": reply.id("rs_"), "type": "reasoning", "summary": summary });
        if super::super::prompt::list(&reply.request["include"]).any(|(_, part)| part == "reasoning.encrypted_content")
        {
            item["encrypted_content"] = json!(reply.encrypted);
        }
        items.push(item);
    }
    if !say.text.is_empty() {
        items.push(json!({
            "id": reply.id("msg_"), "type": "message", "status": "completed", "role": "assistant",
            "content": [{ "type": "output_text", "text": say.text, "annotations": [] }],
        }));
    }
    items.extend(say.calls.iter().enumerate().map(|(c, call)| {
        json!({
            "id": reply.call_id("fc_", c), "type": "function_call", "status": "completed",
            "call_id": reply.call_id("call_", c), "name": call.name, "arguments": call.input.to_string(),
        })
    }));
    items
}

pub(super) fn events(reply: &Reply<'_>) -> Vec<Value> {
    let begun = response(reply, "in_progress", &[], &Value::Null);
    let mut events = vec![
        json!({ "type": "response.created", "response": begun }),
        json!({ "type": "response.in_progress", "response": begun }),
    ];
    for (index, item) in output(reply).iter().enumerate() {
        let mut opening = item.clone();
        for (field, empty) in [("content", json!([])), ("summary", json!([])), ("arguments", json!(""))] {
            if !opening[field].is_null() {
                opening[field] = empty;
            }
        }
        if item["type"] != "reasoning" {
            opening["status"] = json!("in_progress");
        }
        events.push(json!({ "type": "response.output_item.added", "output_index": index, "item": opening }));
        inside(item, index, &mut events);
        events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    events.push(json!({ "type": "response.completed", "response": whole(reply) }));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

/// How an item of each kind grows: the names of its events, and the indices that they carry.
fn inside(item: &Value, index: usize, events: &mut Vec<Value>) {
    let mut push = |name: &str, more: Value| {
        let mut event = json!({ "type": format!("response.{name}"), "item_id": item["id"], "output_index": index });
        for (key, value) in more.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        events.push(event);
    };
    match item["type"].as_str().unwrap_or_default() {
        "function_call" => {
            let arguments = item["arguments"].as_str().unwrap_or_default();
            for part in deltas(arguments) {
                push("function_call_arguments.delta", json!({ "delta": part }));
            }
            push("function_call_arguments.done", json!({ "arguments": arguments }));
        }
        kind => {
            let (list, part, text, place) = match kind {
                "reasoning" => ("summary", "reasoning_summary_part", "reasoning_summary_text", "summary_index"),
                _ => ("content", "content_part", "output_text", "content_index"),
            };
            let whole = &item[list][0];
            let mut empty = whole.clone();
            empty["text"] = json!("");
            push(&format!("{part}.added"), json!({ place: 0, "part": empty }));
            for delta in deltas(whole["text"].as_str().unwrap_or_default()) {
                push(&format!("{text}.delta"), json!({ place: 0, "delta": delta }));
            }
            push(&format!("{text}.done"), json!({ place: 0, "text": whole["text"] }));
            push(&format!("{part}.done"), json!({ place: 0, "part": whole }));
        }
    }
}

fn usage(reply: &Reply<'_>) -> Value {
    let tokens = reply.tokens;
    json!({
        "input_tokens": tokens.total, "input_tokens_details": { "cached_tokens": tokens.read },
        "output_tokens": reply.output, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": tokens.total + reply.output,
    })
}
