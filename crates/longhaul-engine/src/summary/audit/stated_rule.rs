//! A rule of the user, and whether a statement contradicts it.

use std::fmt;

use crate::evidence::WordBag;
use crate::truncate::to_one_line;

/// The share of common words, in both directions, from which a statement is about the same thing as a rule.
const MIN_SAME_SHARE: f32 = 0.75;

/// The maximum length of a rule in a message to people, in characters.
const MAX_SHOWN_CHARS: usize = 160;

pub(super) struct StatedRule {
    text: String,
    words: WordBag,
}

impl StatedRule {
    pub(super) fn new(text: &str) -> Self {
        Self { text: to_one_line(text, MAX_SHOWN_CHARS), words: WordBag::new(text) }
    }

    /// Returns whether a statement is about the same thing, but lacks a word of the rule that allows, forbids
    /// or limits it.
    pub(super) fn is_contradicted_by(&self, statement: &str) -> bool {
        let other = WordBag::new(statement);
        let same = self.words.share_in(&other) >= MIN_SAME_SHARE && other.share_in(&self.words) >= MIN_SAME_SHARE;
        same && !self.words.limiting_words().is_subset(other.limiting_words())
    }
}

impl fmt::Display for StatedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
