//! Builds messages from the entries of a branch, as pi does.
//!
//! Replies that failed or were aborted are left out, and a call without a result gets a failed one. Thinking
//! of another model is sent as text, and dropped if it is encrypted. Neighboring prompts stay separate;
//! neighboring results share a message in Messages.

use std::collections::{BTreeMap, HashMap, HashSet};

use longhaul_engine::ApiFormat;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::super::file_reader::Line;
use super::super::{MessagePart, Origin, RecordedMessage, Role, Timestamp};
use super::ModelRef;

/// The texts that pi puts before and after the summary of a compaction.
const COMPACTION_SUMMARY_FRAME: (&str, &str) = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n",
    "\n</summary>",
);
/// The texts that pi puts before and after the summary of a branch that was left.
const BRANCH_SUMMARY_FRAME: (&str, &str) =
    ("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", "</summary>");
/// The text of a missing result.
const MISSING_RESULT_TEXT: &str = "No result provided";
/// The text before the images of results, in API formats where a result can only be text.
const ATTACHED_IMAGES_TEXT: &str = "Attached image(s) from tool result:";
/// The text of a result that contains only images.
const IMAGE_ONLY_TEXT: &str = "(see attached image)";

/// Builds the messages, entry by entry.
pub(super) struct MessageBuilder {
    api_format: ApiFormat,
    model: Option<String>,
    built: BuiltMessages,
    /// The IDs of the calls of the last reply, whose results can still follow.
    open_calls: Vec<String>,
    /// The IDs of those calls that have a result.
    answered_calls: HashSet<String>,
    /// The ID that is sent for each stored call ID. They differ if the provider would reject the stored one.
    sent_ids: HashMap<String, String>,
    /// Whether the last message contains results, which another result can join.
    ends_in_results: bool,
    /// Images of results, which follow after the last result.
    pending_images: Vec<(MessagePart, Origin)>,
    unknown_records: BTreeMap<String, usize>,
}

/// The messages of a branch.
#[derive(Default)]
pub(super) struct BuiltMessages {
    pub(super) messages: Vec<RecordedMessage>,
    /// The position of the first message of the reply on each line.
    pub(super) message_of_line: HashMap<usize, usize>,
}

/// The line and the time of an entry.
#[derive(Clone, Copy)]
struct EntryPosition {
    line: usize,
    time: Option<Timestamp>,
}

impl MessageBuilder {
    pub(super) fn new(api_format: ApiFormat, model: Option<String>) -> Self {
        Self {
            api_format,
            model,
            built: BuiltMessages::default(),
            open_calls: Vec::new(),
            answered_calls: HashSet::new(),
            sent_ids: HashMap::new(),
            ends_in_results: false,
            pending_images: Vec::new(),
            unknown_records: BTreeMap::new(),
        }
    }

    /// Adds the summary that replaces the compacted entries.
    pub(super) fn add_compaction_summary(&mut self, line: &Line<'_>) -> serde_json::Result<()> {
        let (entry, at) = parse_entry(line)?;
        self.add_framed_summary(COMPACTION_SUMMARY_FRAME, &entry, at);
        Ok(())
    }

    /// Adds the messages of an entry, if it is sent to the model.
    pub(super) fn add_entry(&mut self, line: &Line<'_>) -> serde_json::Result<()> {
        let (entry, at) = parse_entry(line)?;
        match text_field(&entry, "type") {
            "message" => self.add_message(&entry["message"], at),
            "custom_message" => self.add_prompt(&entry["content"], at),
            "branch_summary" => self.add_framed_summary(BRANCH_SUMMARY_FRAME, &entry, at),
            _ => {}
        }
        Ok(())
    }

    /// Returns the messages, and adds the unknown kinds of content to `unknown`.
    pub(super) fn finish(mut self, unknown: &mut BTreeMap<String, usize>) -> BuiltMessages {
        self.close_results();
        for (kind, count) in self.unknown_records {
            *unknown.entry(kind).or_default() += count;
        }
        self.built
    }

