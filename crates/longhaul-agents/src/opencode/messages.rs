//! Chooses the messages that are sent, and converts their parts.

use std::collections::BTreeMap;

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use super::super::message_drafts::{MessageDrafts, image_from_url, parse_data_url, raw_part, text_part};
use super::super::{Extent, MessagePart, Origin, RecordedMessage, Role, Timestamp};
use super::saved_session::{SavedMessage, SavedPart};
use super::usage::{StepRequests, split_steps};
use super::{TargetModel, nonempty_text};

/// The text that opencode sends in place of a part that requests a compaction.
const COMPACTION_QUESTION: &str = "What did we do so far?";
/// The text that opencode sends in place of a task that the user gave to a subagent.
const SUBTASK_TEXT: &str = "The following tool was executed by the user";
/// The text that opencode sends in place of an output that it cleared.
const CLEARED_OUTPUT_TEXT: &str = "[Old tool result content cleared]";
/// The text that opencode sends in place of a missing output.
const INTERRUPTED_TEXT: &str = "[Tool execution was interrupted]";
/// The text before the images of results, in API formats where a result cannot contain images.
const ATTACHED_IMAGES_TEXT: &str = "Attached image(s) from tool result:";

/// The types of parts that are not sent: boundaries, snapshots, and parts that are also stored as text.
const UNSENT_PART_TYPES: [&str; 8] =
    ["step-start", "step-finish", "patch", "snapshot", "retry", "agent", "compaction", "subtask"];

/// A compaction that was finished: the positions of its prompt and its summary, and the ID of the first
/// message that was kept.
pub(super) struct FinishedCompaction {
    prompt: usize,
    summary: usize,
    kept_from: Option<String>,
}

/// Returns the compactions that were finished, oldest first.
pub(super) fn finished_compactions(messages: &[SavedMessage]) -> Vec<FinishedCompaction> {
    messages
        .iter()
        .enumerate()
        .filter(|(_, message)| is_finished_summary(message))
        .filter_map(|(summary, message)| {
            let asked = messages.iter().position(|other| message.info["parentID"] == other.id.as_str())?;
            let prompt = Some(&messages[asked]).filter(|prompt| prompt.info["role"] == "user")?;
            let part = prompt.parts.iter().find(|part| part.data["type"] == "compaction")?;
            Some(FinishedCompaction { prompt: asked, summary, kept_from: nonempty_text(&part.data["tail_start_id"]) })
        })
        .collect()
}

/// Returns whether a message is the complete summary of a compaction.
fn is_finished_summary(message: &SavedMessage) -> bool {
    let info = &message.info;
    info["summary"] == true && info["finish"].is_string() && info["error"].is_null()
}

/// Returns the messages that are sent, in order.
pub(super) fn sent_messages(messages: Vec<SavedMessage>, revert: &Value, extent: Extent) -> Vec<SavedMessage> {
    let left = without_reverted(messages, revert);
    match extent {
        Extent::FullHistory => left.into_iter().filter(|message| message.info["summary"] != true).collect(),
        Extent::NextRequest => after_compaction(left),
    }
}

/// Returns the messages since the last compaction: its prompt, its summary, the messages that were kept, and
/// the later messages.
fn after_compaction(messages: Vec<SavedMessage>) -> Vec<SavedMessage> {
    let Some(last) = finished_compactions(&messages).pop() else { return messages };
    let kept_from = last.kept_from.and_then(|id| messages.iter().position(|message| message.id == id));
    let kept = kept_from.filter(|from| *from < last.prompt).unwrap_or(last.prompt)..last.prompt;
    let place = |at: usize| match at {
        at if at == last.prompt => Some(0),
        at if at == last.summary => Some(1),
        at if kept.contains(&at) => Some(2),
        at if at > last.prompt => Some(3),
        _ => None,
    };
    let mut sent: Vec<(u8, SavedMessage)> =
        messages.into_iter().enumerate().filter_map(|(at, message)| Some((place(at)?, message))).collect();
    sent.sort_by_key(|(place, _)| *place);
    sent.into_iter().map(|(_, message)| message).collect()
}

/// Removes messages that the user reverted, which opencode deletes at the next prompt. If the revert began
/// within a message, the parts before that point stay.
fn without_reverted(mut messages: Vec<SavedMessage>, revert: &Value) -> Vec<SavedMessage> {
    let Some(cut) = messages.iter().position(|message| revert["messageID"] == message.id.as_str()) else {
        return messages;
    };
    messages.truncate(cut + 1);
    match revert["partID"].as_str() {
        Some(part) => messages[cut].parts.retain(|kept| kept.id.as_str() < part),
        None => messages.truncate(cut),
    }
    messages
}

