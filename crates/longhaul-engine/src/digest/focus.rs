//! What the task is about: it decides which lines are worth their tokens.

use super::words::WORDS;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

/// More words than this no longer say what a task is about.
const MOST_WORDS: usize = 64;

/// The words and paths that the newest user turns and the next replies are about.
#[derive(Clone, Debug, Default)]
pub struct Focus {
    finder: Option<AhoCorasick>,
    words: usize,
}

impl Focus {
    /// No focus: every line counts by what it says alone.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The focus of these texts, the most telling text first.
    #[must_use]
    pub fn on<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut words: Vec<String> = Vec::new();
        for text in texts {
            let parts = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-')));
            for word in parts.map(|word| word.trim_matches(['.', '-', '/']).to_lowercase()) {
                let telling = word.chars().count() >= 4 && !WORDS.common.contains(&word);
                if telling && words.len() < MOST_WORDS && !words.contains(&word) {
                    words.push(word);
                }
            }
        }
        let mut finder = AhoCorasick::builder();
        finder.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest);
        // It is built for every output and reads a page or two: a table of all transitions costs more than it saves.
        finder.kind(Some(AhoCorasickKind::ContiguousNFA));
        let finder = if words.is_empty() { None } else { finder.build(&words).ok() };
        Self { finder, words: words.len() }
    }

    /// Whether there is nothing to look for.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.finder.is_none()
    }

    /// How many of the words stand in this line.
    #[must_use]
    pub fn hits(&self, line: &str) -> usize {
        let Some(finder) = &self.finder else { return 0 };
        let mut seen = 0u64;
        for hit in finder.find_iter(line) {
            seen |= 1 << (hit.pattern().as_usize() % MOST_WORDS);
        }
        (seen.count_ones() as usize).min(self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telling_words_are_found_whatever_their_case() {
        let focus = Focus::on(["Why is the debug timing in src/cache.rs off?"]);
        assert_eq!(focus.hits("DEBUG timing: 3 ms"), 2);
        assert_eq!(focus.hits("see src/cache.rs"), 1);
        assert_eq!(focus.hits("the is in"), 0);
        assert!(Focus::on(["is it so"]).is_none());
    }
}
