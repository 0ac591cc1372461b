//! What a text names: files, identifiers and telling words, as hashes, so that who used what later is a look-up.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// How often and how lately later turns named something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Uses {
    /// How many later units named it.
    pub times: u32,
    /// The last unit that did, or its own.
    pub last: usize,
}

/// A text names no more than this: what names everything says nothing about any of it.
const MOST_NAMES: usize = 1_000;

/// Words shorter than this tell nothing.
const TELLING: usize = 4;

/// The files and identifiers that a text names, each once.
pub(super) fn names(text: &str) -> Vec<u64> {
    let mut found: Vec<u64> = words(text).filter(|word| is_name(word)).map(name).take(MOST_NAMES).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The name of a path as others may write it: its last two parts, or all there is.
pub(super) fn name(path: &str) -> u64 {
    let mut cuts = path.rmatch_indices('/').map(|(at, _)| at);
    let start = cuts.nth(1).map_or(0, |at| at + 1);
    xxh3_64(&path.as_bytes()[start..])
}

/// The names under which a path may be spoken of: with its folder and without.
pub(super) fn names_of_path(path: &str) -> [u64; 2] {
    let base = path.rsplit('/').next().unwrap_or(path);
    [name(path), name(base)]
}

/// The telling words of a text, whatever their case; in scripts without spaces, pairs of characters.
pub(super) fn telling(text: &str) -> Vec<u64> {
    let mut found = Vec::new();
    let mut lower = String::new();
    for word in words(text) {
        if word.is_ascii() {
            if word.len() < TELLING {
                continue;
            }
            lower.clear();
            lower.push_str(word);
            lower.make_ascii_lowercase();
        } else {
            lower = word.to_lowercase();
        }
        if lower.chars().any(is_unspaced) {
            let characters: Vec<char> = lower.chars().filter(|c| is_unspaced(*c)).collect();
            found.extend(characters.windows(2).map(|pair| xxh3_64(String::from_iter(pair).as_bytes())));
        } else if lower.chars().count() >= TELLING && !COMMON.contains(&lower.as_str()) {
            // Plural and singular are one word.
            found.push(xxh3_64(lower.strip_suffix('s').unwrap_or(&lower).as_bytes()));
        }
        if found.len() >= MOST_NAMES {
            break;
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// All words of a text but those that only join others: for sentences so short that each word counts.
pub(super) fn content(text: &str) -> Vec<u64> {
    let mut found = Vec::new();
    for word in words(text) {
        let lower = word.to_lowercase();
        if lower.chars().any(is_unspaced) {
            let characters: Vec<char> = lower.chars().filter(|c| is_unspaced(*c)).collect();
            found.extend(characters.windows(2).map(|pair| xxh3_64(String::from_iter(pair).as_bytes())));
        } else if lower.chars().count() > 1 && !JOINING.contains(&&*lower) && !COMMON.contains(&&*lower) {
            found.push(xxh3_64(lower.strip_suffix('s').unwrap_or(&lower).as_bytes()));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether a character is of a script that puts no spaces between words.
pub(super) fn is_unspaced(character: char) -> bool {
    character >= '\u{2E80}'
}

/// How many hashes two sorted lists share.
pub(super) fn shared(a: &[u64], b: &[u64]) -> usize {
    a.iter().filter(|hash| b.binary_search(hash).is_ok()).count()
}

/// What a sentence says, for telling whether another says the same in other words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sense {
    opening: u64,
    words: Vec<u64>,
}

/// Sentences that share so many first words are one sentence, said twice.
const SAME_WORDS: usize = 8;

impl Sense {
    pub(crate) fn of(sentence: &str) -> Self {
        let first = sentence.split_whitespace().take(SAME_WORDS).map(str::to_lowercase).collect::<Vec<_>>();
        Self { opening: xxh3_64(first.join(" ").as_bytes()), words: telling(sentence) }
    }

    /// Whether both begin alike, or speak of nearly the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let most = self.words.len().max(other.words.len());
        self.opening == other.opening || most > 2 && shared(&self.words, &other.words) * 4 >= most * 3
    }
}

/// Words of requests that say nothing of what they are about.
const COMMON: [&str; 64] = [
    "about", "actually", "after", "again", "also", "always", "another", "anymore", "because", "been",
    "before", "cancel", "could", "does", "doing", "done", "don't", "each", "else", "every", "first",
    "forget", "from", "have", "here", "instead", "into", "just", "keep", "later", "like", "longer", "make",
    "mind", "more", "much", "must", "need", "never", "only", "other", "please", "really", "should", "some",
    "stop", "still", "than", "that", "them", "then", "there", "these", "they", "this", "thing", "thought",
    "want", "well", "what", "when", "with", "would", "your",
];

/// Words that join others, in the languages of the phrases.
const JOINING: [&str; 58] = [
    "the", "an", "of", "for", "in", "on", "to", "it", "its", "is", "are", "be", "as", "at", "by", "all",
    "any", "and", "or", "one", "ones", "so", "use", "using", "der", "die", "das", "den", "dem", "des", "ein",
    "eine", "und", "oder", "auf", "im", "bei", "für", "mit", "le", "la", "les", "un", "une", "du", "de",
    "et", "ou", "en", "dans", "pour", "el", "los", "las", "una", "para", "por", "con",
];

fn words(text: &str) -> impl Iterator<Item = &str> {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | ':');
    text.split(move |c: char| !joins(c))
        .map(|word| word.trim_matches(['.', '-', '/', ':']))
        .filter(|word| !word.is_empty())
}

/// Whether a word is written as no word of a language is: a path, a file, an identifier.
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

/// Where the names that somebody asks about are used.
pub(super) struct Index {
    units: HashMap<u64, Vec<u32>, BuildHasherDefault<AsIs>>,
}

impl Index {
    /// An index of these names alone: most of what a text names is nothing that anybody asks about.
    pub(super) fn of(asked: impl Iterator<Item = u64>) -> Self {
        Self { units: asked.map(|name| (name, Vec::new())).collect() }
    }

    /// Notes that a unit names these; units come in order.
    pub(super) fn note(&mut self, unit: usize, names: &[u64]) {
        for name in names {
            match self.units.get_mut(name) {
                Some(units) if units.last() != Some(&(unit as u32)) => units.push(unit as u32),
                _ => {}
            }
        }
    }

    /// How later units used what has these names.
    pub(super) fn uses(&self, unit: usize, names: &[u64]) -> Uses {
        let mut uses = Uses { times: 0, last: unit };
        for units in names.iter().filter_map(|name| self.units.get(name)) {
            let later = units.len() - units.partition_point(|at| *at as usize <= unit);
            uses.times = uses.times.max(later as u32);
            uses.last = uses.last.max(units.last().map_or(unit, |at| *at as usize));
        }
        uses
    }
}

/// Names are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_identifiers_are_names_and_words_are_not() {
        let named = names("See src/plan/mod.rs, parseBody and read_file; or not. Well/then?");
        for word in ["src/plan/mod.rs", "parseBody", "read_file"] {
            assert!(named.contains(&name(word)), "{word}");
        }
        assert_eq!(named.len(), 4);
        assert_eq!(name("/a/b/plan/mod.rs"), name("plan/mod.rs"));
    }

    #[test]
    fn uses_are_later_units_only() {
        let path = names_of_path("src/a.rs");
        let mut index = Index::of(path.into_iter());
        for unit in [1, 2, 5] {
            index.note(unit, &names("look at src/a.rs and a.rs"));
        }
        assert_eq!(index.uses(2, &path), Uses { times: 1, last: 5 });
        assert_eq!(index.uses(5, &path), Uses { times: 0, last: 5 });
    }
}
