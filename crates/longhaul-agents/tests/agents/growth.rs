//! Whether a session grows in our count as it grew in the provider's.
//!
//! A file holds neither the system prompt nor the tools, mostly, so what a request has beside its turns is a constant. What can be
//! held against recorded usage is the growth from the first recorded request to the last.

use longhaul_agents::{AgentSession, Extent, ReadOptions, RequestUsage, request_body};
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::Meter;
use longhaul_engine::{models, wire};

use crate::valid::{SESSIONS, session};

tests! {
    always: [],
    real: [growth_agrees_with_recorded_usage],
}

/// Sessions that were compacted after their last request: what was reported is about all of them.
const COMPACTED_LAST: &[&str] = &["cline_fork"];

/// Sessions whose growth cannot agree, how far apart they are at most, and why.
const DIFFERS: &[(&str, f64, &str)] = &[
    (
        "claude_coderabbit",
        0.15,
        "thoughts are shorter in the file than they were billed: with replies as reported it is within 6 %",
    ),
    (
        "claude_spotter",
        0.15,
        "no cause is known for sure: some 90 tokens a step are missing, as if by framing that the meter leaves out \
         (bench/tokens/README.md), or by reminders that this version did not write down",
    ),
    (
        "codex_agentv",
        0.15,
        "what the model thought is sealed, and redacted in this file: with replies as reported it is within 7 %",
    ),
    ("aider", 0.6, "requests hold files and a map of the repository, which come and go and are not in the file"),
    (
        "goose_native-a",
        0.25,
        "a script answered, which reported a fourth of the body's bytes; `goose.rs` holds the growth to that, within a token",
    ),
    (
        "opencode_bridge-compaction",
        0.16,
        "the reports of this provider swing: three times the prompt shrinks by thousands while the session only grows",
    ),
    (
        "opencode_bridge",
        0.13,
        "a call every few hundred tokens, whose framing of about 60 is not counted (bench/tokens/README.md)",
    ),
    (
        "openhands_v0-63b4",
        0.20,
        "one step of two hundred tokens, and the framing of its call is not counted (bench/tokens/README.md)",
    ),
    ("pi_raq-models", 0.30, "what the model thought comes back sealed in signatures, which are redacted in this file"),
];

/// How far apart the two may be: less where the tokenizer is public.
fn tolerated(session: &AgentSession) -> f64 {
    let is_public = Meter::for_model(&models::find(session.model.as_deref().unwrap_or_default())).counter.is_exact();
    if is_public { 0.05 } else { 0.10 }
}

/// What a session grew by, as counted and as reported, and what every request has beside its turns.
struct Growth {
    requests: usize,
    counted: f64,
    /// The same with every reply as large as it was reported, whatever of it is in the file.
    with_replies: f64,
    reported: f64,
    constant: f64,
}

fn growth_agrees_with_recorded_usage() {
    let mut wrong = Vec::new();
    for (name, _) in SESSIONS {
        let extent = if COMPACTED_LAST.contains(name) { Extent::FullHistory } else { Extent::NextRequest };
        let session = session(name, &ReadOptions { extent, ..ReadOptions::default() });
        let Some(growth) = growth(&session) else {
            say!("{name}: nothing to compare");
            continue;
        };
        let error = growth.counted / growth.reported - 1.0;
        let with_replies = growth.with_replies / growth.reported - 1.0;
        say!(
            "{name}: {} requests, grew by {:.0} as counted, {:.0} as reported: {:+.1} % ({:+.1} % with replies as reported); {:.0} beside the turns",
            growth.requests,
            growth.counted,
            growth.reported,
            error * 100.0,
            with_replies * 100.0,
            growth.constant,
        );
        let listed = DIFFERS.iter().find(|(start, ..)| name.starts_with(start));
        let agrees = error.abs() <= tolerated(&session);
        // One that agrees has no place in a list of those that do not.
        if listed.is_some() == agrees || listed.is_some_and(|(_, most, _)| error.abs() > *most) {
            wrong.push(format!("{name}: {:+.1} %", error * 100.0));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// From the first to the last request of one model whose reply is among the turns.
fn growth(session: &AgentSession) -> Option<Growth> {
    let recorded: Vec<&RequestUsage> =
        session.requests.iter().filter(|r| r.reply_index.is_some() && r.usage.input.is_some()).collect();
    // Several models count in several ways: the one that answered most is held against.
    let often = |model: &Option<String>| recorded.iter().filter(|r| r.model == *model).count();
    let model = &recorded.iter().max_by_key(|r| often(&r.model))?.model;
    let input = |r: &RequestUsage| r.usage.input.unwrap().number() as f64;
    // What was kept over a compaction was answered when the session was much larger.
    let own: Vec<&RequestUsage> = recorded.iter().copied().filter(|r| r.model == *model).collect();
    let start = own.windows(2).rposition(|pair| input(pair[1]) < 0.6 * input(pair[0])).map_or(0, |at| at + 1);
    let (first, last) = (own.get(start)?, own.last()?);
    let count = |r: &RequestUsage| counted(session, r.reply_index.unwrap(), model.as_deref());
    let (begin, end) = (count(first), count(last));
    let between = recorded.iter().filter(|r| r.reply_index >= first.reply_index && r.reply_index < last.reply_index);
    let more: f64 = between.map(|r| more_than_said(session, r, model.as_deref())).sum();
    (own.len() - start > 1).then(|| Growth {
        requests: own.len() - start,
        counted: end - begin,
        with_replies: end - begin + more,
        reported: input(last) - input(first),
        constant: input(first) - begin,
    })
}

/// How much larger a reply was than what the file has of it.
fn more_than_said(session: &AgentSession, request: &RequestUsage, model: Option<&str>) -> f64 {
    let reply = request.reply_index.unwrap();
    let said = counted(session, reply + 1, model) - counted(session, reply, model);
    request.usage.output.map_or(0.0, |output| output.number() as f64 - said)
}

/// What the turns before one come to.
fn counted(session: &AgentSession, before: usize, model: Option<&str>) -> f64 {
    let mut begin = session.clone();
    begin.messages.truncate(before);
    begin.system_prompt = None;
    let body = request_body(&begin);
    let (transcript, _) = wire::parse(session.api_format, &body).unwrap();
    let meter = Meter::for_model(&models::find(model.unwrap_or_default()));
    meter.breakdown(&mut BlockCache::with_capacity(100_000), &transcript).total().number() as f64
}
