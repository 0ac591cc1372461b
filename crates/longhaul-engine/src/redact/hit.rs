//! Where the word of a name was found, and what kind of place a name and its value are in.

use super::value::Class;

/// A hit of the keyword gate: where the word stands and what it means.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) class: Class,
    /// The word counts only where it is a word of its own.
    pub(super) whole: bool,
}

/// Where names and values stand. Source code is spared the first two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Assignment,
    Field,
    Header,
    Query,
    Flag,
}
