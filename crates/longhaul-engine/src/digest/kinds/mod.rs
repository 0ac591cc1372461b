//! One file a kind: `shows` recognises it by its content, `propose` says what to keep.

pub(super) mod binary;
pub(super) mod build;
pub(super) mod diff;
pub(super) mod html;
pub(super) mod json;
pub(super) mod listing;
pub(super) mod log;
pub(super) mod output;
pub(super) mod prose;
pub(super) mod search;
pub(super) mod source;
pub(super) mod table;
pub(super) mod tests;

use std::collections::HashMap;

/// Counts by name, told in the order of first sight.
#[derive(Default)]
pub(super) struct Tally<'a> {
    by_name: HashMap<&'a str, usize>,
    last: usize,
    pub(super) counts: Vec<(&'a str, usize)>,
}

impl<'a> Tally<'a> {
    /// Counts one more. Whether it is the first of its name.
    pub(super) fn add(&mut self, name: &'a str) -> bool {
        // Neighbours are often alike.
        if let Some(last) = self.counts.get_mut(self.last).filter(|(last, _)| *last == name) {
            last.1 += 1;
            return false;
        }
        let next = self.counts.len();
        self.last = *self.by_name.entry(name).or_insert(next);
        if self.last == next {
            self.counts.push((name, 0));
        }
        self.counts[self.last].1 += 1;
        self.last == next
    }

    /// The names, the most frequent first; equal ones in the order of first sight.
    pub(super) fn most_first(mut self) -> Vec<(&'a str, usize)> {
        self.counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        self.counts
    }
}
