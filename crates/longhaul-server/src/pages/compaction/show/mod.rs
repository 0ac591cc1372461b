//! A compaction as markup.
//!
//! ```text
//! top.rs       the numbers: tokens by part, cache, cost, reasons
//! messages.rs  message by message, before left, after right
//! ```

mod messages;
mod top;

pub use messages::list;
pub use top::top;

use maud::{Markup, html};

use super::model::Compaction;
use crate::pages::words::named;

/// What the page around the view can do for its reader.
#[derive(Clone, Copy, Default)]
pub struct Reader<'r> {
    /// The address at which the original of a handle opens; without one the command is named that prints it.
    pub recall: Option<&'r dyn Fn(&str) -> String>,
}

/// The whole view: what it came to, and every message. A page has one: its rows have ids to link to.
#[must_use]
pub fn view(compaction: &Compaction, reader: Reader<'_>) -> Markup {
    html! { (top(compaction)) (list(compaction, reader)) }
}

/// So many lines, and bytes, of a long text are seen before it is opened.
const SEEN_LINES: usize = 8;
const SEEN_BYTES: usize = 700;

/// A text that is somebody else's, whole where it is short, else to be opened.
fn text(text: &str) -> Markup {
    match opening(text) {
        None => block(text),
        Some(seen) => html! {
            details.more {
                summary { (block(seen)) span.open { "… show all, " (crate::pages::grouped(text.len() as u64)) " bytes" } span.shut { "show less" } }
                (block(text))
            }
        },
    }
}

/// The beginning of a text that is too long to be seen whole.
fn opening(text: &str) -> Option<&str> {
    let mut end = text.match_indices('\n').nth(SEEN_LINES - 1).map_or(text.len(), |(at, _)| at);
    if end > SEEN_BYTES {
        end = SEEN_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
    }
    // Opening it for two more lines is not worth a click.
    (text.len() > end + 160).then_some(text[..end].trim_end_matches('\r'))
}

/// A text with its line ends; characters that would turn or hide others are seen.
fn block(text: &str) -> Markup {
    html! { div.text dir="auto" { (visible(text)) } }
}

/// Escapes a text, and shows what is not meant to be seen.
fn visible(text: &str) -> Markup {
    let mut rest = text;
    let mut parts: Vec<(&str, String)> = Vec::new();
    while let Some((at, c, name)) = rest.char_indices().find_map(|(at, c)| Some((at, c, named(c)?))) {
        // The line ends of other systems are line ends.
        let is_end = c == '\r' && rest[at + 1..].starts_with('\n');
        parts.push((&rest[..at], if is_end { String::new() } else { name }));
        rest = &rest[at + c.len_utf8()..];
    }
    parts.push((rest, String::new()));
    html! {
        @for (words, hidden) in parts {
            (words)
            @if !hidden.is_empty() { span.control { (hidden) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_text_and_hidden_characters_are_seen() {
        let shown = visible("<img src=x onerror=alert(1)>\u{202e}a\u{1b}[31m&\r\n.").into_string();
        assert_eq!(
            shown,
            "&lt;img src=x onerror=alert(1)&gt;<span class=\"control\">U+202E</span>a<span class=\"control\">^[</span>[31m&amp;\n."
        );
    }

    #[test]
    fn a_long_text_is_opened_and_a_short_one_is_seen() {
        assert!(opening("short\ntext").is_none());
        assert!(opening(&"line\n".repeat(9)).is_none());
        assert_eq!(opening(&"a line\n".repeat(90)).map(str::len), Some(8 * 7 - 1));
        assert!(opening(&"漢".repeat(900)).is_some_and(|seen| seen.len() <= SEEN_BYTES));
    }
}
