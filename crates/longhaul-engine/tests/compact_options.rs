//! What a caller may ask of a compaction, and what bodies say about themselves: cases that need a body of their own.

#![allow(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::check::{Severity, check, compare};
use longhaul_engine::models;
use longhaul_engine::plan::{
    Advice, CompactOptions, CompactedRequest, CompactionReport, Compressor, Engine, Plan, PlanInput,
};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::{ApiFormat, Tokens, cache, wire};
use serde_json::{Value, json};

fn policy(model: &str, window: u64) -> Policy {
    let facts = json!({"window": window, "input_limit": null});
    let model = models::find(model).with_stated_facts(facts.as_object().unwrap()).unwrap();
    Policy::new(&Config::default(), &model).unwrap().0
}

fn compact(policy: &Policy, options: &CompactOptions, body: &str) -> Plan {
    let (transcript, _) = wire::parse(None, body).unwrap();
    Compressor
        .compact(PlanInput { policy, options, cache: &mut BlockCache::default(), transcript: &transcript })
        .unwrap()
}

fn ready(plan: Plan) -> CompactedRequest {
    match plan {
        Plan::Ready(outcome) => outcome,
        Plan::Unchanged(report) => panic!("left: {}", report.reason),
    }
}

fn report(plan: Plan) -> CompactionReport {
    match plan {
        Plan::Ready(outcome) => outcome.report,
        Plan::Unchanged(report) => report,
    }
}

/// A session of Claude Code's making: a first message of three blocks, two of them the program's, and many steps.
fn of_several_blocks(note_words: usize, steps: usize) -> Value {
    let text = |text: String| json!({"type": "text", "text": text});
    let note = format!("<system-reminder>\n{}\n</system-reminder>", "mind the notes ".repeat(note_words));
    let mut messages = vec![json!({"role": "user", "content": [
        text(note),
        text("Please build the garden planner.".to_owned()),
        text("<system-reminder>\nThe user opened the file beds.py\n</system-reminder>".to_owned()),
    ]})];
    for n in 0..steps {
        let id = format!("toolu_{n}");
        let call =
            json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": format!("cat part{n}.py")}});
        let output = format!("leaf {n} of the garden\n").repeat(60);
        let result = json!({"type": "tool_result", "tool_use_id": id, "content": output});
        messages.push(json!({"role": "assistant", "content": [call]}));
        messages.push(json!({"role": "user", "content": [result]}));
    }
    messages.push(json!({"role": "assistant", "content": [text("The beds are planned.".to_owned())]}));
    messages.push(json!({"role": "user", "content": [text("Go on.".to_owned())]}));
    let tool = json!({"name": "Bash", "input_schema": {"type": "object"}});
    json!({"model": "claude-sonnet-4-5", "max_tokens": 4_000, "tools": [tool], "messages": messages})
}

#[test]
fn a_first_message_of_several_blocks_is_kept_or_folded_whole() {
    let policy = policy("claude-sonnet-4-5", 200_000);
    for (words, wanted) in [(30, 5_000), (300, 5_000), (900, 3_000), (900, 5_000), (3_000, 5_000)] {
        let body = of_several_blocks(words, 30).to_string();
        let options = CompactOptions { to_tokens: Some(Tokens(wanted)), ..CompactOptions::default() };
        let outcome = ready(compact(&policy, &options, &body));
        let target = policy.model.target(ApiFormat::Messages);
        let broken = compare(&body, &outcome.body, ApiFormat::Messages, &target);
        assert!(broken.iter().all(|v| v.severity != Severity::Error), "{words}, {wanted}: {broken:?}");
        assert!(check(&outcome.body, ApiFormat::Messages, &target).iter().all(|v| v.severity != Severity::Error));
        let has = |text: &str| outcome.body.contains(text);
        let blocks = [has("mind the notes mind"), has("opened the file beds.py")];
        assert!(blocks == [true; 2] || blocks == [false; 2], "{words}, {wanted}: half of it went");
        assert!(outcome.report.reached, "{words}, {wanted}: {:?}", outcome.report.notes);
        let said = outcome.report.notes.iter().any(|note| note.contains("first message"));
        assert_eq!(said, blocks == [false; 2], "{words}, {wanted}: {:?}", outcome.report.notes);
        assert!(has("Please build the garden planner."));
    }
}

#[test]
fn the_room_of_the_reply_counts() {
    let policy = policy("claude-sonnet-4-5", 20_000);
    let with = |key: &str, tokens: u64| {
        let mut body = of_several_blocks(30, 12);
        body.as_object_mut().unwrap().remove("max_tokens");
        body[key] = json!(tokens);
        report(compact(&policy, &CompactOptions::default(), &body.to_string()))
    };
    let small = with("max_tokens", 1_000);
    assert!(small.tokens.before < Tokens(10_000), "{:?}", small.tokens);
    assert!(!small.changed && small.reached, "{}", small.reason);
    for key in ["max_tokens", "max_completion_tokens", "max_output_tokens"] {
        let large = with(key, 16_000);
        assert!(large.changed && large.reached, "{key}: {} {:?}", large.reason, large.notes);
        assert!(large.reason.contains("up to 16,000 for the reply"), "{key}: {}", large.reason);
        assert!(large.tokens.after <= Tokens(4_000), "{key}: {:?}", large.tokens);
    }
    // No compaction makes room for a reply as large as the window.
    assert!(!with("max_tokens", 64_000).changed);
}

