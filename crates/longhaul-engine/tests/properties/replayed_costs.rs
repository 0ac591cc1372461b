//! What a session costs on every course, by the modelled cache, over all long sessions of the corpus.
//!
//!     LONGHAUL_SHARED=… cargo test -p longhaul-engine --test properties cost_sessions -- --nocapture

use crate::support::corpus;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{BreakpointCarrier, CacheRules};
use longhaul_engine::cost::{self, BreakpointPolicy, CostStrategy, RecordedSession, Replay, ReplayedRequest};
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{CompactOptions, Compressor, Engine, Plan, PlanInput, Trigger};
use longhaul_engine::policy::CacheStrategy::{self, Prefix, SystemAndThree};
use longhaul_engine::policy::{CacheTtl, Config, Policy};
use longhaul_engine::prices;
use longhaul_engine::{ApiFormat, Tokens, Transcript, models, wire};
use serde_json::{Value, json};

tests! {
    always: [what_is_forgotten_is_fetched_again_and_paid_for],
    real: [
        compacting_when_it_pays_costs_no_more_than_the_best_threshold,
        a_replay_sends_what_a_ledger_would_send,
    ],
}

const WINDOW: Tokens = Tokens(100_000);

/// From so many tokens on a session is long.
const LONG: Tokens = Tokens(30_000);

/// The model that a body goes to: Responses bodies have no place for marks, so their provider caches by itself.
fn model_for(api_format: ApiFormat) -> &'static str {
    if api_format == ApiFormat::Responses { "gpt-5" } else { "claude-sonnet-4-5" }
}

fn config(model: &str) -> Config {
    let mut config = Config::default();
    config.models.entry(model.to_owned()).or_default().context_length = Some(WINDOW);
    config
}

/// Every course that is compared, and thresholds below what is sensible, to show that there what is forgotten costs what is saved.
fn courses() -> impl Iterator<Item = CostStrategy> {
    CostStrategy::ALL.into_iter().chain([0.25, 0.20, 0.15].map(CostStrategy::Compressor))
}

/// A session, replayed on every course.
struct Replayed {
    name: String,
    /// The largest request, as the client had it.
    size: Tokens,
    requests: usize,
    /// One for each course.
    runs: Vec<Vec<ReplayedRequest>>,
}

impl Replayed {
    fn usd(&self, course: CostStrategy) -> f64 {
        let at = courses().position(|other| other == course).unwrap();
        cost::sum_requests(&self.runs[at]).1.0
    }

    fn compactions(&self, course: usize) -> usize {
        self.runs[course].iter().filter(|turn| turn.compaction.is_some()).count()
    }

    fn forgotten(&self, course: usize) -> usize {
        self.runs[course].iter().map(|turn| turn.refetched.len()).sum()
    }
}

fn replay(name: &str, body: &str, strategy: CacheStrategy, seed: u64) -> Option<Replayed> {
    let (transcript, _) = wire::parse(None, body).unwrap();
    let name_of_model = model_for(transcript.api_format);
    let model = models::find(name_of_model);
    let cache = &mut BlockCache::default();
    let session = RecordedSession::new(&transcript, &model, cache);
    let requests = session.requests();
    let size = session.prefix_tokens[requests.last()?.pieces - 1];
    if size < LONG {
        return None;
    }
    let replay = Replay {
        session: &session,
        requests: &requests,
        pauses: &cost::simulate_pauses(&requests, seed),
        rules: CacheRules::for_model(&model),
        price: &prices::find(name_of_model).unwrap().price,
        breakpoints: Some(BreakpointPolicy {
            strategy,
            ttl: CacheTtl::FiveMinutes,
            carrier: BreakpointCarrier::Message,
        }),
    };
    let runs = courses().map(|course| {
        let policy = course.policy(&config(name_of_model), &model).unwrap();
        replay.run(course, &policy, cache).unwrap()
    });
    Some(Replayed { name: name.to_owned(), size, requests: requests.len(), runs: runs.collect() })
}

/// Every long session of the corpus with its dollars, compactions and forgotten steps on each course, and the means.
fn show(sessions: &[Replayed]) {
    for session in sessions {
        let cells: Vec<String> = courses()
            .enumerate()
            .map(|(at, course)| {
                let (times, steps) = (session.compactions(at), session.forgotten(at));
                format!("{:7.2}/{times}/{steps:<3}", session.usd(course))
            })
            .collect();
        let name: String = session.name.chars().take(48).collect();
        say!("{name:48} {:>8} {:4} {}", session.size.to_string(), session.requests, cells.join(" "));
    }
    for course in courses() {
        let shares = sessions.iter().map(|session| session.usd(course) / session.usd(CostStrategy::BreakpointsOnly));
        let share = 100.0 * shares.sum::<f64>() / sessions.len() as f64;
        say!("{course:16} mean ${:6.3}, {share:5.1} % of marks alone", mean(sessions, course));
    }
}

