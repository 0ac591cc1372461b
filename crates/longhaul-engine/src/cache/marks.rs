//! Where cache marks go, and the edits that set them.
//!
//! The client's own marks come first: they are counted, kept as far as a provider takes so many, and never made too many or illegal
//! by ours. Whatever the strategy, a mark stands only where the provider takes one, and only behind a prefix that is long enough to be cached.

use super::chain::{Chain, Link};
use super::route::Carrier;
use super::volatile::{Pace, volatile};
use crate::policy::CacheStrategy;
use crate::rewrite::Edit;
use crate::transcript::{Form, TextSpan, Transcript, UnitKind};
use crate::wire::{ClientMark, Lifetime, MARK, Part, Piece, Reading, Role, Seat};

/// A provider refuses more marks than this (rule A27).
pub const MOST_MARKS: usize = 4;

/// A provider looks for an earlier entry at so many pieces, the marked one first (rule A32).
pub const LOOK_BACK: usize = 20;

/// A mark on a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The piece; none for the client's mark beside the messages, which follows their end.
    pub piece: Option<usize>,
    /// How long the prefix up to it is to live.
    pub lifetime: Lifetime,
    /// Whose it is.
    pub by: By,
}

impl From<&ClientMark> for Mark {
    fn from(mark: &ClientMark) -> Self {
        Self { piece: mark.piece, lifetime: mark.lifetime, by: By::Client }
    }
}

/// Who set a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// It was in the body.
    Client,
    /// It is new.
    Longhaul,
}

/// How marks are to be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marking {
    /// Where.
    pub strategy: CacheStrategy,
    /// For how long.
    pub lifetime: Lifetime,
    /// What carries a mark in a Chat body.
    pub carrier: Carrier,
    /// The first piece with which the prefix is long enough; none if all of it is too short.
    pub first: Option<usize>,
}

/// Pieces of a body that do not move while it grows: whoever marks every request of a session finds them once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Landmarks {
    /// Where the part of the prompt that is the same in every request ends, before the messages at the latest.
    stable: usize,
    /// What an earlier compaction left.
    checkpoint: Option<usize>,
}

impl Landmarks {
    /// Where they are in this body.
    #[must_use]
    pub fn of(transcript: &Transcript<'_>, reading: &Reading) -> Self {
        let changes = volatile(transcript.body, reading).into_iter().find(|v| v.pace == Pace::Request);
        let system = reading.pieces.partition_point(|piece| piece.part <= Part::System);
        let newest = transcript.units.iter().rev().find_map(|unit| match &unit.kind {
            UnitKind::Checkpoint(block) => Some(block.at),
            _ => None,
        });
        let holds = |at| reading.pieces.iter().position(|piece| piece.at.contains(at));
        Self { stable: changes.map_or(system, |v| v.piece), checkpoint: newest.and_then(holds) }
    }
}

impl Landmarks {
    /// The last piece that they depend on: as long as all up to it is the same, they are.
    #[must_use]
    pub fn reach(&self) -> usize {
        self.checkpoint.map_or(self.stable, |at| at.max(self.stable))
    }
}

/// The client's marks that are more than a provider takes. What stands before the messages stays, because every request of the
/// session reads it, and the newest of the messages; the others go.
#[must_use]
pub fn surplus(reading: &Reading) -> Vec<ClientMark> {
    most_valuable(reading, reading.marks.clone()).1
}

/// The marks that stay and those that are too many, both in the order of reading.
pub(crate) fn most_valuable(reading: &Reading, marks: Vec<ClientMark>) -> (Vec<ClientMark>, Vec<ClientMark>) {
    let is_before = |mark: &ClientMark| mark.piece.is_some_and(|at| reading.pieces[at].part < Part::Messages);
    let (mut before, mut behind): (Vec<_>, Vec<_>) = marks.into_iter().partition(is_before);
    let for_the_newest = behind.len().min(1);
    let kept_before = before.split_off(before.len().saturating_sub(MOST_MARKS - for_the_newest));
    let kept_behind = behind.split_off(behind.len().saturating_sub(MOST_MARKS - kept_before.len()));
    ([kept_before, kept_behind].concat(), [before, behind].concat())
}