/// Builds messages from stored messages.
pub(super) struct MessageBuilder<'m> {
    pub(super) target: &'m TargetModel,
    pub(super) extent: Extent,
    pub(super) step_requests: StepRequests,
    pub(super) unknown_records: BTreeMap<String, usize>,
    pub(super) drafts: MessageDrafts,
}

impl MessageBuilder<'_> {
    /// Adds the messages that a stored message becomes.
    pub(super) fn add_message(&mut self, message: &SavedMessage) {
        match message.info["role"].as_str() {
            Some("user") => self.add_prompt(message),
            Some("assistant") if is_unsent_failure(message) => {}
            Some("assistant") => self.add_reply(message),
            other => self.count_unknown(&format!("role {}", other.unwrap_or("unnamed"))),
        }
    }

    fn count_unknown(&mut self, kind: &str) {
        *self.unknown_records.entry(kind.to_owned()).or_default() += 1;
    }

    fn add_prompt(&mut self, message: &SavedMessage) {
        let mut pieces = Vec::new();
        for part in &message.parts {
            let data = &part.data;
            let piece = match data["type"].as_str().unwrap_or_default() {
                "text" if data["ignored"] == true => None,
                "text" => text_part(data["text"].as_str().unwrap_or_default()),
                "compaction" if self.extent == Extent::NextRequest => text_part(COMPACTION_QUESTION),
                "subtask" => text_part(SUBTASK_TEXT),
                "file" => parse_file(data, self.target.api_format).unwrap_or_else(|kind| {
                    self.count_unknown(kind);
                    None
                }),
                kind if UNSENT_PART_TYPES.contains(&kind) => None,
                kind => {
                    self.count_unknown(&format!("part {kind}"));
                    None
                }
            };
            pieces.extend(piece.map(|piece| (piece, Origin::Id(part.id.clone()))));
        }
        self.drafts.push(RecordedMessage { role: Role::User, parts: pieces, time: created_at(message) }, None);
    }

    /// Adds a reply. Each step becomes an assistant message, followed by the results of its calls.
    fn add_reply(&mut self, message: &SavedMessage) {
        let at = created_at(message);
        let mut pictures: Vec<(MessagePart, Origin)> = Vec::new();
        for (number, step) in split_steps(&message.parts).into_iter().enumerate() {
            let (said, results) = self.parse_step(message, &step, &mut pictures);
            let answers = self.step_requests.get(&(message.id.clone(), number)).copied();
            self.drafts.push(RecordedMessage { role: Role::Assistant, parts: said, time: at }, answers);
            for result in results {
                self.drafts.push(RecordedMessage { role: Role::Tool, parts: vec![result], time: at }, None);
            }
        }
        if !pictures.is_empty() {
            pictures.insert(0, (MessagePart::Text(ATTACHED_IMAGES_TEXT.to_owned()), Origin::Synthetic));
            self.drafts.push(RecordedMessage { role: Role::User, parts: pictures, time: at }, None);
        }
    }

    /// Returns the assistant's parts of a step, and its results.
    fn parse_step(
        &mut self,
        message: &SavedMessage,
        step: &[&SavedPart],
        pictures: &mut Vec<(MessagePart, Origin)>,
    ) -> (PartsWithOrigin, PartsWithOrigin) {
        let api_format = self.target.api_format;
        let own = self.target.is_author_of(&message.info);
        let (mut said, mut results) = (Vec::new(), Vec::new());
        for part in step {
            let data = &part.data;
            let origin = Origin::Id(part.id.clone());
            match data["type"].as_str().unwrap_or_default() {
                "text" => {
                    said.extend(text_part(data["text"].as_str().unwrap_or_default()).map(|piece| (piece, origin)));
                }
                "reasoning" => {
                    said.extend(parse_thinking(data, own, api_format).map(|piece| (piece, origin)));
                }
                "tool" => match parse_tool(data, api_format, self.extent) {
                    Some(ToolParts { call, result, images: shown }) => {
                        said.push((call, origin.clone()));
                        results.push((result, origin.clone()));
                        pictures.extend(shown.into_iter().map(|piece| (piece, origin.clone())));
                    }
                    None => self.count_unknown("tool without a name or an ID"),
                },
                kind if UNSENT_PART_TYPES.contains(&kind) || kind == "file" => {}
                kind => self.count_unknown(&format!("part {kind}")),
            }
        }
        (said, results)
    }
}

type PartsWithOrigin = Vec<(MessagePart, Origin)>;

fn created_at(message: &SavedMessage) -> Option<Timestamp> {
    message.info["time"]["created"].as_i64().map(Timestamp)
}

