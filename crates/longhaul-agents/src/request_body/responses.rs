//! Responses: `instructions` is a separate field, and everything else is a flat list of items.

use serde_json::json;

use super::super::{AgentSession, MessagePart, RecordedMessage, Role};
use super::{JsonWriter, arguments_json, single_text, to_data_url};

pub(super) fn write(session: &AgentSession, out: &mut JsonWriter) {
    if let Some(system) = &session.system_prompt {
        out.field("instructions", system);
    }
    out.key("input");
    out.open('[');
    for turn in &session.messages {
        write_items(turn, out);
    }
    out.close(']');
}

/// Writes neighboring texts and images as one message item, and every other part as an item of its own.
fn write_items(message: &RecordedMessage, out: &mut JsonWriter) {
    let mut parts: Vec<&MessagePart> = Vec::new();
    for (piece, _) in &message.parts {
        if matches!(piece, MessagePart::Text(_) | MessagePart::Image { .. }) {
            parts.push(piece);
        } else {
            write_message(message.role, &std::mem::take(&mut parts), out);
            write_item(piece, out);
        }
    }
    write_message(message.role, &parts, out);
}

fn write_message(role: Role, parts: &[&MessagePart], out: &mut JsonWriter) {
    if parts.is_empty() {
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
    write_content("content", kind, parts, out);
    out.close('}');
}

fn write_content(field: &str, kind: &str, pieces: &[&MessagePart], out: &mut JsonWriter) {
    out.key(field);
    out.open('[');
    for piece in pieces {
        match piece {
            MessagePart::Text(text) => out.value(&json!({"type": kind, "text": text})),
            MessagePart::Image { media, data } => {
                out.value(&json!({"type": "input_image", "image_url": to_data_url(media, data)}));
            }
            MessagePart::Raw(wire) => out.raw(wire.get()),
            MessagePart::Thinking { .. } | MessagePart::ToolCall { .. } | MessagePart::ToolResult { .. } => {}
        }
    }
    out.close(']');
}

fn write_item(piece: &MessagePart, out: &mut JsonWriter) {
    match piece {
        MessagePart::Raw(wire) => out.raw(wire.get()),
        MessagePart::Thinking { text, signature } => {
            let summary = json!([{"type": "summary_text", "text": text}]);
            match signature {
                Some(sealed) => {
                    out.value(&json!({"type": "reasoning", "summary": summary, "encrypted_content": sealed}));
                }
                None => out.value(&json!({"type": "reasoning", "summary": summary})),
            }
        }
        MessagePart::ToolCall { id, name, arguments } => {
            let arguments = arguments_json(arguments);
            out.value(&json!({"type": "function_call", "call_id": id, "name": name, "arguments": arguments}));
        }
        MessagePart::ToolResult { id, content, .. } => {
            out.open('{');
            out.field("type", "function_call_output");
            out.field("call_id", id);
            let content: Vec<&MessagePart> = content.iter().collect();
            match single_text(&content) {
                Some(words) => out.field("output", &words),
                None => write_content("output", "input_text", &content, out),
            }
            out.close('}');
        }
        MessagePart::Text(_) | MessagePart::Image { .. } => {}
    }
}
