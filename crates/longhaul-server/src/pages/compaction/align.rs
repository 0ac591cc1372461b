//! Matches the messages and blocks before a compaction with those after it.
//!
//! A compaction keeps the order and leaves most messages unchanged. So messages are matched from both ends
//! while they are the same. The others are matched by content, by the IDs of their calls, by the number of
//! blocks that they share, and last by their kinds of blocks and their order.

use std::collections::HashMap;

use longhaul_engine::plan::ContentKind;

use super::side::{ComparableBlock, SideMessages};

/// For each old message, returns the index of the new message that matches it; none if it was removed.
pub(super) fn match_messages(before: &SideMessages<'_, '_>, after: &SideMessages<'_, '_>) -> Vec<Option<usize>> {
    let mut matcher =
        MessageMatcher { before, after, matches: vec![None; before.count()], matched: vec![false; after.count()] };
    matcher.match_ends();
    matcher.match_by_key(&|side, message| Some(side.content_hash(message)));
    matcher.match_by_key(&|side, message| side.call_ids_hash(message));
    matcher.match_by_score(count_identical);
    matcher.match_by_score(score_same_kinds);
    matcher.matches
}

struct MessageMatcher<'p, 't, 'b> {
    before: &'p SideMessages<'t, 'b>,
    after: &'p SideMessages<'t, 'b>,
    matches: Vec<Option<usize>>,
    matched: Vec<bool>,
}

impl<'t, 'b> MessageMatcher<'_, 't, 'b> {
    fn pair(&mut self, before: usize, after: usize) {
        self.matches[before] = Some(after);
        self.matched[after] = true;
    }

    /// Matches the identical messages at the beginning and at the end.
    fn match_ends(&mut self) {
        let (old, new) = (self.before.count(), self.after.count());
        let same = |a: usize, b: usize| {
            self.before.content_hash(a) == self.after.content_hash(b) && self.before.role(a) == self.after.role(b)
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

    /// Returns the range of old messages that can match a new one, given the neighbours that are already
    /// matched.
    fn candidates(&self, after: usize) -> std::ops::Range<usize> {
        let mut candidates = 0..self.matches.len();
        for (before, matched_after) in self.matches.iter().enumerate() {
            match matched_after {
                Some(other) if *other < after => candidates.start = before + 1,
                Some(other) if *other > after => {
                    candidates.end = before;
                    break;
                }
                _ => {}
            }
        }
        candidates
    }

    /// Matches messages with the same key, newest first: of several equal messages, a compaction is likely to
    /// have kept the newest.
    fn match_by_key(&mut self, key: &dyn Fn(&SideMessages<'t, 'b>, usize) -> Option<u64>) {
        let unmatched: Vec<usize> = (0..self.matched.len()).rev().filter(|after| !self.matched[*after]).collect();
        if unmatched.is_empty() {
            return;
        }
        let mut candidates_by_key: HashMap<u64, Vec<usize>> = HashMap::new();
        for before in (0..self.matches.len()).filter(|before| self.matches[*before].is_none()) {
            if let Some(key) = key(self.before, before) {
                candidates_by_key.entry(key).or_default().push(before);
            }
        }
        for after in unmatched {
            let Some(old_messages) = key(self.after, after).and_then(|key| candidates_by_key.get(&key)) else {
                continue;
            };
            let candidates = self.candidates(after);
            let is_candidate =
                |before: &&usize| candidates.contains(*before) && self.before.role(**before) == self.after.role(after);
            if let Some(before) = old_messages.iter().rev().find(is_candidate).copied() {
                self.pair(before, after);
            }
        }
    }

    /// Matches each remaining message with the one that has the highest score; the last one if several have
    /// it.
    fn match_by_score(&mut self, score: fn(&[ComparableBlock<'_>], &[ComparableBlock<'_>]) -> usize) {
        for after in (0..self.matched.len()).rev().filter(|after| !self.matched[*after]).collect::<Vec<_>>() {
            let new = self.after.comparable_blocks(after);
            let role = self.after.role(after);
            let candidates = self
                .candidates(after)
                .filter(|before| self.matches[*before].is_none() && self.before.role(*before) == role);
            let scored = candidates.map(|before| (score(&self.before.comparable_blocks(before), &new), before));
            if let Some((_, before)) = scored.max().filter(|(score, _)| *score > 0) {
                self.pair(before, after);
            }
        }
    }
}

/// Counts the blocks that two messages share.
fn count_identical(old: &[ComparableBlock<'_>], new: &[ComparableBlock<'_>]) -> usize {
    new.iter().filter(|new| old.iter().any(|old| old.is_identical(new))).count()
}

/// Returns 1 if the blocks of both messages have the same kinds in the same order, and 0 otherwise. A
/// checkpoint never matches, because it replaces many messages.
fn score_same_kinds(old: &[ComparableBlock<'_>], new: &[ComparableBlock<'_>]) -> usize {
    let is_same =
        !new.is_empty() && new.len() == old.len() && old.iter().zip(new).all(|(old, new)| old.is_same_kind(new));
    usize::from(is_same && new.iter().all(|new| new.content_kind != ContentKind::Checkpoint))
}

/// For each old block of a message, returns the new block that matches it; none if it was removed.
pub(super) fn match_blocks(old: &[ComparableBlock<'_>], new: &[ComparableBlock<'_>]) -> Vec<Option<BlockMatch>> {
    let mut matches = vec![None; old.len()];
    let mut from = 0;
    for (at, piece) in old.iter().enumerate() {
        if let Some(found) = new.iter().skip(from).position(|new| new.is_identical(piece)) {
            matches[at] = Some(BlockMatch { block: from + found, equality: BlockEquality::Identical });
            from += found + 1;
        }
    }
    for (at, piece) in old.iter().enumerate().filter(|(at, _)| matches[*at].is_none()).collect::<Vec<_>>() {
        let matched_block = |found: &Option<BlockMatch>| found.map(|found| found.block);
        let from = matches[..at].iter().rev().find_map(matched_block).map_or(0, |block| block + 1);
        let to = matches[at..].iter().find_map(matched_block).unwrap_or(new.len());
        if let Some(block) = (from..to).find(|block| new[*block].is_same_kind(piece)) {
            matches[at] = Some(BlockMatch { block, equality: BlockEquality::Changed });
        }
    }
    matches
}

/// The block after a compaction that matches a block before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockMatch {
    pub(super) block: usize,
    pub(super) equality: BlockEquality,
}

/// Whether two matched blocks have the same text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockEquality {
    Identical,
    Changed,
}
