//! Whatever goes wrong with a model, a valid, useful and labelled checkpoint comes out, and nobody waits longer than was settled.

use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::plan::WrittenBy;
use longhaul_engine::redact::Redacted;
use longhaul_server::session::{LiveSession, SessionSettings};
use longhaul_server::upstream::{FinishReason, SummaryRequestBody, TimeoutStage, UpstreamError};
use tokio::time::Instant;

use super::script::{AUXILIARY, Line, Script, asking, bad, good, reply};
use super::world::{Agent, MODEL, NOON, at, compacted_by, request, says, settings};

/// Every way to fail, with the words for it and the seconds of its cooldown.
fn failures() -> Vec<(&'static str, Line, &'static str, u64)> {
    let at_once = |error| bad(0, error);
    let said = |text: &str, finish| Line(Duration::ZERO, Ok(reply(text, finish)));
    let words = |words| Redacted::literal(words);
    let delay = Some(Duration::from_secs(7));
    vec![
        ("refused by the provider", at_once(UpstreamError::Refused(words("no such key"))), "denied access", 600),
        ("refused by the model", said("", FinishReason::Refused), "declined to answer", 30),
        ("timed out", at_once(UpstreamError::TimedOut(TimeoutStage::FirstByte)), "no answer in time", 60),
        ("never answers", bad(100_000, UpstreamError::CutShort), "longer than the total time limit", 60),
        ("empty", said(" \n", FinishReason::Complete), "the answer is empty", 30),
        ("a tool call", said("", FinishReason::ToolCall), "called a tool", 30),
        ("not JSON", at_once(UpstreamError::Garbled(words("<html>"))), "not a valid reply", 30),
        ("stream closed", at_once(UpstreamError::CutShort), "broke off", 30),
        (
            "too small",
            at_once(UpstreamError::TooLong { maximum: Some(Tokens(500)), sent: None }),
            "too small for even one turn",
            600,
        ),
        ("429", at_once(UpstreamError::RateLimited { delay }), "rate limit", 7),
        ("529", at_once(UpstreamError::Overloaded { delay: None }), "overloaded", 60),
        ("nobody there", at_once(UpstreamError::Unreachable(words("connection refused"))), "cannot be reached", 600),
        ("elsewhere", at_once(UpstreamError::Redirected(words("https://other"))), "redirects to another address", 600),
        ("bad request", at_once(UpstreamError::BadRequest(words("what?"))), "rejected the request", 30),
        ("413", at_once(UpstreamError::TooLarge(words("413"))), "too large", 30),
    ]
}

fn waiting(seconds: u64) -> SessionSettings {
    SessionSettings { max_summary_wait: Duration::from_secs(seconds), ..asking(settings(20_000)) }
}

fn full() -> Agent {
    let mut agent = Agent::new();
    agent.fill(14_000);
    agent
}

#[tokio::test(start_paused = true)]
async fn every_failure_ends_in_a_checkpoint_by_code_that_says_why() {
    for (name, line, words, cooldown) in failures() {
        let script = Script::new([line]);
        let mut session = LiveSession::new(waiting(400)).with_models(script.clone());
        let body = full().body();
        let turn = request(&mut session, &body, NOON).await;
        assert_eq!(compacted_by(&turn), WrittenBy::Code, "{name}");
        assert!(says(&turn, words), "{name}: {:?}", turn.notices);
        let asked = script.models();
        assert_eq!(asked.first().map(String::as_str), Some(AUXILIARY), "{name}");
        assert_eq!(asked.last().map(String::as_str), Some(MODEL), "{name}: the session's own model is asked once");
        let state = &turn.report.as_ref().unwrap().state;
        assert_eq!(state.auxiliary_failed.as_deref(), Some(AUXILIARY), "{name}");
        assert!(state.last_error.as_ref().unwrap().contains(words), "{name}: {state:?}");
        let left = session.state().cooldowns.remaining(AUXILIARY, NOON).unwrap();
        assert_eq!(left, Duration::from_secs(cooldown), "{name}");
        assert!(turn.body.contains("Never touch the tests."), "{name}: the task is still there");
    }
}

