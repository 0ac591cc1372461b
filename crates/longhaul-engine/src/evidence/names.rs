//! What a text names: identifiers, and the telling words by which two sentences are known to speak of the same.

use xxhash_rust::xxh3::xxh3_64;

use super::words::TABLE;

/// Words shorter than this tell nothing.
const TELLING: usize = 4;

/// A sentence has no more telling words than this.
const MOST: usize = 64;

/// How many words of a text are written as no word of a language is: a path, a file, an identifier.
pub(super) fn count(text: &str) -> usize {
    words(text).filter(|word| is_name(word)).count()
}

/// What a sentence says, for telling whether another says the same in other words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sense(Vec<u64>);

impl Sense {
    pub(crate) fn of(sentence: &str) -> Self {
        let mut found = Vec::new();
        for word in words(sentence) {
            let lower = word.to_lowercase();
            if lower.chars().any(is_unspaced) {
                let characters: Vec<char> = lower.chars().filter(|c| is_unspaced(*c)).collect();
                found.extend(characters.windows(2).map(|pair| xxh3_64(String::from_iter(pair).as_bytes())));
            } else if lower.len() >= TELLING && TABLE.common.binary_search(&lower).is_err() {
                // Plural and singular are one word.
                found.push(xxh3_64(lower.strip_suffix('s').unwrap_or(&lower).as_bytes()));
            }
            if found.len() >= MOST {
                break;
            }
        }
        found.sort_unstable();
        found.dedup();
        Self(found)
    }

    /// Whether another sentence says nearly all that this one does.
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        let shared = self.0.iter().filter(|hash| other.0.binary_search(hash).is_ok()).count();
        shared * 10 >= self.0.len() * 7
    }
}

/// Whether a character is of a script that puts no spaces between words.
pub(super) fn is_unspaced(character: char) -> bool {
    character >= '\u{2E80}'
}

/// The words of a text, names and paths whole.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | ':');
    text.split(move |c: char| !joins(c))
        .map(|word| word.trim_matches(['.', '-', '/', ':']))
        .filter(|word| !word.is_empty())
}

fn is_name(word: &str) -> bool {
    if word.len() < TELLING || !word.is_ascii() {
        return false;
    }
    let bytes = word.as_bytes();
    let inner = &bytes[1..bytes.len() - 1];
    let letters = bytes.iter().any(u8::is_ascii_alphabetic);
    let humps = bytes.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase());
    letters && (humps || inner.iter().any(|byte| matches!(byte, b'/' | b'_' | b'.' | b':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_identifiers_are_names_and_words_are_not() {
        assert_eq!(count("See src/plan/mod.rs, parseBody and read_file; or not. Well, then?"), 3);
        let said = Sense::of("The port is read from config.toml by parse_config");
        assert!(said.is_in(&Sense::of("So parse_config does read the port from config.toml")));
        assert!(!said.is_in(&Sense::of("The port is closed by the firewall of the host")));
    }
}
