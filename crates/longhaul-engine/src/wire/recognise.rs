//! Which dialect a body is written in, by its shape.

use std::borrow::Cow;

use super::raw::{Element, Item, Key, Raw};
use crate::Dialect;
use crate::json::Kind;
use crate::models;
use crate::transcript::ArrayId;

/// The list of messages or items.
pub(super) fn list(raw: &Raw<'_>) -> Option<ArrayId> {
    match raw.root.item {
        Some(root) => raw.list(root, Key::Messages).or_else(|| raw.list(root, Key::Input)),
        None => (raw.root.kind == Kind::Array).then_some(0),
    }
}

/// Whether there is nothing here to work on.
pub(super) fn is_empty(raw: &Raw<'_>) -> bool {
    list(raw).is_none() && raw.root.item.is_none_or(|root| raw.string(root, Key::Input).is_none())
}

/// The dialect, and whether only one can be meant. Where several can, the name of the model decides: the one that was told, or
/// the body's own.
pub(super) fn dialect(raw: &Raw<'_>, model: Option<&str>) -> (Dialect, bool) {
    let signs = signs(raw);
    let own = || raw.root.item.and_then(|root| raw.string(root, Key::Model));
    let Signs { chat, messages, responses, begins_with_system } = signs;
    if responses > chat.max(messages) {
        return (Dialect::Responses, true);
    }
    match (chat, messages) {
        (0, 0) if begins_with_system => (Dialect::Chat, true),
        (chat, messages) if chat == messages => {
            let name = model.map(Cow::Borrowed).or_else(own);
            (name.map_or(Dialect::Chat, |name| spoken_to(&name)), false)
        }
        (chat, messages) if messages > chat => (Dialect::Messages, chat == 0),
        (_, messages) => (Dialect::Chat, messages == 0),
    }
}

/// The dialect of the host that a model's name gives away, of the two that look alike.
fn spoken_to(model: &str) -> Dialect {
    const MESSAGES: [&str; 3] = ["anthropic", "bedrock", "vertex"];
    let facts = models::find(model).facts;
    let own = facts.family == "claude" && MESSAGES.contains(&facts.host.as_str());
    if own { Dialect::Messages } else { Dialect::Chat }
}

/// What the body shows.
fn signs(raw: &Raw<'_>) -> Signs {
    let mut signs = Signs::default();
    let Some(root) = raw.root.item else { return signs.with_elements(raw) };
    if raw.field_of(root, Key::Messages).is_none() && raw.field_of(root, Key::Input).is_some() {
        return Signs { responses: u32::MAX, ..signs };
    }
    if raw.field_of(root, Key::System).is_some() {
        signs.messages += 1;
    }
    if raw.holds(root, Key::Functions) {
        signs.chat += 1;
    }
    for tool in raw.list(root, Key::Tools).into_iter().flat_map(|id| raw.elements(id)).filter_map(|e| e.item)
    {
        signs.messages += u32::from(raw.field_of(tool, Key::InputSchema).is_some());
        signs.chat += u32::from(raw.field_of(tool, Key::Function).is_some());
    }
    signs.with_elements(raw)
}

/// How an agent's calls reach its tools.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Channel {
    /// By the dialect's own means: then nobody writes calls as prose too, and what looks like tool output in a user's text
    /// is somebody's words.
    Own,
    /// As text, if at all.
    #[default]
    Prose,
}

/// The channel: its own, if any call stands in the body as one.
pub(super) fn channel(raw: &Raw<'_>) -> Channel {
    if has_calls(raw) { Channel::Own } else { Channel::Prose }
}

fn has_calls(raw: &Raw<'_>) -> bool {
    list(raw).into_iter().flat_map(|id| raw.elements(id)).filter_map(|e| e.item).any(|item| {
        let is = |item: Item, wanted: fn(&str) -> bool| {
            raw.string(item, Key::Type).is_some_and(|name| wanted(&name))
        };
        raw.holds(item, Key::ToolCalls)
            || raw.holds(item, Key::FunctionCall)
            || is(item, |name| name.ends_with("_call"))
            || raw
                .list(item, Key::Content)
                .into_iter()
                .flat_map(|id| raw.elements(id))
                .filter_map(|block| block.item)
                .any(|block| is(block, |name| name == "tool_use"))
    })
}

/// How many things stand in a body that only one dialect has.
#[derive(Default)]
struct Signs {
    chat: u32,
    messages: u32,
    responses: u32,
    /// Whether it begins with a system message. Further down, both dialects have them on some hosts.
    begins_with_system: bool,
}

impl Signs {
    fn with_elements(mut self, raw: &Raw<'_>) -> Self {
        for element in list(raw).into_iter().flat_map(|id| raw.elements(id)) {
            self.look_at_message(raw, element);
        }
        self
    }

    fn look_at_message(&mut self, raw: &Raw<'_>, message: Element) {
        let Some(item) = message.item else { return };
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
        let has_calls = raw.holds(item, Key::ToolCalls) || raw.holds(item, Key::FunctionCall);
        self.chat += u32::from(has_calls);
        let blocks = raw.list(item, Key::Content).into_iter().flat_map(|id| raw.elements(id));
        for block in blocks {
            self.look_at_block(raw, block);
        }
    }

    fn look_at_block(&mut self, raw: &Raw<'_>, block: Element) {
        let Some(item) = block.item else { return };
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
