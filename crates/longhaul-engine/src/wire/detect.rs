//! Detects the API format of a body by its shape.

use std::borrow::Cow;

use super::scan::{Key, ScannedBody, ScannedElement, ScannedObject};
use crate::ApiFormat;
use crate::json::ValueKind;
use crate::models;
use crate::transcript::ArrayId;

/// Returns the list of messages or items.
pub(super) fn message_list(raw: &ScannedBody<'_>) -> Option<ArrayId> {
    match raw.root.object {
        Some(root) => raw.list(root, Key::Messages).or_else(|| raw.list(root, Key::Input)),
        None => (raw.root.kind == ValueKind::Array).then_some(0),
    }
}

/// Returns whether the body has neither a list of messages nor a string as input.
pub(super) fn has_no_messages(raw: &ScannedBody<'_>) -> bool {
    message_list(raw).is_none() && raw.root.object.is_none_or(|root| raw.string(root, Key::Input).is_none())
}

/// Detects the API format, and whether no other format is possible. If several are possible, the model's name
/// decides: the given one, or the one in the body.
pub(super) fn api_format(raw: &ScannedBody<'_>, model: Option<&str>) -> (ApiFormat, bool) {
    let chars = find_hints(raw);
    let own = || raw.root.object.and_then(|root| raw.string(root, Key::Model));
    let FormatHints { chat, messages, responses, begins_with_system } = chars;
    if responses > chat.max(messages) {
        return (ApiFormat::Responses, true);
    }
    match (chat, messages) {
        (0, 0) if begins_with_system => (ApiFormat::Chat, true),
        (chat, messages) if chat == messages => {
            let name = model.map(Cow::Borrowed).or_else(own);
            (name.map_or(ApiFormat::Chat, |name| format_by_model(&name)), false)
        }
        (chat, messages) if messages > chat => (ApiFormat::Messages, chat == 0),
        (_, messages) => (ApiFormat::Chat, messages == 0),
    }
}

/// Chooses between Messages and Chat Completions by the host that a model's name suggests.
fn format_by_model(model: &str) -> ApiFormat {
    const MESSAGES: [&str; 3] = ["anthropic", "bedrock", "vertex"];
    let facts = models::find(model).facts;
    let own = facts.family == "claude" && MESSAGES.contains(&facts.host.as_str());
    if own { ApiFormat::Messages } else { ApiFormat::Chat }
}

/// Counts the features of the body that occur in only one API format.
fn find_hints(raw: &ScannedBody<'_>) -> FormatHints {
    let mut chars = FormatHints::default();
    let Some(root) = raw.root.object else { return chars.add_messages(raw) };
    if raw.field_of(root, Key::Messages).is_none() && raw.field_of(root, Key::Input).is_some() {
        return FormatHints { responses: u32::MAX, ..chars };
    }
    if raw.field_of(root, Key::System).is_some() {
        chars.messages += 1;
    }
    if raw.has_value(root, Key::Functions) {
        chars.chat += 1;
    }
    for tool in raw.list(root, Key::Tools).into_iter().flat_map(|id| raw.elements(id)).filter_map(|e| e.object) {
        chars.messages += u32::from(raw.field_of(tool, Key::InputSchema).is_some());
        chars.chat += u32::from(raw.field_of(tool, Key::Function).is_some());
    }
    chars.add_messages(raw)
}

/// How an agent's tool calls are written.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum CallChannel {
    /// As the API format defines. Then calls are not written as text too, and a user's text that looks like
    /// tool output was written by somebody.
    Structured,
    /// As text, if there are calls at all.
    #[default]
    Text,
}

/// Returns how calls are written: [`CallChannel::Structured`] if the body contains any structured call.
pub(super) fn call_channel(raw: &ScannedBody<'_>) -> CallChannel {
    if has_calls(raw) { CallChannel::Structured } else { CallChannel::Text }
}

fn has_calls(raw: &ScannedBody<'_>) -> bool {
    message_list(raw).into_iter().flat_map(|id| raw.elements(id)).filter_map(|e| e.object).any(|item| {
        let is = |item: ScannedObject, wanted: fn(&str) -> bool| {
            raw.string(item, Key::Type).is_some_and(|name| wanted(&name))
        };
        raw.has_value(item, Key::ToolCalls)
            || raw.has_value(item, Key::FunctionCall)
            || is(item, |name| name.ends_with("_call"))
            || raw
                .list(item, Key::Content)
                .into_iter()
                .flat_map(|id| raw.elements(id))
                .filter_map(|block| block.object)
                .any(|block| is(block, |name| name == "tool_use"))
    })
}

/// The number of features in a body that occur in only one API format.
#[derive(Default)]
struct FormatHints {
    chat: u32,
    messages: u32,
    responses: u32,
    /// Whether the first message is a system message. Later system messages do not count, because some hosts
    /// accept them in both formats.
    begins_with_system: bool,
}

impl FormatHints {
    fn add_messages(mut self, raw: &ScannedBody<'_>) -> Self {
        for element in message_list(raw).into_iter().flat_map(|id| raw.elements(id)) {
            self.add_message(raw, element);
        }
        self
    }

    fn add_message(&mut self, raw: &ScannedBody<'_>, message: ScannedElement) {
        let Some(item) = message.object else { return };
        match raw.string(item, Key::Type).as_deref() {
            None => {}
            Some("message" | "reasoning" | "item_reference" | "compaction") => self.responses += 1,
            Some(other) => {
                self.responses += u32::from(other.ends_with("_call") || other.ends_with("_call_output"));
            }
        }
        match raw.string(item, Key::Role).as_deref() {
            Some("tool" | "function") => self.chat += 1,
            Some("system" | "developer") => self.begins_with_system |= message.id.index == 0,
            _ => {}
        }
        let has_calls = raw.has_value(item, Key::ToolCalls) || raw.has_value(item, Key::FunctionCall);
        self.chat += u32::from(has_calls);
        let blocks = raw.list(item, Key::Content).into_iter().flat_map(|id| raw.elements(id));
        for block in blocks {
            self.add_block(raw, block);
        }
    }

    fn add_block(&mut self, raw: &ScannedBody<'_>, block: ScannedElement) {
        let Some(item) = block.object else { return };
        match raw.string(item, Key::Type).as_deref() {
            Some("image_url" | "input_audio") => self.chat += 1,
            Some("input_text" | "output_text" | "input_image" | "input_file") => self.responses += 1,
            Some("tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "server_tool_use") => {
                self.messages += 1;
            }
            Some("image" | "document") => {
                self.messages += u32::from(raw.field_of(item, Key::Source).is_some());
            }
            _ => {}
        }
    }
}
