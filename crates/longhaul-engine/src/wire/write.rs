//! Writes the JSON that edits add to a body: messages, blocks, tool results and tool definitions.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::scan::Key;
use crate::ApiFormat;
use crate::json::{Scanner, Span, escape, unescape};
use crate::rewrite::Edit;
use crate::transcript::{
    Block, BlockKind, BlockPosition, ElementId, JsonSlot, Role, Speaker, Transcript, Turn, TurnKind,
};

/// Returns whether a turn is meant to last: an instruction in the middle of a conversation, or a compaction
/// by the provider.
#[must_use]
pub fn is_lasting_instruction(transcript: &Transcript<'_>, turn: &Turn<'_>) -> bool {
    let is_compaction = |block: &Block<'_>| read_type(transcript.body, block.at).as_deref() == Some("compaction");
    match &turn.kind {
        TurnKind::Prompt { speaker: Speaker::Host, .. } => {
            let message = turn.owned_elements.first().and_then(|id| transcript.message_of(*id));
            message.and_then(|message| transcript.role(message)) == Some(Role::System)
        }
        TurnKind::Assistant { reply, .. } => reply.iter().filter(|b| b.kind == BlockKind::Unknown).any(is_compaction),
        TurnKind::Opaque(block) => is_compaction(block),
        TurnKind::Prompt { .. } | TurnKind::Checkpoint(_) => false,
    }
}

/// Reads the `type` field of an object.
fn read_type(body: &str, at: Span) -> Option<Cow<'_, str>> {
    // A failing scanner searches the whole body for the line and column. A client could send a million values
    // that make it fail, so other values are not scanned.
    if !body[at.range()].starts_with('{') {
        return None;
    }
    let mut kind = None;
    let scanned = Scanner::within(body, at).for_each_member(|scanner, key, _| {
        let (value, value_kind) = scanner.skip_value()?;
        if value_kind.is_string() && body[key.range()] == *Key::Type.text() {
            kind = Some(unescape(&body[value.unquoted().range()]));
        }
        Ok(())
    });
    scanned.ok()?;
    kind
}

/// Returns the role of a message or item with this `role` and this `type`.
pub(super) fn parse_role(role: Option<&str>, kind: Option<&str>) -> Option<Role> {
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

/// Returns the JSON of a message with this text. Any role other than assistant is written as user.
#[must_use]
pub fn text_message_json(api_format: ApiFormat, role: Role, text: &str) -> String {
    let name = if role == Role::Assistant { "assistant" } else { "user" };
    match api_format {
        ApiFormat::Chat | ApiFormat::Messages => {
            format!(r#"{{"role":"{name}","content":"{}"}}"#, escape(text))
        }
        ApiFormat::Responses => {
            format!(r#"{{"type":"message","role":"{name}","content":[{}]}}"#, text_block_json(api_format, role, text))
        }
    }
}

/// Returns the edits that give each of these calls a result with this text. In the Messages format, the results of one
/// message belong into one message.
pub fn tool_result_edits<'s>(
    transcript: &Transcript<'_>,
    results: impl Iterator<Item = (BlockPosition, &'s str)>,
) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut new_messages: Vec<(ElementId, Vec<Value>)> = Vec::new();
    for (call, text) in results {
        match new_tool_result(transcript, call, text) {
            Some((behind, result, true)) => match new_messages.iter_mut().find(|(other, _)| *other == behind) {
                Some((_, results)) => results.push(result),
                None => new_messages.push((behind, vec![result])),
            },
            Some((before, result, false)) => edits.push(Edit::Insert { before, json: result.to_string() }),
            None => {}
        }
    }
    edits.extend(new_messages.into_iter().map(|(before, results)| {
        let json = json!({"role": "user", "content": results}).to_string();
        Edit::Insert { before, json }
    }));
    edits
}

/// Returns the place of a new result for a call, its JSON, and whether it needs a new message around it.
fn new_tool_result(transcript: &Transcript<'_>, call: BlockPosition, text: &str) -> Option<(ElementId, Value, bool)> {
    let JsonSlot::Element(call) = transcript.block(call)?.slot else { return None };
    let (array, message) = (transcript.message_array?, transcript.message_of(call)?);
    let value: Value = serde_json::from_str(&transcript.body[transcript.span_of(call).range()]).ok()?;
    let id = value.get("call_id").or(value.get("id")).filter(|id| id.is_string())?;
    let behind = ElementId { array, index: message as u32 + 1 };
    match transcript.api_format {
        ApiFormat::Chat => Some((behind, json!({"role": "tool", "tool_call_id": id, "content": text}), false)),
        ApiFormat::Responses => {
            let kind =
                if value["type"] == "custom_tool_call" { "custom_tool_call_output" } else { "function_call_output" };
            Some((behind, json!({"type": kind, "call_id": id, "output": text}), false))
        }
        ApiFormat::Messages => {
            let result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
            if transcript.role(message + 1) != Some(Role::User) {
                return Some((behind, result, true));
            }
            Some((ElementId { array: transcript.content_array(behind)?, index: 0 }, result, false))
        }
    }
}

/// Returns the edits that add tool definitions after the existing ones, so that the bytes before them stay
/// the same.
#[must_use]
pub fn add_tools_edits(transcript: &Transcript<'_>, tools: &[String]) -> Vec<Edit> {
    let of_list = |block: &Block<'_>| match block.slot {
        JsonSlot::Element(id) if block.kind == BlockKind::Tool => {
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

/// Returns the JSON of a text block for a message with this role.
#[must_use]
pub fn text_block_json(api_format: ApiFormat, role: Role, text: &str) -> String {
    let kind = match (api_format, role) {
        (ApiFormat::Chat | ApiFormat::Messages, _) => "text",
        (ApiFormat::Responses, Role::Assistant) => "output_text",
        (ApiFormat::Responses, _) => "input_text",
    };
    format!(r#"{{"type":"{kind}","text":"{}"}}"#, escape(text))
}
