//! Where cache marks go, row by row, and what holds wherever they go.

use crate::support::{Body, Numbers, generate, policy, real_bodies};
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{
    self, BreakpointCarrier, BreakpointOptions, BreakpointOwner, StablePieces, breakpoint_edits, place_breakpoints,
    prefix_chain, set_cache_key_edit,
};
use longhaul_engine::check::{Target, check};
use longhaul_engine::plan::{CompactOptions, Compressor, Engine, Plan, PlanInput};
use longhaul_engine::policy::CacheStrategy::{self, Prefix, SystemAndThree};
use longhaul_engine::texts::CHECKPOINT_OPENING;
use longhaul_engine::wire::{self, CacheLifetime};
use longhaul_engine::{ApiFormat, Rewrite};
use serde_json::{Value, json};
use std::collections::BTreeSet;

tests! {
    always: [
        the_system_prompt_and_the_last_three_other_messages,
        a_string_becomes_a_text_block_and_keeps_its_bytes,
        one_hour_is_written_where_it_is_asked_for,
        a_list_gets_it_on_its_last_block_that_can_carry_one,
        a_results_mark_stands_on_its_block,
        on_chat_routes_tool_messages_and_empty_ones_carry_none,
        a_host_that_translates_itself_gets_the_field_on_the_message,
        a_chat_image_carries_none,
        the_clients_own_are_counted_first_and_kept,
        of_more_than_four_those_before_the_messages_and_the_newest_stay,
        a_compaction_leaves_four_at_most_and_says_which_went,
        a_mark_beside_the_messages_and_one_inside_a_result_take_their_slots,
        marks_on_chat_tools_take_their_slots_wherever_they_stand,
        an_hour_never_comes_after_five_minutes,
        a_prefix_that_is_too_short_is_not_marked,
        the_prefix_strategy_marks_tools_system_checkpoint_and_newest_turn,
        a_turn_of_many_blocks_gets_a_spare_mark_where_the_last_one_ended,
        openai_gets_a_key_that_stays_with_the_session,
        no_rule_is_broken_and_breakpoints_can_be_removed,
        marks_know_whose_they_are,
    ],
    real: [no_rule_is_ever_broken_in_real_bodies],
}

fn marking(strategy: CacheStrategy, lifetime: CacheLifetime, carrier: BreakpointCarrier) -> BreakpointOptions {
    BreakpointOptions { strategy, lifetime, carrier, first_cacheable: Some(0) }
}

const USUAL: BreakpointOptions = BreakpointOptions {
    strategy: SystemAndThree,
    lifetime: CacheLifetime::FiveMinutes,
    carrier: BreakpointCarrier::Content,
    first_cacheable: Some(0),
};

/// The body with its marks; that they can be taken away again is checked on the way.
fn marked(api_format: ApiFormat, body: &str, marking: &BreakpointOptions) -> String {
    let (transcript, _) = wire::parse(api_format, body).unwrap();
    let reading = wire::prompt_order(&transcript);
    let marks = place_breakpoints(&StablePieces::find(&transcript, &reading), &reading, marking);
    let rewrite = Rewrite::new(&transcript, breakpoint_edits(body, &reading, &marks)).unwrap();
    let out = rewrite.apply(body);
    assert_eq!(rewrite.inverse(body).apply(&out), body);
    out
}

/// Where marks are: JSON pointers, with ` 1h` behind the long ones, in the order of reading.
fn places(body: &str) -> Vec<String> {
    fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
        if let Some(mark) = value.get("cache_control").filter(|mark| !mark.is_null()) {
            found.push(format!("{at}{}", if mark["ttl"] == "1h" { " 1h" } else { "" }));
        }
        match value {
            Value::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    walk(item, &format!("{at}/{i}"), found);
                }
            }
            Value::Object(fields) => {
                for (key, field) in fields.iter().filter(|(key, _)| key.as_str() != "input") {
                    walk(field, &format!("{at}/{key}"), found);
                }
            }
            _ => {}
        }
    }
    let value: Value = serde_json::from_str(body).unwrap();
    let mut found = Vec::new();
    for part in ["tools", "system", "messages"] {
        walk(&value[part], &format!("/{part}"), &mut found);
    }
    if value.get("cache_control").is_some() {
        found.push("/".into());
    }
    found
}

