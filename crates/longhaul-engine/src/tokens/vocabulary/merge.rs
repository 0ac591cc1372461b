//! Counts the tokens of a pre-token that is not itself a token: merges the neighbours with the lowest rank
//! first, and of these the leftmost, until no two neighbours form a token.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ranks::Ranks;

/// The maximum length, in bytes, at which searching for the lowest rank after each merge is faster than a
/// priority queue.
const MAX_SHORT_BYTES: usize = 64;
/// The rank of two neighbours that do not form a token.
const UNMERGEABLE: u32 = u32::MAX;

/// Counts the tokens of a pre-token.
pub(super) fn count_tokens(ranks: Ranks<'_>, piece: &[u8]) -> usize {
    if piece.len() <= MAX_SHORT_BYTES { count_short(ranks, piece) } else { count_long(ranks, piece) }
}

/// Merges in arrays: the start of each part, and the rank of each part with the next one.
fn count_short(ranks: Ranks<'_>, piece: &[u8]) -> usize {
    let mut starts: [u8; MAX_SHORT_BYTES + 2] = std::array::from_fn(|at| at as u8);
    let mut together = [UNMERGEABLE; MAX_SHORT_BYTES + 2];
    for (rank, pair) in together.iter_mut().zip(piece.windows(2)) {
        *rank = ranks.rank_of_pair(pair[0], pair[1]).unwrap_or(UNMERGEABLE);
    }
    let mut parts = piece.len();
    while parts > 1 {
        let mut lowest = (UNMERGEABLE, 0);
        for (at, &rank) in together[..parts - 1].iter().enumerate() {
            if rank < lowest.0 {
                lowest = (rank, at);
            }
        }
        let (rank, merged) = lowest;
        if rank == UNMERGEABLE {
            break;
        }
        starts.copy_within(merged + 2..=parts, merged + 1);
        together.copy_within(merged + 2..=parts, merged + 1);
        parts -= 1;
        for at in [merged, merged.wrapping_sub(1)] {
            if at < parts - 1 {
                let token = &piece[usize::from(starts[at])..usize::from(starts[at + 2])];
                together[at] = ranks.rank_of(token).unwrap_or(UNMERGEABLE);
            }
        }
        together[parts - 1] = UNMERGEABLE;
    }
    parts
}

/// Merges with a priority queue, so each merge costs the logarithm of the length. A part is identified by its
/// start. A queued merge is outdated if the rank at its start has changed.
fn count_long(ranks: Ranks<'_>, piece: &[u8]) -> usize {
    let end = piece.len();
    let mut next: Vec<usize> = (1..=end).collect();
    let mut before: Vec<usize> = (0..end).map(|at| at.saturating_sub(1)).collect();
    let mut together: Vec<u32> =
        piece.windows(2).map(|pair| ranks.rank_of_pair(pair[0], pair[1]).unwrap_or(UNMERGEABLE)).collect();
    together.push(UNMERGEABLE);
    let mergeable = |&(_, &rank): &(usize, &u32)| rank != UNMERGEABLE;
    let mut queue: BinaryHeap<Reverse<(u32, usize)>> =
        together.iter().enumerate().filter(mergeable).map(|(at, &rank)| Reverse((rank, at))).collect();
    let mut parts = end;
    while let Some(Reverse((rank, at))) = queue.pop() {
        if together[at] != rank {
            continue;
        }
        let gone = next[at];
        together[gone] = UNMERGEABLE;
        next[at] = next[gone];
        if let Some(before) = before.get_mut(next[at]) {
            *before = at;
        }
        parts -= 1;
        for at in if at > 0 { [before[at], at] } else { [at, at] } {
            let with = next[at];
            let rank = next.get(with).and_then(|&end| ranks.rank_of(&piece[at..end])).unwrap_or(UNMERGEABLE);
            together[at] = rank;
            if rank != UNMERGEABLE {
                queue.push(Reverse((rank, at)));
            }
        }
    }
    parts
}