#[tokio::test(start_paused = true)]
async fn time_outs_in_a_row_rest_longer_and_the_next_turns_are_spared() {
    let script = Script::new([bad(0, UpstreamError::TimedOut(TimeoutStage::Total))]);
    let mut session = LiveSession::new(waiting(10)).with_models(script.clone());
    let mut agent = full();
    let mut now = 0;
    for rest in [60, 300, 900, 900] {
        let before = script.asked().len();
        let body = agent.body();
        compacted_by(&request(&mut session, &body, at(now)).await);
        assert_eq!(session.state().cooldowns.remaining(AUXILIARY, at(now)), Some(Duration::from_secs(rest)));
        assert_eq!(script.asked().len(), before + 2);
        agent.fill(agent.body().len() / 4 + 9_000);
        let body = agent.body();
        let spared = request(&mut session, &body, at(now + 1)).await;
        compacted_by(&spared);
        assert_eq!(script.asked().len(), before + 2, "nobody is asked while both rest");
        agent.fill(agent.body().len() / 4 + 9_000);
        now += i64::try_from(rest).unwrap() + 1;
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_auxiliary_model_is_followed_by_the_sessions_own_once() {
    let script = Script::new([bad(0, UpstreamError::CutShort), good(0)]);
    let mut session = LiveSession::new(waiting(10)).with_models(script.clone());
    let body = full().body();
    let turn = request(&mut session, &body, NOON).await;
    let mut asked = script.models();
    asked.dedup();
    assert_eq!(asked, [AUXILIARY, MODEL]);
    assert!(says(&turn, "no summary by small-model: the reply broke off"), "{:?}", turn.notices);
    assert!(says(&turn, "house-model has written the summary"), "{:?}", turn.notices);
    assert_eq!(compacted_by(&turn), WrittenBy::Model);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_cut_is_used_and_its_end_is_not_believed() {
    let script = Script::new([Line(Duration::ZERO, Ok(reply(super::script::SUMMARY, FinishReason::Truncated)))]);
    let mut session = LiveSession::new(waiting(10)).with_models(script.clone());
    let body = full().body();
    let turn = request(&mut session, &body, NOON).await;
    compacted_by(&turn);
    assert_eq!(script.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_window_that_is_too_small_is_asked_in_parts_each_with_the_handover_so_far() {
    let too_long = UpstreamError::TooLong { maximum: Some(Tokens(6_000)), sent: None };
    let script = Script::new([bad(0, too_long), good(0)]);
    let mut session = LiveSession::new(waiting(10)).with_models(script.clone());
    let body = full().body();
    request(&mut session, &body, NOON).await;
    let users: Vec<String> = script
        .asked()
        .iter()
        .skip(1)
        .map(|question| match &question.body {
            SummaryRequestBody::FromPrompt(small) => small.user.as_str().to_owned(),
            SummaryRequestBody::Raw { .. } => panic!("a small question was expected"),
        })
        .collect();
    assert!(users.len() > 1, "{} parts", users.len());
    assert!(!users[0].contains("<summary ") && users[1..].iter().all(|user| user.contains("<summary ")));
}

#[tokio::test(start_paused = true)]
async fn no_turn_waits_longer_than_was_settled() {
    for (wait, answers_after) in [(0, 5), (0, 100_000), (3, 5), (3, 100_000), (10, 5)] {
        for line in [good(answers_after), bad(answers_after, UpstreamError::CutShort)] {
            let script = Script::new([line]);
            let mut session = LiveSession::new(waiting(wait)).with_models(script);
            let mut agent = Agent::new();
            let mut longest = Duration::ZERO;
            for turn in 0..80 {
                agent.step(8);
                let body = agent.body();
                let began = Instant::now();
                request(&mut session, &body, at(turn)).await;
                longest = longest.max(began.elapsed());
            }
            assert!(longest <= Duration::from_secs(wait), "{wait} s allowed, {longest:?} waited");
        }
    }
}
