//! The character classes by which a text is split into pre-tokens. `build.rs` compiles them into a table from
//! Unicode data.

use std::ops::BitOr;

/// A set of character classes, one bit each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CharClass(pub(crate) u8);

impl CharClass {
    pub(crate) const NONE: Self = Self(0);
    /// A capital, a letter without case, or a combining mark.
    pub(crate) const UPPER: Self = Self(1);
    /// A small letter, a letter without case, or a combining mark.
    pub(crate) const LOWER: Self = Self(1 << 1);
    pub(crate) const LETTER: Self = Self(1 << 2);
    pub(crate) const NUMBER: Self = Self(1 << 3);
    pub(crate) const SPACE: Self = Self(1 << 4);
    /// A carriage return or a newline.
    pub(crate) const LINE_END: Self = Self(1 << 5);
    pub(crate) const SLASH: Self = Self(1 << 6);
    /// Neither a letter nor a number nor white space. Combining marks are included.
    pub(crate) const SYMBOL: Self = Self(1 << 7);

    /// Returns whether the two sets have a class in common.
    #[inline]
    pub(crate) const fn has_any(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }
}

impl BitOr for CharClass {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The number of characters in a block. Blocks with equal contents share a row of the table.
pub(crate) const BLOCK_CHARS: usize = 256;
/// The number of blocks in all of Unicode.
pub(crate) const BLOCK_COUNT: usize = 0x11_0000 / BLOCK_CHARS;
