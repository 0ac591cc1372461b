//! One file for each kind of output: `recognizes` tests for it by its content, `propose` selects what to keep.

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
pub(super) mod test_run;

use std::collections::HashMap;

/// Counts by name, in the order in which the names first occurred.
#[derive(Default)]
pub(super) struct NameCounts<'a> {
    by_name: HashMap<&'a str, usize>,
    last_index: usize,
    pub(super) counts: Vec<(&'a str, usize)>,
}

impl<'a> NameCounts<'a> {
    /// Counts a name once more, and returns whether it is new.
    pub(super) fn add(&mut self, name: &'a str) -> bool {
        // Consecutive names are often the same.
        if let Some(last) = self.counts.get_mut(self.last_index).filter(|(last, _)| *last == name) {
            last.1 += 1;
            return false;
        }
        let next = self.counts.len();
        self.last_index = *self.by_name.entry(name).or_insert(next);
        if self.last_index == next {
            self.counts.push((name, 0));
        }
        self.counts[self.last_index].1 += 1;
        self.last_index == next
    }

    /// Returns the names with their counts, the most frequent first; names with equal counts stay in the
    /// order of their first occurrence.
    pub(super) fn most_frequent_first(mut self) -> Vec<(&'a str, usize)> {
        self.counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        self.counts
    }
}
