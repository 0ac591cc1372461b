//! What is refused, with which words.

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use crate::client::{ask, path, send, words};
use crate::simulator::{Room, Settings, Simulator};

/// A list of messages with a tool, in a dialect, and the words of its refusal; empty where it is taken.
async fn refuses(api_format: ApiFormat, cases: &[(Value, &str)]) {
    let simulator = Simulator::start(Settings::default()).await;
    for (list, words) in cases {
        let mut body = json!({ "model": "a-model", api_format.messages_field(): list });
        if api_format == ApiFormat::Messages {
            body["tools"] = json!([{ "name": "look", "input_schema": { "type": "object" } }]);
        }
        says(&simulator, api_format, &body, words).await;
    }
}

async fn says(simulator: &Simulator, api_format: ApiFormat, body: &Value, words: &str) {
    let came = ask(simulator, api_format, body).await;
    let seen = simulator.last().unwrap();
    assert_eq!(came.status, if words.is_empty() { 200 } else { 400 }, "{body} is answered {}", came.body());
    assert_eq!((seen.status, seen.is_refused()), (came.status, !words.is_empty()));
    assert_eq!(seen.tokens.is_some(), words.is_empty(), "what is refused costs nothing");
    if words.is_empty() {
        return;
    }
    assert!(came.error().contains(words), "{body} is answered {}", came.error());
    assert_eq!(came.json()["error"]["type"], "invalid_request_error");
    assert_eq!(came.json()["type"] == "error", api_format == ApiFormat::Messages, "the shape of the provider");
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "look", "input": {} })
}

fn result(id: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": "a room" })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn user(content: &[Value]) -> Value {
    json!({ "role": "user", "content": content })
}

fn reply(content: &[Value]) -> Value {
    json!({ "role": "assistant", "content": content })
}

#[tokio::test]
async fn messages_pair_calls_and_results() {
    let hi = user(&[text("hi")]);
    let cases = [
        (json!([hi, reply(&[call("a"), call("b")]), user(&[result("b"), result("a")])]), ""),
        (json!([hi, reply(&[call("a")]), user(&[result("a"), text("go on")])]), ""),
        (json!([hi, reply(&[call("a")]), hi]), "messages.1: `tool_use` ids were found without `tool_result` blocks"),
        (json!([hi, reply(&[call("a")])]), "immediately after: a."),
        (json!([hi, reply(&[call("a")]), hi, reply(&[text("no")]), user(&[result("a")])]), "ids were found without"),
        (
            json!([user(&[result("a")])]),
            "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a.",
        ),
        (json!([hi, reply(&[call("a")]), user(&[result("a"), result("a")])]), "must have a single result"),
        (
            json!([hi, reply(&[call("a")]), user(&[result("a")]), reply(&[call("a")]), user(&[result("a")])]),
            "messages.3.content.0: `tool_use` ids must be unique",
        ),
        (json!([hi, reply(&[call("a")]), user(&[text("so"), result("a")])]), "at the beginning of this message"),
        (json!([hi, reply(&[call("a.b")]), user(&[result("a.b")])]), "A9"),
    ];
    refuses(ApiFormat::Messages, &cases).await;
}

#[tokio::test]
async fn messages_have_roles_and_say_something() {
    let cases = [
        (json!([]), "at least one message is required"),
        (json!([{ "role": "tool", "content": "hi" }]), "messages.0.role: Input should be 'user' or 'assistant'"),
        (json!([user(&[text("")])]), "text content blocks must be non-empty"),
        (json!([user(&[text(" \n")])]), "text content blocks must contain non-whitespace text"),
        (
            json!([
                user(&[text("hi")]),
                reply(&[json!({ "type": "thinking", "thinking": "hm" }), text("a")]),
                user(&[text("b")])
            ]),
            "messages.1.content.0.thinking.signature: Field required",
        ),
    ];
    refuses(ApiFormat::Messages, &cases).await;
    let simulator = Simulator::start(Settings::default()).await;
    let no_tools =
        json!({ "model": "m", "messages": [user(&[text("hi")]), reply(&[call("a")]), user(&[result("a")])] });
    says(&simulator, ApiFormat::Messages, &no_tools, "must define tools").await;
}

#[tokio::test]
async fn marks_are_few_and_in_order() {
    let mark = |text: &str, ttl: &str| json!({ "type": "text", "text": text, "cache_control": { "type": "ephemeral", "ttl": ttl } });
    let nested = json!({ "type": "tool_result", "tool_use_id": "a", "content": [mark("in", "5m")] });
    let thinking =
        json!({ "type": "thinking", "thinking": "hm", "signature": "s", "cache_control": { "type": "ephemeral" } });
    let four = ["a", "b", "c", "d"].map(|text| mark(text, "5m"));
    let five = ["a", "b", "c", "d", "e"].map(|text| mark(text, "5m"));
    let cases = [
        (json!([user(&four)]), ""),
        (json!([user(&five)]), "A maximum of 4 blocks with cache_control may be provided. Found 5."),
        (json!([user(&four), reply(&[call("a")]), user(&[nested])]), "Found 5."),
        (json!([user(&[mark("a", "1h"), mark("b", "5m")])]), ""),
        (json!([user(&[mark("a", "5m"), mark("b", "1h")])]), "messages.0.content.1.cache_control.ttl: a ttl='1h'"),
        (json!([user(&[text("a"), mark("", "5m")])]), "cache_control cannot be set for empty text blocks"),
        (
            json!([user(&[text("a")]), reply(&[thinking, text("b")]), user(&[text("c")])]),
            "Extra inputs are not permitted",
        ),
    ];
    refuses(ApiFormat::Messages, &cases).await;
    let simulator = Simulator::start(Settings::default()).await;
    let mut body = json!({ "model": "m", "system": [mark("s", "5m")], "messages": [user(&[mark("a", "1h")])] });
    says(&simulator, ApiFormat::Messages, &body, "a ttl='1h' cache_control block must not come after").await;
    body = json!({ "model": "m", "cache_control": { "type": "ephemeral" }, "messages": [user(&four)] });
    says(&simulator, ApiFormat::Messages, &body, "Found 5.").await;
}

