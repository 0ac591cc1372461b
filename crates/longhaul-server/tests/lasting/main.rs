//! A session that goes on from what it was given costs no more memory the longer it lasts. It is alone in its program, so that what
//! the heap holds is the session's.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::format_collect,
    reason = "all of it is test code, in functions too"
)]

#[expect(dead_code, reason = "a session of this kind needs only some of it")]
#[path = "../session/world.rs"]
mod world;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::Meter;
use longhaul_engine::{models, wire};
use longhaul_server::session::{LiveSession, RequestAction, SessionLimits, SessionSettings};
use longhaul_server::store::{Durability, Store, StoreLocation};
use peak_alloc::PeakAlloc;

use world::{Agent, MODEL, at, request, settings, usage};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// The engines that fold what is old.
const ENGINES: [&str; 2] = ["compressor", "lossless"];
const WINDOW: u64 = 12_000;
const COMPACTIONS: usize = 48;

/// One of the things that a session holds.
type Of = fn(&Holds) -> usize;

/// What a session holds right after a compaction.
#[derive(Debug, Clone, Copy)]
struct Holds {
    heap: usize,
    ledger: usize,
    state: usize,
}

#[tokio::test]
async fn after_many_compactions_a_session_holds_no_more_than_after_a_few() {
    for engine in ENGINES {
        lasts(engine).await;
    }
}

async fn lasts(engine: &str) {
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("test").await.unwrap();
    let limits = SessionLimits { max_compactions_per_hour: 1_000, ..SessionLimits::default() };
    let mut settings = SessionSettings { limits, ..settings(WINDOW) };
    settings.config.context.engine = serde_json::from_value(engine.into()).unwrap();
    let mut session = LiveSession::new(settings).with_store(store, tenant.clone());
    let meter = Meter::for_model(&models::find(MODEL));
    let (mut agent, mut held, mut turns) = (Agent::new(), Vec::new(), 0);
    while held.len() < COMPACTIONS {
        agent.step(12);
        turns += 1;
        let body = agent.body();
        let turn = request(&mut session, &body, at(turns * 20)).await;
        let (sent, _) = wire::parse(None, &turn.body).unwrap();
        let tokens = meter.breakdown(&mut BlockCache::default(), &sent).total().number();
        assert!(tokens < WINDOW, "{engine}: request {turns} has {tokens} tokens");
        session.record_reply(&usage(&turn.body)).await;
        let compacted = turn.action == RequestAction::Compacted;
        agent.adopt(&turn.body);
        drop(turn);
        drop(body);
        if compacted {
            let agents_own = HEAP.current_usage();
            let without = agent.clone();
            let agents_own = HEAP.current_usage() - agents_own;
            drop(without);
            held.push(Holds {
                heap: HEAP.current_usage() - agents_own,
                ledger: serde_json::to_string(session.ledger()).unwrap().len(),
                state: serde_json::to_string(session.state()).unwrap().len(),
            });
        }
    }
    println!("{engine}: {turns} requests; after each compaction: {held:?}");
    assert!(turns > 200, "{engine}: {turns}");
    let most = |held: &[Holds], of: Of| held.iter().map(of).max().unwrap();
    let (early, late) = (&held[8..24], &held[32..]);
    let kinds: [(&str, usize, Of); 3] =
        [("heap", 32 * 1024, |held| held.heap), ("ledger", 256, |held| held.ledger), ("state", 256, |held| held.state)];
    for (what, slack, of) in kinds {
        let (early, late) = (most(early, of), most(late, of));
        assert!(late <= early + slack, "{engine}, {what}: {early} bytes at first, {late} at last");
    }
}
