//! What holds for every input, however odd: no panic, no stack overflow, equal answers, time in proportion.

use crate::support::assert_in_proportion;
use longhaul_engine::ApiFormat;
use longhaul_engine::check::{Host, Target, check, compare};
use proptest::prelude::*;
use serde_json::{Value, json};

tests! {
    always: [
        anything_is_judged_without_a_panic,
        anything_is_a_rewrite_of_itself,
        any_two_bodies_are_compared_without_a_panic,
        text_that_is_cut_or_damaged_is_judged_without_a_panic,
        deep_nesting_is_one_clear_line,
        a_lone_surrogate_is_reported_where_it_stands,
        a_key_that_stands_twice_is_reported_where_it_stands,
        time_is_in_proportion_to_the_number_of_messages,
    ],
    real: [],
}

const KEYS: &[&str] = &[
    "role",
    "content",
    "type",
    "text",
    "id",
    "tool_calls",
    "tool_call_id",
    "function",
    "name",
    "arguments",
    "tool_use_id",
    "input",
    "output",
    "call_id",
    "summary",
    "encrypted_content",
    "source",
    "data",
    "media_type",
    "image_url",
    "thinking",
    "signature",
    "cache_control",
    "ttl",
    "is_error",
    "refusal",
    "reasoning_content",
    "messages",
    "tools",
    "system",
    "instructions",
    "store",
    "response_format",
    "tool_choice",
    "prefix",
];

