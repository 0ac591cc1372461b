//! What a rewrite adds to a body: one message, or one block in a message that is there.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::raw::Key;
use crate::Dialect;
use crate::json::{Scanner, Span, escape, unescape};
use crate::rewrite::Edit;
use crate::transcript::{
    Block, BlockAt, BlockKind, ElementId, Place, Role, Speaker, Transcript, Unit, UnitKind,
};

/// Whether a unit holds what is meant to last: instructions in mid-conversation, or a provider's own compaction.
#[must_use]
pub fn instructs(transcript: &Transcript<'_>, unit: &Unit<'_>) -> bool {
    let is_compaction =
        |block: &Block<'_>| kind_of(transcript.body, block.at).as_deref() == Some("compaction");
    match &unit.kind {
        UnitKind::Prompt { by: Speaker::Host, .. } => {
            let message = unit.owns.first().and_then(|id| transcript.message_of(*id));
            message.and_then(|message| transcript.role(message)) == Some(Role::System)
        }
        UnitKind::Step { reply, .. } => {
            reply.iter().filter(|b| b.kind == BlockKind::Unknown).any(is_compaction)
        }
        UnitKind::Opaque(block) => is_compaction(block),
        UnitKind::Prompt { .. } | UnitKind::Checkpoint(_) => false,
    }
}

/// The `type` of an object.
fn kind_of(body: &str, at: Span) -> Option<Cow<'_, str>> {
    // A scanner that fails looks for the line and column in all of the body: nothing that a client can send a million of.
    if !body[at.range()].starts_with('{') {
        return None;
    }
    let mut kind = None;
    let scanned = Scanner::within(body, at).members(|scanner, key, _| {
        let (value, value_kind) = scanner.value()?;
        if value_kind.is_string() && body[key.range()] == *Key::Type.text() {
            kind = Some(unescape(&body[value.unquoted().range()]));
        }
        Ok(())
    });
    scanned.ok()?;
    kind
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

/// The edit that gives a call a result with this text; nothing where the call has no id, or where its answer would have to stand
/// beside a string.
#[must_use]
pub fn answer(transcript: &Transcript<'_>, call: BlockAt, text: &str) -> Option<Edit> {
    let Place::Element(call) = transcript.block(call)?.place else { return None };
    let (array, message) = (transcript.messages?, transcript.message_of(call)?);
    let value: Value = serde_json::from_str(&transcript.body[transcript.span_of(call).range()]).ok()?;
    let id = value.get("call_id").or(value.get("id")).filter(|id| id.is_string())?;
    let behind = ElementId { array, index: message as u32 + 1 };
    let insert = |before: ElementId, json: Value| Some(Edit::Insert { before, json: json.to_string() });
    match transcript.dialect {
        Dialect::Chat => insert(behind, json!({"role": "tool", "tool_call_id": id, "content": text})),
        Dialect::Responses => {
            let kind = if value["type"] == "custom_tool_call" {
                "custom_tool_call_output"
            } else {
                "function_call_output"
            };
            insert(behind, json!({"type": kind, "call_id": id, "output": text}))
        }
        Dialect::Messages => {
            let result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
            if transcript.role(message + 1) != Some(Role::User) {
                return insert(behind, json!({"role": "user", "content": [result]}));
            }
            insert(ElementId { array: transcript.content_array(behind)?, index: 0 }, result)
        }
    }
}

/// The edit that offers more tools, behind those that the body has: what stands before them stays what it was.
#[must_use]
pub fn offer(transcript: &Transcript<'_>, tools: &[String]) -> Vec<Edit> {
    let of_list = |block: &Block<'_>| match block.place {
        Place::Element(id) if block.kind == BlockKind::Tool => {
            Some(id).filter(|id| transcript.message_of(*id).is_none())
        }
        _ => None,
    };
    let Some(last) = transcript.preamble.iter().filter_map(of_list).next_back() else {
        let json = format!("[{}]", tools.join(","));
        return vec![Edit::Set { object: transcript.root, key: "tools", json }];
    };
    let index = transcript.arrays.elements(last.array).len() as u32;
    let before = ElementId { index, ..last };
    tools.iter().map(|tool| Edit::Insert { before, json: tool.clone() }).collect()
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