#[track_caller]
fn golden(api_format: ApiFormat, body: Value, marking: &BreakpointOptions, wanted: &[&str]) {
    assert_eq!(places(&marked(api_format, &body.to_string(), marking)), wanted, "{body}");
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn reply(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

const MARK: &str = r#"{"type":"ephemeral"}"#;

fn mark() -> Value {
    serde_json::from_str(MARK).unwrap()
}

fn the_system_prompt_and_the_last_three_other_messages() {
    let body = json!({"system": "You work.", "messages": [user("a"), reply("b"), user("c"), reply("d"), user("e")]});
    golden(
        ApiFormat::Messages,
        body,
        &USUAL,
        &["/system/0", "/messages/2/content/0", "/messages/3/content/0", "/messages/4/content/0"],
    );
    let system = json!({"role": "system", "content": "You work."});
    let body = json!({"messages": [system, user("a"), reply("b"), user("c"), reply("d"), user("e")]});
    golden(
        ApiFormat::Chat,
        body,
        &USUAL,
        &["/messages/0/content/0", "/messages/3/content/0", "/messages/4/content/0", "/messages/5/content/0"],
    );
}

fn a_string_becomes_a_text_block_and_keeps_its_bytes() {
    let body = r#"{"messages": [ {"content" : "caf\u00e9 \/ \ud83d", "role": "user"} ]}"#;
    assert_eq!(
        marked(ApiFormat::Messages, body, &USUAL),
        r#"{"messages": [ {"content" : [{"type":"text","text":"caf\u00e9 \/ \ud83d","cache_control":{"type":"ephemeral"}}], "role": "user"} ]}"#
    );
}

fn one_hour_is_written_where_it_is_asked_for() {
    let body = r#"{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#;
    let hour = BreakpointOptions { lifetime: CacheLifetime::OneHour, ..USUAL };
    assert_eq!(
        marked(ApiFormat::Messages, body, &hour),
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}"#
    );
}

fn a_list_gets_it_on_its_last_block_that_can_carry_one() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    let redacted = json!({"type": "redacted_thinking", "data": "x"});
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://a/b.png"}});
    let call = json!({"type": "tool_use", "id": "c", "name": "f", "input": {}});
    let odd = json!({"type": "hologram"});
    let cases: &[(&str, Value, &[&str])] = &[
        ("assistant", json!([text("a"), text("b")]), &["/messages/0/content/1"]),
        ("assistant", json!([text("a"), thinking]), &["/messages/0/content/0"]),
        ("assistant", json!([text("a"), redacted]), &["/messages/0/content/0"]),
        ("user", json!([text("a"), text("")]), &["/messages/0/content/0"]),
        ("user", json!([text("a"), text(" \n\t")]), &["/messages/0/content/0"]),
        ("user", json!([text("a"), odd]), &["/messages/0/content/0"]),
        ("user", json!([text("a"), image]), &["/messages/0/content/1"]),
        ("assistant", json!([text("a"), call]), &["/messages/0/content/1"]),
        ("assistant", json!([thinking]), &[]),
        ("user", json!([text(" ")]), &[]),
        ("user", json!(" \n"), &[]),
        ("user", json!(""), &[]),
        ("user", json!([]), &[]),
        ("assistant", json!(null), &[]),
    ];
    for (role, content, wanted) in cases {
        golden(ApiFormat::Messages, json!({"messages": [{"role": role, "content": content}]}), &USUAL, wanted);
    }
}

fn a_results_mark_stands_on_its_block() {
    let result = json!({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "ok"}]});
    let body = json!({"messages": [{"role": "user", "content": [result]}]});
    golden(ApiFormat::Messages, body, &USUAL, &["/messages/0/content/0"]);
}

/// A chat session whose newest messages are a call without content and its result.
fn chat() -> Value {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    json!({"messages": [
        {"role": "system", "content": "You work."}, user("a"), reply("b"), user("c"),
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ]})
}

fn on_chat_routes_tool_messages_and_empty_ones_carry_none() {
    golden(
        ApiFormat::Chat,
        chat(),
        &USUAL,
        &["/messages/0/content/0", "/messages/1/content/0", "/messages/2/content/0", "/messages/3/content/0"],
    );
}