const WORDS: &[&str] = &[
    "",
    " ",
    "user",
    "assistant",
    "system",
    "developer",
    "tool",
    "function",
    "text",
    "image",
    "image_url",
    "tool_use",
    "tool_result",
    "server_tool_use",
    "web_search_tool_result",
    "thinking",
    "redacted_thinking",
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "item_reference",
    "base64",
    "document",
    "ephemeral",
    "1h",
    "enabled",
    "any",
    "json_object",
    "{}",
    "[[",
    "c1",
    "c2",
    "rs_1",
    "data:image/png;base64,AAAA",
    "iVBORw0KGgoAAAANSUhEUg",
    "/9j/4AAQ",
    "R0lGODlh",
    "UklGRgAAAABXRUJQ",
    "application/pdf",
    "é\u{1F600}",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        8 => prop::sample::select(WORDS).prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let entries = prop::collection::vec((prop::sample::select(KEYS), inner.clone()), 0..6);
        prop_oneof![
            1 => prop::collection::vec(inner, 0..6).prop_map(Value::from),
            3 => entries.prop_map(|entries| entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

/// A body of the right outline with anything in the place of messages and blocks.
fn body() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(&["user", "assistant", "tool", "system"][..]);
    let content = prop_oneof![value(), prop::collection::vec(value(), 0..4).prop_map(Value::from)];
    let message = prop_oneof![
        1 => value(),
        4 => (role, content, value()).prop_map(|(role, content, mut message)| {
            if !message.is_object() {
                message = json!({});
            }
            message["role"] = role.into();
            message["content"] = content;
            message
        }),
    ];
    (prop::collection::vec(message, 0..6), value()).prop_map(|(messages, mut envelope)| {
        if !envelope.is_object() {
            envelope = json!({});
        }
        envelope["messages"] = messages.clone().into();
        envelope["input"] = messages.into();
        envelope
    })
}

fn target() -> impl Strategy<Value = Target> {
    let strict = Host::all().map(|host| {
        let mut target = Target::on_host(host);
        (target.supports_prefill, target.accepts_mid_system, target.binds_thinking) =
            (Some(false), Some(false), Some(true));
        (target.requires_reasoning, target.requires_alternation, target.accepts_system_role) =
            (Some(true), Some(true), Some(false));
        (target.accepts_forced_choice, target.accepts_thinking_budget) = (Some(false), Some(false));
        target
    });
    prop::sample::select(strict.chain([Target::on_host(Host::unknown())]).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    fn anything_is_judged_without_a_panic(body in prop_oneof![body(), value()], target in target()) {
        let text = body.to_string();
        for dialect in ApiFormat::ALL {
            let found = check(&text, dialect, &target);
            prop_assert_eq!(&found, &check(&text, dialect, &target));
            for violation in found {
                let in_messages = ["/messages/", "/input/"].iter().any(|list| violation.at.starts_with(list));
                let message: String = violation.at.split_inclusive('/').take(3).collect();
                let there = !in_messages || body.pointer(message.trim_end_matches('/')).is_some();
                prop_assert!(there, "nothing is at {}", violation.at);
            }
        }
    }

    fn anything_is_a_rewrite_of_itself(body in body(), target in target()) {
        let text = body.to_string();
        for dialect in ApiFormat::ALL {
            prop_assert_eq!(compare(&text, &text, dialect, &target), []);
        }
    }

    fn any_two_bodies_are_compared_without_a_panic(before in body(), after in body()) {
        for dialect in ApiFormat::ALL {
            let _ = compare(&before.to_string(), &after.to_string(), dialect, &Target::default_for(dialect));
        }
    }

    fn text_that_is_cut_or_damaged_is_judged_without_a_panic(body in body(), at in any::<prop::sample::Index>(), c in any::<char>()) {
        let mut text = body.to_string();
        let at = text.char_indices().map(|(i, _)| i).nth(at.index(text.chars().count())).unwrap();
        let _ = check(&text[..at], ApiFormat::Chat, &Target::default_for(ApiFormat::Chat));
        text.insert(at, c);
        let _ = check(&text, ApiFormat::Messages, &Target::default_for(ApiFormat::Messages));
        text.insert_str(at, "\\ud83d");
        let _ = check(&text, ApiFormat::Responses, &Target::default_for(ApiFormat::Responses));
    }
}

fn deep_nesting_is_one_clear_line() {
    for depth in [200, 10_000, 1_000_000] {
        let body = format!(r#"{{"messages":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let found = check(&body, ApiFormat::Chat, &Target::default_for(ApiFormat::Chat));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rule, "G1");
        assert!(found[0].message.contains("nested deeper"), "{}", found[0].message);
        assert!(compare(&body, &body, ApiFormat::Chat, &Target::default_for(ApiFormat::Chat)).len() == 1);
    }
}

fn a_lone_surrogate_is_reported_where_it_stands() {
    let body = r#"{"a":["\"\\",{"b/c":"x"}],"messages":[{"role":"user","content":"fine \ud83d\ude00"},
        {"role":"user","content":[{"type":"text","text":"\ud83d \udc00"},{"type":"text","text":"x\uDFFF"}]}]}"#;
    let found = check(body, ApiFormat::Chat, &Target::default_for(ApiFormat::Chat));
    let places: Vec<(&str, &str)> = found.iter().map(|v| (v.rule, v.at.as_str())).collect();
    assert_eq!(places, [("G1", "/messages/1/content/0/text"), ("G1", "/messages/1/content/1/text")]);
}

fn a_key_that_stands_twice_is_reported_where_it_stands() {
    let body =
        r#"{"x":[1,{"a/b":{"c":1,"c":2,"d":{}}}],"messages":[{"role":"user","content":"hi","content":"ho"}],"x":0}"#;
    let found = check(body, ApiFormat::Chat, &Target::default_for(ApiFormat::Chat));
    let places: Vec<(&str, &str)> = found.iter().map(|v| (v.rule, v.at.as_str())).collect();
    assert_eq!(places, [("G1", "/x/1/a~1b/c"), ("G1", "/messages/0/content"), ("G1", "/x")]);
}

/// A session of so many messages, half of them calls and results, in each dialect.
fn session(api_format: ApiFormat, messages: usize) -> String {
    let text = "some words that a tool may have said, and more of them";
    let list: Vec<Value> = (0..messages / 2)
        .flat_map(|i| {
            let id = format!("c{i}");
            match api_format {
                ApiFormat::Chat => [
                    json!({"role":"assistant","content":null,"tool_calls":[{"id":id,"type":"function","function":{"name":"f","arguments":"{\"a\":\"b\"}"}}]}),
                    json!({"role":"tool","tool_call_id":id,"content":text}),
                ],
                ApiFormat::Messages => [
                    json!({"role":"assistant","content":[{"type":"tool_use","id":id,"name":"f","input":{"a":"b"}}]}),
                    json!({"role":"user","content":[{"type":"tool_result","tool_use_id":id,"content":text}]}),
                ],
                ApiFormat::Responses => [
                    json!({"type":"function_call","call_id":id,"name":"f","arguments":"{}"}),
                    json!({"type":"function_call_output","call_id":id,"output":text}),
                ],
            }
        })
        .collect();
    let key = if api_format == ApiFormat::Responses { "input" } else { "messages" };
    json!({ key: list, "tools": [{"name":"f"}] }).to_string()
}

fn time_is_in_proportion_to_the_number_of_messages() {
    for api_format in ApiFormat::ALL {
        let target = Target::default_for(api_format);
        let body = |times: usize| session(api_format, 1_000 * times);
        assert_in_proportion("check", body, |body| drop(check(body, api_format, &target)));
        assert_in_proportion("compare", body, |body| drop(compare(body, body, api_format, &target)));
    }
}
