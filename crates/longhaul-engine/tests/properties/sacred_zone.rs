//! The sacred zone and the ladder: what must hold of every compaction of tool outputs.

use crate::support::{corpus, generate, policy};
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::check::{Severity, check, compare};
use longhaul_engine::models;
use longhaul_engine::plan::{
    CompactOptions, CompactedRequest, CompactionReport, ContentKind, Engine, EscalationAction, Fate, Originals, Plan,
    PlanInput, RecallIds, SacredZone,
};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::redact::SessionKey;
use longhaul_engine::{ApiFormat, Tokens, wire};
use serde_json::json;

tests! {
    always: [
        below_the_trigger_nothing_happens,
        the_largest_outputs_shrink_until_the_target_and_no_further,
        a_digest_keeps_the_error_and_the_exit_status_and_says_where_the_rest_is,
        the_first_exchange_the_newest_prompt_and_the_newest_steps_are_not_touched,
        what_the_ladder_counts_is_what_is_measured,
        a_goal_that_is_missed_is_said,
        a_second_run_changes_nothing_and_equal_inputs_give_equal_bytes,
        each_rung_is_climbed_only_if_the_one_before_was_not_enough,
        when_nothing_else_is_left_a_new_session_begins_with_what_was_said_first_and_last,
        an_open_loop_with_bound_reasoning_waits_unless_the_window_would_overflow,
        every_generated_body_stays_as_valid_as_it_was,
    ],
    real: [
        every_real_body_stays_valid_at_three_window_sizes,
    ],
}

fn wish() -> CompactOptions {
    let originals = Originals::Stored(RecallIds::new(SessionKey::new([7; 32])));
    let session = Some("s1".into());
    CompactOptions { originals, session_id: session, ..CompactOptions::default() }
}

fn plan(policy: &Policy, options: &CompactOptions, api_format: ApiFormat, body: &str) -> Plan {
    let (transcript, _) = wire::parse(api_format, body).unwrap();
    SacredZone
        .compact(PlanInput { policy, options, cache: &mut BlockCache::default(), transcript: &transcript })
        .unwrap()
}

#[track_caller]
fn ready(plan: Plan) -> CompactedRequest {
    match plan {
        Plan::Ready(outcome) => outcome,
        Plan::Unchanged(report) => panic!("left: {}", report.reason),
    }
}

#[track_caller]
fn left(plan: Plan) -> CompactionReport {
    match plan {
        Plan::Unchanged(report) => report,
        Plan::Ready(outcome) => panic!("changed: {}", outcome.report.reason),
    }
}

/// A session of so many steps, each with an output of so many lines, one of which is an error.
fn session(steps: usize, lines: usize) -> String {
    let mut messages = vec![
        json!({"role": "system", "content": "You are careful."}),
        json!({"role": "user", "content": "Make the build green. Never touch the tests."}),
    ];
    for step in 0..steps {
        let id = format!("c{step}");
        let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": format!("{{\"command\":\"make t{step}\"}}")}});
        messages.push(json!({"role": "assistant", "content": format!("Step {step}."), "tool_calls": [call]}));
        let noise: String = (0..lines).map(|line| format!("compiling unit {step}_{line} of the project\n")).collect();
        let output =
            format!("{noise}src/file{step}.rs:17: error: mismatched types in step {step}\nexit code: {}\n", step % 2);
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    messages.push(json!({"role": "user", "content": "And now? Look at src/file3.rs once more."}));
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

fn below_the_trigger_nothing_happens() {
    let report = left(plan(&policy("gpt-5", 100_000), &wish(), ApiFormat::Chat, &session(10, 20)));
    assert!(report.reason.starts_with("below the trigger"), "{}", report.reason);
    assert!(!report.changed);
}

