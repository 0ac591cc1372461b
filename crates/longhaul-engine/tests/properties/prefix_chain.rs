//! A chain changes when the prompt does, and not when only its bytes do.

use crate::support::{Body, Numbers, generate, real_bodies, written_differently};
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{self, PrefixChain, PrefixChange, PrefixHash};
use longhaul_engine::wire::{self, PromptPart};
use longhaul_engine::{ApiFormat, models};
use serde_json::{Value, json};

tests! {
    always: [
        formatting_and_breakpoints_change_no_link,
        a_session_that_goes_on_parts_from_nothing,
        the_first_difference_is_found_where_it_is,
        a_tools_own_field_named_like_a_mark_is_content,
        pieces_weigh_what_the_request_weighs,
    ],
    real: [
        pieces_weigh_what_the_real_request_weighs,
        a_real_session_that_goes_on_parts_from_nothing,
        how_a_real_body_is_written_and_marked_changes_no_link,
    ],
}

fn chain(api_format: ApiFormat, body: &str) -> PrefixChain {
    cache::prefix_chain(&wire::parse(api_format, body).unwrap().0)
}

fn prefixes(chain: &PrefixChain) -> Vec<PrefixHash> {
    chain.links.iter().map(|link| link.prefix).collect()
}

/// Generated bodies without the quirks that another writer of JSON cannot keep.
fn generated() -> Vec<Body> {
    let kept = |made: &generate::Generated| {
        !made.quirks.iter().any(|quirk| ["half a surrogate", "repeated key"].contains(quirk))
    };
    generate::some(300).filter(|(_, made)| kept(made)).map(|(name, made)| (name, made.dialect, made.body)).collect()
}

/// Takes marks away, and puts others in their place, wherever the dialect has a place for them.
fn remark(value: &mut Value, numbers: &mut Numbers) {
    let mut objects: Vec<&mut Value> = Vec::new();
    let root = value;
    if let Some(object) = root.as_object_mut() {
        for (key, field) in object.iter_mut() {
            match (key.as_str(), field) {
                ("tools" | "system", Value::Array(items)) => objects.extend(items),
                ("messages", Value::Array(messages)) => {
                    for message in messages {
                        if let Some(Value::Array(blocks)) = message.get_mut("content") {
                            objects.extend(blocks);
                        }
                    }
                }
                _ => {}
            }
        }
    }
    for object in objects.into_iter().filter_map(Value::as_object_mut) {
        object.shift_remove("cache_control");
        if numbers.one_in(3) {
            object.insert("cache_control".into(), json!({"type": "ephemeral", "ttl": "1h"}));
        }
    }
}

/// A string that becomes a list of one text, and the other way round.
fn relist(value: &mut Value, kind: &str) {
    if let Some(Value::String(system)) = value.get("system").cloned() {
        value["system"] = json!([{"type": "text", "text": system}]);
    }
    let Some(messages) = value.get_mut("messages").and_then(Value::as_array_mut) else { return };
    for message in messages.iter_mut().filter(|message| message.is_object()) {
        let content = match message.get("content") {
            Some(Value::String(text)) if !text.is_empty() => json!([{"type": kind, "text": text}]),
            Some(Value::Array(blocks)) if blocks.len() == 1 => {
                let block = blocks[0].as_object();
                match block.filter(|block| block.len() == 2 && block.get("type") == Some(&json!("text"))) {
                    Some(block) if block.get("text").is_some_and(|text| text.is_string() && text != "") => {
                        block["text"].clone()
                    }
                    _ => continue,
                }
            }
            _ => continue,
        };
        message["content"] = content;
    }
}

fn formatting_and_breakpoints_change_no_link() {
    written_and_marked(generated());
}

fn how_a_real_body_is_written_and_marked_changes_no_link() {
    let bodies = real_bodies();
    assert!(bodies.iter().all(|(_, api_format, body)| !chain(*api_format, body).links.is_empty()));
    written_and_marked(bodies);
}

fn written_and_marked(bodies: Vec<Body>) {
    let mut numbers = Numbers(7);
    for (name, api_format, body) in bodies {
        let before = prefixes(&chain(api_format, &body));
        for (way, written) in written_differently(&body) {
            assert_eq!(prefixes(&chain(api_format, &written)), before, "{name}, {way}");
        }
        let mut value: Value = serde_json::from_str(&body).unwrap();
        remark(&mut value, &mut numbers);
        assert_eq!(prefixes(&chain(api_format, &value.to_string())), before, "{name}, other marks");
        if api_format != ApiFormat::Responses {
            relist(&mut value, "text");
            assert_eq!(prefixes(&chain(api_format, &value.to_string())), before, "{name}, strings and lists");
        }
    }
}

