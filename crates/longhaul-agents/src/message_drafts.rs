//! Collects messages and finishes them: drops or completes calls without a result, removes results without a
//! call, and merges neighbors. It also tracks which reported request each reply belongs to, since both steps
//! change the positions of messages.

use std::collections::BTreeSet;

use longhaul_engine::ApiFormat;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{MessagePart, Origin, RecordedMessage, RequestUsage, Role};

/// The way in which an agent treats tool calls that have no result. A result without a call is always
/// removed, because providers reject it.
#[derive(Debug, Clone, Copy)]
pub(super) enum UnansweredCalls {
    /// The call is left out.
    Drop,
    /// The call gets a failed result with this text.
    AddResult(&'static str),
}

/// Messages in the order in which they are sent, with the reported requests that they answer.
#[derive(Debug, Default)]
pub(super) struct MessageDrafts(Vec<MessageDraft>);

#[derive(Debug)]
struct MessageDraft {
    message: RecordedMessage,
    /// The indices, in the session's list of requests, of the requests whose replies begin with this message.
    request_indices: Vec<usize>,
}

impl MessageDrafts {
    /// Adds a message, and the index of the reported request that it is the reply to. Ignores an empty
    /// message.
    pub(super) fn push(&mut self, message: RecordedMessage, request_index: Option<usize>) {
        if !message.parts.is_empty() {
            self.0.push(MessageDraft { message, request_indices: request_index.into_iter().collect() });
        }
    }

    /// Removes results without an earlier call, and treats calls without a later result as `unanswered` says.
    /// Of several results of one call the first is kept.
    pub(super) fn pair_results(&mut self, unanswered: UnansweredCalls) {
        let mut open = BTreeSet::new();
        let mut answered = BTreeSet::new();
        for draft in &mut self.0 {
            draft.message.parts.retain(|(piece, _)| match piece {
                MessagePart::ToolCall { id, .. } => {
                    open.insert(id.clone());
                    true
                }
                MessagePart::ToolResult { id, .. } => open.remove(id) && answered.insert(id.clone()),
                _ => true,
            });
        }
        match unanswered {
            UnansweredCalls::Drop => self.drop_unanswered(&open),
            UnansweredCalls::AddResult(words) => self.add_missing_results(&open, words),
        }
        self.0.retain(|draft| !draft.message.parts.is_empty());
    }

    fn drop_unanswered(&mut self, open: &BTreeSet<String>) {
        for draft in &mut self.0 {
            let dropped = |piece: &MessagePart| matches!(piece, MessagePart::ToolCall { id, .. } if open.contains(id));
            draft.message.parts.retain(|(piece, _)| !dropped(piece));
        }
    }

    fn add_missing_results(&mut self, open: &BTreeSet<String>, words: &str) {
        let drafts = std::mem::take(&mut self.0);
        for draft in drafts {
            let lost: Vec<String> =
                draft.message.parts.iter().filter_map(|(piece, _)| unanswered_call_id(piece, open)).collect();
            let at = draft.message.time;
            self.0.push(draft);
            for id in lost {
                let content = vec![MessagePart::Text(words.to_owned())];
                let pieces = vec![(MessagePart::ToolResult { id, content, failed: true }, Origin::Synthetic)];
                self.0.push(MessageDraft {
                    message: RecordedMessage { role: Role::Tool, parts: pieces, time: at },
                    request_indices: Vec::new(),
                });
            }
        }
    }

    /// Merges neighboring messages with the same role. Tool results stay separate, because in Chat
    /// Completions each is a message.
    pub(super) fn merge_same_role(&mut self) {
        let drafts = std::mem::take(&mut self.0);
        for mut draft in drafts {
            match self.0.last_mut() {
                Some(last) if last.message.role == draft.message.role && draft.message.role != Role::Tool => {
                    last.message.parts.append(&mut draft.message.parts);
                    last.request_indices.append(&mut draft.request_indices);
                }
                _ => self.0.push(draft),
            }
        }
    }

    /// Removes assistant messages at the beginning, which have no prompt.
    pub(super) fn drop_leading_replies(&mut self) {
        let asked = self.0.iter().position(|draft| draft.message.role != Role::Assistant).unwrap_or(self.0.len());
        self.0.drain(..asked);
    }

