//! Hashes JSON values by their content, independent of how they are written.

use std::cell::Cell;
use std::sync::LazyLock;

use aho_corasick::packed::Searcher;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::json::{JsonError, Scanner, Span, ValueKind, escape, unescape};
use crate::transcript::{TextEncoding, TextSpan, Transcript};

/// The depth from which nested values are hashed by their bytes, so that hostile input cannot overflow the
/// stack. Chosen by hand.
const MAX_DEPTH: u32 = 64;

/// The type names of plain text blocks. They hash alike, because which one is used depends only on the API
/// format and the role.
pub(super) const TEXT_TYPES: [&str; 3] = ["text", "input_text", "output_text"];

/// Hashes the values of one body.
pub(super) struct ContentHasher<'b> {
    body: &'b str,
    /// The texts of the body, ordered by position. Their ends are known, and they make up most of a body, so
    /// they are not scanned again.
    texts: Vec<TextSpan>,
    /// The index of the first text in `texts` that the scanner has not reached yet.
    next_text: Cell<usize>,
}

impl<'b> ContentHasher<'b> {
    pub(super) fn new(transcript: &Transcript<'b>) -> Self {
        let mut texts: Vec<TextSpan> = transcript.blocks().filter_map(|block| block.text).collect();
        texts.retain(|text| text.encoding != TextEncoding::Json);
        texts.sort_unstable_by_key(|text| text.at.start);
        Self { body: transcript.body, texts, next_text: Cell::new(0) }
    }

    /// Adds a field to the hash of an object. A null field adds nothing.
    pub(super) fn add_field(
        &self,
        scanner: &mut Scanner<'b>,
        says: u128,
        name: &str,
        depth: u32,
    ) -> Result<u128, JsonError> {
        if scanner.peek() == b'n' {
            scanner.skip_value()?;
            return Ok(says);
        }
        Ok(says.wrapping_add(hash_pair(hash_text(name), self.hash_value(scanner, depth + 1)?)))
    }

    /// Hashes any value, independent of the order of its keys and of how its strings are escaped.
    pub(super) fn hash_value(&self, scanner: &mut Scanner<'b>, depth: u32) -> Result<u128, JsonError> {
        match scanner.peek() {
            b'{' if depth < MAX_DEPTH => {
                let mut says = xxh3_128_with_seed(b"{", 0);
                scanner.for_each_member(|scanner, key, kind| {
                    let key = self.hash_string(Span { start: key.start - 1, end: key.end + 1 }, kind);
                    says = says.wrapping_add(hash_pair(key, self.hash_value(scanner, depth + 1)?));
                    Ok(())
                })?;
                Ok(says)
            }
            b'[' if depth < MAX_DEPTH => {
                let mut says = xxh3_128_with_seed(b"[", 0);
                scanner.for_each_element(|scanner| {
                    says = hash_pair(says, self.hash_value(scanner, depth + 1)?);
                    Ok(())
                })?;
                Ok(says)
            }
            _ => {
                let (at, kind) = self.skip_value(scanner)?;
                Ok(if kind.is_string() {
                    self.hash_string(at, kind)
                } else {
                    xxh3_128_with_seed(self.body[at.range()].as_bytes(), 1)
                })
            }
        }
    }

    /// Skips one value. A known text is not scanned again: it is reported as escaped, and `hash_string`
    /// checks whether it is.
    pub(super) fn skip_value(&self, scanner: &mut Scanner<'b>) -> Result<(Span, ValueKind), JsonError> {
        let inside = scanner.position() + 1;
        let rest = &self.texts[self.next_text.get()..];
        let skipped = rest.iter().take_while(|text| text.at.start < inside).count();
        self.next_text.set(self.next_text.get() + skipped);
        match rest.get(skipped) {
            Some(text) if text.at.start == inside => {
                let kind = if text.encoding == TextEncoding::Damaged {
                    ValueKind::UnpairedSurrogate
                } else {
                    ValueKind::EscapedString
                };
                Ok((scanner.skip_known_string(text.at.end), kind))
            }
            _ => scanner.skip_value(),
        }
    }

    pub(super) fn hash_text_block(&self, at: Span, kind: ValueKind) -> u128 {
        hash_pair(hash_text("type"), hash_text(TEXT_TYPES[0]))
            .wrapping_add(hash_pair(hash_text("text"), self.hash_string(at, kind)))
    }

    /// Hashes a string, independent of how it is escaped.
    pub(super) fn hash_string(&self, at: Span, kind: ValueKind) -> u128 {
        let raw = &self.body[at.unquoted().range()];
        if kind == ValueKind::EscapedString && !is_canonically_escaped(raw) {
            return hash_text(&escape(&unescape(raw)));
        }
        hash_text(raw)
    }
}

/// Finds the start of escapes that [`escape`] writes rarely or never. An escaped backslash before such a
/// letter also matches.
static UNUSUAL_ESCAPES: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new([r"\u", r"\/", r"\b", r"\f"]));

/// Returns whether every escape is the one that [`escape`] writes. Then equal texts already have equal bytes.
fn is_canonically_escaped(raw: &str) -> bool {
    if UNUSUAL_ESCAPES.as_ref().is_some_and(|unusual| unusual.find(raw).is_none()) {
        return true;
    }
    let bytes = raw.as_bytes();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        if !matches!(bytes.get(at + found + 1), Some(b'n' | b'"' | b'\\' | b't' | b'r')) {
            return false;
        }
        at += found + 2;
    }
    true
}

pub(super) fn hash_text(text: &str) -> u128 {
    xxh3_128_with_seed(text.as_bytes(), 0)
}

/// Combines two hashes. The order matters.
pub(crate) fn hash_pair(first: u128, second: u128) -> u128 {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&first.to_le_bytes());
    bytes[16..].copy_from_slice(&second.to_le_bytes());
    xxh3_128_with_seed(&bytes, 2)
}

pub(super) fn hash_sequence(keys: impl Iterator<Item = u128>) -> u128 {
    keys.fold(0, hash_pair)
}
