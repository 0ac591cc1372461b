//! What a rewrite adds to a body: one message, or one block in a message that is there.

use std::borrow::Cow;

use super::raw::Key;
use crate::Dialect;
use crate::json::{Scanner, Span, escape, unescape};
use crate::transcript::{Block, BlockKind, ElementId, Speaker, Transcript, Unit, UnitKind};

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
    let [role, kind] = role_and_kind(transcript.body, transcript.span_of(message))?;
    role_of(role.as_deref(), kind.as_deref())
}

/// Whether a unit holds what is meant to last: instructions in mid-conversation, or a provider's own compaction.
#[must_use]
pub fn instructs(transcript: &Transcript<'_>, unit: &Unit<'_>) -> bool {
    let is_compaction = |block: &Block<'_>| {
        let kind = role_and_kind(transcript.body, block.at).and_then(|[_, kind]| kind);
        kind.as_deref() == Some("compaction")
    };
    match &unit.kind {
        UnitKind::Prompt { by: Speaker::Host, .. } => {
            let message =
                unit.owns.first().and_then(|id| Some((transcript.messages?, transcript.message_of(*id)?)));
            let id = message.map(|(array, at)| ElementId { array, index: at as u32 });
            id.and_then(|id| role(transcript, id)) == Some(Role::System)
        }
        UnitKind::Step { reply, .. } => {
            reply.iter().filter(|b| b.kind == BlockKind::Unknown).any(is_compaction)
        }
        UnitKind::Opaque(block) => is_compaction(block),
        UnitKind::Prompt { .. } | UnitKind::Checkpoint(_) => false,
    }
}

/// The `role` and the `type` of an object.
fn role_and_kind(body: &str, at: Span) -> Option<[Option<Cow<'_, str>>; 2]> {
    let (mut role, mut kind) = (None, None);
    let scanned = Scanner::within(body, at).members(|scanner, key, _| {
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
    Some([role, kind])
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
