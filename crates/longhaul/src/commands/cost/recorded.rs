//! A session as its agent kept it: what was really paid, when its requests were sent, and what its file does not hold.

use std::time::Duration;

use longhaul_engine::config::Config;
use longhaul_engine::cost;
use longhaul_engine::known::Known;
use longhaul_engine::models::Model;
use longhaul_engine::policy::CacheTtl;
use longhaul_engine::prices::Usage;
use longhaul_engine::{Tokens, wire};
use longhaul_server::agents::{self, Extent, Moment, Reported, Role, Session};
use serde::Serialize;

use crate::body::Body;
use crate::cli::CostArgs;
use crate::failure::Failure;
use crate::paid::{self, Paid};
use crate::session;

/// What the replay of a session rests on.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Recorded {
    pub(super) agent: &'static str,
    pub(super) session: String,
    pub(super) project: Option<String>,
    /// What was paid for all of it, where that was recorded.
    pub(super) paid: Option<Paid>,
    /// How often the agent compacted it.
    pub(super) compactions: usize,
    /// Tokens of every request that the file does not hold, put in as a constant.
    pub(super) unseen: Tokens,
}

/// The body to replay. Of a session it is the whole, because all of it was paid for.
pub(super) fn body(args: &CostArgs) -> Result<Body, Failure> {
    match session::read(&args.body, &args.told, Extent::Whole)? {
        Some(mut read) => {
            // A session may have changed its model; the one that answered most says most about what it cost.
            if let (None, Some(most)) = (&args.told.model, paid::models(&read.session).into_iter().next()) {
                read.session.model = Some(most.model);
            }
            Ok(Body::of_session(read))
        }
        None => Body::read(&args.body, &args.told),
    }
}

/// How long the agent asked the provider to keep what it cached, where most of it was for an hour.
pub(super) fn ttl(body: &Body) -> Option<CacheTtl> {
    let session = &body.session.as_ref()?.session;
    let used = session.requests.iter().fold(Usage::default(), |sum, request| sum + request.usage);
    (used.written_1h? > used.written?.share(0.5)).then_some(CacheTtl::OneHour)
}

impl Recorded {
    pub(super) fn of(session: &Session, config: &Config) -> Self {
        Self {
            agent: session.agent.name(),
            session: session.id.clone(),
            project: session.project.clone(),
            paid: paid::paid(session, config),
            compactions: session.compactions,
            unseen: Tokens::ZERO,
        }
    }
}

/// Puts a text in the place of the system prompt and the tools that the file does not hold, as large as the reports say that they
/// are: every request is billed for them, so that without them no sum could be held against what was paid.
pub(super) fn fill(body: &mut Body, model: &Model) -> Tokens {
    let unseen =
        body.session.as_ref().and_then(|read| unseen(&read.session, &body.text, model)).unwrap_or_default();
    let Some(read) = body.session.as_mut().filter(|_| unseen > Tokens::ZERO) else { return Tokens::ZERO };
    let mut session = read.session.clone();
    let words = words(unseen, model);
    session.system = Some(match session.system.take() {
        Some(system) => format!("{system}\n{words}"),
        None => words,
    });
    body.text = agents::body(&session);
    unseen
}

/// A request that was reported about, and what we see of it.
struct Seen {
    input: Tokens,
    ours: Tokens,
}

/// What every request held beyond what we see of it: of the first requests, between two compactions of the agent, that grew in our
/// count as they grew in the provider's. Where none did, what we see is not what was sent, and nothing can be said.
fn unseen(session: &Session, text: &str, model: &Model) -> Option<Tokens> {
    if session.system.is_some() && session.tools.is_some() {
        return None;
    }
    let seen = seen(session, text, model)?;
    let is_compacted = |before: &Seen, after: &Seen| after.input < before.input.share(0.6);
    let stretch =
        seen.chunk_by(|before, after| !is_compacted(before, after)).find(|stretch| grew_alike(stretch))?;
    let first = stretch.first()?;
    Some(first.input - first.ours)
}

fn seen(session: &Session, text: &str, model: &Model) -> Option<Vec<Seen>> {
    let (transcript, _) = wire::parse(Some(session.dialect), text).ok()?;
    let replayed = cost::Session::of(&transcript, model, &mut Known::default());
    let (runs, requests) = (runs(session), replayed.requests());
    let seen = |request: &Reported| {
        let (turn, input) = (request.reply?, request.usage.input?);
        let sent = requests.get(runs.iter().position(|(first, last)| (*first..=*last).contains(&turn))?)?;
        Some(Seen { input, ours: *replayed.sizes.get(sent.pieces.checked_sub(1)?)? })
    };
    Some(session.requests.iter().filter_map(seen).collect())
}

fn grew_alike(stretch: &[Seen]) -> bool {
    // Counts of different tokenizers differ by so much, and small ones by as many tokens.
    const ALIKE: f64 = 0.4;
    const SMALL: f64 = 2000.0;
    let [first, .., last] = stretch else { return stretch.iter().all(|only| only.input >= only.ours) };
    let grew = |of: fn(&Seen) -> Tokens| of(last).number() as f64 - of(first).number() as f64;
    let (theirs, ours) = (grew(|seen| seen.input), grew(|seen| seen.ours));
    first.input >= first.ours && (theirs - ours).abs() <= SMALL.max(ALIKE * theirs.abs())
}

/// So many tokens of words that mean nothing.
fn words(tokens: Tokens, model: &Model) -> String {
    const SAMPLE: usize = 1000;
    let of_sample = model.counter().count(&"word ".repeat(SAMPLE)).number().max(1);
    "word ".repeat((tokens.number() as usize).saturating_mul(SAMPLE) / of_sample as usize)
}

/// The turns of each reply, first and last.
fn runs(session: &Session) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in session.turns.iter().enumerate().filter(|(_, turn)| turn.role == Role::Assistant) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == at => *last = at,
            _ => runs.push((at, at)),
        }
    }
    // A reply that nothing stands before answers no request that we know.
    runs.retain(|(first, _)| *first > 0);
    runs
}

/// How many requests were answered: what the session ends with may never have been sent.
pub(super) fn answered(session: &Session) -> usize {
    runs(session).len()
}

/// The pauses before the requests, as they were; nothing where the file has no times, or not for these requests.
pub(super) fn pauses(session: &Session, requests: usize) -> Option<Vec<Duration>> {
    let at = |turn: usize| session.turns.get(turn).and_then(|turn| turn.at);
    // A request is sent when what it answers was written down.
    let sent: Vec<Option<Moment>> =
        runs(session).iter().map(|(first, _)| at(first - 1).or_else(|| at(*first))).collect();
    if sent.len() < requests || sent.iter().flatten().count() * 2 < sent.len() {
        return None;
    }
    let mut before: Option<Moment> = None;
    let pause = |sent: Option<Moment>| {
        let pause = sent.zip(before).map_or(0.0, |(sent, before)| sent.seconds_since(before));
        before = sent.or(before);
        Duration::from_secs_f64(pause)
    };
    Some(sent.into_iter().map(pause).take(requests).collect())
}
