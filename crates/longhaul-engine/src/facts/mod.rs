//! What a reader could be asked about one tool output.
//!
//! Facts are defined here once. A digest is chosen to keep them, a measurement counts how many it kept, and a checkpoint
//! cites them; none of the three has a notion of its own. The classes:
//!
//! | class | what |
//! | --- | --- |
//! | lines | how many lines are not blank |
//! | exit | the exit status of the program |
//! | total | a count with its noun: `3 failed`, `12 rows`; never of a line of a log, nor the seconds of a clock before a level |
//! | error, warning | each distinct line that reports one; lines that differ in digits only are one |
//! | failing | the name of a failing test |
//! | frame | where in our files a stack trace points |
//! | column, key, length | of a table, of a JSON object, of a JSON list |
//!
//! It may use `shape` and what is below it.

mod failing;
mod log_line;
mod scan;

use crate::clip;
use crate::lines::Breaks;
use std::borrow::Cow;

pub(crate) use log_line::{is_event, is_log_line, level, time};
pub use scan::Words;
pub(crate) use scan::{MOST_DISTINCT, key_without_digits};

/// The class of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FactKind {
    /// The number of lines that are not blank.
    Lines,
    /// An exit status.
    Exit,
    /// A number with what it counts.
    Total,
    /// A line that reports an error.
    Error,
    /// A line that reports a warning.
    Warning,
    /// The name of a failing test.
    Failing,
    /// The place in a stack trace that matters most.
    Frame,
    /// A column's name.
    Column,
    /// A key of the document or of its records.
    Key,
    /// The length of a list.
    Length,
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact<'a> {
    /// Its class.
    pub kind: FactKind,
    /// Its text, as it stands in the source; numbers that were counted are written in digits.
    pub text: Cow<'a, str>,
    /// Where it stands in the source.
    pub at: usize,
    /// How many lines say the same, digits apart.
    pub times: usize,
}

/// The facts of one text.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// All of them, by class and then in the order of the source.
    pub found: Vec<Fact<'a>>,
    /// Lines, blank ones included.
    pub lines: usize,
    /// Lines with nothing in them but white space.
    pub blank: usize,
    /// Lines that report an error.
    pub error_lines: usize,
    /// Lines that report a warning and no error.
    pub warning_lines: usize,
    /// The last exit status that is called so in the text.
    pub exit: Option<i64>,
}

impl<'a> Facts<'a> {
    /// Reads a text once and collects its facts.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        Self::within(text, Breaks::Newline)
    }

    /// The same for a text whose lines are separated in another way.
    #[must_use]
    pub fn within(text: &'a str, breaks: Breaks) -> Self {
        scan::scan(text, breaks)
    }

    /// The facts of one class.
    pub fn of_kind(&self, kind: FactKind) -> impl Iterator<Item = &Fact<'a>> {
        self.found.iter().filter(move |fact| fact.kind == kind)
    }

    /// Lines that are not blank.
    #[must_use]
    pub fn full_lines(&self) -> usize {
        self.lines - self.blank
    }

    /// How many of the facts stand in a digest.
    #[must_use]
    pub fn kept_in(&self, digest: &str) -> usize {
        let bare = without_separators(digest);
        self.found.iter().filter(|fact| fact.is_in(digest, &bare)).count()
    }
}

impl Fact<'_> {
    /// So much of a line tells it from others.
    pub const TELLING: usize = 60;

    /// Whether the line says what went wrong, and not only that something did: a heading or a verdict says no more than its
    /// neighbours.
    #[must_use]
    pub fn is_specific(&self) -> bool {
        let text = self.text.trim();
        !(text.starts_with("===")
            || text.starts_with("___")
            || text.starts_with("---")
            || text.ends_with(" FAILED")
            || text.starts_with("FAILED "))
    }

    fn is_in(&self, digest: &str, bare: &str) -> bool {
        let text = clip::start(self.text.trim(), Self::TELLING);
        match self.kind {
            FactKind::Lines | FactKind::Exit | FactKind::Length => bare.contains(text),
            _ => digest.contains(text) || bare.contains(&text.replace(',', "")),
        }
    }
}

/// A text with the separators of thousands taken out of its numbers.
fn without_separators(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut bare = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        let separates = matches!(character, ',' | ' ' | '_')
            && at > 0
            && bytes[at - 1].is_ascii_digit()
            && bytes.len() > at + 3
            && bytes[at + 1..at + 4].iter().all(u8::is_ascii_digit);
        if !separates {
            bare.push(character);
        }
    }
    bare
}

#[cfg(test)]
mod tests;