fn a_host_that_translates_itself_gets_the_field_on_the_message() {
    golden(
        ApiFormat::Chat,
        chat(),
        &BreakpointOptions { carrier: BreakpointCarrier::Message, ..USUAL },
        &["/messages/0/content/0", "/messages/3/content/0", "/messages/4", "/messages/5"],
    );
}

fn a_chat_image_carries_none() {
    let image = json!({"type": "image_url", "image_url": {"url": "https://a/b.png"}});
    let content = json!([{"type": "text", "text": "look"}, image]);
    golden(
        ApiFormat::Chat,
        json!({"messages": [{"role": "user", "content": content}]}),
        &USUAL,
        &["/messages/0/content/0"],
    );
}

fn the_clients_own_are_counted_first_and_kept() {
    let marked_text = |text: &str| json!([{"type": "text", "text": text, "cache_control": mark()}]);
    let body = |tools: Value, system: Value, first: Value| {
        let messages = [json!({"role": "user", "content": first}), reply("b"), user("c"), reply("d"), user("e")];
        json!({"tools": tools, "system": system, "messages": messages})
    };
    let tool = json!([{"name": "f", "input_schema": {}, "cache_control": mark()}]);
    let plain = json!([{"name": "f", "input_schema": {}}]);
    golden(
        ApiFormat::Messages,
        body(tool.clone(), json!("You work."), json!("a")),
        &USUAL,
        &["/tools/0", "/system/0", "/messages/3/content/0", "/messages/4/content/0"],
    );
    golden(
        ApiFormat::Messages,
        body(plain.clone(), marked_text("You work."), json!("a")),
        &USUAL,
        &["/system/0", "/messages/2/content/0", "/messages/3/content/0", "/messages/4/content/0"],
    );
    golden(
        ApiFormat::Messages,
        body(tool.clone(), marked_text("You work."), marked_text("a")),
        &USUAL,
        &["/tools/0", "/system/0", "/messages/0/content/0", "/messages/4/content/0"],
    );
    let mut full = body(tool, marked_text("You work."), marked_text("a"));
    full["messages"][1]["content"] = marked_text("b");
    assert_eq!(marked(ApiFormat::Messages, &full.to_string(), &USUAL), full.to_string());
}

fn a_mark_beside_the_messages_and_one_inside_a_result_take_their_slots() {
    let mut body =
        json!({"system": "You work.", "messages": [user("a"), reply("b"), user("c")], "cache_control": mark()});
    golden(
        ApiFormat::Messages,
        body.clone(),
        &USUAL,
        &["/system/0", "/messages/0/content/0", "/messages/1/content/0", "/"],
    );
    let inner = json!([{"type": "text", "text": "x", "cache_control": mark()}, {"type": "text", "text": "y", "cache_control": mark()}]);
    body["messages"][0]["content"] = json!([{"type": "tool_result", "tool_use_id": "c", "content": inner}]);
    golden(
        ApiFormat::Messages,
        body,
        &USUAL,
        &["/system/0", "/messages/0/content/0/content/0", "/messages/0/content/0/content/1", "/"],
    );
}

fn marked_user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text, "cache_control": mark()}]})
}

fn of_more_than_four_those_before_the_messages_and_the_newest_stay() {
    let system = |n: usize| vec![json!({"type": "text", "text": "You work.", "cache_control": mark()}); n];
    let turns = |n: usize| {
        let turn = |i: usize| [marked_user(&format!("go {i}")), reply("yes")];
        let mut turns: Vec<Value> = (0..n).flat_map(turn).collect();
        turns.pop();
        turns
    };
    let body = |before: usize, after: usize| json!({"system": system(before), "messages": turns(after)});
    let at = |message: usize| format!("/messages/{message}/content/0");
    let (newer, newest) = (at(6), at(8));
    let wanted = ["/system/0", "/system/1", &newer, &newest];
    golden(ApiFormat::Messages, body(2, 5), &USUAL, &wanted);
    golden(ApiFormat::Messages, body(2, 5), &BreakpointOptions { first_cacheable: None, ..USUAL }, &wanted);
    golden(ApiFormat::Messages, body(6, 0), &USUAL, &["/system/2", "/system/3", "/system/4", "/system/5"]);
    golden(ApiFormat::Messages, body(6, 5), &USUAL, &["/system/3", "/system/4", "/system/5", &newest]);
    golden(ApiFormat::Messages, body(0, 5), &USUAL, &[&at(2), &at(4), &newer, &newest]);
    let mut automatic = body(1, 5);
    automatic["cache_control"] = mark();
    golden(ApiFormat::Messages, automatic, &USUAL, &["/system/0", &at(6), &at(8), "/"]);
}

