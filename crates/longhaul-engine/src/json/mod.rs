//! JSON as bytes: where values are, and how strings are written. Nothing here builds a tree.
//!
//! A request is mostly a few long strings, so reading one is mostly skipping, and everything above works on [`Span`]s of
//! the body. A scanner says where each value begins and ends; [`escape`] and [`unescape`] are the only two functions
//! that translate between text and its bytes in a body.
//!
//! It uses nothing of the engine.

mod pointer;
mod scan;
mod strings;
mod text;

pub use pointer::pointer;
pub use scan::NotJson;
pub(crate) use scan::{Kind, Scanner};
pub(crate) use strings::{Strings, string_end};
pub use text::{escape, unescape};
pub(crate) use text::{escaped_char, unescape_end, unescape_start};

use std::ops::Range;

/// A range of bytes in a body. Half the size of a `Range<usize>`, and `Copy`; bodies end at 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// The bytes as a range that slices a `str`.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// How many bytes.
    #[must_use]
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether there is no byte in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether `other` lies inside, borders included.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The bytes between the quotes of a string.
    pub(crate) fn unquoted(self) -> Self {
        Self { start: self.start + 1, end: self.end - 1 }
    }
}