    fn add_message(&mut self, message: &Value, at: EntryPosition) {
        match text_field(message, "role") {
            "user" | "custom" | "hookMessage" => self.add_prompt(&message["content"], at),
            "assistant" => self.add_reply(message, at),
            "toolResult" => self.add_tool_result(message, at),
            "bashExecution" if message["excludeFromContext"] == true => {}
            "bashExecution" => {
                self.push_user_message(vec![(MessagePart::Text(command_text(message)), Origin::Line(at.line))], at);
            }
            role => *self.unknown_records.entry(format!("message with role {role}")).or_default() += 1,
        }
    }

    fn add_framed_summary(&mut self, (before, after): (&str, &str), entry: &Value, at: EntryPosition) {
        let summary = text_field(entry, "summary");
        if !summary.is_empty() {
            self.push_user_message(
                vec![(MessagePart::Text(format!("{before}{summary}{after}")), Origin::Line(at.line))],
                at,
            );
        }
    }

    fn add_prompt(&mut self, content: &Value, at: EntryPosition) {
        let mut pieces = self.content_parts(content);
        if self.api_format == ApiFormat::Messages {
            pieces.retain(|piece| !is_blank(piece));
        }
        self.push_user_message(pieces.into_iter().map(|piece| (piece, Origin::Line(at.line))).collect(), at);
    }

    /// Adds a user message, after the results of the last reply are complete.
    fn push_user_message(&mut self, pieces: Vec<(MessagePart, Origin)>, at: EntryPosition) {
        self.close_results();
        if !pieces.is_empty() {
            self.built.messages.push(RecordedMessage { role: Role::User, parts: pieces, time: at.time });
        }
    }

    /// Parses texts and images.
    fn content_parts(&mut self, content: &Value) -> Vec<MessagePart> {
        if let Some(words) = content.as_str() {
            return vec![MessagePart::Text(words.to_owned())];
        }
        let blocks = content.as_array().map_or(&[][..], Vec::as_slice);
        blocks
            .iter()
            .filter_map(|block| match text_field(block, "type") {
                "text" => Some(MessagePart::Text(text_field(block, "text").to_owned())),
                "image" => {
                    let (media, data) =
                        (text_field(block, "mimeType").to_owned(), text_field(block, "data").to_owned());
                    Some(MessagePart::Image { media, data })
                }
                kind => {
                    *self.unknown_records.entry(format!("block {kind}")).or_default() += 1;
                    None
                }
            })
            .collect()
    }

    fn add_reply(&mut self, message: &Value, at: EntryPosition) {
        self.close_results();
        if matches!(text_field(message, "stopReason"), "error" | "aborted") {
            return;
        }
        let speaker = ModelRef {
            api: message["api"].as_str().map(str::to_owned),
            provider: message["provider"].as_str().map(str::to_owned),
            model: message["model"].as_str().map(str::to_owned),
        };
        let own =
            self.model.as_deref().is_some_and(|name| speaker.is_named(name)) && speaker.api_format() == self.api_format;
        let voice = if own { ReplyAuthor::SameModel } else { ReplyAuthor::OtherModel };
        let blocks = message["content"].as_array().map_or(&[][..], Vec::as_slice);
        let pieces: Vec<(MessagePart, Origin)> = blocks
            .iter()
            .filter_map(|block| self.reply_part(block, voice))
            .map(|piece| (piece, Origin::Line(at.line)))
            .collect();
        if pieces.is_empty() {
            return;
        }
        self.built.message_of_line.insert(at.line, self.built.messages.len());
        let turn = |pieces| RecordedMessage { role: Role::Assistant, parts: pieces, time: at.time };
        match self.api_format {
            ApiFormat::Responses => {
                self.built.messages.extend(pieces.into_iter().map(|piece| turn(vec![piece])));
            }
            ApiFormat::Messages | ApiFormat::Chat => self.built.messages.push(turn(pieces)),
        }
    }

    /// Converts a block of a reply for the model of the next request.
    fn reply_part(&mut self, block: &Value, voice: ReplyAuthor) -> Option<MessagePart> {
        match text_field(block, "type") {
            "thinking" => self.thinking_part(block, voice),
            "text" => {
                let words = MessagePart::Text(text_field(block, "text").to_owned());
                match self.api_format {
                    ApiFormat::Responses => Some(signed_text_item(block, voice).unwrap_or(words)),
                    ApiFormat::Messages | ApiFormat::Chat => (!is_blank(&words)).then_some(words),
                }
            }
            "toolCall" => Some(self.call_part(block, voice)),
            kind => {
                *self.unknown_records.entry(format!("block {kind}")).or_default() += 1;
                None
            }
        }
    }

