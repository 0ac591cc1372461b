//! The chain and the marks of a body that is parsed.
//!
//!     LONGHAUL_SHARED=… cargo bench -p longhaul-engine --bench cache
//!
//! Without `LONGHAUL_SHARED` the body is made of invented words.

use std::hint::black_box;
use std::time::{Duration, Instant};

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{
    self, Breakpoint, BreakpointCarrier, BreakpointOptions, CacheRequest, CacheRules, PieceTokens, PrefixChain,
    SimulatedCache, StablePieces,
};
use longhaul_engine::policy::CacheStrategy;
use longhaul_engine::wire::{self, CacheLifetime, PromptOrder};
use longhaul_engine::{Rewrite, Tokens, Transcript, models};

mod bodies;

const ROUNDS: usize = 60;

#[allow(clippy::print_stdout, reason = "the output is what it is for")]
fn main() {
    let body = bodies::chat(4);
    let Ok((transcript, _)) = wire::parse(None, &body) else { return };
    let reading = wire::prompt_order(&transcript);
    let cache = &mut BlockCache::default();
    let speed = |name: &str, work: &mut dyn FnMut()| {
        let time = median(work);
        let megabytes = body.len() as f64 / 1e6;
        println!("{name:32} {:6.2} ms  {:6.0} MB/s", time * 1e3, megabytes / time);
    };
    println!("{} bytes, {} pieces", body.len(), reading.pieces.len());
    speed("parse", &mut || drop(black_box(wire::parse(None, black_box(&body)))));
    speed("chain", &mut || drop(black_box(cache::prefix_chain(black_box(&transcript)))));
    for strategy in [CacheStrategy::SystemAndThree, CacheStrategy::Prefix] {
        speed(&format!("marks, {strategy:?}"), &mut || {
            black_box(mark(black_box(&transcript), &reading, strategy, cache));
        });
        speed(&format!("chain and marks, {strategy:?}"), &mut || {
            let reading = wire::prompt_order(black_box(&transcript));
            black_box(PrefixChain::new(&reading));
            black_box(mark(&transcript, &reading, strategy, cache));
        });
    }
    println!("1,000 requests through the model: {:.0} ms", replay() * 1e3);
}

/// The marked body.
fn mark(transcript: &Transcript<'_>, reading: &PromptOrder, strategy: CacheStrategy, cache: &mut BlockCache) -> String {
    let model = models::find("claude-sonnet-4-5");
    let first = PieceTokens::new(transcript, reading, &model).first_piece_reaching(cache, Tokens(1_024));
    let marking = BreakpointOptions {
        strategy,
        lifetime: CacheLifetime::FiveMinutes,
        carrier: BreakpointCarrier::Content,
        first_cacheable: first,
    };
    let marks = cache::place_breakpoints(&StablePieces::find(transcript, reading), reading, &marking);
    let edits = cache::breakpoint_edits(transcript.body, reading, &marks);
    Rewrite::new(transcript, edits).unwrap_or_default().apply(transcript.body)
}

/// The seconds that a session of 1,000 requests takes, each with one step more than the one before.
fn replay() -> f64 {
    let message = |i: usize| format!(r#"{{"role":"user","content":"{i}"}}"#);
    let messages: Vec<String> = (0..2_000).map(message).collect();
    let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
    let Ok((transcript, _)) = wire::parse(None, &body) else { return 0.0 };
    let whole = cache::prefix_chain(&transcript);
    let sizes: Vec<Tokens> = (1..=2_000).map(|k| Tokens(600 * k)).collect();
    let mut cache = SimulatedCache::new(CacheRules::for_model(&models::find("claude-sonnet-4-5")));
    let start = Instant::now();
    for request in 1..=1_000usize {
        let (links, settings) = (&whole.links[..2 * request], whole.settings);
        let piece = Some(2 * request - 1);
        let marks =
            [Breakpoint { piece, lifetime: CacheLifetime::FiveMinutes, owner: cache::BreakpointOwner::Longhaul }];
        let now = Duration::from_secs(20 * request as u64);
        black_box(
            cache.send(
                now,
                &CacheRequest { links, settings, prefix_tokens: &sizes[..2 * request], breakpoints: &marks },
            ),
        );
    }
    start.elapsed().as_secs_f64()
}

fn median(work: &mut dyn FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}
