//! Answers as Chat Completions writes them.

use axum::body::Bytes;
use serde_json::{Value, json};

use super::{Call, Reply, deltas};

pub(super) fn whole(reply: &Reply<'_>) -> Value {
    let say = reply.say;
    let content = if say.text.is_empty() { Value::Null } else { json!(say.text) };
    let mut message = json!({ "role": "assistant", "content": content, "refusal": null, "annotations": [] });
    if !say.calls.is_empty() {
        message["tool_calls"] = say.calls.iter().enumerate().map(|(c, call)| called(reply, c, call)).collect();
    }
    json!({
        "id": reply.id("chatcmpl-"), "object": "chat.completion", "created": reply.created, "model": reply.model,
        "choices": [{ "index": 0, "message": message, "logprobs": null, "finish_reason": stop(reply) }],
        "usage": usage(reply), "service_tier": "default", "system_fingerprint": "fp_sim",
    })
}

pub(super) fn events(reply: &Reply<'_>) -> Vec<Bytes> {
    let counts = reply.request["stream_options"]["include_usage"] == true;
    let chunk = |choices: Value| {
        let mut chunk = json!({
            "id": reply.id("chatcmpl-"), "object": "chat.completion.chunk", "created": reply.created, "model": reply.model,
            "service_tier": "default", "system_fingerprint": "fp_sim", "choices": choices,
        });
        if counts {
            chunk["usage"] = Value::Null;
        }
        chunk
    };
    let delta = |delta: Value| chunk(json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }]));
    let mut chunks = vec![delta(json!({ "role": "assistant", "content": "", "refusal": null }))];
    chunks.extend(deltas(&reply.say.text).into_iter().map(|part| delta(json!({ "content": part }))));
    for (c, call) in reply.say.calls.iter().enumerate() {
        let mut opening = called(reply, c, call);
        opening["index"] = json!(c);
        opening["function"]["arguments"] = json!("");
        chunks.push(delta(json!({ "tool_calls": [opening] })));
        for part in deltas(&call.input.to_string()) {
            chunks.push(delta(json!({ "tool_calls": [{ "index": c, "function": { "arguments": part } }] })));
        }
    }
    chunks.push(chunk(json!([{ "index": 0, "delta": {}, "logprobs": null, "finish_reason": stop(reply) }])));
    if counts {
        let mut last = chunk(json!([]));
        last["usage"] = usage(reply);
        chunks.push(last);
    }
    let lines = chunks.iter().map(|chunk| Bytes::from(format!("data: {chunk}\n\n")));
    lines.chain([Bytes::from_static(b"data: [DONE]\n\n")]).collect()
}

fn called(reply: &Reply<'_>, c: usize, call: &Call) -> Value {
    json!({
        "id": reply.call_id("call_", c), "type": "function",
        "function": { "name": call.name, "arguments": call.input.to_string() },
    })
}

fn stop(reply: &Reply<'_>) -> &'static str {
    if reply.say.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn usage(reply: &Reply<'_>) -> Value {
    let tokens = reply.tokens;
    let mut read = json!({ "cached_tokens": tokens.read, "audio_tokens": 0 });
    if tokens.written > 0 {
        read["cache_write_tokens"] = json!(tokens.written);
    }
    json!({
        "prompt_tokens": tokens.total, "completion_tokens": reply.output, "total_tokens": tokens.total + reply.output,
        "prompt_tokens_details": read,
        "completion_tokens_details": { "reasoning_tokens": 0, "audio_tokens": 0 },
    })
}
