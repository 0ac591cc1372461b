//! How many tokens a piece is that is none by itself: neighbours are merged, those of the lowest rank first, and of these
//! the leftmost, until no two of them are a token.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ranks::Ranks;

/// Up to this length looking for the lowest rank again after each merge is faster than keeping them in order.
const SHORT: usize = 64;
/// The rank of two neighbours that are no token together.
const NEVER: u32 = u32::MAX;

/// The tokens of a piece.
pub(super) fn count(ranks: Ranks<'_>, piece: &[u8]) -> usize {
    if piece.len() <= SHORT { count_short(ranks, piece) } else { count_long(ranks, piece) }
}

/// All in arrays: where each part begins, and the rank of a part together with the next one.
fn count_short(ranks: Ranks<'_>, piece: &[u8]) -> usize {
    let mut starts: [u8; SHORT + 2] = std::array::from_fn(|at| at as u8);
    let mut together = [NEVER; SHORT + 2];
    for (rank, pair) in together.iter_mut().zip(piece.windows(2)) {
        *rank = ranks.of_pair(pair[0], pair[1]).unwrap_or(NEVER);
    }
    let mut parts = piece.len();
    while parts > 1 {
        let mut lowest = (NEVER, 0);
        for (at, &rank) in together[..parts - 1].iter().enumerate() {
            if rank < lowest.0 {
                lowest = (rank, at);
            }
        }
        let (rank, merged) = lowest;
        if rank == NEVER {
            break;
        }
        starts.copy_within(merged + 2..=parts, merged + 1);
        together.copy_within(merged + 2..=parts, merged + 1);
        parts -= 1;
        for at in [merged, merged.wrapping_sub(1)] {
            if at < parts - 1 {
                let token = &piece[usize::from(starts[at])..usize::from(starts[at + 2])];
                together[at] = ranks.of(token).unwrap_or(NEVER);
            }
        }
        together[parts - 1] = NEVER;
    }
    parts
}

/// Each merge costs the logarithm of the length. A part is known by where it begins; merges that are no longer possible
/// are known by a rank that changed.
fn count_long(ranks: Ranks<'_>, piece: &[u8]) -> usize {
    let end = piece.len();
    let mut next: Vec<usize> = (1..=end).collect();
    let mut before: Vec<usize> = (0..end).map(|at| at.saturating_sub(1)).collect();
    let mut together: Vec<u32> =
        piece.windows(2).map(|pair| ranks.of_pair(pair[0], pair[1]).unwrap_or(NEVER)).collect();
    together.push(NEVER);
    let mergeable = |&(_, &rank): &(usize, &u32)| rank != NEVER;
    let mut queue: BinaryHeap<Reverse<(u32, usize)>> =
        together.iter().enumerate().filter(mergeable).map(|(at, &rank)| Reverse((rank, at))).collect();
    let mut parts = end;
    while let Some(Reverse((rank, at))) = queue.pop() {
        if together[at] != rank {
            continue;
        }
        let gone = next[at];
        together[gone] = NEVER;
        next[at] = next[gone];
        if let Some(before) = before.get_mut(next[at]) {
            *before = at;
        }
        parts -= 1;
        for at in if at > 0 { [before[at], at] } else { [at, at] } {
            let with = next[at];
            let rank = next.get(with).and_then(|&end| ranks.of(&piece[at..end])).unwrap_or(NEVER);
            together[at] = rank;
            if rank != NEVER {
                queue.push(Reverse((rank, at)));
            }
        }
    }
    parts
}
