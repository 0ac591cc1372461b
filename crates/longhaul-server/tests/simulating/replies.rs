//! Answers in the shapes of the providers: whole and as events they say the same.

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use crate::client::{ask, send};
use crate::simulator::{Say, Settings, Simulator, says};

const TEXT: &str = "I shall look into “both” rooms.";

/// A model that thinks, speaks and calls twice.
async fn talkative() -> Simulator {
    let say = Say::text(TEXT).thinking("two rooms, two looks").and_calls("look", json!({ "at": "kitchen" }));
    let say = say.and_calls("look", json!({}));
    Simulator::start(Settings { speaker: says(move |_, _| say.clone()), ..Settings::default() }).await
}

fn body(api_format: ApiFormat, more: &Value) -> Value {
    let mut body = json!({ "model": "a-model", api_format.messages_field(): [{ "role": "user", "content": "look" }] });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    kinds.dedup();
    kinds
}

/// The deltas of one kind, joined.
fn joined(events: &[Value], pointer: &str) -> String {
    events.iter().filter_map(|event| event.pointer(pointer)?.as_str()).collect()
}

#[tokio::test]
async fn messages_as_events_are_messages_whole() {
    let simulator = talkative().await;
    let whole = ask(&simulator, ApiFormat::Messages, &body(ApiFormat::Messages, &json!({}))).await.json();
    let came = ask(&simulator, ApiFormat::Messages, &body(ApiFormat::Messages, &json!({ "stream": true }))).await;
    assert!(came.head.contains("content-type: text/event-stream") && came.whole);
    let events = came.events();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let mut expected =
        vec!["message_start", "content_block_start", "ping", "content_block_delta", "content_block_stop"];
    expected.extend(block.repeat(3));
    expected.extend(["message_delta", "message_stop"]);
    assert_eq!(kinds(&events), expected);
    assert_eq!(joined(&events, "/delta/thinking"), whole["content"][0]["thinking"]);
    assert_eq!(joined(&events, "/delta/signature"), whole["content"][0]["signature"]);
    assert_eq!(joined(&events, "/delta/text"), TEXT);
    assert_eq!(joined(&events, "/delta/partial_json"), r#"{"at":"kitchen"}{}"#);
    let last = &events[events.len() - 2];
    assert_eq!(last["delta"]["stop_reason"], "tool_use");
    assert_eq!((&last["usage"], &whole["stop_reason"]), (&whole["usage"], &json!("tool_use")));
    assert_eq!(simulator.last().unwrap().reply, came.body().as_bytes(), "the answer is on record, byte for byte");
}

#[tokio::test]
async fn chat_as_chunks_is_chat_whole() {
    let simulator = talkative().await;
    let whole = ask(&simulator, ApiFormat::Chat, &body(ApiFormat::Chat, &json!({}))).await.json();
    let counted = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let came = ask(&simulator, ApiFormat::Chat, &body(ApiFormat::Chat, &counted)).await;
    assert!(came.body().ends_with("data: [DONE]\n\n"));
    let events = came.events();
    assert_eq!(joined(&events, "/choices/0/delta/content"), TEXT);
    let calls = &whole["choices"][0]["message"]["tool_calls"];
    let arguments = joined(&events, "/choices/0/delta/tool_calls/0/function/arguments");
    assert_eq!(arguments, r#"{"at":"kitchen"}{}"#);
    assert_eq!(calls[0]["function"]["arguments"], r#"{"at":"kitchen"}"#);
    assert_eq!(joined(&events, "/choices/0/finish_reason"), "tool_calls");
    let (last, before) = events.split_last().unwrap();
    assert_eq!((&last["usage"], &last["choices"]), (&whole["usage"], &json!([])));
    assert!(before.iter().all(|event| event["usage"].is_null()));

    let plain = ask(&simulator, ApiFormat::Chat, &body(ApiFormat::Chat, &json!({ "stream": true }))).await;
    assert!(plain.events().iter().all(|event| event.get("usage").is_none()), "only who asks for usage gets it");
}

#[tokio::test]
async fn responses_as_events_are_responses_whole() {
    let simulator = talkative().await;
    let whole = ask(&simulator, ApiFormat::Responses, &body(ApiFormat::Responses, &json!({}))).await.json();
    let came = ask(&simulator, ApiFormat::Responses, &body(ApiFormat::Responses, &json!({ "stream": true }))).await;
    let events = came.events();
    let kinds = kinds(&events);
    assert_eq!(kinds[..3], ["response.created", "response.in_progress", "response.output_item.added"]);
    assert_eq!(kinds.last(), Some(&"response.completed"));
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let of = |kind: &str| -> String {
        let deltas = events.iter().filter(|event| event["type"] == kind);
        deltas.filter_map(|event| event["delta"].as_str()).collect()
    };
    assert_eq!(of("response.output_text.delta"), TEXT);
    assert_eq!(of("response.reasoning_summary_text.delta"), "two rooms, two looks");
    assert_eq!(of("response.function_call_arguments.delta"), r#"{"at":"kitchen"}{}"#);
    let last = &events.last().unwrap()["response"];
    assert_eq!((&last["usage"], &last["status"]), (&whole["usage"], &json!("completed")));
    let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
    let done: Vec<&Value> = done.map(|event| &event["item"]).collect();
    assert_eq!(json!(done), last["output"]);
}

#[tokio::test]
async fn what_was_said_can_be_sent_back() {
    for api_format in ApiFormat::ALL {
        let simulator = talkative().await;
        let tool = match api_format {
            ApiFormat::Messages => json!({ "name": "look", "input_schema": { "type": "object" } }),
            ApiFormat::Chat => json!({ "type": "function", "function": { "name": "look" } }),
            ApiFormat::Responses => json!({ "type": "function", "name": "look" }),
        };
        let mut body = body(api_format, &json!({ "tools": [tool] }));
        let came = ask(&simulator, api_format, &body).await.json();
        let list = body[api_format.messages_field()].as_array_mut().unwrap();
        match api_format {
            ApiFormat::Messages => {
                let result = |at: usize| json!({ "type": "tool_result", "tool_use_id": came["content"][at]["id"], "content": "ok" });
                list.push(json!({ "role": "assistant", "content": came["content"] }));
                list.push(json!({ "role": "user", "content": [result(2), result(3)] }));
            }
            ApiFormat::Chat => {
                let message = &came["choices"][0]["message"];
                list.push(
                    json!({ "role": "assistant", "content": message["content"], "tool_calls": message["tool_calls"] }),
                );
                for call in message["tool_calls"].as_array().unwrap() {
                    list.push(json!({ "role": "tool", "tool_call_id": call["id"], "content": "ok" }));
                }
            }
            ApiFormat::Responses => {
                let output = came["output"].as_array().unwrap();
                list.extend(output.iter().cloned());
                let calls = output.iter().filter(|item| item["type"] == "function_call");
                list.extend(
                    calls.map(
                        |call| json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "ok" }),
                    ),
                );
            }
        }
        let again = ask(&simulator, api_format, &body).await;
        assert_eq!(again.status, 200, "{api_format}: {}", again.body());
        assert!(simulator.last().unwrap().tokens.unwrap().unlimited > 0, "the first request is a prefix of the second");
    }
}

#[tokio::test]
async fn tokens_are_counted_for_who_asks_and_nothing_is_kept() {
    let simulator = Simulator::start(Settings::default()).await;
    let body = body(ApiFormat::Messages, &json!({}));
    let head = "authorization: Bearer somebody\r\nanthropic-version: 2023-06-01\r\n";
    let counted = send(&simulator, "/v1/messages/count_tokens?beta=true", head, &body.to_string()).await.json();
    let came = ask(&simulator, ApiFormat::Messages, &body).await.json();
    assert_eq!(came["content"][0]["text"], "ok 2", "the model by default says which request it was");
    assert_eq!(counted["input_tokens"], came["usage"]["input_tokens"]);
    let seen = simulator.seen();
    assert_eq!((seen[0].tokens, seen[0].path.as_str()), (None, "/v1/messages/count_tokens?beta=true"));
    assert_eq!((seen[0].header("Authorization"), seen[0].value()), (Some("Bearer somebody"), body));
    assert_eq!(simulator.tokens(), seen[1].tokens.unwrap(), "sums are of what models answered");
}
