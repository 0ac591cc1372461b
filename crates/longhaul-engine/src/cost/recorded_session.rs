//! A recorded session as the sequence of requests that were sent.
//!
//! A request body contains the whole session, because every request is the previous one with more at its end.
//! So the requests of a session are the prefixes of its last body that end where a reply begins.

use std::ops::Range;

use super::reuse_index::ReuseIndex;
use crate::block_cache::BlockCache;
use crate::cache::{PieceTokens, StablePieces};
use crate::json::Span;
use crate::models::Model;
use crate::transcript::{Speaker, TurnKind};
use crate::wire::{PromptOrder, PromptPart, PromptPiece, Role, prompt_order};
use crate::{Tokens, Transcript};

/// A session to replay.
#[derive(Debug, Clone)]
pub struct RecordedSession<'s, 'b> {
    /// The last request body of the session.
    pub transcript: &'s Transcript<'b>,
    /// The same body in the order in which the provider reads it.
    pub prompt_order: PromptOrder,
    /// The tokens of the prompt up to and including each piece.
    pub prefix_tokens: Vec<Tokens>,
    pub(super) stable_pieces: StablePieces,
    /// The earlier content that its replies use.
    pub(super) reuse_index: ReuseIndex,
}

/// One request of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The number of the session's pieces that it contained.
    pub pieces: usize,
    /// The tokens of its reply.
    pub output: Tokens,
    /// Whether a person's message preceded it, and not a tool result.
    pub after_user_message: bool,
}

impl<'s, 'b> RecordedSession<'s, 'b> {
    /// Creates the session that ended with this body, with tokens counted for a model.
    #[must_use]
    pub fn new(transcript: &'s Transcript<'b>, model: &Model, cache: &mut BlockCache) -> Self {
        let prompt_order = prompt_order(transcript);
        let prefix_tokens = PieceTokens::new(transcript, &prompt_order, model).prefix_sums(cache);
        let stable_pieces = StablePieces::find(transcript, &prompt_order);
        let reuse_index = ReuseIndex::new(transcript, &messages_before_replies(&prompt_order));
        Self { transcript, prompt_order, prefix_tokens, stable_pieces, reuse_index }
    }

    /// Returns the requests in order.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        let pieces = &self.prompt_order.pieces;
        let spoken = self.user_text_spans();
        let asked = |sent: usize| {
            let last = pieces[sent - 1].at;
            spoken
                .get(spoken.partition_point(|words| words.start < last.start))
                .is_some_and(|words| last.contains(*words))
        };
        let mut requests: Vec<RecordedRequest> = reply_starts(&self.prompt_order)
            .map(|pieces_sent| {
                let ends = (pieces_sent..pieces.len()).find(|&at| !is_reply(&pieces[at]));
                let ends = ends.unwrap_or(pieces.len());
                let output = self.tokens_of_first(ends) - self.tokens_of_first(pieces_sent);
                RecordedRequest { pieces: pieces_sent, output, after_user_message: asked(pieces_sent) }
            })
            .collect();
        if pieces.last().is_some_and(|last| last.role != Some(Role::Assistant)) {
            requests.push(RecordedRequest {
                pieces: pieces.len(),
                output: Tokens::ZERO,
                after_user_message: asked(pieces.len()),
            });
        }
        requests
    }

    /// Returns the tokens of the first `pieces` pieces.
    pub(super) fn tokens_of_first(&self, pieces: usize) -> Tokens {
        pieces.checked_sub(1).map_or(Tokens::ZERO, |last| self.prefix_tokens[last])
    }

    /// Returns the number of messages in the first `pieces` pieces.
    pub(super) fn messages_in_first(&self, pieces: usize) -> usize {
        let last = self.prompt_order.pieces[..pieces].last().and_then(|piece| piece.message);
        last.map_or(0, |last| last as usize + 1)
    }

    /// Returns the pieces of a message.
    pub(super) fn pieces_of_message(&self, message: usize) -> Range<usize> {
        let pieces = &self.prompt_order.pieces;
        let first = |message: usize| {
            pieces.partition_point(|piece| {
                piece.part < PromptPart::Messages || piece.message.is_some_and(|at| (at as usize) < message)
            })
        };
        first(message)..first(message + 1)
    }

    /// Returns the messages of a turn, in order.
    pub(super) fn messages_of_turn(&self, turn: usize) -> Vec<usize> {
        let blocks = self.transcript.turns[turn].blocks();
        let mut messages: Vec<usize> = blocks.filter_map(|block| self.transcript.message_at(block.at)).collect();
        messages.sort_unstable();
        messages.dedup();
        messages
    }

    /// Returns where people's messages are in the body, in order.
    fn user_text_spans(&self) -> Vec<Span> {
        let prompts = self.transcript.turns.iter().filter_map(|turn| match &turn.kind {
            TurnKind::Prompt { speaker: Speaker::User, blocks } => Some(blocks),
            _ => None,
        });
        let mut spans: Vec<Span> = prompts.flatten().map(|block| block.at).collect();
        spans.sort_unstable();
        spans
    }
}

fn is_reply(piece: &PromptPiece) -> bool {
    piece.part == PromptPart::Messages && piece.role == Some(Role::Assistant)
}

/// Returns the first piece of each reply.
fn reply_starts(prompt_order: &PromptOrder) -> impl Iterator<Item = usize> {
    let pieces = &prompt_order.pieces;
    (1..pieces.len()).filter(|&at| is_reply(&pieces[at]) && !is_reply(&pieces[at - 1]))
}

/// Returns the number of messages before each reply.
fn messages_before_replies(prompt_order: &PromptOrder) -> Vec<usize> {
    reply_starts(prompt_order).map(|at| prompt_order.pieces[at].message.unwrap_or_default() as usize).collect()
}
