//! How long a compaction takes on one thread, warm and in one process: with nothing known, with all but the newest turn known as
//! a growing session leaves it, and as a compaction just before leaves it.
//!
//!     cargo run --release -p longhaul-engine --example compress_speed -- BODY WINDOW [RUNS]
//!
//! Prints one line of JSON, times in milliseconds: median, least and most of the processor's time, then of the clock's.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use longhaul_engine::block_cache::{BlockCache, ContentKey};
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::{CompactOptions, Compressor, CountFacts, Engine, Plan, PlanInput, Trigger};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::{Speaker, TurnKind};
use longhaul_engine::{RewriteError, Transcript, models, wire};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// A turn of an agent that nobody interrupts.
const LONGEST_TURN: usize = 5;

type Failure = Box<dyn std::error::Error>;

/// The engine that is measured.
fn engine(policy: &Policy, cache: &mut BlockCache, transcript: &Transcript<'_>) -> Result<Plan, RewriteError> {
    let options = CompactOptions {
        trigger: Trigger::Reply,
        force: true,
        count_facts: CountFacts::No,
        ..CompactOptions::default()
    };
    Compressor.compact(PlanInput { policy, options: &options, cache, transcript })
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or(format!("{what} is missing"));
    let body = std::fs::read_to_string(next("the body")?)?;
    let window: usize = next("the window")?.parse()?;
    let runs = next("").map_or(Ok(9), |runs| runs.parse())?;

    let (transcript, _) = wire::parse(None, &body)?;
    let stated = json!({"window": window, "input_limit": null});
    let model = models::find("gpt-5").with_stated_facts(stated.as_object().ok_or("no facts")?)?;
    let (policy, _) = Policy::new(&Config::default(), &model)?;
    let meter = Meter::for_model(&model);

    let unknown = BlockCache::default;
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
        "hash": times(runs, || (), |()| ContentKey::new(0, body.as_bytes())),
        "count": times(runs, unknown, |mut cache| meter.breakdown(&mut cache, &transcript)),
        "count_known": times(runs, || grown.clone(), |mut cache| meter.breakdown(&mut cache, &transcript)),
        "plan": times(runs, unknown, |mut cache| engine(&policy, &mut cache, &transcript).map(|_| ())),
        "plan_known": times(runs, || compacted.clone(), |mut cache| engine(&policy, &mut cache, &transcript).map(|_| ())),
        "plan_grown": times(runs, || grown.clone(), |mut cache| engine(&policy, &mut cache, &transcript).map(|_| ())),
    });
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

/// What is known after a compaction of everything but the newest turn.
fn just_compacted(policy: &Policy, transcript: &Transcript<'_>) -> Result<BlockCache, Failure> {
    let mut cache = BlockCache::default();
    let mut older = transcript.clone();
    older.turns.truncate(newest_turn(transcript));
    engine(policy, &mut cache, &older)?;
    Ok(cache)
}

/// What is known where a session grew to this size, turn by turn, and was never compacted: each request was looked at, found
/// too small, and left alone. Nobody looked at the newest turn.
fn grown(policy: &Policy, transcript: &Transcript<'_>) -> Result<BlockCache, Failure> {
    const STAGES: usize = 40;
    let mut cache = BlockCache::default();
    let newest = transcript.turns[newest_turn(transcript)..].iter().flat_map(|turn| &turn.owned_elements);
    let end = newest.filter_map(|id| transcript.message_of(*id)).min().unwrap_or(0);
    for stage in 1..=STAGES {
        let earlier = transcript.body_with_first_messages(end * stage / STAGES);
        let (earlier, _) = wire::parse(transcript.api_format, &earlier)?;
        Compressor.observe(policy, &mut cache, &earlier);
    }
    Ok(cache)
}

/// Where the newest turn begins: the last thing that a person said, or the last step of a long loop.
fn newest_turn(transcript: &Transcript<'_>) -> usize {
    let said = |kind: &TurnKind<'_>| matches!(kind, TurnKind::Prompt { speaker: Speaker::User, .. });
    let turns = &transcript.turns;
    let newest = turns.iter().rposition(|turn| said(&turn.kind)).unwrap_or(0);
    newest.max(turns.len().saturating_sub(LONGEST_TURN))
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
