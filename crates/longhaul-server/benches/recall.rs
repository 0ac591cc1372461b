//! How well a search finds what an agent needed later and the compacted body no longer holds.
//!
//!     bench/recall/queries.py > queries.jsonl
//!     cargo bench -p longhaul-server --bench recall -- queries.jsonl
//!
//! Each body is recorded up to its cut and compacted twice, by the default policy in a window of its own size and to a quarter of
//! its tokens. For each value that the result lacks, the query is asked, and it is looked whether one of the first five, or twenty,
//! steps holds the value; then the value itself is asked for. Beside it stands what opening the named block alone would show.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a measurement, run by hand")]

mod held;

use std::collections::BTreeMap;

use longhaul_engine::Timestamp;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::{CompactOptions, CompactedRequest, EngineRegistry, Originals, Plan, PlanInput, RecallIds};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::redact::Rules;
use longhaul_engine::{Tokens, Transcript, models, wire};
use longhaul_server::store::{
    CommitOptions, Durability, SearchHit, SearchScope, Store, StoreLocation, StoredSession, Tenant,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Asked {
    body: String,
    cut: usize,
    value: String,
    query: String,
}

/// Hits among the first five and twenty: of steps, of blocks alone, and of steps when the value itself is asked for.
#[derive(Default, Clone, Copy)]
struct Tally {
    asked: f64,
    steps: [f64; 2],
    blocks: [f64; 2],
    by_value: f64,
}

impl Tally {
    fn line(&self) -> String {
        let share = |count: f64| format!("{:.3}", count / self.asked.max(1.0));
        format!(
            "{:5} values  step {} {}  block {} {}  by value {}",
            self.asked,
            share(self.steps[0]),
            share(self.steps[1]),
            share(self.blocks[0]),
            share(self.blocks[1]),
            share(self.by_value)
        )
    }
}

fn main() {
    let Some(file) = std::env::args().skip(1).find(|word| !word.starts_with("--")) else {
        println!("no queries were given: see the first lines of this file");
        return;
    };
    let text = std::fs::read_to_string(file).unwrap();
    let mut bodies: BTreeMap<(String, usize), Vec<Asked>> = BTreeMap::new();
    for query in text.lines().map(|line| serde_json::from_str::<Asked>(line).unwrap()) {
        bodies.entry((query.body.clone(), query.cut)).or_default().push(query);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut all, mut sources, mut sessions): (Tally, BTreeMap<String, Tally>, Vec<Tally>) = Default::default();
    for ((path, cut), queries) in &bodies {
        let whole = std::fs::read_to_string(path).unwrap();
        let (transcript, _) = wire::parse(None, &whole).unwrap();
        let before = transcript.body_with_first_messages(*cut);
        for share in [1.0, 0.25] {
            let metrics = runtime.block_on(ask(&before, share, queries));
            let name = path.rsplit('/').next().unwrap_or_default();
            let source = name.split(['-', '_']).next().unwrap_or_default().to_owned();
            for sum in [&mut all, sources.entry(source).or_default()] {
                sum.asked += metrics.asked;
                sum.by_value += metrics.by_value;
                for at in 0..2 {
                    sum.steps[at] += metrics.steps[at];
                    sum.blocks[at] += metrics.blocks[at];
                }
            }
            if metrics.asked > 0.0 {
                sessions.push(metrics);
            }
        }
    }
    for (source, metrics) in sources {
        println!("{source:12} {}", metrics.line());
    }
    println!("{:12} {}", "all", all.line());
    let mean =
        |of: fn(&Tally) -> f64| sessions.iter().map(|t| of(t) / t.asked).sum::<f64>() / sessions.len().max(1) as f64;
    println!("mean of {} sessions: step {:.3} {:.3}", sessions.len(), mean(|t| t.steps[0]), mean(|t| t.steps[1]));
}

async fn ask(body: &str, share: f64, queries: &[Asked]) -> Tally {
    let (transcript, _) = wire::parse(None, body).unwrap();
    let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("bench").await.unwrap();
    let recorded = store.record(&tenant, &transcript, &Rules::default(), Timestamp(0)).await.unwrap();
    let Some(outcome) = compact(&transcript, &recorded.session, share) else { return Tally::default() };
    let how = CommitOptions { rules: &Rules::default(), at: Timestamp(1) };
    store.commit_compaction(&tenant, &recorded, &transcript, &outcome, how).await.unwrap();
    let session = store.session_by_name(&tenant, &recorded.session.name).await.unwrap();
    let (after, _) = wire::parse(transcript.api_format, &outcome.body).unwrap();
    let seen = held::said(&after);
    let mut metrics = Tally::default();
    for Asked { value, query, .. } in queries.iter().filter(|query| !seen.contains(&query.value)) {
        metrics.asked += 1.0;
        let hits = store.search(&tenant, &session, SearchScope::Session, query, 20).await.unwrap();
        let mut at = [usize::MAX; 2];
        for (place, hit) in hits.iter().enumerate() {
            let holds = holds(&store, &tenant, &session, hit, value).await;
            for (found, holds) in at.iter_mut().zip(holds) {
                *found = if holds { place.min(*found) } else { *found };
            }
        }
        for (slot, most) in [5, 20].into_iter().enumerate() {
            metrics.steps[slot] += f64::from(u8::from(at[0] < most));
            metrics.blocks[slot] += f64::from(u8::from(at[1] < most));
        }
        let mut named = false;
        for hit in store.search(&tenant, &session, SearchScope::Session, value, 5).await.unwrap() {
            named |= holds(&store, &tenant, &session, &hit, value).await[0];
        }
        metrics.by_value += f64::from(u8::from(named));
    }
    metrics
}

/// Whether the step of a hit holds a value, and whether the block that it names does.
async fn holds(store: &Store, tenant: &Tenant, session: &StoredSession, hit: &SearchHit, value: &str) -> [bool; 2] {
    let mut step = false;
    let mut named = false;
    for block in &hit.turn_blocks {
        let holds = held::holds(store, tenant, session, &block.recall_id, value).await;
        step |= holds;
        named |= holds && block.recall_id == hit.recall_id;
    }
    [step, named]
}

fn compact(transcript: &Transcript<'_>, session: &StoredSession, share: f64) -> Option<CompactedRequest> {
    let model = models::find(transcript.model.as_deref().unwrap_or("unknown"));
    let mut cache = BlockCache::default();
    let tokens = Meter::for_model(&model).breakdown(&mut cache, transcript).total().number();
    let mut config = Config::default();
    config.models.entry(model.name.clone()).or_default().context_length = Some(Tokens(tokens.max(4_000)));
    let (policy, _) = Policy::new(&config, &model).unwrap();
    let wanted = (share < 1.0).then_some(Tokens((tokens as f64 * share) as u64));
    let (key, originals) = (session.key.clone(), Originals::Stored(RecallIds::new(session.key.clone())));
    let options = CompactOptions {
        force: true,
        to_tokens: wanted,
        originals,
        session_key: Some(key),
        ..CompactOptions::default()
    };
    match EngineRegistry::default()
        .find_or_compressor(&policy.engine)
        .compact(PlanInput { policy: &policy, options: &options, cache: &mut cache, transcript })
        .unwrap()
    {
        Plan::Ready(outcome) => Some(outcome),
        Plan::Unchanged(_) => None,
    }
}
