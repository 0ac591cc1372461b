//! Features of one provider, served for an upstream that lacks them and refuses what it does not know.

use std::collections::BTreeSet;

use axum::http::HeaderMap;
use longhaul_engine::ApiFormat;
use longhaul_engine::Timestamp;
use longhaul_engine::check::{Severity, check};
use longhaul_server::store::{Durability, KeyLimits, Store, StoreLocation};
use longhaul_server::upstream::{NativeFeature, Provider, Upstream};
use reqwest::Response;
use serde_json::{Value, json};

use crate::agent::{Agent, Form};
use crate::echo::{Echo, SAID};
use crate::ground::{Ground, answer, header, settings, shared, with_window};
use crate::simulator::{Binding, Say, Settings, Simulator, says, target};

const MESSAGES: Form = Form { dialect: ApiFormat::Messages, is_stream: false };
const STREAMED: Form = Form { dialect: ApiFormat::Messages, is_stream: true };
const RESPONSES: Form = Form { dialect: ApiFormat::Responses, is_stream: false };
const BETAS: &str = "context-management-2025-06-27,other-2027-01-01,compact-2026-01-12";

fn edits(edits: impl Into<Value>) -> Value {
    let edits: Value = edits.into();
    json!({"edits": edits})
}

fn with(mut body: Value, managed: &Value) -> Value {
    body["context_management"] = managed.clone();
    body
}

async fn lacking(settings: Settings) -> (Simulator, Ground) {
    let simulator = Simulator::start(settings).await;
    let ground = Ground::start(crate::ground::settings(&simulator.origin()), &simulator).await;
    (simulator, ground)
}

async fn send(ground: &Ground, path: &str, body: &Value) -> Response {
    ground.request(path, body.to_string()).header("anthropic-beta", BETAS).send().await.unwrap()
}

/// What an answer says, whole or as events, with the block that came first and what was done.
struct Heard {
    text: String,
    block: Option<Value>,
    managed: Value,
    usage: Value,
    stop: Value,
}

async fn heard(response: Response) -> Heard {
    let status = response.status();
    let text = response.text().await.unwrap();
    assert_eq!(status, 200, "{text}");
    let mut heard =
        Heard { text: String::new(), block: None, managed: Value::Null, usage: Value::Null, stop: Value::Null };
    let mut blocks: Vec<Value> = Vec::new();
    if let Ok(document) = serde_json::from_str::<Value>(&text) {
        blocks.clone_from(document["content"].as_array().unwrap());
        (heard.managed, heard.usage) = (document["context_management"].clone(), document["usage"].clone());
        heard.stop = document["stop_reason"].clone();
    } else {
        for event in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
            let event: Value = event.parse().unwrap();
            match event["type"].as_str().unwrap() {
                "content_block_start" => {
                    assert_eq!(event["index"], blocks.len(), "blocks come one after the other: {text}");
                    blocks.push(event["content_block"].clone());
                }
                "content_block_delta" => {
                    let block = &mut blocks[usize::try_from(event["index"].as_u64().unwrap()).unwrap()];
                    for (name, value) in event["delta"].as_object().unwrap().iter().filter(|(name, _)| *name != "type")
                    {
                        match (&block[name], value) {
                            (Value::String(before), Value::String(more)) => {
                                block[name] = format!("{before}{more}").into();
                            }
                            _ => block[name] = value.clone(),
                        }
                    }
                }
                "message_delta" => {
                    (heard.managed, heard.usage) = (event["context_management"].clone(), event["usage"].clone());
                    heard.stop = event["delta"]["stop_reason"].clone();
                }
                _ => {}
            }
        }
    }
    if blocks.first().is_some_and(|block| block["type"] == "compaction") {
        heard.block = Some(blocks.remove(0));
    }
    heard.text = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    heard
}

