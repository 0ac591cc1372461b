//! What a rewrite adds to a body: one message, or one block in a message that is there.

use super::raw::Key;
use crate::Dialect;
use crate::json::{Scanner, escape, unescape};
use crate::transcript::{ElementId, Transcript};

/// Under whose name a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The system prompt, or the host in mid-conversation.
    System,
    /// The user, tool results in messages bodies included.
    User,
    /// The model.
    Assistant,
    /// A tool's result that is a message of its own.
    Tool,
}

/// The role of a message or item; none where it is not understood.
#[must_use]
pub fn role(transcript: &Transcript<'_>, message: ElementId) -> Option<Role> {
    let (mut role, mut kind) = (None, None);
    let body = transcript.body;
    let scanned = Scanner::within(body, transcript.span_of(message)).members(|scanner, key, _| {
        let (value, value_kind) = scanner.value()?;
        if value_kind.is_string() {
            let text = || Some(unescape(&body[value.unquoted().range()]));
            match &body[key.range()] {
                name if name == Key::Role.text() => role = text(),
                name if name == Key::Type.text() => kind = text(),
                _ => {}
            }
        }
        Ok(())
    });
    scanned.ok()?;
    role_of(role.as_deref(), kind.as_deref())
}

/// The role of a message or item with this `role` and this `type`.
pub(super) fn role_of(role: Option<&str>, kind: Option<&str>) -> Option<Role> {
    match (role, kind) {
        (Some("system" | "developer"), _) => Some(Role::System),
        (Some("user"), _) => Some(Role::User),
        (Some("assistant"), _) => Some(Role::Assistant),
        (Some("tool" | "function"), _) => Some(Role::Tool),
        (None, Some(kind)) if kind.ends_with("_output") => Some(Role::Tool),
        (None, Some(kind)) if kind.ends_with("_call") || kind == "reasoning" => Some(Role::Assistant),
        _ => None,
    }
}

/// A message with this text. Only users and models speak in what we add.
#[must_use]
pub fn message(dialect: Dialect, role: Role, text: &str) -> String {
    let name = if role == Role::Assistant { "assistant" } else { "user" };
    match dialect {
        Dialect::Chat | Dialect::Messages => format!(r#"{{"role":"{name}","content":"{}"}}"#, escape(text)),
        Dialect::Responses => {
            format!(r#"{{"type":"message","role":"{name}","content":[{}]}}"#, block(dialect, role, text))
        }
    }
}

/// A content block with this text, for a message of this role.
#[must_use]
pub fn block(dialect: Dialect, role: Role, text: &str) -> String {
    let kind = match (dialect, role) {
        (Dialect::Chat | Dialect::Messages, _) => "text",
        (Dialect::Responses, Role::Assistant) => "output_text",
        (Dialect::Responses, _) => "input_text",
    };
    format!(r#"{{"type":"{kind}","text":"{}"}}"#, escape(text))
}
