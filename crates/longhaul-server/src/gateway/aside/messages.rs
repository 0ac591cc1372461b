//! Messages: a reply is a list of blocks, each of which is opened, grows and is closed; then why it stopped.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::sieve::{Call, Fields, Heard, Sieve, Used, arguments, named, ours, push};
use crate::gateway::events::Event;

const FIELDS: Fields = Fields { input: "input_tokens", output: "output_tokens", total: None };
const CALLED: &str = "tool_use";
/// What stands between the words of two answers: clients join text blocks without anything between them.
const BETWEEN: &str = "\n\n";

#[derive(Default)]
pub(super) struct Messages {
    is_later: bool,
    /// The blocks that were shown, of all answers.
    shown: Vec<Value>,
    /// How many were opened.
    opened: usize,
    used: Used,
    /// The answer that is read: its blocks by their places,
    blocks: BTreeMap<u64, Block>,
    /// why it stopped,
    stop: Option<String>,
    /// whether it has ended,
    is_over: bool,
    /// how it ended, as far as that is held back,
    closing: Vec<Value>,
    /// and all of it, where it came as one document; of the first answer, where there are more.
    document: Option<Value>,
}

struct Block {
    value: Value,
    /// The input of a call, as far as it has come.
    json: String,
    /// Where the client sees it, if it does.
    at: Option<usize>,
    /// What the client sees before its text.
    before: Before,
}

/// What the client sees before the text of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// A blank line, which was not written yet.
    Due,
    /// A blank line.
    Written,
}

impl Messages {
    fn has_ours(&self) -> bool {
        self.blocks.values().any(|block| block.at.is_none())
    }

    fn open(&mut self, index: u64, value: &Value) -> Option<usize> {
        let is_ours = value["type"] == CALLED && ours(&value["name"]).is_some();
        let at = (!is_ours).then_some(self.opened);
        self.opened += usize::from(!is_ours);
        let is_first_text = value["type"] == "text"
            && self.shown.iter().any(is_said)
            && !self.blocks.values().any(|block| block.before != Before::Nothing);
        let before = if is_first_text { Before::Due } else { Before::Nothing };
        self.blocks.insert(index, Block { value: value.clone(), json: String::new(), at, before });
        at
    }

    fn ends(&mut self, delta: &Value) {
        self.stop = delta["stop_reason"].as_str().map(str::to_owned);
    }

    /// Why it stopped, by what the client sees: where it has nothing to answer, nothing was called.
    fn told_stop(&self) -> Option<&str> {
        let is_only_ours = self.has_ours() && !self.has_others();
        self.stop.as_deref().map(|stop| if stop == CALLED && is_only_ours { "end_turn" } else { stop })
    }

    fn has_others(&self) -> bool {
        self.blocks.values().any(|block| block.at.is_some() && block.value["type"] == CALLED)
    }
}

/// Shows an event of a block, at the place that the client sees it at; to the last byte as it came, where it is not changed.
fn show(at: Option<usize>, index: u64, mut value: Value, raw: Option<Vec<u8>>, out: &mut Vec<u8>) {
    match (at, raw) {
        (None, _) => {}
        (Some(at), Some(raw)) if at as u64 == index => out.extend(raw),
        (Some(at), _) => {
            value["index"] = at.into();
            out.extend(named(&value));
        }
    }
}

