//! A session of a thousand requests, replayed under five policies.
//!
//!     LONGHAUL_SHARED=… cargo bench -p longhaul-engine --bench cost
//!
//! Without `LONGHAUL_SHARED` the session is made of invented words.

use std::time::Instant;

use longhaul_engine::cache::{Carrier, Rules};
use longhaul_engine::cost::{self, Course, Marks, Replay, Session};
use longhaul_engine::known::Known;
use longhaul_engine::policy::{CacheStrategy, CacheTtl, Config};
use longhaul_engine::prices;
use longhaul_engine::{Tokens, models, wire};

mod bodies;

const MODEL: &str = "claude-sonnet-4-5";
const COURSES: [Course; 5] =
    [Course::Nothing, Course::Marks, Course::Compressor(0.5), Course::SacredZone, Course::Scheduler];

#[allow(clippy::print_stdout, reason = "the output is what it is for")]
fn main() {
    let body = bodies::chat(4);
    let model = models::find(MODEL);
    let Some(prices) = prices::find(MODEL) else { return };
    let mut config = Config::default();
    config.models.entry(MODEL.to_owned()).or_default().context_length = Some(Tokens(100_000));
    let start = Instant::now();
    let Ok((transcript, _)) = wire::parse(None, &body) else { return };
    let known = &mut Known::default();
    let session = Session::of(&transcript, &model, known);
    let mut requests = session.requests();
    requests.truncate(1_000);
    let size = requests.last().map_or(0, |last| session.sizes[last.pieces - 1].number());
    println!("{} requests, the last one of {size} tokens", requests.len());
    println!("{:16} {:6.0} ms", "reading it", start.elapsed().as_secs_f64() * 1e3);
    let replay = Replay {
        session: &session,
        requests: &requests,
        pauses: &cost::pauses(&requests, 1),
        rules: Rules::of(&model),
        price: &prices.price,
        marks: Some(Marks {
            strategy: CacheStrategy::SystemAndThree,
            ttl: CacheTtl::FiveMinutes,
            carrier: Carrier::Message,
        }),
    };
    for course in COURSES {
        let Ok(policy) = course.policy(&config, &model) else { return };
        let begun = Instant::now();
        let Ok(turns) = replay.run(course, &policy, known) else { return };
        let compactions = turns.iter().filter(|turn| turn.compacted.is_some()).count();
        let (time, usd) = (begun.elapsed().as_secs_f64() * 1e3, cost::total(&turns).1);
        println!("{course:16} {time:6.0} ms  {compactions:3} compactions  {usd}");
    }
    println!("{:16} {:6.0} ms", "all of it", start.elapsed().as_secs_f64() * 1e3);
}
