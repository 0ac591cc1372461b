//! Reads JSON as bytes: finds where values are, and escapes and unescapes strings. Nothing here builds a
//! tree.
//!
//! A request is mostly a few long strings, so most of the work is skipping. The rest of the engine works on
//! [`Span`]s of the request body: a scanner finds where each value begins and ends, and only `escape` and
//! `unescape` translate between a text and its bytes.
//!
//! This module uses no other module of the engine.

mod escape;
mod pointer;
mod scanner;
mod string_scanner;

pub(crate) use escape::{decode_escape, unescape_end, unescape_start};
pub use escape::{escape, unescape};
pub use pointer::find_pointer;
pub use scanner::JsonError;
pub(crate) use scanner::{Scanner, ValueKind};
pub(crate) use string_scanner::{StringScanner, find_string_end};

use std::ops::Range;

/// A range of bytes in a request body. It is `Copy` and half the size of a `Range<usize>`, so bodies are
/// limited to 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u32,
    /// The offset after the last byte.
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// Returns the span as a range that can slice a `str`.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns whether the span has no bytes.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns whether `other` is inside this span; the borders may be the same.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Returns the span between the quotes of a string.
    pub(crate) fn unquoted(self) -> Self {
        Self { start: self.start + 1, end: self.end - 1 }
    }
}
