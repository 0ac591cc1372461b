//! A session as the requests that it was sent in.
//!
//! A body holds the whole session, because every request is the one before with more at its end. So the requests of a session
//! are the beginnings of its last body that end where a reply begins.

use std::ops::Range;

use super::needs::Needs;
use crate::cache::{Landmarks, Weights};
use crate::json::Span;
use crate::known::Known;
use crate::models::Model;
use crate::transcript::{Speaker, UnitKind};
use crate::wire::{Part, Piece, Reading, Role, reading};
use crate::{Tokens, Transcript};

/// A session that is to be replayed.
#[derive(Debug, Clone)]
pub struct Session<'s, 'b> {
    /// Its last body,
    pub transcript: &'s Transcript<'b>,
    /// as a provider reads it.
    pub reading: Reading,
    /// The tokens up to and with each piece.
    pub sizes: Vec<Tokens>,
    pub(super) landmarks: Landmarks,
    /// What its replies use of what stood before them.
    pub(super) needs: Needs,
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

impl<'s, 'b> Session<'s, 'b> {
    /// The session that ended with this body, counted for a model.
    #[must_use]
    pub fn of(transcript: &'s Transcript<'b>, model: &Model, known: &mut Known) -> Self {
        let reading = reading(transcript);
        let sizes = Weights::new(transcript, &reading, model).prefixes(known);
        let landmarks = Landmarks::of(transcript, &reading);
        let needs = Needs::of(transcript, &messages_before_replies(&reading));
        Self { transcript, reading, sizes, landmarks, needs }
    }

    /// Its requests, in their order.
    #[must_use]
    pub fn requests(&self) -> Vec<Sent> {
        let pieces = &self.reading.pieces;
        let spoken = self.spoken();
        let asked = |sent: usize| {
            let last = pieces[sent - 1].at;
            spoken
                .get(spoken.partition_point(|words| words.start < last.start))
                .is_some_and(|words| last.contains(*words))
        };
        let mut requests: Vec<Sent> = replies(&self.reading)
            .map(|pieces_sent| {
                let ends = (pieces_sent..pieces.len()).find(|&at| !is_reply(&pieces[at]));
                let ends = ends.unwrap_or(pieces.len());
                let output = self.size(ends) - self.size(pieces_sent);
                Sent { pieces: pieces_sent, output, asked: asked(pieces_sent) }
            })
            .collect();
        if pieces.last().is_some_and(|last| last.role != Some(Role::Assistant)) {
            requests.push(Sent { pieces: pieces.len(), output: Tokens::ZERO, asked: asked(pieces.len()) });
        }
        requests
    }

    /// The tokens of its first pieces.
    pub(super) fn size(&self, pieces: usize) -> Tokens {
        pieces.checked_sub(1).map_or(Tokens::ZERO, |last| self.sizes[last])
    }

    /// How many messages its first pieces stand in.
    pub(super) fn messages(&self, pieces: usize) -> usize {
        let last = self.reading.pieces[..pieces].last().and_then(|piece| piece.message);
        last.map_or(0, |last| last as usize + 1)
    }

    /// The pieces of a message.
    pub(super) fn pieces_of(&self, message: usize) -> Range<usize> {
        let pieces = &self.reading.pieces;
        let first = |message: usize| {
            pieces.partition_point(|piece| {
                piece.part < Part::Messages || piece.message.is_some_and(|at| (at as usize) < message)
            })
        };
        first(message)..first(message + 1)
    }

    /// The messages that a unit stands in, in order.
    pub(super) fn messages_of(&self, unit: usize) -> Vec<usize> {
        let blocks = self.transcript.units[unit].blocks();
        let mut messages: Vec<usize> =
            blocks.filter_map(|block| self.transcript.message_at(block.at)).collect();
        messages.sort_unstable();
        messages.dedup();
        messages
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
}

fn is_reply(piece: &Piece) -> bool {
    piece.part == Part::Messages && piece.role == Some(Role::Assistant)
}

/// The pieces with which replies begin.
fn replies(reading: &Reading) -> impl Iterator<Item = usize> {
    let pieces = &reading.pieces;
    (1..pieces.len()).filter(|&at| is_reply(&pieces[at]) && !is_reply(&pieces[at - 1]))
}

/// How many messages stand before each reply.
fn messages_before_replies(reading: &Reading) -> Vec<usize> {
    replies(reading).map(|at| reading.pieces[at].message.unwrap_or_default() as usize).collect()
}
