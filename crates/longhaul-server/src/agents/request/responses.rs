//! Responses: `instructions` apart, everything else a flat list of items.

use serde_json::json;

use super::super::{Piece, Role, Session, Turn};
use super::{Writer, arguments_text, data_url, only_words};

pub(super) fn write(session: &Session, out: &mut Writer) {
    if let Some(system) = &session.system {
        out.field("instructions", system);
    }
    out.key("input");
    out.open('[');
    for turn in &session.turns {
        items(turn, out);
    }
    out.close(']');
}

/// What is said side by side is one message; all else is an item of its own.
fn items(turn: &Turn, out: &mut Writer) {
    let mut said: Vec<&Piece> = Vec::new();
    for (piece, _) in &turn.pieces {
        if matches!(piece, Piece::Text(_) | Piece::Image { .. }) {
            said.push(piece);
        } else {
            message(turn.role, &std::mem::take(&mut said), out);
            item(piece, out);
        }
    }
    message(turn.role, &said, out);
}

fn message(role: Role, said: &[&Piece], out: &mut Writer) {
    if said.is_empty() {
        return;
    }
    let (name, kind) = match role {
        Role::System => ("system", "input_text"),
        Role::Developer => ("developer", "input_text"),
        Role::User | Role::Tool => ("user", "input_text"),
        Role::Assistant => ("assistant", "output_text"),
    };
    out.open('{');
    out.field("type", "message");
    out.field("role", name);
    parts("content", kind, said, out);
    out.close('}');
}

fn parts(field: &str, kind: &str, pieces: &[&Piece], out: &mut Writer) {
    out.key(field);
    out.open('[');
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.value(&json!({"type": kind, "text": text})),
            Piece::Image { media, data } => {
                out.value(&json!({"type": "input_image", "image_url": data_url(media, data)}));
            }
            Piece::Wire(wire) => out.raw(wire.get()),
            Piece::Thinking { .. } | Piece::Call { .. } | Piece::Result { .. } => {}
        }
    }
    out.close(']');
}

fn item(piece: &Piece, out: &mut Writer) {
    match piece {
        Piece::Wire(wire) => out.raw(wire.get()),
        Piece::Thinking { text, signature } => {
            let summary = json!([{"type": "summary_text", "text": text}]);
            match signature {
                Some(sealed) => {
                    out.value(&json!({"type": "reasoning", "summary": summary, "encrypted_content": sealed}));
                }
                None => out.value(&json!({"type": "reasoning", "summary": summary})),
            }
        }
        Piece::Call { id, name, arguments } => {
            let arguments = arguments_text(arguments);
            out.value(&json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments}));
        }
        Piece::Result { id, content, .. } => {
            out.open('{');
            out.field("type", "function_call_output");
            out.field("call_id", id);
            let content: Vec<&Piece> = content.iter().collect();
            match only_words(&content) {
                Some(words) => out.field("output", &words),
                None => parts("output", "input_text", &content, out),
            }
            out.close('}');
        }
        Piece::Text(_) | Piece::Image { .. } => {}
    }
}