/// Every mark that the body is to have, the client's among them, in the order of reading.
#[must_use]
pub fn marks(landmarks: &Landmarks, reading: &Reading, marking: &Marking) -> Vec<Mark> {
    let (client, _) = most_valuable(reading, reading.marks.clone());
    let mut marks: Vec<Mark> = client.iter().map(Mark::from).collect();
    let Some(first) = marking.first else { return marks };
    let places = Places { landmarks, reading, marking };
    let wanted = match marking.strategy {
        CacheStrategy::SystemAndThree => places.system_and_three(),
        CacheStrategy::Prefix => places.prefix(),
    };
    let room = MOST_MARKS.saturating_sub(marks.len());
    let mut ours: Vec<usize> = Vec::new();
    for piece in wanted.into_iter().filter(|&piece| piece >= first && !places.is_marked(piece)) {
        if ours.len() < room && !ours.contains(&piece) {
            ours.push(piece);
        }
    }
    let client = marks.clone();
    marks.extend(ours.into_iter().map(|piece| {
        let lifetime = legal(&client, piece, marking.lifetime);
        Mark { piece: Some(piece), lifetime, by: By::Longhaul }
    }));
    marks.sort_by_key(|mark| mark.piece.unwrap_or(usize::MAX));
    marks
}

/// The edits that set the marks which are not the client's, and take away those of the client's that are too many.
#[must_use]
pub fn edits(body: &str, reading: &Reading, marks: &[Mark]) -> Vec<Edit> {
    let new = marks.iter().filter(|mark| mark.by == By::Longhaul);
    let set = new.filter_map(|mark| edit(body, reading.pieces[mark.piece?].seat, mark.lifetime));
    set.chain(surplus(reading).iter().map(unset)).collect()
}

/// The edit that takes a client's mark away.
#[must_use]
pub fn unset(mark: &ClientMark) -> Edit {
    Edit::Unset { object: mark.holder, key: MARK }
}

fn edit(body: &str, seat: Seat, lifetime: Lifetime) -> Option<Edit> {
    let mark = match lifetime {
        Lifetime::FiveMinutes => r#"{"type":"ephemeral"}"#,
        Lifetime::OneHour => r#"{"type":"ephemeral","ttl":"1h"}"#,
    };
    match seat {
        Seat::Block(object) | Seat::Message(object) => {
            Some(Edit::Set { object, key: MARK, json: mark.to_owned() })
        }
        // The string stays as it is written; only what stands around it is new.
        Seat::String(at) => Some(Edit::Text {
            text: TextSpan { at, form: Form::Json },
            with: format!(r#"[{{"type":"text","text":{},"{MARK}":{mark}}}]"#, &body[at.range()]),
        }),
        Seat::None => None,
    }
}

/// The edit that gives a request its `prompt_cache_key`, unless the client chose one or there is no place for it.
#[must_use]
pub fn cache_key(reading: &Reading, key: &str) -> Option<Edit> {
    let json = format!("\"{}\"", crate::json::escape(key));
    let object = reading.root.filter(|_| !reading.has_cache_key)?;
    Some(Edit::Set { object, key: "prompt_cache_key", json })
}

/// A key for all requests of one session: what it began with. None for a body that says nothing.
#[must_use]
pub fn session_key(chain: &Chain) -> Option<String> {
    let begins = |link: &&Link| link.part == Part::Messages;
    let first = chain.links.iter().find(begins).or(chain.links.last())?;
    Some(format!("longhaul-{}", first.prefix))
}

/// The lifetime that is wanted, or the one that the client's marks leave: an hour never comes after five minutes (rule A28).
fn legal(client: &[Mark], piece: usize, wanted: Lifetime) -> Lifetime {
    let at = |mark: &Mark| mark.piece.unwrap_or(usize::MAX);
    if client.iter().any(|mark| at(mark) > piece && mark.lifetime == Lifetime::OneHour) {
        return Lifetime::OneHour;
    }
    let after_short = client.iter().any(|mark| at(mark) < piece && mark.lifetime == Lifetime::FiveMinutes);
    if after_short { Lifetime::FiveMinutes } else { wanted }
}

/// The places of a body where marks can go.
struct Places<'t> {
    landmarks: &'t Landmarks,
    reading: &'t Reading,
    marking: &'t Marking,
}

