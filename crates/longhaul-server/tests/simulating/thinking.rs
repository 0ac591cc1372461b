//! Thinking that was signed here comes back as it was issued and where it was issued, or not at all.

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use crate::client::{ask, path, send};
use crate::simulator::{Binding, Say, Settings, Simulator, says};

/// A model that thinks and looks, again and again.
async fn simulator(binding: Binding) -> Simulator {
    let speaker = says(|_, number| Say::call("look", json!({ "at": number })).thinking(format!("hm {number}")));
    Simulator::start(Settings { binding, speaker, ..Settings::default() }).await
}

fn start() -> Value {
    json!({
        "model": "claude-sonnet-4-5", "max_tokens": 4_000, "thinking": { "type": "enabled", "budget_tokens": 2_000 },
        "tools": [{ "name": "look", "input_schema": { "type": "object" } }],
        "messages": [{ "role": "user", "content": "look around" }],
    })
}

/// Takes a step of the loop: asks, and answers the call.
async fn step(simulator: &Simulator, body: &mut Value) {
    let came = ask(simulator, ApiFormat::Messages, body).await;
    assert_eq!(came.status, 200, "{}", came.body());
    let content = came.json()["content"].clone();
    let id = &content[1]["id"];
    let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": "a room" }]);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "user", "content": result }));
    let answered = messages.len() - 1;
    messages.insert(answered, json!({ "role": "assistant", "content": content }));
}

async fn error(simulator: &Simulator, body: &Value) -> String {
    let came = ask(simulator, ApiFormat::Messages, body).await;
    if came.status == 200 { String::new() } else { came.error() }
}

#[tokio::test]
async fn a_loop_that_only_grows_goes_on() {
    let simulator = simulator(Binding::Everywhere).await;
    let mut body = start();
    for _ in 0..4 {
        step(&simulator, &mut body).await;
    }
    body["messages"][0]["content"] =
        json!([{ "type": "text", "text": "look around", "cache_control": { "type": "ephemeral" } }]);
    assert_eq!(error(&simulator, &body).await, "", "a mark is no change");
}

#[tokio::test]
async fn another_prefix_in_an_open_loop_is_refused() {
    let simulator = simulator(Binding::OpenLoop).await;
    let mut body = start();
    step(&simulator, &mut body).await;
    step(&simulator, &mut body).await;
    let changes: [(&str, Value); 3] = [
        ("/messages/0/content", json!("look about")),
        ("/messages/2/content/0/content", json!("a small room")),
        ("/tools/0/name", json!("look2")),
    ];
    for (at, change) in changes {
        let mut other = body.clone();
        *other.pointer_mut(at).unwrap() = change;
        let said = error(&simulator, &other).await;
        assert!(said.contains("The block is bound to a different conversation."), "{at}: {said}");
    }
    let mut system = body.clone();
    system["system"] = json!("be brief");
    assert!(error(&simulator, &system).await.starts_with("messages.1.content.0: Invalid `signature`"));
}

#[tokio::test]
async fn a_loop_that_is_over_binds_only_models_that_preserve_thinking() {
    for (binding, refused) in [(Binding::OpenLoop, false), (Binding::Everywhere, true)] {
        let simulator = simulator(binding).await;
        let mut body = start();
        step(&simulator, &mut body).await;
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({ "role": "assistant", "content": "a room" }));
        messages.push(json!({ "role": "user", "content": "thanks, and now?" }));
        messages[0]["content"] = json!("look about");
        assert_eq!(!error(&simulator, &body).await.is_empty(), refused, "{binding:?}");
    }
}

#[tokio::test]
async fn touched_thinking_is_refused_and_foreign_thinking_is_taken() {
    let simulator = simulator(Binding::OpenLoop).await;
    let mut body = start();
    step(&simulator, &mut body).await;
    let mut touched = body.clone();
    touched["messages"][1]["content"][0]["thinking"] = json!("hm");
    assert!(error(&simulator, &touched).await.contains("in the latest assistant message cannot be modified"));
    body["messages"][1]["content"][0] = json!({ "type": "thinking", "thinking": "hm", "signature": "EqQBCkYIBRgC" });
    assert_eq!(error(&simulator, &body).await, "");
}

#[tokio::test]
async fn a_client_may_have_such_blocks_dropped() {
    let simulator = simulator(Binding::OpenLoop).await;
    let mut body = start();
    step(&simulator, &mut body).await;
    body["messages"][0]["content"] = json!("look about");
    body["thinking"]["block_binding"] = json!({ "prefix_mismatch_behavior": "drop_block" });
    assert!(error(&simulator, &body).await.contains("Extra inputs are not permitted"), "only with the beta");
    let head =
        "x-api-key: a\r\nanthropic-version: 2023-06-01\r\nanthropic-beta: thinking-binding-controls-2026-08-01\r\n";
    let came = send(&simulator, path(ApiFormat::Messages), head, &body.to_string()).await;
    assert_eq!(came.status, 200, "{}", came.body());
}

#[tokio::test]
async fn encrypted_reasoning_comes_back_untouched() {
    let simulator = simulator(Binding::OpenLoop).await;
    let mut body = json!({
        "model": "gpt-5", "store": false, "include": ["reasoning.encrypted_content"],
        "input": [{ "role": "user", "content": "look around" }],
    });
    let came = ask(&simulator, ApiFormat::Responses, &body).await.json();
    let input = body["input"].as_array_mut().unwrap();
    input.extend(came["output"].as_array().unwrap().iter().cloned());
    let call = &came["output"][1]["call_id"];
    input.push(json!({ "type": "function_call_output", "call_id": call, "output": "a room" }));
    let again = ask(&simulator, ApiFormat::Responses, &body).await;
    assert_eq!(again.status, 200, "{}", again.body());

    let sealed = body["input"][1]["encrypted_content"].as_str().unwrap();
    body["input"][1]["encrypted_content"] = json!(sealed[..sealed.len() - 2]);
    let refused = ask(&simulator, ApiFormat::Responses, &body).await;
    assert_eq!(refused.json()["error"]["code"], "invalid_encrypted_content");
}
