//! The fault matrix: whatever is wrong with the store, an agent that works past its context window finishes.
//!
//! ```text
//! store {absent, full, read-only, locked, stopped, deleted, slow} × {from the first request on, in the middle, until it is over}
//! ```
//!
//! For each, over SQLite and PostgreSQL where it applies: every request is answered, none is invalid (the simulator is strict and its
//! window small), the agent is compacted although the store is unavailable and is told so, the store delays no more than a few
//! requests by its one time-out, and once it is well again the session is written and found by the next gateway.
//!
//! The short form is part of the ordinary tests. `LONGHAUL_FAULT_STEPS=200` makes each loop longer.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::format_collect,
    reason = "all of it is test code, in functions too"
)]

#[allow(dead_code, reason = "an agent in one dialect needs only some of it")]
#[path = "../gateway/ground.rs"]
mod ground;
#[path = "../gateway/postgres.rs"]
mod postgres;
mod sick;
#[path = "../simulator/mod.rs"]
mod simulator;

use std::time::{Duration, Instant};

use longhaul_engine::Timestamp;
use longhaul_server::store::{Durability, KeyLimits, STORE_TIMEOUT, Store, StoreLocation};

use ground::{Agent, Ground, header, settings, with_window};
use sick::{Fault, Patient};
use simulator::{Settings, Simulator};

const MODEL: &str = "claude-sonnet-4-5";
const WINDOW: u64 = 16_000;
/// More requests than this are never delayed by one fault: those that were on their way when the store stopped answering.
const MOST_DELAYED: usize = 3;
/// What a request may take on a busy machine beside the store.
const BUSY: Duration = Duration::from_secs(20);

/// When the store is sick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    FromTheStart,
    InTheMiddle,
}

/// How many requests an agent makes.
fn steps() -> usize {
    std::env::var("LONGHAUL_FAULT_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(36)
}

/// One loop of an agent over a store that is sick for a while.
struct Run {
    simulator: Simulator,
    ground: Ground,
    agent: Agent,
    /// The actions, each with what was said of the store.
    said: Vec<(String, String)>,
    delayed: usize,
}

impl Run {
    async fn start(store: Store) -> Self {
        let simulator = Simulator::start(Settings::window(WINDOW)).await;
        let settings = with_window(settings(&simulator.origin()), MODEL, WINDOW);
        let ground = Ground::with_store(settings, store, simulator.clock()).await;
        Self { simulator, ground, agent: Agent::new(MODEL), said: Vec::new(), delayed: 0 }
    }

    async fn step(&mut self) {
        self.agent.step(30);
        let began = Instant::now();
        let response = self.ground.post_json("/v1/messages", &self.agent.body()).await;
        let took = began.elapsed();
        let said = (header(&response, "x-longhaul-action"), header(&response, "x-longhaul-store"));
        let status = response.status();
        let reply = response.text().await.unwrap();
        assert_eq!(status, 200, "request {}: {reply}", self.said.len());
        assert!(took < STORE_TIMEOUT + BUSY, "request {} took {took:?}", self.said.len());
        self.delayed += usize::from(took >= STORE_TIMEOUT);
        self.said.push(said);
    }

    async fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step().await;
        }
    }

    /// Goes on until the session is recorded again.
    async fn until_recorded(&mut self) {
        for _ in 0..200 {
            self.step().await;
            if self.said.last().is_some_and(|(_, store)| store.is_empty()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the store is well, and the session is not recorded: {:?}", self.said);
    }
}

/// One cell of the matrix.
async fn survives(fault: Fault, when: When, patient: &Patient) {
    let name = format!("{fault:?} {when:?} {}", patient.name());
    let began = Instant::now();
    let store = if fault == Fault::Absent { open(&StoreLocation::Memory).await } else { patient.store().await };
    let mut run = Run::start(store).await;
    let healthy = match when {
        When::FromTheStart => 0,
        // Long enough for a compaction that the store has.
        When::InTheMiddle => 16,
    };
    run.steps(healthy).await;
    let sick = patient.strike(fault).await;
    run.steps(steps()).await;
    let during = run.said[healthy..].to_vec();
    let is_told = |(_, store): &&(String, String)| store.starts_with("unavailable: ");
    let compacted = during.iter().filter(|(action, _)| action == "compacted").count();
    if fault != Fault::Slow && fault != Fault::Absent {
        let told = during.iter().filter(is_told).count();
        assert!(told + MOST_DELAYED >= during.len(), "{name}: {during:?}");
    }
    assert!(compacted >= 1, "{name}: {during:?}");
    assert!(during.iter().all(|(action, _)| !action.starts_with("bypassed")), "{name}: {during:?}");
    assert!(run.delayed <= MOST_DELAYED, "{name}: {} requests were delayed", run.delayed);
    sick.heal().await;
    if fault.heals() {
        run.until_recorded().await;
        // What was decided in memory was written: the next gateway goes on from there.
        run.ground.stop().await;
        let settings = with_window(settings(&run.simulator.origin()), MODEL, WINDOW);
        let store = run.ground.store.clone();
        run.ground = Ground::with_store(settings, store, run.simulator.clock()).await;
        run.step().await;
        let (action, _) = run.said.last().unwrap();
        assert!(["replayed", "compacted"].contains(&action.as_str()), "{name}: {action}");
    }
    let refused = run.simulator.refused();
    assert!(refused.is_empty(), "{name}: {} requests were refused", refused.len());
    println!(
        "{name}: {} requests, {compacted} compactions while it was sick, {} delayed, {:.1} s",
        run.said.len(),
        run.delayed,
        began.elapsed().as_secs_f64()
    );
}

/// One test: a limit on the size of files holds for the whole process.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finishes_whatever_is_wrong_with_its_store() {
    for when in [When::FromTheStart, When::InTheMiddle] {
        for fault in Fault::OF_A_FILE {
            survives(fault, when, &Patient::file()).await;
        }
        let Some(server) = postgres::start().await else { continue };
        let patient = Patient::server(server).await;
        for fault in Fault::OF_A_SERVER {
            survives(fault, when, &patient).await;
        }
    }
}

