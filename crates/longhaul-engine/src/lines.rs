//! A text as lines, without an index: fifty megabytes of log cost no memory beyond themselves.
//!
//! It uses nothing of the engine.

use memchr::{memchr, memmem};

/// How the lines of a text are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaks {
    /// By a newline, as in any file.
    Newline,
    /// By a backslash and an `n`: the inside of a JSON string, left as it stands in the source.
    Escaped,
}

/// One line and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Byte offset of the line in the text.
    pub at: usize,
    /// The line without its break and without a carriage return before it.
    pub text: &'a str,
}

impl<'a> Line<'a> {
    /// Whether there is nothing in it but white space.
    #[must_use]
    pub fn is_blank(self) -> bool {
        match self.text.as_bytes().first() {
            Some(b'!'..=b'~') => false,
            _ => self.text.trim_start().is_empty(),
        }
    }

    /// The line without white space around it, and where that begins.
    #[must_use]
    pub fn trimmed(self) -> Line<'a> {
        let start = self.text.trim_start();
        Line { at: self.at + self.text.len() - start.len(), text: start.trim_end() }
    }
}

/// The lines of a text, in order.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    text: &'a str,
    breaks: Breaks,
    next: Option<usize>,
}

impl<'a> Lines<'a> {
    /// The lines of `text`. A break at the very end begins no further line.
    #[must_use]
    pub fn new(text: &'a str, breaks: Breaks) -> Self {
        Self { text, breaks, next: (!text.is_empty()).then_some(0) }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        let at = self.next?;
        let rest = &self.text.as_bytes()[at..];
        let (found, width) = match self.breaks {
            Breaks::Newline => (memchr(b'\n', rest), 1),
            Breaks::Escaped => (escaped_break(rest), 2),
        };
        let length = found.unwrap_or(rest.len());
        self.next = found.map(|length| at + length + width).filter(|next| *next < self.text.len());
        let line = &self.text[at..at + length];
        Some(Line { at, text: line.strip_suffix('\r').unwrap_or(line) })
    }
}

/// Where the next `\n` escape stands, skipping `\\n`, which is a backslash and a letter.
fn escaped_break(text: &[u8]) -> Option<usize> {
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

    fn texts(text: &str, breaks: Breaks) -> Vec<&str> {
        Lines::new(text, breaks).map(|line| line.text).collect()
    }

    #[test]
    fn lines_end_at_newlines_or_at_their_escapes() {
        assert_eq!(texts("a\r\nb\n\nc\n", Breaks::Newline), ["a", "b", "", "c"]);
        assert_eq!(texts("", Breaks::Newline), [""; 0]);
        assert_eq!(texts(r"a\nb\\nc\n", Breaks::Escaped), ["a", r"b\\nc"]);
    }
}
