//! How long a compaction takes on one thread, warm and in one process: with nothing known, with all but the newest turn known as
//! a growing session leaves it, and as a compaction just before leaves it.
//!
//!     cargo run --release -p longhaul-engine --example compress_speed -- BODY WINDOW [RUNS]
//!
//! Prints one line of JSON, times in milliseconds: median, least and most of the processor's time, then of the clock's.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use longhaul_engine::known::{ContentKey, Known};
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::{Compressor, CountFacts, Engine, Plan, Trigger, Wish};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::{Speaker, UnitKind};
use longhaul_engine::{Refused, Transcript, models, wire};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// A turn of an agent that nobody interrupts.
const LONGEST_TURN: usize = 5;

type Failure = Box<dyn std::error::Error>;

/// The engine that is measured.
fn engine(policy: &Policy, known: &mut Known, transcript: &Transcript<'_>) -> Result<Plan, Refused> {
    let wish = Wish { trigger: Trigger::Reply, force: true, facts: CountFacts::No, ..Wish::default() };
    Compressor.compact(policy, &wish, known, transcript)
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("{what} is missing"));
    let body = std::fs::read_to_string(next("the body")?)?;
    let window: usize = next("the window")?.parse()?;
    let runs = next("").map_or(Ok(9), |runs| runs.parse())?;

    let (transcript, _) = wire::parse(None, &body)?;
    let stated = json!({"window": window, "input_limit": null});
    let model = models::find("gpt-5").with(stated.as_object().ok_or("no facts")?)?;
    let (policy, _) = Policy::new(&Config::default(), &model)?;
    let meter = Meter::of(&model);

    let unknown = Known::default;
    let compacted = just_compacted(&policy, &transcript)?;
    let grown = grown(&policy, &transcript)?;
    let Plan::Ready(outcome) = engine(&policy, &mut compacted.clone(), &transcript)? else {
        return Err("nothing was compacted: this measures nothing".into());
    };

    let report = json!({
        "bytes": body.len(),
        "tokens": [outcome.report.tokens.before, outcome.report.tokens.after],
        "messages": [outcome.report.messages.before, outcome.report.messages.after],
        "parse": times(runs, || (), |()| wire::parse(None, &body).map(|_| ())),
        "hash": times(runs, || (), |()| ContentKey::of(0, body.as_bytes())),
        "count": times(runs, unknown, |mut known| meter.parts(&mut known, &transcript)),
        "count_known": times(runs, || grown.clone(), |mut known| meter.parts(&mut known, &transcript)),
        "plan": times(runs, unknown, |mut known| engine(&policy, &mut known, &transcript).map(|_| ())),
        "plan_known": times(runs, || compacted.clone(), |mut known| engine(&policy, &mut known, &transcript).map(|_| ())),
        "plan_grown": times(runs, || grown.clone(), |mut known| engine(&policy, &mut known, &transcript).map(|_| ())),
    });
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

/// What is known after a compaction of everything but the newest turn.
fn just_compacted(policy: &Policy, transcript: &Transcript<'_>) -> Result<Known, Failure> {
    let mut known = Known::default();
    let mut older = transcript.clone();
    older.units.truncate(newest_turn(transcript));
    engine(policy, &mut known, &older)?;
    Ok(known)
}

/// What is known where a session grew to this size, turn by turn, and was never compacted: each request was looked at, found
/// too small, and left alone. Nobody looked at the newest turn.
fn grown(policy: &Policy, transcript: &Transcript<'_>) -> Result<Known, Failure> {
    const STAGES: usize = 40;
    let mut known = Known::default();
    let newest = transcript.units[newest_turn(transcript)..].iter().flat_map(|unit| &unit.owns);
    let end = newest.filter_map(|id| transcript.message_of(*id)).min().unwrap_or(0);
    for stage in 1..=STAGES {
        let earlier = transcript.first_messages(end * stage / STAGES);
        let (earlier, _) = wire::parse(transcript.dialect, &earlier)?;
        Compressor.look(policy, &mut known, &earlier);
    }
    Ok(known)
}

/// Where the newest turn begins: the last thing that a person said, or the last step of a long loop.
fn newest_turn(transcript: &Transcript<'_>) -> usize {
    let said = |kind: &UnitKind<'_>| matches!(kind, UnitKind::Prompt { by: Speaker::User, .. });
    let units = &transcript.units;
    let newest = units.iter().rposition(|unit| said(&unit.kind)).unwrap_or(0);
    newest.max(units.len().saturating_sub(LONGEST_TURN))
}

/// What this thread has had of the processor.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Milliseconds of this thread's processor, the preparation not counted: median, least, most; then the same of the clock.
fn times<P, T>(runs: usize, prepare: impl Fn() -> P, mut work: impl FnMut(P) -> T) -> Value {
    let mut spent: [Vec<Duration>; 2] = Default::default();
    for run in 0..=runs {
        let prepared = prepare();
        let (clock, processor) = (Instant::now(), processor_time());
        black_box(work(prepared));
        if run > 0 {
            spent[0].push(processor_time().saturating_sub(processor));
            spent[1].push(clock.elapsed());
        }
    }
    let shown = |times: &mut Vec<Duration>| {
        times.sort();
        let at = |at: usize| (times[at].as_secs_f64() * 1e5).round() / 1e2;
        [at(times.len() / 2), at(0), at(times.len() - 1)]
    };
    let [mut processor, mut clock] = spent;
    json!([shown(&mut processor), shown(&mut clock)].concat())
}