/// What one tenant sends while the store does not answer is nobody else's, and is theirs when it does.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_kept_apart_while_the_store_does_not_answer() {
    let simulator = Simulator::start(Settings::window(WINDOW)).await;
    let settings = with_window(settings(&simulator.origin()), MODEL, WINDOW);
    let patient = Patient::file();
    let store = patient.store().await;
    let key = async |name: &str| {
        let made = store.add_key(name, name, KeyLimits::default(), Timestamp(0)).await.unwrap();
        made.reveal().to_owned()
    };
    let (one, two) = (key("one").await, key("two").await);
    let ground = Ground::with_store(settings, store.clone(), simulator.clock()).await;
    let mut agent = Agent::new(MODEL);
    let send = async |agent: &Agent, key: &str| {
        let request = ground.request("/v1/messages", agent.body().to_string()).header("x-longhaul-key", key);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let said = (header(&response, "x-longhaul-action"), header(&response, "x-longhaul-session"));
        response.bytes().await.unwrap();
        said
    };
    // Keys that were used before are known while the store does not answer.
    for key in [&one, &two] {
        send(&agent, key).await;
    }
    let sick = patient.strike(Fault::Locked).await;
    while send(&agent, &one).await.0 != "compacted" {
        agent.step(30);
        assert!(agent.messages.len() < 100);
    }
    assert_eq!(send(&agent, &one).await.0, "replayed");
    assert_eq!(send(&agent, &two).await.0, "compacted", "the other's compaction is none of theirs");
    sick.heal().await;
    let mut session = String::new();
    for _ in 0..100 {
        let said = send(&agent, &one).await;
        assert_eq!(said.0, "replayed", "it is the same session when the store answers");
        session = said.1;
        if !session.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_ne!(session, "");
    let other = send(&agent, &two).await;
    assert_eq!(other.0, "replayed");
    assert_ne!(session, other.1);
    assert_eq!(simulator.refused().len(), 0);
}

/// A store that opens, for a test that needs nothing else.
async fn open(place: &StoreLocation) -> Store {
    Store::open(place, Durability::Normal).await.unwrap()
}
