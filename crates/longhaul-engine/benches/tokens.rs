//! Counting, estimating and counting again, side by side on the same four megabytes.
//!
//! The ratios printed first are medians over rounds in which each kind of work is done once, so that what else the machine
//! does meets all of them alike; the table after them is of each by itself.
//!
//! `LONGHAUL_SHARED=<folder> cargo bench -p longhaul-engine --bench tokens`; without the folder, on text made up here.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use divan::Bencher;
use divan::counter::BytesCount;
use longhaul_engine::block_cache::{BlockCache, ContentKey};
use longhaul_engine::tokens::{TokenCounter, Vocabulary, estimate};
use serde_json::Value;

const COUNTER: TokenCounter = TokenCounter::exact(Vocabulary::O200kBase);
const BYTES: usize = 4_000_000;
const ROUNDS: usize = 60;

fn main() {
    ratios();
    divan::main();
}

#[allow(clippy::print_stdout, reason = "the output is what it is for")]
fn ratios() {
    let blocks = blocks();
    let tokenizer = tiktoken::get_encoding("o200k_base").expect("the vocabulary");
    let mut cache = BlockCache::default();
    let alone = |text: &str| tokenizer.count(text) as u64;
    let mut again = |text: &str| cache.count_tokens(COUNTER, ContentKey::new(0, text.as_bytes()), || text).number();
    let mut rounds: Vec<[f64; 3]> = Vec::new();
    for text in &blocks {
        again(text);
    }
    for _ in 0..ROUNDS {
        let base = seconds(&blocks, alone);
        let others = [
            seconds(&blocks, |text| COUNTER.count(text).number()),
            seconds(&blocks, &mut again),
            seconds(&blocks, |text| estimate(text).number()),
        ];
        rounds.push(others.map(|time| time / base));
    }
    for (at, work) in ["counting", "counting what is known", "estimating"].into_iter().enumerate() {
        let mut times: Vec<f64> = rounds.iter().map(|round| round[at]).collect();
        times.sort_by(f64::total_cmp);
        let (low, middle, high) = (times[ROUNDS / 4], times[ROUNDS / 2], times[ROUNDS * 3 / 4]);
        println!(
            "{work}: {middle:.3} of the tokenizer crate's time (middle half of {ROUNDS} rounds {low:.3} to {high:.3})"
        );
    }
}

fn seconds(blocks: &[String], mut work: impl FnMut(&str) -> u64) -> f64 {
    let start = Instant::now();
    black_box(blocks.iter().map(|text| work(text)).sum::<u64>());
    start.elapsed().as_secs_f64()
}

/// Blocks of text, four megabytes of them: the longer strings of the corpus if it is there.
fn blocks() -> Vec<String> {
    let mut blocks = Vec::new();
    if let Ok(shared) = std::env::var("LONGHAUL_SHARED") {
        let folder = std::fs::read_dir(Path::new(&shared).join("corpus")).expect("the corpus");
        let mut files: Vec<_> = folder.flatten().map(|file| file.path()).collect();
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "json")) {
            let body = std::fs::read(file).expect("a body");
            strings(serde_json::from_slice(&body).expect("JSON"), &mut blocks);
        }
        blocks.retain(|text| text.len() >= 100 && text.contains(' '));
    } else {
        let line = "for (name, value) in settings.iter() { log::info!(\"{name} = {value}, was {}\", 1234); }\n";
        blocks.extend((0..4_000).map(|n| format!("{n}\n{}", line.repeat(20))));
    }
    let mut room = BYTES;
    blocks.retain(|text| {
        let fits = text.len() <= room;
        room -= if fits { text.len() } else { 0 };
        fits
    });
    blocks
}

fn strings(value: Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) => values.into_iter().for_each(|v| strings(v, found)),
        Value::Object(fields) => fields.into_iter().for_each(|(_, v)| strings(v, found)),
        _ => {}
    }
}

fn measure(bencher: Bencher, mut work: impl FnMut(&[String]) -> u64) {
    let blocks = blocks();
    let bytes: usize = blocks.iter().map(String::len).sum();
    bencher.counter(BytesCount::new(bytes)).bench_local(|| work(&blocks));
}

#[divan::bench(sample_count = 40)]
fn a_tokenizer_crate_alone(bencher: Bencher) {
    let tokenizer = tiktoken::get_encoding("o200k_base").expect("the vocabulary");
    measure(bencher, |blocks| blocks.iter().map(|text| tokenizer.count(text) as u64).sum());
}

#[divan::bench(sample_count = 40)]
fn b_count(bencher: Bencher) {
    measure(bencher, |blocks| blocks.iter().map(|text| COUNTER.count(text).number()).sum());
}

#[divan::bench(sample_count = 40)]
fn c_count_what_is_known(bencher: Bencher) {
    let mut cache = BlockCache::default();
    measure(bencher, |blocks| {
        let mut count =
            |text: &String| cache.count_tokens(COUNTER, ContentKey::new(0, text.as_bytes()), || text).number();
        blocks.iter().map(&mut count).sum()
    });
}

#[divan::bench(sample_count = 40)]
fn d_estimate(bencher: Bencher) {
    measure(bencher, |blocks| blocks.iter().map(|text| estimate(text).number()).sum());
}

#[divan::bench(sample_count = 10)]
fn e_one_megabyte_of_one_letter(bencher: Bencher) {
    let text = "a".repeat(1_000_000);
    bencher.counter(BytesCount::new(text.len())).bench(|| COUNTER.count(&text));
}

#[divan::bench(sample_count = 10)]
fn f_unpack_o200k_base(bencher: Bencher) {
    bencher.bench(tiktoken::encoding::o200k_base);
}
