//! The words that a task is about. Lines with these words are preferred in a digest.

use super::words::OUTPUT_WORDS;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// The number of words of a focus. It is the number of bits in the mask of [`Focus::count_hits`].
const MAX_WORDS: usize = 64;

/// The words and paths that a task is about, from texts that the caller chooses.
#[derive(Clone, Debug, Default)]
pub struct Focus {
    finder: Option<AhoCorasick>,
    word_count: usize,
}

impl Focus {
    /// Returns an empty focus, with which every line counts only by its own content.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Builds the focus of these texts. The most important text comes first, because only 64 words are kept.
    #[must_use]
    pub fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words: Vec<String> = Vec::new();
        for text in texts {
            let parts = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-')));
            for word in parts.map(|word| word.trim_matches(['.', '-', '/']).to_lowercase()) {
                let telling = word.chars().count() >= 4 && !OUTPUT_WORDS.common.contains(&word);
                if telling && words.len() < MAX_WORDS && !words.contains(&word) {
                    words.push(word);
                }
            }
        }
        let mut finder = AhoCorasick::builder();
        finder.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest);
        // The automaton is built for every output and reads a page or two. A table of all transitions would
        // cost more than it saves.
        finder.kind(Some(AhoCorasickKind::ContiguousNFA));
        let finder = if words.is_empty() { None } else { finder.build(&words).ok() };
        Self { finder, word_count: words.len() }
    }

    /// Returns whether there are no words to search for.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.finder.is_none()
    }

    /// Counts how many different words of the focus occur in a line.
    #[must_use]
    pub fn count_hits(&self, line: &str) -> usize {
        let Some(finder) = &self.finder else { return 0 };
        let mut seen = 0u64;
        for hit in finder.find_iter(line) {
            seen |= 1 << (hit.pattern().as_usize() % MAX_WORDS);
        }
        (seen.count_ones() as usize).min(self.word_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telling_words_are_found_whatever_their_case() {
        let focus = Focus::from_texts(["Why is the debug timing in src/cache.rs off?"]);
        assert_eq!(focus.count_hits("DEBUG timing: 3 ms"), 2);
        assert_eq!(focus.count_hits("see src/cache.rs"), 1);
        assert_eq!(focus.count_hits("the is in"), 0);
        assert!(Focus::from_texts(["is it so"]).is_none());
    }
}
