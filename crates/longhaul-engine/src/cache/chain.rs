//! Hashes of a body's prefixes, and the first place where two bodies part.
//!
//! ```text
//! tools ─▶ system ─▶ messages        each link: a hash of all that was read up to and with this piece
//! ```
//!
//! Two bodies share a prefix if and only if they share its link. White space, the order of keys, a string against a list of
//! one text, and where the client put its marks this time change no link.
//!
//! The hash is made for speed. Somebody could make two texts that share a link, so a store that serves several clients looks
//! links up among the sessions of the one who asks, never among those of all.

use crate::Transcript;
use crate::json::Span;
use crate::wire::{Part, Piece, Reading, Says, Settings, pair, reading};

/// The identity of all that was read up to some piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(u128);

impl Prefix {
    /// Nothing was read yet.
    const START: Self = Self(0);

    fn then(self, Says(piece): Says) -> Self {
        Self(pair(self.0, piece))
    }
}

/// Twenty-six letters and digits, for keys in stores and requests.
impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
        let letter = |at: u32| char::from(LETTERS[(self.0 >> (5 * at)) as usize % 32]);
        (0..26).try_for_each(|at| std::fmt::Write::write_char(f, letter(at)))
    }
}

/// One piece, and the identity of the prefix that it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The part of the prompt.
    pub part: Part,
    /// The message that it stands in.
    pub message: Option<u32>,
    /// Where it stands in the body that the chain was made of.
    pub at: Span,
    /// All that was read up to here.
    pub prefix: Prefix,
}

/// A body's prefixes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// One link for each piece, in the order of reading.
    pub links: Vec<Link>,
    /// What is no part of the prompt and voids the cache all the same.
    pub settings: Settings,
}

/// The chain of a body.
#[must_use]
pub fn chain(transcript: &Transcript<'_>) -> Chain {
    Chain::of(&reading(transcript))
}

impl Chain {
    /// The chain of a body that was read.
    #[must_use]
    pub fn of(reading: &Reading) -> Self {
        let mut chain = Self { links: Vec::with_capacity(reading.pieces.len()), settings: reading.settings };
        reading.pieces.iter().for_each(|piece| chain.push(piece));
        chain
    }

    /// Goes on with one more piece.
    pub(crate) fn push(&mut self, piece: &Piece) {
        let before = self.links.last().map_or(Prefix::START, |link| link.prefix);
        let prefix = before.then(piece.says);
        self.links.push(Link { part: piece.part, message: piece.message, at: piece.at, prefix });
    }

    /// How many pieces two bodies begin with alike, whatever their settings.
    #[must_use]
    pub fn shared(&self, other: &Self) -> usize {
        let both = self.links.len().min(other.links.len());
        // A link holds all that came before it, so links agree up to some place and nowhere after it.
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

/// What became of the prefix between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Another model reads it.
    Model,
    /// `tool_choice` is another one.
    ToolChoice,
    /// `thinking` is another one.
    Thinking,
    /// A piece says something else.
    Piece {
        /// Where it stood.
        old: Span,
    },
    /// Pieces at the end are gone, and nothing came in their place.
    Removed {
        /// Where the first of them stood.
        old: Span,
    },
}

/// The first place where a body parts from the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// What changed.
    pub change: Change,
    /// In which part.
    pub part: Part,
    /// The piece from which on the new body is cold.
    pub from: usize,
    /// Where that piece stands in the new body; nothing where the body ends before it.
    pub at: Option<Span>,
    /// The message that it stands in.
    pub message: Option<u32>,
}

/// Where a new body first parts from the old one. Nothing, if it only goes on: then all that was cached is warm.
#[must_use]
pub fn compare(old: &Chain, new: &Chain) -> Option<Difference> {
    let same = old.shared(new);
    let settings = settings(&old.settings, &new.settings);
    let found = |change, part, from: usize| {
        let link = new.links.get(from);
        Difference { change, part, from, at: link.map(|l| l.at), message: link.and_then(|l| l.message) }
    };
    let messages = new.links.iter().position(|link| link.part == Part::Messages).unwrap_or(new.links.len());
    match settings {
        Some((change, Part::Tools)) => return Some(found(change, Part::Tools, 0)),
        Some((change, part)) if same >= messages => return Some(found(change, part, messages)),
        _ => {}
    }
    let before = old.links.get(same)?;
    Some(match new.links.get(same) {
        Some(link) => found(Change::Piece { old: before.at }, link.part.min(before.part), same),
        None => found(Change::Removed { old: before.at }, before.part, same),
    })
}

/// The setting that changed, and from which part on the cache is void for it.
fn settings(old: &Settings, new: &Settings) -> Option<(Change, Part)> {
    if old.model != new.model {
        return Some((Change::Model, Part::Tools));
    }
    if old.thinking != new.thinking {
        return Some((Change::Thinking, Part::Messages));
    }
    (old.tool_choice != new.tool_choice).then_some((Change::ToolChoice, Part::Messages))
}
