//! What a quiet turn costs: a session of a given size grows by 300 turns of equal size, and each request is looked at and left alone.
//!
//!     cargo run --release -p longhaul-engine --example turn_speed -- [TOKENS …]
//!
//! Prints, for each size, the processor's time of a turn in the first and in the last hundred, parsing apart.

use std::io::Write;
use std::time::Duration;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::plan::{Compressor, Engine};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::{Tokens, models, wire};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

const TURNS: usize = 300;

fn main() -> Result<(), Failure> {
    let sizes: Vec<u64> = std::env::args().skip(1).map(|size| size.parse()).collect::<Result<_, _>>()?;
    let sizes = if sizes.is_empty() { vec![100_000, 1_000_000] } else { sizes };
    let stated = json!({"window": 10_000_000, "input_limit": null});
    let model = models::find("gpt-5").with_stated_facts(stated.as_object().ok_or("no facts")?)?;
    let (policy, _) = Policy::new(&Config::default(), &model)?;
    for size in sizes {
        let (mut cache, mut body, mut turns) = (BlockCache::default(), Body::default(), 0);
        let mut tokens = Tokens::ZERO;
        while tokens < Tokens(size) {
            // Some turns at a time, so that the session grows as it would.
            for _ in 0..=turns / 10 {
                body.push(turns);
                turns += 1;
            }
            tokens = Compressor.observe(&policy, &mut cache, &wire::parse(None, &body.whole())?.0);
        }
        let (mut looks, mut reads) = (Vec::new(), Vec::new());
        for turn in turns..turns + TURNS {
            body.push(turn);
            let whole = body.whole();
            let start = processor_time();
            let (transcript, _) = wire::parse(None, &whole)?;
            let between = processor_time();
            tokens = Compressor.observe(&policy, &mut cache, &transcript);
            looks.push(processor_time().saturating_sub(between));
            reads.push(between.saturating_sub(start));
        }
        let [first, last] = [&looks[..100], &looks[TURNS - 100..]].map(mean);
        writeln!(
            std::io::stdout(),
            "from {size} to {tokens} tokens: a turn {first:.3} ms → {last:.3} ms, {:.2} times; parsing {:.2} → {:.2} ms",
            last / first,
            mean(&reads[..100]),
            mean(&reads[TURNS - 100..]),
        )?;
    }
    Ok(())
}

/// A request that grows.
#[derive(Default)]
struct Body(Vec<Value>);

impl Body {
    /// A request, a call with its result, an answer: about 170 tokens, in each turn others.
    fn push(&mut self, turn: usize) {
        let line = |i: usize| format!("src/part{turn}.rs:{i}: let value{i} = measure({turn}, {i});\n");
        let arguments = json!({"path": format!("src/part{turn}.rs"), "limit": 6}).to_string();
        let call = json!({"name": "read_file", "arguments": arguments});
        self.0.extend([
            json!({"role": "user", "content": format!("Look at part {turn} and say what it measures.")}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("c{turn}"), "type": "function", "function": call}]}),
            json!({"role": "tool", "tool_call_id": format!("c{turn}"), "content": (0..6).map(line).collect::<String>()}),
            json!({"role": "assistant", "content": format!("It measures part {turn}, six values, because `value{turn}` is read later.")}),
        ]);
    }

    fn whole(&self) -> String {
        json!({"model": "gpt-5", "messages": self.0}).to_string()
    }
}

/// What this thread has had of the processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn mean(times: &[Duration]) -> f64 {
    times.iter().sum::<Duration>().as_secs_f64() * 1e3 / times.len() as f64
}
