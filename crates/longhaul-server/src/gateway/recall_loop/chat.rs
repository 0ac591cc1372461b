//! The filter for Chat Completions: a reply is one message that grows by chunks, and its calls are in a list
//! of their own.

use serde_json::{Map, Value, json};

use super::stream_filter::{
    RecallCall, ReplyOutcome, RoundUsage, StreamFilter, UsageFields, append_text, find_recall_tool, parse_arguments,
};
use crate::upstream::SseEvent;

const USAGE_FIELDS: UsageFields =
    UsageFields { input: "prompt_tokens", output: "completion_tokens", total: Some("total_tokens") };
const DONE_DATA: &[u8] = b"[DONE]";
/// The message fields that every server accepts.
const STANDARD_FIELDS: [&str; 4] = ["role", "content", "tool_calls", "tool_call_id"];
/// The separator between the texts of two rounds, which become one text.
const TEXT_SEPARATOR: &str = "\n\n";
/// The finish reasons of a reply that calls tools. Some upstreams report `stop` although they call one.
const CALL_FINISH_REASONS: [&str; 3] = ["tool_calls", "function_call", "stop"];

#[derive(Default)]
pub(super) struct ChatFilter {
    is_later_round: bool,
    /// The `id` and `created` of the first reply, which all chunks get.
    first_id: Option<(Value, Value)>,
    /// The visible text of earlier rounds.
    earlier_text: String,
    /// The number of visible calls.
    shown_call_count: usize,
    usage: RoundUsage,
    /// The message of the current round, without its calls.
    message: Map<String, Value>,
    calls: Vec<PartialCall>,
    /// The finish reason of the current round.
    finish_reason: Option<String>,
    /// Whether the current round has ended.
    is_over: bool,
    /// The chunks at the end of the current round that are held back.
    held_ending: Vec<Value>,
    /// The document of the first round, if replies are documents.
    first_document: Option<Value>,
}

/// A call, as far as it has arrived.
struct PartialCall {
    index: Value,
    value: Value,
    /// The index under which the client sees the call; none if it is hidden.
    shown_index: Option<usize>,
}

/// How a chunk is written for the client.
enum ChunkOutput {
    Unchanged,
    Changed,
    Hidden,
}

impl ChatFilter {
    fn has_recall_calls(&self) -> bool {
        self.calls.iter().any(|call| call.shown_index.is_none())
    }

    fn has_client_calls(&self) -> bool {
        self.calls.iter().any(|call| call.shown_index.is_some())
    }

    /// Returns the position of the call with the index of a piece, and with its ID if the piece has one. If
    /// there is none, the piece begins a new call.
    fn find_or_add_call(&mut self, piece: &Value) -> usize {
        let (index, id) = (&piece["index"], &piece["id"]);
        let is_its = |call: &PartialCall| {
            call.index == *index && (id.as_str().is_none_or(str::is_empty) || call.value["id"] == *id)
        };
        if let Some(position) = self.calls.iter().rposition(is_its) {
            return position;
        }
        let shown_index = find_recall_tool(&piece["function"]["name"]).is_none().then_some(self.shown_call_count);
        self.shown_call_count += usize::from(shown_index.is_some());
        self.calls.push(PartialCall { index: index.clone(), value: json!({}), shown_index });
        self.calls.len() - 1
    }

