//! Whether a session grows in our count as it grew in the provider's.
//!
//! A file holds neither the system prompt nor the tools, mostly, so what a request has beside its turns is a constant. What can be
//! held against recorded usage is the growth from the first recorded request to the last.

use longhaul_engine::known::Known;
use longhaul_engine::meter::Meter;
use longhaul_engine::{models, wire};
use longhaul_server::agents::{Asked, Extent, Reported, Session, body};

use crate::{SESSIONS, say, session};

/// What a session grew by, as counted and as reported, and what every request has beside it.
struct Growth {
    requests: usize,
    counted: f64,
    reported: f64,
    constant: f64,
}

pub(crate) fn growth_agrees_with_recorded_usage() {
    for (name, _) in SESSIONS {
        let session = session(name, &Asked { extent: Extent::Next, ..Asked::default() });
        let Some(growth) = growth(&session) else {
            say!("{name}: nothing to compare");
            continue;
        };
        let error = growth.counted / growth.reported - 1.0;
        say!(
            "{name}: {} requests, grew by {:.0} as counted, {:.0} as reported ({:+.1} %), {:.0} beside it",
            growth.requests,
            growth.counted,
            growth.reported,
            error * 100.0,
            growth.constant,
        );
    }
}

/// From the first to the last request of one model whose reply is among the turns.
fn growth(session: &Session) -> Option<Growth> {
    let recorded: Vec<&Reported> =
        session.requests.iter().filter(|r| r.reply.is_some() && r.usage.input.is_some()).collect();
    // Several models count in several ways: the one that answered most is held against.
    let often = |model: &Option<String>| recorded.iter().filter(|r| r.model == *model).count();
    let model = &recorded.iter().max_by_key(|r| often(&r.model))?.model;
    let recorded: Vec<&&Reported> = recorded.iter().filter(|r| r.model == *model).collect();
    let input = |r: &Reported| r.usage.input.unwrap().number() as f64;
    // What was kept over a compaction was answered when the session was much larger.
    let start =
        recorded.windows(2).rposition(|pair| input(pair[1]) < 0.6 * input(pair[0])).map_or(0, |at| at + 1);
    let recorded = &recorded[start..];
    let (first, last) = (recorded.first()?, recorded.last()?);
    let count = |r: &Reported| counted(session, r.reply.unwrap(), model.as_deref());
    if std::env::var_os("EACH").is_some() {
        for r in recorded.iter() {
            println!("{} {} {:?}", input(r), count(r), r.reply);
        }
    }
    let (begin, end) = (count(first), count(last));
    (recorded.len() > 1).then(|| Growth {
        requests: recorded.len(),
        counted: end - begin,
        reported: input(last) - input(first),
        constant: input(first) - begin,
    })
}

/// What the turns before a reply come to.
fn counted(session: &Session, reply: usize, model: Option<&str>) -> f64 {
    let mut before = session.clone();
    before.turns.truncate(reply);
    before.system = None;
    let body = body(&before);
    let (transcript, _) = wire::parse(session.dialect, &body).unwrap();
    let meter = Meter::of(&models::find(model.unwrap_or_default()));
    meter.parts(&mut Known::with_room(100_000), &transcript).total().number() as f64
}