fn beginning(longer: &[u8], shorter: &[u8]) -> usize {
    longer.iter().zip(shorter).take_while(|(a, b)| a == b).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_results_are_cleared_once_and_stay_cleared_word_for_word() {
    for form in [MESSAGES, STREAMED] {
        let (simulator, ground) = lacking(Settings::default()).await;
        let mut agent = Agent::new(form);
        let managed = edits(json!([{
            "type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 8000},
            "keep": {"type": "tool_uses", "value": 2}, "clear_at_least": {"type": "input_tokens", "value": 500},
        }]));
        let (mut changes, mut most, mut before) = (0, 0, Vec::new());
        for _ in 0..40 {
            agent.step(40);
            let heard = heard(send(&ground, "/v1/messages", &with(agent.body(), &managed)).await).await;
            assert!(heard.text.starts_with("ok"), "{}", heard.text);
            let seen = simulator.last().unwrap();
            assert_eq!(seen.header("anthropic-beta"), Some("other-2027-01-01"));
            let sent = seen.value();
            assert!(sent.get("context_management").is_none());
            let applied = &heard.managed["applied_edits"];
            let cleared = sent["messages"].to_string().matches("[cleared to make room").count();
            assert_eq!(applied[0]["cleared_tool_uses"].as_u64().unwrap_or_default(), cleared as u64, "{applied}");
            assert_eq!(
                cleared > 0,
                applied[0]["cleared_input_tokens"].as_u64().is_some_and(|tokens| tokens > 500 || cleared > 0)
            );
            assert!(cleared >= most, "what was cleared stays cleared");
            changes += usize::from(cleared > most);
            if cleared == most && !before.is_empty() {
                // The marks roll, so that what is compared is all that was said.
                let now = sent["messages"].to_string().replace(r#","cache_control":{"type":"ephemeral"}"#, "");
                let same = beginning(now.as_bytes(), &before);
                assert!(same + 2 >= before.len(), "the prefix is what was sent before: {same} of {}", before.len());
            }
            before = sent["messages"].to_string().replace(r#","cache_control":{"type":"ephemeral"}"#, "").into_bytes();
            most = cleared;
            // The newest two stay as they are.
            let newest: Vec<&Value> = sent["messages"].as_array().unwrap().iter().rev().step_by(2).take(2).collect();
            assert!(newest.iter().all(|message| message.to_string().contains("mismatched types")
                || !message.to_string().contains("tool_result")));
        }
        assert!(simulator.refused().is_empty());
        assert!(most > 20 && changes < 12, "{most} cleared in {changes} requests");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_that_are_excluded_stay_and_arguments_go_where_they_are_named() {
    let (simulator, ground) = lacking(Settings::default()).await;
    let mut agent = Agent::new(MESSAGES);
    (0..8).for_each(|_| agent.step(20));
    let clear = |more: Value| {
        let mut edit = json!({"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 4}});
        edit.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        edits(json!([edit]))
    };
    let ask = async |managed: Value| {
        let heard = heard(send(&ground, "/v1/messages", &with(agent.body(), &managed)).await).await;
        (heard.managed["applied_edits"].clone(), simulator.last().unwrap().value())
    };
    let (applied, sent) = ask(clear(json!({"exclude_tools": ["bash"]}))).await;
    assert_eq!((applied, sent.to_string().contains("[cleared")), (json!([]), false));
    let (applied, sent) =
        ask(clear(json!({"clear_tool_inputs": true, "keep": {"type": "tool_uses", "value": 3}}))).await;
    assert_eq!(applied[0]["cleared_tool_uses"], 4);
    assert_eq!(sent["messages"].to_string().matches(r#""input":{}"#).count(), 4);
    let (_, sent) = ask(clear(json!({"clear_tool_inputs": ["other"]}))).await;
    assert!(!sent.to_string().contains(r#""input":{}"#));
    let (applied, _) = ask(clear(json!({"clear_at_least": {"type": "input_tokens", "value": 1_000_000}}))).await;
    assert_eq!(applied, json!([]));
    // However little is to be kept, what the model has not read yet is.
    let (applied, sent) = ask(clear(json!({"keep": {"type": "tool_uses", "value": 0}}))).await;
    assert_eq!(applied[0]["cleared_tool_uses"], 4);
    assert!(sent["messages"].as_array().unwrap().last().unwrap().to_string().contains("mismatched types"));
    assert!(simulator.refused().is_empty());
}

/// A session of turns, each of which thinks and calls.
async fn thinking(ground: &Ground, managed: &Value, turns: usize) -> Vec<Value> {
    let mut agent = Agent::new(MESSAGES);
    let mut applied = Vec::new();
    for turn in 0..turns {
        for _ in 0..2 {
            let response = send(ground, "/v1/messages", &with(agent.body(), managed)).await;
            let bytes = response.bytes().await.unwrap();
            let document: Value = serde_json::from_slice(&bytes).unwrap();
            applied.push(document["context_management"]["applied_edits"].clone());
            let said = agent.hears(&bytes);
            if said.calls > 0 {
                agent.answers_calls(&format!("{}\n", "a line of output ".repeat(200)));
            }
        }
        agent.says(&format!("And then number {turn}?"));
    }
    applied
}

/// A model that thinks, calls once and then answers.
fn thinker(binding: Binding) -> Settings {
    let speaker = says(|request, number| {
        let newest = request["messages"].as_array().unwrap().last().unwrap().to_string();
        if newest.contains("tool_result") {
            Say::text("There.").thinking(format!("seen {number}"))
        } else {
            Say::call("bash", json!({"command": "ls"})).thinking(format!("let me see {number}"))
        }
    });
    Settings { binding, speaker, ..Settings::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_of_older_turns_goes_and_is_counted() {
    let managed = edits(json!([{"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 2}}]));
    let (simulator, ground) = lacking(thinker(Binding::OpenLoop)).await;
    let applied = thinking(&ground, &managed, 6).await;
    assert!(simulator.refused().is_empty());
    let last = applied.last().unwrap();
    assert_eq!((&last[0]["type"], &last[0]["cleared_thinking_turns"]), (&json!("clear_thinking_20251015"), &json!(3)));
    let kept = edits(json!([{"type": "clear_thinking_20251015", "keep": "all"}]));
    let applied = thinking(&ground, &kept, 4).await;
    assert!(applied.iter().all(|applied| *applied == json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_that_is_bound_to_what_stands_before_it_is_never_left_behind_a_change() {
    let managed = edits(json!([
        {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 3}},
        {"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 2}, "keep": {"type": "tool_uses", "value": 1}},
    ]));
    let (simulator, ground) = lacking(thinker(Binding::Everywhere)).await;
    let mut agent = Agent::with_model(MESSAGES, "claude-opus-5-5");
    for turn in 0..8 {
        for _ in 0..2 {
            let response = send(&ground, "/v1/messages", &with(agent.body(), &managed)).await;
            let status = response.status();
            let bytes = response.bytes().await.unwrap();
            assert_eq!(status, 200, "{}", String::from_utf8_lossy(&bytes));
            if agent.hears(&bytes).calls > 0 {
                agent.answers_calls(&"a line of output ".repeat(200));
            }
        }
        agent.says(&format!("And then number {turn}?"));
    }
    assert!(simulator.refused().is_empty());
    assert!(simulator.last().unwrap().text().contains("[cleared to make room"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_comes_first_in_the_answer_and_stands_for_all_before_it() {
    for form in [MESSAGES, STREAMED] {
        let simulator = Simulator::start(Settings::default()).await;
        let ground = Ground::start(settings(&simulator.origin()), &simulator).await;
        let mut agent = Agent::new(form);
        let managed = edits(json!([{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 12000}}]));
        (0..40).for_each(|_| agent.step(60));
        agent.says("Which step was the last?");
        let response = send(&ground, "/v1/messages", &with(agent.body(), &managed)).await;
        assert_eq!(header(&response, "x-longhaul-action"), "compacted");
        assert_eq!(header(&response, "x-longhaul-served"), "context_management");
        let heard_first = heard(response).await;
        let block = heard_first.block.expect("a block");
        assert!(heard_first.text.starts_with("ok"));
        assert!(block["content"].as_str().unwrap().starts_with("[Longhaul checkpoint"));
        assert_eq!(heard_first.managed, json!({"applied_edits": []}));
        assert_eq!(heard_first.usage["iterations"][0]["type"], "compaction");
        assert_eq!(heard_first.usage["iterations"][1]["output_tokens"], heard_first.usage["output_tokens"]);
        let sent = simulator.last().unwrap().value();
        assert!(sent["messages"].as_array().unwrap().len() < agent.history.len());
        // The client keeps all of it, or only what stands behind the block: the upstream is told the same.
        let reply = json!({"role": "assistant", "content": [block, {"type": "text", "text": heard_first.text}]});
        let rest = [reply, json!({"role": "user", "content": "Go on."})];
        let all: Vec<Value> = agent.history.iter().chain(&rest).cloned().collect();
        let mut bodies = Vec::new();
        for history in [all.clone(), rest.to_vec(), all] {
            agent.history = history;
            let response = send(&ground, "/v1/messages", &with(agent.body(), &managed)).await;
            assert_eq!(header(&response, "x-longhaul-served"), "compaction, context_management");
            let again = heard(response).await;
            assert!(again.block.is_none(), "it is short now");
            bodies.push(simulator.last().unwrap().text().to_owned());
        }
        assert_eq!(bodies[0], bodies[1]);
        assert_eq!(bodies[0], bodies[2]);
        assert!(!bodies[0].contains("\"compaction\"") && bodies[0].contains("[Longhaul checkpoint"));
        let known = beginning(bodies[0].as_bytes(), sent.to_string().as_bytes());
        assert!(bodies[0].contains("recall_search"), "what was folded can still be fetched");
        assert!(known > 0);
        assert!(simulator.refused().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_wants_to_see_a_compaction_first_is_shown_it_and_may_keep_messages_behind_it() {
    for form in [MESSAGES, STREAMED] {
        let (simulator, ground) = lacking(Settings::default()).await;
        let mut agent = Agent::new(form);
        let managed = edits(json!([{
            "type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 12000}, "pause_after_compaction": true,
            "instructions": "Keep the errors.",
        }]));
        (0..40).for_each(|_| agent.step(60));
        let shown = heard(send(&ground, "/v1/messages", &with(agent.body(), &managed)).await).await;
        assert_eq!((shown.stop, shown.text.as_str()), (json!("compaction"), ""));
        assert!(simulator.seen().is_empty(), "nobody was asked");
        let block = json!({"role": "assistant", "content": [shown.block.unwrap()]});
        let kept = agent.history.split_off(agent.history.len() - 2);
        for rest in [Vec::new(), kept] {
            agent.history = std::iter::once(block.clone()).chain(rest).collect();
            if agent.history.len() == 1 {
                agent.history.push(json!({"role": "user", "content": "Go on."}));
            }
            let heard = heard(send(&ground, "/v1/messages", &with(agent.body(), &managed)).await).await;
            assert!(heard.text.starts_with("ok"));
            let sent = simulator.last().unwrap().value();
            let roles: Vec<&Value> = sent["messages"].as_array().unwrap().iter().map(|m| &m["role"]).collect();
            assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "speakers take turns: {roles:?}");
            assert_eq!(sent.to_string().matches("mismatched types in step 39").count(), 1, "nothing is said twice");
        }
        assert!(simulator.refused().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_of_somebody_else_is_read_and_one_that_failed_says_nothing() {
    let (simulator, ground) = lacking(Settings::default()).await;
    let ask = async |content: Value| {
        let body = json!({"model": "m", "max_tokens": 9, "messages": [
            {"role": "user", "content": "The first thing."}, {"role": "assistant", "content": content},
            {"role": "user", "content": "Go on."},
        ]});
        heard(send(&ground, "/v1/messages", &body).await).await;
        simulator.last().unwrap().value()["messages"].clone()
    };
    let told = ask(json!([{"type": "compaction", "content": "We built a shed.", "encrypted_content": "theirs"}, {"type": "text", "text": "Yes."}])).await;
    assert_eq!(
        told,
        json!([
            {"role": "user", "content": "We built a shed."}, {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
            {"role": "user", "content": "Go on."},
        ])
    );
    let told = ask(json!([{"type": "compaction", "content": null}, {"type": "text", "text": "Yes."}])).await;
    assert_eq!(told[0]["content"], "The first thing.");
    let alone = ask(json!([{"type": "compaction", "content": "We built a shed."}])).await;
    assert_eq!(
        alone,
        json!([{"role": "user", "content": [
            {"type": "text", "text": "We built a shed."}, {"type": "text", "text": "Go on."},
        ]}])
    );
    assert!(simulator.refused().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_we_cannot_do_is_refused_as_the_provider_would() {
    let (simulator, ground) = lacking(Settings::default()).await;
    let agent = Agent::new(MESSAGES);
    for (managed, said) in [
        (edits(json!([{"type": "clear_dreams_20270101"}])), "context_management.edits.0: unknown variant"),
        (
            edits(
                json!([{"type": "compact_20260112"}, {"type": "clear_thinking_20251015", "keep": {"type": "thinking_turns", "value": 0}}]),
            ),
            "context_management.edits.1.keep.value",
        ),
        (
            edits(json!([{"type": "compact_20260112", "trigger": {"type": "tool_uses", "value": 3}}])),
            "context_management.edits.0.trigger.type",
        ),
        (edits(json!([{"type": "compact_20260112", "color": "red"}])), "context_management.edits.0: unknown field"),
        (json!({"edits": 3}), "context_management: invalid type"),
    ] {
        for path in ["/v1/messages", "/v1/messages/count_tokens"] {
            let response = send(&ground, path, &with(agent.body(), &managed)).await;
            assert_eq!(response.status(), 400);
            let error = answer(response).await;
            assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("invalid_request_error")));
            let message = error["error"]["message"].as_str().unwrap();
            assert!(message.starts_with(said), "{message}");
        }
    }
    assert!(simulator.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_says_what_it_would_be_without_the_edits() {
    let (simulator, ground) = lacking(Settings::default()).await;
    let mut agent = Agent::new(MESSAGES);
    (0..20).for_each(|_| agent.step(40));
    let managed = edits(json!([{"type": "clear_tool_uses_20250919", "trigger": {"type": "tool_uses", "value": 5}}]));
    let count = async |body: Value| answer(send(&ground, "/v1/messages/count_tokens", &body).await).await;
    let mut body = agent.body();
    body.as_object_mut().unwrap().remove("stream");
    body.as_object_mut().unwrap().remove("max_tokens");
    let plain = count(body.clone()).await;
    assert!(plain.get("context_management").is_none());
    let counted = count(with(body, &managed)).await;
    let (whole, left) = (plain["input_tokens"].as_f64().unwrap(), counted["input_tokens"].as_f64().unwrap());
    let original = counted["context_management"]["original_input_tokens"].as_f64().unwrap();
    assert!(left < 0.5 * whole && (original / whole - 1.0).abs() < 0.3, "{plain} {counted}");
    assert!(simulator.refused().is_empty());
}

async fn compact(ground: &Ground, body: &Value) -> (HeaderMap, Value) {
    let response = ground.post_json("/v1/responses/compact", body).await;
    let (status, headers) = (response.status(), response.headers().clone());
    let document = answer(response).await;
    assert_eq!(status, 200, "{document}");
    (headers, document)
}

fn asked(agent: &Agent) -> Value {
    let body = agent.body();
    json!({"model": body["model"], "instructions": body["instructions"], "input": body["input"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_history_comes_back_as_what_it_stands_for_each_time_alike() {
    let (simulator, ground) = lacking(Settings::default()).await;
    let mut agent = Agent::new(RESPONSES);
    (0..40).for_each(|_| agent.step(60));
    agent.says("Which step was the last?");
    let (headers, document) = compact(&ground, &asked(&agent)).await;
    assert_eq!(headers["x-longhaul-action"], "compacted");
    assert_eq!(document["object"], "response.compaction");
    let output = document["output"].as_array().unwrap();
    let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "message", "compaction"], "what the user said, and one item");
    assert!(simulator.seen().is_empty(), "no model was asked");
    let more = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]});
    let item = output.last().unwrap().clone();
    let mut bodies = Vec::new();
    for history in [output.clone(), vec![item.clone()], output.clone()] {
        agent.history = history;
        agent.history.push(more.clone());
        let response = ground.post_json("/v1/responses", &agent.body()).await;
        assert_eq!(header(&response, "x-longhaul-served"), "compaction");
        assert_eq!(response.status(), 200);
        response.bytes().await.unwrap();
        bodies.push(simulator.last().unwrap().text().to_owned());
    }
    assert_eq!(bodies[0], bodies[1], "whether the client keeps what the user said or not");
    assert_eq!(bodies[0], bodies[2]);
    assert!(bodies[0].contains("[Longhaul checkpoint") && !bodies[0].contains("\"compaction\""));
    assert_eq!(bodies[0].matches("Which step was the last?").count(), 1);
    assert!(bodies[0].contains("recall_search"), "what was folded can still be fetched");
    assert!(simulator.refused().is_empty());

    // It goes on, and is compacted once more: the older item is in the newer one.
    (0..30).for_each(|_| agent.step(60));
    let (_, again) = compact(&ground, &asked(&agent)).await;
    let kept = agent.history.clone();
    agent.history = kept.into_iter().chain(again["output"].as_array().unwrap().clone()).collect();
    agent.history.push(more);
    let response = ground.post_json("/v1/responses", &agent.body()).await;
    assert_eq!(response.status(), 200, "{}", response.text().await.unwrap());
    let sent = simulator.last().unwrap();
    assert_eq!(sent.text().matches("[Longhaul checkpoint").count(), 1);
    assert_eq!(sent.text().matches(r#""text":"Make the build green. Never touch the tests.""#).count(), 1);
    assert!(simulator.refused().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_its_result_stays_with_the_client() {
    let (simulator, ground) = lacking(Settings::default()).await;
    let mut agent = Agent::new(RESPONSES);
    (0..30).for_each(|_| agent.step(60));
    let result = agent.history.pop().unwrap();
    let (_, document) = compact(&ground, &asked(&agent)).await;
    let mut output = document["output"].as_array().unwrap().clone();
    assert_eq!(output.last().unwrap()["type"], "function_call");
    output.push(result);
    agent.history = output;
    let response = ground.post_json("/v1/responses", &agent.body()).await;
    assert_eq!(response.status(), 200);
    assert!(simulator.refused().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_forged_changed_or_handed_to_somebody_else_is_not_read() {
    let (simulator, ground) = lacking(Settings::default()).await;
    let key = async |name: &str| {
        let made = ground.store.add_key(name, name, KeyLimits::default(), Timestamp(0)).await.unwrap();
        made.reveal().to_owned()
    };
    let (owner, stranger) = (key("owner").await, key("stranger").await);
    let mut agent = Agent::new(RESPONSES);
    (0..20).for_each(|_| agent.step(60));
    let request = ground.request("/v1/responses/compact", asked(&agent).to_string());
    let document = answer(request.header("x-longhaul-key", &owner).send().await.unwrap()).await;
    let ours = document["output"].as_array().unwrap().last().unwrap()["encrypted_content"].as_str().unwrap().to_owned();
    let middle = ours.len() / 2;
    let other = if &ours[middle..=middle] == "A" { "B" } else { "A" };
    let changed = format!("{}{other}{}", &ours[..middle], &ours[middle + 1..]);
    let ask = async |sealed: &str, key: &str| {
        let item = json!({"type": "compaction", "encrypted_content": sealed});
        let body = json!({"model": "gpt-5", "input": [item, {"role": "user", "content": "Go on."}]});
        let request = ground.request("/v1/responses", body.to_string()).header("x-longhaul-key", key);
        request.send().await.unwrap().bytes().await.unwrap();
        simulator.last().unwrap().text().contains(&format!("\"encrypted_content\":\"{sealed}\""))
    };
    for forged in [changed.as_str(), "gAAAAABtheirs", "lh1.", "lh1.AAAA", "lh1.!!", &ours[..middle]] {
        assert!(ask(forged, &owner).await, "{forged} goes as it came");
    }
    assert!(ask(&ours, &stranger).await);
    assert!(!ask(&ours, &owner).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_to_compact_that_cannot_be_served_is_refused_as_the_provider_would() {
    let (simulator, ground) = lacking(Settings::default()).await;
    for (body, said) in [
        (json!({"model": "gpt-5", "previous_response_id": "resp_1"}), "previous_response_id"),
        (json!({"model": "gpt-5"}), "input"),
        (json!({"input": "hello"}), "model"),
    ] {
        let response = ground.post_json("/v1/responses/compact", &body).await;
        assert_eq!(response.status(), 400);
        let error = answer(response).await;
        assert_eq!(error["error"]["type"], "invalid_request_error");
        assert!(error["error"]["message"].as_str().unwrap().starts_with(said), "{error}");
    }
    let (_, document) = compact(&ground, &json!({"model": "gpt-5", "input": "hello"})).await;
    let body = json!({"model": "gpt-5", "input": document["output"]});
    assert_eq!(ground.post_json("/v1/responses", &body).await.status(), 200);
    assert_eq!(simulator.last().unwrap().text().matches("hello").count(), 1);
    assert!(simulator.refused().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_has_them_gets_every_byte() {
    let echo = Echo::start().await;
    let mut settings = settings(&echo.origin);
    let at = |provider: &str, base: &str| {
        let upstream = Upstream::new(Provider::named(provider).unwrap(), Some(base), None).unwrap();
        std::sync::Arc::new(upstream.with_native(NativeFeature::ALL.to_vec()))
    };
    settings.upstreams.messages = at("anthropic", &echo.origin);
    settings.upstreams.responses = at("openai", &format!("{}/v1", echo.origin));
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let ground = Ground::with_store(settings, store, std::sync::Arc::default()).await;
    let managed = r#"{ "model":"m","max_tokens": 9, "context_management" :{"edits":[{"type":"any_20300101"}]},"messages":[{"role":"assistant","content":[{"type":"compaction","content":"x"}]},{"role":"user","content":"hi"}]}"#;
    let compacted =
        r#"{ "model":"m", "previous_response_id" : "resp_1","input":[{"type":"compaction","encrypted_content":"x"}]}"#;
    for (path, body) in [
        ("/v1/messages", managed),
        ("/v1/messages/count_tokens", managed),
        ("/v1/responses", compacted),
        ("/v1/responses/compact", compacted),
    ] {
        let response = ground.request(path, body).header("anthropic-beta", BETAS).send().await.unwrap();
        assert_eq!(header(&response, "x-longhaul-served"), "");
        assert_eq!(response.text().await.unwrap(), SAID, "{path}");
        let took = echo.last();
        assert_eq!((took.target.as_str(), &took.body), (path, &body.into()));
        assert_eq!(took.headers["anthropic-beta"], BETAS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_edits_come_before_compactions_of_our_own() {
    let simulator = Simulator::start(Settings::window(16_000)).await;
    let agent_model = Agent::new(MESSAGES).model();
    let ground = Ground::start(with_window(settings(&simulator.origin()), agent_model, 16_000), &simulator).await;
    let clear = edits(json!([{
        "type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 4000}, "keep": {"type": "tool_uses", "value": 2},
    }]));
    let mut agent = Agent::new(MESSAGES);
    let mut actions = Vec::new();
    for _ in 0..60 {
        agent.step(40);
        let response = send(&ground, "/v1/messages", &with(agent.body(), &clear)).await;
        actions.push(header(&response, "x-longhaul-action"));
        heard(response).await;
    }
    assert!(simulator.refused().is_empty());
    assert!(
        actions[..20].iter().all(|action| action == "none"),
        "what the client clears needs no compaction: {actions:?}"
    );
}

/// A model that looks something up when it is asked to.
fn curious() -> Settings {
    let speaker = says(|request, number| {
        let newest = request["messages"].as_array().unwrap().last().unwrap().to_string();
        let is_asked = newest.contains("Look it up.") && !newest.contains("tool_result");
        if is_asked && request["tools"].to_string().contains("recall_search") {
            Say::call("recall_search", json!({"query": "mismatched types in step 7"}))
        } else {
            Say::text(format!("ok {number}"))
        }
    });
    Settings { speaker, ..Settings::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handed_out_compaction_folded_can_be_fetched_by_the_model() {
    for form in [MESSAGES, STREAMED] {
        let (simulator, ground) = lacking(curious()).await;
        let mut agent = Agent::new(form);
        let managed = edits(json!([{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 12000}}]));
        (0..40).for_each(|_| agent.step(60));
        agent.says("Which step was the last?");
        let first = heard(send(&ground, "/v1/messages", &with(agent.body(), &managed)).await).await;
        let reply =
            json!({"role": "assistant", "content": [first.block.unwrap(), {"type": "text", "text": first.text}]});
        agent.history = vec![reply, json!({"role": "user", "content": "What failed in step 7? Look it up."})];
        let heard = heard(send(&ground, "/v1/messages", &with(agent.body(), &managed)).await).await;
        assert!(heard.text.starts_with("ok") && heard.managed == json!({"applied_edits": []}), "{}", heard.text);
        let asked = simulator.last().unwrap();
        let results = asked.value()["messages"].as_array().unwrap().last().unwrap().to_string();
        assert!(results.contains("tool_result") && results.contains("step 7"), "{results}");
        assert!(simulator.refused().is_empty());
    }
}

/// The rules of its API format that a body breaks.
fn broken(body: &str) -> BTreeSet<&'static str> {
    let found = check(body, ApiFormat::Messages, &target(ApiFormat::Messages, "claude-sonnet-4-5"));
    found.into_iter().filter(|found| found.severity == Severity::Error).map(|found| found.rule).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_bodies_break_no_rule_for_being_edited_or_compacted() {
    let Some(shared) = shared() else { return };
    let echo = Echo::start().await;
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let ground = Ground::with_store(settings(&echo.origin), store, std::sync::Arc::default()).await;
    let clear = edits(json!([
        {"type": "clear_thinking_20251015"},
        {"type": "clear_tool_uses_20250919", "trigger": {"type": "input_tokens", "value": 8000}, "clear_tool_inputs": true},
    ]));
    let compact = edits(json!([{
        "type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 12000}, "pause_after_compaction": true,
    }]));
    let (mut cleared, mut compacted) = (0, 0);
    for file in std::fs::read_dir(shared.join("corpus")).unwrap().map(|file| file.unwrap().path()) {
        if !file.to_string_lossy().ends_with(".messages.json") {
            continue;
        }
        let mut body: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        body["stream"] = false.into();
        let before = broken(&body.to_string());
        send(&ground, "/v1/messages", &with(body.clone(), &clear)).await;
        let sent = String::from_utf8(echo.last().body.to_vec()).unwrap();
        assert!(broken(&sent).is_subset(&before), "{}", file.display());
        cleared += usize::from(sent.contains("[cleared to make room"));
        let shown = answer(send(&ground, "/v1/messages", &with(body.clone(), &compact)).await).await;
        if shown["stop_reason"] == "compaction" {
            let reply = json!({"role": "assistant", "content": shown["content"]});
            let history = body["messages"].as_array_mut().unwrap();
            history.extend([reply, json!({"role": "user", "content": "Go on."})]);
            send(&ground, "/v1/messages", &body).await;
            let sent = String::from_utf8(echo.last().body.to_vec()).unwrap();
            assert!(broken(&sent).is_subset(&before) && !sent.contains("\"compaction\""), "{}", file.display());
            compacted += 1;
        }
    }
    assert!(cleared > 5 && compacted > 5, "{cleared} were cleared, {compacted} compacted");
}
