//! An agent's session as the input of `longhaul cost`: the amount that was paid, the times of its requests,
//! and the text that its file lacks.

use std::time::Duration;

use longhaul_agents::{AgentSession, Extent, RequestUsage, Role, Timestamp};
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::config::Config;
use longhaul_engine::cost;
use longhaul_engine::models::Model;
use longhaul_engine::policy::CacheTtl;
use longhaul_engine::prices::Usage;
use longhaul_engine::{Tokens, wire};
use serde::Serialize;

use crate::agent_session;
use crate::cli::CostArgs;
use crate::failure::Failure;
use crate::recorded_cost::{self, RecordedCost};
use crate::request_body::RequestBody;

/// The facts about an agent's session on which the replay is based.
#[derive(Debug, Clone, Serialize)]
pub(super) struct AgentSessionInfo {
    pub(super) agent: &'static str,
    pub(super) session: String,
    pub(super) project: Option<String>,
    /// The amount that was paid for the whole session, if usage or costs were recorded.
    pub(super) paid: Option<RecordedCost>,
    /// The number of compactions that the agent made.
    pub(super) compactions: usize,
    /// The tokens of each request that the file lacks. The replay adds them as a constant.
    pub(super) unseen: Tokens,
}

/// Reads the request to replay. Of an agent's session it reads the whole history, because all of it was paid
/// for.
pub(super) fn read_request(args: &CostArgs) -> Result<RequestBody, Failure> {
    match agent_session::load(&args.body, &args.input, Extent::FullHistory)? {
        Some(mut loaded) => {
            // A session may use several models; the one with the most replies represents its cost best.
            if let (None, Some(most_used)) =
                (&args.input.model, recorded_cost::requests_by_model(&loaded.session).into_iter().next())
            {
                loaded.session.model = Some(most_used.model);
            }
            Ok(RequestBody::from_agent_session(loaded))
        }
        None => RequestBody::read(&args.body, &args.input),
    }
}

/// Returns the one-hour cache lifetime if more than half of the agent's cache writes used it.
pub(super) fn recorded_ttl(body: &RequestBody) -> Option<CacheTtl> {
    let session = &body.agent_session.as_ref()?.session;
    let used = session.requests.iter().fold(Usage::default(), |sum, request| sum + request.usage);
    (used.written_1h? > used.written?.share(0.5)).then_some(CacheTtl::OneHour)
}

impl AgentSessionInfo {
    pub(super) fn new(session: &AgentSession, config: &Config) -> Self {
        Self {
            agent: session.agent.name(),
            session: session.id.clone(),
            project: session.project.clone(),
            paid: recorded_cost::sum_recorded_cost(session, config),
            compactions: session.compactions,
            unseen: Tokens::ZERO,
        }
    }
}

/// Adds filler text in place of the system prompt and the tools that the file lacks, and returns its size in
/// tokens. Every request was billed for them, so without them the replayed costs could not be compared with
/// the amount that was paid.
pub(super) fn add_unseen_text(body: &mut RequestBody, model: &Model) -> Tokens {
    let unseen = body
        .agent_session
        .as_ref()
        .and_then(|loaded| find_unseen_tokens(&loaded.session, &body.text, model))
        .unwrap_or_default();
    let Some(loaded) = body.agent_session.as_mut().filter(|_| unseen > Tokens::ZERO) else {
        return Tokens::ZERO;
    };
    let mut session = loaded.session.clone();
    let filler = filler_text(unseen, model);
    session.system_prompt = Some(match session.system_prompt.take() {
        Some(system) => format!("{system}\n{filler}"),
        None => filler,
    });
    body.text = longhaul_agents::request_body(&session);
    unseen
}

/// A request with its reported size and our own count of the part that the file has.
struct SizeComparison {
    reported: Tokens,
    counted: Tokens,
}

