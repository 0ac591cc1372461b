//! How long a compaction takes, warm and in one process: with nothing known, and with everything known but the newest turn.
//!
//!     cargo run --release -p longhaul-engine --example compress_speed -- BODY WINDOW [RUNS] [THREADS]
//!
//! Prints one line of JSON, times in milliseconds as `[median, least, most]`. `bench/compress/` makes the bodies.

use std::hint::black_box;
use std::io::Write;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use longhaul_engine::known::{ContentKey, Known};
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::{Compressor, Engine, Keep, Plan, Trigger, Wish};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::{Speaker, UnitKind};
use longhaul_engine::{Refused, Transcript, models, wire};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

/// The engine that is measured.
fn engine(policy: &Policy, known: &mut Known, transcript: &Transcript<'_>) -> Result<Plan, Refused> {
    let wish = Wish {
        trigger: Trigger::Reply,
        force: true,
        to_tokens: None,
        focus: None,
        keep: Keep::Nothing,
        session: None,
    };
    Compressor.compact(policy, &wish, known, transcript)
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("{what} is missing"));
    let body = std::fs::read_to_string(next("the body")?)?;
    let window: usize = next("the window")?.parse()?;
    let runs = next("").map_or(Ok(9), |runs| runs.parse())?;
    let threads = next("").map_or_else(
        |_| std::thread::available_parallelism(),
        |n| Ok(n.parse().unwrap_or(NonZeroUsize::MIN)),
    )?;

    let (transcript, _) = wire::parse(None, &body)?;
    let stated = json!({"window": window, "input_limit": null});
    let model = models::find("gpt-5").with(stated.as_object().ok_or("no facts")?)?;
    let (policy, _) = Policy::new(&Config::default(), &model)?;
    let meter = Meter::of(&model);

    let unknown = || Known::default().on_threads(threads);
    let mut before = unknown();
    let mut older = transcript.clone();
    older.units.truncate(newest_turn(&transcript));
    engine(&policy, &mut before, &older)?;
    let Plan::Ready(outcome) = engine(&policy, &mut before.clone(), &transcript)? else {
        return Err("nothing was compacted: this measures nothing".into());
    };

    let report = json!({
        "bytes": body.len(),
        "threads": threads,
        "tokens": [outcome.report.tokens.before, outcome.report.tokens.after],
        "messages": [outcome.report.messages.before, outcome.report.messages.after],
        "parse": times(runs, || (), |()| wire::parse(None, &body).map(|_| ())),
        "hash": times(runs, || (), |()| ContentKey::of(0, body.as_bytes())),
        "count": times(runs, unknown, |mut known| meter.parts(&mut known, &transcript)),
        "count_known": times(runs, || before.clone(), |mut known| meter.parts(&mut known, &transcript)),
        "plan": times(runs, unknown, |mut known| engine(&policy, &mut known, &transcript).map(|_| ())),
        "plan_known": times(runs, || before.clone(), |mut known| engine(&policy, &mut known, &transcript).map(|_| ())),
    });
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

/// Where the newest turn begins: the last thing that a person said.
fn newest_turn(transcript: &Transcript<'_>) -> usize {
    let said = |kind: &UnitKind<'_>| matches!(kind, UnitKind::Prompt { by: Speaker::User, .. });
    transcript.units.iter().rposition(|unit| said(&unit.kind)).unwrap_or(0)
}

/// Milliseconds of the work, its preparation not counted.
fn times<P, T>(runs: usize, prepare: impl Fn() -> P, mut work: impl FnMut(P) -> T) -> Value {
    let mut times: Vec<Duration> = (0..=runs)
        .map(|_| {
            let prepared = prepare();
            let start = Instant::now();
            black_box(work(prepared));
            start.elapsed()
        })
        .skip(1)
        .collect();
    times.sort();
    let shown = |at: usize| (times[at].as_secs_f64() * 1e5).round() / 1e2;
    json!([shown(times.len() / 2), shown(0), shown(times.len() - 1)])
}
