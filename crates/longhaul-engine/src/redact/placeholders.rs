//! Placeholders: values in the place of a secret that are none, such as references, templates, and words of
//! documentation.

use std::collections::HashMap;

use serde::Deserialize;

use super::examined::examined_part;

/// The values and words that show that a value is a placeholder.
#[derive(Deserialize)]
#[serde(from = "PlaceholdersRow")]
pub(super) struct Placeholders {
    /// For each word in lower case the lists that contain it, as bits.
    lists: HashMap<Box<[u8]>, u8>,
    pairs: Vec<String>,
    lookups: Vec<String>,
}

/// The table `placeholders` of `rules.toml`, which documents each list.
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

const WORD_LIST: u8 = 1;
const WHOLE_VALUE_LIST: u8 = 2;
const SECRET_WORD_LIST: u8 = 4;
const FILLER_LIST: u8 = 8;
const PROSE_LIST: u8 = 16;

/// The maximum length in bytes of a word in the lists. A longer word is in none of them.
const MAX_WORD_BYTES: usize = 24;

impl From<PlaceholdersRow> for Placeholders {
    fn from(row: PlaceholdersRow) -> Self {
        let mut lists: HashMap<Box<[u8]>, u8> = HashMap::new();
        for (list, words) in [
            (WORD_LIST, row.words),
            (WHOLE_VALUE_LIST, row.whole),
            (SECRET_WORD_LIST, row.naming),
            (FILLER_LIST, row.fillers),
            (PROSE_LIST, row.prose),
        ] {
            for word in words {
                *lists.entry(word.to_ascii_lowercase().into_bytes().into()).or_default() |= list;
            }
        }
        Self { lists, pairs: row.pairs, lookups: row.lookups }
    }
}

impl Placeholders {
    /// Whether the value is a placeholder: a reference, a template, or as a whole a word that describes a
    /// secret.
    pub(super) fn is_placeholder(&self, value: &[u8]) -> bool {
        let value = examined_part(value);
        let whole = |value: &str| self.is_listed(WHOLE_VALUE_LIST, value.trim());
        self.is_reference_or_template(value) || std::str::from_utf8(value).is_ok_and(whole)
    }

    /// Whether the value refers to a secret that is stored elsewhere, or says that one should be filled in.
    pub(super) fn is_reference_or_template(&self, value: &[u8]) -> bool {
        let Ok(value) = std::str::from_utf8(&value[..value.len().min(120)]) else { return false };
        let value = value.trim();
        self.is_reference(value)
            || value.split(|c: char| !c.is_ascii_alphabetic()).any(|word| self.is_placeholder_word(word))
    }

    /// Whether the word means a secret, in one of many languages.
    pub(super) fn is_secret_word(&self, word: &str) -> bool {
        self.is_listed(SECRET_WORD_LIST, word)
    }

    /// Whether the word is common in sentences.
    pub(super) fn is_prose_word(&self, word: &str) -> bool {
        self.is_listed(PROSE_LIST, word)
    }

    /// Whether the word names a secret or is a filler. A value that has only such words is no secret.
    pub(super) fn is_uninformative(&self, word: &str) -> bool {
        self.is_listed(SECRET_WORD_LIST | FILLER_LIST | WHOLE_VALUE_LIST | WORD_LIST, word)
    }

    /// Whether one of these lists has the word, in any case.
    fn is_listed(&self, lists: u8, word: &str) -> bool {
        let mut lower = [0; MAX_WORD_BYTES];
        let Some(lower) = lower.get_mut(..word.len()) else { return false };
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        self.lists.get(&*lower).is_some_and(|held| held & lists != 0)
    }

    fn is_placeholder_word(&self, word: &str) -> bool {
        (3..=12).contains(&word.len()) && self.is_listed(WORD_LIST, word)
    }

    fn is_reference(&self, value: &str) -> bool {
        let bytes = value.as_bytes();
        let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else { return true };
        let wrapped = matches!((first, last), (b'<', _) | (b'{', b'}') | (b'[', b']') | (b'%', b'%') | (b'(', b')'));
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

    /// Whether documentation uses this pair, such as `user:password`, to show how a pair is written.
    pub(super) fn is_placeholder_pair(&self, pair: &str) -> bool {
        self.pairs.iter().any(|listed| listed.eq_ignore_ascii_case(pair))
    }
}
