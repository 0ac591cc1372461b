//! The texts of blocks as a page shows them: without secrets, arguments by name, and what has no words named.

use std::fmt::Write;

use longhaul_engine::clip::clip;
use longhaul_engine::json::Span;
use longhaul_engine::redact::{Content, Redactor};
use longhaul_engine::tokens::grouped;
use longhaul_engine::tokens::images;
use longhaul_engine::transcript::{Block, BlockKind};
use serde_json::Value;

/// Whether secrets are taken out of what a page shows.
pub enum Secrets {
    /// They are, by these rules.
    Out(Box<Redactor>),
    /// The texts stand as they are: they have none, or the reader wants them.
    AsTheyStand,
}

/// A longer text is cut off: a page is for reading, and the body has it whole.
const LONGEST: usize = 256 * 1024;

/// As much is shown of what is not understood, which may be anything.
const LONGEST_RAW: usize = 4_000;

impl Secrets {
    /// A text without them.
    pub(super) fn out_of(&mut self, text: &str) -> String {
        let text = match self {
            Self::Out(redactor) => redactor.redact(text, Content::Text).text.into_string(),
            Self::AsTheyStand => text.to_owned(),
        };
        let mut end = text.len().min(LONGEST);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let rest = text.len() - end;
        if rest == 0 { text } else { format!("{}\n[… {} bytes more]", &text[..end], grouped(rest as u64)) }
    }

    /// What a block says.
    pub(super) fn block(&mut self, block: &Block<'_>) -> String {
        match block.kind {
            BlockKind::Call => self.out_of(&arguments(&block.text())),
            _ if block.text.is_some() => self.out_of(&block.text()),
            BlockKind::Image(data) => picture("image", data.map(Span::range), block),
            BlockKind::Document(data) => picture("document", data.map(Span::range), block),
            BlockKind::Audio => named("sound", block.at.len()),
            BlockKind::Reasoning(_) => named("sealed reasoning", block.at.len()),
            _ => self.out_of(&clip(block.raw(), LONGEST_RAW)),
        }
    }
}

fn named(what: &str, bytes: usize) -> String {
    format!("[{what}, {} bytes in the body]", grouped(bytes as u64))
}

fn picture(what: &str, data: Option<std::ops::Range<usize>>, block: &Block<'_>) -> String {
    // The data stands inside the block, whose bytes are all that is at hand.
    let start = block.at.range().start;
    let within =
        data.and_then(|data| block.raw().get(data.start.checked_sub(start)?..data.end.checked_sub(start)?));
    match within.and_then(images::size) {
        Some(size) => format!(
            "[{what}, {}×{}, {} bytes in the body]",
            size.width,
            size.height,
            grouped(block.at.len() as u64)
        ),
        None => named(what, block.at.len()),
    }
}

/// The arguments of a call by name, a line each, so that code in them reads as code; else as they are written.
fn arguments(text: &str) -> String {
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
        assert_eq!(arguments(r#"{"path":"a.rs","text":"x\ny","n":3}"#), "path: a.rs\ntext:\nx\ny\nn: 3");
        assert_eq!(arguments("ls -l"), "ls -l");
        assert_eq!(arguments("[1]"), "[1]");
    }

    #[test]
    fn a_text_of_megabytes_is_cut_between_characters() {
        let shown = Secrets::AsTheyStand.out_of(&"é".repeat(LONGEST));
        assert!(
            shown.len() < LONGEST + 64 && shown.ends_with("bytes more]"),
            "{}",
            &shown[shown.len() - 40..]
        );
    }
}