    fn thinking_part(&self, block: &Value, voice: ReplyAuthor) -> Option<MessagePart> {
        let words = text_field(block, "thinking");
        let signature = Some(text_field(block, "thinkingSignature")).filter(|signature| !signature.trim().is_empty());
        let is_sealed = block["redacted"] == true;
        match (voice, self.api_format) {
            (ReplyAuthor::OtherModel, _) if is_sealed || words.trim().is_empty() => None,
            (ReplyAuthor::OtherModel, _) => Some(MessagePart::Text(words.to_owned())),
            // In Responses the signature is the whole reasoning item.
            (ReplyAuthor::SameModel, ApiFormat::Responses) => raw_part(signature?),
            (ReplyAuthor::SameModel, ApiFormat::Messages) if is_sealed => {
                raw_part(&json!({"type": "redacted_thinking", "data": signature?}).to_string())
            }
            (ReplyAuthor::SameModel, _) if words.trim().is_empty() => None,
            (ReplyAuthor::SameModel, ApiFormat::Messages) if signature.is_none() => {
                Some(MessagePart::Text(words.to_owned()))
            }
            (ReplyAuthor::SameModel, _) => {
                Some(MessagePart::Thinking { text: words.to_owned(), signature: signature.map(str::to_owned) })
            }
        }
    }

    fn call_part(&mut self, block: &Value, voice: ReplyAuthor) -> MessagePart {
        let (own, name) = (text_field(block, "id"), text_field(block, "name").to_owned());
        let arguments = match &block["arguments"] {
            Value::Null => json!({}),
            arguments => arguments.clone(),
        };
        let id = self.sent_id(own, voice);
        self.open_calls.push(id.clone());
        self.sent_ids.insert(own.to_owned(), id.clone());
        let item = own.split_once('|').map(|(_, item)| item);
        if let (ApiFormat::Responses, ReplyAuthor::SameModel, Some(item)) = (self.api_format, voice, item) {
            let call = json!({
                "type": "function_call", "id": item, "call_id": id, "name": name, "arguments": arguments.to_string(),
            });
            if let Some(wire) = raw_part(&call.to_string()) {
                return wire;
            }
        }
        MessagePart::ToolCall { id, name, arguments }
    }

    /// Returns the call ID that is sent. pi stores the IDs of Responses models as `call|item`, which Messages
    /// rejects, as it rejects long IDs.
    fn sent_id(&self, id: &str, voice: ReplyAuthor) -> String {
        let call = id.split_once('|').map_or(id, |(call, _)| call);
        match (self.api_format, voice) {
            (ApiFormat::Messages, ReplyAuthor::SameModel) => id.to_owned(),
            (ApiFormat::Messages, ReplyAuthor::OtherModel) => sanitize_id(id, 64),
            (ApiFormat::Responses | ApiFormat::Chat, ReplyAuthor::SameModel) => call.to_owned(),
            (ApiFormat::Responses, ReplyAuthor::OtherModel) => sanitize_id(call, 64),
            (ApiFormat::Chat, ReplyAuthor::OtherModel) => sanitize_id(call, 40),
        }
    }

    fn add_tool_result(&mut self, message: &Value, at: EntryPosition) {
        let own = text_field(message, "toolCallId");
        let id = self.sent_ids.get(own).cloned().unwrap_or_else(|| self.sent_id(own, ReplyAuthor::SameModel));
        self.answered_calls.insert(id.clone());
        let origin = Origin::Line(at.line);
        let (pictures, words): (Vec<MessagePart>, Vec<MessagePart>) = self
            .content_parts(&message["content"])
            .into_iter()
            .partition(|piece| matches!(piece, MessagePart::Image { .. }));
        let words: Vec<String> = words.into_iter().filter_map(into_text).collect();
        let words = match words.join("\n") {
            none if none.is_empty() && !pictures.is_empty() => IMAGE_ONLY_TEXT.to_owned(),
            words => words,
        };
        let mut content = vec![MessagePart::Text(words)];
        match self.api_format {
            ApiFormat::Messages => content.extend(pictures),
            ApiFormat::Chat | ApiFormat::Responses => {
                self.pending_images.extend(pictures.into_iter().map(|piece| (piece, origin.clone())));
            }
        }
        let failed = message["isError"] == true;
        self.push_result((MessagePart::ToolResult { id, content, failed }, origin), at.time);
    }

