//! How much a sentence tells that nothing else in the conversation tells: names, numbers and words that are said only
//! once are worth more than words that return everywhere, or that the kept messages repeat.

use std::collections::{HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64;

use super::input::CheckpointInput;
use super::weights::{
    MAX_RARITY, MAX_TELLING_SHARE, MIN_RARITY_WORD_CHARS, MIN_TELLING_TEXTS, NAME_FACTOR, RARITY_EXTRA_WORDS,
    RARITY_SCALE, VISIBLE_WORD_FACTOR,
};
use crate::evidence::{is_common_word, split_words};

/// The words of the messages of people and of the closing answers, with the number of texts that have each.
pub(super) struct WordRarity {
    words: HashMap<u64, WordUse>,
    texts: f32,
}

#[derive(Default, Clone, Copy)]
struct WordUse {
    texts: f32,
    /// Whether a text that stays in the request has the word.
    is_visible: bool,
    last_text: usize,
}

impl WordRarity {
    pub(super) fn new(input: &CheckpointInput<'_>) -> Self {
        let evidence = input.evidence;
        let answers = evidence.assistant_texts.iter().filter(|text| text.is_closing);
        let mut rarity = Self { words: HashMap::new(), texts: 0.0 };
        for (index, item) in evidence.user_messages.iter().chain(answers).enumerate() {
            let is_visible = !(input.is_summarized)(item.at.unit);
            rarity.texts += 1.0;
            for word in informative_words(item.text()) {
                let entry =
                    rarity.words.entry(word.hash).or_insert(WordUse { last_text: usize::MAX, ..WordUse::default() });
                entry.is_visible |= is_visible;
                if entry.last_text != index {
                    (entry.texts, entry.last_text) = (entry.texts + 1.0, index);
                }
            }
        }
        rarity
    }

    /// Returns the words of a text that tell what it is about: names and words that few other texts have.
    pub(super) fn telling_words(&self, text: &str) -> HashSet<u64> {
        let is_rare = |word: &InformativeWord| {
            let known = self.words.get(&word.hash).copied().unwrap_or_default();
            known.texts <= (self.texts * MAX_TELLING_SHARE).max(MIN_TELLING_TEXTS)
        };
        informative_words(text).filter(is_rare).map(|word| word.hash).collect()
    }

    /// Returns how much a sentence tells for its length, from 0 to [`MAX_RARITY`].
    pub(super) fn density(&self, sentence: &str) -> f32 {
        let most = (self.texts + 1.0).ln().max(1.0);
        let mut seen: Vec<u64> = Vec::new();
        let mut worth = 0.0;
        for word in informative_words(sentence) {
            if seen.contains(&word.hash) {
                continue;
            }
            seen.push(word.hash);
            let known = self.words.get(&word.hash).copied().unwrap_or_default();
            let rarity = ((self.texts + 1.0) / known.texts.max(1.0)).ln() / most;
            let visible = if known.is_visible { VISIBLE_WORD_FACTOR } else { 1.0 };
            worth += rarity * visible * if word.is_name { NAME_FACTOR } else { 1.0 };
        }
        let words = sentence.split_whitespace().count() as f32;
        (worth * RARITY_SCALE / (words + RARITY_EXTRA_WORDS)).min(MAX_RARITY)
    }
}

/// The words of everything that stays in the request beside the checkpoint.
#[derive(Debug, Default)]
pub(crate) struct KeptWords(HashSet<u64>);

impl KeptWords {
    pub(super) fn collect(input: &CheckpointInput<'_>) -> Self {
        let mut words = HashSet::new();
        (input.visit_kept_texts)(&mut |text| words.extend(informative_words(text).map(|word| word.hash)));
        Self(words)
    }

    /// Returns how much a text tells, for its length, that the request does not have anyway.
    pub(super) fn news(&self, text: &str) -> f64 {
        let mut seen = HashSet::new();
        let told = informative_words(text).filter(|word| seen.insert(word.hash)).map(|word| {
            let visible = if self.0.contains(&word.hash) { VISIBLE_WORD_FACTOR } else { 1.0 };
            visible * if word.is_name { NAME_FACTOR } else { 1.0 }
        });
        let told: f32 = told.sum();
        f64::from(told / (text.split_whitespace().count() as f32 + RARITY_EXTRA_WORDS))
    }
}

struct InformativeWord {
    hash: u64,
    /// Whether it is a number, or written like a name.
    is_name: bool,
}

fn informative_words(text: &str) -> impl Iterator<Item = InformativeWord> {
    split_words(text).filter_map(|word| {
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        let lower = word.to_lowercase();
        if !has_digit && (lower.chars().count() < MIN_RARITY_WORD_CHARS || is_common_word(&lower)) {
            return None;
        }
        let is_name = has_digit || word.chars().next().is_some_and(char::is_uppercase);
        Some(InformativeWord { hash: xxh3_64(lower.trim_end_matches("'s").as_bytes()), is_name })
    })
}
