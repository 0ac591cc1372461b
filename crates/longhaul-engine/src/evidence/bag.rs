//! A text as the words that it is about, so that two can be compared whatever their order.

use std::collections::{BTreeSet, HashMap};

use super::names::words;
use super::words::TABLE;

/// A shorter word that is no name says nothing of what a text is about.
const SHORTEST: usize = 3;

/// What a text is about: its words without their endings, and the names in it, which tell more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bag {
    words: HashMap<String, f32>,
    /// The words in it that allow, forbid or limit something.
    limits: BTreeSet<String>,
}

impl Bag {
    pub(crate) fn of(text: &str) -> Self {
        let mut bag = Self { limits: limits(text), ..Self::default() };
        bag.words.extend(Self::keys(text));
        bag
    }

    /// The words that a text is about, in their order and with their weights.
    pub(crate) fn keys(text: &str) -> impl Iterator<Item = (String, f32)> {
        words(text).filter_map(Self::key)
    }

    fn key(word: &str) -> Option<(String, f32)> {
        let path = match word.split_once(':') {
            // Which line of a file it is does not matter, nor in which folder the file lies.
            Some((path, line)) if line.starts_with(|sign: char| sign.is_ascii_digit()) => path,
            _ => word,
        };
        let name = path.rsplit('/').next().unwrap_or(path);
        let word = name.to_lowercase();
        if is_anchor(name) {
            return Some((word, 2.0));
        }
        let is_telling = word.chars().count() >= SHORTEST && TABLE.common.binary_search(&word).is_err();
        is_telling.then(|| (stem(&word).to_owned(), 1.0))
    }

    pub(crate) fn join(&mut self, other: &Self) {
        self.words.extend(other.words.iter().map(|(word, weight)| (word.clone(), *weight)));
    }

    /// The share of it that another has, too; nothing of nothing.
    pub(crate) fn share_in(&self, other: &Self) -> f32 {
        let all: f32 = self.words.values().sum();
        let both: f32 = self
            .words
            .iter()
            .filter(|(word, _)| other.words.contains_key(*word))
            .map(|(_, weight)| weight)
            .sum();
        if all > 0.0 { both / all } else { 0.0 }
    }

    /// The words in it by which something is allowed, forbidden or limited: without them a rule and its opposite are about the same.
    pub(crate) fn limits(&self) -> &BTreeSet<String> {
        &self.limits
    }

    /// How many words it has.
    pub(crate) fn size(&self) -> usize {
        self.words.len()
    }
}

/// The words of a text that allow, forbid or limit something. An apostrophe is a part of them, however it is written, and parts
/// others.
fn limits(text: &str) -> BTreeSet<String> {
    let between = |sign: char| !sign.is_alphanumeric() && !"'’_-/.".contains(sign);
    let words = text.split(between).map(|word| word.trim_matches(|sign: char| !sign.is_alphanumeric()));
    let words = words.map(|word| word.to_lowercase().replace('’', "'"));
    words.filter(|word| TABLE.limits.contains(word)).collect()
}

/// A word without its ending, as far as that needs no dictionary.
fn stem(word: &str) -> &str {
    let endings = ["ation", "ing", "ed", "es", "s", "e"];
    let bare =
        endings.iter().find_map(|ending| word.strip_suffix(ending).filter(|bare| bare.chars().count() >= 3));
    bare.unwrap_or(word)
}

/// Whether a word tells one thing from others: a name, a path or a number.
pub(crate) fn is_anchor(word: &str) -> bool {
    word.bytes().any(|byte| matches!(byte, b'_' | b'/' | b'.' | b'0'..=b'9'))
        || word.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_words_are_looked_up_in_their_order() {
        assert!(TABLE.common.is_sorted());
    }

    #[test]
    fn two_texts_about_the_same_share_their_words_whatever_the_order_folder_and_line() {
        let told = Bag::of("Edited src/plan/parser.rs:12-40, which counts tokens.");
        let done = Bag::of("the tokens are counted by `parser.rs`, edited");
        assert!(told.share_in(&done) > 0.99 && done.share_in(&told) > 0.99);
        assert!(Bag::of("Edited src/plan/lexer.rs").share_in(&told) < 0.5);
        assert!(Bag::default().share_in(&told) < 0.01);
    }

    #[test]
    fn what_forbids_is_heard_however_it_is_written() {
        let limits = |text: &str| Bag::of(text).limits().iter().cloned().collect::<Vec<_>>();
        for text in ["Don't push.", "Don’t push.", "DON'T push", "please don't, ever"] {
            assert_eq!(limits(text), ["don't"], "{text}");
        }
        assert_eq!(limits("Only read; 'never' write"), ["never", "only"]);
        assert_eq!(limits("a read-only folder, src/only/once.rs"), Vec::<String>::new());
    }
}