#[tokio::test]
async fn chat_pairs_calls_and_results() {
    let calls = |ids: &[&str]| {
        let function = json!({ "name": "look", "arguments": "{}" });
        let calls: Vec<Value> =
            ids.iter().map(|id| json!({ "id": id, "type": "function", "function": function })).collect();
        json!({ "role": "assistant", "content": null, "tool_calls": calls })
    };
    let tool = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "a room" });
    let hi = json!({ "role": "user", "content": "hi" });
    let cases = [
        (json!([hi, calls(&["a", "b"]), tool("b"), tool("a")]), ""),
        (json!([hi, tool("a")]), "must be a response to a preceeding message with 'tool_calls'"),
        (json!([hi, calls(&["a", "b"]), tool("a"), hi]), "did not have response messages: b"),
        (json!([hi, calls(&["a"])]), "did not have response messages: a"),
        (json!([hi, calls(&["a"]), hi, tool("a")]), "did not have response messages: a"),
        (json!([hi, calls(&["a"]), tool("a"), tool("a")]), "Duplicate value for 'tool_call_id' of a in message[3]"),
        (json!([{ "role": "user", "content": null }]), "expected a string, got null"),
        (json!([{ "role": "user", "content": [] }]), "Expected an array with minimum length 1"),
        (json!([]), "Invalid 'messages': empty array"),
    ];
    refuses(ApiFormat::Chat, &cases).await;
}

#[tokio::test]
async fn responses_pair_calls_and_outputs() {
    let hi = json!({ "role": "user", "content": "hi" });
    let call = json!({ "type": "function_call", "call_id": "a", "name": "look", "arguments": "{}" });
    let output = json!({ "type": "function_call_output", "call_id": "a", "output": "a room" });
    let reasoning = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
    let no_summary = json!({ "type": "reasoning", "id": "rs_1" });
    let cases = [
        (json!([hi, call, output]), ""),
        (json!([hi, output]), "No tool call found for function call output with call_id a."),
        (json!([hi, call]), "No tool output found for function call a."),
        (json!([hi, call, hi]), "No tool output found for function call a."),
        (json!([hi, no_summary, hi]), "'input[1].summary'"),
        (json!([hi, reasoning, reasoning]), "Duplicate item found with id rs_1."),
        (json!([hi, reasoning, hi]), "R3"),
    ];
    refuses(ApiFormat::Responses, &cases).await;
}

#[tokio::test]
async fn what_passes_the_window_is_refused_with_the_numbers() {
    let window = Settings::window(2_000);
    let simulator = Simulator::start(Settings { room: Room::Reserved, ..window.clone() }).await;
    let body = |api_format: ApiFormat, size: usize, field: &str| json!({ "model": "m", api_format.messages_field(): [{ "role": "user", "content": words(size) }], field: 500 });
    let cases = [
        (ApiFormat::Messages, 1_400, "max_tokens", ""),
        (ApiFormat::Messages, 2_100, "max_tokens", "prompt is too long: 2104 tokens > 2000 maximum"),
        (ApiFormat::Messages, 1_600, "max_tokens", "exceed context limit: 1604 + 500 > 2000, decrease"),
        (ApiFormat::Chat, 1_400, "max_tokens", ""),
        (
            ApiFormat::Chat,
            2_100,
            "seed",
            "maximum context length is 2000 tokens. However, your messages resulted in 2104 tokens",
        ),
        (
            ApiFormat::Chat,
            1_600,
            "max_completion_tokens",
            "you requested 2104 tokens (1604 in the messages, 500 in the completion)",
        ),
        (ApiFormat::Responses, 1_400, "max_output_tokens", ""),
        (ApiFormat::Responses, 2_100, "max_output_tokens", "Your input exceeds the context window of this model."),
    ];
    for (api_format, size, field, words) in cases {
        says(&simulator, api_format, &body(api_format, size, field), words).await;
    }
    let free = Simulator::start(Settings { room: Room::Free, ..window }).await;
    says(&free, ApiFormat::Messages, &body(ApiFormat::Messages, 1_600, "max_tokens"), "").await;
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let simulator = Simulator::start(Settings::default()).await;
    let key = "authorization: Bearer somebody\r\nanthropic-version: 2023-06-01\r\n";
    for api_format in ApiFormat::ALL {
        let came = send(&simulator, path(api_format), key, "{\"model\":").await;
        assert_eq!(came.status, 400);
        assert!(came.error().contains("not valid JSON"), "{}", came.error());
        let came = send(&simulator, path(api_format), "", "{}").await;
        assert_eq!(came.status, 401, "nobody asks");
        let huge = format!("{{\"model\":\"{}\"}}", "m".repeat(32 * 1024 * 1024));
        let came = send(&simulator, path(api_format), key, &huge).await;
        let error = &came.json()["error"];
        assert_eq!(came.status, 413);
        assert!(error["type"] == "request_too_large" || error["code"] == "request_too_large", "{error}");
    }
    let came = send(&simulator, "/v1/messages", "x-api-key: somebody\r\n", "{}").await;
    assert_eq!(came.error(), "anthropic-version: header is required");
    assert_eq!(send(&simulator, "/v1/elsewhere", key, "{}").await.status, 404);
    assert_eq!(simulator.refused().len(), simulator.seen().len());
}
