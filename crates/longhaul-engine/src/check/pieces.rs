//! A body as a flat list of pieces: what a rewrite may keep, edit or remove. String content and a list with that one text
//! are the same piece; cache marks are not seen.

use std::hash::{DefaultHasher, Hasher};

use serde_json::{Map, Value};

use super::responses::{is_call, is_output, item_kind};
use super::{At, Request, kind, list, role};
use crate::Dialect;

/// How a checkpoint begins: written down again, for this folder takes nobody's word.
const CHECKPOINT_OPENING: &str = "[Longhaul checkpoint";
/// How its last line begins.
const END_OPENING: &str = "[End of the checkpoint";

/// Who said it, as far as a rewrite cares. Results belong to the user's side in every dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// The system, the developer, or a role that nobody knows.
    System,
    User,
    Assistant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Prose,
    Image,
    Call,
    Result,
    /// Thinking, encrypted reasoning, a provider's own compaction: never edited.
    Thinking,
    Other,
}

pub(super) struct Piece<'v> {
    pub(super) speaker: Speaker,
    pub(super) kind: Kind,
    /// The index of its message or item.
    pub(super) message: usize,
    pub(super) at: At,
    /// The call that a call or result is about.
    pub(super) id: &'v str,
    pub(super) text: &'v str,
    /// Equal as long as only what may be edited was edited.
    pub(super) skeleton: u64,
    /// Equal as long as nothing changed.
    pub(super) exact: u64,
}

impl Piece<'_> {
    /// Whether it takes part in matching: thinking may be dropped, and so may text that says nothing.
    pub(super) fn counts(&self) -> bool {
        self.kind != Kind::Thinking && !(self.kind == Kind::Prose && self.text.trim().is_empty())
    }

    /// Whether it is what a compaction left in place of others.
    pub(super) fn is_checkpoint(&self) -> bool {
        let last = || self.text.trim_end().lines().next_back().unwrap_or_default();
        self.kind == Kind::Prose
            && self.text.starts_with(CHECKPOINT_OPENING)
            && last().starts_with(END_OPENING)
    }
}

/// Everything of a body that a rewrite is judged by.
pub(super) struct Pieces<'v> {
    pub(super) system: String,
    pub(super) tools: u64,
    pub(super) list: Vec<Piece<'v>>,
}

const CACHE_MARKS: [&str; 2] = ["cache_control", "prompt_cache_breakpoint"];

/// Takes a body apart; whatever is not understood becomes a piece of its own, to be kept as it is.
pub(super) fn pieces<'v>(request: &Request<'v>, dialect: Dialect) -> Pieces<'v> {
    let envelope = request.envelope;
    let mut collector = Collector { list: Vec::new(), message: 0, at: At::BODY };
    let leading = match dialect {
        Dialect::Messages => 0,
        _ => request.messages.iter().take_while(|m| ["system", "developer"].contains(&role(m))).count(),
    };
    let mut system = String::new();
    add_text(&envelope["system"], &mut system);
    add_text(&envelope["instructions"], &mut system);
    for message in &request.messages[..leading] {
        add_text(&message["content"], &mut system);
    }
    if let Some(text) = envelope["input"].as_str().filter(|_| dialect == Dialect::Responses) {
        collector.prose(Speaker::User, text, empty(), At::BODY / "input");
    }
    for (i, message) in request.messages.iter().enumerate().skip(leading) {
        (collector.message, collector.at) = (i, request.at(i));
        match dialect {
            Dialect::Chat => collector.chat(message),
            Dialect::Messages => collector.content(speaker(message), &message["content"]),
            Dialect::Responses => collector.item(message),
        }
    }
    Pieces {
        system,
        tools: mix(&request.tools().map(|(_, tool)| element_hash(tool)).collect::<Vec<_>>()),
        list: collector.list,
    }
}

fn speaker(message: &Value) -> Speaker {
    match role(message) {
        "assistant" => Speaker::Assistant,
        "user" => Speaker::User,
        _ => Speaker::System,
    }
}

fn add_text(content: &Value, text: &mut String) {
    if let Some(string) = content.as_str() {
        text.push_str(string);
    }
    for (_, block) in list(content) {
        text.push_str(block["text"].as_str().unwrap_or_default());
    }
}

