//! The topic that a user asked a compaction to keep above all else: `--focus 'database schema'`.

use aho_corasick::{AhoCorasick, MatchKind};

use super::weights::MIN_SUBSTRING_CHARS;
use crate::evidence::is_filler_word;

/// A search for the words of a topic.
#[derive(Debug, Clone)]
pub struct Topic {
    finder: AhoCorasick,
}

impl Topic {
    /// Builds a topic from the user's words; `None` if they contain no word. Filler words count only if there
    /// are no others.
    #[must_use]
    pub fn parse(words: &str) -> Option<Self> {
        let all: Vec<String> = words
            .split(|c: char| !(c.is_alphanumeric() || c == '_'))
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let telling: Vec<String> = all.iter().filter(|word| !is_filler_word(word)).cloned().collect();
        let words = if telling.is_empty() { all } else { telling };
        let forms: Vec<String> = words.iter().flat_map(|word| [strip_plural(word), word.to_uppercase()]).collect();
        let mut finder = AhoCorasick::builder();
        finder.ascii_case_insensitive(true).match_kind(MatchKind::Standard);
        if forms.is_empty() { None } else { finder.build(&forms).ok().map(|finder| Self { finder }) }
    }

    /// Returns whether a text contains one of the topic's words.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.finder.find_overlapping_iter(text).any(|hit| {
            let word = &text[hit.range()];
            word.chars().count() >= MIN_SUBSTRING_CHARS || !word.is_ascii() || {
                let joined = |c: char| c.is_alphanumeric();
                !text[..hit.start()].chars().next_back().is_some_and(joined)
                    && !text[hit.end()..].chars().next().is_some_and(joined)
            }
        })
    }
}

/// Removes a plural `s`, so that `schemas` also finds `schema`.
fn strip_plural(word: &str) -> String {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > MIN_SUBSTRING_CHARS && !stem.ends_with('s') => stem.to_owned(),
        _ => word.to_owned(),
    }
}
