//! Splits a body into a flat list of pieces, which a rewrite may keep, edit or remove. A string content and a
//! list with that one text are the same piece. Cache breakpoints are ignored.

use std::hash::{DefaultHasher, Hasher};

use serde_json::{Map, Value};

use super::responses::{is_call_output, is_client_call, item_type};
use super::{CheckedRequest, JsonPath, indexed, role, type_of};
use crate::ApiFormat;

/// The beginning of a checkpoint. It is defined again here, because `check` shares no parsing code with
/// the rest of the engine.
const CHECKPOINT_OPENING: &str = "[Longhaul checkpoint";
/// The beginning of the last line of a checkpoint.
const CHECKPOINT_END_OPENING: &str = "[End of the checkpoint";

/// The author of a piece, as far as it matters to a rewrite. Tool results count as the user's in every API
/// format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceAuthor {
    /// The system, the developer, or an unknown role.
    System,
    User,
    Assistant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    Text,
    Image,
    Call,
    Result,
    /// Thinking, encrypted reasoning or a provider's own compaction, which must never be edited.
    Thinking,
    Other,
}

/// The smallest part of a body that a rewrite may keep, edit or remove.
pub(super) struct ComparedPiece<'v> {
    pub(super) author: PieceAuthor,
    pub(super) kind: PieceKind,
    /// The index of its message or item.
    pub(super) message: usize,
    pub(super) path: JsonPath,
    /// The ID of the call that this call or result belongs to.
    pub(super) id: &'v str,
    pub(super) text: &'v str,
    /// A hash that stays the same as long as only the editable parts change.
    pub(super) structure_hash: u64,
    /// A hash that stays the same as long as nothing changes.
    pub(super) exact_hash: u64,
}

impl ComparedPiece<'_> {
    /// Returns whether the piece is matched with the original. Thinking and blank text are not, because a
    /// rewrite may drop them.
    pub(super) fn is_matched(&self) -> bool {
        self.kind != PieceKind::Thinking && !(self.kind == PieceKind::Text && self.text.trim().is_empty())
    }

    /// Returns whether the piece is the checkpoint of a compaction.
    pub(super) fn is_checkpoint(&self) -> bool {
        let last = || self.text.trim_end().lines().next_back().unwrap_or_default();
        self.kind == PieceKind::Text
            && self.text.starts_with(CHECKPOINT_OPENING)
            && last().starts_with(CHECKPOINT_END_OPENING)
    }
}

/// The parts of a body by which a rewrite is checked.
pub(super) struct ComparedBody<'v> {
    pub(super) system: String,
    pub(super) tools_hash: u64,
    pub(super) pieces: Vec<ComparedPiece<'v>>,
}

const BREAKPOINT_FIELDS: [&str; 2] = ["cache_control", "prompt_cache_breakpoint"];

/// Splits a body into pieces. Content that is not understood becomes a piece that must be kept unchanged.
pub(super) fn split_into_pieces<'v>(request: &CheckedRequest<'v>, api_format: ApiFormat) -> ComparedBody<'v> {
    let envelope = request.body;
    let mut collector = PieceCollector { pieces: Vec::new(), message: 0, path: JsonPath::ROOT };
    let leading = match api_format {
        ApiFormat::Messages => 0,
        _ => request.messages.iter().take_while(|m| ["system", "developer"].contains(&role(m))).count(),
    };
    let mut system = String::new();
    append_text(&envelope["system"], &mut system);
    append_text(&envelope["instructions"], &mut system);
    for message in &request.messages[..leading] {
        append_text(&message["content"], &mut system);
    }
    if let Some(text) = envelope["input"].as_str().filter(|_| api_format == ApiFormat::Responses) {
        collector.push_text(PieceAuthor::User, text, empty_map(), JsonPath::ROOT / "input");
    }
    for (i, message) in request.messages.iter().enumerate().skip(leading) {
        (collector.message, collector.path) = (i, request.message_path(i));
        match api_format {
            ApiFormat::Chat => collector.push_chat_message(message),
            ApiFormat::Messages => collector.push_content(author_of(message), &message["content"]),
            ApiFormat::Responses => collector.push_item(message),
        }
    }
    ComparedBody {
        system,
        tools_hash: combine_hashes(&request.tools().map(|(_, tool)| element_hash(tool)).collect::<Vec<_>>()),
        pieces: collector.pieces,
    }
}

fn author_of(message: &Value) -> PieceAuthor {
    match role(message) {
        "assistant" => PieceAuthor::Assistant,
        "user" => PieceAuthor::User,
        _ => PieceAuthor::System,
    }
}

