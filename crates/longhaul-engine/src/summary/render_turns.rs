//! Renders turns for the model that summarizes them: redacted, and without anything that looks like a
//! checkpoint's marker.

use serde_json::Value;

use crate::redact::{Redacted, RedactionMode, Redactor};
use crate::texts::{CHECKPOINT_END_OPENING, CHECKPOINT_OPENING};
use crate::transcript::{BlockKind, BlockRole, Seal, Transcript, TurnBlock, TurnKind};

/// The length in bytes above which a string without white space counts as data and is left out. Chosen by
/// hand.
const MAX_UNSPACED_BYTES: usize = 2_000;

/// Renders one turn. Each part has a line above it that names its author.
pub(crate) fn render_turn(transcript: &Transcript<'_>, turn: usize, redactor: &mut Redactor) -> Redacted {
    let kind = &transcript.turns[turn].kind;
    let mut rendered = Redacted::literal("");
    for part in transcript.blocks_of_turn(turn) {
        let Some(words) = part_text(part) else { continue };
        let (whose, tool) = speaker_label(kind, part);
        let tool = redactor.redact(tool, RedactionMode::Text).text.one_line(80);
        let words = redactor.redact(&words, RedactionMode::Text).text;
        rendered = rendered
            .append_literal("[")
            .append_literal(whose)
            .append(&tool)
            .append_literal("]\n")
            .append(&escape_markers(&words))
            .append_literal("\n");
    }
    rendered
}

/// Escapes everything in a text that looks like the marker or the end line of a checkpoint.
pub(crate) fn escape_markers(text: &Redacted) -> Redacted {
    let mut text = text.clone();
    for (mark, instead) in
        [(CHECKPOINT_OPENING, "[\\Longhaul checkpoint"), (CHECKPOINT_END_OPENING, "[\\End of the checkpoint")]
    {
        if text.as_str().contains(mark) {
            text = text.replace_with_literal(mark, instead);
        }
    }
    text
}

/// Returns the text of a part; `None` if it is encrypted or empty.
fn part_text(part: TurnBlock<'_, '_>) -> Option<String> {
    let text = match part.block.kind {
        BlockKind::Image(_) => "(a picture)".to_owned(),
        BlockKind::Document(_) => "(a document)".to_owned(),
        BlockKind::Audio => "(sound)".to_owned(),
        BlockKind::Reasoning(Seal::Sealed) if part.block.text.is_none() => return None,
        _ if part.block.text.is_some() => part.block.text().into_owned(),
        // For an unknown kind of block, use all strings in it.
        _ => json_strings(part.block.raw()),
    };
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn speaker_label<'t>(turn: &TurnKind<'_>, part: TurnBlock<'t, '_>) -> (&'static str, &'t str) {
    match (part.role, turn) {
        (BlockRole::Call(tool_call), _) => ("the agent calls ", &tool_call.tool),
        (BlockRole::Result { tool_call, .. }, _) => ("result of ", &tool_call.tool),
        (BlockRole::Content, TurnKind::Prompt { .. }) => ("the user", ""),
        (BlockRole::Content, TurnKind::Assistant { .. }) => match part.block.kind {
            BlockKind::Reasoning(_) => ("the agent thinks", ""),
            _ => ("the agent", ""),
        },
        (BlockRole::Content, TurnKind::Checkpoint(_) | TurnKind::Opaque(_)) => ("an earlier summary", ""),
    }
}

/// Returns the strings of a JSON value, unescaped, one for each line. Encoded data is left out.
pub(super) fn json_strings(json: &str) -> String {
    fn strings(value: &Value, all: &mut String) {
        match value {
            Value::String(text) if text.len() > MAX_UNSPACED_BYTES && !text.contains(char::is_whitespace) => {}
            Value::String(text) => {
                all.push_str(text);
                all.push('\n');
            }
            Value::Array(values) => values.iter().for_each(|value| strings(value, all)),
            Value::Object(map) => map.values().for_each(|value| strings(value, all)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut all = String::new();
    if let Ok(value) = serde_json::from_str(json) {
        strings(&value, &mut all);
    }
    all
}