fn the_largest_outputs_shrink_until_the_target_and_no_further() {
    let body = session(60, 130);
    let policy = policy("gpt-5", 100_000);
    let outcome = ready(plan(&policy, &wish(), ApiFormat::Chat, &body));
    let report = &outcome.report;
    assert!(report.tokens.before > Tokens(75_000), "{}", report.tokens.before);
    assert!(report.tokens.after <= Tokens(50_000), "{}", report.tokens.after);
    assert!(report.tokens.after > Tokens(48_000), "at most the work needed: {}", report.tokens.after);
    assert!(report.ladder.is_empty() && report.units.dropped == 0);
    assert_eq!(report.messages.before, report.messages.after);
    assert!(report.blocks.iter().all(|b| b.fate == Fate::Digested && b.tokens[0] > b.tokens[1]));
    let zone = report.zone.unwrap();
    assert!((Tokens(10_000)..=Tokens(40_000)).contains(&zone.recent), "{zone:?}");
}

fn a_digest_keeps_the_error_and_the_exit_status_and_says_where_the_rest_is() {
    let outcome = ready(plan(&policy("gpt-5", 100_000), &wish(), ApiFormat::Chat, &session(60, 130)));
    let (after, _) = wire::parse(ApiFormat::Chat, &outcome.body).unwrap();
    let digests: Vec<String> =
        after.blocks().map(|b| b.text().into_owned()).filter(|t| t.contains("left out")).collect();
    assert_eq!(digests.len(), outcome.report.blocks.len());
    for digest in &digests {
        assert!(digest.contains("error: mismatched types"), "{digest}");
        assert!(digest.contains("exit 0") || digest.contains("exit 1"), "{digest}");
        let recall_id = outcome.originals.iter().find(|o| digest.contains(&format!("recall {}", o.recall_id)));
        assert!(recall_id.is_some_and(|o| o.text.contains("compiling unit")), "{digest}");
    }
}

fn the_first_exchange_the_newest_prompt_and_the_newest_steps_are_not_touched() {
    let body = session(60, 130);
    let outcome = ready(plan(&policy("gpt-5", 100_000), &wish(), ApiFormat::Chat, &body));
    let value =
        |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["messages"].as_array().unwrap().clone();
    let (before, after) = (value(&body), value(&outcome.body));
    assert_eq!(before[..4], after[..4], "system prompt, task, first step");
    let recent = before.len() - 15;
    assert_eq!(before[recent..], after[recent..]);
}

fn what_the_ladder_counts_is_what_is_measured() {
    let long_names = session(60, 130).replace("\"bash\"", "\"mcp__a_server_with_a_long_name__run_a_shell_command\"");
    for window in [14_000, 9_000] {
        let report = ready(plan(&policy("gpt-5", window), &wish(), ApiFormat::Chat, &long_names)).report;
        let counted = report.ladder.last().unwrap().tokens[1];
        let off = counted.number().abs_diff(report.tokens.after.number());
        assert!(off < 100, "counted {counted}, measured {}", report.tokens.after);
        assert!(report.tokens.floor <= report.tokens.after && report.tokens.warm <= report.tokens.after);
    }
}

fn a_goal_that_is_missed_is_said() {
    let giant = json!({"model": "gpt-5", "messages": [{"role": "user", "content": "word ".repeat(30_000)},
        {"role": "assistant", "content": "ok"}, {"role": "user", "content": "a ".repeat(12_000)}]});
    let body = giant.to_string();
    match plan(&policy("gpt-5", 20_000), &wish(), ApiFormat::Chat, &body) {
        Plan::Unchanged(report) => {
            assert!(report.reason.contains("no output has more than"), "{}", report.reason);
            assert!(!report.reached && report.notes[0].contains("still over"), "{:?}", report.notes);
        }
        Plan::Ready(outcome) => {
            assert!(outcome.report.notes[0].contains("still over"), "{:?}", outcome.report.notes);
        }
    }
}