fn a_compaction_leaves_four_at_most_and_says_which_went() {
    let turn = |i: usize| [marked_user(&format!("step {i}: {}", "look again ".repeat(200))), reply("yes")];
    let mut messages: Vec<Value> = (0..40).flat_map(turn).collect();
    messages.push(marked_user("and now?"));
    let system = json!([{"type": "text", "text": "You work.", "cache_control": mark()}]);
    let body = json!({"system": system, "messages": messages}).to_string();
    let policy = policy("claude-sonnet-4-5", 20_000);
    let (transcript, _) = wire::parse(ApiFormat::Messages, &body).unwrap();
    let plan = Compressor
        .compact(PlanInput {
            policy: &policy,
            options: &CompactOptions::default(),
            cache: &mut BlockCache::default(),
            transcript: &transcript,
        })
        .unwrap();
    let Plan::Ready(outcome) = plan else { panic!("nothing was compacted") };
    let left = places(&outcome.body);
    assert!(left.len() == 4 && left[0] == "/system/0", "{left:?}");
    let refused = check(&outcome.body, ApiFormat::Messages, &Target::default_for(ApiFormat::Messages));
    assert!(refused.iter().all(|violation| violation.rule != "A27"), "{refused:?}");
    let said = outcome.report.notes.iter().find(|note| note.contains("breakpoints removed"));
    assert!(said.is_some_and(|note| note.contains("/messages/")), "{:?}", outcome.report.notes);
    let again = Rewrite::new(&transcript, outcome.ledger.edits(&transcript)).unwrap().apply(&body);
    assert_eq!(again, outcome.body, "a replay makes the same cuts");
}

fn marks_on_chat_tools_take_their_slots_wherever_they_stand() {
    let tool = |marked: Value| json!({"type": "function", "function": marked});
    let inside = tool(json!({"name": "f", "cache_control": mark()}));
    let beside = json!({"type": "function", "function": {"name": "g"}, "cache_control": mark()});
    let body = json!({"tools": [inside, beside], "messages": [user("a"), reply("b"), user("c")]});
    golden(
        ApiFormat::Chat,
        body,
        &USUAL,
        &["/tools/0/function", "/tools/1", "/messages/1/content/0", "/messages/2/content/0"],
    );
}

fn an_hour_never_comes_after_five_minutes() {
    let text = |text: &str, ttl: Option<&str>| {
        let mark = ttl.map_or(mark(), |ttl| json!({"type": "ephemeral", "ttl": ttl}));
        json!([{"type": "text", "text": text, "cache_control": mark}])
    };
    let hour = BreakpointOptions { lifetime: CacheLifetime::OneHour, ..USUAL };
    let body = |system: Value, last: Value| json!({"system": system, "messages": [user("a"), reply("b"), {"role": "user", "content": last}]});
    golden(
        ApiFormat::Messages,
        body(json!("You work."), text("c", Some("1h"))),
        &USUAL,
        &["/system/0 1h", "/messages/0/content/0 1h", "/messages/1/content/0 1h", "/messages/2/content/0 1h"],
    );
    golden(
        ApiFormat::Messages,
        body(text("You work.", None), json!("c")),
        &hour,
        &["/system/0", "/messages/0/content/0", "/messages/1/content/0", "/messages/2/content/0"],
    );
    golden(
        ApiFormat::Messages,
        body(text("You work.", Some("1h")), text("c", Some("5m"))),
        &hour,
        &["/system/0 1h", "/messages/0/content/0 1h", "/messages/1/content/0 1h", "/messages/2/content/0"],
    );
}

fn a_prefix_that_is_too_short_is_not_marked() {
    let body = json!({"system": "You work.", "messages": [user("a"), reply("b"), user("c")]});
    golden(ApiFormat::Messages, body.clone(), &BreakpointOptions { first_cacheable: None, ..USUAL }, &[]);
    golden(
        ApiFormat::Messages,
        body,
        &BreakpointOptions { first_cacheable: Some(2), ..USUAL },
        &["/messages/1/content/0", "/messages/2/content/0"],
    );
}

