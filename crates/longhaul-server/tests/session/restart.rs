//! What a session finds again after a restart, and what it forgets when it is told to.

use longhaul_engine::ledger::Ledger;
use longhaul_engine::redact::SessionKey;
use longhaul_server::session::{LiveSession, RequestAction, SessionSettings};

use super::world::{Agent, NOON, at, checkpoints, compacted, compacted_by, request, settings};

/// A session whose agent goes on with the body that came out of a compaction.
async fn compacted_once(settings: SessionSettings) -> (LiveSession, Agent) {
    let mut session = LiveSession::new(settings);
    let mut agent = Agent::new();
    agent.fill(14_000);
    let body = agent.body();
    let turn = request(&mut session, &body, NOON).await;
    compacted_by(&turn);
    let compacted = turn.body.into_owned();
    agent.adopt(&compacted);
    (session, agent)
}

#[tokio::test]
async fn with_the_transcript_and_the_key_the_old_checkpoint_is_updated() {
    for key in [Some(SessionKey::new([7; 32])), None] {
        let own = SessionSettings { key, ..settings(20_000) };
        let (session, mut agent) = compacted_once(own.clone()).await;
        drop(session);
        let mut restarted = LiveSession::new(own);
        agent.fill(14_000);
        let body = agent.body();
        assert_eq!(checkpoints(&body), 1);
        let turn = request(&mut restarted, &body, at(9)).await;
        compacted_by(&turn);
        assert_eq!(checkpoints(&turn.body), 1, "there is ever one");
        assert!(turn.body.contains("Never touch the tests."), "its state lives on");
    }
}

#[tokio::test]
async fn another_key_makes_the_old_checkpoint_a_message_like_any_other() {
    let (_, mut agent) = compacted_once(settings(20_000)).await;
    let stranger = SessionSettings { key: Some(SessionKey::new([8; 32])), ..settings(20_000) };
    let mut session = LiveSession::new(stranger);
    agent.fill(14_000);
    let body = agent.body();
    let turn = request(&mut session, &body, at(9)).await;
    compacted(&turn);
    assert!(checkpoints(&turn.body) <= 2);
}

#[tokio::test]
async fn a_state_that_was_kept_goes_on_where_it_was() {
    let (session, _) = compacted_once(settings(20_000)).await;
    let json = serde_json::to_string(session.state()).unwrap();
    let state = serde_json::from_str(&json).unwrap();
    let resumed = LiveSession::new(settings(20_000)).resume(state, session.learned().clone(), session.ledger().clone());
    assert_eq!(serde_json::to_string(resumed.state()).unwrap(), json);
    let mut resumed = resumed;
    let mut agent = Agent::new();
    agent.fill(14_000);
    let body = agent.body();
    assert_eq!(request(&mut resumed, &body, at(9)).await.action, RequestAction::Replayed);
}

#[tokio::test]
async fn a_reset_forgets_the_checkpoint_the_counts_and_the_errors() {
    let (mut session, _) = compacted_once(settings(20_000)).await;
    assert!(!session.ledger().is_empty());
    session.reset();
    assert_eq!(session.ledger(), &Ledger::default());
    assert_eq!((session.state().breaker.ineffective_in_a_row(), session.state().last_error.as_ref()), (0, None));
    let body = Agent::new().body();
    assert_eq!(request(&mut session, &body, at(5)).await.action, RequestAction::Unchanged);
}