fn mean(sessions: &[Replayed], course: CostStrategy) -> f64 {
    sessions.iter().map(|session| session.usd(course)).sum::<f64>() / sessions.len() as f64
}

/// Which seeds the pauses are drawn from; more of them with `SEEDS=1,2,3`.
fn seeds() -> Vec<u64> {
    let typed = std::env::var("SEEDS").unwrap_or_else(|_| "1".to_owned());
    typed.split(',').map(|seed| seed.parse().unwrap()).collect()
}

fn compacting_when_it_pays_costs_no_more_than_the_best_threshold() {
    for (seed, strategy) in seeds().into_iter().flat_map(|seed| [(seed, SystemAndThree), (seed, Prefix)]) {
        let sessions: Vec<Replayed> =
            corpus().iter().filter_map(|(name, body)| replay(name, body, strategy, seed)).collect();
        say!("\n{strategy:?}, pauses drawn with seed {seed}");
        show(&sessions);
        let scheduled = mean(&sessions, CostStrategy::Scheduler);
        // Nothing is compacted early below two fifths of the window, whatever that would save.
        for course in courses().filter(|course| matches!(course, CostStrategy::Compressor(share) if *share >= 0.5)) {
            assert!(scheduled <= 1.02 * mean(&sessions, course), "{course}");
        }
        for session in &sessions {
            let [scheduled, marks] =
                [CostStrategy::Scheduler, CostStrategy::BreakpointsOnly].map(|course| session.usd(course));
            let (name, size) = (&session.name, session.size);
            if size > WINDOW {
                // What is larger than the window has to be compacted, paying or not: marks alone would have been refused.
                assert!(scheduled <= 1.15 * marks, "{name}: {scheduled} against {marks}");
            }
            if size < WINDOW / 2 {
                assert!(scheduled <= 1.02 * marks, "{name}: {scheduled} against {marks}");
            }
        }
    }
}

/// The messages that a unit stands in.
fn messages_of(transcript: &Transcript<'_>, turn: usize) -> Vec<usize> {
    let blocks = transcript.turns[turn].blocks();
    let mut messages: Vec<usize> = blocks.filter_map(|block| transcript.message_at(block.at)).collect();
    messages.sort_unstable();
    messages.dedup();
    messages
}

/// What a gateway sends for a session, in which the agent fetched again what the replay says: every request goes through the
/// ledger of those before it.
fn through_the_ledger(session: &RecordedSession<'_, '_>, policy: &Policy, turns: &[ReplayedRequest]) -> Vec<Tokens> {
    let (mut ledger, cache) = (Ledger::default(), &mut BlockCache::default());
    let options = CompactOptions { trigger: Trigger::Preflight, ..CompactOptions::default() };
    let transcript = session.transcript;
    let empty = transcript.body_with_first_messages(0);
    let (around, _) = wire::parse(transcript.api_format, &empty).unwrap();
    let (mut said, mut next) = (Vec::new(), 0);
    let requests = session.requests();
    let sizes = requests.iter().zip(turns).map(|(sent, turn)| {
        let end = session.prompt_order.pieces[sent.pieces - 1].message.unwrap() as usize + 1;
        said.extend(next..end);
        next = end;
        let messages: Vec<&str> = said.iter().filter_map(|at| transcript.message_json(*at)).collect();
        let body = around.body_with_appended(&messages.join(","));
        let (request, _) = wire::parse(transcript.api_format, &body).unwrap();
        said.extend(turn.refetched.iter().flat_map(|step| messages_of(transcript, step.turn)));
        match Compressor.plan(&ledger, PlanInput { policy, options: &options, cache, transcript: &request }).unwrap() {
            Plan::Unchanged(report) => report.tokens.after,
            Plan::Ready(outcome) => {
                ledger = outcome.ledger;
                outcome.report.tokens.after
            }
        }
    });
    sizes.collect()
}