fn the_prefix_strategy_marks_tools_system_checkpoint_and_newest_turn() {
    let prefix = BreakpointOptions { strategy: Prefix, ..USUAL };
    let checkpoint = user(&format!("{CHECKPOINT_OPENING}: reference only]\nGoal: …\n[End of the checkpoint.]"));
    let tools = json!([{"name": "a", "input_schema": {}}, {"name": "b", "input_schema": {}, "defer_loading": true}]);
    let body = json!({"tools": tools, "system": "You work.",
        "messages": [user("go"), reply("yes"), checkpoint, reply("on"), user("more")]});
    golden(
        ApiFormat::Messages,
        body.clone(),
        &prefix,
        &["/tools/0", "/system/0", "/messages/2/content/0", "/messages/4/content/0"],
    );
    let mut dated = body;
    dated["system"] = json!([
        {"type": "text", "text": "You work."},
        {"type": "text", "text": "Current time: 2026-11-16T08:30:12Z"},
        {"type": "text", "text": "Good luck."},
    ]);
    golden(
        ApiFormat::Messages,
        dated,
        &prefix,
        &["/tools/0", "/system/0", "/messages/2/content/0", "/messages/4/content/0"],
    );
}

fn a_turn_of_many_blocks_gets_a_spare_mark_where_the_last_one_ended() {
    let prefix = BreakpointOptions { strategy: Prefix, ..USUAL };
    let body = |calls: usize| {
        let call = |i: usize| json!({"type": "tool_use", "id": format!("c{i}"), "name": "f", "input": {}});
        let result = |i: usize| json!({"type": "tool_result", "tool_use_id": format!("c{i}"), "content": "ok"});
        json!({"system": "You work.", "messages": [
            user("go"),
            {"role": "assistant", "content": (0..calls).map(call).collect::<Vec<_>>()},
            {"role": "user", "content": (0..calls).map(result).collect::<Vec<_>>()},
        ]})
    };
    golden(ApiFormat::Messages, body(9), &prefix, &["/system/0", "/messages/2/content/8"]);
    golden(ApiFormat::Messages, body(10), &prefix, &["/system/0", "/messages/0/content/0", "/messages/2/content/9"]);
}

