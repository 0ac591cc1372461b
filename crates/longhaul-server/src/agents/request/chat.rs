//! Chat Completions: the system prompt is the first message, calls are a field of the reply, results messages of their own.

use serde_json::json;

use super::super::{Piece, Role, Session, Turn};
use super::{Writer, arguments_text, data_url, only_words};

pub(super) fn write(session: &Session, out: &mut Writer) {
    out.key("messages");
    out.open('[');
    if let Some(system) = &session.system {
        out.value(&json!({"role": "system", "content": system}));
    }
    for turn in &session.turns {
        messages(turn, out);
    }
    out.close(']');
}

/// A turn is one message; one that holds results beside other things is several, the results first.
fn messages(turn: &Turn, out: &mut Writer) {
    let is_result = |piece: &&Piece| matches!(piece, Piece::Result { .. });
    let pieces: Vec<&Piece> = turn.pieces.iter().map(|(piece, _)| piece).collect();
    for piece in &pieces {
        if let Piece::Result { id, content, .. } = piece {
            out.open('{');
            out.field("role", "tool");
            out.field("tool_call_id", id);
            content_field(&content.iter().collect::<Vec<_>>(), out);
            out.close('}');
        }
    }
    let rest: Vec<&Piece> = pieces.into_iter().filter(|piece| !is_result(piece)).collect();
    if !rest.is_empty() {
        message(turn.role, &rest, out);
    }
}

fn message(role: Role, pieces: &[&Piece], out: &mut Writer) {
    let name = match role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let said: Vec<&Piece> = pieces
        .iter()
        .copied()
        .filter(|p| !matches!(p, Piece::Call { .. } | Piece::Thinking { .. }))
        .collect();
    let calls: Vec<&Piece> = pieces.iter().copied().filter(|p| matches!(p, Piece::Call { .. })).collect();
    out.open('{');
    out.field("role", name);
    if said.is_empty() && !calls.is_empty() {
        out.field("content", &());
    } else {
        content_field(&said, out);
    }
    let thoughts: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::Thinking { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if !thoughts.is_empty() {
        out.field("reasoning_content", &thoughts.join("\n"));
    }
    if !calls.is_empty() {
        out.key("tool_calls");
        out.open('[');
        for piece in calls {
            call(piece, out);
        }
        out.close(']');
    }
    out.close('}');
}

fn call(piece: &Piece, out: &mut Writer) {
    if let Piece::Call { id, name, arguments } = piece {
        let function = json!({"name": name, "arguments": arguments_text(arguments)});
        out.value(&json!({"id": id, "type": "function", "function": function}));
    }
}

/// One text is a string; several, or a picture, are a list of parts.
fn content_field(pieces: &[&Piece], out: &mut Writer) {
    out.key("content");
    if let Some(words) = only_words(pieces) {
        return out.value(&words);
    }
    out.open('[');
    for piece in pieces {
        match piece {
            Piece::Wire(wire) => out.raw(wire.get()),
            Piece::Text(text) => out.value(&json!({"type": "text", "text": text})),
            Piece::Image { media, data } => {
                out.value(&json!({"type": "image_url", "image_url": {"url": data_url(media, data)}}));
            }
            Piece::Thinking { .. } | Piece::Call { .. } | Piece::Result { .. } => {}
        }
    }
    out.close(']');
}
