//! What is sent: the session as it is, or what a compaction left of its beginning, with what came since.

use super::needs::Kept;
use super::session::Session;
use crate::cache::{Chain, Landmarks, Mark, Request, Weights};
use crate::known::Known;
use crate::models::Model;
use crate::wire::{self, Part, Reading, Role};
use crate::{Refused, Tokens};
use std::ops::Range;

/// The most that a model writes to take a step again: a sentence and a call that reads. What it wrote at length the first time is
/// in a file by then, or in the world, and nobody writes it once more to know what it says.
const CALL: Tokens = Tokens(120);

/// What is sent.
pub(super) struct View {
    /// What a compaction left, and what came since.
    left: Option<Left>,
    /// All that is sent.
    pub(super) reading: Reading,
    pub(super) chain: Chain,
    pub(super) sizes: Vec<Tokens>,
    pub(super) landmarks: Landmarks,
    /// How many pieces of the session are in it, or in what stands for them.
    pieces: usize,
}

/// What a compaction left.
struct Left {
    body: String,
    /// How many messages it has.
    messages: usize,
    /// How many messages of the session it stands for.
    stands_for: usize,
    /// What it has of all that the session will use, and what was fetched again since.
    kept: Kept,
    /// The messages of the session that were sent since, those that were fetched again among them.
    since: Vec<usize>,
}

impl View {
    /// Before the first request.
    pub(super) fn start(session: &Session<'_, '_>) -> Self {
        let reading = session.reading.without_pieces();
        let chain = Chain { links: Vec::new(), settings: reading.settings };
        Self { left: None, reading, chain, sizes: Vec::new(), landmarks: session.landmarks, pieces: 0 }
    }

    /// After a compaction left this body of all that this view held.
    pub(super) fn compacted(
        &self,
        body: String,
        session: &Session<'_, '_>,
        model: &Model,
        known: &mut Known,
    ) -> Result<Self, Refused> {
        let (transcript, _) = wire::parse(session.transcript.dialect, &body)?;
        let mut reading = wire::reading(&transcript);
        let sizes = Weights::new(&transcript, &reading, model).prefixes(known);
        let landmarks = Landmarks::of(&transcript, &reading);
        let chain = Chain::of(&reading);
        reading.marks.clear();
        let (messages, kept) = (transcript.message_count(), session.needs.kept_in(&transcript));
        let (pieces, stands_for) = (self.pieces, session.messages(self.pieces));
        let left = Some(Left { body, messages, stands_for, kept, since: Vec::new() });
        Ok(Self { left, reading, chain, sizes, landmarks, pieces })
    }

    /// With the session's next pieces.
    pub(super) fn grow(&mut self, session: &Session<'_, '_>, pieces: usize) {
        self.push(session, self.pieces..pieces);
        self.pieces = self.pieces.max(pieces);
    }

    /// The units that are fetched before a request can be answered as it was: what its reply uses and the view lacks.
    pub(super) fn missing(&mut self, session: &Session<'_, '_>, request: usize) -> Vec<usize> {
        let pieces = self.pieces;
        self.left.as_mut().map_or_else(Vec::new, |left| {
            session.needs.missing(request, &mut left.kept, left.stands_for, session.messages(pieces))
        })
    }

    /// With a unit of the session once more, at its end. Says how many tokens the model writes for that.
    pub(super) fn fetch(&mut self, session: &Session<'_, '_>, unit: usize) -> Tokens {
        let mut output = Tokens::ZERO;
        for pieces in session.messages_of(unit).into_iter().map(|message| session.pieces_of(message)) {
            let is_reply = pieces.clone().any(|at| session.reading.pieces[at].role == Some(Role::Assistant));
            if is_reply {
                output += session.size(pieces.end) - session.size(pieces.start);
            }
            self.push(session, pieces);
        }
        output.min(CALL)
    }

    /// Goes on with pieces of the session, which are whole messages.
    fn push(&mut self, session: &Session<'_, '_>, pieces: Range<usize>) {
        let mut before = None;
        for at in pieces {
            let mut piece = session.reading.pieces[at].clone();
            if let (Some(left), Some(message)) = (&mut self.left, piece.message) {
                if before != piece.message {
                    left.since.push(message as usize);
                }
                before = piece.message;
                piece.message = Some((left.messages + left.since.len() - 1) as u32);
            }
            self.chain.push(&piece);
            self.reading.push(piece);
            let added = session.sizes[at] - session.size(at);
            self.sizes.push(self.total() + added);
        }
    }

    pub(super) fn total(&self) -> Tokens {
        self.sizes.last().copied().unwrap_or_default()
    }

    /// The tools and the system prompt.
    pub(super) fn preamble(&self) -> Tokens {
        let pieces = self.reading.pieces.partition_point(|piece| piece.part < Part::Messages);
        pieces.checked_sub(1).map_or(Tokens::ZERO, |last| self.sizes[last])
    }

    pub(super) fn request<'v>(&'v self, marks: &'v [Mark]) -> Request<'v> {
        Request { links: &self.chain.links, settings: self.chain.settings, sizes: &self.sizes, marks }
    }

    /// The request's body: what a compaction left, with the session's messages that were sent since then.
    pub(super) fn body(&self, session: &Session<'_, '_>) -> Result<String, Refused> {
        let original = session.transcript;
        let Some(left) = &self.left else {
            return Ok(original.first_messages(session.messages(self.pieces)));
        };
        let (transcript, _) = wire::parse(original.dialect, &left.body)?;
        let since: Vec<&str> = left.since.iter().filter_map(|&message| original.message(message)).collect();
        Ok(transcript.with_messages(&since.join(",")))
    }
}
