//! Exact counts, by the public vocabularies.
//!
//! Most models are counted by `o200k_base`, so its ranks lie in the program as a table that needs no unpacking, and pieces are
//! split and merged here. The others are inside the `tiktoken` crate: one is unpacked when it is first used, which takes 10
//! to 100 ms, and kept for the life of the process.

mod class;
mod merge;
mod ranks;
mod split;

use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

use self::ranks::Ranks;
use self::split::Pieces;
use super::Tokens;

/// A public vocabulary. Those that differ only in special tokens count ordinary text alike and are one here:
/// `o200k_base` stands for `o200k_harmony`, `p50k_base` for `p50k_edit`, `r50k_base` for `gpt2`, `deepseek_v3` for
/// `deepseek_v4`, `kimi_k2` for `kimi_k3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Vocabulary {
    /// `o200k_base`.
    O200kBase,
    /// `cl100k_base`.
    Cl100kBase,
    /// `p50k_base`.
    P50kBase,
    /// `r50k_base`.
    R50kBase,
    /// `llama3`.
    Llama3,
    /// `deepseek_v3`.
    DeepseekV3,
    /// `qwen2`.
    Qwen2,
    /// `mistral_v3`.
    MistralV3,
    /// `kimi_k2`.
    KimiK2,
    /// `glm4`.
    Glm4,
    /// `glm5`.
    Glm5,
    /// `minimax_m2`.
    MinimaxM2,
}

impl Vocabulary {
    /// Every vocabulary.
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

    /// The name in data files and reports; the `tiktoken` crate knows it by the same one.
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

    /// The tokens of a text. Text that looks like a special token is ordinary text.
    ///
    /// Exact, except in an unbroken run of more than 64 KiB (one letter, spaces or punctuation over and over), where
    /// each further 64 KiB may add one or two tokens.
    #[must_use]
    pub fn count(self, text: &str) -> Tokens {
        self.count_by_windows(text, WINDOW)
    }

    fn count_by_windows(self, text: &str, window: usize) -> Tokens {
        let windows = Windows { rest: text, window };
        if self == Self::O200kBase {
            return Tokens(windows.map(count_o200k).sum());
        }
        // A name the crate does not carry is impossible while the test below passes; then nothing is counted.
        let Some(tokenizer) = tiktoken::get_encoding(self.name()) else { return Tokens::ZERO };
        Tokens(windows.map(|window| tokenizer.count(window) as u64).sum())
    }
}

/// The tokens of a text by `o200k_base`.
fn count_o200k(text: &str) -> u64 {
    static RANKS: Ranks<'_> = Ranks::read(include_bytes!(concat!(env!("OUT_DIR"), "/o200k_base")));
    COUNTED.with_borrow_mut(|counted| {
        let tokens = |piece: &[u8]| match *piece {
            [] | [_] => 1,
            [first, second] => 2 - u64::from(RANKS.of_pair(first, second).is_some()),
            _ => {
                let hash = ranks::hash(piece);
                let (known, tokens) = &mut counted[hash as usize % COUNTED_PIECES];
                if *known != hash {
                    let is_token = RANKS.of_hashed(hash).is_some();
                    (*known, *tokens) = (hash, if is_token { 1 } else { merge::count(RANKS, piece) as u64 });
                }
                *tokens
            }
        };
        Pieces { text, at: 0 }.map(tokens).sum()
    })
}

/// As many as stay in the processor's own cache.
const COUNTED_PIECES: usize = 1 << 12;

thread_local! {
    /// The tokens of pieces that were counted lately, by their hash. Most pieces of a text come again and again, and to look here
    /// is faster than to look in the whole vocabulary, or to merge again.
    static COUNTED: RefCell<Box<[(u64, u64)]>> =
        // What is in a place at first belongs into the next one, so that nothing is found there.
        RefCell::new((1..=COUNTED_PIECES as u64).map(|elsewhere| (elsewhere, 0)).collect());
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
            let known = Self::ALL.map(Self::name).join(", ");
            format!("no vocabulary `{name}`; there are {known}")
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

/// Long enough that a forced cut hardly changes a count, short enough that the merging of one piece stays in the
/// processor's cache: a piece of n bytes costs n log n.
const WINDOW: usize = 64 * 1024;

/// Parts of a text of at most so many bytes whose counts add up to the count of the whole.
///
/// Every vocabulary's pattern ends a piece between a letter and a digit, and between a word and the space before the
/// next word; the last such place in the window is where it is cut. A window without one is cut at its end.
struct Windows<'t> {
    rest: &'t str,
    window: usize,
}

impl<'t> Iterator for Windows<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = if self.rest.len() <= self.window { self.rest.len() } else { self.cut() };
        let (piece, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(piece)
    }
}

impl Windows<'_> {
    fn cut(&self) -> usize {
        let bytes = self.rest.as_bytes();
        let ends_a_piece = |at: usize| {
            let before = bytes[at - 1];
            match bytes[at] {
                b' ' => {
                    before.is_ascii_alphabetic() && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic)
                }
                letter if letter.is_ascii_alphabetic() => before.is_ascii_digit(),
                digit if digit.is_ascii_digit() => before.is_ascii_alphabetic(),
                _ => false,
            }
        };
        (1..=self.window)
            .rev()
            .find(|&at| ends_a_piece(at))
            .or_else(|| (1..=self.window).rev().find(|&at| self.rest.is_char_boundary(at)))
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
        for (vocabulary, special) in
            [(Vocabulary::O200kBase, "<|endoftext|>"), (Vocabulary::Qwen2, "<|im_start|>")]
        {
            assert!(vocabulary.count(special) > Tokens(1), "{vocabulary}");
        }
    }

    #[test]
    fn long_unbroken_runs_count_within_a_thousandth_of_the_whole() {
        let tokenizer = tiktoken::get_encoding("o200k_base").unwrap();
        for unit in ["a", " ", "\n", "=", "7", "汉", "é", " \n", "e\u{301}", "'s", "_-"] {
            let text = unit.repeat(200_000 / unit.len());
            let whole = tokenizer.count(&text) as f64;
            let ours = Vocabulary::O200kBase.count(&text).number() as f64;
            assert!((ours - whole).abs() <= whole / 1_000.0 + 1.0, "{unit:?}: {ours} for {whole}");
        }
    }

    proptest! {
        /// Words, numbers, digits in words, punctuation and newlines, cut as often as the text allows: the count of the
        /// whole. Each line begins with words, so that no window is without a legal cut.
        #[test]
        fn cutting_into_windows_changes_no_count(
            lines in prop::collection::vec("[a-zA-Z]{1,9} [a-z]{1,9} ([ -~äß漢Жا\\t]{0,12}|[0-9a-f]{20})\n{0,3}", 1..40),
            which in 0..Vocabulary::ALL.len(),
        ) {
            let vocabulary = Vocabulary::ALL[which];
            let text = lines.concat();
            let whole = tiktoken::get_encoding(vocabulary.name()).unwrap().count(&text) as u64;
            prop_assert_eq!(vocabulary.count_by_windows(&text, 96), Tokens(whole));
        }

        /// Letters with and without case, marks, contractions, white space and signs in any order, long runs included.
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
            let count = Vocabulary::ALL[which].count_by_windows(&text, 8);
            prop_assert_eq!(count == Tokens::ZERO, text.is_empty());
        }
    }
}