    /// Returns the messages as the API format requires them, and sets the reply position of each request.
    /// Removes messages that contain only thinking.
    pub(super) fn finish(mut self, api_format: ApiFormat, requests: &mut [RequestUsage]) -> Vec<RecordedMessage> {
        if api_format == ApiFormat::Messages {
            for draft in &mut self.0 {
                if draft.message.role == Role::Tool {
                    draft.message.role = Role::User;
                }
            }
            self.merge_same_role();
        }
        let is_thought = |(piece, _): &(MessagePart, Origin)| matches!(piece, MessagePart::Thinking { .. });
        self.0.retain(|draft| !draft.message.parts.iter().all(is_thought));
        let mut messages = Vec::with_capacity(self.0.len());
        for MessageDraft { message, request_indices } in self.0 {
            for number in request_indices {
                if let Some(request) = requests.get_mut(number) {
                    request.reply_index = Some(messages.len());
                }
            }
            messages.push(message);
        }
        messages
    }
}

fn unanswered_call_id(piece: &MessagePart, open: &BTreeSet<String>) -> Option<String> {
    match piece {
        MessagePart::ToolCall { id, .. } => open.get(id).cloned(),
        _ => None,
    }
}

/// Parses a content in Chat Completions form: a string, or a list of parts. Parts of unknown types are kept
/// as they are.
pub(super) fn chat_content_parts(content: &Value, api_format: ApiFormat) -> Vec<MessagePart> {
    match content {
        Value::String(text) => text_part(text).into_iter().collect(),
        Value::Array(list) => list.iter().filter_map(|part| chat_content_part(part, api_format)).collect(),
        _ => Vec::new(),
    }
}

fn chat_content_part(part: &Value, api_format: ApiFormat) -> Option<MessagePart> {
    match part["type"].as_str() {
        Some("text") => text_part(part["text"].as_str()?),
        Some("image_url") => {
            image_from_url(part["image_url"]["url"].as_str().or(part["image_url"].as_str())?, api_format)
        }
        _ => raw_part(part),
    }
}

/// Returns a text part, or `None` for an empty text, which providers reject.
pub(super) fn text_part(text: &str) -> Option<MessagePart> {
    (!text.is_empty()).then(|| MessagePart::Text(text.to_owned()))
}

/// Converts an image URL to a part: an image from a data URL, or a reference to an HTTP URL. Returns `None`
/// for other URLs.
pub(super) fn image_from_url(url: &str, api_format: ApiFormat) -> Option<MessagePart> {
    if let Some((media, data)) = parse_data_url(url) {
        return Some(MessagePart::Image { media: media.to_owned(), data: data.to_owned() });
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return None;
    }
    raw_part(&match api_format {
        ApiFormat::Messages => json!({"type": "image", "source": {"type": "url", "url": url}}),
        ApiFormat::Chat => json!({"type": "image_url", "image_url": {"url": url}}),
        ApiFormat::Responses => json!({"type": "input_image", "image_url": url}),
    })
}

/// Returns the media type and the base64 text of a data URL, or `None` if it is another URL or empty.
pub(super) fn parse_data_url(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let media = head.strip_suffix(";base64")?;
    (!data.is_empty()).then_some((media, data))
}

/// Returns a part that is in the API format already.
pub(super) fn raw_part(value: &Value) -> Option<MessagePart> {
    RawValue::from_string(value.to_string()).ok().map(MessagePart::Raw)
}

/// Parses the tool calls of a reply in Chat Completions form. Arguments that are text stay as they were on
/// the wire.
pub(super) fn chat_tool_calls(list: &Value) -> Vec<MessagePart> {
    let call = |call: &Value| {
        let function = &call["function"];
        let id = call["id"].as_str().or(call["call_id"].as_str())?.to_owned();
        let name = function["name"].as_str()?.to_owned();
        let arguments = match &function["arguments"] {
            Value::Null => json!({}),
            Value::String(text) if text.trim().is_empty() => json!({}),
            other => other.clone(),
        };
        Some(MessagePart::ToolCall { id, name, arguments })
    };
    list.as_array().map(|list| list.iter().filter_map(call).collect()).unwrap_or_default()
}
