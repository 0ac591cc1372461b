//! Renders a compaction as markup.
//!
//! ```text
//! overview.rs  the figures: tokens by part, cache, cost, reasons
//! messages.rs  message by message, before on the left, after on the right
//! ```

mod messages;
mod overview;

pub use messages::message_list;
pub use overview::overview;

use maud::{Markup, html};

use super::model::CompactionView;
use crate::pages::formatting::control_char_name;

/// The options of the page that contains the view.
#[derive(Clone, Copy, Default)]
pub struct RenderOptions<'r> {
    /// The function that returns the address of the original of a recall ID. Without it, the page names the
    /// command that prints the original.
    pub recall_url: Option<&'r dyn Fn(&str) -> String>,
}

/// Renders the whole view: the figures, and every message. A page can contain it only once, because its rows
/// have IDs.
#[must_use]
pub fn compaction_view(compaction: &CompactionView, reader: RenderOptions<'_>) -> Markup {
    html! { (overview(compaction)) (message_list(compaction, reader)) }
}

/// The lines of a long text that are visible before the reader opens it. Chosen by hand.
const PREVIEW_LINES: usize = 8;
/// The most bytes of a long text that are visible before the reader opens it. Chosen by hand.
const PREVIEW_BYTES: usize = 700;

/// Renders untrusted text: completely if it is short, and otherwise as a preview that the reader can open.
fn collapsible_text(text: &str) -> Markup {
    match preview(text) {
        None => text_block(text),
        Some(preview_text) => html! {
            details.more {
                summary { (text_block(preview_text)) span.open { "… show all, " (crate::pages::group_digits(text.len() as u64)) " bytes" } span.shut { "show less" } }
                (text_block(text))
            }
        },
    }
}

/// Returns the preview of a long text; nothing if the text is short enough to show completely.
fn preview(text: &str) -> Option<&str> {
    let mut end = text.match_indices('\n').nth(PREVIEW_LINES - 1).map_or(text.len(), |(at, _)| at);
    if end > PREVIEW_BYTES {
        end = PREVIEW_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
    }
    // Two more lines are not worth a click.
    (text.len() > end + 160).then_some(text[..end].trim_end_matches('\r'))
}

/// Renders untrusted text with its line breaks and with visible control characters.
fn text_block(text: &str) -> Markup {
    html! { div.text dir="auto" { (escape_controls(text)) } }
}

/// Escapes a text, and replaces control characters by their names.
fn escape_controls(text: &str) -> Markup {
    let mut rest = text;
    let mut parts: Vec<(&str, String)> = Vec::new();
    while let Some((at, c, name)) = rest.char_indices().find_map(|(at, c)| Some((at, c, control_char_name(c)?))) {
        // A carriage return before a line feed belongs to the line break.
        let is_end = c == '\r' && rest[at + 1..].starts_with('\n');
        parts.push((&rest[..at], if is_end { String::new() } else { name }));
        rest = &rest[at + c.len_utf8()..];
    }
    parts.push((rest, String::new()));
    html! {
        @for (text, hidden) in parts {
            (text)
            @if !hidden.is_empty() { span.control { (hidden) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_hidden_characters_are_visible() {
        let shown = escape_controls("<img src=x onerror=alert(1)>\u{202e}a\u{1b}[31m&\r\n.").into_string();
        assert_eq!(
            shown,
            "&lt;img src=x onerror=alert(1)&gt;<span class=\"control\">U+202E</span>a<span class=\"control\">^[</span>[31m&amp;\n."
        );
    }

    #[test]
    fn a_long_text_has_a_preview_and_a_short_one_has_none() {
        assert!(preview("short\ntext").is_none());
        assert!(preview(&"line\n".repeat(9)).is_none());
        assert_eq!(preview(&"a line\n".repeat(90)).map(str::len), Some(8 * 7 - 1));
        assert!(preview(&"漢".repeat(900)).is_some_and(|preview_text| preview_text.len() <= PREVIEW_BYTES));
    }
}
