//! When a session compacts, and when it does not.

use longhaul_engine::Tokens;
use longhaul_engine::config::StatedPrices;
use longhaul_engine::plan::{Trigger, WrittenBy};
use longhaul_engine::prices::Usage;
use longhaul_server::session::{AutoCompaction, LiveSession, RequestAction, SessionCommand, SessionSettings};

use super::world::{
    Agent, MODEL, NOON, at, checkpoints, compacted, compacted_by, request, says, settings, usage, valid,
};

#[tokio::test]
async fn a_request_below_the_threshold_goes_as_it_came() {
    let mut session = LiveSession::new(settings(40_000));
    let mut agent = Agent::new();
    agent.fill(4_000);
    let body = agent.body();
    let turn = request(&mut session, &body, NOON).await;
    assert_eq!((turn.action, turn.body.as_ref()), (RequestAction::Unchanged, body.as_str()));
    assert!(turn.notices.is_empty(), "{:?}", turn.notices);
}

#[tokio::test]
async fn at_the_threshold_it_is_compacted_and_then_replayed_word_for_word() {
    let mut session = LiveSession::new(settings(20_000));
    let mut agent = Agent::new();
    agent.fill(12_000);
    let body = agent.body();
    let turn = request(&mut session, &body, NOON).await;
    assert_eq!(compacted_by(&turn), WrittenBy::Code);
    assert_eq!(turn.report.as_ref().unwrap().trigger, Trigger::Preflight);
    assert!(says(&turn, "compacting at") && says(&turn, "compacted: "), "{:?}", turn.notices);
    let first = turn.body.into_owned();
    agent.step(5);
    let body = agent.body();
    let next = request(&mut session, &body, at(10)).await;
    assert_eq!(next.action, RequestAction::Replayed);
    assert!(next.body.starts_with(first.trim_end_matches("]}")), "what was sent is sent again, byte for byte");
    assert_eq!(checkpoints(&next.body), 1);
}

#[tokio::test]
async fn the_providers_count_over_the_threshold_is_enough() {
    let mut session = LiveSession::new(settings(20_000));
    let mut agent = Agent::new();
    agent.fill(7_000);
    let body = agent.body();
    assert_eq!(request(&mut session, &body, NOON).await.action, RequestAction::Unchanged);
    let usage = Usage { input: Some(Tokens(10_500)), output: Some(Tokens(100)), ..Usage::default() };
    let after = session.record_reply(&usage).await;
    assert!(after.trigger_reason.unwrap().contains("10,600 tokens, counted by the provider"));
    agent.step(1);
    let body = agent.body();
    let turn = request(&mut session, &body, at(2)).await;
    compacted(&turn);
    assert_eq!(turn.report.unwrap().trigger, Trigger::Reply);
}

#[tokio::test]
async fn an_input_that_leaves_no_room_for_its_reply_is_compacted() {
    let mut session = LiveSession::new(settings(20_000));
    let mut agent = Agent::new();
    agent.fill(6_000);
    let body = agent.body().replacen("{\"model\"", "{\"max_tokens\":16000,\"model\"", 1);
    let turn = session.prepare_request(&body, NOON).await;
    compacted(&turn);
    assert!(turn.reason.contains("exceed the window"), "{}", turn.reason);
}

#[tokio::test]
async fn a_session_that_grew_overnight_meets_hygiene() {
    let mut session = LiveSession::new(settings(20_000));
    let mut agent = Agent::new();
    agent.fill(20_000);
    let body = agent.body();
    let turn = request(&mut session, &body, NOON).await;
    compacted(&turn);
    assert_eq!(turn.report.unwrap().trigger, Trigger::Hygiene);
}

#[tokio::test]
async fn three_messages_are_too_few_for_hygiene() {
    let off = SessionSettings { safety_share: 0.01, ..settings(20_000) };
    let mut session = LiveSession::new(off);
    let agent = Agent::new();
    let body = agent.body();
    assert_eq!(request(&mut session, &body, NOON).await.action, RequestAction::Unchanged);
}

#[tokio::test]
async fn what_is_off_stays_off_and_can_still_be_asked_for() {
    let mut session = LiveSession::new(SessionSettings { auto_compaction: AutoCompaction::Off, ..settings(20_000) });
    let mut agent = Agent::new();
    agent.fill(12_000);
    let body = agent.body();
    assert_eq!(request(&mut session, &body, NOON).await.action, RequestAction::Unchanged);
    let asked = session.run_command(SessionCommand::parse("/compress").unwrap(), &body, at(1)).await;
    compacted(&asked);
    assert_eq!(request(&mut session, &body, at(2)).await.action, RequestAction::Replayed);
}

