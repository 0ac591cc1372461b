//! The filter for Messages: a reply is a list of blocks, each of which is opened, grows and is closed, and
//! then a stop reason.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::stream_filter::{
    RecallCall, ReplyOutcome, RoundUsage, StreamFilter, UsageFields, append_text, find_recall_tool, parse_arguments,
    write_named_event,
};
use crate::upstream::SseEvent;

const USAGE_FIELDS: UsageFields = UsageFields { input: "input_tokens", output: "output_tokens", total: None };
/// The type of a block that calls a tool, and the stop reason of a reply with such a block.
const TOOL_USE: &str = "tool_use";
/// The separator between the texts of two rounds. Clients join text blocks without a separator of their own.
const TEXT_SEPARATOR: &str = "\n\n";

#[derive(Default)]
pub(super) struct MessagesFilter {
    is_later_round: bool,
    /// The visible blocks of earlier rounds.
    shown_blocks: Vec<Value>,
    /// The number of visible blocks that were opened.
    shown_block_count: usize,
    usage: RoundUsage,
    /// The blocks of the current round, by index.
    blocks: BTreeMap<u64, PartialBlock>,
    /// The stop reason of the current round.
    stop_reason: Option<String>,
    /// Whether the current round has ended.
    is_over: bool,
    /// The events at the end of the current round that are held back.
    held_ending: Vec<Value>,
    /// The document of the first round, if replies are documents.
    first_document: Option<Value>,
}

struct PartialBlock {
    value: Value,
    /// The JSON input of a call, as far as it has arrived.
    input_json: String,
    /// The index under which the client sees the block; none if it is hidden.
    shown_index: Option<usize>,
    /// The state of the separator before the block's text.
    separator: Separator,
}

/// Whether a separator precedes the text of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Unneeded,
    /// A separator is needed and not written yet.
    Pending,
    /// The separator was written.
    Written,
}

impl MessagesFilter {
    fn has_recall_calls(&self) -> bool {
        self.blocks.values().any(|block| block.shown_index.is_none())
    }

    fn open_block(&mut self, index: u64, value: &Value) -> Option<usize> {
        let is_recall_call = value["type"] == TOOL_USE && find_recall_tool(&value["name"]).is_some();
        let shown_index = (!is_recall_call).then_some(self.shown_block_count);
        self.shown_block_count += usize::from(!is_recall_call);
        let is_first_text = value["type"] == "text"
            && self.shown_blocks.iter().any(has_text)
            && !self.blocks.values().any(|block| block.separator != Separator::Unneeded);
        let separator = if is_first_text { Separator::Pending } else { Separator::Unneeded };
        self.blocks
            .insert(index, PartialBlock { value: value.clone(), input_json: String::new(), shown_index, separator });
        shown_index
    }

    fn set_stop_reason(&mut self, delta: &Value) {
        self.stop_reason = delta["stop_reason"].as_str().map(str::to_owned);
    }

    /// Returns the stop reason for the client. If only recall tools were called, the client sees an ordinary
    /// end.
    fn shown_stop_reason(&self) -> Option<&str> {
        let has_only_recall_calls = self.has_recall_calls() && !self.has_client_calls();
        self.stop_reason
            .as_deref()
            .map(|reason| if reason == TOOL_USE && has_only_recall_calls { "end_turn" } else { reason })
    }

    fn has_client_calls(&self) -> bool {
        self.blocks.values().any(|block| block.shown_index.is_some() && block.value["type"] == TOOL_USE)
    }
}

/// Writes an event of a block under its visible index; unchanged, byte for byte, if the index is the same.
fn write_block_event(at: Option<usize>, index: u64, mut value: Value, raw: Option<Vec<u8>>, out: &mut Vec<u8>) {
    match (at, raw) {
        (None, _) => {}
        (Some(at), Some(raw)) if at as u64 == index => out.extend(raw),
        (Some(at), _) => {
            value["index"] = at.into();
            out.extend(write_named_event(&value));
        }
    }
}

