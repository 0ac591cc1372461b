//! The text of a block as a page shows it: without secrets, arguments by name, and a description for images
//! and other data.

use std::fmt::Write;

use longhaul_engine::json::Span;
use longhaul_engine::redact::{RedactionMode, Redactor};
use longhaul_engine::tokens::group_digits;
use longhaul_engine::tokens::images;
use longhaul_engine::transcript::{Block, BlockKind};
use longhaul_engine::truncate::truncate_middle;
use serde_json::Value;

/// Whether secrets are redacted in the texts of a page.
pub enum SecretHandling {
    /// Secrets are redacted by these rules.
    Redact(Box<Redactor>),
    /// The texts stay unchanged: they are already redacted, or the reader asked for the originals.
    Keep,
}

/// The most bytes of a text that a page shows. Chosen by hand; the request has the whole text.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// The most characters of a block that the parser does not understand. Chosen by hand.
const MAX_RAW_CHARS: usize = 4_000;

impl SecretHandling {
    /// Redacts a text and cuts it after [`MAX_TEXT_BYTES`].
    pub(super) fn display_text(&mut self, text: &str) -> String {
        let text = match self {
            Self::Redact(redactor) => redactor.redact(text, RedactionMode::Text).text.into_string(),
            Self::Keep => text.to_owned(),
        };
        let mut end = text.len().min(MAX_TEXT_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let rest = text.len() - end;
        if rest == 0 { text } else { format!("{}\n[… {} more bytes]", &text[..end], group_digits(rest as u64)) }
    }

    /// Returns the text of a block, or a description if it has no text.
    pub(super) fn block_text(&mut self, block: &Block<'_>) -> String {
        match block.kind {
            BlockKind::Call => self.display_text(&format_arguments(&block.text())),
            _ if block.text.is_some() => self.display_text(&block.text()),
            BlockKind::Image(data) => describe_media("image", data.map(Span::range), block),
            BlockKind::Document(data) => describe_media("document", data.map(Span::range), block),
            BlockKind::Audio => describe_bytes("audio", block.at.len()),
            BlockKind::Reasoning(_) => describe_bytes("encrypted reasoning", block.at.len()),
            _ => self.display_text(&truncate_middle(block.raw(), MAX_RAW_CHARS)),
        }
    }
}

fn describe_bytes(what: &str, bytes: usize) -> String {
    format!("[{what}, {} bytes in the request]", group_digits(bytes as u64))
}

fn describe_media(what: &str, data: Option<std::ops::Range<usize>>, block: &Block<'_>) -> String {
    // The data is inside the block, so its offsets are relative to the block's bytes.
    let start = block.at.range().start;
    let within = data.and_then(|data| block.raw().get(data.start.checked_sub(start)?..data.end.checked_sub(start)?));
    match within.and_then(images::read_size) {
        Some(size) => format!(
            "[{what}, {}×{}, {} bytes in the request]",
            size.width,
            size.height,
            group_digits(block.at.len() as u64)
        ),
        None => describe_bytes(what, block.at.len()),
    }
}

/// Formats the arguments of a call with one name a line, so that code in them is readable; returns them
/// unchanged if they are not a JSON object.
fn format_arguments(text: &str) -> String {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(text) else { return text.to_owned() };
    let mut shown = String::with_capacity(text.len());
    for (at, (name, value)) in fields.iter().enumerate() {
        let _ = match value {
            Value::String(value) if value.contains('\n') => write!(shown, "{name}:\n{value}"),
            Value::String(value) => write!(shown, "{name}: {value}"),
            value => write!(shown, "{name}: {value}"),
        };
        if at + 1 < fields.len() {
            shown.push('\n');
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_by_name_and_anything_else_as_it_is() {
        assert_eq!(format_arguments(r#"{"path":"a.rs","text":"x\ny","n":3}"#), "path: a.rs\ntext:\nx\ny\nn: 3");
        assert_eq!(format_arguments("ls -l"), "ls -l");
        assert_eq!(format_arguments("[1]"), "[1]");
    }

    #[test]
    fn a_text_of_megabytes_is_cut_between_characters() {
        let shown = SecretHandling::Keep.display_text(&"é".repeat(MAX_TEXT_BYTES));
        assert!(shown.len() < MAX_TEXT_BYTES + 64 && shown.ends_with("more bytes]"), "{}", &shown[shown.len() - 40..]);
    }
}