#[tokio::test]
async fn a_command_says_what_it_did_or_that_nothing_changed() {
    let mut session = LiveSession::new(settings(40_000));
    let mut agent = Agent::new();
    agent.fill(14_000);
    agent.says("assistant", "The build is green.");
    agent.says("user", "Now look at the schema of the database.");
    agent.step(20);
    agent.says("assistant", "The schema has two tables.");
    agent.says("user", "Go on.");
    let body = agent.body();
    let preview = session.run_command(SessionCommand::parse("/compress --preview").unwrap(), &body, NOON).await;
    assert!(
        says(&preview, "a preview: compacted: ") && preview.action == RequestAction::Unchanged,
        "{:?}",
        preview.notices
    );
    assert!(session.ledger().is_empty(), "a preview changes nothing");
    let focused = session.run_command(SessionCommand::parse("/compress target3").unwrap(), &body, at(1)).await;
    compacted(&focused);
    assert!(says(&focused, "focus: target3"), "{:?}", focused.notices);
    valid(&focused.body);
    let again = session.run_command(SessionCommand::parse("/compress target3").unwrap(), &body, at(2)).await;
    assert!(says(&again, "nothing changed: "), "{:?}", again.notices);
}

#[tokio::test]
async fn compress_here_keeps_the_newest_exchanges() {
    let mut session = LiveSession::new(settings(40_000));
    let mut agent = Agent::new();
    agent.fill(9_000);
    agent.says("assistant", "The first part is done.");
    for part in ["second", "third"] {
        agent.says("user", &format!("Now the {part} part."));
        agent.step(8);
        agent.says("assistant", &format!("The {part} part is done."));
    }
    let body = agent.body();
    let turn = session.run_command(SessionCommand::parse("/compress here 2").unwrap(), &body, NOON).await;
    compacted(&turn);
    let kept = &body[body
        .find("{\"content\":\"Now the second")
        .or(body.find("{\"role\":\"user\",\"content\":\"Now the second"))
        .unwrap()..];
    assert!(turn.body.ends_with(kept), "the newest two exchanges stand as they were");
}

#[tokio::test]
async fn a_lapsed_cache_makes_compacting_free() {
    let mut agent = Agent::new();
    agent.fill(8_000);
    let body = agent.body();
    let mut session = LiveSession::new(cached(20_000));
    assert_eq!(request(&mut session, &body, NOON).await.action, RequestAction::Unchanged);
    assert_eq!(session.compact_if_idle(&body, at(60)).await.action, RequestAction::Unchanged, "the cache is warm");
    let idle = session.compact_if_idle(&body, at(400)).await;
    compacted(&idle);
    assert_eq!(idle.report.unwrap().trigger, Trigger::Idle);
    assert_eq!(request(&mut session, &body, at(500)).await.action, RequestAction::Replayed);
}

/// A model whose provider keeps prefixes by itself, without known prices.
fn cached(window: u64) -> SessionSettings {
    let mut settings = settings(window);
    let row = settings.config.models.get_mut(MODEL).unwrap();
    row.capabilities.insert("caching".to_owned(), "automatic".into());
    row.capabilities.insert("cache_minimum".to_owned(), 1_000.into());
    settings
}

#[tokio::test]
async fn inside_the_band_the_price_decides() {
    let mut settings = cached(20_000);
    let prices = StatedPrices {
        input: Some(3.0),
        output: Some(15.0),
        cache_read: Some(0.3),
        cache_write: Some(3.75),
        cache_write_1h: Some(6.0),
    };
    settings.config.models.get_mut(MODEL).unwrap().prices = prices;
    let mut session = LiveSession::new(settings);
    let mut agent = Agent::new();
    let mut compacted = Vec::new();
    for turn in 0..60 {
        agent.step(8);
        let body = agent.body();
        let turn = request(&mut session, &body, at(10 * turn)).await;
        session.record_reply(&usage(&turn.body)).await;
        if turn.action == RequestAction::Compacted {
            compacted.push((turn.measured.unwrap().tokens, turn.reason));
        }
    }
    let early = compacted.iter().filter(|(tokens, _)| *tokens < Tokens(10_000)).count();
    assert!(early > 0 && compacted.len() < 12, "{compacted:?}");
}