impl Places<'_> {
    /// Where the most valuable marks go, best first.
    fn system_and_three(&self) -> Vec<usize> {
        let mut wanted: Vec<usize> =
            self.last_seat(0..self.end_of(Part::System), Part::System).into_iter().collect();
        wanted.extend(self.newest_messages().take(3));
        wanted
    }

    /// The newest turn, the stable part of the system prompt, a spare where the newest turn is too far from the one before,
    /// the newest checkpoint, the tools.
    fn prefix(&self) -> Vec<usize> {
        let stable = self.landmarks.stable;
        let newest = self.newest_messages().next();
        [
            newest,
            self.last_seat(0..stable, Part::System),
            newest.and_then(|newest| self.spare(newest)),
            self.landmarks.checkpoint.filter(|at| self.is_seat(&self.pieces()[*at])),
            self.last_seat(0..stable, Part::Tools),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn pieces(&self) -> &[Piece] {
        &self.reading.pieces
    }

    fn is_seat(&self, piece: &Piece) -> bool {
        match piece.seat {
            Seat::Block(_) | Seat::String(_) => true,
            Seat::Message(_) => self.marking.carrier == Carrier::Message,
            Seat::None => false,
        }
    }

    /// The first piece after a part.
    fn end_of(&self, part: Part) -> usize {
        self.pieces().partition_point(|piece| piece.part <= part)
    }

    fn last_seat(&self, among: std::ops::Range<usize>, part: Part) -> Option<usize> {
        among.rev().find(|&at| self.pieces()[at].part == part && self.is_seat(&self.pieces()[at]))
    }

    /// The last seat of each message that has one, newest message first.
    fn newest_messages(&self) -> impl Iterator<Item = usize> {
        let mut before = None;
        let seats = match self.marking.carrier {
            Carrier::Message => self.reading.seated(),
            Carrier::Content => self.reading.in_blocks(),
        };
        seats.iter().rev().copied().filter(move |&at| {
            let message = self.pieces()[at].message;
            before.replace(message) != Some(message)
        })
    }

    /// Whether a client's mark stands on the same message, or on the system prompt or the tools where the piece is in them.
    fn is_marked(&self, at: usize) -> bool {
        let place = |at: usize| {
            let piece = &self.pieces()[at];
            (piece.part, piece.message.filter(|_| piece.part == Part::Messages))
        };
        let last = || self.newest_messages().next();
        let marked = self.reading.marks.iter().filter_map(|mark| mark.piece.or_else(last));
        marked.into_iter().any(|marked| place(marked) == place(at))
    }

    /// Where the request before this one ended, if that is too far back to be found from the newest mark.
    fn spare(&self, newest: usize) -> Option<usize> {
        let is_reply = |at: &usize| self.pieces()[*at].role == Some(Role::Assistant);
        let start = self.end_of(Part::System);
        let reply = (start..=newest).rev().find(is_reply)?;
        let begins = (start..reply).rev().find(|at| !is_reply(at))?;
        let before = (start..=begins).rev().find(|&at| self.is_seat(&self.pieces()[at]))?;
        (newest - before >= LOOK_BACK).then_some(before)
    }
}
