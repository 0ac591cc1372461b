//! What a session learns from those who answer it, and what it does when they refuse.

use longhaul_engine::Tokens;
use longhaul_engine::plan::Trigger;
use longhaul_engine::prices::Usage;
use longhaul_engine::redact::Redacted;
use longhaul_server::session::{LiveSession, MeasuredBy, RequestAction, RetryDecision, SessionSettings};
use longhaul_server::upstream::UpstreamError;

use super::world::{Agent, NOON, at, compacted, request, says, settings, usage};

#[tokio::test]
async fn an_unknown_model_begins_with_an_assumption_that_is_said_once() {
    let mut session = LiveSession::new(SessionSettings::default());
    let mut agent = Agent::new();
    agent.model = "nobody-knows-it";
    let body = agent.body();
    let turn = request(&mut session, &body, NOON).await;
    assert!(says(&turn, "tokens is assumed"), "{:?}", turn.notices);
    assert!(request(&mut session, &body, at(1)).await.notices.is_empty());
}

#[tokio::test]
async fn a_maximum_that_a_provider_names_becomes_the_window_and_the_request_is_retried() {
    let mut session = LiveSession::new(SessionSettings::default());
    let mut agent = Agent::new();
    agent.model = "nobody-knows-it";
    agent.fill(16_000);
    let body = agent.body();
    assert_eq!(request(&mut session, &body, NOON).await.action, RequestAction::Unchanged);
    let refused = UpstreamError::TooLong { maximum: Some(Tokens(12_000)), sent: Some(Tokens(15_000)) };
    let (reaction, said) = session.record_failure(&refused, at(1)).await;
    assert_eq!(reaction, RetryDecision::Retry);
    assert!(
        said[0].contains("12,000 tokens, as the provider reported") && said[0].contains("refused 15,000"),
        "{said:?}"
    );
    let turn = request(&mut session, &body, at(2)).await;
    compacted(&turn);
    let report = turn.report.unwrap();
    assert_eq!(report.trigger, Trigger::Error);
    assert!(report.tokens.after < Tokens(12_000), "{:?}", report.tokens);
    let learned = session.learned()["nobody-knows-it"].window.clone().unwrap();
    assert_eq!((learned.tokens, learned.refused), (Tokens(12_000), Some(Tokens(15_000))));
}

#[tokio::test]
async fn a_reply_that_is_too_long_is_no_reason_to_compact() {
    let mut session = LiveSession::new(settings(200_000));
    let mut agent = Agent::new();
    agent.fill(40_000);
    let body = agent.body();
    request(&mut session, &body, NOON).await;
    let refused = UpstreamError::TooLong { maximum: Some(Tokens(200_000)), sent: Some(Tokens(40_000)) };
    let (reaction, _) = session.record_failure(&refused, at(1)).await;
    assert!(matches!(&reaction, RetryDecision::GiveUp(why) if why.contains("a shorter reply")), "{reaction:?}");
    assert_ne!(request(&mut session, &body, at(2)).await.action, RequestAction::Compacted);
}

#[tokio::test]
async fn a_refusal_without_a_number_is_retried_once_per_progress_and_never_in_a_loop() {
    let mut session = LiveSession::new(settings(100_000));
    let mut agent = Agent::new();
    agent.fill(20_000);
    let body = agent.body();
    request(&mut session, &body, NOON).await;
    let mut sizes = Vec::new();
    let too_long = UpstreamError::TooLong { maximum: None, sent: None };
    let gave_up = loop {
        match session.record_failure(&too_long, at(1)).await.0 {
            RetryDecision::Retry => {
                let turn = request(&mut session, &body, at(2)).await;
                sizes.push(turn.body.len());
            }
            RetryDecision::GiveUp(why) => break why,
            other => panic!("{other:?}"),
        }
        assert!(sizes.len() < 20, "a loop: {sizes:?}");
    };
    assert!(sizes.len() > 1 && sizes[0] < body.len(), "{sizes:?}");
    assert!(sizes[..sizes.len() - 1].windows(2).all(|pair| pair[1] < pair[0]), "each is smaller: {sizes:?}");
    assert!(gave_up.contains("could not be compacted further"), "{gave_up}");
}

#[tokio::test]
async fn a_refused_rewrite_is_taken_back_and_not_tried_again() {
    let mut session = LiveSession::new(settings(20_000));
    let mut agent = Agent::new();
    agent.fill(12_000);
    let body = agent.body();
    compacted(&request(&mut session, &body, NOON).await);
    let refused = UpstreamError::BadRequest(Redacted::literal("messages: roles must alternate"));
    let (reaction, said) = session.record_failure(&refused, at(1)).await;
    assert_eq!(reaction, RetryDecision::SendOriginal);
    assert!(said[0].contains("the original is sent: ") && said[0].contains("roles must alternate"), "{said:?}");
    let turn = request(&mut session, &body, at(2)).await;
    assert_eq!((turn.action, turn.body.as_ref()), (RequestAction::Unchanged, body.as_str()));
    assert!(turn.reason.contains("refused the same compaction"), "{}", turn.reason);
    let said = session.record_accepted().await;
    assert!(said[0].contains("undone and will not be tried again"), "{said:?}");
    let turn = request(&mut session, &body, at(3)).await;
    assert_eq!((turn.action, turn.body.as_ref()), (RequestAction::Unchanged, body.as_str()));
    assert!(turn.reason.contains("refused the same compaction"), "{}", turn.reason);
}

