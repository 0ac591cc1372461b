//! Texts as weighted sets of words, so that two texts about the same thing match in any word order.

use std::collections::{BTreeSet, HashMap};

use super::sentence_fingerprint::{has_inner_capital, split_words};
use super::weights::{IDENTIFIER_WEIGHT, MIN_BAG_WORD_CHARS, WORD_WEIGHT};
use super::words::EVIDENCE_WORDS;

/// The words of a text, without their endings. Identifiers weigh more than other words.
#[derive(Debug, Clone, Default)]
pub(crate) struct WordBag {
    words: HashMap<String, f32>,
    /// The words that allow, forbid or limit something.
    limiting_words: BTreeSet<String>,
}

impl WordBag {
    pub(crate) fn new(text: &str) -> Self {
        let mut bag = Self { limiting_words: limiting_words(text), ..Self::default() };
        bag.words.extend(Self::weighted_words(text));
        bag
    }

    /// Returns the words that show what a text is about, in order and with their weights.
    pub(crate) fn weighted_words(text: &str) -> impl Iterator<Item = (String, f32)> {
        split_words(text).filter_map(Self::weighted_word)
    }

    fn weighted_word(word: &str) -> Option<(String, f32)> {
        let path = match word.split_once(':') {
            // A file matches in any folder and with any line number.
            Some((path, line)) if line.starts_with(|c: char| c.is_ascii_digit()) => path,
            _ => word,
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        let word = name.to_lowercase();
        if is_identifier_like(name) {
            return Some((word, IDENTIFIER_WEIGHT));
        }
        let is_telling =
            word.chars().count() >= MIN_BAG_WORD_CHARS && EVIDENCE_WORDS.common.binary_search(&word).is_err();
        is_telling.then(|| (stem(&word).to_owned(), WORD_WEIGHT))
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.words.extend(other.words.iter().map(|(word, weight)| (word.clone(), *weight)));
    }

    /// Returns the share of this bag's weight whose words the other bag has too, from 0 to 1. It is 0 for an
    /// empty bag.
    pub(crate) fn share_in(&self, other: &Self) -> f32 {
        let all: f32 = self.words.values().sum();
        let both: f32 =
            self.words.iter().filter(|(word, _)| other.words.contains_key(*word)).map(|(_, weight)| weight).sum();
        if all > 0.0 { both / all } else { 0.0 }
    }

    /// Returns the words that allow, forbid or limit something. Callers compare them separately, because a
    /// rule and its opposite otherwise have the same words.
    pub(crate) fn limiting_words(&self) -> &BTreeSet<String> {
        &self.limiting_words
    }

    /// Returns the number of different words.
    pub(crate) fn word_count(&self) -> usize {
        self.words.len()
    }
}

/// Returns the words of a text that allow, forbid or limit something. Apostrophes of both forms are part of a
/// word; hyphens, slashes and dots inside a word prevent a match.
fn limiting_words(text: &str) -> BTreeSet<String> {
    let between = |c: char| !c.is_alphanumeric() && !"'’_-/.".contains(c);
    let words = text.split(between).map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let words = words.map(|word| word.to_lowercase().replace('’', "'"));
    words.filter(|word| EVIDENCE_WORDS.limits.contains(word)).collect()
}

/// Removes a common English ending from a word, if at least three characters remain.
fn stem(word: &str) -> &str {
    let endings = ["ation", "ing", "ed", "es", "s", "e"];
    let bare = endings.iter().find_map(|ending| word.strip_suffix(ending).filter(|bare| bare.chars().count() >= 3));
    bare.unwrap_or(word)
}

/// Returns whether a word looks like an identifier: a name in code, a path or a number.
pub(crate) fn is_identifier_like(word: &str) -> bool {
    word.bytes().any(|byte| matches!(byte, b'_' | b'/' | b'.' | b'0'..=b'9')) || has_inner_capital(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_words_are_looked_up_in_their_order() {
        assert!(EVIDENCE_WORDS.common.is_sorted());
    }

    #[test]
    fn two_texts_about_the_same_share_their_words_whatever_the_order_folder_and_line() {
        let told = WordBag::new("Edited src/plan/parser.rs:12-40, which counts tokens.");
        let done = WordBag::new("the tokens are counted by `parser.rs`, edited");
        assert!(told.share_in(&done) > 0.99 && done.share_in(&told) > 0.99);
        assert!(WordBag::new("Edited src/plan/lexer.rs").share_in(&told) < 0.5);
        assert!(WordBag::default().share_in(&told) < 0.01);
    }

    #[test]
    fn what_forbids_is_heard_however_it_is_written() {
        let limits = |text: &str| WordBag::new(text).limiting_words().iter().cloned().collect::<Vec<_>>();
        for text in ["Don't push.", "Don’t push.", "DON'T push", "please don't, ever"] {
            assert_eq!(limits(text), ["don't"], "{text}");
        }
        assert_eq!(limits("Only read; 'never' write"), ["never", "only"]);
        assert_eq!(limits("a read-only folder, src/only/once.rs"), Vec::<String>::new());
    }
}
