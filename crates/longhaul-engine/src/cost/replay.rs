//! A session, request by request: what each would have read, written and paid.
//!
//! A body holds the whole session, because every request is the one before with more at its end. So the requests of a session
//! are the beginnings of its last body that end where a reply begins.

use std::time::Duration;

use super::prices::{Dollars, Price};
use super::usage::Usage;
use crate::cache::{Cache, Chain, Mark, Request, Rules, Traffic};
use crate::json::Span;
use crate::transcript::{Speaker, UnitKind};
use crate::wire::{Part, Reading, Role};
use crate::{Tokens, Transcript};

/// A session that is to be replayed.
#[derive(Debug, Clone, Copy)]
pub struct Session<'s> {
    /// Its last body,
    pub transcript: &'s Transcript<'s>,
    /// as a provider reads it.
    pub reading: &'s Reading,
    /// The chain of that.
    pub chain: &'s Chain,
    /// The tokens up to and with each piece.
    pub sizes: &'s [Tokens],
}

/// One request of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// How many pieces of the session it held.
    pub pieces: usize,
    /// How many tokens its reply had.
    pub output: Tokens,
    /// Whether a person spoke before it, and not a tool.
    pub asked: bool,
}

impl Session<'_> {
    /// Its requests, in their order.
    #[must_use]
    pub fn requests(&self) -> Vec<Sent> {
        let pieces = &self.reading.pieces;
        let is_reply =
            |at: usize| pieces[at].part == Part::Messages && pieces[at].role == Some(Role::Assistant);
        let size = |pieces: usize| pieces.checked_sub(1).map_or(Tokens::ZERO, |last| self.sizes[last]);
        let spoken = self.spoken();
        let asked = |sent: usize| {
            let last = pieces[sent - 1].at;
            spoken
                .get(spoken.partition_point(|words| words.start < last.start))
                .is_some_and(|words| last.contains(*words))
        };
        let begins = (1..pieces.len()).filter(|&at| is_reply(at) && !is_reply(at - 1));
        let mut requests: Vec<Sent> = begins
            .map(|pieces_sent| {
                let ends = (pieces_sent..pieces.len()).find(|&at| !is_reply(at)).unwrap_or(pieces.len());
                let output = size(ends) - size(pieces_sent);
                Sent { pieces: pieces_sent, output, asked: asked(pieces_sent) }
            })
            .collect();
        if pieces.last().is_some_and(|last| last.role != Some(Role::Assistant)) {
            requests.push(Sent { pieces: pieces.len(), output: Tokens::ZERO, asked: asked(pieces.len()) });
        }
        requests
    }

    /// Where the words of people stand, in the order of the body.
    fn spoken(&self) -> Vec<Span> {
        let prompts = self.transcript.units.iter().filter_map(|unit| match &unit.kind {
            UnitKind::Prompt { by: Speaker::User, blocks } => Some(blocks),
            _ => None,
        });
        let mut spans: Vec<Span> = prompts.flatten().map(|block| block.at).collect();
        spans.sort_unstable();
        spans
    }

    /// Sends the requests through a cache, with the marks that `marks` sets for each and the pauses before each. The marks get
    /// the session as far as the request held it.
    pub fn replay(
        &self,
        rules: Rules,
        requests: &[Sent],
        pauses: &[Duration],
        mut marks: impl FnMut(&Reading) -> Vec<Mark>,
    ) -> Vec<Traffic> {
        let mut cache = Cache::new(rules);
        let (mut now, mut so_far) = (Duration::ZERO, Reading { pieces: Vec::new(), ..self.reading.clone() });
        let sent = requests.iter().zip(pauses.iter().chain(std::iter::repeat(&Duration::ZERO)));
        sent.map(|(&Sent { pieces, .. }, pause)| {
            now += *pause;
            so_far.pieces.extend_from_slice(&self.reading.pieces[so_far.pieces.len()..pieces]);
            so_far.marks.clear();
            let request = Request {
                links: &self.chain.links[..pieces],
                settings: self.chain.settings,
                sizes: &self.sizes[..pieces],
                marks: &marks(&so_far),
            };
            cache.send(now, &request)
        })
        .collect()
    }
}

/// What a replayed session used and cost.
#[must_use]
pub fn total(requests: &[Sent], traffic: &[Traffic], price: &Price) -> (Usage, Dollars) {
    let used = traffic.iter().zip(requests).map(|(traffic, sent)| traffic.usage(sent.output));
    used.fold((Usage::default(), Dollars::ZERO), |(sum, dollars), usage| {
        (sum + usage, dollars + usage.bill(price).total())
    })
}

/// How long people and tools let a model wait, drawn so that equal seeds give equal sessions.
///
/// A tool answers within seconds. People's pauses are spread log-normally around a minute and a half, so that 27 in 100 are
/// longer than five minutes and 3 in 100 longer than an hour.
#[must_use]
pub fn pauses(requests: &[Sent], seed: u64) -> Vec<Duration> {
    const MEDIAN_SECONDS: f64 = 90.0;
    const SPREAD: f64 = 1.965;
    const LONGEST_SECONDS: f64 = 8.0 * 3_600.0;
    let mut state = seed;
    let pause = |sent: &Sent| {
        let normal = normal(&mut state);
        let seconds =
            if sent.asked { MEDIAN_SECONDS * (SPREAD * normal).exp() } else { 8.0 * normal.exp().min(15.0) };
        Duration::from_secs_f64(seconds.min(LONGEST_SECONDS))
    };
    requests.iter().map(pause).collect()
}

/// A draw from the normal distribution: twelve even draws, whose sum has nearly its shape.
fn normal(state: &mut u64) -> f64 {
    let mut even = || {
        // The increments and mixing steps of SplitMix64.
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    };
    (0..12).map(|_| even()).sum::<f64>() - 6.0
}