fn append_text(content: &Value, text: &mut String) {
    if let Some(string) = content.as_str() {
        text.push_str(string);
    }
    for (_, block) in indexed(content) {
        text.push_str(block["text"].as_str().unwrap_or_default());
    }
}

struct PieceCollector<'v> {
    pieces: Vec<ComparedPiece<'v>>,
    message: usize,
    path: JsonPath,
}

impl<'v> PieceCollector<'v> {
    fn push(&mut self, author: PieceAuthor, kind: PieceKind, at: JsonPath, id: &'v str, hashes: (u64, u64)) {
        let salt = |hash| combine_hashes(&[author as u64, kind as u64, hash]);
        self.pieces.push(ComparedPiece {
            author,
            kind,
            message: self.message,
            path: at,
            id,
            text: "",
            structure_hash: salt(hashes.0),
            exact_hash: salt(hashes.1),
        });
    }

    fn push_text(&mut self, author: PieceAuthor, text: &'v str, block: &Map<String, Value>, at: JsonPath) {
        let hash = text_block_hash(text, block);
        self.push(author, PieceKind::Text, at, "", (hash, hash));
        if let Some(piece) = self.pieces.last_mut() {
            piece.text = text;
        }
    }

    fn push_unchangeable(&mut self, author: PieceAuthor, kind: PieceKind, value: &'v Value, at: JsonPath) {
        let exact = element_hash(value);
        self.push(author, kind, at, "", (exact, exact));
    }

    /// Adds a call. `parts` are the objects that describe it, and `payload` is its arguments.
    fn push_call(&mut self, parts: &[&'v Value], payload: &'v Value, id: &'v str, at: JsonPath) {
        let frame = parts.iter().map(|part| object_hash(part, &["function", "arguments", "input", "action"]));
        let frame = combine_hashes(&frame.collect::<Vec<_>>());
        let parsed = payload.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let shape = match (&parsed, payload) {
            (Some(parsed), _) => value_hash(parsed, StringHashing::Ignored),
            (None, Value::String(_)) => value_hash(payload, StringHashing::Exact),
            (None, other) => value_hash(other, StringHashing::Ignored),
        };
        let hashes =
            (combine_hashes(&[frame, shape]), combine_hashes(&[frame, value_hash(payload, StringHashing::Exact)]));
        self.push(PieceAuthor::Assistant, PieceKind::Call, at, id, hashes);
    }

    fn push_result(&mut self, author: PieceAuthor, value: &'v Value, content: &'v Value, id: &'v str, at: JsonPath) {
        let frame = object_hash(value, &["content", "output"]);
        self.push(author, PieceKind::Result, at, id, (frame, combine_hashes(&[frame, content_hash(content)])));
    }

    fn push_chat_message(&mut self, message: &'v Value) {
        let author = author_of(message);
        if ["tool", "function"].contains(&role(message)) {
            let id = message["tool_call_id"].as_str().or(message["name"].as_str()).unwrap_or_default();
            return self.push_result(PieceAuthor::User, message, &message["content"], id, self.path);
        }
        for field in ["reasoning_content", "reasoning", "reasoning_details"] {
            if !message[field].is_null() {
                self.push_unchangeable(author, PieceKind::Thinking, &message[field], self.path / field);
            }
        }
        self.push_content(author, &message["content"]);
        if let Some(refusal) = message["refusal"].as_str() {
            self.push_text(author, refusal, empty_map(), self.path / "refusal");
        }
        for (c, call) in indexed(&message["tool_calls"]) {
            let (function, at) = (&call["function"], self.path / "tool_calls" / c);
            self.push_call(&[call, function], &function["arguments"], call["id"].as_str().unwrap_or_default(), at);
        }
        let legacy = &message["function_call"];
        if legacy.is_object() {
            let name = legacy["name"].as_str().unwrap_or_default();
            self.push_call(&[legacy], &legacy["arguments"], name, self.path / "function_call");
        }
    }

    /// Adds the content of a message: a string, or blocks of any API format.
    fn push_content(&mut self, author: PieceAuthor, content: &'v Value) {
        if let Some(text) = content.as_str() {
            return self.push_text(author, text, empty_map(), self.path / "content");
        }
        for (b, block) in indexed(content) {
            let at = self.path / "content" / b;
            let id = |field: &str| block[field].as_str().unwrap_or_default();
            match (type_of(block), block["text"].as_str(), block.as_object()) {
                ("text" | "input_text" | "output_text", Some(text), Some(map)) => {
                    self.push_text(author, text, map, at);
                }
                ("image" | "image_url" | "input_image", ..) => {
                    let exact = element_hash(block);
                    self.push(author, PieceKind::Image, at, "", (0, exact));
                }
                ("thinking" | "redacted_thinking" | "compaction", ..) => {
                    self.push_unchangeable(author, PieceKind::Thinking, block, at);
                }
                ("tool_use" | "server_tool_use" | "mcp_tool_use", ..) => {
                    self.push_call(&[block], &block["input"], id("id"), at);
                }
                (kind, ..) if kind.ends_with("tool_result") => {
                    self.push_result(author, block, &block["content"], id("tool_use_id"), at);
                }
                _ => self.push_unchangeable(author, PieceKind::Other, block, at),
            }
        }
    }

    fn push_item(&mut self, item: &'v Value) {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item_type(item) {
            "message" => self.push_content(author_of(item), &item["content"]),
            "reasoning" => {
                self.push_unchangeable(PieceAuthor::Assistant, PieceKind::Thinking, item, self.path);
            }
            // It replaces the history before it and belongs to no turn.
            "compaction" => self.push_unchangeable(PieceAuthor::Assistant, PieceKind::Other, item, self.path),
            _ if is_client_call(item) => {
                let payload = ["arguments", "input", "action"].iter().map(|field| &item[*field]);
                let payload = payload.into_iter().find(|value| !value.is_null()).unwrap_or(&Value::Null);
                self.push_call(&[item], payload, id, self.path);
            }
            _ if is_call_output(item) => {
                self.push_result(PieceAuthor::User, item, &item["output"], id, self.path);
            }
            kind if kind.ends_with("_call") => {
                self.push_unchangeable(PieceAuthor::Assistant, PieceKind::Other, item, self.path);
            }
            _ => self.push_unchangeable(PieceAuthor::System, PieceKind::Other, item, self.path),
        }
    }
}

