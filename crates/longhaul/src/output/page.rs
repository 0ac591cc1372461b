//! Text for people: the only way from a command's words to a terminal.
//!
//! ```text
//! names out of a body ─┐
//! our own words ───────┴▶ Line ──▶ Page ──▶ a terminal, or a file: escaped, with our colours or without
//! ```
//!
//! A body is somebody else's text. What a terminal would obey (escape sequences, line breaks, marks that turn the direction of
//! writing) is shown as `\u{1b}` where it stands in a line, so that no name can colour, move, forge or hide another line.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

/// What a reader is to look at first.
pub(crate) const STRONG: Style = Style::new().bold();
/// What may be read last.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// All is well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Worth a look.
pub(crate) const FAIR: Style = AnsiColor::Yellow.on_default();
/// Elsewhere, and can be fetched.
pub(crate) const AWAY: Style = AnsiColor::Cyan.on_default();
/// Wrong, or gone.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

/// One line. Whatever is put into it stays on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(Vec<(Style, String)>);

impl Line {
    pub(crate) fn plain(self, text: impl AsRef<str>) -> Self {
        self.styled(Style::new(), text)
    }

    pub(crate) fn styled(mut self, style: Style, text: impl AsRef<str>) -> Self {
        self.0.push((style, printable(text.as_ref())));
        self
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::default().plain(text)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::default().plain(text)
    }
}

/// Lines in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page(Vec<Line>);

/// Whether a page is coloured where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    Coloured,
    Plain,
}

impl Page {
    pub(crate) fn line(&mut self, line: impl Into<Line>) {
        self.0.push(line.into());
    }

    pub(crate) fn blank(&mut self) {
        self.0.push(Line::default());
    }

    /// Columns padded to the widest cell, two spaces apart.
    pub(crate) fn table<C: Into<Line>, const N: usize>(&mut self, rows: impl IntoIterator<Item = [C; N]>) {
        let rows: Vec<[Line; N]> = rows.into_iter().map(|row| row.map(Into::into)).collect();
        let widths: [usize; N] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].width()).max().unwrap_or(0));
        for row in rows {
            let mut line = Line::default();
            for (cell, width) in row.into_iter().zip(widths) {
                let room = width - cell.width() + 2;
                line.0.extend(cell.0);
                line.0.push((Style::new(), " ".repeat(room)));
            }
            self.0.push(line);
        }
    }

    /// The text of it.
    pub(crate) fn render(&self, paint: Paint) -> String {
        let mut text = String::new();
        for line in &self.0 {
            let start = text.len();
            for (style, part) in &line.0 {
                match paint {
                    Paint::Coloured if *style != Style::new() && !part.is_empty() => {
                        let _ = write!(text, "{style}{part}{style:#}");
                    }
                    _ => text.push_str(part),
                }
            }
            text.truncate(start + text[start..].trim_end().len());
            text.push('\n');
        }
        text
    }
}

/// A text with what a terminal would obey shown instead of done.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character turns the direction of writing or breaks a line.
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_space() {
        let mut page = Page::default();
        page.table([["a", "bb", ""], ["ccc", "é", "d"]]);
        assert_eq!(page.render(Paint::Plain), "a    bb\nccc  é   d\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let cases = [
            ("plain é 漢 👩‍👩‍👧", "plain é 漢 👩‍👩‍👧"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
            (
                "a\u{202e}b\u{2066}c\u{2028}d\u{9b}31m\u{7f}",
                "a\\u{202e}b\\u{2066}c\\u{2028}d\\u{9b}31m\\u{7f}",
            ),
        ];
        for (text, shown) in cases {
            assert_eq!(printable(text), shown);
        }
        let mut page = Page::default();
        page.line(Line::default().styled(BAD, "red\u{1b}[0m").plain(" not\nred"));
        assert_eq!(page.render(Paint::Plain), "red\\u{1b}[0m not\\nred\n");
        assert_eq!(page.render(Paint::Coloured), "\u{1b}[31mred\\u{1b}[0m\u{1b}[0m not\\nred\n");
    }
}
