//! Chat Completions: the system prompt is the first message, tool calls are a field of the assistant message,
//! and each tool result is a message.

use serde_json::json;

use super::super::{AgentSession, MessagePart, RecordedMessage, Role};
use super::{JsonWriter, arguments_json, single_text, to_data_url};

pub(super) fn write(session: &AgentSession, out: &mut JsonWriter) {
    out.key("messages");
    out.open('[');
    if let Some(system) = &session.system_prompt {
        out.value(&json!({"role": "system", "content": system}));
    }
    for turn in &session.messages {
        write_messages(turn, out);
    }
    out.close(']');
}

/// Writes a message. If it contains tool results and other parts, it writes several messages, the results
/// first.
fn write_messages(message: &RecordedMessage, out: &mut JsonWriter) {
    let is_result = |piece: &&MessagePart| matches!(piece, MessagePart::ToolResult { .. });
    let pieces: Vec<&MessagePart> = message.parts.iter().map(|(piece, _)| piece).collect();
    for piece in &pieces {
        if let MessagePart::ToolResult { id, content, .. } = piece {
            out.open('{');
            out.field("role", "tool");
            out.field("tool_call_id", id);
            write_content(&content.iter().collect::<Vec<_>>(), out);
            out.close('}');
        }
    }
    let rest: Vec<&MessagePart> = pieces.into_iter().filter(|piece| !is_result(piece)).collect();
    if !rest.is_empty() {
        write_message(message.role, &rest, out);
    }
}

fn write_message(role: Role, pieces: &[&MessagePart], out: &mut JsonWriter) {
    let name = match role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let parts: Vec<&MessagePart> = pieces
        .iter()
        .copied()
        .filter(|p| !matches!(p, MessagePart::ToolCall { .. } | MessagePart::Thinking { .. }))
        .collect();
    let calls: Vec<&MessagePart> =
        pieces.iter().copied().filter(|p| matches!(p, MessagePart::ToolCall { .. })).collect();
    out.open('{');
    out.field("role", name);
    if parts.is_empty() && !calls.is_empty() {
        out.field("content", &());
    } else {
        write_content(&parts, out);
    }
    let thoughts: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            MessagePart::Thinking { text, .. } => Some(text.as_str()),
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
            write_tool_call(piece, out);
        }
        out.close(']');
    }
    out.close('}');
}

fn write_tool_call(piece: &MessagePart, out: &mut JsonWriter) {
    if let MessagePart::ToolCall { id, name, arguments } = piece {
        let function = json!({"name": name, "arguments": arguments_json(arguments)});
        out.value(&json!({"id": id, "type": "function", "function": function}));
    }
}

/// Writes the content: a single text as a string, anything else as a list of parts.
fn write_content(pieces: &[&MessagePart], out: &mut JsonWriter) {
    out.key("content");
    if let Some(words) = single_text(pieces) {
        return out.value(&words);
    }
    out.open('[');
    for piece in pieces {
        match piece {
            MessagePart::Raw(wire) => out.raw(wire.get()),
            MessagePart::Text(text) => out.value(&json!({"type": "text", "text": text})),
            MessagePart::Image { media, data } => {
                out.value(&json!({"type": "image_url", "image_url": {"url": to_data_url(media, data)}}));
            }
            MessagePart::Thinking { .. } | MessagePart::ToolCall { .. } | MessagePart::ToolResult { .. } => {}
        }
    }
    out.close(']');
}
