//! Counts the tokens of the pieces of a prompt, only as far as a caller asks for them.

use crate::block_cache::BlockCache;
use crate::meter::{MESSAGE_FRAMING_TOKENS, Meter};
use crate::transcript::{Block, JsonSlot, Transcript, TurnKind};
use crate::wire::PromptOrder;
use crate::{Tokens, models::Model};

/// The blocks of a transcript, assigned to the pieces of the prompt and ready to be counted.
pub struct PieceTokens<'t, 'b> {
    prompt_order: &'t PromptOrder,
    /// For each piece its blocks, each with the name of the tool if it is a call.
    blocks: Vec<Vec<(&'t Block<'b>, &'t str)>>,
    meter: Meter,
}

impl<'t, 'b> PieceTokens<'t, 'b> {
    /// Assigns the blocks to their pieces, without counting yet.
    #[must_use]
    pub fn new(transcript: &'t Transcript<'b>, prompt_order: &'t PromptOrder, model: &Model) -> Self {
        let mut by_place: Vec<usize> = (0..prompt_order.pieces.len()).collect();
        by_place.sort_by_key(|&piece| prompt_order.pieces[piece].at.start);
        let mut blocks = vec![Vec::new(); prompt_order.pieces.len()];
        let mut assign = |block: &'t Block<'b>, name: &'t str| {
            let after = by_place.partition_point(|&piece| prompt_order.pieces[piece].at.start <= block.at.start);
            let is_before = |piece: usize| match block.slot {
                JsonSlot::Field { object: of, .. } => prompt_order.pieces[piece].at.start < of.start,
                JsonSlot::Element(_) => false,
            };
            // A field of a message before its content belongs to the first piece of this message, not to the
            // last piece of the previous one.
            let at = after.checked_sub(1).filter(|&at| !is_before(by_place[at])).unwrap_or(after);
            if let Some(&piece) = by_place.get(at).or(by_place.last()) {
                blocks[piece].push((block, name));
            }
        };
        transcript.preamble.iter().for_each(|block| assign(block, ""));
        for turn in &transcript.turns {
            match &turn.kind {
                TurnKind::Assistant { reply, tool_calls } => {
                    for block in reply {
                        assign(block, "");
                    }
                    for tool_call in tool_calls {
                        // Count the tool name with the call; a call in plain text contains its name already.
                        tool_call.call.iter().for_each(|block| assign(block, &tool_call.tool));
                        tool_call.results.iter().for_each(|block| assign(block, ""));
                    }
                }
                _ => turn.blocks().for_each(|block| assign(block, "")),
            }
        }
        Self { prompt_order, blocks, meter: Meter::for_model(model) }
    }

    /// Counts the tokens of a piece, with the framing of its message if it is the first piece of it.
    pub fn count_piece(&self, cache: &mut BlockCache, piece: usize) -> Tokens {
        let message = |at: usize| self.prompt_order.pieces[at].message;
        let begins = message(piece).is_some() && (piece == 0 || message(piece - 1) != message(piece));
        let framing = if begins { MESSAGE_FRAMING_TOKENS } else { Tokens::ZERO };
        let counts = self.blocks[piece]
            .iter()
            .map(|(block, name)| self.meter.count_block(cache, block) + self.meter.counter.count(name));
        counts.sum::<Tokens>() + framing
    }

    /// Counts the tokens of the prompt up to and including each piece.
    pub fn prefix_sums(&self, cache: &mut BlockCache) -> Vec<Tokens> {
        let mut sum = Tokens::ZERO;
        let pieces = 0..self.prompt_order.pieces.len();
        pieces
            .map(|piece| {
                sum += self.count_piece(cache, piece);
                sum
            })
            .collect()
    }

    /// Returns the first piece at which the prompt has at least this many tokens, and counts no further than
    /// that.
    pub fn first_piece_reaching(&self, cache: &mut BlockCache, least: Tokens) -> Option<usize> {
        let mut sum = Tokens::ZERO;
        (0..self.prompt_order.pieces.len()).find(|&piece| {
            sum += self.count_piece(cache, piece);
            sum >= least
        })
    }
}