/// Returns whether a block has text for the client.
fn has_text(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Puts a separator before the first text of a block, if one is needed. Returns whether it did.
fn insert_separator(block: &mut PartialBlock, text: &mut Value) -> bool {
    match text.as_str().filter(|text| block.separator == Separator::Pending && !text.is_empty()) {
        None => false,
        Some(first_text) => {
            *text = format!("{TEXT_SEPARATOR}{first_text}").into();
            block.separator = Separator::Written;
            true
        }
    }
}

/// Returns a block as the client sees it.
fn shown_block(block: &PartialBlock) -> Value {
    let mut value = complete_block(block);
    if block.separator != Separator::Unneeded
        && let Some(text) = value["text"].as_str().filter(|text| !text.is_empty())
    {
        value["text"] = format!("{TEXT_SEPARATOR}{text}").into();
    }
    value
}

/// Returns a block with all of its input, as it is sent back to the upstream.
fn complete_block(block: &PartialBlock) -> Value {
    let mut value = block.value.clone();
    if !block.input_json.is_empty() {
        value["input"] = parse_arguments(&block.input_json);
    }
    value
}

fn apply_delta(block: &mut PartialBlock, delta: &Value) {
    match delta["type"].as_str().unwrap_or_default() {
        "text_delta" => append_text(&mut block.value, "text", &delta["text"]),
        "thinking_delta" => append_text(&mut block.value, "thinking", &delta["thinking"]),
        "signature_delta" => append_text(&mut block.value, "signature", &delta["signature"]),
        "input_json_delta" => block.input_json.push_str(delta["partial_json"].as_str().unwrap_or_default()),
        "citations_delta" => match &mut block.value["citations"] {
            Value::Array(citations) => citations.push(delta["citation"].clone()),
            none => *none = json!([delta["citation"]]),
        },
        _ => {}
    }
}

impl StreamFilter for MessagesFilter {
    fn feed_event(&mut self, event: SseEvent, out: &mut Vec<u8>) {
        let SseEvent { raw, data } = event;
        let value = data.and_then(|data| serde_json::from_slice::<Value>(&data).ok());
        let Some(mut value) = value else { return out.extend(raw) };
        let index = value["index"].as_u64().unwrap_or_default();
        match value["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.usage.merge(&value["message"]["usage"]);
                if !self.is_later_round {
                    out.extend(raw);
                }
            }
            "content_block_start" => {
                let at = self.open_block(index, &value["content_block"]);
                let is_separated = self
                    .blocks
                    .get_mut(&index)
                    .is_some_and(|block| insert_separator(block, &mut value["content_block"]["text"]));
                write_block_event(at, index, value, (!is_separated).then_some(raw), out);
            }
            "content_block_delta" | "content_block_stop" => {
                let Some(block) = self.blocks.get_mut(&index) else { return out.extend(raw) };
                apply_delta(block, &value["delta"]);
                let is_separated =
                    value["delta"]["type"] == "text_delta" && insert_separator(block, &mut value["delta"]["text"]);
                let at = block.shown_index;
                write_block_event(at, index, value, (!is_separated).then_some(raw), out);
            }
            "message_delta" => {
                self.usage.merge(&value["usage"]);
                self.set_stop_reason(&value["delta"]);
                if self.is_later_round || self.has_recall_calls() {
                    self.held_ending.push(value);
                } else {
                    out.extend(raw);
                }
            }
            "message_stop" => {
                self.is_over = true;
                if self.held_ending.is_empty() {
                    out.extend(raw);
                } else {
                    self.held_ending.push(value);
                }
            }
            _ => out.extend(raw),
        }
    }

    fn feed_document(&mut self, document: Value) {
        self.usage.merge(&document["usage"]);
        self.set_stop_reason(&document);
        for (index, block) in document["content"].as_array().into_iter().flatten().enumerate() {
            self.open_block(index as u64, block);
        }
        self.first_document.get_or_insert(document);
    }

    fn has_ended(&self) -> bool {
        self.is_over
    }

    fn outcome(&self) -> Option<ReplyOutcome> {
        let stop_reason = self.stop_reason.as_deref()?;
        let call = |block: &PartialBlock| {
            let value = complete_block(block);
            let tool =
                find_recall_tool(&value["name"]).filter(|_| block.shown_index.is_none() && stop_reason == TOOL_USE)?;
            Some(RecallCall { id: value["id"].clone(), tool, arguments: value["input"].clone() })
        };
        let is_empty = |block: &Value| block["type"] == "text" && block["text"] == "";
        let content = self.blocks.values().map(complete_block).filter(|block| !is_empty(block));
        Some(ReplyOutcome {
            reply: vec![json!({"role": "assistant", "content": content.collect::<Vec<_>>()})],
            calls: self.blocks.values().filter_map(call).collect(),
            has_recall_calls: self.has_recall_calls(),
            has_client_calls: self.has_client_calls(),
            usage: self.usage.current_usage(),
        })
    }

    fn start_next_round(&mut self) {
        self.record_shown();
        self.usage.start_next_round(&USAGE_FIELDS);
        self.held_ending.clear();
        self.blocks.clear();
        (self.is_later_round, self.is_over, self.stop_reason) = (true, false, None);
    }

    fn write_ending(&mut self, out: &mut Vec<u8>) {
        let client_usage = self.usage.client_usage(&USAGE_FIELDS);
        let stop_reason = self.shown_stop_reason().map(str::to_owned);
        for mut event in std::mem::take(&mut self.held_ending) {
            if event["type"] == "message_delta" {
                event["delta"]["stop_reason"] = stop_reason.clone().into();
                let usage = event["usage"].as_object_mut().into_iter().flatten();
                usage.for_each(|(name, value)| *value = client_usage.get(name).unwrap_or(value).clone());
            }
            out.extend(write_named_event(&event));
        }
        self.record_shown();
    }

    fn shown_document(&self) -> Value {
        let mut document = self.first_document.clone().unwrap_or_default();
        document["content"] = self.shown_blocks.clone().into();
        document["stop_reason"] = self.shown_stop_reason().into();
        document["usage"] = self.usage.client_usage(&USAGE_FIELDS).into();
        document
    }

    fn shown_messages(&self) -> Vec<Value> {
        vec![json!({"role": "assistant", "content": self.shown_blocks})]
    }
}

impl MessagesFilter {
    /// Adds the visible blocks of the current round to the visible ones.
    fn record_shown(&mut self) {
        self.shown_blocks.extend(self.blocks.values().filter(|block| block.shown_index.is_some()).map(shown_block));
    }
}
