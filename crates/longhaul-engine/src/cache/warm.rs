//! How much of a new body a provider still has of the old one.

use super::chain::{Chain, Difference, compare};
use super::weigh::Weights;
use crate::Tokens;
use crate::known::Known;
use crate::models::Model;
use crate::transcript::Transcript;
use crate::wire::Reading;

/// Where two bodies part, and what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warm {
    /// Where; nothing, if the new one only goes on.
    pub difference: Option<Difference>,
    /// The tokens before it, as they stand in the new body.
    pub tokens: Tokens,
}

/// What stays warm of an old body in a new one.
pub fn warm(
    old: &Reading,
    transcript: &Transcript<'_>,
    new: &Reading,
    model: &Model,
    known: &mut Known,
) -> Warm {
    let difference = compare(&Chain::of(old), &Chain::of(new));
    let pieces = difference.map_or(old.pieces.len().min(new.pieces.len()), |found| found.from);
    let weights = Weights::new(transcript, new, model);
    let tokens = (0..pieces).map(|piece| weights.piece(known, piece)).sum();
    Warm { difference, tokens }
}
