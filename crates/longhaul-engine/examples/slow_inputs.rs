//! Searches for texts that are slow for the functions that take text, and prints the worst of each with how its time grows.
//!
//!     cargo run --release -p longhaul-engine --example slow_inputs -- [TRIES [KB [SEED [TARGET]]]]
//!
//!     cargo run --release -p longhaul-engine --example slow_inputs -- unit TEXT
//!
//!     cargo run --release -p longhaul-engine --example slow_inputs -- prefixes
//!
//! The second form times one unit, repeated to ever more. A growth of 2 is in proportion; 4 is quadratic. What it finds belongs into
//! `tests/properties/growth.rs`. The third prints how fast text is redacted that repeats the beginning of a key, slowest first.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "it shares the code of the tests")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Write;

use support::slow::{TARGETS, prefixes, repeat, search, spent};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut arguments = std::env::args().skip(1);
    if let Some(turn) = std::env::args().nth(2).filter(|_| std::env::args().nth(1).as_deref() == Some("unit")) {
        for (name, run) in TARGETS {
            let times = (13..19).map(|power| {
                let text = repeat(&turn, 1 << power);
                format!("{:.2?}", (0..3).map(|_| spent(|| run(&text))).min().unwrap_or_default())
            });
            writeln!(out, "{name}: {}", times.collect::<Vec<_>>().join(", "))?;
        }
        return Ok(());
    }
    if std::env::args().nth(1).as_deref() == Some("prefixes") {
        let mut rates: Vec<(f64, String)> = prefixes()
            .into_iter()
            .map(|prefix| {
                let text = repeat(&prefix, 1 << 18);
                let time = (0..5).map(|_| spent(|| (TARGETS[0].1)(&text))).min().unwrap_or_default();
                (text.len() as f64 / 1e6 / time.as_secs_f64(), prefix)
            })
            .collect();
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (rate, prefix) in rates {
            writeln!(out, "{rate:.0} MB/s {prefix:?}")?;
        }
        return Ok(());
    }
    let mut number = |default: usize| arguments.next().and_then(|given| given.parse().ok()).unwrap_or(default);
    let (tries, bytes, seed) = (number(2_000), number(16) << 10, number(1) as u64);
    let only = std::env::args().nth(4);
    for (name, run) in TARGETS.into_iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        let ordinary = repeat("The quick brown fox jumps over the lazy dog, line by line.\n", bytes);
        let usual = spent(|| run(&ordinary)).as_nanos() as f64 / ordinary.len() as f64;
        writeln!(out, "{name}: ordinary text takes {usual:.0} ns a byte")?;
        for slow in search(seed, tries, bytes, &run).iter().take(6) {
            let time = |bytes: usize| {
                let text = repeat(&slow.unit, bytes);
                (0..3).map(|_| spent(|| run(&text))).min().unwrap_or_default().as_secs_f64()
            };
            let growth = time(4 * bytes) / time(2 * bytes);
            writeln!(out, "{:>10.0} ns a byte, growth {growth:.2}: {:?}", slow.cost, slow.unit)?;
        }
        out.flush()?;
    }
    Ok(())
}
