//! Which message, and which block of it, became which.
//!
//! A compaction keeps the order and leaves most messages as they are. So messages are paired from both ends while they are the
//! same; in between by what they say, by the names of their calls, by the blocks that they share, and last by their order.

use std::collections::HashMap;

use longhaul_engine::plan::What;

use super::side::{Messages, Piece};

/// For each message before, the one after that it became.
pub(super) fn messages(before: &Messages<'_, '_>, after: &Messages<'_, '_>) -> Vec<Option<usize>> {
    let mut pairs =
        Pairs { before, after, became: vec![None; before.count()], taken: vec![false; after.count()] };
    pairs.ends();
    pairs.by(&|side, message| Some(side.says(message)));
    pairs.by(&|side, message| side.ids(message));
    pairs.by_likeness(shares);
    pairs.by_likeness(resembles);
    pairs.became
}

struct Pairs<'p, 't, 'b> {
    before: &'p Messages<'t, 'b>,
    after: &'p Messages<'t, 'b>,
    became: Vec<Option<usize>>,
    taken: Vec<bool>,
}

impl<'t, 'b> Pairs<'_, 't, 'b> {
    fn pair(&mut self, before: usize, after: usize) {
        self.became[before] = Some(after);
        self.taken[after] = true;
    }

    /// The same messages at the beginning and at the end.
    fn ends(&mut self) {
        let (old, new) = (self.before.count(), self.after.count());
        let same = |a: usize, b: usize| {
            self.before.says(a) == self.after.says(b) && self.before.role(a) == self.after.role(b)
        };
        let first = (0..old.min(new)).take_while(|&at| same(at, at)).count();
        let last = (1..=old.min(new) - first).take_while(|&back| same(old - back, new - back)).count();
        for at in 0..first {
            self.pair(at, at);
        }
        for back in 1..=last {
            self.pair(old - back, new - back);
        }
    }

    /// The range of messages before that a message after can be, by its neighbours that are paired.
    fn room(&self, after: usize) -> std::ops::Range<usize> {
        let mut room = 0..self.became.len();
        for (before, became) in self.became.iter().enumerate() {
            match became {
                Some(other) if *other < after => room.start = before + 1,
                Some(other) if *other > after => {
                    room.end = before;
                    break;
                }
                _ => {}
            }
        }
        room
    }

    /// Pairs what has the same key, the newest first: what stays in the middle stays because it is near the end.
    fn by(&mut self, key: &dyn Fn(&Messages<'t, 'b>, usize) -> Option<u64>) {
        let open: Vec<usize> = (0..self.taken.len()).rev().filter(|after| !self.taken[*after]).collect();
        if open.is_empty() {
            return;
        }
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        for before in (0..self.became.len()).filter(|before| self.became[*before].is_none()) {
            if let Some(key) = key(self.before, before) {
                places.entry(key).or_default().push(before);
            }
        }
        for after in open {
            let Some(found) = key(self.after, after).and_then(|key| places.get(&key)) else { continue };
            let room = self.room(after);
            let fits = |before: &&usize| {
                room.contains(*before) && self.before.role(**before) == self.after.role(after)
            };
            if let Some(before) = found.iter().rev().find(fits).copied() {
                self.pair(before, after);
            }
        }
    }

    /// Pairs each message that is left with the one that is most like it, the last of those.
    fn by_likeness(&mut self, like: fn(&[Piece<'_>], &[Piece<'_>]) -> usize) {
        for after in (0..self.taken.len()).rev().filter(|after| !self.taken[*after]).collect::<Vec<_>>() {
            let new = self.after.blocks(after);
            let role = self.after.role(after);
            let open = self
                .room(after)
                .filter(|before| self.became[*before].is_none() && self.before.role(*before) == role);
            let scored = open.map(|before| (like(&self.before.blocks(before), &new), before));
            if let Some((_, before)) = scored.max().filter(|(score, _)| *score > 0) {
                self.pair(before, after);
            }
        }
    }
}

/// How many blocks two messages share.
fn shares(old: &[Piece<'_>], new: &[Piece<'_>]) -> usize {
    new.iter().filter(|new| old.iter().any(|old| old.is(new))).count()
}

/// Whether all that a message has could stand for what the other has. A checkpoint stands for many.
fn resembles(old: &[Piece<'_>], new: &[Piece<'_>]) -> usize {
    let all =
        !new.is_empty() && new.len() == old.len() && old.iter().zip(new).all(|(old, new)| old.is_like(new));
    usize::from(all && new.iter().all(|new| new.what != What::Checkpoint))
}

/// For each block of a message before, the block after that it became, and whether that is the same.
pub(super) fn blocks(old: &[Piece<'_>], new: &[Piece<'_>]) -> Vec<Option<Became>> {
    let mut became = vec![None; old.len()];
    let mut from = 0;
    for (at, piece) in old.iter().enumerate() {
        if let Some(found) = new.iter().skip(from).position(|new| new.is(piece)) {
            became[at] = Some(Became { block: from + found, same: Same::Yes });
            from += found + 1;
        }
    }
    for (at, piece) in old.iter().enumerate().filter(|(at, _)| became[*at].is_none()).collect::<Vec<_>>() {
        let place = |found: &Option<Became>| found.map(|found| found.block);
        let from = became[..at].iter().rev().find_map(place).map_or(0, |block| block + 1);
        let to = became[at..].iter().find_map(place).unwrap_or(new.len());
        if let Some(block) = (from..to).find(|block| new[*block].is_like(piece)) {
            became[at] = Some(Became { block, same: Same::No });
        }
    }
    became
}

/// What a block became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Became {
    pub(super) block: usize,
    pub(super) same: Same,
}

/// Whether a block stands as it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Same {
    Yes,
    No,
}
