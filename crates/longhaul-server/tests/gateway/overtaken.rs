//! Two who hold the same session: what one decides while the other is busy is what the other goes on from.

use longhaul_engine::Dialect;
use longhaul_server::agents::Moment;
use longhaul_server::session::{Action, Command, Incoming, Session};
use longhaul_server::store::{Place, Store, Sync};

use crate::ground::{Agent, settings, with_window};
use crate::worker::{MODEL, WINDOW};

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_that_came_before_the_last_message_was_written_is_not_overlooked() {
    let store = Store::open(&Place::Memory, Sync::Normal).await.unwrap();
    let tenant = store.tenant("somebody").await.unwrap();
    let settings = with_window(settings("http://127.0.0.1:1"), MODEL, 2 * WINDOW).session;
    let hold = || Session::new(settings.clone()).with_store(store.clone(), tenant.clone());
    let (mut one, mut other) = (hold(), hold());
    let mut agent = Agent::new(MODEL);
    (0..12).for_each(|_| agent.step(80));
    let body = agent.body().to_string();
    other.before(&body, Moment(1)).await;
    // The other has made a request ready, and not written it yet, when the one compacts.
    agent.step(5);
    let body = agent.body().to_string();
    let incoming = Incoming::read(Dialect::Messages, &body, Some(&tenant)).unwrap();
    assert_eq!(other.before_read(&incoming, Moment(2), &mut |_, _, _| None).await.action, Action::None);
    let command = Command::parse("/compress").unwrap();
    assert_eq!(one.command(command, &body, Moment(3)).await.action, Action::Compacted);
    assert_eq!(other.write().await, Vec::<String>::new());
    agent.step(5);
    let body = agent.body().to_string();
    let incoming = Incoming::read(Dialect::Messages, &body, Some(&tenant)).unwrap();
    let turn = other.before_read(&incoming, Moment(4), &mut |_, _, _| None).await;
    assert_eq!(turn.action, Action::Replayed);
    assert_eq!(turn.body, one.before(&body, Moment(5)).await.body);
}