#[tokio::test]
async fn a_rewrite_stays_where_the_original_is_refused_as_well() {
    let mut session = LiveSession::new(settings(20_000));
    let mut agent = Agent::new();
    agent.fill(12_000);
    let body = agent.body();
    compacted(&request(&mut session, &body, NOON).await);
    let refused = UpstreamError::BadRequest(Redacted::literal("no such tool"));
    assert_eq!(session.record_failure(&refused, at(1)).await.0, RetryDecision::SendOriginal);
    assert_eq!(request(&mut session, &body, at(2)).await.action, RequestAction::Unchanged);
    assert!(matches!(session.record_failure(&refused, at(3)).await.0, RetryDecision::GiveUp(_)));
    assert_eq!(request(&mut session, &body, at(4)).await.action, RequestAction::Replayed);
}

#[tokio::test]
async fn a_rewrite_that_was_taken_before_is_not_what_is_refused() {
    let mut session = LiveSession::new(settings(20_000));
    let mut agent = Agent::new();
    agent.fill(12_000);
    let body = agent.body();
    let turn = request(&mut session, &body, NOON).await;
    compacted(&turn);
    session.record_reply(&usage(&turn.body)).await;
    agent.step(2);
    let body = agent.body();
    assert_eq!(request(&mut session, &body, at(2)).await.action, RequestAction::Replayed);
    let refused = UpstreamError::BadRequest(Redacted::literal("no such tool"));
    assert!(matches!(session.record_failure(&refused, at(3)).await.0, RetryDecision::GiveUp(_)));
    assert_eq!(request(&mut session, &body, at(4)).await.action, RequestAction::Replayed);
}

#[tokio::test]
async fn what_was_refused_before_a_restart_does_not_end_the_retries_after_it() {
    let mut first = LiveSession::new(settings(200_000));
    let mut agent = Agent::new();
    agent.fill(12_000);
    let body = agent.body();
    let refused = UpstreamError::TooLarge(Redacted::literal("413"));
    assert!(matches!(first.record_failure(&refused, NOON).await.0, RetryDecision::GiveUp(_)), "nothing was sent yet");
    request(&mut first, &body, NOON).await;
    assert_eq!(first.record_failure(&refused, at(1)).await.0, RetryDecision::Retry);
    let state = serde_json::from_str(&serde_json::to_string(first.state()).unwrap()).unwrap();
    let (learned, ledger) = (first.learned().clone(), first.ledger().clone());
    let mut restarted = LiveSession::new(settings(200_000)).resume(state, learned, ledger);
    request(&mut restarted, &body, at(2)).await;
    assert_eq!(restarted.record_failure(&refused, at(3)).await.0, RetryDecision::Retry);
}

#[tokio::test]
async fn what_is_no_fault_of_the_request_is_waited_for_or_given_up() {
    let mut session = LiveSession::new(settings(20_000));
    let body = Agent::new().body();
    request(&mut session, &body, NOON).await;
    let delay = Some(std::time::Duration::from_secs(9));
    assert_eq!(session.record_failure(&UpstreamError::Overloaded { delay }, NOON).await.0, RetryDecision::Wait(delay));
    let (gave_up, _) = session.record_failure(&UpstreamError::Refused(Redacted::literal("no key")), NOON).await;
    assert_eq!(gave_up, RetryDecision::GiveUp("the provider denied access: no key".to_owned()));
    let (gave_up, _) = session.record_failure(&UpstreamError::BadRequest(Redacted::literal("what?")), NOON).await;
    assert!(matches!(gave_up, RetryDecision::GiveUp(_)), "it was the client's own body");
}

#[tokio::test]
async fn estimates_are_calibrated_from_usage_and_the_error_falls() {
    let mut session = LiveSession::new(settings(200_000));
    let mut agent = Agent::new();
    let (mut errors, mut by) = (None, Vec::new());
    for turn in 0..30 {
        agent.step(6);
        let body = agent.body();
        let turn = request(&mut session, &body, at(turn)).await;
        by.push(turn.measured.unwrap().by);
        // A provider that counts a token for every two and a half characters.
        let usage = Usage { input: Some(Tokens(body.len() as u64 * 2 / 5)), ..Usage::default() };
        errors = session.record_reply(&usage).await.errors;
    }
    let errors = errors.unwrap();
    println!(
        "error of {} estimates: {:.1} % before, {:.1} % after",
        errors.samples,
        100.0 * errors.before,
        100.0 * errors.after
    );
    assert!(errors.before > 0.15 && errors.after < 0.05, "{errors:?}");
    assert_eq!((by[0], by[29]), (MeasuredBy::Estimate, MeasuredBy::Provider));
}
