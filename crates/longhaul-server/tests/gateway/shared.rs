//! Several gateways on one PostgreSQL: a session goes from one to another in mid-flight, and nothing of it is lost or kept twice.

use std::time::Duration;

use longhaul_server::store::{Store, StoredSession, Tenant};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::corpus::{extends, plain};
use crate::ground::{Agent, Ground, answer, header, settings, with_window};
use crate::postgres;
use crate::postgres::ground::{Dice, ask};
use crate::simulator::{Settings, Simulator};
use crate::worker::{MODEL, Task, WINDOW, Worker};

/// A gateway in this process, before a store that it shares with others.
pub(crate) async fn gateway(url: &str, simulator: &Simulator) -> Ground {
    let settings = with_window(settings(&simulator.origin()), MODEL, WINDOW);
    Ground::with_store(settings, postgres::store(url).await, simulator.clock()).await
}

/// The tenants that have sessions, with them.
pub(crate) async fn sessions(store: &Store) -> Vec<(Tenant, StoredSession)> {
    let mut all = Vec::new();
    for tenant in store.tenants().await.unwrap() {
        let sessions = store.sessions(&tenant, 100).await.unwrap();
        all.extend(sessions.into_iter().map(|session| (tenant.clone(), session)));
    }
    all
}

/// Waits until the store has a session as long as the agent's history, and returns whether it came to that in time.
pub(crate) async fn becomes_written(store: &Store, agent: &Agent, limit: Duration) -> bool {
    let written = async || sessions(store).await.iter().any(|(_, session)| session.path_length == agent.messages.len());
    let waited = timeout(limit, async {
        while !written().await {
            sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.is_ok()
}

/// Holds the store against an agent that is the only one who ever came: one session, every message of it once, nothing amiss.
pub(crate) async fn is_whole(url: &str, store: &Store, agent: &Agent) {
    let count = agent.messages.len();
    assert!(becomes_written(store, agent, Duration::from_mins(1)).await, "all of it is written down");
    let all = sessions(store).await;
    let names: Vec<&str> = all.iter().map(|(_, session)| session.name.as_str()).collect();
    assert_eq!(all.len(), 1, "one session, not {names:?}");
    let rows = ask(url, "SELECT count(*), count(DISTINCT identity) FROM messages").await;
    assert_eq!(rows, [format!("{count}|{count}")]);
    assert_eq!(store.check_integrity().await.unwrap(), Vec::<String>::new());
    let (tenant, session) = &all[0];
    let original = store.body_at(tenant, session, longhaul_server::store::HistoryPoint::Original).await.unwrap();
    let original: Value = serde_json::from_str(&original).unwrap();
    assert_eq!(plain(&original["messages"]), plain(&Value::Array(agent.messages.clone())));
}

/// What came of one request.
struct Sent {
    action: String,
    session: String,
}

async fn send(ground: &Ground, agent: &Agent) -> Sent {
    let response = ground.post_json("/v1/messages", &agent.body()).await;
    assert_eq!(response.status(), 200);
    let sent =
        Sent { action: header(&response, "x-longhaul-action"), session: header(&response, "x-longhaul-session") };
    assert_eq!(answer(response).await["type"], "message");
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_from_gateway_to_gateway_turn_by_turn() {
    let Some((_server, url)) = postgres::start().await else { return };
    let simulator = Simulator::start(Settings::window(WINDOW)).await;
    let grounds = [gateway(&url, &simulator).await, gateway(&url, &simulator).await];
    let (mut agent, mut dice) = (Agent::new(MODEL), Dice::new(7));
    (0..2).for_each(|_| agent.step(60));
    let (mut turns, mut before) = (Vec::new(), Value::Null);
    for turn in 0..40 {
        agent.step(60);
        // First one by one, then as it comes.
        let at = if turn < 20 { turn % 2 } else { dice.below(2) };
        let sent = send(&grounds[at], &agent).await;
        let body = plain(&simulator.last().unwrap().value());
        if sent.action != "compacted" && before != Value::Null {
            let extended = extends(&before, &body);
            assert!(extended.is_ok(), "turn {turn} at gateway {at} ({}): {extended:?}", sent.action);
        }
        before = body;
        turns.push((at, sent));
    }
    let (_, first) = &turns[0];
    assert!(turns.iter().all(|(_, sent)| sent.session == first.session));
    let hops = turns
        .windows(2)
        .filter(|pair| pair[0].0 != pair[1].0 && pair[0].1.action == "compacted" && pair[1].1.action == "replayed");
    assert!(hops.count() >= 1, "what one compacted the other replayed at once");
    assert_eq!(simulator.refused().len(), 0);
    is_whole(&url, &grounds[0].store, &agent).await;
    let compacted = turns.iter().filter(|(_, sent)| sent.action == "compacted").count();
    assert_eq!(ask(&url, "SELECT count(*) FROM epochs").await, [compacted.to_string()]);
    eprintln!("40 turns over two gateways: {compacted} compactions, {:?}", simulator.tokens());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_get_the_same_request_at_the_same_moment() {
    let Some((_server, url)) = postgres::start().await else { return };
    let simulator = Simulator::start(Settings::window(WINDOW)).await;
    let (one, other) = (gateway(&url, &simulator).await, gateway(&url, &simulator).await);
    let mut agent = Agent::new(MODEL);
    let mut compacted = 0;
    for turn in 0..30 {
        agent.step(60);
        let (first, second) = tokio::join!(send(&one, &agent), send(&other, &agent));
        assert_eq!(first.session, second.session, "turn {turn}");
        let actions = [&first.action, &second.action];
        let winners = actions.iter().filter(|action| **action == "compacted").count();
        assert!(winners < 2, "turn {turn}: {actions:?}");
        compacted += winners;
        let bodies: Vec<Value> = simulator.seen().iter().rev().take(2).map(|seen| plain(&seen.value())).collect();
        assert!(winners == 1 || bodies[0] == bodies[1], "turn {turn}: the two differ, {actions:?}");
    }
    assert!(compacted >= 1);
    assert_eq!(simulator.refused().len(), 0);
    is_whole(&url, &one.store, &agent).await;
    assert_eq!(ask(&url, "SELECT count(*) FROM epochs").await, [compacted.to_string()]);
}

/// Goes on until a worker stands still in the midst of a compaction, kills it there, and goes on at another gateway.
async fn killed(task: Task) {
    let Some((_server, url)) = postgres::start().await else { return };
    let simulator = Simulator::start(Settings::window(WINDOW)).await;
    let other = gateway(&url, &simulator).await;
    let mut worker = Worker::start(task, &url, &simulator).await;
    let mut agent = Agent::new(MODEL);
    loop {
        assert!(agent.messages.len() < 100, "nothing was ever compacted");
        agent.step(60);
        tokio::select! {
            answered = worker.post(&agent) => assert_eq!(answered.unwrap().status(), 200),
            _ = worker.hear("halted") => break,
        }
    }
    worker.kill();
    let is_kept = task == Task::StopBehind;
    assert_eq!(ask(&url, "SELECT count(*) FROM epochs").await, [u8::from(is_kept).to_string()]);
    let others = simulator.seen().len();
    // The client tries again, elsewhere.
    let again = send(&other, &agent).await;
    assert_eq!(again.action, if is_kept { "replayed" } else { "compacted" });
    let (mut compacted, mut before) = (1, plain(&simulator.last().unwrap().value()));
    for turn in 0..12 {
        agent.step(60);
        let sent = send(&other, &agent).await;
        assert_eq!(sent.session, again.session);
        let body = plain(&simulator.last().unwrap().value());
        if sent.action == "compacted" {
            compacted += 1;
        } else {
            assert_eq!(extends(&before, &body), Ok(()), "turn {turn} behind the kill");
        }
        before = body;
    }
    assert_eq!((simulator.refused().len(), simulator.seen().len()), (0, others + 13));
    is_whole(&url, &other.store, &agent).await;
    assert_eq!(ask(&url, "SELECT count(*) FROM epochs").await, [compacted.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_killed_between_the_plan_of_a_compaction_and_its_commit() {
    killed(Task::StopBefore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_is_killed_between_a_compaction_and_the_request_that_was_to_have_it() {
    killed(Task::StopBehind).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_are_killed_at_any_moment() {
    let Some((_server, url)) = postgres::start().await else { return };
    let simulator = Simulator::start(Settings::window(WINDOW)).await;
    let other = gateway(&url, &simulator).await;
    let (mut agent, mut dice) = (Agent::new(MODEL), Dice::new(3));
    let mut kills = 0;
    for round in 0..6 {
        let mut worker = Worker::start(Task::Serve, &url, &simulator).await;
        for _ in 0..4 {
            agent.step(60);
            let answered = worker.post(&agent).await.unwrap();
            assert_eq!(answered.status(), 200, "round {round}");
        }
        agent.step(60);
        let posted = tokio::spawn(worker.post(&agent));
        sleep(Duration::from_millis(dice.below(60) as u64)).await;
        worker.kill();
        kills += usize::from(posted.await.unwrap().is_err());
        send(&other, &agent).await;
        is_whole(&url, &other.store, &agent).await;
    }
    assert_eq!(simulator.refused().len(), 0);
    eprintln!("6 gateways killed, {kills} of them with a request under way");
}
