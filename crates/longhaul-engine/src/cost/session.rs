//! A session as the requests that it was sent in.
//!
//! A body holds the whole session, because every request is the one before with more at its end. So the requests of a session
//! are the beginnings of its last body that end where a reply begins.

use crate::cache::{Landmarks, Weights};
use crate::json::Span;
use crate::known::Known;
use crate::models::Model;
use crate::transcript::{Speaker, UnitKind};
use crate::wire::{Part, Reading, Role, reading};
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
        Self { transcript, reading, sizes, landmarks }
    }

    /// Its requests, in their order.
    #[must_use]
    pub fn requests(&self) -> Vec<Sent> {
        let pieces = &self.reading.pieces;
        let is_reply =
            |at: usize| pieces[at].part == Part::Messages && pieces[at].role == Some(Role::Assistant);
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
    pub(super) fn messages(&self, pieces: usize) -> u32 {
        self.reading.pieces[..pieces]
            .iter()
            .filter_map(|piece| piece.message)
            .max()
            .map_or(0, |last| last + 1)
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