    /// Merges a piece into its call: the arguments grow, and empty values change nothing. Returns the call's
    /// visible index.
    fn merge_call(&mut self, piece: &Value) -> Option<usize> {
        let at = self.find_or_add_call(piece);
        let draft = &mut self.calls[at];
        for (name, value) in piece.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            match name.as_str() {
                "index" => {}
                "function" => {
                    let function = draft.value.as_object_mut();
                    let function = function.map(|call| call.entry("function").or_insert_with(|| json!({})));
                    if let Some(function) = function {
                        append_text(function, "arguments", &value["arguments"]);
                        if value["name"].as_str().is_some_and(|name| !name.is_empty()) {
                            function["name"] = value["name"].clone();
                        }
                    }
                }
                _ if value == "" => {}
                _ => draft.value[name] = value.clone(),
            }
        }
        draft.shown_index
    }

    /// Merges a chunk into the message: texts and lists grow.
    fn merge_message(&mut self, delta: &Map<String, Value>) {
        for (name, value) in delta {
            match (name.as_str(), value) {
                ("role" | "tool_calls", _) | (_, Value::Null) => {}
                (_, Value::Array(more)) if more.is_empty() => {}
                (_, Value::String(more)) => match self.message.get_mut(name) {
                    Some(Value::String(text)) => text.push_str(more),
                    _ => drop(self.message.insert(name.clone(), value.clone())),
                },
                (_, Value::Array(more)) => match self.message.get_mut(name) {
                    Some(Value::Array(list)) => list.extend(more.iter().cloned()),
                    _ => drop(self.message.insert(name.clone(), value.clone())),
                },
                _ => drop(self.message.insert(name.clone(), value.clone())),
            }
        }
    }

    /// Reads a chunk and removes what the client must not see.
    fn filter_chunk(&mut self, chunk: &mut Value) -> ChunkOutput {
        self.usage.merge(&chunk["usage"]);
        let mut shown = ChunkOutput::Unchanged;
        let had_text = self.message.get("content").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let mut is_blank = false;
        if let Some(choice) = chunk["choices"].get_mut(0).and_then(Value::as_object_mut) {
            if let Some(finish) = choice.get("finish_reason").and_then(Value::as_str) {
                self.finish_reason = Some(finish.to_owned());
            }
            if let Some(Value::Object(delta)) = choice.get_mut("delta") {
                self.merge_message(delta);
                if let Some(Value::Array(pieces)) = delta.get_mut("tool_calls") {
                    let piece_count = pieces.len();
                    pieces.retain_mut(|piece| {
                        let shown_index = self.merge_call(piece);
                        if let Some(shown_index) =
                            shown_index.filter(|shown_index| piece["index"] != json!(*shown_index))
                        {
                            piece["index"] = shown_index.into();
                            shown = ChunkOutput::Changed;
                        }
                        shown_index.is_some()
                    });
                    let (shown_count, is_empty) = (pieces.len(), pieces.is_empty());
                    if shown_count < piece_count {
                        shown = ChunkOutput::Changed;
                    }
                    if is_empty {
                        delta.remove("tool_calls");
                    }
                }
                if self.is_later_round {
                    delta.remove("role");
                    shown = ChunkOutput::Changed;
                    let content = delta.get("content").and_then(Value::as_str).filter(|text| !text.is_empty());
                    if let Some(content) = content.filter(|_| !had_text && !self.earlier_text.is_empty()) {
                        let separated = format!("{TEXT_SEPARATOR}{content}");
                        delta.insert("content".to_owned(), separated.into());
                    }
                }
                is_blank = delta.values().all(|value| value.is_null() || *value == "");
            }
            is_blank &= choice.get("finish_reason").is_none_or(Value::is_null);
        }
        if is_blank && matches!(shown, ChunkOutput::Changed) && chunk["usage"].is_null() {
            ChunkOutput::Hidden
        } else {
            shown
        }
    }

    /// Gives a chunk of a later round the ID of the first reply.
    fn apply_first_id(&mut self, chunk: &mut Value) {
        let (id, created) = (chunk["id"].clone(), chunk["created"].clone());
        let (id, created) = self.first_id.get_or_insert((id, created)).clone();
        if self.is_later_round {
            (chunk["id"], chunk["created"]) = (id, created);
        }
    }

    /// Returns the text of all rounds.
    fn all_text(&self) -> String {
        let current_text = self.message.get("content").and_then(Value::as_str).unwrap_or_default();
        let separator = if self.earlier_text.is_empty() || current_text.is_empty() { "" } else { TEXT_SEPARATOR };
        format!("{}{separator}{current_text}", self.earlier_text)
    }

    fn shown_finish_reason(&self) -> Option<&str> {
        let has_only_recall_calls = self.has_recall_calls() && !self.has_client_calls();
        self.finish_reason
            .as_deref()
            .map(|reason| if CALL_FINISH_REASONS.contains(&reason) && has_only_recall_calls { "stop" } else { reason })
    }

    fn shown_calls(&self) -> Vec<Value> {
        self.calls.iter().filter(|call| call.shown_index.is_some()).map(|call| call.value.clone()).collect()
    }

    /// Returns the message with this text and these calls.
    fn build_message(&self, text: &str, calls: Vec<Value>) -> Value {
        let mut message = self.message.clone();
        message.remove("content");
        let content = if text.is_empty() { Value::Null } else { text.into() };
        let mut complete = json!({"role": "assistant", "content": content});
        if let Value::Object(complete) = &mut complete {
            complete.extend(message);
            if !calls.is_empty() {
                complete.insert("tool_calls".to_owned(), calls.into());
            }
        }
        complete
    }
}

