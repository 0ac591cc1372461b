//! What stands where a secret would: blanks, references, and the words of documentation.

use std::collections::HashMap;

use serde::Deserialize;

use super::judged::judged;

/// What stands where a secret would.
#[derive(Deserialize)]
#[serde(from = "PlaceholdersRow")]
pub(super) struct Placeholders {
    /// The lists that hold a word, as bits; words are in lower case.
    lists: HashMap<Box<[u8]>, u8>,
    pairs: Vec<String>,
    lookups: Vec<String>,
}

/// `placeholders` in `rules.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceholdersRow {
    words: Vec<String>,
    whole: Vec<String>,
    pairs: Vec<String>,
    lookups: Vec<String>,
    naming: Vec<String>,
    fillers: Vec<String>,
    prose: Vec<String>,
}

const WORDS: u8 = 1;
const WHOLE: u8 = 2;
const NAMING: u8 = 4;
const FILLERS: u8 = 8;
const PROSE: u8 = 16;

/// No word of the lists is longer, in bytes.
const LONGEST_WORD: usize = 24;

impl From<PlaceholdersRow> for Placeholders {
    fn from(row: PlaceholdersRow) -> Self {
        let mut lists: HashMap<Box<[u8]>, u8> = HashMap::new();
        for (list, words) in [
            (WORDS, row.words),
            (WHOLE, row.whole),
            (NAMING, row.naming),
            (FILLERS, row.fillers),
            (PROSE, row.prose),
        ] {
            for word in words {
                *lists.entry(word.to_ascii_lowercase().into_bytes().into()).or_default() |= list;
            }
        }
        Self { lists, pairs: row.pairs, lookups: row.lookups }
    }
}

impl Placeholders {
    /// Whether the value stands for a secret instead of being one: a blank, or one of the words that only describe it.
    pub(super) fn hold(&self, value: &[u8]) -> bool {
        let value = judged(value);
        let whole = |value: &str| self.is_in(WHOLE, value.trim());
        self.is_blank(value) || std::str::from_utf8(value).is_ok_and(whole)
    }

    /// Whether the value refers to a secret that is kept elsewhere, or says that one should be filled in.
    pub(super) fn is_blank(&self, value: &[u8]) -> bool {
        let Ok(value) = std::str::from_utf8(&value[..value.len().min(120)]) else { return false };
        let value = value.trim();
        self.is_reference(value)
            || value.split(|c: char| !c.is_ascii_alphabetic()).any(|word| self.is_placeholder_word(word))
    }

    /// Whether the word names a secret, in one of many languages.
    pub(super) fn is_naming(&self, word: &str) -> bool {
        self.is_in(NAMING, word)
    }

    /// Whether the word belongs to sentences.
    pub(super) fn is_prose(&self, word: &str) -> bool {
        self.is_in(PROSE, word)
    }

    /// Whether the word only names or fills: a value of such words is none.
    pub(super) fn says_nothing(&self, word: &str) -> bool {
        self.is_in(NAMING | FILLERS | WHOLE | WORDS, word)
    }

    /// Whether one of these lists has the word, in any case.
    fn is_in(&self, lists: u8, word: &str) -> bool {
        let mut lower = [0; LONGEST_WORD];
        let Some(lower) = lower.get_mut(..word.len()) else { return false };
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        self.lists.get(&*lower).is_some_and(|held| held & lists != 0)
    }

    fn is_placeholder_word(&self, word: &str) -> bool {
        (3..=12).contains(&word.len()) && self.is_in(WORDS, word)
    }

    fn is_reference(&self, value: &str) -> bool {
        let bytes = value.as_bytes();
        let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return true };
        let wrapped =
            matches!((first, last), (b'<', _) | (b'{', b'}') | (b'[', b']') | (b'%', b'%') | (b'(', b')'));
        let variable = first == b'$'
            && bytes[1..].iter().all(|byte| byte.is_ascii_alphanumeric() || b"_{}():.-/?#".contains(byte))
            && !bytes.get(1).is_some_and(u8::is_ascii_digit);
        let template = ["${", "$(", "{{", "#{", "<%", "[REDACTED"].iter().any(|mark| value.contains(mark))
            || (value.len() < 12 && ["%s", "%d", "%v"].iter().any(|mark| value.contains(mark)));
        let brace = bytes.contains(&b'{') && bytes.contains(&b'}');
        wrapped
            || variable
            || template
            || brace
            || self.lookups.iter().any(|start| value.starts_with(start.as_str()))
            || bytes.iter().all(|byte| b"*.-_#= ".contains(byte))
    }

    /// `user:password` and the like, where documentation shows how to write a pair.
    pub(super) fn hold_pair(&self, pair: &str) -> bool {
        self.pairs.iter().any(|known| known.eq_ignore_ascii_case(pair))
    }
}
