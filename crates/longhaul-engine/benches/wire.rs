//! Reading and rewriting, beside the cheapest things that could be done with the same bytes.
//!
//!     LONGHAUL_SHARED=… cargo bench -p longhaul-engine --bench wire
//!
//! Without `LONGHAUL_SHARED` the body is made of invented words.

use std::hint::black_box;
use std::time::Instant;

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher};
use longhaul_engine::{Edit, Rewrite, wire};
use serde::de::IgnoredAny;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

mod bodies;

fn main() {
    ratios();
    divan::main();
}

const MEGABYTES: [usize; 3] = [4, 25, 100];

/// Rounds for the ratios.
const ROUNDS: usize = 40;

/// Medians over rounds in which each kind of work is done once, so that what else the machine does meets all alike.
#[allow(clippy::print_stdout, reason = "the output is what it is for")]
fn ratios() {
    for megabytes in MEGABYTES {
        let body = bodies::chat(megabytes);
        let rewrite = rewrite(&body);
        let rounds = ROUNDS.div_ceil(megabytes / 4);
        let mut times: Vec<[f64; 4]> = Vec::new();
        for _ in 0..rounds {
            times.push([
                seconds(|| serde_json::from_str::<IgnoredAny>(black_box(&body))),
                seconds(|| wire::parse(None, black_box(&body))),
                seconds(|| black_box(&body).clone()),
                seconds(|| rewrite.apply(black_box(&body))),
            ]);
        }
        let [skip, parse, copy, apply] = std::array::from_fn(|at| {
            let mut times: Vec<f64> = times.iter().map(|t| t[at]).collect();
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        println!(
            "{megabytes:3} MB: parsing at {:.2} of the speed of skipping, applying 200 edits at {:.2} of the speed of copying",
            skip / parse,
            copy / apply
        );
    }
}

fn seconds<T>(work: impl FnOnce() -> T) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_secs_f64()
}

#[divan::bench(args = MEGABYTES)]
fn a_skip_by_serde_json(bencher: Bencher<'_, '_>, megabytes: usize) {
    let body = bodies::chat(megabytes);
    bencher.counter(BytesCount::of_str(&body)).bench(|| serde_json::from_str::<IgnoredAny>(black_box(&body)));
}

#[divan::bench(args = MEGABYTES)]
fn b_parse(bencher: Bencher<'_, '_>, megabytes: usize) {
    let body = bodies::chat(megabytes);
    bencher.counter(BytesCount::of_str(&body)).bench(|| wire::parse(None, black_box(&body)));
}

#[divan::bench(args = MEGABYTES)]
fn c_copy(bencher: Bencher<'_, '_>, megabytes: usize) {
    let body = bodies::chat(megabytes);
    bencher.counter(BytesCount::of_str(&body)).bench(|| black_box(&body).clone());
}

#[divan::bench(args = MEGABYTES)]
fn d_apply_200_edits(bencher: Bencher<'_, '_>, megabytes: usize) {
    let body = bodies::chat(megabytes);
    let rewrite = rewrite(&body);
    bencher.counter(BytesCount::of_str(&body)).bench(|| rewrite.apply(black_box(&body)));
}

/// Two hundred texts, evenly spread, each replaced by a line.
fn rewrite(body: &str) -> Rewrite {
    let Ok((transcript, _)) = wire::parse(None, body) else { return Rewrite::default() };
    let texts: Vec<_> = transcript.blocks().filter_map(|b| b.text).collect();
    let every = texts.len() / 200;
    let edits = texts.iter().step_by(every).take(200);
    let edits = edits.map(|text| Edit::Text { text: *text, with: "{\"shorter\":\"a line of \\\"text\\\"\"}".into() });
    Rewrite::new(&transcript, edits.collect()).unwrap_or_default()
}