fn a_replay_sends_what_a_ledger_would_send() {
    let (mut compactions, mut forgotten) = (0, 0);
    for (name, body) in corpus().iter().filter(|(name, _)| name.contains("astropy") || name.contains("sympy")) {
        let (transcript, _) = wire::parse(None, body).unwrap();
        let name_of_model = model_for(transcript.api_format);
        let model = models::find(name_of_model);
        let course = CostStrategy::Compressor(0.3);
        let policy = course.policy(&config(name_of_model), &model).unwrap();
        let session = RecordedSession::new(&transcript, &model, &mut BlockCache::default());
        let requests = session.requests();
        let replay = Replay {
            session: &session,
            requests: &requests,
            pauses: &[],
            rules: CacheRules::for_model(&model),
            price: &prices::find(name_of_model).unwrap().price,
            breakpoints: None,
        };
        let turns = replay.run(course, &policy, &mut BlockCache::default()).unwrap();
        // Two compactions in a row that save too little make a replay wait, which a plan alone does not.
        let in_vain = turns
            .iter()
            .position(|turn| turn.compaction.as_ref().is_some_and(|c| c.after.number() * 10 > c.before.number() * 9));
        let turns = &turns[..in_vain.unwrap_or(turns.len())];
        // A request is planned before the agent is found to lack something.
        let planned = |turn: &ReplayedRequest| turn.tokens - turn.refetched.iter().map(|step| step.tokens).sum();
        let replayed: Vec<Tokens> = turns.iter().map(planned).collect();
        assert_eq!(replayed, through_the_ledger(&session, &policy, turns), "{name}");
        compactions += turns.iter().filter(|turn| turn.compaction.is_some()).count();
        forgotten += turns.iter().map(|turn| turn.refetched.len()).sum::<usize>();
    }
    assert!(compactions > 5 && forgotten > 5, "{compactions} compactions and {forgotten} steps were compared");
}

/// An agent reads a file after the other, and at the end edits the first.
fn session_with_a_late_edit(files: usize) -> String {
    let step = |at: usize, tool: &str, arguments: Value, result: String| {
        let call = json!({"type": "tool_use", "id": format!("c{at}"), "name": tool, "input": arguments});
        let answer = json!({"type": "tool_result", "tool_use_id": format!("c{at}"), "content": result});
        [json!({"role": "assistant", "content": [call]}), json!({"role": "user", "content": [answer]})]
    };
    let line = |file: usize, line: usize| format!("    total_{file}_{line} = sum(rows[{line}:]) * factor_{file}");
    let mut messages = vec![json!({"role": "user", "content": "find out why the import is slow"})];
    for file in 0..files {
        let path = json!({"path": format!("src/part_{file}.py")});
        let lines: Vec<String> = (0..80).map(|at| line(file, at)).collect();
        messages.extend(step(file, "read_file", path, lines.join("\n")));
    }
    let edit = json!({"path": "src/part_0.py", "old": line(0, 41), "new": "    pass"});
    messages.extend(step(files, "edit_file", edit, "edited".to_owned()));
    json!({"model": "claude-sonnet-4-5", "max_tokens": 1000, "messages": messages}).to_string()
}

fn what_is_forgotten_is_fetched_again_and_paid_for() {
    let body = session_with_a_late_edit(60);
    let (transcript, _) = wire::parse(None, &body).unwrap();
    let model = models::find("claude-sonnet-4-5");
    let session = RecordedSession::new(&transcript, &model, &mut BlockCache::default());
    let requests = session.requests();
    let replay = Replay {
        session: &session,
        requests: &requests,
        pauses: &[],
        rules: CacheRules::for_model(&model),
        price: &prices::find("claude-sonnet-4-5").unwrap().price,
        breakpoints: None,
    };
    let run = |course: CostStrategy| {
        let policy = course.policy(&config("claude-sonnet-4-5"), &model).unwrap();
        replay.run(course, &policy, &mut BlockCache::default()).unwrap()
    };
    assert!(run(CostStrategy::BreakpointsOnly).iter().all(|turn| turn.refetched.is_empty()), "nothing was removed");
    let turns = run(CostStrategy::Compressor(0.3));
    let fetched: Vec<(usize, usize)> = turns
        .iter()
        .enumerate()
        .flat_map(|(at, turn)| turn.refetched.iter().map(move |step| (at, step.turn)))
        .collect();
    assert_eq!(fetched, [(60, 1)], "the edit uses a line of the first file, which is read again");
    let (edit, after) = (&turns[60], &turns[61]);
    let step = &edit.refetched[0];
    let before = edit.tokens - step.tokens;
    assert_eq!(step.cache_usage.usage(step.output).input, Some(before), "a request more, as it is");
    assert!(step.tokens > Tokens(1_000) && step.output > Tokens::ZERO && step.output < Tokens(100));
    assert!(after.tokens > edit.tokens, "what was fetched is carried from then on");
    let bills = turns.iter().map(|turn| turn.bill.total().0).sum::<f64>();
    let total = cost::sum_requests(&turns).1.0;
    assert!((total - bills - step.bill.total().0).abs() < 1e-9 && step.bill.total().0 > 0.0);
}