/// Returns a message with only the fields that every server accepts. Some servers refuse fields that they
/// sent themselves.
pub(super) fn with_standard_fields(message: &Value) -> Value {
    let mut message = message.clone();
    if let Some(fields) = message.as_object_mut() {
        fields.retain(|name, _| STANDARD_FIELDS.contains(&name.as_str()));
    }
    message
}

fn write_chunk(chunk: &Value) -> Vec<u8> {
    format!("data: {chunk}\n\n").into_bytes()
}

impl StreamFilter for ChatFilter {
    fn feed_event(&mut self, event: SseEvent, out: &mut Vec<u8>) {
        let SseEvent { raw, data } = event;
        let Some(data) = data else { return out.extend(raw) };
        if data.trim_ascii() == DONE_DATA {
            self.is_over = true;
            if self.held_ending.is_empty() {
                out.extend(raw);
            }
            return;
        }
        let Ok(mut chunk) = serde_json::from_slice::<Value>(&data) else { return out.extend(raw) };
        if !chunk.is_object() || chunk["choices"].is_null() {
            return out.extend(raw);
        }
        self.apply_first_id(&mut chunk);
        let shown = self.filter_chunk(&mut chunk);
        if self.finish_reason.is_some() && (self.is_later_round || self.has_recall_calls()) {
            return self.held_ending.push(chunk);
        }
        match shown {
            ChunkOutput::Unchanged => out.extend(raw),
            ChunkOutput::Changed => out.extend(write_chunk(&chunk)),
            ChunkOutput::Hidden => {}
        }
    }

    fn feed_document(&mut self, document: Value) {
        self.usage.merge(&document["usage"]);
        let choice = &document["choices"][0];
        self.finish_reason = Some(choice["finish_reason"].as_str().unwrap_or("stop").to_owned());
        if let Some(message) = choice["message"].as_object() {
            self.merge_message(message);
            for (index, call) in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten().enumerate() {
                let mut piece = call.clone();
                piece["index"] = index.into();
                self.merge_call(&piece);
            }
        }
        self.first_document.get_or_insert(document);
    }

    fn has_ended(&self) -> bool {
        self.is_over
    }

    fn outcome(&self) -> Option<ReplyOutcome> {
        let finish = self.finish_reason.as_deref()?;
        let call = |draft: &PartialCall| {
            let function = &draft.value["function"];
            let tool = find_recall_tool(&function["name"])
                .filter(|_| draft.shown_index.is_none() && CALL_FINISH_REASONS.contains(&finish))?;
            let arguments = parse_arguments(function["arguments"].as_str().unwrap_or_default());
            Some(RecallCall { id: draft.value["id"].clone(), tool, arguments })
        };
        let text = self.message.get("content").and_then(Value::as_str).unwrap_or_default();
        let calls = self.calls.iter().map(|call| call.value.clone()).collect();
        Some(ReplyOutcome {
            reply: vec![self.build_message(text, calls)],
            calls: self.calls.iter().filter_map(call).collect(),
            has_recall_calls: self.has_recall_calls(),
            has_client_calls: self.has_client_calls(),
            usage: self.usage.current_usage(),
        })
    }

    fn start_next_round(&mut self) {
        self.earlier_text = self.all_text();
        self.usage.start_next_round(&USAGE_FIELDS);
        self.message.clear();
        self.calls.clear();
        self.held_ending.clear();
        (self.is_later_round, self.is_over, self.finish_reason) = (true, false, None);
    }

