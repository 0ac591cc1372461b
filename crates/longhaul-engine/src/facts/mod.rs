//! Facts about one tool output that a reader may ask for later.
//!
//! This is the only definition of facts. A digest is written to keep them, a measurement counts how many it
//! kept, and a checkpoint cites them. The kinds:
//!
//! | kind | meaning |
//! | --- | --- |
//! | line count | the number of lines that are not blank |
//! | exit status | the exit status of the program |
//! | total | a count with its noun: `3 failed`, `12 rows`; not in a log line, and not the seconds of a clock before a level |
//! | error, warning | a line that reports one; lines that differ only in digits are one fact |
//! | failing test | the name of a failing test |
//! | stack frame | the frame of a stack trace nearest to the error |
//! | column, key, list length | a column of a table, a key of a JSON object, the length of a JSON list |
//!
//! This module may use `shape` and the modules below it.

mod failing_test;
mod log_line;
mod scan;

use crate::lines::LineBreak;
use crate::truncate;
use std::borrow::Cow;

pub(crate) use log_line::{is_log_event, is_log_line, log_level, log_time};
pub use scan::LineSignals;
pub(crate) use scan::{MAX_DISTINCT_FACTS, key_without_digits};

/// The kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FactKind {
    /// The number of lines that are not blank.
    LineCount,
    /// The exit status of a program.
    ExitStatus,
    /// A number and the noun that it counts.
    Total,
    /// A line that reports an error.
    Error,
    /// A line that reports a warning.
    Warning,
    /// The name of a failing test.
    FailingTest,
    /// The stack frame nearest to the error.
    StackFrame,
    /// The name of a column.
    Column,
    /// A key of a JSON object, or of the objects in a JSON list.
    Key,
    /// The length of a JSON list.
    ListLength,
}

/// One fact of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact<'a> {
    /// The kind of the fact.
    pub kind: FactKind,
    /// The text of the fact, as in the source. Numbers that were counted are written in digits.
    pub text: Cow<'a, str>,
    /// The offset of the fact in the source, in bytes.
    pub at: usize,
    /// The number of lines that report this fact, disregarding digits.
    pub count: usize,
}

/// The facts of one text.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// All facts, by kind and then in the order of the source.
    pub all: Vec<Fact<'a>>,
    /// The number of lines, including blank ones.
    pub lines: usize,
    /// The number of lines that are empty or only white space.
    pub blank_lines: usize,
    /// The number of lines that report an error.
    pub error_lines: usize,
    /// The number of lines that report a warning and no error.
    pub warning_lines: usize,
    /// The last number in the text that is called an exit status or exit code.
    pub exit_status: Option<i64>,
}

impl<'a> Facts<'a> {
    /// Reads a text once and collects its facts.
    #[must_use]
    pub fn scan(text: &'a str) -> Self {
        Self::scan_with_breaks(text, LineBreak::Newline)
    }

    /// Collects the facts of a text whose lines have another separator.
    #[must_use]
    pub fn scan_with_breaks(text: &'a str, breaks: LineBreak) -> Self {
        scan::scan_facts(text, breaks)
    }

    /// Returns the facts of one kind.
    pub fn of_kind(&self, kind: FactKind) -> impl Iterator<Item = &Fact<'a>> {
        self.all.iter().filter(move |fact| fact.kind == kind)
    }

    /// Returns the number of lines that are not blank.
    #[must_use]
    pub fn nonblank_lines(&self) -> usize {
        self.lines - self.blank_lines
    }

    /// Counts the facts that a digest contains.
    #[must_use]
    pub fn count_kept_in(&self, digest: &str) -> usize {
        let bare = strip_thousands_separators(digest);
        self.all.iter().filter(|fact| fact.is_kept_in(digest, &bare)).count()
    }
}

impl Fact<'_> {
    /// The number of characters at the beginning of a line that distinguish it from other lines. Chosen by
    /// hand.
    pub const IDENTIFYING_CHARS: usize = 60;

    /// Whether the line says what failed, and not only that something failed, as headings and verdicts do.
    #[must_use]
    pub fn is_specific(&self) -> bool {
        let text = self.text.trim();
        !(text.starts_with("===")
            || text.starts_with("___")
            || text.starts_with("---")
            || text.ends_with(" FAILED")
            || text.starts_with("FAILED "))
    }

    fn is_kept_in(&self, digest: &str, bare: &str) -> bool {
        let text = truncate::first_chars(self.text.trim(), Self::IDENTIFYING_CHARS);
        match self.kind {
            FactKind::LineCount | FactKind::ExitStatus | FactKind::ListLength => bare.contains(text),
            _ => digest.contains(text) || bare.contains(&text.replace(',', "")),
        }
    }
}

/// Returns a text without the thousands separators in its numbers.
fn strip_thousands_separators(text: &str) -> String {
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
