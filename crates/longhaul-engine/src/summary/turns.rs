//! The turns of a session as a model that sums them up is shown them: redacted, and with our own marks in them made harmless.

use serde_json::Value;

use crate::redact::{Content, Redacted, Redactor};
use crate::texts::{CHECKPOINT_OPENING, END_OPENING};
use crate::transcript::{BlockKind, Part, PartKind, Seal, Transcript, UnitKind};

/// A string of more bytes without a blank is data.
const DATA: usize = 2_000;

/// One turn, each of its parts under a line that says whose it is.
pub(crate) fn turn(transcript: &Transcript<'_>, unit: usize, redactor: &mut Redactor) -> Redacted {
    let kind = &transcript.units[unit].kind;
    let mut turn = Redacted::own("");
    for part in transcript.parts_of(unit) {
        let Some(words) = words(part) else { continue };
        let (whose, tool) = whose(kind, part);
        let tool = redactor.redact(tool, Content::Text).text.on_one_line(80);
        let words = redactor.redact(&words, Content::Text).text;
        turn =
            turn.and_own("[").and_own(whose).and(&tool).and_own("]\n").and(&harmless(&words)).and_own("\n");
    }
    turn
}

/// A text in which nothing reads as if a handover of ours began or ended there.
pub(crate) fn harmless(text: &Redacted) -> Redacted {
    let mut text = text.clone();
    for (mark, instead) in
        [(CHECKPOINT_OPENING, "[\\Longhaul checkpoint"), (END_OPENING, "[\\End of the checkpoint")]
    {
        if text.as_str().contains(mark) {
            text = text.with(mark, instead);
        }
    }
    text
}

/// What a part says; nothing where it is sealed, or no words.
fn words(part: Part<'_, '_>) -> Option<String> {
    let text = match part.block.kind {
        BlockKind::Image(_) => "(a picture)".to_owned(),
        BlockKind::Document(_) => "(a document)".to_owned(),
        BlockKind::Audio => "(sound)".to_owned(),
        BlockKind::Reasoning(Seal::Sealed) if part.block.text.is_none() => return None,
        _ if part.block.text.is_some() => part.block.text().into_owned(),
        // Of a kind that is not known, all that somebody could read.
        _ => strings_of(part.block.raw()),
    };
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn whose<'t>(unit: &UnitKind<'_>, part: Part<'t, '_>) -> (&'static str, &'t str) {
    match (part.kind, unit) {
        (PartKind::Call(exchange), _) => ("the agent calls ", &exchange.tool),
        (PartKind::Result { exchange, .. }, _) => ("result of ", &exchange.tool),
        (PartKind::Said, UnitKind::Prompt { .. }) => ("the user", ""),
        (PartKind::Said, UnitKind::Step { .. }) => match part.block.kind {
            BlockKind::Reasoning(_) => ("the agent thinks", ""),
            _ => ("the agent", ""),
        },
        (PartKind::Said, UnitKind::Checkpoint(_) | UnitKind::Opaque(_)) => ("an earlier summary", ""),
    }
}

/// The strings of a JSON value as they are meant, without their escapes; data that nobody reads left out.
pub(super) fn strings_of(json: &str) -> String {
    fn strings(value: &Value, all: &mut String) {
        match value {
            Value::String(text) if text.len() > DATA && !text.contains(char::is_whitespace) => {}
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