fn a_second_run_changes_nothing_and_equal_inputs_give_equal_bytes() {
    let body = session(60, 130);
    let policy = policy("gpt-5", 100_000);
    let first = ready(plan(&policy, &wish(), ApiFormat::Chat, &body));
    assert_eq!(first.body, ready(plan(&policy, &wish(), ApiFormat::Chat, &body)).body);
    left(plan(&policy, &wish(), ApiFormat::Chat, &first.body));
    // Forced, it goes on below the target once, and then there is nothing left to do.
    let forced = CompactOptions { force: true, ..wish() };
    let below = ready(plan(&policy, &forced, ApiFormat::Chat, &first.body));
    left(plan(&policy, &forced, ApiFormat::Chat, &below.body));
}

fn each_rung_is_climbed_only_if_the_one_before_was_not_enough() {
    let body = session(60, 130);
    let steps = |window: usize| {
        let report = ready(plan(&policy("gpt-5", window), &wish(), ApiFormat::Chat, &body)).report;
        let total = report.tokens.after;
        (report.ladder.iter().map(|rung| rung.step).collect::<Vec<_>>(), total, report)
    };
    let (none, ..) = steps(100_000);
    assert_eq!(none, []);
    let (digested, total, _) = steps(14_000);
    assert_eq!(digested, [EscalationAction::DigestAll]);
    assert!(total < Tokens(14_000));
    let (dropped, total, report) = steps(5_000);
    assert_eq!(dropped[..2], [EscalationAction::DigestAll, EscalationAction::DropOldest]);
    assert!(total < Tokens(5_000), "{total}");
    assert!(report.units.dropped > 0 && report.unsummarized > 0);
}

fn when_nothing_else_is_left_a_new_session_begins_with_what_was_said_first_and_last() {
    let words = "a requirement that has to be met, in so many words, and another. ".repeat(400);
    let body = json!({"model": "gpt-5", "messages": [
        {"role": "user", "content": words}, {"role": "assistant", "content": words},
        {"role": "user", "content": words}, {"role": "assistant", "content": words},
        {"role": "user", "content": "go on"}]})
    .to_string();
    let outcome = ready(plan(&policy("gpt-5", 8_000), &wish(), ApiFormat::Chat, &body));
    let report = &outcome.report;
    assert_eq!(report.ladder.last().map(|rung| rung.step), Some(EscalationAction::Restart));
    let restart = report.restart.as_ref().unwrap();
    assert_eq!((restart.parent.as_deref(), restart.archived_messages), (Some("s1"), 3));
    assert!(outcome.body.contains("3 earlier messages of session s1, which is archived, were removed"));
    assert!(outcome.body.contains("go on"));
    assert_eq!(outcome.originals.len(), 3, "what was archived can be kept");
    assert!(outcome.body.contains("a requirement that has to be met"), "the task is still there");
    assert!(report.blocks.iter().all(|b| b.fate == Fate::Recallable && b.why == "the window was full"));
    assert_eq!(report.evidence.recallable, report.evidence.found);
    let lost = CompactOptions { originals: Originals::Discarded, ..wish() };
    let report = ready(plan(&policy("gpt-5", 8_000), &lost, ApiFormat::Chat, &body)).report;
    assert!(report.blocks.iter().all(|b| b.fate == Fate::Lost && b.handle.is_none()));
    assert!(report.evidence.found > 0 && report.evidence.lost == report.evidence.found);
    assert_eq!((report.checkpoint, report.cost.cold_tokens), (None, report.tokens.after - report.tokens.warm));
}

