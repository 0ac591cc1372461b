//! Messages: `system` apart, results in the user's turn, every content a list of blocks.

use serde_json::{Value, json};

use super::super::{Piece, Role, Session, Turn};
use super::Writer;

pub(super) fn write(session: &Session, out: &mut Writer) {
    if let Some(system) = &session.system {
        out.field("system", system);
    }
    out.key("messages");
    out.open('[');
    for turn in &session.turns {
        message(turn, out);
    }
    out.close(']');
}

fn message(turn: &Turn, out: &mut Writer) {
    let role = match turn.role {
        Role::Assistant => "assistant",
        Role::System | Role::Developer => "system",
        Role::User | Role::Tool => "user",
    };
    out.open('{');
    out.field("role", role);
    out.key("content");
    blocks(turn.pieces.iter().map(|(piece, _)| piece), out);
    out.close('}');
}

fn blocks<'p>(pieces: impl Iterator<Item = &'p Piece>, out: &mut Writer) {
    out.open('[');
    for piece in pieces {
        block(piece, out);
    }
    out.close(']');
}

fn block(piece: &Piece, out: &mut Writer) {
    match piece {
        Piece::Wire(wire) => out.raw(wire.get()),
        // Thinking without a signature would be refused; its words are kept as words.
        Piece::Text(text) | Piece::Thinking { text, signature: None } => {
            out.value(&json!({"type": "text", "text": text}));
        }
        Piece::Thinking { text, signature: Some(signature) } => {
            out.value(&json!({"type": "thinking", "thinking": text, "signature": signature}));
        }
        Piece::Call { id, name, arguments } => {
            out.value(&json!({"type": "tool_use", "id": id, "name": name, "input": object(arguments)}));
        }
        Piece::Image { media, data } => {
            let source = json!({"type": "base64", "media_type": media, "data": data});
            out.value(&json!({"type": "image", "source": source}));
        }
        Piece::Result { id, content, failed } => result(id, content, *failed, out),
    }
}

fn result(id: &str, content: &[Piece], failed: bool, out: &mut Writer) {
    out.open('{');
    out.field("type", "tool_result");
    out.field("tool_use_id", id);
    out.key("content");
    if let Some(words) = super::only_words(&content.iter().collect::<Vec<_>>()) {
        out.value(&words);
    } else {
        blocks(content.iter(), out);
    }
    if failed {
        out.field("is_error", &true);
    }
    out.close('}');
}

/// The arguments as the object that this dialect wants. What is none is kept inside one.
fn object(arguments: &Value) -> Value {
    let read = match arguments {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| arguments.clone()),
        other => other.clone(),
    };
    match read {
        Value::Object(_) => read,
        Value::Null => json!({}),
        Value::String(text) if text.trim().is_empty() => json!({}),
        other => json!({"arguments": other}),
    }
}
