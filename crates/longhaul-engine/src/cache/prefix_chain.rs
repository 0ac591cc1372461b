//! Hashes of all prefixes of a request, and the first difference between two requests.
//!
//! ```text
//! tools ─▶ system ─▶ messages        each link: a hash of everything up to and including this piece
//! ```
//!
//! Two requests share a prefix if and only if they share its link. A link does not depend on white space, on
//! the order of keys, on whether a text is a string or a list with one block, or on the position of the
//! client's cache breakpoints.
//!
//! The hash is made for speed, so somebody could construct two texts with the same link. A store with several
//! clients must therefore search links among the sessions of one client only.

use crate::Transcript;
use crate::json::Span;
use crate::wire::{CacheSettings, ContentHash, PromptOrder, PromptPart, PromptPiece, hash_pair, prompt_order};

/// The hash of the prompt up to some piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixHash(u128);

impl PrefixHash {
    /// The hash of an empty prompt.
    const START: Self = Self(0);

    fn extend(self, ContentHash(piece): ContentHash) -> Self {
        Self(hash_pair(self.0, piece))
    }
}

// 26 letters and digits, which are used as keys in stores and requests.
impl std::fmt::Display for PrefixHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let letter = |at: u32| char::from(LETTERS[(self.0 >> (5 * at)) as usize % 32]);
        (0..26).try_for_each(|at| std::fmt::Write::write_char(f, letter(at)))
    }
}

/// A piece of the prompt, with the hash of the prefix that it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixLink {
    /// The part of the prompt that contains the piece.
    pub part: PromptPart,
    /// The index of the message that contains the piece.
    pub message: Option<u32>,
    /// The place of the piece in the request body that the chain was made from.
    pub at: Span,
    /// The hash of the prompt up to and including the piece.
    pub prefix: PrefixHash,
}

/// The hashes of all prefixes of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrefixChain {
    /// One link for each piece, in the provider's order.
    pub links: Vec<PrefixLink>,
    /// The settings that are no part of the prompt but invalidate the cache when they change.
    pub settings: CacheSettings,
}

/// Computes the chain of a request.
#[must_use]
pub fn prefix_chain(transcript: &Transcript<'_>) -> PrefixChain {
    PrefixChain::new(&prompt_order(transcript))
}

impl PrefixChain {
    /// Computes the chain of a prompt in the provider's order.
    #[must_use]
    pub fn new(prompt_order: &PromptOrder) -> Self {
        let mut chain =
            Self { links: Vec::with_capacity(prompt_order.pieces.len()), settings: prompt_order.cache_settings };
        prompt_order.pieces.iter().for_each(|piece| chain.push(piece));
        chain
    }

    /// Appends a piece.
    pub(crate) fn push(&mut self, piece: &PromptPiece) {
        let before = self.links.last().map_or(PrefixHash::START, |link| link.prefix);
        let prefix = before.extend(piece.content_hash);
        self.links.push(PrefixLink { part: piece.part, message: piece.message, at: piece.at, prefix });
    }

    /// Counts the pieces at the beginning that two requests share, whatever their settings.
    #[must_use]
    pub fn shared_pieces(&self, other: &Self) -> usize {
        let both = self.links.len().min(other.links.len());
        // A link depends on everything before it, so the links agree up to some piece and nowhere after it.
        let (mut same, mut end) = (0, both);
        while same < end {
            let middle = same + (end - same) / 2;
            if self.links[middle].prefix == other.links[middle].prefix {
                same = middle + 1;
            } else {
                end = middle;
            }
        }
        same
    }
}

/// The change that invalidates a cached prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixChange {
    /// The model changed.
    Model,
    /// `tool_choice` changed.
    ToolChoice,
    /// `thinking` changed.
    Thinking,
    /// The content of a piece changed.
    Piece {
        /// The place of the piece in the old body.
        old: Span,
    },
    /// Pieces at the end were removed without a replacement.
    Removed {
        /// The place of the first removed piece in the old body.
        old: Span,
    },
}

/// The first difference between a request and the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixDifference {
    /// The kind of change.
    pub change: PrefixChange,
    /// The part of the prompt that changed.
    pub part: PromptPart,
    /// The first piece of the new request that is no longer cached.
    pub first_piece: usize,
    /// The place of that piece in the new body; `None` if the body ends before it.
    pub at: Option<Span>,
    /// The index of the message that contains that piece.
    pub message: Option<u32>,
}

/// Finds the first difference between two requests. Returns `None` if the new one only continues the old one,
/// so that everything stays cached.
#[must_use]
pub fn compare_chains(old: &PrefixChain, new: &PrefixChain) -> Option<PrefixDifference> {
    let same = old.shared_pieces(new);
    let settings = changed_setting(&old.settings, &new.settings);
    let found = |change, part, from: usize| {
        let link = new.links.get(from);
        PrefixDifference {
            change,
            part,
            first_piece: from,
            at: link.map(|l| l.at),
            message: link.and_then(|l| l.message),
        }
    };
    let messages = new.links.iter().position(|link| link.part == PromptPart::Messages).unwrap_or(new.links.len());
    match settings {
        Some((change, PromptPart::Tools)) => return Some(found(change, PromptPart::Tools, 0)),
        Some((change, part)) if same >= messages => return Some(found(change, part, messages)),
        _ => {}
    }
    let before = old.links.get(same)?;
    Some(match new.links.get(same) {
        Some(link) => found(PrefixChange::Piece { old: before.at }, link.part.min(before.part), same),
        None => found(PrefixChange::Removed { old: before.at }, before.part, same),
    })
}

/// Returns the setting that changed, and the part of the prompt from which on the cache becomes invalid.
fn changed_setting(old: &CacheSettings, new: &CacheSettings) -> Option<(PrefixChange, PromptPart)> {
    if old.model != new.model {
        return Some((PrefixChange::Model, PromptPart::Tools));
    }
    if old.thinking != new.thinking {
        return Some((PrefixChange::Thinking, PromptPart::Messages));
    }
    (old.tool_choice != new.tool_choice).then_some((PrefixChange::ToolChoice, PromptPart::Messages))
}