fn an_open_loop_with_bound_reasoning_waits_unless_the_window_would_overflow() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
    let big = "a line of output that says little\n".repeat(4_000);
    let step = |id: &str, text: &str| {
        [
            json!({"role": "assistant", "content": [thinking, {"type": "tool_use", "id": id, "name": "bash", "input": {"command": "x"}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}),
        ]
    };
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    messages.extend(step("a", "ok"));
    messages.extend(step("b", &big));
    messages.extend(step("c", "fine"));
    let body = json!({"model": "m", "messages": messages}).to_string();
    let bound = |window: usize| {
        let stated = json!({"window": window, "thinking_bound": true});
        let model = models::find("claude-sonnet-4-5").with_stated_facts(stated.as_object().unwrap()).unwrap();
        Policy::new(&Config::default(), &model).unwrap().0
    };
    let force = CompactOptions { force: true, ..wish() };
    let report = left(plan(&bound(400_000), &force, ApiFormat::Messages, &body));
    assert!(report.reason.contains("bound"), "{}", report.reason);
    let mut ended = messages.clone();
    ended.push(json!({"role": "assistant", "content": [thinking, {"type": "text", "text": "done"}]}));
    ended.push(json!({"role": "user", "content": "thanks"}));
    let body = json!({"model": "m", "messages": ended}).to_string();
    let mut small = bound(400_000);
    small.sacred.recent_min = Tokens::ZERO;
    small.sacred.recent = Tokens::ZERO;
    small.sacred.recent_max = Tokens::ZERO;
    let outcome = ready(plan(&small, &force, ApiFormat::Messages, &body));
    let after: serde_json::Value = serde_json::from_str(&outcome.body).unwrap();
    let kept: Vec<usize> =
        (0..9).filter(|i| after["messages"][i]["content"].to_string().contains("signature")).collect();
    assert_eq!(kept, [1, 3], "only the reasoning before the first changed result still fits its prefix");
    let gone = outcome.report.blocks.iter().filter(|block| block.what == ContentKind::Reasoning).count();
    assert_eq!(gone, 2, "what went is in the report");
}

/// Holds a result against the rules and against what it came from.
fn judge(name: &str, policy: &Policy, api_format: ApiFormat, before: &str, outcome: &CompactedRequest) {
    let target = policy.model.target(api_format);
    let broken = |body: &str| {
        let errors = check(body, api_format, &target).into_iter().filter(|v| v.severity == Severity::Error);
        errors.map(|v| v.rule).collect::<std::collections::BTreeSet<_>>()
    };
    let new: Vec<_> = broken(&outcome.body).difference(&broken(before)).copied().collect();
    assert!(new.is_empty(), "{name}: the rewrite breaks {new:?}");
    let changed = compare(before, &outcome.body, api_format, &target);
    let errors: Vec<_> = changed.iter().filter(|v| v.severity == Severity::Error).collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
    assert!(outcome.report.tokens.after <= outcome.report.tokens.before, "{name}: more tokens");
    assert_eq!(outcome.rewrite.inverse(before).apply(&outcome.body), before, "{name}: undo");
}

fn every_real_body_stays_valid_at_three_window_sizes() {
    for (name, body) in corpus() {
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let model = transcript.model.clone().unwrap_or_default().into_owned();
        for window in [100_000, 32_000, 8_000] {
            let policy = policy(&model, window);
            if let Plan::Ready(outcome) = plan(&policy, &wish(), transcript.api_format, &body) {
                judge(&format!("{name} at {window}"), &policy, transcript.api_format, &body, &outcome);
            }
        }
    }
}

fn every_generated_body_stays_as_valid_as_it_was() {
    let mut policy = policy("gpt-5", 4_000);
    policy.sacred.min_output = Tokens(5);
    (policy.sacred.recent_min, policy.sacred.recent_max) = (Tokens(10), Tokens(10));
    (policy.digest_all_above, policy.drop_oldest_above) = (Tokens(120), Tokens(150));
    (policy.sacred.trigger, policy.sacred.target) = (Tokens(20), Tokens(60));
    let bodies = ApiFormat::ALL.into_iter().flat_map(|d| (0..600).map(move |seed| generate::body(d, seed)));
    generate::shrink::hold(bodies, |generated| {
        if let Plan::Ready(outcome) = plan(&policy, &wish(), generated.dialect, &generated.body) {
            judge(&outcome.body, &policy, generated.dialect, &generated.body, &outcome);
        }
    });
}