/// Returns whether a reply failed and is not sent. A reply that the user stopped is sent if it has content
/// besides thinking.
fn is_unsent_failure(message: &SavedMessage) -> bool {
    let error = &message.info["error"];
    let says = |part: &SavedPart| !matches!(part.data["type"].as_str(), Some("step-start" | "reasoning"));
    let stopped = error["name"] == "MessageAbortedError";
    !error.is_null() && (!stopped || !message.parts.iter().any(says))
}

/// Converts a file of a prompt. Text files and folders are skipped, because their content is also stored as
/// text parts.
fn parse_file(data: &Value, api_format: ApiFormat) -> Result<Option<MessagePart>, &'static str> {
    let mime = data["mime"].as_str().unwrap_or_default();
    let url = data["url"].as_str().unwrap_or_default();
    if matches!(mime, "text/plain" | "application/x-directory") {
        return Ok(None);
    }
    if mime.starts_with("image/") {
        return image_from_url(url, api_format).map(Some).ok_or("image with a URL that cannot be read");
    }
    let Some((media, held)) = parse_data_url(url) else { return Err("file with a URL that cannot be read") };
    let name = data["filename"].as_str().unwrap_or("file");
    let source = json!({"type": "base64", "media_type": media, "data": held});
    Ok(raw_part(&match api_format {
        ApiFormat::Messages => json!({"type": "document", "source": source, "title": name}),
        ApiFormat::Chat => json!({"type": "file", "file": {"filename": name, "file_data": url}}),
        ApiFormat::Responses => json!({"type": "input_file", "filename": name, "file_data": url}),
    }))
}

/// Converts thinking: to text for another model; for the same model to thinking with its signature, which
/// Messages requires.
fn parse_thinking(data: &Value, own: bool, api_format: ApiFormat) -> Option<MessagePart> {
    let said = data["text"].as_str().unwrap_or_default();
    if !own {
        return if said.trim().is_empty() { None } else { text_part(said) };
    }
    let held = |name: &str| data["metadata"].as_object()?.values().find_map(|provider| nonempty_text(&provider[name]));
    match (api_format, held("signature"), held("redactedData")) {
        (ApiFormat::Messages, _, Some(data)) => raw_part(&json!({"type": "redacted_thinking", "data": data})),
        (ApiFormat::Messages, None, None) => None,
        (_, signature, _) => {
            let signature = signature.or(held("reasoningEncryptedContent"));
            (!said.is_empty()).then(|| MessagePart::Thinking { text: said.to_owned(), signature })
        }
    }
}

/// A tool call and its result, with the images that the result cannot contain in this API format.
struct ToolParts {
    call: MessagePart,
    result: MessagePart,
    images: Vec<MessagePart>,
}

fn parse_tool(data: &Value, api_format: ApiFormat, extent: Extent) -> Option<ToolParts> {
    let state = &data["state"];
    let id = valid_call_id(data["callID"].as_str()?, api_format);
    let input = if state["input"].is_object() { state["input"].clone() } else { json!({}) };
    let call = MessagePart::ToolCall { id: id.clone(), name: nonempty_text(&data["tool"])?, arguments: input };
    let cleared = extent == Extent::NextRequest && !state["time"]["compacted"].is_null();
    let stopped = state["metadata"]["output"].as_str().filter(|_| state["metadata"]["interrupted"] == true);
    let (said, failed) = match (state["status"].as_str(), stopped) {
        (Some("completed"), _) if cleared => (CLEARED_OUTPUT_TEXT, false),
        (Some("completed"), _) => (state["output"].as_str().unwrap_or_default(), false),
        (Some("error"), Some(output)) => (output, false),
        (Some("error"), None) => (state["error"].as_str().unwrap_or_default(), true),
        _ => (INTERRUPTED_TEXT, true),
    };
    let attached = state["attachments"].as_array().filter(|_| !cleared).into_iter().flatten();
    let mut shown: Vec<MessagePart> = attached
        .filter(|file| file["mime"].as_str().is_some_and(|mime| mime.starts_with("image/")))
        .filter_map(|file| image_from_url(file["url"].as_str()?, api_format))
        .collect();
    let mut content = vec![MessagePart::Text(said.to_owned())];
    if api_format != ApiFormat::Chat {
        content.append(&mut shown);
    }
    Some(ToolParts { call, result: MessagePart::ToolResult { id, content, failed }, images: shown })
}

/// Returns a call ID that the API format accepts. Messages allows only letters, digits, `_` and `-`.
fn valid_call_id(id: &str, api_format: ApiFormat) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    match api_format {
        ApiFormat::Messages => id.chars().map(valid).collect(),
        ApiFormat::Chat | ApiFormat::Responses => id.to_owned(),
    }
}
