//! Splits a text into words, counts its identifiers, and computes fingerprints by which two sentences with
//! the same content are recognized.

use xxhash_rust::xxh3::xxh3_64;

use super::weights::{COVERED_PERCENT, MAX_FINGERPRINT_WORDS, MIN_WORD_BYTES};
use super::words::EVIDENCE_WORDS;

/// Counts the words of a text that are identifiers, such as a path, a file name or a name in code.
pub(super) fn count_identifiers(text: &str) -> usize {
    split_words(text).filter(|word| is_identifier(word)).count()
}

/// The hashes of a sentence's words, to detect that another sentence says the same in other words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentenceFingerprint(Vec<u64>);

impl SentenceFingerprint {
    pub(crate) fn new(sentence: &str) -> Self {
        let mut found = Vec::new();
        for word in split_words(sentence) {
            let lower = word.to_lowercase();
            if lower.chars().any(is_unspaced_script) {
                let characters: Vec<char> = lower.chars().filter(|c| is_unspaced_script(*c)).collect();
                found.extend(characters.windows(2).map(|pair| xxh3_64(String::from_iter(pair).as_bytes())));
            } else if lower.len() >= MIN_WORD_BYTES && EVIDENCE_WORDS.common.binary_search(&lower).is_err() {
                // A plural and its singular count as one word.
                found.push(xxh3_64(lower.strip_suffix('s').unwrap_or(&lower).as_bytes()));
            }
            if found.len() >= MAX_FINGERPRINT_WORDS {
                break;
            }
        }
        found.sort_unstable();
        found.dedup();
        Self(found)
    }

    /// Returns whether the other sentence has most of the words of this one.
    pub(crate) fn is_covered_by(&self, other: &Self) -> bool {
        let shared = self.0.iter().filter(|hash| other.0.binary_search(hash).is_ok()).count();
        shared * 100 >= self.0.len() * COVERED_PERCENT
    }
}

/// Returns whether a character belongs to a script without spaces between words, such as Chinese or Japanese.
pub(super) fn is_unspaced_script(character: char) -> bool {
    character >= '\u{2E80}'
}

/// Splits a text into words. Identifiers and paths stay whole.
pub(crate) fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | ':');
    text.split(move |c: char| !joins(c))
        .map(|word| word.trim_matches(['.', '-', '/', ':']))
        .filter(|word| !word.is_empty())
}

/// Returns whether a word is written like a name in code or a path.
pub(crate) fn is_identifier(word: &str) -> bool {
    if word.len() < MIN_WORD_BYTES || !word.is_ascii() {
        return false;
    }
    let bytes = word.as_bytes();
    let inner = &bytes[1..bytes.len() - 1];
    let letters = bytes.iter().any(u8::is_ascii_alphabetic);
    letters && (has_inner_capital(word) || inner.iter().any(|byte| matches!(byte, b'/' | b'_' | b'.' | b':')))
}

/// Returns whether a capital letter follows a small one, as in `parseBody`.
pub(crate) fn has_inner_capital(word: &str) -> bool {
    word.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_identifiers_are_names_and_words_are_not() {
        assert_eq!(count_identifiers("See src/plan/mod.rs, parseBody and read_file; or not. Well, then?"), 3);
        let said = SentenceFingerprint::new("The port is read from config.toml by parse_config");
        assert!(said.is_covered_by(&SentenceFingerprint::new("So parse_config does read the port from config.toml")));
        assert!(!said.is_covered_by(&SentenceFingerprint::new("The port is closed by the firewall of the host")));
    }
}