    fn push_result(&mut self, result: (MessagePart, Origin), at: Option<Timestamp>) {
        let role = if self.api_format == ApiFormat::Messages { Role::User } else { Role::Tool };
        match self.built.messages.last_mut() {
            Some(last) if self.ends_in_results && role == Role::User => last.parts.push(result),
            _ => self.built.messages.push(RecordedMessage { role, parts: vec![result], time: at }),
        }
        self.ends_in_results = true;
    }

    /// Completes the results of the last reply: adds the missing results, then the images.
    fn close_results(&mut self) {
        for id in std::mem::take(&mut self.open_calls) {
            if !self.answered_calls.contains(&id) {
                let content = vec![MessagePart::Text(MISSING_RESULT_TEXT.to_owned())];
                self.push_result((MessagePart::ToolResult { id, content, failed: true }, Origin::Synthetic), None);
            }
        }
        self.answered_calls.clear();
        self.ends_in_results = false;
        if !self.pending_images.is_empty() {
            let mut pieces = vec![(MessagePart::Text(ATTACHED_IMAGES_TEXT.to_owned()), Origin::Synthetic)];
            pieces.append(&mut self.pending_images);
            self.built.messages.push(RecordedMessage { role: Role::User, parts: pieces, time: None });
        }
    }
}

/// The author of a reply, compared with the model of the next request.
#[derive(Clone, Copy)]
enum ReplyAuthor {
    SameModel,
    OtherModel,
}

fn parse_entry(line: &Line<'_>) -> serde_json::Result<(Value, EntryPosition)> {
    let entry: Value = serde_json::from_str(line.text)?;
    let time = entry["timestamp"].as_str().and_then(Timestamp::parse);
    Ok((entry, EntryPosition { line: line.position.number, time }))
}

fn text_field<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn is_blank(piece: &MessagePart) -> bool {
    matches!(piece, MessagePart::Text(words) if words.trim().is_empty())
}

fn into_text(piece: MessagePart) -> Option<String> {
    match piece {
        MessagePart::Text(words) => Some(words),
        _ => None,
    }
}

fn raw_part(json: &str) -> Option<MessagePart> {
    RawValue::from_string(json.trim().to_owned()).ok().map(MessagePart::Raw)
}

/// Returns the text of a Responses model as a message item. The text's signature contains the item's ID and
/// sometimes a phase.
fn signed_text_item(block: &Value, voice: ReplyAuthor) -> Option<MessagePart> {
    let signature = text_field(block, "textSignature");
    if signature.is_empty() || matches!(voice, ReplyAuthor::OtherModel) {
        return None;
    }
    let read: Value = serde_json::from_str(signature).unwrap_or_default();
    let id = read["id"].as_str().unwrap_or(signature);
    let content = json!([{"type": "output_text", "text": text_field(block, "text"), "annotations": []}]);
    let mut item = json!({"type": "message", "role": "assistant", "content": content, "status": "completed", "id": id});
    if let Some(phase) = read["phase"].as_str() {
        item["phase"] = phase.into();
    }
    raw_part(&item.to_string())
}

fn sanitize_id(id: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    id.chars().map(plain).take(longest).collect()
}

/// Returns a command that the user ran, with its output, as text.
fn command_text(message: &Value) -> String {
    let output = match text_field(message, "output") {
        "" => "(no output)".to_owned(),
        output => format!("```\n{output}\n```"),
    };
    let mut words = format!("Ran `{}`\n{output}", text_field(message, "command"));
    if message["cancelled"] == true {
        words += "\n\n(command cancelled)";
    } else if let Some(code) = message["exitCode"].as_i64().filter(|code| *code != 0) {
        words.push_str("\n\nCommand exited with code ");
        words.push_str(&code.to_string());
    }
    if message["truncated"] == true && !text_field(message, "fullOutputPath").is_empty() {
        let path = text_field(message, "fullOutputPath");
        words.extend(["\n\n[Output truncated. Full output: ", path, "]"]);
    }
    words
}