struct Collector<'v> {
    list: Vec<Piece<'v>>,
    message: usize,
    at: At,
}

impl<'v> Collector<'v> {
    fn push(&mut self, speaker: Speaker, kind: Kind, at: At, id: &'v str, hashes: (u64, u64)) {
        let salt = |hash| mix(&[speaker as u64, kind as u64, hash]);
        self.list.push(Piece {
            speaker,
            kind,
            message: self.message,
            at,
            id,
            text: "",
            skeleton: salt(hashes.0),
            exact: salt(hashes.1),
        });
    }

    fn prose(&mut self, speaker: Speaker, text: &'v str, block: &Map<String, Value>, at: At) {
        let hash = prose_hash(text, block);
        self.push(speaker, Kind::Prose, at, "", (hash, hash));
        if let Some(piece) = self.list.last_mut() {
            piece.text = text;
        }
    }

    fn whole(&mut self, speaker: Speaker, kind: Kind, value: &'v Value, at: At) {
        let exact = element_hash(value);
        self.push(speaker, kind, at, "", (exact, exact));
    }

    /// A call: `parts` are the objects that describe it, `payload` what it was called with.
    fn call(&mut self, parts: &[&'v Value], payload: &'v Value, id: &'v str, at: At) {
        let frame = parts.iter().map(|part| object_hash(part, &["function", "arguments", "input", "action"]));
        let frame = mix(&frame.collect::<Vec<_>>());
        let parsed = payload.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let shape = match (&parsed, payload) {
            (Some(parsed), _) => hash(parsed, Strings::Blank),
            (None, Value::String(_)) => hash(payload, Strings::Exact),
            (None, other) => hash(other, Strings::Blank),
        };
        let hashes = (mix(&[frame, shape]), mix(&[frame, hash(payload, Strings::Exact)]));
        self.push(Speaker::Assistant, Kind::Call, at, id, hashes);
    }

    fn result(&mut self, speaker: Speaker, value: &'v Value, content: &'v Value, id: &'v str, at: At) {
        let frame = object_hash(value, &["content", "output"]);
        self.push(speaker, Kind::Result, at, id, (frame, mix(&[frame, content_hash(content)])));
    }

    fn chat(&mut self, message: &'v Value) {
        let speaker = speaker(message);
        if ["tool", "function"].contains(&role(message)) {
            let id = message["tool_call_id"].as_str().or(message["name"].as_str()).unwrap_or_default();
            return self.result(Speaker::User, message, &message["content"], id, self.at);
        }
        for field in ["reasoning_content", "reasoning", "reasoning_details"] {
            if !message[field].is_null() {
                self.whole(speaker, Kind::Thinking, &message[field], self.at / field);
            }
        }
        self.content(speaker, &message["content"]);
        if let Some(refusal) = message["refusal"].as_str() {
            self.prose(speaker, refusal, empty(), self.at / "refusal");
        }
        for (c, call) in list(&message["tool_calls"]) {
            let (function, at) = (&call["function"], self.at / "tool_calls" / c);
            self.call(&[call, function], &function["arguments"], call["id"].as_str().unwrap_or_default(), at);
        }
        let legacy = &message["function_call"];
        if legacy.is_object() {
            let name = legacy["name"].as_str().unwrap_or_default();
            self.call(&[legacy], &legacy["arguments"], name, self.at / "function_call");
        }
    }

    /// The content of a message: a string, or blocks of any dialect.
    fn content(&mut self, speaker: Speaker, content: &'v Value) {
        if let Some(text) = content.as_str() {
            return self.prose(speaker, text, empty(), self.at / "content");
        }
        for (b, block) in list(content) {
            let at = self.at / "content" / b;
            let id = |field: &str| block[field].as_str().unwrap_or_default();
            match (kind(block), block["text"].as_str(), block.as_object()) {
                ("text" | "input_text" | "output_text", Some(text), Some(map)) => {
                    self.prose(speaker, text, map, at);
                }
                ("image" | "image_url" | "input_image", ..) => {
                    let exact = element_hash(block);
                    self.push(speaker, Kind::Image, at, "", (0, exact));
                }
                ("thinking" | "redacted_thinking" | "compaction", ..) => {
                    self.whole(speaker, Kind::Thinking, block, at);
                }
                ("tool_use" | "server_tool_use" | "mcp_tool_use", ..) => {
                    self.call(&[block], &block["input"], id("id"), at);
                }
                (kind, ..) if kind.ends_with("tool_result") => {
                    self.result(speaker, block, &block["content"], id("tool_use_id"), at);
                }
                _ => self.whole(speaker, Kind::Other, block, at),
            }
        }
    }

    fn item(&mut self, item: &'v Value) {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item_kind(item) {
            "message" => self.content(speaker(item), &item["content"]),
            "reasoning" => self.whole(Speaker::Assistant, Kind::Thinking, item, self.at),
            // It stands for what was before it, and belongs to no step.
            "compaction" => self.whole(Speaker::Assistant, Kind::Other, item, self.at),
            _ if is_call(item) => {
                let payload = ["arguments", "input", "action"].iter().map(|field| &item[*field]);
                let payload = payload.into_iter().find(|value| !value.is_null()).unwrap_or(&Value::Null);
                self.call(&[item], payload, id, self.at);
            }
            _ if is_output(item) => self.result(Speaker::User, item, &item["output"], id, self.at),
            kind if kind.ends_with("_call") => self.whole(Speaker::Assistant, Kind::Other, item, self.at),
            _ => self.whole(Speaker::System, Kind::Other, item, self.at),
        }
    }
}