#[test]
fn what_stays_cached_is_what_a_comparison_of_both_bodies_says() {
    let policy = policy("claude-sonnet-4-5", 200_000);
    let body = of_several_blocks(300, 40).to_string();
    for wanted in [2_000, 5_000, 9_000] {
        let options = CompactOptions { to_tokens: Some(Tokens(wanted)), ..CompactOptions::default() };
        let outcome = ready(compact(&policy, &options, &body));
        let (old, _) = wire::parse(ApiFormat::Messages, &body).unwrap();
        let (new, _) = wire::parse(ApiFormat::Messages, &outcome.body).unwrap();
        let (before, after) = (wire::prompt_order(&old), wire::prompt_order(&new));
        let warm = cache::cached_prefix(&before, &new, &after, &policy.model, &mut BlockCache::default());
        assert_eq!(outcome.report.tokens.warm, warm.tokens);
        let sizes = cache::PieceTokens::new(&new, &after, &policy.model).prefix_sums(&mut BlockCache::default());
        assert_eq!(outcome.report.cost.cold_tokens, *sizes.last().unwrap() - warm.tokens);
    }
}

/// A chat session of steps with long results behind a system prompt and a request.
fn chat(steps: usize) -> Value {
    let mut messages = vec![
        json!({"role": "system", "content": "You are careful."}),
        json!({"role": "user", "content": "Tidy up the garden planner."}),
    ];
    for n in 0..steps {
        let id = format!("call_{n}");
        let function = json!({"name": "bash", "arguments": json!({"command": format!("cat part{n}.py")}).to_string()});
        messages.push(json!({"role": "assistant", "content": null,
            "tool_calls": [{"id": id, "type": "function", "function": function}]}));
        let output = format!("leaf {n} of the garden\n").repeat(60);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    json!({"model": "gpt-5", "messages": messages})
}

fn messages(body: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(body).unwrap()["messages"].as_array().unwrap().clone()
}

#[test]
fn everything_from_a_chosen_message_on_stays_and_all_before_it_may_go() {
    let policy = policy("gpt-5", 40_000);
    let body = chat(30).to_string();
    let original = messages(&body);
    for (from, first_kept) in [(20, 20), (21, 20), (61, 60)] {
        let options = CompactOptions { keep_from: Some(from), ..CompactOptions::default() };
        let outcome = ready(compact(&policy, &options, &body));
        let kept = messages(&outcome.body);
        assert!(kept.ends_with(&original[first_kept..]), "{from}");
        assert!(!outcome.body.contains("leaf 5 of the garden\\nleaf 5"), "{from}");
        assert_eq!(outcome.report.units.kept, 1 + (62 - first_kept) / 2 + 1, "{from}: {:?}", outcome.report.units);
    }
}

#[test]
fn faulty_calls_are_repaired_where_they_are_rewritten_and_named_where_they_are_not() {
    let policy = policy("gpt-5", 16_000);
    let mut body = chat(16);
    let list = body["messages"].as_array_mut().unwrap();
    list.remove(11);
    list[13]["tool_calls"][0]["function"]["arguments"] = json!("{\"command\": \"cat");
    list.insert(10, json!({"role": "tool", "tool_call_id": "call_x", "content": "nobody asked"}));
    let newest = list.len() - 2;
    list[newest]["tool_calls"][0]["function"]["arguments"] = json!("no json");
    let options = CompactOptions { force: true, ..CompactOptions::default() };
    let left = report(compact(&policy, &CompactOptions::default(), &body.to_string()));
    assert!(!left.changed);
    for words in ["a call without a result", "a result without a call", "2 calls with arguments that are no JSON"] {
        assert!(left.notes.iter().any(|note| note.starts_with(words)), "{words}: {:?}", left.notes);
    }
    let outcome = ready(compact(&policy, &options, &body.to_string()));
    let notes = &outcome.report.notes;
    assert!(outcome.report.checkpoint.is_none(), "it is only made shorter");
    assert!(!outcome.body.contains("nobody asked"));
    for words in ["a result without a call is removed", "a call without a result got a stub", "2 calls with arguments"]
    {
        assert!(notes.iter().any(|note| note.starts_with(words)), "{words}: {notes:?}");
    }
    assert!(!outcome.body.contains("no_json"), "this provider takes them");
    let target = policy.model.target(ApiFormat::Chat);
    let broken = check(&outcome.body, ApiFormat::Chat, &target);
    assert!(broken.iter().all(|v| !["O1", "O2"].contains(&v.rule)), "{broken:?}");
}

#[test]
fn at_the_goal_nothing_is_folded_unless_somebody_says_from_where_on_all_is_kept() {
    let policy = policy("gpt-5", 140_000);
    let words = |n: usize| json!({"role": if n.is_multiple_of(2) { "user" } else { "assistant" }, "content": format!("turn {n} waters the beds. ").repeat(40)});
    let body = json!({"model": "gpt-5", "messages": (0..81).map(words).collect::<Vec<_>>()}).to_string();
    let forced = report(compact(&policy, &CompactOptions { force: true, ..CompactOptions::default() }, &body));
    assert!(!forced.changed && forced.reason.contains("the goal of"), "{}", forced.reason);
    assert_eq!(forced.advice, Some(Advice::RequestSizeOrKeptPart));
    let outcome = ready(compact(&policy, &CompactOptions { keep_from: Some(70), ..CompactOptions::default() }, &body));
    assert!(messages(&outcome.body).ends_with(&messages(&body)[71..]));
    assert!(messages(&outcome.body).len() < 20);
}
