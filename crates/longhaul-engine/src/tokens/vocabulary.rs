//! Counts tokens exactly, by the public vocabularies.
//!
//! Most models are counted by `o200k_base`. So its ranks are compiled into the program as a table that needs
//! no unpacking, and the text is split and merged here. The other vocabularies are in the `tiktoken` crate:
//! each is unpacked at first use, which takes 10 to 100 ms, and then stays in memory.

mod class;
mod merge;
mod pretokens;
mod ranks;

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use self::pretokens::PreTokens;
use self::ranks::Ranks;
use super::Tokens;

/// A public vocabulary. Vocabularies that differ only in special tokens count ordinary text alike and share a
/// variant: `o200k_harmony` is `o200k_base`, `p50k_edit` is `p50k_base`, `gpt2` is `r50k_base`, `deepseek_v4`
/// is `deepseek_v3`, and `kimi_k3` is `kimi_k2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Vocabulary {
    /// The vocabulary `o200k_base`.
    O200kBase,
    /// The vocabulary `cl100k_base`.
    Cl100kBase,
    /// The vocabulary `p50k_base`.
    P50kBase,
    /// The vocabulary `r50k_base`.
    R50kBase,
    /// The vocabulary `llama3`.
    Llama3,
    /// The vocabulary `deepseek_v3`.
    DeepseekV3,
    /// The vocabulary `qwen2`.
    Qwen2,
    /// The vocabulary `mistral_v3`.
    MistralV3,
    /// The vocabulary `kimi_k2`.
    KimiK2,
    /// The vocabulary `glm4`.
    Glm4,
    /// The vocabulary `glm5`.
    Glm5,
    /// The vocabulary `minimax_m2`.
    MinimaxM2,
}

impl Vocabulary {
    /// All vocabularies.
    pub const ALL: [Self; 12] = [
        Self::O200kBase,
        Self::Cl100kBase,
        Self::P50kBase,
        Self::R50kBase,
        Self::Llama3,
        Self::DeepseekV3,
        Self::Qwen2,
        Self::MistralV3,
        Self::KimiK2,
        Self::Glm4,
        Self::Glm5,
        Self::MinimaxM2,
    ];

    /// Returns the name in data files and reports, which is also the name in the `tiktoken` crate.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::O200kBase => "o200k_base",
            Self::Cl100kBase => "cl100k_base",
            Self::P50kBase => "p50k_base",
            Self::R50kBase => "r50k_base",
            Self::Llama3 => "llama3",
            Self::DeepseekV3 => "deepseek_v3",
            Self::Qwen2 => "qwen2",
            Self::MistralV3 => "mistral_v3",
            Self::KimiK2 => "kimi_k2",
            Self::Glm4 => "glm4",
            Self::Glm5 => "glm5",
            Self::MinimaxM2 => "minimax_m2",
        }
    }

    /// Counts the tokens of a text. Text that looks like a special token counts as ordinary text.
    ///
    /// The count is exact, except in a run of more than 64 KiB without a place to cut (the same letter,
    /// spaces or punctuation over and over): there each further 64 KiB may add one or two tokens.
    #[must_use]
    pub fn count(self, text: &str) -> Tokens {
        self.count_in_chunks(text, MAX_CHUNK_BYTES)
    }

    fn count_in_chunks(self, text: &str, window: usize) -> Tokens {
        let windows = Chunks { rest: text, max_bytes: window };
        if self == Self::O200kBase {
            return Tokens(windows.map(count_o200k).sum());
        }
        // A test checks that the crate has every vocabulary, so this does not happen.
        let Some(tokenizer) = tiktoken::get_encoding(self.name()) else { return Tokens::ZERO };
        Tokens(windows.map(|window| tokenizer.count(window) as u64).sum())
    }
}

/// Counts the tokens of a text by `o200k_base`.
fn count_o200k(text: &str) -> u64 {
    static RANKS: Ranks<'_> = Ranks::from_bytes(include_bytes!(concat!(env!("OUT_DIR"), "/o200k_base")));
    RECENT_COUNTS.with_borrow_mut(|counted| {
        let tokens = |piece: &[u8]| match *piece {
            [] | [_] => 1,
            [first, second] => 2 - u64::from(RANKS.rank_of_pair(first, second).is_some()),
            _ => {
                let hash = ranks::hash_token(piece);
                let (stored_hash, tokens) = &mut counted[hash as usize % RECENT_COUNTS_LEN];
                if *stored_hash != hash {
                    let is_token = RANKS.rank_of_hash(hash).is_some();
                    (*stored_hash, *tokens) =
                        (hash, if is_token { 1 } else { merge::count_tokens(RANKS, piece) as u64 });
                }
                *tokens
            }
        };
        PreTokens { text, at: 0 }.map(tokens).sum()
    })
}

/// The number of recent counts for each thread. They fit into the processor's cache.
const RECENT_COUNTS_LEN: usize = 1 << 12;

thread_local! {
    /// The token counts of recent pre-tokens, at an index given by their hash. Most pre-tokens of a text
    /// repeat, and reading this array is faster than searching the vocabulary or merging again.
    static RECENT_COUNTS: RefCell<Box<[(u64, u64)]>> =
        // Each slot starts with a hash that belongs to the next slot, so no lookup can match it.
        RefCell::new((1..=RECENT_COUNTS_LEN as u64).map(|elsewhere| (elsewhere, 0)).collect());
}

impl fmt::Display for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Vocabulary {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|v| v.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no vocabulary `{name}`; there are {names}")
        })
    }
}

