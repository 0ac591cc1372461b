//! Whether a session grows in our count as it grew in the provider's.
//!
//! A file holds neither the system prompt nor the tools, mostly, so what a request has beside its turns is a constant. What can be
//! held against recorded usage is the growth from the first recorded request to the last.

use longhaul_engine::known::Known;
use longhaul_engine::meter::Meter;
use longhaul_engine::{models, wire};
use longhaul_server::agents::{Asked, Extent, Reported, Session, body};

use crate::valid::{SESSIONS, session};

tests! {
    always: [],
    real: [growth_agrees_with_recorded_usage],
}

/// Sessions that were compacted after their last request: what was reported is about all of them.
const COMPACTED_LAST: &[&str] = &["cline_fork"];

/// Sessions whose growth cannot agree, and why.
const DIFFERS: &[(&str, &str)] = &[
    ("aider", "requests hold files and a map of the repository, which come and go and are not in the file"),
    (
        "pi_raq-models",
        "what the model thought comes back sealed in signatures, which are redacted in this file",
    ),
];

/// How far apart the two may be.
const TOLERATED: f64 = 0.10;

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
        let extent = if COMPACTED_LAST.contains(name) { Extent::Whole } else { Extent::Next };
        let session = session(name, &Asked { extent, ..Asked::default() });
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
        let is_explained = DIFFERS.iter().any(|(start, _)| name.starts_with(start));
        if error.abs() > TOLERATED && !is_explained {
            wrong.push(format!("{name}: {:+.1} %", error * 100.0));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// From the first to the last request of one model whose reply is among the turns.
fn growth(session: &Session) -> Option<Growth> {
    let recorded: Vec<&Reported> =
        session.requests.iter().filter(|r| r.reply.is_some() && r.usage.input.is_some()).collect();
    // Several models count in several ways: the one that answered most is held against.
    let often = |model: &Option<String>| recorded.iter().filter(|r| r.model == *model).count();
    let model = &recorded.iter().max_by_key(|r| often(&r.model))?.model;
    let input = |r: &Reported| r.usage.input.unwrap().number() as f64;
    // What was kept over a compaction was answered when the session was much larger.
    let own: Vec<&Reported> = recorded.iter().copied().filter(|r| r.model == *model).collect();
    let start = own.windows(2).rposition(|pair| input(pair[1]) < 0.6 * input(pair[0])).map_or(0, |at| at + 1);
    let (first, last) = (own.get(start)?, own.last()?);
    let count = |r: &Reported| counted(session, r.reply.unwrap(), model.as_deref());
    let (begin, end) = (count(first), count(last));
    let between = recorded.iter().filter(|r| r.reply >= first.reply && r.reply < last.reply);
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
fn more_than_said(session: &Session, request: &Reported, model: Option<&str>) -> f64 {
    let reply = request.reply.unwrap();
    let said = counted(session, reply + 1, model) - counted(session, reply, model);
    request.usage.output.map_or(0.0, |output| output.number() as f64 - said)
}

/// What the turns before one come to.
fn counted(session: &Session, before: usize, model: Option<&str>) -> f64 {
    let mut begin = session.clone();
    begin.turns.truncate(before);
    begin.system = None;
    let body = body(&begin);
    let (transcript, _) = wire::parse(session.dialect, &body).unwrap();
    let meter = Meter::of(&models::find(model.unwrap_or_default()));
    meter.parts(&mut Known::with_room(100_000), &transcript).total().number() as f64
}
