//! A text as the words that it is about, so that two can be compared whatever their order.

use std::collections::HashMap;

/// Words that say nothing of what a text is about.
const COMMON: [&str; 64] = [
    "the",
    "and",
    "for",
    "with",
    "from",
    "are",
    "was",
    "were",
    "been",
    "its",
    "this",
    "that",
    "these",
    "those",
    "not",
    "yet",
    "still",
    "also",
    "first",
    "then",
    "but",
    "into",
    "out",
    "than",
    "any",
    "all",
    "each",
    "one",
    "has",
    "have",
    "had",
    "does",
    "did",
    "done",
    "get",
    "see",
    "whether",
    "which",
    "who",
    "what",
    "where",
    "when",
    "there",
    "their",
    "they",
    "them",
    "his",
    "her",
    "user",
    "will",
    "would",
    "should",
    "can",
    "could",
    "may",
    "must",
    "need",
    "needs",
    "needed",
    "remaining",
    "remain",
    "open",
    "outstanding",
    "left",
];

/// What a text is about: its words without their endings, and the names in it, which tell more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bag(HashMap<String, f32>);

impl Bag {
    pub(crate) fn of(text: &str) -> Self {
        let mut bag = Self::default();
        for word in words(text).flat_map(|word| word.split(['+', '\\', '@'])) {
            bag.add(word);
        }
        bag
    }

    fn add(&mut self, word: &str) {
        let word = without_line(word).trim_matches(|sign: char| !sign.is_alphanumeric() && sign != '_');
        let word = word.rsplit('/').next().unwrap_or(word).to_lowercase();
        if is_anchor(&word) {
            self.0.insert(word, 2.0);
        } else if word.chars().count() >= 3 && !COMMON.contains(&word.as_str()) {
            self.0.insert(stem(&word).to_owned(), 1.0);
        }
    }

    pub(crate) fn join(&mut self, other: &Self) {
        self.0.extend(other.0.iter().map(|(word, weight)| (word.clone(), *weight)));
    }

    /// The share of it that another has, too; nothing of nothing.
    pub(crate) fn share_in(&self, other: &Self) -> f32 {
        let all: f32 = self.0.values().sum();
        let both: f32 =
            self.0.iter().filter(|(word, _)| other.0.contains_key(*word)).map(|(_, weight)| weight).sum();
        if all > 0.0 { both / all } else { 0.0 }
    }

    /// How many words it has.
    pub(crate) fn size(&self) -> usize {
        self.0.len()
    }
}

/// A word without its ending, as far as that needs no dictionary.
fn stem(word: &str) -> &str {
    let endings = ["ation", "ing", "ed", "es", "s", "e"];
    let bare =
        endings.iter().find_map(|ending| word.strip_suffix(ending).filter(|bare| bare.chars().count() >= 3));
    bare.unwrap_or(word)
}

/// The words of a text, without the signs around them.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|sign: char| sign.is_whitespace() || "`\"“”‘’«»,;()[]{}<>|=→…*".contains(sign));
    parts
        .map(|word| word.trim_matches(['.', ':', '!', '?', '\'', '–', '—', '&']))
        .filter(|word| !word.is_empty())
}

/// A path without the line or range behind it: `a.rs:12-40`.
pub(crate) fn without_line(word: &str) -> &str {
    let bare = word.trim_end_matches(|sign: char| sign.is_ascii_digit() || "-:–,L".contains(sign));
    if bare.len() < word.len() && word[bare.len()..].starts_with(':') { bare } else { word }
}

/// Whether a word is worth looking for in what was done: a name, a path or a number, or more than a few letters.
pub(crate) fn is_anchor(word: &str) -> bool {
    word.bytes().any(|byte| matches!(byte, b'_' | b'/' | b'.' | b'0'..=b'9'))
        || word.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}
