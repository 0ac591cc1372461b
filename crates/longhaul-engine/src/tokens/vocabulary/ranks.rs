//! The ranks of a vocabulary, as a table that `build.rs` lays out and the program reads in place.
//!
//! Unpacking a vocabulary takes longer than compacting most requests. The only question is the rank of some
//! bytes, if they are a token, and a table with the bytes of all tokens would be several times larger than
//! the answer needs. So the table contains no bytes: a slot contains the rank and the upper bits of the
//! token's hash, and the position of the slot gives the lower bits. Together these are all 64 bits. The hash
//! of up to eight bytes can be reversed, so two such tokens never share one.

use std::fmt;

/// The number of bits of a slot that contain the rank.
pub(crate) const RANK_BITS: u32 = 18;
/// The number of slots, of which a little more than a third is used.
pub(crate) const SLOT_COUNT: usize = 1 << (RANK_BITS + 1);
/// The content of an empty slot.
pub(crate) const EMPTY_SLOT: u64 = u64::MAX;
/// The rank of two bytes that are not a token.
pub(crate) const NO_RANK: u32 = u32::MAX;
/// The number of possible pairs of bytes.
pub(crate) const PAIR_COUNT: usize = 1 << 16;

/// The ranks of a vocabulary: an array for tokens of two bytes, indexed by the bytes, and a hash table for
/// longer tokens.
#[derive(Clone, Copy)]
pub(crate) struct Ranks<'t> {
    pairs: &'t [[u8; 4]],
    slots: &'t [[u8; 8]],
}

impl fmt::Debug for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ranks").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

impl<'t> Ranks<'t> {
    /// Reads the table that `build.rs` wrote.
    pub(crate) const fn from_bytes(bytes: &'t [u8]) -> Self {
        let (pairs, slots) = bytes.split_at(PAIR_COUNT * size_of::<u32>());
        Self { pairs: pairs.as_chunks().0, slots: slots.as_chunks().0 }
    }

    /// Returns the rank of a token of two bytes.
    #[inline]
    pub(crate) fn rank_of_pair(self, first: u8, second: u8) -> Option<u32> {
        let rank = u32::from_le_bytes(self.pairs[usize::from(first) << 8 | usize::from(second)]);
        (rank != NO_RANK).then_some(rank)
    }

    /// Returns the rank of a token of two or more bytes.
    #[inline]
    pub(crate) fn rank_of(self, token: &[u8]) -> Option<u32> {
        if let &[first, second] = token {
            return self.rank_of_pair(first, second);
        }
        self.rank_of_hash(hash_token(token))
    }

    /// Returns the rank of the token of three or more bytes that has this hash.
    #[inline]
    pub(crate) fn rank_of_hash(self, hash: u64) -> Option<u32> {
        let mut at = hash as usize;
        loop {
            let slot = u64::from_le_bytes(self.slots[at % SLOT_COUNT]);
            if slot == EMPTY_SLOT {
                return None;
            }
            if slot >> RANK_BITS == hash >> RANK_BITS {
                return Some(slot as u32 & ((1 << RANK_BITS) - 1));
            }
            at += 1;
        }
    }
}

/// Hashes a token. For up to eight bytes the hash can be reversed: shorter tokens are padded with a byte that
/// gives their length and never occurs in text, and both the multiplication by an odd number and the shift
/// can be undone.
#[inline]
pub(crate) fn hash_token(token: &[u8]) -> u64 {
    let length = token.len();
    let filled = if length < 8 { (0xF8 + length as u64) << 56 } else { 0 };
    let word = match (token.first_chunk::<4>(), token.last_chunk::<4>()) {
        (Some(first), Some(last)) if length <= 8 => {
            let last = u64::from(u32::from_le_bytes(*last)) << ((length - 4) * 8);
            filled | last | u64::from(u32::from_le_bytes(*first))
        }
        (None, _) => filled | token.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
        _ => xxhash_rust::xxh3::xxh3_64(token),
    };
    let mixed = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ mixed >> 32
}