fn a_session_that_goes_on_parts_from_nothing() {
    going_on(generated());
}

fn a_real_session_that_goes_on_parts_from_nothing() {
    going_on(real_bodies());
}

fn going_on(bodies: Vec<Body>) {
    for (name, api_format, body) in bodies {
        let mut value: Value = serde_json::from_str(&body).unwrap();
        let key = if api_format == ApiFormat::Responses { "input" } else { "messages" };
        let whole = chain(api_format, &body);
        assert_eq!(cache::compare_chains(&whole, &whole), None, "{name}");
        let Some(messages) = value.get_mut(key).and_then(Value::as_array_mut) else { continue };
        messages.pop();
        let shorter = chain(api_format, &value.to_string());
        assert_eq!(cache::compare_chains(&shorter, &whole), None, "{name}");
        assert_eq!(prefixes(&whole)[..shorter.links.len()], prefixes(&shorter), "{name}");
        if shorter.links.len() < whole.links.len() {
            let removed = cache::compare_chains(&whole, &shorter).unwrap();
            assert!(matches!(removed.change, PrefixChange::Removed { .. }), "{name}");
            assert_eq!(removed.first_piece, shorter.links.len());
        }
    }
}

fn the_first_difference_is_found_where_it_is() {
    let body = json!({
        "model": "claude-sonnet-4-5",
        "tools": [{"name": "read", "input_schema": {}}, {"name": "write", "input_schema": {}}],
        "system": [{"type": "text", "text": "You work."}, {"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": "fix it"},
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, {"type": "tool_use", "id": "c", "name": "read", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]},
        ],
    });
    let old = chain(ApiFormat::Messages, &body.to_string());
    assert_eq!(old.links.len(), 8);
    let cases: &[(&str, Value, PromptPart, usize)] = &[
        ("/tools/1/name", json!("edit"), PromptPart::Tools, 1),
        ("/system/1/text", json!("Be long."), PromptPart::System, 3),
        ("/messages/0/content", json!("break it"), PromptPart::Messages, 4),
        ("/messages/0/role", json!("assistant"), PromptPart::Messages, 4),
        ("/messages/1/content/1/input/a", json!(2), PromptPart::Messages, 6),
        ("/messages/2/content/0/content", json!("not ok"), PromptPart::Messages, 7),
        ("/model", json!("claude-opus-4-5"), PromptPart::Tools, 0),
    ];
    for (pointer, value, part, from) in cases {
        let mut changed = body.clone();
        *changed.pointer_mut(pointer).unwrap() = value.clone();
        let found = cache::compare_chains(&old, &chain(ApiFormat::Messages, &changed.to_string())).unwrap();
        assert_eq!((found.part, found.first_piece), (*part, *from), "{pointer}");
    }
    for (field, change) in [("tool_choice", PrefixChange::ToolChoice), ("thinking", PrefixChange::Thinking)] {
        let mut changed = body.clone();
        changed[field] = json!({"type": "auto"});
        let found = cache::compare_chains(&old, &chain(ApiFormat::Messages, &changed.to_string())).unwrap();
        assert_eq!((found.change, found.part, found.first_piece), (change, PromptPart::Messages, 4));
    }
}

fn a_tools_own_field_named_like_a_mark_is_content() {
    let body = |value: &str| {
        format!(
            r#"{{"messages":[{{"role":"assistant","content":[{{"type":"tool_use","id":"c","name":"set","input":{{"cache_control":"{value}"}}}}]}}]}}"#
        )
    };
    let [old, new] = ["no-store", "public"].map(|value| chain(ApiFormat::Messages, &body(value)));
    assert_ne!(prefixes(&old), prefixes(&new));
}

fn pieces_weigh_what_the_request_weighs() {
    weighing(generated());
}

fn pieces_weigh_what_the_real_request_weighs() {
    weighing(real_bodies());
}

fn weighing(bodies: Vec<Body>) {
    let model = models::find("claude-sonnet-4-5");
    for (name, api_format, body) in bodies {
        let (transcript, _) = wire::parse(api_format, &body).unwrap();
        let reading = wire::prompt_order(&transcript);
        let weights = cache::PieceTokens::new(&transcript, &reading, &model);
        let cache = &mut BlockCache::default();
        let Some(last) = weights.prefix_sums(cache).last().copied() else { continue };
        let total = longhaul_engine::meter::Meter::for_model(&model).breakdown(cache, &transcript).total();
        assert_eq!(last, total, "{name}");
    }
}