/// Estimates the tokens of each request that the file lacks. It uses the first span between two compactions
/// of the agent in which our count grew like the provider's. If there is none, the file does not show what
/// was sent, and there is no estimate.
fn find_unseen_tokens(session: &AgentSession, text: &str, model: &Model) -> Option<Tokens> {
    if session.system_prompt.is_some() && session.tools.is_some() {
        return None;
    }
    let seen = compare_sizes(session, text, model)?;
    let is_compacted = |before: &SizeComparison, after: &SizeComparison| after.reported < before.reported.share(0.6);
    let span = seen.chunk_by(|before, after| !is_compacted(before, after)).find(|span| grew_alike(span))?;
    let first = span.first()?;
    Some(first.reported - first.counted)
}

fn compare_sizes(session: &AgentSession, text: &str, model: &Model) -> Option<Vec<SizeComparison>> {
    let (transcript, _) = wire::parse(Some(session.api_format), text).ok()?;
    let replayed = cost::RecordedSession::new(&transcript, model, &mut BlockCache::default());
    let (runs, requests) = (reply_ranges(session), replayed.requests());
    let seen = |request: &RequestUsage| {
        let (turn, input) = (request.reply_index?, request.usage.input?);
        let sent = requests.get(runs.iter().position(|(first, last)| (*first..=*last).contains(&turn))?)?;
        Some(SizeComparison { reported: input, counted: *replayed.prefix_tokens.get(sent.pieces.checked_sub(1)?)? })
    };
    Some(session.requests.iter().filter_map(seen).collect())
}

fn grew_alike(span: &[SizeComparison]) -> bool {
    // Chosen by hand: the counts of different tokenizers differ by up to this share, and small counts by up
    // to this many tokens.
    const MAX_RELATIVE_DIFFERENCE: f64 = 0.4;
    const MAX_TOKEN_DIFFERENCE: f64 = 2000.0;
    let [first, .., last] = span else { return span.iter().all(|only| only.reported >= only.counted) };
    let grew = |of: fn(&SizeComparison) -> Tokens| of(last).number() as f64 - of(first).number() as f64;
    let (theirs, ours) = (grew(|seen| seen.reported), grew(|seen| seen.counted));
    first.reported >= first.counted
        && (theirs - ours).abs() <= MAX_TOKEN_DIFFERENCE.max(MAX_RELATIVE_DIFFERENCE * theirs.abs())
}

/// Returns meaningless text of about this many tokens.
fn filler_text(tokens: Tokens, model: &Model) -> String {
    const SAMPLE_WORDS: usize = 1000;
    let of_sample = model.counter().count(&"word ".repeat(SAMPLE_WORDS)).number().max(1);
    "word ".repeat((tokens.number() as usize).saturating_mul(SAMPLE_WORDS) / of_sample as usize)
}

/// Returns the first and last turn of each reply.
fn reply_ranges(session: &AgentSession) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in session.messages.iter().enumerate().filter(|(_, turn)| turn.role == Role::Assistant) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == at => *last = at,
            _ => runs.push((at, at)),
        }
    }
    // A reply with nothing before it answers no request that we know.
    runs.retain(|(first, _)| *first > 0);
    runs
}

/// Counts the answered requests. The end of the session may never have been sent.
pub(super) fn count_answered_requests(session: &AgentSession) -> usize {
    reply_ranges(session).len()
}

/// Returns the recorded pause before each request, or nothing if the file lacks the times of most requests.
pub(super) fn recorded_pauses(session: &AgentSession, requests: usize) -> Option<Vec<Duration>> {
    let at = |turn: usize| session.messages.get(turn).and_then(|turn| turn.time);
    // A request is sent when the message that it ends with is written down.
    let sent: Vec<Option<Timestamp>> =
        reply_ranges(session).iter().map(|(first, _)| at(first - 1).or_else(|| at(*first))).collect();
    if sent.len() < requests || sent.iter().flatten().count() * 2 < sent.len() {
        return None;
    }
    let mut previous: Option<Timestamp> = None;
    let pause = |sent: Option<Timestamp>| {
        let pause = sent.zip(previous).map_or(0.0, |(sent, previous)| sent.seconds_since(previous));
        previous = sent.or(previous);
        Duration::from_secs_f64(pause)
    };
    Some(sent.into_iter().map(pause).take(requests).collect())
}
