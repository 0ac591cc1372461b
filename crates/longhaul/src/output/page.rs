//! Text for people. All text that a command prints to a terminal is built here.
//!
//! ```text
//! names from a request ─┐
//! our own text ─────────┴▶ StyledLine ──▶ Page ──▶ a terminal or a file: escaped, with our colors or without
//! ```
//!
//! The text of a request is not ours. Characters that a terminal obeys (escape sequences, line breaks,
//! characters that change the writing direction) are shown as `\u{1b}` in their place. So no name can color,
//! move, forge or hide another line.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

/// The style for headings and other text to read first.
pub(crate) const EMPHASIS_STYLE: Style = Style::new().bold();
/// The style for details that may be read last.
pub(crate) const SECONDARY_STYLE: Style = Style::new().dimmed();
/// The style for good results.
pub(crate) const SUCCESS_STYLE: Style = AnsiColor::Green.on_default();
/// The style for warnings.
pub(crate) const WARNING_STYLE: Style = AnsiColor::Yellow.on_default();
/// The style for content that was removed but can be recalled.
pub(crate) const RECALLABLE_STYLE: Style = AnsiColor::Cyan.on_default();
/// The style for errors and for content that is lost.
pub(crate) const ERROR_STYLE: Style = AnsiColor::Red.on_default();

/// One line of text with styles. Line breaks in its texts are escaped, so it stays one line.
#[derive(Debug, Clone, Default)]
pub(crate) struct StyledLine(Vec<(Style, String)>);

impl StyledLine {
    pub(crate) fn plain(self, text: impl AsRef<str>) -> Self {
        self.styled(Style::new(), text)
    }

    pub(crate) fn styled(mut self, style: Style, text: impl AsRef<str>) -> Self {
        self.0.push((style, escape_controls(text.as_ref())));
        self
    }

    fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }
}

impl From<&str> for StyledLine {
    fn from(text: &str) -> Self {
        Self::default().plain(text)
    }
}

impl From<String> for StyledLine {
    fn from(text: String) -> Self {
        Self::default().plain(text)
    }
}

/// A sequence of lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Page(Vec<StyledLine>);

/// Whether a page is rendered with colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorMode {
    Colored,
    Plain,
}

impl Page {
    pub(crate) fn add_line(&mut self, line: impl Into<StyledLine>) {
        self.0.push(line.into());
    }

    pub(crate) fn add_blank(&mut self) {
        self.0.push(StyledLine::default());
    }

    /// Adds a table. Each column is padded to its widest cell, and columns are two spaces apart.
    pub(crate) fn add_table<C: Into<StyledLine>, const N: usize>(&mut self, rows: impl IntoIterator<Item = [C; N]>) {
        let rows: Vec<[StyledLine; N]> = rows.into_iter().map(|row| row.map(Into::into)).collect();
        let widths: [usize; N] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].width()).max().unwrap_or(0));
        for row in rows {
            let mut line = StyledLine::default();
            for (cell, width) in row.into_iter().zip(widths) {
                let padding = width - cell.width() + 2;
                line.0.extend(cell.0);
                line.0.push((Style::new(), " ".repeat(padding)));
            }
            self.0.push(line);
        }
    }

    /// Returns the page as text, without spaces at the ends of lines.
    pub(crate) fn render(&self, paint: ColorMode) -> String {
        let mut text = String::new();
        for line in &self.0 {
            let start = text.len();
            for (style, part) in &line.0 {
                match paint {
                    ColorMode::Colored if *style != Style::new() && !part.is_empty() => {
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

/// Escapes the characters that a terminal would obey.
pub(crate) fn escape_controls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || is_direction_or_line_separator(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a character changes the writing direction or separates lines.
fn is_direction_or_line_separator(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_space() {
        let mut page = Page::default();
        page.add_table([["a", "bb", ""], ["ccc", "é", "d"]]);
        assert_eq!(page.render(ColorMode::Plain), "a    bb\nccc  é   d\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        let cases = [
            ("plain é 漢 👩‍👩‍👧", "plain é 漢 👩‍👩‍👧"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
            ("a\u{202e}b\u{2066}c\u{2028}d\u{9b}31m\u{7f}", "a\\u{202e}b\\u{2066}c\\u{2028}d\\u{9b}31m\\u{7f}"),
        ];
        for (text, shown) in cases {
            assert_eq!(escape_controls(text), shown);
        }
        let mut page = Page::default();
        page.add_line(StyledLine::default().styled(ERROR_STYLE, "red\u{1b}[0m").plain(" not\nred"));
        assert_eq!(page.render(ColorMode::Plain), "red\\u{1b}[0m not\\nred\n");
        assert_eq!(page.render(ColorMode::Colored), "\u{1b}[31mred\\u{1b}[0m\u{1b}[0m not\\nred\n");
    }
}
