//! Iterates over the lines of a text without an index, so a log of fifty megabytes needs no further memory.
//!
//! This module uses no other module of the engine.

use memchr::{memchr, memmem};

/// The separator between the lines of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineBreak {
    /// A newline character, as in any file.
    Newline,
    /// A backslash and an `n`, as inside a JSON string that is still escaped.
    EscapedNewline,
}

/// A line and its position in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The byte offset of the line in the text.
    pub offset: usize,
    /// The line without its line break and without a carriage return before that.
    pub text: &'a str,
}

impl<'a> Line<'a> {
    /// Returns whether the line is empty or has only white space.
    #[must_use]
    pub fn is_blank(self) -> bool {
        match self.text.as_bytes().first() {
            Some(b'!'..=b'~') => false,
            _ => self.text.trim_start().is_empty(),
        }
    }

    /// Returns the line without the white space around it, with the offset adjusted.
    #[must_use]
    pub fn trimmed(self) -> Line<'a> {
        let start = self.text.trim_start();
        Line { offset: self.offset + self.text.len() - start.len(), text: start.trim_end() }
    }
}

/// An iterator over the lines of a text.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    line_break: LineBreak,
    next: Option<usize>,
}

impl<'a> Lines<'a> {
    /// Creates an iterator over the lines of `text`. A line break at the end of the text does not start
    /// another line.
    #[must_use]
    pub fn new(text: &'a str, breaks: LineBreak) -> Self {
        Self { text, line_break: breaks, next: (!text.is_empty()).then_some(0) }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        let at = self.next?;
        let rest = &self.text.as_bytes()[at..];
        let (found, width) = match self.line_break {
            LineBreak::Newline => (memchr(b'\n', rest), 1),
            LineBreak::EscapedNewline => (find_escaped_newline(rest), 2),
        };
        let length = found.unwrap_or(rest.len());
        self.next = found.map(|length| at + length + width).filter(|next| *next < self.text.len());
        let line = &self.text[at..at + length];
        Some(Line { offset: at, text: line.strip_suffix('\r').unwrap_or(line) })
    }
}

/// Returns the position of the next `\n` escape. Skips `\\n`, which is an escaped backslash and a letter.
fn find_escaped_newline(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = memmem::find(&text[from..], b"\\n") {
        let at = from + found;
        let backslashes = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
        if backslashes % 2 == 0 {
            return Some(at);
        }
        from = at + 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str, breaks: LineBreak) -> Vec<&str> {
        Lines::new(text, breaks).map(|line| line.text).collect()
    }

    #[test]
    fn lines_end_at_newlines_or_at_their_escapes() {
        assert_eq!(texts("a\r\nb\n\nc\n", LineBreak::Newline), ["a", "b", "", "c"]);
        assert_eq!(texts("", LineBreak::Newline), [""; 0]);
        assert_eq!(texts(r"a\nb\\nc\n", LineBreak::EscapedNewline), ["a", r"b\\nc"]);
    }
}
