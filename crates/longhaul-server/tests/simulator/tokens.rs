//! How many tokens a block costs. What was counted once is remembered, so that a session that grows costs what is new in it.

use std::collections::HashMap;

use serde_json::Value;
use tiktoken::CoreBpe;

use super::content::{Content, TEXTS};

/// What an image or a document costs, however long its base64 is.
const MEDIA: u64 = 1_600;
/// Letters of encrypted reasoning to a token.
const OPAQUE: u64 = 4;

/// Counts, and remembers by what was said.
pub(super) struct Meter {
    vocabulary: &'static CoreBpe,
    known: HashMap<u64, u64>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { vocabulary: tiktoken::get_encoding("o200k_base").unwrap(), known: HashMap::new() }
    }

    pub(super) fn text(&self, text: &str) -> u64 {
        self.vocabulary.count(text) as u64
    }

    /// The tokens of a block whose print is known.
    pub(super) fn block(&mut self, print: u64, content: Content<'_>) -> u64 {
        if let Some(tokens) = self.known.get(&print) {
            return *tokens;
        }
        let tokens = match content {
            Content::Text(text) => self.text(text),
            Content::Object(object) => self.object(object),
        };
        self.known.insert(print, tokens);
        tokens
    }

    fn object(&self, block: &Value) -> u64 {
        let field = |name: &str| self.inner(&block[name]);
        let kind = block["type"].as_str().unwrap_or_default();
        match kind {
            kind if TEXTS.contains(&kind) => field("text"),
            "thinking" => field("thinking"),
            "redacted_thinking" => opaque(&block["data"]),
            "reasoning" => field("summary") + field("content") + opaque(&block["encrypted_content"]),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => field("name") + self.text(&block["input"].to_string()),
            "tool_result" => field("content"),
            "function_call" => field("name") + field("arguments"),
            "function_call_output" => field("output"),
            "image" | "image_url" | "input_image" | "file" | "input_file" => MEDIA,
            "document" if block["source"]["type"] != "text" => MEDIA,
            // A call of Chat Completions, or a tool's definition: both hold their text in `function`, or are JSON.
            "function" if block["function"]["arguments"].is_string() => {
                self.inner(&block["function"]["name"]) + self.inner(&block["function"]["arguments"])
            }
            _ => self.anything(block),
        }
    }

    /// What stands inside a block: text, or blocks of its own.
    fn inner(&self, value: &Value) -> u64 {
        match value {
            Value::Null => 0,
            Value::String(text) => self.text(text),
            Value::Array(blocks) => blocks.iter().map(|block| self.inner(block)).sum(),
            Value::Object(_) => self.object(value),
            other => self.text(&other.to_string()),
        }
    }

    /// A block of a kind that is not known, as JSON without the data in it.
    fn anything(&self, value: &Value) -> u64 {
        match value {
            Value::String(text) if text.starts_with("data:") && text.contains(";base64,") => MEDIA,
            Value::Array(items) => 2 + items.iter().map(|item| self.anything(item)).sum::<u64>(),
            Value::Object(fields) => {
                let is_data = |key: &str| key == "data" && fields.get("type").is_some_and(|kind| kind == "base64");
                let field = |(key, value): (&String, &Value)| match key.as_str() {
                    "cache_control" => 0,
                    key if is_data(key) => MEDIA,
                    key => 1 + self.text(key) + self.anything(value),
                };
                2 + fields.iter().map(field).sum::<u64>()
            }
            other => self.inner(other),
        }
    }
}

fn opaque(value: &Value) -> u64 {
    value.as_str().map_or(0, |text| text.len() as u64 / OPAQUE)
}
