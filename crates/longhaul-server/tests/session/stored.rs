//! A session with a store behind it.

use std::sync::{Arc, Mutex};

use longhaul_engine::Tokens;
use longhaul_server::session::{
    CompactionEvent, Host, LiveSession, RequestAction, RetryDecision, SessionCommand, UNDO_PROMISE,
};
use longhaul_server::store::{Durability, Store, StoreLocation, Tenant};
use longhaul_server::upstream::UpstreamError;

use super::world::{Agent, MODEL, NOON, at, checkpoints, compacted, compacted_by, fixed, request, settings, usage};

async fn place() -> (Store, Tenant) {
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("local").await.unwrap();
    (store, tenant)
}

fn session(window: u64, (store, tenant): &(Store, Tenant)) -> LiveSession {
    LiveSession::new(settings(window)).with_store(store.clone(), tenant.clone())
}

/// One with a threshold in tokens, below what its system prompt leaves.
fn fixed_session((store, tenant): &(Store, Tenant)) -> LiveSession {
    LiveSession::new(fixed(settings(24_000), 12_000)).with_store(store.clone(), tenant.clone())
}

#[tokio::test]
async fn after_a_restart_the_view_is_replayed_and_its_checkpoint_updated() {
    let place = place().await;
    let mut agent = Agent::new();
    agent.fill(14_000);
    let body = agent.body();
    let mut first = session(20_000, &place);
    let sent = request(&mut first, &body, NOON).await;
    compacted_by(&sent);
    let sent = sent.body.into_owned();
    drop(first);
    let mut restarted = session(20_000, &place);
    let replayed = request(&mut restarted, &body, at(5)).await;
    assert_eq!((replayed.action, replayed.body.as_ref()), (RequestAction::Replayed, sent.as_str()));
    agent.fill(30_000);
    let body = agent.body();
    let next = request(&mut restarted, &body, at(9)).await;
    compacted_by(&next);
    assert_eq!(checkpoints(&next.body), 1);
    let (store, tenant) = &place;
    let kept = store.session_by_name(tenant, "latest").await.unwrap();
    assert_eq!(store.compactions(tenant, &kept).await.unwrap().len(), 2);
}

#[derive(Default)]
struct Events(Mutex<Vec<CompactionEvent>>);

impl Host for Events {
    fn random_tag(&self) -> Option<String> {
        None
    }

