//! What a session costs on every course, by the modelled cache, over all long sessions of the corpus.
//!
//!     LONGHAUL_SHARED=… cargo test -p longhaul-engine --test properties cost_sessions -- --nocapture

use crate::support::corpus;
use longhaul_engine::cache::{Carrier, Rules};
use longhaul_engine::cost::{self, Course, Marks, Replay, Session, Turn};
use longhaul_engine::known::Known;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Compressor, Engine, Plan, Trigger, Wish};
use longhaul_engine::policy::CacheStrategy::{self, Prefix, SystemAndThree};
use longhaul_engine::policy::{CacheTtl, Config, Policy};
use longhaul_engine::prices;
use longhaul_engine::{Dialect, Tokens, Transcript, models, wire};

tests! {
    always: [],
    real: [
        compacting_when_it_pays_costs_less_than_any_threshold,
        a_replay_sends_what_a_ledger_would_send,
    ],
}

const WINDOW: Tokens = Tokens(100_000);

/// From so many tokens on a session is long.
const LONG: Tokens = Tokens(30_000);

/// The model that a body goes to: Responses bodies have no place for marks, so their provider caches by itself.
fn model_for(dialect: Dialect) -> &'static str {
    if dialect == Dialect::Responses { "gpt-5" } else { "claude-sonnet-4-5" }
}

fn config(model: &str) -> Config {
    let mut config = Config::default();
    config.models.entry(model.to_owned()).or_default().context_length = Some(WINDOW);
    config
}

/// Every course that is compared, and thresholds below what is sensible, to show what the figures do not: what is forgotten has
/// no price.
fn courses() -> impl Iterator<Item = Course> {
    Course::ALL.into_iter().chain([0.25, 0.20, 0.15].map(Course::Compressor))
}

/// A session, replayed on every course.
struct Replayed {
    name: String,
    /// The largest request, as the client had it.
    size: Tokens,
    requests: usize,
    /// One for each course.
    runs: Vec<Vec<Turn>>,
}

impl Replayed {
    fn usd(&self, course: Course) -> f64 {
        let at = courses().position(|other| other == course).unwrap();
        cost::total(&self.runs[at]).1.0
    }

    fn compactions(&self, course: usize) -> usize {
        self.runs[course].iter().filter(|turn| turn.compacted.is_some()).count()
    }
}

fn replay(name: &str, body: &str, strategy: CacheStrategy, seed: u64) -> Option<Replayed> {
    let (transcript, _) = wire::parse(None, body).unwrap();
    let name_of_model = model_for(transcript.dialect);
    let model = models::find(name_of_model);
    let known = &mut Known::default();
    let session = Session::of(&transcript, &model, known);
    let requests = session.requests();
    let size = session.sizes[requests.last()?.pieces - 1];
    if size < LONG {
        return None;
    }
    let replay = Replay {
        session: &session,
        requests: &requests,
        pauses: &cost::pauses(&requests, seed),
        rules: Rules::of(&model),
        price: &prices::find(name_of_model).unwrap().price,
        marks: Some(Marks { strategy, ttl: CacheTtl::FiveMinutes, carrier: Carrier::Message }),
    };
    let runs = courses().map(|course| {
        let policy = course.policy(&config(name_of_model), &model).unwrap();
        replay.run(course, &policy, known).unwrap()
    });
    Some(Replayed { name: name.to_owned(), size, requests: requests.len(), runs: runs.collect() })
}

/// Every long session of the corpus with its dollars and compactions on each course, and the means.
fn show(sessions: &[Replayed]) {
    for session in sessions {
        let cells: Vec<String> = courses()
            .enumerate()
            .map(|(at, course)| format!("{:7.2}/{:<2}", session.usd(course), session.compactions(at)))
            .collect();
        let name: String = session.name.chars().take(48).collect();
        say!("{name:48} {:>8} {:4} {}", session.size.to_string(), session.requests, cells.join(" "));
    }
    for course in courses() {
        let shares = sessions.iter().map(|session| session.usd(course) / session.usd(Course::Marks));
        let share = 100.0 * shares.sum::<f64>() / sessions.len() as f64;
        say!("{course:16} mean ${:6.3}, {share:5.1} % of marks alone", mean(sessions, course));
    }
}

