//! The ranks of a vocabulary as a table that is laid out when the program is built and read where it lies.
//!
//! Unpacking a vocabulary takes longer than compacting most requests, and a table of its tokens' bytes is several times
//! larger than what is asked of it: the rank of these bytes, if they are a token. So the table holds no bytes. A slot has
//! the rank and those bits of the token's hash that its place does not tell; together they are all 64, and the hash of
//! eight bytes or fewer is the bytes themselves in another order. `build.rs` fills it with the same code.

use std::fmt;

/// Bits of a slot that are the rank.
pub(crate) const RANK: u32 = 18;
/// As many slots as fill a little more than a third.
pub(crate) const SLOTS: usize = 1 << (RANK + 1);
/// What a slot says that is empty.
pub(crate) const EMPTY: u64 = u64::MAX;
/// What a pair of bytes says that is no token.
pub(crate) const NONE: u32 = u32::MAX;
/// Every pair of two bytes.
pub(crate) const PAIRS: usize = 1 << 16;

/// A vocabulary's ranks: first those of two bytes, by the bytes, then a table by hash for the longer ones.
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
    /// Reads what `build.rs` wrote.
    pub(crate) const fn read(bytes: &'t [u8]) -> Self {
        let (pairs, slots) = bytes.split_at(PAIRS * size_of::<u32>());
        Self { pairs: pairs.as_chunks().0, slots: slots.as_chunks().0 }
    }

    /// The rank of a token of two bytes.
    #[inline]
    pub(crate) fn of_pair(self, first: u8, second: u8) -> Option<u32> {
        let rank = u32::from_le_bytes(self.pairs[usize::from(first) << 8 | usize::from(second)]);
        (rank != NONE).then_some(rank)
    }

    /// The rank of a token of two bytes or more.
    #[inline]
    pub(crate) fn of(self, token: &[u8]) -> Option<u32> {
        if let &[first, second] = token {
            return self.of_pair(first, second);
        }
        self.of_hashed(hash(token))
    }

    /// The rank of a token of three bytes or more that has this hash.
    #[inline]
    pub(crate) fn of_hashed(self, hash: u64) -> Option<u32> {
        let mut at = hash as usize;
        loop {
            let slot = u64::from_le_bytes(self.slots[at % SLOTS]);
            if slot == EMPTY {
                return None;
            }
            if slot >> RANK == hash >> RANK {
                return Some(slot as u32 & ((1 << RANK) - 1));
            }
            at += 1;
        }
    }
}

/// A hash that loses nothing of eight bytes: fewer are filled up with a byte that says how many and never occurs in text,
/// and a multiplication by an odd number can be undone, as can the shift.
#[inline]
pub(crate) fn hash(token: &[u8]) -> u64 {
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