    fn write_ending(&mut self, out: &mut Vec<u8>) {
        let held_ending = std::mem::take(&mut self.held_ending);
        let is_held = !held_ending.is_empty();
        for mut chunk in held_ending {
            if let Some(choice) = chunk["choices"].get_mut(0)
                && !choice["finish_reason"].is_null()
            {
                choice["finish_reason"] = self.shown_finish_reason().into();
            }
            if chunk["usage"].is_object() {
                chunk["usage"] = self.usage.client_usage(&USAGE_FIELDS).into();
            }
            out.extend(write_chunk(&chunk));
        }
        if is_held {
            out.extend_from_slice(b"data: [DONE]\n\n");
        }
    }

    fn shown_document(&self) -> Value {
        let mut document = self.first_document.clone().unwrap_or_default();
        let choice = &mut document["choices"][0];
        choice["message"] = self.build_message(&self.all_text(), self.shown_calls());
        choice["finish_reason"] = self.shown_finish_reason().into();
        document["usage"] = self.usage.client_usage(&USAGE_FIELDS).into();
        document
    }

    fn shown_messages(&self) -> Vec<Value> {
        vec![self.build_message(&self.all_text(), self.shown_calls())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the visible output of these chunks, and the outcome of the reply.
    fn read(chunks: &[Value]) -> (String, Option<ReplyOutcome>) {
        let (mut chat, mut out) = (ChatFilter::default(), Vec::new());
        for chunk in chunks {
            let data = chunk.to_string().into_bytes();
            chat.feed_event(SseEvent { raw: write_chunk(chunk), data: Some(data) }, &mut out);
        }
        let outcome = chat.outcome();
        chat.write_ending(&mut out);
        (String::from_utf8(out).unwrap(), outcome)
    }

    fn chunk(delta: &Value, finish: Option<&str>) -> Value {
        json!({"id": "a", "created": 1, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    }

    #[test]
    fn calls_that_come_whole_without_a_place_and_with_the_end_are_told_apart() {
        let ours = json!({"id": "1", "type": "function", "function": {"name": "recall_outline", "arguments": "{}"}});
        let theirs = json!({"id": "2", "type": "function", "function": {"name": "ls", "arguments": "{}"}});
        let (shown, outcome) =
            read(&[chunk(&json!({"role": "assistant", "tool_calls": [ours.clone()]}), Some("stop"))]);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.calls.len(), outcome.has_client_calls), (1, false));
        assert!(!shown.contains("recall_"), "{shown}");
        let (shown, outcome) = read(&[
            chunk(&json!({"role": "assistant", "tool_calls": [ours]}), None),
            chunk(&json!({"tool_calls": [theirs]}), Some("tool_calls")),
        ]);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.calls.len(), outcome.has_client_calls), (1, true));
        assert!(!shown.contains("recall_") && shown.contains(r#""name":"ls""#), "{shown}");
        assert_eq!(outcome.reply[0]["tool_calls"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn what_was_thought_goes_back_to_who_thought_it() {
        let call = json!({"index": 0, "id": "1", "function": {"name": "recall_outline", "arguments": ""}, "extra_content": {"sealed": "x"}});
        let (_, outcome) = read(&[
            chunk(&json!({"role": "assistant", "reasoning_content": "I do "}), None),
            chunk(&json!({"reasoning_content": "not know.", "reasoning_details": [{"text": "a"}]}), None),
            chunk(&json!({"reasoning_details": [{"text": "b"}], "tool_calls": [call]}), None),
            chunk(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}), Some("tool_calls")),
        ]);
        let reply = outcome.unwrap().reply.remove(0);
        assert_eq!(reply["reasoning_content"], "I do not know.");
        assert_eq!(reply["reasoning_details"], json!([{"text": "a"}, {"text": "b"}]));
        assert_eq!(reply["tool_calls"][0]["extra_content"]["sealed"], "x");
        assert_eq!(reply["tool_calls"][0]["function"]["arguments"], "{}");
    }

    #[test]
    fn a_reply_without_calls_of_ours_is_handed_on_to_the_last_byte() {
        let chunks = [
            chunk(&json!({"role": "assistant", "content": ""}), None),
            chunk(&json!({"content": "well"}), None),
            chunk(&json!({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "ls", "arguments": ""}}]}), None),
            chunk(&json!({}), Some("tool_calls")),
            json!({"id": "a", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}),
        ];
        let all: Vec<u8> = chunks.iter().flat_map(write_chunk).collect();
        assert_eq!(read(&chunks).0.into_bytes(), all);
    }
}