    fn after_compaction(&self, event: &CompactionEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[tokio::test]
async fn the_event_names_the_epoch_and_handles_that_lead_to_what_was_removed() {
    let place = place().await;
    let events = Arc::new(Events::default());
    let mut session = session(20_000, &place).with_host(events.clone());
    let mut agent = Agent::new();
    agent.fill(14_000);
    let body = agent.body();
    compacted(&request(&mut session, &body, NOON).await);
    let event = events.0.lock().unwrap()[0].clone();
    let (store, tenant) = &place;
    let kept = store.session_by_name(tenant, event.session.as_deref().unwrap()).await.unwrap();
    assert_eq!(event.number, 1);
    assert!(!event.recall_ids.is_empty());
    for recall_id in &event.recall_ids {
        store.recall(tenant, Some(&kept), recall_id).await.unwrap();
    }
}

#[tokio::test]
async fn the_breaker_outlives_the_program() {
    let place = place().await;
    let mut agent = Agent::new();
    let rules: String = (0..900).map(|n| format!("Rule {n}: module{n} has an owner of its own. ")).collect();
    agent.messages[0]["content"] = rules.into();
    let mut first = fixed_session(&place);
    for turn in 0..4 {
        agent.says("assistant", "Yes.");
        agent.says("user", &format!("And {turn}?"));
        let body = agent.body();
        request(&mut first, &body, at(turn)).await;
    }
    let paused = *first.state().breaker.paused().unwrap();
    drop(first);
    let mut restarted = fixed_session(&place);
    let body = agent.body();
    let turn = request(&mut restarted, &body, at(10)).await;
    assert_eq!(restarted.state().breaker.paused(), Some(&paused));
    assert!(turn.reason.contains("compaction is paused: two"), "{}", turn.reason);
}

#[tokio::test]
async fn another_session_does_not_begin_with_the_pauses_of_the_one_before() {
    let place = place().await;
    let mut agent = Agent::new();
    let rules: String = (0..900).map(|n| format!("Rule {n}: module{n} has an owner of its own. ")).collect();
    agent.messages[0]["content"] = rules.into();
    let mut session = fixed_session(&place);
    for turn in 0..4 {
        agent.says("assistant", "Yes.");
        agent.says("user", &format!("And {turn}?"));
        let body = agent.body();
        request(&mut session, &body, at(turn)).await;
    }
    assert!(session.state().breaker.paused().is_some());
    let mut another = Agent::new();
    another.says("assistant", "Something else.");
    another.says("user", "Go on.");
    let body = another.body();
    request(&mut session, &body, at(10)).await;
    assert_eq!(session.state().breaker.paused(), None);
    let body = agent.body();
    request(&mut session, &body, at(11)).await;
    assert!(session.state().breaker.paused().is_some(), "each has its own");
}

#[tokio::test]
async fn what_was_learned_of_a_model_outlives_the_program_and_serves_other_sessions() {
    let place = place().await;
    let mut agent = Agent::new();
    agent.model = "nobody-knows-it";
    agent.fill(16_000);
    let body = agent.body();
    let mut first = session(24_000, &place);
    request(&mut first, &body, NOON).await;
    let refused = UpstreamError::TooLong { maximum: Some(Tokens(12_000)), sent: Some(Tokens(15_000)) };
    assert_eq!(first.record_failure(&refused, at(1)).await.0, RetryDecision::Retry);
    let learned = first.learned()["nobody-knows-it"].clone();
    drop(first);
    let mut another = Agent::new();
    another.model = "nobody-knows-it";
    another.says("assistant", "Another session.");
    another.says("user", "Go on.");
    let body = another.body();
    let mut second = session(24_000, &place);
    request(&mut second, &body, at(2)).await;
    let found = &second.learned()["nobody-knows-it"];
    assert_eq!(found.calibration, learned.calibration);
    assert_eq!(found.window.as_ref().unwrap().tokens, Tokens(12_000));
}

#[tokio::test]
async fn an_undone_compaction_stays_undone_until_one_is_asked_for() {
    let place = place().await;
    let mut agent = Agent::new();
    agent.fill(13_000);
    let body = agent.body();
    let mut session = session(20_000, &place);
    compacted(&request(&mut session, &body, NOON).await);
    let (store, tenant) = &place;
    let kept = store.session_by_name(tenant, "latest").await.unwrap();
    store.undo(tenant, kept.id).await.unwrap();
    agent.step(2);
    let body = agent.body();
    let held = request(&mut session, &body, at(5)).await;
    assert_eq!(held.action, RequestAction::Unchanged, "{}", held.reason);
    assert!(held.reason.contains(UNDO_PROMISE), "{}", held.reason);
    agent.says("assistant", "Done.");
    agent.says("user", "Go on.");
    let body = agent.body();
    assert_eq!(request(&mut session, &body, at(9)).await.action, RequestAction::Unchanged, "somebody has spoken");
    let mut restarted = self::session(20_000, &place);
    agent.step(2);
    let body = agent.body();
    let turn = request(&mut restarted, &body, at(4_000)).await;
    assert_eq!(turn.action, RequestAction::Unchanged, "after a restart, with the cache expired: {}", turn.reason);
    compacted(&restarted.run_command(SessionCommand::parse("/compress").unwrap(), &body, at(4_001)).await);
    agent.fill(26_000);
    let body = agent.body();
    compacted(&request(&mut restarted, &body, at(4_010)).await);
}

#[tokio::test]
async fn the_safety_threshold_ends_an_undo() {
    let place = place().await;
    let mut agent = Agent::new();
    agent.fill(13_000);
    let body = agent.body();
    let mut session = session(20_000, &place);
    compacted(&request(&mut session, &body, NOON).await);
    let (store, tenant) = &place;
    let kept = store.session_by_name(tenant, "latest").await.unwrap();
    store.undo(tenant, kept.id).await.unwrap();
    let mut most = Tokens::ZERO;
    for second in 5..60 {
        agent.step(8);
        let body = agent.body();
        let turn = request(&mut session, &body, at(second)).await;
        let tokens = turn.measured.unwrap().tokens;
        if turn.action == RequestAction::Compacted {
            assert!(tokens >= Tokens(17_000), "{tokens}: {}", turn.reason);
            return;
        }
        most = tokens;
    }
    panic!("it was never compacted again, up to {most} tokens");
}

#[tokio::test]
async fn of_two_sessions_at_once_one_commits_and_both_send_its_view() {
    let place = place().await;
    let mut agent = Agent::new();
    agent.fill(14_000);
    let body = agent.body();
    let (mut one, mut other) = (session(20_000, &place), session(20_000, &place));
    let (first, second) = tokio::join!(one.prepare_request(&body, NOON), other.prepare_request(&body, NOON));
    assert_eq!(first.body, second.body);
    let sent = first.body.into_owned();
    for session in [&mut one, &mut other] {
        session.record_reply(&usage(&sent)).await;
        let calibration = session.learned()[MODEL].calibration;
        assert!(calibration.has_samples(), "the body that was sent is the one that is counted");
        assert!((0.5..1.6).contains(&calibration.factor()), "{calibration:?}");
    }
    let (store, tenant) = &place;
    let kept = store.session_by_name(tenant, "latest").await.unwrap();
    assert_eq!(store.compactions(tenant, &kept).await.unwrap().len(), 1);
}
