//! Messages: `system` is a separate field, tool results are part of a user message, and every content is a
//! list of blocks.

use serde_json::{Value, json};

use super::super::{AgentSession, MessagePart, RecordedMessage, Role};
use super::JsonWriter;

pub(super) fn write(session: &AgentSession, out: &mut JsonWriter) {
    if let Some(system) = &session.system_prompt {
        out.field("system", system);
    }
    out.key("messages");
    out.open('[');
    for turn in &session.messages {
        write_message(turn, out);
    }
    out.close(']');
}

fn write_message(message: &RecordedMessage, out: &mut JsonWriter) {
    let role = match message.role {
        Role::Assistant => "assistant",
        Role::System | Role::Developer => "system",
        Role::User | Role::Tool => "user",
    };
    out.open('{');
    out.field("role", role);
    out.key("content");
    write_blocks(message.parts.iter().map(|(piece, _)| piece), out);
    out.close('}');
}

fn write_blocks<'p>(pieces: impl Iterator<Item = &'p MessagePart>, out: &mut JsonWriter) {
    out.open('[');
    for piece in pieces {
        write_block(piece, out);
    }
    out.close(']');
}

fn write_block(piece: &MessagePart, out: &mut JsonWriter) {
    match piece {
        MessagePart::Raw(wire) => out.raw(wire.get()),
        // The API rejects thinking without a signature, so it is written as text.
        MessagePart::Text(text) | MessagePart::Thinking { text, signature: None } => {
            out.value(&json!({"type": "text", "text": text}));
        }
        MessagePart::Thinking { text, signature: Some(signature) } => {
            out.value(&json!({"type": "thinking", "thinking": text, "signature": signature}));
        }
        MessagePart::ToolCall { id, name, arguments } => {
            out.value(&json!({"type": "tool_use", "id": id, "name": name, "input": arguments_object(arguments)}));
        }
        MessagePart::Image { media, data } => {
            let source = json!({"type": "base64", "media_type": media, "data": data});
            out.value(&json!({"type": "image", "source": source}));
        }
        MessagePart::ToolResult { id, content, failed } => write_tool_result(id, content, *failed, out),
    }
}

fn write_tool_result(id: &str, content: &[MessagePart], failed: bool, out: &mut JsonWriter) {
    out.open('{');
    out.field("type", "tool_result");
    out.field("tool_use_id", id);
    out.key("content");
    if let Some(words) = super::single_text(&content.iter().collect::<Vec<_>>()) {
        out.value(&words);
    } else {
        write_blocks(content.iter(), out);
    }
    if failed {
        out.field("is_error", &true);
    }
    out.close('}');
}

/// Returns the arguments as a JSON object, which this API format requires. Wraps other values in an object.
fn arguments_object(arguments: &Value) -> Value {
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