/// Whether a block has words for the client.
fn is_said(block: &Value) -> bool {
    block["type"] == "text" && block["text"].as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Puts a blank line before the first words of a block that follows on an earlier answer's.
fn part(block: &mut Block, text: &mut Value) -> bool {
    match text.as_str().filter(|text| block.before == Before::Due && !text.is_empty()) {
        None => false,
        Some(words) => {
            *text = format!("{BETWEEN}{words}").into();
            block.before = Before::Written;
            true
        }
    }
}

/// A block as the client has it.
fn as_shown(block: &Block) -> Value {
    let mut value = finished(block);
    if block.before != Before::Nothing
        && let Some(words) = value["text"].as_str().filter(|words| !words.is_empty())
    {
        value["text"] = format!("{BETWEEN}{words}").into();
    }
    value
}

/// A block as it is sent again: with all that came of it.
fn finished(block: &Block) -> Value {
    let mut value = block.value.clone();
    if !block.json.is_empty() {
        value["input"] = arguments(&block.json);
    }
    value
}

fn grow(block: &mut Block, delta: &Value) {
    match delta["type"].as_str().unwrap_or_default() {
        "text_delta" => push(&mut block.value, "text", &delta["text"]),
        "thinking_delta" => push(&mut block.value, "thinking", &delta["thinking"]),
        "signature_delta" => push(&mut block.value, "signature", &delta["signature"]),
        "input_json_delta" => block.json.push_str(delta["partial_json"].as_str().unwrap_or_default()),
        "citations_delta" => match &mut block.value["citations"] {
            Value::Array(citations) => citations.push(delta["citation"].clone()),
            none => *none = json!([delta["citation"]]),
        },
        _ => {}
    }
}

impl Sieve for Messages {
    fn event(&mut self, event: Event, out: &mut Vec<u8>) {
        let Event { raw, data } = event;
        let value = data.and_then(|data| serde_json::from_slice::<Value>(&data).ok());
        let Some(mut value) = value else { return out.extend(raw) };
        let index = value["index"].as_u64().unwrap_or_default();
        match value["type"].as_str().unwrap_or_default() {
            "message_start" => {
                self.used.note(&value["message"]["usage"]);
                if !self.is_later {
                    out.extend(raw);
                }
            }
            "content_block_start" => {
                let at = self.open(index, &value["content_block"]);
                let parted = self
                    .blocks
                    .get_mut(&index)
                    .is_some_and(|block| part(block, &mut value["content_block"]["text"]));
                show(at, index, value, (!parted).then_some(raw), out);
            }
            "content_block_delta" | "content_block_stop" => {
                let Some(block) = self.blocks.get_mut(&index) else { return out.extend(raw) };
                grow(block, &value["delta"]);
                let parted =
                    value["delta"]["type"] == "text_delta" && part(block, &mut value["delta"]["text"]);
                let at = block.at;
                show(at, index, value, (!parted).then_some(raw), out);
            }
            "message_delta" => {
                self.used.note(&value["usage"]);
                self.ends(&value["delta"]);
                if self.is_later || self.has_ours() {
                    self.closing.push(value);
                } else {
                    out.extend(raw);
                }
            }
            "message_stop" => {
                self.is_over = true;
                if self.closing.is_empty() {
                    out.extend(raw);
                } else {
                    self.closing.push(value);
                }
            }
            _ => out.extend(raw),
        }
    }

    fn whole(&mut self, document: Value) {
        self.used.note(&document["usage"]);
        self.ends(&document);
        for (index, block) in document["content"].as_array().into_iter().flatten().enumerate() {
            self.open(index as u64, block);
        }
        self.document.get_or_insert(document);
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn heard(&self) -> Option<Heard> {
        let stop = self.stop.as_deref()?;
        let call = |block: &Block| {
            let value = finished(block);
            let tool = ours(&value["name"]).filter(|_| block.at.is_none() && stop == CALLED)?;
            Some(Call { id: value["id"].clone(), tool, arguments: value["input"].clone() })
        };
        let is_empty = |block: &Value| block["type"] == "text" && block["text"] == "";
        let content = self.blocks.values().map(finished).filter(|block| !is_empty(block));
        Some(Heard {
            reply: vec![json!({"role": "assistant", "content": content.collect::<Vec<_>>()})],
            calls: self.blocks.values().filter_map(call).collect(),
            has_ours: self.has_ours(),
            has_others: self.has_others(),
            usage: self.used.usage(),
        })
    }

    fn again(&mut self) {
        self.keep_shown();
        self.used.again(&FIELDS);
        self.closing.clear();
        self.blocks.clear();
        (self.is_later, self.is_over, self.stop) = (true, false, None);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let told = self.used.told(&FIELDS);
        let stop = self.told_stop().map(str::to_owned);
        for mut event in std::mem::take(&mut self.closing) {
            if event["type"] == "message_delta" {
                event["delta"]["stop_reason"] = stop.clone().into();
                let usage = event["usage"].as_object_mut().into_iter().flatten();
                usage.for_each(|(name, value)| *value = told.get(name).unwrap_or(value).clone());
            }
            out.extend(named(&event));
        }
        self.keep_shown();
    }

    fn document(&self) -> Value {
        let mut document = self.document.clone().unwrap_or_default();
        document["content"] = self.shown.clone().into();
        document["stop_reason"] = self.told_stop().into();
        document["usage"] = self.used.told(&FIELDS).into();
        document
    }

    fn shown(&self) -> Vec<Value> {
        vec![json!({"role": "assistant", "content": self.shown})]
    }
}

impl Messages {
    /// Keeps what the client sees of this answer.
    fn keep_shown(&mut self) {
        self.shown.extend(self.blocks.values().filter(|block| block.at.is_some()).map(as_shown));
    }
}
