//! The request as it is sent at one point of a replay: the session itself, or the result of a compaction with
//! the messages since.

use super::recorded_session::RecordedSession;
use super::reuse_index::KeptItems;
use crate::block_cache::BlockCache;
use crate::cache::{Breakpoint, CacheRequest, PieceTokens, PrefixChain, StablePieces};
use crate::models::Model;
use crate::wire::{self, PromptOrder, PromptPart, Role};
use crate::{RewriteError, Tokens};
use std::ops::Range;

/// The largest number of tokens that a model writes to repeat a turn: a sentence and a call that reads. A
/// longer text that it wrote the first time is in a file by then, so nobody writes it again just to read it.
/// Chosen by hand; `bench/cost/README.md` compares it with billing the full text.
const MAX_REFETCH_OUTPUT: Tokens = Tokens(120);

/// The request as it is sent.
pub(super) struct RequestView {
    /// The result of the last compaction with the messages since, if there was one.
    compacted: Option<CompactedHistory>,
    /// The whole prompt in the order in which the provider reads it.
    pub(super) prompt_order: PromptOrder,
    pub(super) chain: PrefixChain,
    pub(super) prefix_tokens: Vec<Tokens>,
    pub(super) stable_pieces: StablePieces,
    /// The number of the session's pieces that the request contains or replaces.
    pieces: usize,
}

/// The result of a compaction, with the messages that were sent since.
struct CompactedHistory {
    body: String,
    /// The number of messages in `body`.
    messages: usize,
    /// The number of the session's messages that `body` replaces.
    replaced_messages: usize,
    /// The reusable items that are in `body` or were fetched again since.
    kept_items: KeptItems,
    /// The session's messages that were sent since, including those that were fetched again.
    messages_since: Vec<usize>,
}

impl RequestView {
    /// Returns the view before the first request.
    pub(super) fn empty(session: &RecordedSession<'_, '_>) -> Self {
        let prompt_order = session.prompt_order.without_pieces();
        let chain = PrefixChain { links: Vec::new(), settings: prompt_order.cache_settings };
        Self {
            compacted: None,
            prompt_order,
            chain,
            prefix_tokens: Vec::new(),
            stable_pieces: session.stable_pieces,
            pieces: 0,
        }
    }

    /// Returns the view after a compaction of this view, whose result is `body`.
    pub(super) fn after_compaction(
        &self,
        body: String,
        session: &RecordedSession<'_, '_>,
        model: &Model,
        cache: &mut BlockCache,
    ) -> Result<Self, RewriteError> {
        let (transcript, _) = wire::parse(session.transcript.api_format, &body)?;
        let mut prompt_order = wire::prompt_order(&transcript);
        let prefix_tokens = PieceTokens::new(&transcript, &prompt_order, model).prefix_sums(cache);
        let stable_pieces = StablePieces::find(&transcript, &prompt_order);
        let chain = PrefixChain::new(&prompt_order);
        prompt_order.breakpoints.clear();
        let (messages, kept_items) = (transcript.message_count(), session.reuse_index.kept_in(&transcript));
        let (pieces, replaced_messages) = (self.pieces, session.messages_in_first(self.pieces));
        let compacted =
            Some(CompactedHistory { body, messages, replaced_messages, kept_items, messages_since: Vec::new() });
        Ok(Self { compacted, prompt_order, chain, prefix_tokens, stable_pieces, pieces })
    }

    /// Appends the session's next pieces, up to this number.
    pub(super) fn extend_to(&mut self, session: &RecordedSession<'_, '_>, pieces: usize) {
        self.push_pieces(session, self.pieces..pieces);
        self.pieces = self.pieces.max(pieces);
    }

    /// Returns the turns to fetch again before the model can reply as it did: the reply uses their content,
    /// and the view lacks it.
    pub(super) fn turns_to_refetch(&mut self, session: &RecordedSession<'_, '_>, request: usize) -> Vec<usize> {
        let pieces = self.pieces;
        self.compacted.as_mut().map_or_else(Vec::new, |history| {
            session.reuse_index.turns_to_refetch(
                request,
                &mut history.kept_items,
                history.replaced_messages,
                session.messages_in_first(pieces),
            )
        })
    }

    /// Appends a turn of the session once more, and returns the tokens that the model writes for that.
    pub(super) fn refetch(&mut self, session: &RecordedSession<'_, '_>, turn: usize) -> Tokens {
        let mut output = Tokens::ZERO;
        for pieces in session.messages_of_turn(turn).into_iter().map(|message| session.pieces_of_message(message)) {
            let is_reply = pieces.clone().any(|at| session.prompt_order.pieces[at].role == Some(Role::Assistant));
            if is_reply {
                output += session.tokens_of_first(pieces.end) - session.tokens_of_first(pieces.start);
            }
            self.push_pieces(session, pieces);
        }
        output.min(MAX_REFETCH_OUTPUT)
    }

    /// Appends pieces of the session, which must be whole messages.
    fn push_pieces(&mut self, session: &RecordedSession<'_, '_>, pieces: Range<usize>) {
        let mut before = None;
        for at in pieces {
            let mut piece = session.prompt_order.pieces[at].clone();
            if let (Some(history), Some(message)) = (&mut self.compacted, piece.message) {
                if before != piece.message {
                    history.messages_since.push(message as usize);
                }
                before = piece.message;
                piece.message = Some((history.messages + history.messages_since.len() - 1) as u32);
            }
            self.chain.push(&piece);
            self.prompt_order.push_piece(piece);
            let added = session.prefix_tokens[at] - session.tokens_of_first(at);
            self.prefix_tokens.push(self.total_tokens() + added);
        }
    }

    pub(super) fn total_tokens(&self) -> Tokens {
        self.prefix_tokens.last().copied().unwrap_or_default()
    }

    /// Returns the tokens of the tools and the system prompt.
    pub(super) fn preamble_tokens(&self) -> Tokens {
        let pieces = self.prompt_order.pieces.partition_point(|piece| piece.part < PromptPart::Messages);
        pieces.checked_sub(1).map_or(Tokens::ZERO, |last| self.prefix_tokens[last])
    }

    pub(super) fn cache_request<'v>(&'v self, breakpoints: &'v [Breakpoint]) -> CacheRequest<'v> {
        CacheRequest {
            links: &self.chain.links,
            settings: self.chain.settings,
            prefix_tokens: &self.prefix_tokens,
            breakpoints,
        }
    }

    /// Returns the request body: the result of the last compaction, with the messages that were sent since.
    pub(super) fn body(&self, session: &RecordedSession<'_, '_>) -> Result<String, RewriteError> {
        let original = session.transcript;
        let Some(history) = &self.compacted else {
            return Ok(original.body_with_first_messages(session.messages_in_first(self.pieces)));
        };
        let (transcript, _) = wire::parse(original.api_format, &history.body)?;
        let since: Vec<&str> =
            history.messages_since.iter().filter_map(|&message| original.message_json(message)).collect();
        Ok(transcript.body_with_appended(&since.join(",")))
    }
}
