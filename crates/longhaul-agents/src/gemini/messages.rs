//! Builds messages from the records of Gemini CLI.

use std::collections::{BTreeMap, HashMap};

use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use super::super::{Extent, MessagePart, Origin, RecordedMessage, Role};
use super::{LogRecord, record_time};

/// The beginnings of user texts that are not sent: commands to the program, and context that the program
/// adds.
const UNSENT_PREFIXES: &[&str] = &["/", "?", "<session_context>", "<hook_context>"];

/// The text of a result that is not in the file. OpenAI-compatible endpoints reject a call without a result.
const MISSING_RESULT_TEXT: &str = "no result was recorded";

/// The messages of a session.
pub(super) struct BuiltMessages {
    pub(super) messages: Vec<RecordedMessage>,
    /// The position of the assistant message of each record.
    pub(super) message_of_record: HashMap<String, usize>,
}

pub(super) fn build_messages(
    records: &[&LogRecord],
    (extent, api_format): (Extent, ApiFormat),
    unknown: &mut BTreeMap<String, usize>,
) -> BuiltMessages {
    let written = BuiltMessages { messages: Vec::new(), message_of_record: HashMap::new() };
    let mut writer = MessageBuilder { built: written, api_format, unknown_records: unknown };
    for record in records {
        let value = match extent {
            Extent::NextRequest => &record.value,
            Extent::FullHistory => record.before_compression.as_ref().unwrap_or(&record.value),
        };
        match value["type"].as_str().unwrap_or_default() {
            "user" => writer.add_user_record(record, value),
            "gemini" => writer.add_model_record(record, value),
            "info" | "error" | "warning" => {}
            kind => *writer.unknown_records.entry(kind.to_owned()).or_default() += 1,
        }
    }
    writer.built
}

struct MessageBuilder<'u> {
    built: BuiltMessages,
    api_format: ApiFormat,
    unknown_records: &'u mut BTreeMap<String, usize>,
}

/// A tool call of a reply, with the record of its result.
struct CallWithResult<'c> {
    id: String,
    name: String,
    arguments: Value,
    /// The program's record of the call, which contains the result.
    tool_record: Option<&'c Value>,
}

impl MessageBuilder<'_> {
    fn push_message(&mut self, role: Role, record: &LogRecord, value: &Value, pieces: Vec<MessagePart>) {
        if pieces.is_empty() {
            return;
        }
        let pieces = pieces.into_iter().map(|piece| (piece, record.origin.clone())).collect();
        self.built.messages.push(RecordedMessage { role, parts: pieces, time: record_time(value) });
    }

    fn add_user_record(&mut self, record: &LogRecord, value: &Value) {
        let parts = content_parts(&value["content"]);
        let words: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        if UNSENT_PREFIXES.iter().any(|start| words.trim_start().starts_with(start)) {
            return;
        }
        let pieces: Vec<MessagePart> = parts.iter().filter_map(|part| self.parse_part(part)).collect();
        self.push_message(Role::User, record, value, pieces);
    }

    /// Parses a text or an image. Counts other parts as unknown.
    fn parse_part(&mut self, part: &Value) -> Option<MessagePart> {
        if let Some(words) = part["text"].as_str() {
            return (!words.is_empty()).then(|| MessagePart::Text(words.to_owned()));
        }
        if let Some(picture) = inline_image(part) {
            return Some(picture);
        }
        let kind = part.as_object().and_then(|part| part.keys().next()).map_or("part", String::as_str);
        *self.unknown_records.entry(format!("part {kind}")).or_default() += 1;
        None
    }

    /// Adds a record of the model. If the content contains calls or thinking, it is the whole reply;
    /// otherwise they are in separate fields.
    fn add_model_record(&mut self, record: &LogRecord, value: &Value) {
        let parts = content_parts(&value["content"]);
        let done = value["toolCalls"].as_array().map_or(&[][..], Vec::as_slice);
        let holds = |name: &str| parts.iter().any(|part| !part[name].is_null());
        let is_whole = holds("functionCall") || parts.iter().any(|part| part["thought"] == true);
        let mut pieces = Vec::new();
        if !is_whole {
            let thoughts = value["thoughts"].as_array().map_or(&[][..], Vec::as_slice);
            pieces.extend(
                thoughts.iter().map(|thought| MessagePart::Thinking { text: thought_text(thought), signature: None }),
            );
        }
        for part in parts.iter().filter(|part| part["functionCall"].is_null()) {
            match part["text"].as_str().filter(|_| part["thought"] == true) {
                Some(thought) => {
                    pieces.push(MessagePart::Thinking { text: thought.to_owned(), signature: None });
                }
                None => pieces.extend(self.parse_part(part)),
            }
        }
        let calls = if is_whole { calls_in_content(&parts, done, record) } else { calls_in_tool_records(done, record) };
        // A message with only thinking is empty in Chat Completions.
        if calls.is_empty() && pieces.iter().all(|piece| matches!(piece, MessagePart::Thinking { .. })) {
            return;
        }
        pieces.extend(calls.iter().map(|call| {
            let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
            MessagePart::ToolCall { id, name, arguments }
        }));
        self.built.message_of_record.insert(record.id.clone(), self.built.messages.len());
        self.push_message(Role::Assistant, record, value, pieces);
        self.push_results(&calls, record, value);
    }

    /// Adds the results: one message for each, or one for all in Messages. Images follow as a user message,
    /// because a result contains only text here.
    fn push_results(&mut self, calls: &[CallWithResult<'_>], record: &LogRecord, value: &Value) {
        let mut pictures = Vec::new();
        let mut together = Vec::new();
        for call in calls {
            let result = call.tool_record.map(|done| &done["result"]).filter(|result| !result.is_null());
            let origin = if result.is_some() { record.origin.clone() } else { Origin::Synthetic };
            let (words, failed) = result.map_or((MISSING_RESULT_TEXT.to_owned(), true), result_text);
            pictures.extend(result.into_iter().flat_map(content_parts).filter_map(|part| inline_image(&part)));
            let piece =
                MessagePart::ToolResult { id: call.id.clone(), content: vec![MessagePart::Text(words)], failed };
            let at = call.tool_record.and_then(record_time).or_else(|| record_time(value));
            match self.api_format {
                ApiFormat::Messages => together.push((piece, origin)),
                ApiFormat::Chat | ApiFormat::Responses => {
                    self.built.messages.push(RecordedMessage {
                        role: Role::Tool,
                        parts: vec![(piece, origin)],
                        time: at,
                    });
                }
            }
        }
        if !together.is_empty() {
            self.built.messages.push(RecordedMessage { role: Role::User, parts: together, time: record_time(value) });
        }
        self.push_message(Role::User, record, value, pictures);
    }
}

