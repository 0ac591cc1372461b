//! What stands where a secret would: blanks, references, and the words of documentation.

use serde::Deserialize;

/// What stands where a secret would.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Placeholders {
    words: Vec<String>,
    whole: Vec<String>,
    pairs: Vec<String>,
    lookups: Vec<String>,
    naming: Vec<String>,
    fillers: Vec<String>,
    prose: Vec<String>,
}

impl Placeholders {
    /// Whether the value stands for a secret instead of being one: a blank, or one of the words that only describe it.
    pub(super) fn hold(&self, value: &[u8]) -> bool {
        let whole = |value: &str| self.whole.iter().any(|whole| whole.eq_ignore_ascii_case(value.trim()));
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
        is_in(&self.naming, word)
    }

    /// Whether the word belongs to sentences.
    pub(super) fn is_prose(&self, word: &str) -> bool {
        is_in(&self.prose, word)
    }

    /// Whether the word only names or fills: a value of such words is none.
    pub(super) fn says_nothing(&self, word: &str) -> bool {
        self.is_naming(word)
            || is_in(&self.fillers, word)
            || is_in(&self.whole, word)
            || is_in(&self.words, word)
    }

    fn is_placeholder_word(&self, word: &str) -> bool {
        (3..=12).contains(&word.len()) && self.words.iter().any(|known| known.eq_ignore_ascii_case(word))
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

fn is_in(known: &[String], word: &str) -> bool {
    known.iter().any(|known| known.eq_ignore_ascii_case(word))
}
