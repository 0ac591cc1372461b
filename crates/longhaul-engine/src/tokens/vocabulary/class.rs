//! The classes of characters that splitting asks for. `build.rs` makes a table of them from Unicode's.

use std::ops::BitOr;

/// Some classes, one bit each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(pub(crate) u8);

impl Class {
    pub(crate) const NONE: Self = Self(0);
    /// A capital, a letter without case, or a mark.
    pub(crate) const UPPER: Self = Self(1);
    /// A small letter, a letter without case, or a mark.
    pub(crate) const LOWER: Self = Self(1 << 1);
    pub(crate) const LETTER: Self = Self(1 << 2);
    pub(crate) const NUMBER: Self = Self(1 << 3);
    pub(crate) const SPACE: Self = Self(1 << 4);
    /// White space that ends a line.
    pub(crate) const LINE_END: Self = Self(1 << 5);
    pub(crate) const SLASH: Self = Self(1 << 6);
    /// Neither letter nor number nor white space; marks are.
    pub(crate) const SIGN: Self = Self(1 << 7);

    /// Whether this is any of these.
    #[inline]
    pub(crate) const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }
}

impl BitOr for Class {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Characters of one block, which share a row of the table if they are all alike.
pub(crate) const BLOCK: usize = 256;
/// Blocks of all characters.
pub(crate) const BLOCKS: usize = 0x11_0000 / BLOCK;
