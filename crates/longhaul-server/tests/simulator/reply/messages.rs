//! Answers as Messages writes them.

use serde_json::{Value, json};

use super::{Reply, deltas};

pub(super) fn whole(reply: &Reply<'_>) -> Value {
    json!({
        "id": reply.id("msg_"), "type": "message", "role": "assistant", "model": reply.model, "content": blocks(reply),
        "stop_reason": stop(reply), "stop_sequence": null, "usage": usage(reply, reply.output),
    })
}

pub(super) fn events(reply: &Reply<'_>) -> Vec<Value> {
    let message = json!({
        "id": reply.id("msg_"), "type": "message", "role": "assistant", "model": reply.model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage(reply, 1),
    });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    for (index, block) in blocks(reply).into_iter().enumerate() {
        let (empty, parts) = opened(&block);
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": empty }));
        if index == 0 {
            events.push(json!({ "type": "ping" }));
        }
        let delta = |part| json!({ "type": "content_block_delta", "index": index, "delta": part });
        events.extend(parts.into_iter().map(delta));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    events.push(json!({
        "type": "message_delta", "delta": { "stop_reason": stop(reply), "stop_sequence": null },
        "usage": usage(reply, reply.output),
    }));
    events.push(json!({ "type": "message_stop" }));
    events
}

fn blocks(reply: &Reply<'_>) -> Vec<Value> {
    let say = reply.say;
    let mut blocks = Vec::new();
    if !say.thinking.is_empty() {
        blocks.push(json!({ "type": "thinking", "thinking": say.thinking, "signature": reply.signature }));
    }
    if !say.text.is_empty() {
        blocks.push(json!({ "type": "text", "text": say.text }));
    }
    blocks.extend(say.calls.iter().enumerate().map(|(c, call)| {
        json!({ "type": "tool_use", "id": reply.call_id("toolu_", c), "name": call.name, "input": call.input })
    }));
    blocks
}

/// A block as its stream begins, and what is added to it.
fn opened(block: &Value) -> (Value, Vec<Value>) {
    let added = |field: &str, kind: &str| -> Vec<Value> {
        let parts = deltas(block[field].as_str().unwrap_or_default()).into_iter();
        parts.map(|part| json!({ "type": kind, field: part })).collect()
    };
    let mut empty = block.clone();
    match block["type"].as_str().unwrap_or_default() {
        "thinking" => {
            empty["thinking"] = json!("");
            empty["signature"] = json!("");
            let mut parts = added("thinking", "thinking_delta");
            parts.push(json!({ "type": "signature_delta", "signature": block["signature"] }));
            (empty, parts)
        }
        "text" => {
            empty["text"] = json!("");
            (empty, added("text", "text_delta"))
        }
        _ => {
            empty["input"] = json!({});
            let parts = deltas(&block["input"].to_string()).into_iter();
            let parts = [String::new()].into_iter().chain(parts);
            (empty, parts.map(|part| json!({ "type": "input_json_delta", "partial_json": part })).collect())
        }
    }
}

fn stop(reply: &Reply<'_>) -> &'static str {
    if reply.say.calls.is_empty() { "end_turn" } else { "tool_use" }
}

fn usage(reply: &Reply<'_>, output: u64) -> Value {
    let tokens = reply.tokens;
    json!({
        "input_tokens": tokens.fresh,
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.written - tokens.written_1h,
            "ephemeral_1h_input_tokens": tokens.written_1h,
        },
        "output_tokens": output, "service_tier": "standard",
    })
}
