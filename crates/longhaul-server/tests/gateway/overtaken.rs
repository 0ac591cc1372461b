//! Two who hold the same session: what one decides while the other is busy is what the other goes on from.

use longhaul_engine::ApiFormat;
use longhaul_engine::Timestamp;
use longhaul_server::session::{IncomingRequest, LiveSession, RequestAction, SessionCommand};
use longhaul_server::store::{Durability, Store, StoreLocation};

use crate::ground::{Agent, settings, with_window};
use crate::worker::{MODEL, WINDOW};

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_that_came_before_the_last_message_was_written_is_not_overlooked() {
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("somebody").await.unwrap();
    let settings = with_window(settings("http://127.0.0.1:1"), MODEL, 2 * WINDOW).session;
    let hold = || LiveSession::new(settings.clone()).with_store(store.clone(), tenant.clone());
    let (mut one, mut other) = (hold(), hold());
    let mut agent = Agent::new(MODEL);
    (0..12).for_each(|_| agent.step(80));
    let body = agent.body().to_string();
    other.prepare_request(&body, Timestamp(1)).await;
    // The other has made a request ready, and not written it yet, when the one compacts.
    agent.step(5);
    let body = agent.body().to_string();
    let incoming = IncomingRequest::parse(ApiFormat::Messages, &body, Some(&tenant)).unwrap();
    assert_eq!(
        other.prepare_parsed(&incoming, Timestamp(2), &mut |_, _, _| None).await.action,
        RequestAction::Unchanged
    );
    let command = SessionCommand::parse("/compress").unwrap();
    assert_eq!(one.run_command(command, &body, Timestamp(3)).await.action, RequestAction::Compacted);
    assert_eq!(other.save_pending().await, Vec::<String>::new());
    agent.step(5);
    let body = agent.body().to_string();
    let incoming = IncomingRequest::parse(ApiFormat::Messages, &body, Some(&tenant)).unwrap();
    let turn = other.prepare_parsed(&incoming, Timestamp(4), &mut |_, _, _| None).await;
    assert_eq!(turn.action, RequestAction::Replayed);
    assert_eq!(turn.body, one.prepare_request(&body, Timestamp(5)).await.body);
}
