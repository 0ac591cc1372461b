//! Builds the responses that the gateway writes itself, in each API format: a text reply, an error, an error
//! within a stream.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

/// The form in which a client wants its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyForm {
    Document,
    Events,
}

/// Returns an error in the shape that the providers of this API format use.
pub(super) fn error_response(api_format: ApiFormat, status: StatusCode, message: &str) -> Response {
    let kind = match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::NOT_FOUND => "not_found_error",
        StatusCode::PAYLOAD_TOO_LARGE => "request_too_large",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_client_error() => "invalid_request_error",
        _ => "api_error",
    };
    let body = match api_format {
        ApiFormat::Messages => json!({"type": "error", "error": {"type": kind, "message": message}}),
        ApiFormat::Chat | ApiFormat::Responses => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
        }
    };
    json_response(status, &body)
}

/// Returns the event that tells a client within a stream that the reply has failed.
pub(super) fn error_event(api_format: ApiFormat, message: &str) -> String {
    match api_format {
        ApiFormat::Messages => {
            let data = json!({"type": "error", "error": {"type": "api_error", "message": message}});
            sse_event("error", &data)
        }
        ApiFormat::Chat => {
            let error = json!({"message": message, "type": "server_error", "param": null, "code": "stream_cut"});
            sse_data(&json!({ "error": error }))
        }
        ApiFormat::Responses => {
            let error = json!({"type": "error", "code": "server_error", "message": message, "param": null, "sequence_number": 0});
            sse_event("error", &error)
        }
    }
}

/// Returns a text of ours in the shape of a model's reply. Its usage is zero, because nothing is billed.
pub(super) fn text_response(api_format: ApiFormat, form: ReplyForm, model: &str, id: &str, text: &str) -> Response {
    match (api_format, form) {
        (ApiFormat::Messages, ReplyForm::Document) => {
            json_response(StatusCode::OK, &message_json(model, id, Some(text)))
        }
        (ApiFormat::Chat, ReplyForm::Document) => json_response(StatusCode::OK, &completion_json(model, id, text)),
        (ApiFormat::Responses, ReplyForm::Document) => {
            json_response(StatusCode::OK, &response_json(model, id, Some(text)))
        }
        (_, ReplyForm::Events) => {
            let events = match api_format {
                ApiFormat::Messages => message_events(model, id, text),
                ApiFormat::Chat => completion_events(model, id, text),
                ApiFormat::Responses => response_events(model, id, text),
            };
            stream_response(events)
        }
    }
}

/// Returns a response with these server-sent events.
pub(super) fn stream_response(events: impl Into<Body>) -> Response {
    let mut reply = Response::new(events.into());
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

/// Returns a JSON response.
pub(super) fn json_response(status: StatusCode, value: &Value) -> Response {
    let mut reply = Response::new(Body::from(value.to_string()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// Formats a server-sent event with a name.
pub(super) fn sse_event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn sse_data(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn message_json(model: &str, id: &str, text: Option<&str>) -> Value {
    let content: Vec<Value> = text.map(|text| json!({"type": "text", "text": text})).into_iter().collect();
    let stop_reason = text.map(|_| "end_turn");
    json!({
        "id": format!("msg_{id}"), "type": "message", "role": "assistant", "model": model, "content": content,
        "stop_reason": stop_reason, "stop_sequence": null,
        "usage": {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0},
    })
}

fn message_events(model: &str, id: &str, text: &str) -> String {
    let parts = [
        ("message_start", json!({"type": "message_start", "message": message_json(model, id, None)})),
        (
            "content_block_start",
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
        (
            "content_block_delta",
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        ),
        ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 0}}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ];
    parts.iter().map(|(name, data)| sse_event(name, data)).collect()
}

fn completion_json(model: &str, id: &str, text: &str) -> Value {
    json!({
        "id": format!("chatcmpl-{id}"), "object": "chat.completion", "created": 0, "model": model,
        "choices": [{
            "index": 0, "message": {"role": "assistant", "content": text, "refusal": null}, "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    })
}

fn completion_events(model: &str, id: &str, text: &str) -> String {
    let chunk = |delta: Value, finish: Option<&str>| {
        sse_data(&json!({
            "id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk", "created": 0, "model": model,
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
        }))
    };
    let opening = chunk(json!({"role": "assistant", "content": text}), None);
    format!("{opening}{}data: [DONE]\n\n", chunk(json!({}), Some("stop")))
}

fn response_json(model: &str, id: &str, text: Option<&str>) -> Value {
    let output: Vec<Value> = text.map(|text| item_json(id, Some(text))).into_iter().collect();
    json!({
        "id": format!("resp_{id}"), "object": "response", "created_at": 0, "model": model,
        "status": if text.is_some() { "completed" } else { "in_progress" },
        "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "output": output,
        "parallel_tool_calls": true, "temperature": null, "tool_choice": "auto", "tools": [], "top_p": null,
        "usage": {
            "input_tokens": 0, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 0,
        },
    })
}

fn item_json(id: &str, text: Option<&str>) -> Value {
    let content: Vec<Value> = text.map(part_json).into_iter().collect();
    let status = if text.is_some() { "completed" } else { "in_progress" };
    json!({"id": format!("msg_{id}"), "type": "message", "role": "assistant", "status": status, "content": content})
}

fn part_json(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn response_events(model: &str, id: &str, text: &str) -> String {
    let at = json!({"item_id": format!("msg_{id}"), "output_index": 0, "content_index": 0});
    let with = |mut base: Value, more: Value| {
        if let (Some(base), Value::Object(more)) = (base.as_object_mut(), more) {
            base.extend(more);
        }
        base
    };
    let parts = [
        ("response.created", json!({"response": response_json(model, id, None)})),
        ("response.in_progress", json!({"response": response_json(model, id, None)})),
        ("response.output_item.added", json!({"output_index": 0, "item": item_json(id, None)})),
        ("response.content_part.added", with(at.clone(), json!({"part": part_json("")}))),
        ("response.output_text.delta", with(at.clone(), json!({"delta": text, "logprobs": []}))),
        ("response.output_text.done", with(at.clone(), json!({"text": text, "logprobs": []}))),
        ("response.content_part.done", with(at, json!({"part": part_json(text)}))),
        ("response.output_item.done", json!({"output_index": 0, "item": item_json(id, Some(text))})),
        ("response.completed", json!({"response": response_json(model, id, Some(text))})),
    ];
    let events = parts
        .into_iter()
        .enumerate()
        .map(|(number, (name, data))| sse_event(name, &with(json!({"type": name, "sequence_number": number}), data)));
    events.collect()
}
