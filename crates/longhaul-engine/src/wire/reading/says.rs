//! What a value says, however it is written.

use std::cell::Cell;
use std::sync::LazyLock;

use aho_corasick::packed::Searcher;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::json::{Kind, NotJson, Scanner, Span, escape, unescape};
use crate::transcript::{Form, TextSpan, Transcript};

/// Values nested deeper than this are hashed as they stand, so that hostile input costs no stack.
const DEEPEST: u32 = 64;

/// The names that plain words go by; which one stands there follows from the dialect and the role.
pub(super) const TEXTS: [&str; 3] = ["text", "input_text", "output_text"];

/// Reads values of a body for what they say.
pub(super) struct Words<'b> {
    body: &'b str,
    /// The texts of the body by place, and the first that was not passed yet: where they end is known, and most of a body
    /// is in them.
    texts: Vec<TextSpan>,
    passed: Cell<usize>,
}

impl<'b> Words<'b> {
    pub(super) fn new(transcript: &Transcript<'b>) -> Self {
        let mut texts: Vec<TextSpan> = transcript.blocks().filter_map(|block| block.text).collect();
        texts.retain(|text| text.form != Form::Json);
        texts.sort_unstable_by_key(|text| text.at.start);
        Self { body: transcript.body, texts, passed: Cell::new(0) }
    }

    /// Adds a field to what an object says; a field that is null says nothing.
    pub(super) fn field(
        &self,
        scanner: &mut Scanner<'b>,
        says: u128,
        name: &str,
        depth: u32,
    ) -> Result<u128, NotJson> {
        if scanner.peek() == b'n' {
            scanner.value()?;
            return Ok(says);
        }
        Ok(says.wrapping_add(pair(key_of(name), self.value(scanner, depth + 1)?)))
    }

    /// What any value says: its members in whatever order, its strings however escaped.
    pub(super) fn value(&self, scanner: &mut Scanner<'b>, depth: u32) -> Result<u128, NotJson> {
        match scanner.peek() {
            b'{' if depth < DEEPEST => {
                let mut says = xxh3_128_with_seed(b"{", 0);
                scanner.members(|scanner, key, kind| {
                    let key = self.string(Span { start: key.start - 1, end: key.end + 1 }, kind);
                    says = says.wrapping_add(pair(key, self.value(scanner, depth + 1)?));
                    Ok(())
                })?;
                Ok(says)
            }
            b'[' if depth < DEEPEST => {
                let mut says = xxh3_128_with_seed(b"[", 0);
                scanner.elements(|scanner| {
                    says = pair(says, self.value(scanner, depth + 1)?);
                    Ok(())
                })?;
                Ok(says)
            }
            _ => {
                let (at, kind) = self.scalar(scanner)?;
                Ok(if kind.is_string() {
                    self.string(at, kind)
                } else {
                    xxh3_128_with_seed(self.body[at.range()].as_bytes(), 1)
                })
            }
        }
    }

    /// Reads past one value. A text that is known is not scanned again; whether it has escapes is found out later.
    pub(super) fn scalar(&self, scanner: &mut Scanner<'b>) -> Result<(Span, Kind), NotJson> {
        let inside = scanner.at() + 1;
        let rest = &self.texts[self.passed.get()..];
        let skipped = rest.iter().take_while(|text| text.at.start < inside).count();
        self.passed.set(self.passed.get() + skipped);
        match rest.get(skipped) {
            Some(text) if text.at.start == inside => {
                let kind = if text.form == Form::Damaged { Kind::Damaged } else { Kind::Escaped };
                Ok((scanner.known_string(text.at.end), kind))
            }
            _ => scanner.value(),
        }
    }

    pub(super) fn text_block(&self, at: Span, kind: Kind) -> u128 {
        pair(key_of("type"), key_of(TEXTS[0])).wrapping_add(pair(key_of("text"), self.string(at, kind)))
    }

    /// What a string says, however it is escaped.
    pub(super) fn string(&self, at: Span, kind: Kind) -> u128 {
        let raw = &self.body[at.unquoted().range()];
        if kind == Kind::Escaped && !is_escaped_as_we_do(raw) {
            return key_of(&escape(&unescape(raw)));
        }
        key_of(raw)
    }
}

/// Finds escapes that [`escape`] never or seldom writes; so may a backslash of its own before such a letter be.
static UNUSUAL: LazyLock<Option<Searcher>> = LazyLock::new(|| Searcher::new([r"\u", r"\/", r"\b", r"\f"]));

/// Whether every escape is the one that [`escape`] writes: then equal texts have equal bytes already.
fn is_escaped_as_we_do(raw: &str) -> bool {
    if UNUSUAL.as_ref().is_some_and(|unusual| unusual.find(raw).is_none()) {
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

pub(super) fn key_of(text: &str) -> u128 {
    xxh3_128_with_seed(text.as_bytes(), 0)
}

/// One key of two, in this order.
pub(crate) fn pair(first: u128, second: u128) -> u128 {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&first.to_le_bytes());
    bytes[16..].copy_from_slice(&second.to_le_bytes());
    xxh3_128_with_seed(&bytes, 2)
}

pub(super) fn fold(keys: impl Iterator<Item = u128>) -> u128 {
    keys.fold(0, pair)
}