fn content_parts(content: &Value) -> Vec<Value> {
    match content {
        Value::Null => Vec::new(),
        Value::Array(parts) => parts.iter().map(to_part).collect(),
        one => vec![to_part(one)],
    }
}

fn to_part(value: &Value) -> Value {
    match value {
        Value::String(words) => json!({"text": words}),
        other => other.clone(),
    }
}

fn inline_image(part: &Value) -> Option<MessagePart> {
    let held = &part["inlineData"];
    let (media, data) = (held["mimeType"].as_str()?, held["data"].as_str()?);
    media.starts_with("image/").then(|| MessagePart::Image { media: media.to_owned(), data: data.to_owned() })
}

fn thought_text(thought: &Value) -> String {
    let description = thought["description"].as_str().unwrap_or_default();
    match thought["subject"].as_str().filter(|subject| !subject.is_empty()) {
        Some(subject) => format!("**{subject}** {description}"),
        None => description.to_owned(),
    }
}

/// Returns the calls in the content, each with the program's record of it: the one with the same ID, or if
/// the call has no ID, the one at the same position.
fn calls_in_content<'c>(parts: &[Value], done: &'c [Value], record: &LogRecord) -> Vec<CallWithResult<'c>> {
    let held = parts.iter().map(|part| &part["functionCall"]).filter(|call| !call.is_null());
    held.enumerate()
        .map(|(at, call)| {
            let own = call["id"].as_str();
            let of_id = done.iter().find(|done| own.is_some() && done["id"].as_str() == own);
            let done = of_id.or_else(|| done.get(at).filter(|_| own.is_none()));
            let id = own.or_else(|| done.and_then(|done| done["id"].as_str()));
            self::make_call(id, &call["name"], &call["args"], done, (record, at))
        })
        .collect()
}

fn calls_in_tool_records<'c>(done: &'c [Value], record: &LogRecord) -> Vec<CallWithResult<'c>> {
    let call = |(at, done): (usize, &'c Value)| {
        self::make_call(done["id"].as_str(), &done["name"], &done["args"], Some(done), (record, at))
    };
    done.iter().enumerate().map(call).collect()
}

fn make_call<'c>(
    id: Option<&str>,
    name: &Value,
    arguments: &Value,
    done: Option<&'c Value>,
    at: (&LogRecord, usize),
) -> CallWithResult<'c> {
    let (record, place) = at;
    // Made from the record's ID, so that reading the same file again gives the same IDs.
    let invented = || format!("call_{}_{place}", record.id);
    let arguments = if arguments.is_null() { json!({}) } else { arguments.clone() };
    CallWithResult {
        id: id.map_or_else(invented, str::to_owned),
        name: name.as_str().unwrap_or("tool").to_owned(),
        arguments,
        tool_record: done,
    }
}

/// Returns the text of a result, and whether the call failed.
fn result_text(result: &Value) -> (String, bool) {
    let mut words = Vec::new();
    let mut failed = false;
    for part in content_parts(result) {
        let response = &part["functionResponse"]["response"];
        if let Some(said) = part["text"].as_str() {
            words.push(said.to_owned());
        } else if let Some(output) = response["output"].as_str() {
            words.push(output.to_owned());
        } else if let Some(error) = response["error"].as_str() {
            words.push(error.to_owned());
            failed = true;
        } else if !response.is_null() {
            words.push(response.to_string());
        }
    }
    (words.join("\n"), failed)
}
