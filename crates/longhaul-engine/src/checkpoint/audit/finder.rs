//! Which of many lines stand in a text.
//!
//! An automaton over thousands of lines takes longer to build than a text takes to read, and it is used once. So lines are
//! found by their first eight bytes instead: those that share them are neighbours in order, and where the text has them, all
//! lines that stand there are the nearest line before the text in order and its beginnings.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use aho_corasick::AhoCorasick;

use crate::known::AsIs;

/// How many first bytes lines are found by.
const OPENING: usize = 8;

/// Finds lines in texts.
pub(super) struct Finder {
    /// In order, each once.
    lines: Vec<String>,
    /// Of each line, the longest other that it begins with.
    shorter: Vec<Option<usize>>,
    /// Where the lines of each opening are.
    openings: HashMap<u64, Range<usize>, BuildHasherDefault<AsIs>>,
    seen: Seen,
    /// The lines shorter than an opening, of which there are few.
    short: Vec<usize>,
    in_short: Option<AhoCorasick>,
}

impl Finder {
    /// A finder of these lines, and the place of each in it.
    pub(super) fn of(mut all: Vec<String>) -> (Self, Vec<usize>) {
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_unstable_by(|a, b| all[*a].cmp(&all[*b]));
        let mut places = vec![0; all.len()];
        let mut lines: Vec<String> = Vec::with_capacity(all.len());
        for at in order {
            if lines.last() != Some(&all[at]) {
                lines.push(std::mem::take(&mut all[at]));
            }
            places[at] = lines.len() - 1;
        }
        let mut shorter = vec![None; lines.len()];
        let mut openings: HashMap<u64, Range<usize>, _> = HashMap::default();
        for (at, line) in lines.iter().enumerate() {
            let Some(opening) = line.as_bytes().get(..OPENING) else { continue };
            let range = openings.entry(packed(opening)).or_insert(at..at);
            let mut before = at.checked_sub(1).filter(|before| range.contains(before));
            range.end = at + 1;
            while let Some(other) = before.filter(|other| !line.starts_with(&lines[*other])) {
                before = shorter[other];
            }
            shorter[at] = before;
        }
        let seen = Seen::of(openings.keys().copied());
        let short: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].len() < OPENING).collect();
        let in_short = AhoCorasick::new(short.iter().map(|at| &lines[*at])).ok();
        (Self { lines, shorter, openings, seen, short, in_short }, places)
    }

    /// Whether each line stands in a text.
    pub(super) fn standing(&self, text: &str) -> Vec<bool> {
        let mut stands = vec![false; self.lines.len()];
        if let Some(finder) = &self.in_short {
            for hit in finder.find_overlapping_iter(text) {
                stands[self.short[hit.pattern().as_usize()]] = true;
            }
        }
        let text = text.as_bytes();
        for (at, opening) in text.windows(OPENING).enumerate() {
            let opening = packed(opening);
            if self.seen.may_hold(opening)
                && let Some(range) = self.openings.get(&opening)
            {
                self.note(range, &text[at..], &mut stands);
            }
        }
        stands
    }

    /// Notes which lines of a range stand at the beginning of a text.
    fn note(&self, range: &Range<usize>, text: &[u8], stands: &mut [bool]) {
        let before = self.lines[range.clone()].partition_point(|line| line.as_bytes() <= text);
        let mut candidate = before.checked_sub(1).map(|last| range.start + last);
        // What a line that stands begins with was noted together with it.
        while let Some(line) = candidate.filter(|line| !stands[*line]) {
            stands[line] = text.starts_with(self.lines[line].as_bytes());
            candidate = self.shorter[line];
        }
    }
}

fn packed(opening: &[u8]) -> u64 {
    opening.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// A set that may hold more than was put in, and is small enough to be asked at every byte.
struct Seen(Vec<u64>);

impl Seen {
    const BITS: u32 = 17;

    fn of(openings: impl Iterator<Item = u64>) -> Self {
        let mut seen = Self(vec![0; 1 << (Self::BITS - 6)]);
        for opening in openings {
            let place = Self::place(opening);
            seen.0[place / 64] |= 1 << (place % 64);
        }
        seen
    }

    fn place(opening: u64) -> usize {
        (opening.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - Self::BITS)) as usize
    }

    fn may_hold(&self, opening: u64) -> bool {
        let place = Self::place(opening);
        self.0[place / 64] >> (place % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Finder;

    proptest! {
        /// Few letters and lengths around that of an opening, so that lines begin with one another and overlap in the text.
        #[test]
        fn a_line_stands_where_the_text_contains_it(
            lines in prop::collection::vec("[ab]{1,3}|[ab]{7,11}|(aaaaaaaa|é[ab]{7})[abé]{0,6}", 0..40),
            pieces in prop::collection::vec("[ab]{0,3}|[ab]{9}|aaaaaaaa[ab]{0,4}|é[ab]{7}[abé]{0,4}|\n", 0..40),
        ) {
            let text = pieces.concat();
            let (finder, places) = Finder::of(lines.clone());
            let stands = finder.standing(&text);
            for (line, place) in lines.iter().zip(places) {
                prop_assert_eq!(stands[place], text.contains(line), "{:?} in {:?}", line, text);
            }
        }
    }
}