fn mean(sessions: &[Replayed], course: Course) -> f64 {
    sessions.iter().map(|session| session.usd(course)).sum::<f64>() / sessions.len() as f64
}

/// Which seeds the pauses are drawn from; more of them with `SEEDS=1,2,3`.
fn seeds() -> Vec<u64> {
    let typed = std::env::var("SEEDS").unwrap_or_else(|_| "1".to_owned());
    typed.split(',').map(|seed| seed.parse().unwrap()).collect()
}

fn compacting_when_it_pays_costs_less_than_any_threshold() {
    for (seed, strategy) in seeds().into_iter().flat_map(|seed| [(seed, SystemAndThree), (seed, Prefix)]) {
        let sessions: Vec<Replayed> =
            corpus().iter().filter_map(|(name, body)| replay(name, body, strategy, seed)).collect();
        say!("\n{strategy:?}, pauses drawn with seed {seed}");
        show(&sessions);
        let scheduled = mean(&sessions, Course::Scheduler);
        for course in Course::ALL.into_iter().filter(|course| matches!(course, Course::Compressor(_))) {
            assert!(scheduled < mean(&sessions, course), "{course}");
        }
        for session in &sessions {
            let [scheduled, marks] = [Course::Scheduler, Course::Marks].map(|course| session.usd(course));
            let (name, size) = (&session.name, session.size);
            if size > WINDOW {
                assert!(scheduled < marks, "{name}: {scheduled} against {marks}");
            }
            if size < WINDOW / 2 {
                assert!(scheduled <= 1.02 * marks, "{name}: {scheduled} against {marks}");
            }
        }
    }
}

/// What a gateway sends for a session: every request goes through the ledger of those before it.
fn through_the_ledger(
    transcript: &Transcript<'_>,
    session: &Session<'_, '_>,
    policy: &Policy,
) -> Vec<Tokens> {
    let (mut ledger, known) = (Ledger::default(), &mut Known::default());
    let wish = Wish { trigger: Trigger::Preflight, ..Wish::default() };
    let requests = session.requests();
    let sizes = requests.iter().map(|sent| {
        let last = session.reading.pieces[sent.pieces - 1].message.unwrap() as usize;
        let body = transcript.first_messages(last + 1);
        let (request, _) = wire::parse(transcript.dialect, &body).unwrap();
        match Compressor.plan(policy, &wish, &ledger, known, &request).unwrap() {
            Plan::Leave(report) => report.tokens.after,
            Plan::Ready(outcome) => {
                ledger = outcome.ledger;
                outcome.report.tokens.after
            }
        }
    });
    sizes.collect()
}

fn a_replay_sends_what_a_ledger_would_send() {
    let mut compactions = 0;
    for (name, body) in corpus().iter().filter(|(name, _)| name.contains("astropy") || name.contains("sympy"))
    {
        let (transcript, _) = wire::parse(None, body).unwrap();
        let name_of_model = model_for(transcript.dialect);
        let model = models::find(name_of_model);
        let course = Course::Compressor(0.3);
        let policy = course.policy(&config(name_of_model), &model).unwrap();
        let session = Session::of(&transcript, &model, &mut Known::default());
        let requests = session.requests();
        let replay = Replay {
            session: &session,
            requests: &requests,
            pauses: &[],
            rules: Rules::of(&model),
            price: &prices::find(name_of_model).unwrap().price,
            marks: None,
        };
        let turns = replay.run(course, &policy, &mut Known::default()).unwrap();
        // Two compactions in a row that save too little make a replay wait, which a plan alone does not.
        let in_vain = turns.iter().position(|turn| {
            turn.compacted.as_ref().is_some_and(|c| c.after.number() * 10 > c.before.number() * 9)
        });
        let end = in_vain.unwrap_or(turns.len());
        let replayed: Vec<Tokens> = turns[..end].iter().map(|turn| turn.tokens).collect();
        let sent = through_the_ledger(&transcript, &session, &policy);
        assert_eq!(replayed, sent[..end], "{name}");
        compactions += turns[..end].iter().filter(|turn| turn.compacted.is_some()).count();
    }
    assert!(compactions > 5, "{compactions} compactions were compared");
}