impl TryFrom<String> for Vocabulary {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<Vocabulary> for &'static str {
    fn from(vocabulary: Vocabulary) -> Self {
        vocabulary.name()
    }
}

/// The maximum size of a chunk, in bytes. Long enough that a forced cut hardly changes the count, and short
/// enough that the merging of one pre-token stays in the processor's cache: a pre-token of n bytes costs n
/// log n.
const MAX_CHUNK_BYTES: usize = 64 * 1024;

/// Cuts a text into chunks of at most `max_bytes`, whose counts add up to the count of the whole.
///
/// Every vocabulary ends a pre-token between a letter and a digit, and between a word and the space before
/// the next word. A chunk ends at the last such place. Without one, it ends at its maximum size.
struct Chunks<'t> {
    rest: &'t str,
    max_bytes: usize,
}

impl<'t> Iterator for Chunks<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = if self.rest.len() <= self.max_bytes { self.rest.len() } else { self.find_cut() };
        let (piece, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(piece)
    }
}

impl Chunks<'_> {
    fn find_cut(&self) -> usize {
        let bytes = self.rest.as_bytes();
        let ends_a_piece = |at: usize| {
            let before = bytes[at - 1];
            match bytes[at] {
                b' ' => before.is_ascii_alphabetic() && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic),
                request if request.is_ascii_alphabetic() => before.is_ascii_digit(),
                digit if digit.is_ascii_digit() => before.is_ascii_alphabetic(),
                _ => false,
            }
        };
        (1..=self.max_bytes)
            .rev()
            .find(|&at| ends_a_piece(at))
            .or_else(|| (1..=self.max_bytes).rev().find(|&at| self.rest.is_char_boundary(at)))
            .unwrap_or(self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Tokens, Vocabulary};

    #[test]
    fn every_vocabulary_is_in_the_crate_and_has_its_name() {
        for vocabulary in Vocabulary::ALL {
            assert_eq!(vocabulary.name().parse(), Ok(vocabulary));
            assert_ne!(vocabulary.count("hello"), Tokens::ZERO, "{vocabulary}");
        }
        assert!("gpt-9".parse::<Vocabulary>().unwrap_err().contains("o200k_base, cl100k_base"));
    }

    #[test]
    fn text_that_looks_like_a_special_token_is_ordinary_text() {
        for (vocabulary, special) in [(Vocabulary::O200kBase, "<|endoftext|>"), (Vocabulary::Qwen2, "<|im_start|>")] {
            assert!(vocabulary.count(special) > Tokens(1), "{vocabulary}");
        }
    }

    #[test]
    fn long_unbroken_runs_count_within_a_thousandth_of_the_whole() {
        let tokenizer = tiktoken::get_encoding("o200k_base").unwrap();
        for turn in ["a", " ", "\n", "=", "7", "汉", "é", " \n", "e\u{301}", "'s", "_-"] {
            let text = turn.repeat(200_000 / turn.len());
            let whole = tokenizer.count(&text) as f64;
            let ours = Vocabulary::O200kBase.count(&text).number() as f64;
            assert!((ours - whole).abs() <= whole / 1_000.0 + 1.0, "{turn:?}: {ours} for {whole}");
        }
    }

    proptest! {
        /// Words, numbers, digits in words, punctuation and newlines, cut as often as the text allows, count
        /// as much as the whole. Each line begins with words, so that every chunk has a place to cut.
        #[test]
        fn cutting_into_windows_changes_no_count(
            lines in prop::collection::vec("[a-zA-Z]{1,9} [a-z]{1,9} ([ -~äß漢Жا\\t]{0,12}|[0-9a-f]{20})\n{0,3}", 1..40),
            which in 0..Vocabulary::ALL.len(),
        ) {
            let vocabulary = Vocabulary::ALL[which];
            let text = lines.concat();
            let whole = tiktoken::get_encoding(vocabulary.name()).unwrap().count(&text) as u64;
            prop_assert_eq!(vocabulary.count_in_chunks(&text, 96), Tokens(whole));
        }

        /// Letters with and without case, combining marks, contractions, white space and symbols in any
        /// order, with long runs.
        #[test]
        fn o200k_splits_and_merges_as_the_crate_does(
            pieces in prop::collection::vec(
                prop_oneof![
                    "[a-zA-Z0-9 ]{1,6}", "\\PC{1,3}", "['’](s|S|ſ|T|re|VE|m|ll|d|x)?", "[ \t\r\n\u{a0}\u{2028}/]{1,4}",
                    "[ÄßǅʰαΩЖя汉ا\u{301}\u{483}\u{20dd}²Ⅷ٣_.,:;({-]{1,4}", "[a-f0-9]{1,90}",
                    Just("=".repeat(70)), Just("ab".repeat(40)), Just("é".repeat(40)), Just("\0".repeat(8)),
                ],
                0..24,
            ),
        ) {
            let text = pieces.concat();
            let crate_says = tiktoken::get_encoding("o200k_base").unwrap().count(&text) as u64;
            prop_assert_eq!(Vocabulary::O200kBase.count(&text), Tokens(crate_says));
        }

        #[test]
        fn any_text_counts_without_panic_and_never_as_nothing(text in any::<String>(), which in 0..Vocabulary::ALL.len()) {
            let count = Vocabulary::ALL[which].count_in_chunks(&text, 8);
            prop_assert_eq!(count == Tokens::ZERO, text.is_empty());
        }
    }
}
