//! Computes how much of a new request is cached from the old one.

use super::piece_tokens::PieceTokens;
use super::prefix_chain::{PrefixChain, PrefixDifference, compare_chains};
use crate::Tokens;
use crate::block_cache::BlockCache;
use crate::models::Model;
use crate::transcript::Transcript;
use crate::wire::PromptOrder;

/// The part of a new request that is still cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedPrefix {
    /// The first difference; `None` if the new request only continues the old one.
    pub difference: Option<PrefixDifference>,
    /// The tokens before it in the new request.
    pub tokens: Tokens,
}

/// Computes how much of a new request is cached from the old one.
pub fn cached_prefix(
    old: &PromptOrder,
    new_transcript: &Transcript<'_>,
    new: &PromptOrder,
    model: &Model,
    cache: &mut BlockCache,
) -> CachedPrefix {
    let difference = compare_chains(&PrefixChain::new(old), &PrefixChain::new(new));
    let pieces = difference.map_or(old.pieces.len().min(new.pieces.len()), |found| found.first_piece);
    let piece_tokens = PieceTokens::new(new_transcript, new, model);
    let tokens = (0..pieces).map(|piece| piece_tokens.count_piece(cache, piece)).sum();
    CachedPrefix { difference, tokens }
}