fn openai_gets_a_key_that_stays_with_the_session() {
    let key = |body: &str| {
        let (transcript, _) = wire::parse(ApiFormat::Responses, body).unwrap();
        let reading = wire::prompt_order(&transcript);
        let edit = set_cache_key_edit(&reading, &cache::session_cache_key(&prefix_chain(&transcript)).unwrap());
        Rewrite::new(&transcript, edit.into_iter().collect()).unwrap().apply(body)
    };
    let short = key(r#"{"instructions":"You work.","input":[{"role":"user","content":"go"}]}"#);
    let long = key(
        r#"{"instructions":"You work.","input":[{"role":"user","content":"go"},{"role":"assistant","content":"yes"}]}"#,
    );
    let value = |body: &str| serde_json::from_str::<Value>(body).unwrap()["prompt_cache_key"].clone();
    assert_eq!(value(&short), value(&long));
    assert!(value(&short).as_str().unwrap().len() <= 64);
    let own = r#"{"input":"go","prompt_cache_key":"mine"}"#;
    assert_eq!(key(own), own);
    assert_ne!(
        value(&short),
        value(&key(r#"{"instructions":"You work.","input":[{"role":"user","content":"stop"}]}"#))
    );
}

/// Puts legal marks of a client on some blocks: at most four, hours before minutes, none on thinking or empty text.
fn mark_as_a_client(value: &mut Value, numbers: &mut Numbers) {
    let mut blocks: Vec<&mut Value> = Vec::new();
    for (key, field) in value.as_object_mut().into_iter().flatten() {
        match (key.as_str(), field) {
            ("system", Value::Array(items)) => blocks.extend(items),
            ("messages", Value::Array(messages)) => {
                for message in messages {
                    if let Some(Value::Array(items)) = message.get_mut("content") {
                        blocks.extend(items);
                    }
                }
            }
            _ => {}
        }
    }
    blocks.retain(|block| block.is_object());
    for block in &mut blocks {
        block.as_object_mut().unwrap().shift_remove("cache_control");
    }
    blocks.retain(|block| {
        let words = block["text"].as_str().is_some_and(|text| !text.trim().is_empty());
        matches!(block["type"].as_str(), Some("tool_use" | "tool_result")) || block["type"] == "text" && words
    });
    let count = numbers.below(5).min(blocks.len());
    let long = numbers.below(count + 1);
    let mut at: Vec<usize> = (0..count).map(|_| numbers.below(blocks.len())).collect();
    at.sort_unstable();
    at.dedup();
    for (n, at) in at.into_iter().enumerate() {
        blocks[at]["cache_control"] = if n < long { json!({"type": "ephemeral", "ttl": "1h"}) } else { mark() };
    }
}

fn broken(body: &str, api_format: ApiFormat) -> Vec<(&'static str, String)> {
    let found = check(body, api_format, &Target::default_for(api_format));
    let about_marks = found.into_iter().filter(|v| ["A27", "A28", "A29", "A30"].contains(&v.rule));
    about_marks.map(|v| (v.rule, v.at)).collect()
}

fn is_legal_order(places: &[String]) -> bool {
    let long: Vec<bool> = places.iter().map(|place| place.ends_with(" 1h")).collect();
    long.is_sorted_by(|a, b| a >= b)
}

fn no_rule_is_broken_and_breakpoints_can_be_removed() {
    mark_all(generate::some(400).map(|(name, made)| (name, made.dialect, made.body)).collect());
}

fn no_rule_is_ever_broken_in_real_bodies() {
    mark_all(real_bodies());
}

fn mark_all(bodies: Vec<Body>) {
    let mut numbers = Numbers(11);
    let mut set = 0;
    for (name, api_format, body) in bodies {
        if serde_json::from_str::<Value>(&body).is_err() {
            // Half a surrogate pair, which only our own reader takes: what is checked is that the bytes come back.
            marked(api_format, &body, &USUAL);
            continue;
        }
        let clients = match serde_json::from_str::<Value>(&body) {
            Ok(mut value) => {
                mark_as_a_client(&mut value, &mut numbers);
                value.to_string()
            }
            _ => body.clone(),
        };
        for body in [body, clients] {
            let before = broken(&body, api_format);
            let had = places(&body).len();
            for strategy in [SystemAndThree, Prefix] {
                for lifetime in [CacheLifetime::FiveMinutes, CacheLifetime::OneHour] {
                    for carrier in [BreakpointCarrier::Content, BreakpointCarrier::Message] {
                        let out = marked(api_format, &body, &marking(strategy, lifetime, carrier));
                        let rules =
                            |all: &[(&'static str, String)]| all.iter().map(|(rule, _)| *rule).collect::<BTreeSet<_>>();
                        // Too many marks are mended, and with those that go their order may be.
                        let after = rules(&broken(&out, api_format));
                        assert!(after.is_subset(&rules(&before)) && !after.contains("A27"), "{name}: {after:?}");
                        let after = places(&out);
                        assert!(after.len() <= had.max(4), "{name}");
                        assert!(is_legal_order(&after) || !is_legal_order(&places(&body)), "{name}: {after:?}");
                        let chains = [&body, &out].map(|b| prefix_chain(&wire::parse(api_format, b).unwrap().0));
                        let prefixes = chains.map(|c| c.links.iter().map(|l| l.prefix).collect::<Vec<_>>());
                        assert_eq!(prefixes[0], prefixes[1], "{name}");
                        set += after.len().saturating_sub(had);
                    }
                }
            }
        }
    }
    assert!(set > 1_000, "only {set} marks were set");
}

fn marks_know_whose_they_are() {
    let body =
        json!({"system": [{"type": "text", "text": "You work.", "cache_control": mark()}], "messages": [user("a")]})
            .to_string();
    let (transcript, _) = wire::parse(ApiFormat::Messages, &body).unwrap();
    let reading = wire::prompt_order(&transcript);
    let by: Vec<BreakpointOwner> = place_breakpoints(&StablePieces::find(&transcript, &reading), &reading, &USUAL)
        .iter()
        .map(|mark| mark.owner)
        .collect();
    assert_eq!(by, [BreakpointOwner::Client, BreakpointOwner::Longhaul]);
}
