//! A text as the words that it is about, so that two can be compared whatever their order.

use std::collections::{BTreeSet, HashMap};

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

/// Words by which something is allowed, forbidden or limited.
const LIMITS: [&str; 24] = [
    "not", "no", "never", "don't", "don’t", "dont", "only", "once", "always", "unless", "except", "without",
    "cannot", "nothing", "nicht", "kein", "keine", "nie", "nur", "immer", "pas", "jamais", "nunca", "solo",
];

/// What a text is about: its words without their endings, and the names in it, which tell more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bag {
    words: HashMap<String, f32>,
    /// The words in it that allow, forbid or limit something.
    limits: BTreeSet<String>,
}

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
        let name = word.rsplit('/').next().unwrap_or(word);
        let word = name.to_lowercase();
        if LIMITS.contains(&word.as_str()) {
            self.limits.insert(word.clone());
        }
        if is_anchor(name) {
            self.words.insert(word, 2.0);
        } else if word.chars().count() >= 3 && !COMMON.contains(&word.as_str()) {
            self.words.insert(stem(&word).to_owned(), 1.0);
        }
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

/// A word without its ending, as far as that needs no dictionary.
fn stem(word: &str) -> &str {
    let endings = ["ation", "ing", "ed", "es", "s", "e"];
    let bare =
        endings.iter().find_map(|ending| word.strip_suffix(ending).filter(|bare| bare.chars().count() >= 3));
    bare.unwrap_or(word)
}

/// The words of a text, without the signs around them.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let between = |sign: char| sign.is_whitespace() || "`\"“”‘’«»;()[]{}<>|=→…*".contains(sign);
    let parts = text
        .split(between)
        .flat_map(|part| if is_grouped(part) { vec![part] } else { part.split(',').collect() });
    let signs = ['.', ':', '!', '?', '\'', '–', '—', '&', ','];
    parts.map(move |word| word.trim_matches(signs)).filter(|word| !word.is_empty())
}

/// Whether a word is a number in groups of three, which a comma does not part.
fn is_grouped(word: &str) -> bool {
    let digits = word.trim_matches(|sign: char| !sign.is_ascii_digit());
    let mut groups = digits.split(',');
    let first = groups.next().unwrap_or_default();
    let is_number = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    digits.contains(',')
        && first.len() <= 3
        && is_number(first)
        && groups.all(|group| group.len() >= 3 && is_number(group))
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