fn empty_map() -> &'static Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    &EMPTY
}

/// How the strings inside a value are hashed.
#[derive(Clone, Copy)]
enum StringHashing {
    Exact,
    Ignored,
}

fn combine_hashes(parts: &[u64]) -> u64 {
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

/// Hashes a value independently of the order of its keys.
fn value_hash(value: &Value, strings: StringHashing) -> u64 {
    match value {
        Value::Null => combine_hashes(&[0]),
        Value::Bool(bool) => combine_hashes(&[1, u64::from(*bool)]),
        Value::Number(number) => combine_hashes(&[2, text_hash(&number.to_string())]),
        Value::String(text) => match strings {
            StringHashing::Exact => combine_hashes(&[3, text_hash(text)]),
            StringHashing::Ignored => combine_hashes(&[3]),
        },
        Value::Array(items) => {
            let hashes = items.iter().map(|item| value_hash(item, strings));
            combine_hashes(&[4].into_iter().chain(hashes).collect::<Vec<_>>())
        }
        Value::Object(map) => entries_hash(map.iter(), strings),
    }
}

fn entries_hash<'v>(entries: impl Iterator<Item = (&'v String, &'v Value)>, strings: StringHashing) -> u64 {
    let sum = entries
        .map(|(key, value)| combine_hashes(&[text_hash(key), value_hash(value, strings)]))
        .fold(0, u64::wrapping_add);
    combine_hashes(&[5, sum])
}

/// Hashes an object without its cache breakpoints and without the fields in `except`.
fn object_hash(value: &Value, except: &[&str]) -> u64 {
    let map = value.as_object().unwrap_or(empty_map());
    let own = |key: &str| !except.contains(&key) && !BREAKPOINT_FIELDS.contains(&key);
    entries_hash(map.iter().filter(|(key, _)| own(key)), StringHashing::Exact)
}

/// Hashes any value; for an object, without its cache breakpoints.
fn element_hash(value: &Value) -> u64 {
    if value.is_object() { object_hash(value, &[]) } else { value_hash(value, StringHashing::Exact) }
}

fn text_block_hash(text: &str, block: &Map<String, Value>) -> u64 {
    let own = |key: &str| !["type", "text"].contains(&key) && !BREAKPOINT_FIELDS.contains(&key);
    combine_hashes(&[text_hash(text), entries_hash(block.iter().filter(|(key, _)| own(key)), StringHashing::Exact)])
}

fn content_hash(content: &Value) -> u64 {
    match content {
        Value::String(text) => combine_hashes(&[text_block_hash(text, empty_map())]),
        Value::Array(parts) => {
            let hashes = parts.iter().map(|part| match (part["text"].as_str(), part.as_object()) {
                (Some(text), Some(map)) => text_block_hash(text, map),
                _ => element_hash(part),
            });
            combine_hashes(&hashes.collect::<Vec<_>>())
        }
        other => value_hash(other, StringHashing::Exact),
    }
}
