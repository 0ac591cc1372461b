//! What the gateway says itself, in the words of a dialect: an answer, an error, an error in the midst of a stream.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use longhaul_engine::Dialect;
use serde_json::{Value, json};

/// How an answer is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    Events,
}

/// An error of our own, as the dialect's providers write theirs.
pub(super) fn error(dialect: Dialect, status: StatusCode, said: &str) -> Response {
    let kind = match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "api_error",
    };
    let body = match dialect {
        Dialect::Messages => json!({"type": "error", "error": {"type": kind, "message": said}}),
        Dialect::Chat | Dialect::Responses => {
            json!({"error": {"message": said, "type": kind, "param": null, "code": null}})
        }
    };
    document(status, &body)
}

/// The event that says, in the midst of a stream, that no more comes.
pub(super) fn error_event(dialect: Dialect, said: &str) -> String {
    match dialect {
        Dialect::Messages => {
            let data = json!({"type": "error", "error": {"type": "api_error", "message": said}});
            event("error", &data)
        }
        Dialect::Chat => {
            let error = json!({"message": said, "type": "server_error", "param": null, "code": "stream_cut"});
            data(&json!({ "error": error }))
        }
        Dialect::Responses => {
            let error = json!({"type": "error", "code": "server_error", "message": said, "param": null, "sequence_number": 0});
            event("error", &error)
        }
    }
}

/// An answer of ours in the place of a model's. Nothing is billed, and that is what it says.
pub(super) fn answer(dialect: Dialect, form: Form, model: &str, id: &str, said: &str) -> Response {
    match (dialect, form) {
        (Dialect::Messages, Form::Whole) => document(StatusCode::OK, &message(model, id, Some(said))),
        (Dialect::Chat, Form::Whole) => document(StatusCode::OK, &completion(model, id, said)),
        (Dialect::Responses, Form::Whole) => document(StatusCode::OK, &response(model, id, Some(said))),
        (_, Form::Events) => {
            let events = match dialect {
                Dialect::Messages => message_events(model, id, said),
                Dialect::Chat => completion_events(model, id, said),
                Dialect::Responses => response_events(model, id, said),
            };
            stream(events)
        }
    }
}

/// Events of ours, all at once.
pub(super) fn stream(events: impl Into<Body>) -> Response {
    let mut reply = Response::new(events.into());
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

/// A document of ours.
pub(super) fn document(status: StatusCode, value: &Value) -> Response {
    let mut reply = Response::new(Body::from(value.to_string()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// An event as it is written.
pub(super) fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn data(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn message(model: &str, id: &str, said: Option<&str>) -> Value {
    let content: Vec<Value> = said.map(|said| json!({"type": "text", "text": said})).into_iter().collect();
    let stop = said.map(|_| "end_turn");
    json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0},
    })
}

fn message_events(model: &str, id: &str, said: &str) -> String {
    let parts = [
        ("message_start", json!({"type": "message_start", "message": message(model, id, None)})),
        (
            "content_block_start",
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        (
            "content_block_delta",
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": said}}),
        ),
        ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 0}}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ];
    parts.iter().map(|(name, data)| event(name, data)).collect()
}

fn completion(model: &str, id: &str, said: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": 0, "model": model,
        "choices": [{
            "index": 0, "message": {"role": "assistant", "content": said, "refusal": null}, "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    })
}

fn completion_events(model: &str, id: &str, said: &str) -> String {
    let chunk = |delta: Value, finish: Option<&str>| {
        data(&json!({
            "id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk", "created": 0, "model": model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
        }))
    };
    let opening = chunk(json!({"role": "assistant", "content": said}), None);
    format!("{opening}{}data: [DONE]\n\n", chunk(json!({}), Some("stop")))
}

fn response(model: &str, id: &str, said: Option<&str>) -> Value {
    let output: Vec<Value> = said.map(|said| item(id, Some(said))).into_iter().collect();
    json!({
        "id": format!("resp_{id}"), "object": "response", "created_at": 0, "model": model,
        "status": if said.is_some() { "completed" } else { "in_progress" },
        "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "output": output,
        "parallel_tool_calls": true, "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null,
        "usage": {
            "input_tokens": 0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0,
        },
    })
}

fn item(id: &str, said: Option<&str>) -> Value {
    let content: Vec<Value> = said.map(part).into_iter().collect();
    let status = if said.is_some() { "completed" } else { "in_progress" };
    json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "status": status, "content": content})
}

fn part(said: &str) -> Value {
    json!({"type": "output_text", "text": said, "annotations": []})
}

fn response_events(model: &str, id: &str, said: &str) -> String {
    let at = json!({"item_id": format!("msg_{id}"), "output_index": 0, "content_index": 0});
    let with = |mut base: Value, more: Value| {
        if let (Some(base), Value::Object(more)) = (base.as_object_mut(), more) {
            base.extend(more);
        }
        base
    };
    let parts = [
        ("response.created", json!({"response": response(model, id, None)})),
        ("response.in_progress", json!({"response": response(model, id, None)})),
        ("response.output_item.added", json!({"output_index": 0, "item": item(id, None)})),
        ("response.content_part.added", with(at.clone(), json!({"part": part("")}))),
        ("response.output_text.delta", with(at.clone(), json!({"delta": said, "logprobs": []}))),
        ("response.output_text.done", with(at.clone(), json!({"text": said, "logprobs": []}))),
        ("response.content_part.done", with(at, json!({"part": part(said)}))),
        ("response.output_item.done", json!({"output_index": 0, "item": item(id, Some(said))})),
        ("response.completed", json!({"response": response(model, id, Some(said))})),
    ];
    let events = parts.into_iter().enumerate().map(|(number, (name, data))| {
        event(name, &with(json!({"type": name, "sequence_number": number}), data))
    });
    events.collect()
}