fn empty() -> &'static Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    &EMPTY
}

/// What the strings inside a value count for.
#[derive(Clone, Copy)]
enum Strings {
    Exact,
    Blank,
}

fn mix(parts: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for &part in parts {
        hasher.write_u64(part);
    }
    hasher.finish()
}

fn text_hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// A hash of a value that does not depend on the order of keys.
fn hash(value: &Value, strings: Strings) -> u64 {
    match value {
        Value::Null => mix(&[0]),
        Value::Bool(bool) => mix(&[1, u64::from(*bool)]),
        Value::Number(number) => mix(&[2, text_hash(&number.to_string())]),
        Value::String(text) => match strings {
            Strings::Exact => mix(&[3, text_hash(text)]),
            Strings::Blank => mix(&[3]),
        },
        Value::Array(items) => {
            let hashes = items.iter().map(|item| hash(item, strings));
            mix(&[4].into_iter().chain(hashes).collect::<Vec<_>>())
        }
        Value::Object(map) => entries_hash(map.iter(), strings),
    }
}

fn entries_hash<'v>(entries: impl Iterator<Item = (&'v String, &'v Value)>, strings: Strings) -> u64 {
    let sum =
        entries.map(|(key, value)| mix(&[text_hash(key), hash(value, strings)])).fold(0, u64::wrapping_add);
    mix(&[5, sum])
}

/// An element's own fields, without cache marks and without those named.
fn object_hash(value: &Value, except: &[&str]) -> u64 {
    let map = value.as_object().unwrap_or(empty());
    let own = |key: &str| !except.contains(&key) && !CACHE_MARKS.contains(&key);
    entries_hash(map.iter().filter(|(key, _)| own(key)), Strings::Exact)
}

/// Anything, without cache marks of its own.
fn element_hash(value: &Value) -> u64 {
    if value.is_object() { object_hash(value, &[]) } else { hash(value, Strings::Exact) }
}

fn prose_hash(text: &str, block: &Map<String, Value>) -> u64 {
    let own = |key: &str| !["type", "text"].contains(&key) && !CACHE_MARKS.contains(&key);
    mix(&[text_hash(text), entries_hash(block.iter().filter(|(key, _)| own(key)), Strings::Exact)])
}

fn content_hash(content: &Value) -> u64 {
    match content {
        Value::String(text) => mix(&[prose_hash(text, empty())]),
        Value::Array(parts) => {
            let hashes = parts.iter().map(|part| match (part["text"].as_str(), part.as_object()) {
                (Some(text), Some(map)) => prose_hash(text, map),
                _ => element_hash(part),
            });
            mix(&hashes.collect::<Vec<_>>())
        }
        other => hash(other, Strings::Exact),
    }
}
