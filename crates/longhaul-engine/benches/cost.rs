//! A session of a thousand requests, replayed under five policies.
//!
//!     LONGHAUL_SHARED=… cargo bench -p longhaul-engine --bench cost
//!
//! Without `LONGHAUL_SHARED` the session is made of invented words.

use std::time::Instant;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{BreakpointCarrier, CacheRules};
use longhaul_engine::cost::{self, BreakpointPolicy, CostStrategy, RecordedSession, Replay};
use longhaul_engine::policy::{CacheStrategy, CacheTtl, Config};
use longhaul_engine::prices;
use longhaul_engine::{Tokens, models, wire};

mod bodies;

const MODEL: &str = "claude-sonnet-4-5";
const COURSES: [CostStrategy; 5] = [
    CostStrategy::Passthrough,
    CostStrategy::BreakpointsOnly,
    CostStrategy::Compressor(0.5),
    CostStrategy::SacredZone,
    CostStrategy::Scheduler,
];

#[allow(clippy::print_stdout, reason = "the output is what it is for")]
fn main() {
    let body = bodies::chat(4);
    let model = models::find(MODEL);
    let Some(prices) = prices::find(MODEL) else { return };
    let mut config = Config::default();
    config.models.entry(MODEL.to_owned()).or_default().context_length = Some(Tokens(100_000));
    let start = Instant::now();
    let Ok((transcript, _)) = wire::parse(None, &body) else { return };
    let cache = &mut BlockCache::default();
    let session = RecordedSession::new(&transcript, &model, cache);
    let mut requests = session.requests();
    requests.truncate(1_000);
    let size = requests.last().map_or(0, |last| session.prefix_tokens[last.pieces - 1].number());
    println!("{} requests, the last one of {size} tokens", requests.len());
    println!("{:16} {:6.0} ms", "reading it", start.elapsed().as_secs_f64() * 1e3);
    let replay = Replay {
        session: &session,
        requests: &requests,
        pauses: &cost::simulate_pauses(&requests, 1),
        rules: CacheRules::for_model(&model),
        price: &prices.price,
        breakpoints: Some(BreakpointPolicy {
            strategy: CacheStrategy::SystemAndThree,
            ttl: CacheTtl::FiveMinutes,
            carrier: BreakpointCarrier::Message,
        }),
    };
    for course in COURSES {
        let Ok(policy) = course.policy(&config, &model) else { return };
        let begun = Instant::now();
        let Ok(turns) = replay.run(course, &policy, cache) else { return };
        let compactions = turns.iter().filter(|turn| turn.compaction.is_some()).count();
        let (time, usd) = (begun.elapsed().as_secs_f64() * 1e3, cost::sum_requests(&turns).1);
        println!("{course:16} {time:6.0} ms  {compactions:3} compactions  {usd}");
    }
    println!("{:16} {:6.0} ms", "all of it", start.elapsed().as_secs_f64() * 1e3);
}
