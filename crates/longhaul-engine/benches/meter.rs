//! Counting a whole body, and counting it again after it grew by one message.
//!
//!     LONGHAUL_SHARED=… cargo bench -p longhaul-engine --bench meter
//!
//! The ratio printed first is of medians over rounds in which each is done once.

use std::hint::black_box;
use std::time::Instant;

use divan::Bencher;
use divan::counter::BytesCount;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::Meter;
use longhaul_engine::{models, wire};

mod bodies;

const ROUNDS: usize = 15;

fn main() {
    ratios();
    divan::main();
}

fn meter() -> Meter {
    Meter::for_model(&models::find("gpt-5"))
}

fn grown(body: &str) -> String {
    let message = r#",{"role":"user","content":"and now the same for the other file, please"}]}"#;
    format!("{}{message}", body.strip_suffix("]}").unwrap_or(body))
}

#[allow(clippy::print_stdout, reason = "the output is what it is for")]
fn ratios() {
    let body = bodies::chat(4);
    let grown = grown(&body);
    let (Ok((before, _)), Ok((after, _))) = (wire::parse(None, &body), wire::parse(None, &grown)) else {
        return;
    };
    let mut times: Vec<[f64; 2]> = Vec::new();
    for _ in 0..ROUNDS {
        let mut cache = BlockCache::default();
        let start = Instant::now();
        black_box(meter().breakdown(&mut cache, &before));
        let whole = start.elapsed().as_secs_f64();
        let start = Instant::now();
        black_box(meter().breakdown(&mut cache, &after));
        times.push([whole, start.elapsed().as_secs_f64()]);
    }
    let median = |at: usize| {
        let mut times: Vec<f64> = times.iter().map(|t| t[at]).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (whole, again) = (median(0), median(1));
    println!("counting again, one message later: {:.4} of counting (medians of {ROUNDS} rounds)", again / whole);
}

#[divan::bench(sample_count = 10)]
fn a_count(bencher: Bencher<'_, '_>) {
    let body = bodies::chat(4);
    let Ok((transcript, _)) = wire::parse(None, &body) else { return };
    bencher
        .counter(BytesCount::of_str(&body))
        .bench_local(|| meter().breakdown(&mut BlockCache::default(), &transcript));
}

#[divan::bench]
fn b_count_one_message_later(bencher: Bencher<'_, '_>) {
    let body = grown(&bodies::chat(4));
    let Ok((transcript, _)) = wire::parse(None, &body) else { return };
    let mut cache = BlockCache::default();
    meter().breakdown(&mut cache, &transcript);
    bencher.counter(BytesCount::of_str(&body)).bench_local(|| meter().breakdown(&mut cache, &transcript));
}