#[tokio::test]
async fn a_switch_to_a_smaller_window_compacts() {
    let mut settings = settings(100_000);
    let small = longhaul_engine::config::ModelOverride {
        context_length: Some(Tokens(16_000)),
        ..longhaul_engine::config::ModelOverride::default()
    };
    settings.config.models.insert("tiny-model".to_owned(), small);
    let mut session = LiveSession::new(settings);
    let mut agent = Agent::new();
    agent.fill(12_000);
    let body = agent.body();
    assert_eq!(request(&mut session, &body, NOON).await.action, RequestAction::Unchanged);
    session.switch_model("tiny-model");
    agent.model = "tiny-model";
    let body = agent.body();
    let turn = request(&mut session, &body, at(5)).await;
    compacted(&turn);
    assert!(says(&turn, "continues with tiny-model instead of house-model"), "{:?}", turn.notices);
}

#[tokio::test]
async fn pressure_is_told_to_people_once_per_crossing_and_never_to_the_model() {
    let mut session = LiveSession::new(settings(20_000));
    let mut agent = Agent::new();
    let mut told = 0;
    for turn in 0..60 {
        agent.step(8);
        let body = agent.body();
        let turn = request(&mut session, &body, at(turn)).await;
        told += turn.notices.iter().filter(|line| line.starts_with("context at ")).count();
        assert!(!turn.body.contains("of the compaction threshold"));
        if turn.action == RequestAction::Compacted {
            break;
        }
    }
    assert_eq!(told, 1);
}

#[tokio::test]
async fn what_is_no_json_is_handed_back() {
    let mut session = LiveSession::new(settings(20_000));
    let turn = session.prepare_request("{not json", NOON).await;
    assert_eq!((turn.action, turn.body.as_ref()), (RequestAction::Unchanged, "{not json"));
    assert!(says(&turn, "the request is passed through unchanged"), "{:?}", turn.notices);
}

#[tokio::test]
async fn an_open_loop_with_bound_reasoning_is_left_until_it_ends() {
    let step = |n: usize| {
        let thought = serde_json::json!({"type": "thinking", "thinking": "Hm.", "signature": "c2lnbmVk"});
        let call = serde_json::json!({"type": "tool_use", "id": format!("call_{n}"), "name": "bash", "input": {"command": "make"}});
        let output = format!("compiling unit {n} of the project\n").repeat(60);
        let result = serde_json::json!({"type": "tool_result", "tool_use_id": format!("call_{n}"), "content": output});
        [
            serde_json::json!({"role": "assistant", "content": [thought, call]}),
            serde_json::json!({"role": "user", "content": [result]}),
        ]
    };
    let model = MODEL;
    let mut settings = settings(30_000);
    let row = settings.config.models.get_mut(model).unwrap();
    row.capabilities.insert("thinking_bound".to_owned(), true.into());
    let mut messages = vec![serde_json::json!({"role": "user", "content": "Make the build green."})];
    messages.extend((0..28).flat_map(step));
    let body = |messages: &[serde_json::Value]| {
        serde_json::json!({"model": model, "max_tokens": 1_000, "messages": messages}).to_string()
    };
    let (mut session, mut tight) = (LiveSession::new(settings.clone()), LiveSession::new(settings));
    let open = body(&messages);
    let turn = session.prepare_request(&open, NOON).await;
    assert!(turn.measured.unwrap().tokens > Tokens(15_000), "{:?}", turn.measured);
    assert_eq!(turn.action, RequestAction::Unchanged, "{}", turn.reason);
    assert!(turn.reason.contains("when the loop ends"), "{}", turn.reason);
    assert_eq!(session.state().breaker.ineffective_in_a_row(), 0, "to wait is not to fail");
    let overflows = open.replace("\"max_tokens\":1000", "\"max_tokens\":20000");
    let turn = tight.prepare_request(&overflows, NOON).await;
    assert!(!turn.reason.contains("when the loop ends"), "the reply has no room: {}", turn.reason);
    messages.push(serde_json::json!({"role": "assistant", "content": "It is green."}));
    messages.push(serde_json::json!({"role": "user", "content": "Go on."}));
    let ended = body(&messages);
    compacted(&session.prepare_request(&ended, at(5)).await);
}
