//! Adds to an answer what was done to its request, in the provider's own shape. All other bytes are the upstream's.

use std::collections::BTreeMap;

use memchr::memmem;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::MANAGED;
use crate::gateway::events::{Event, Split};
use crate::gateway::speech::{self, Form};

/// What an answer is to say.
#[derive(Debug, Clone, Default)]
pub(in crate::gateway) struct Says {
    /// The edits that were made.
    pub(in crate::gateway) edits: Vec<Value>,
    /// The compaction that was made, as the block that comes first.
    pub(in crate::gateway) block: Option<Value>,
}

/// An answer on its way, with what it is to say.
pub(in crate::gateway) struct Told {
    says: Says,
    form: Form,
    /// How a stream is cut,
    split: Split,
    /// what its opening counted,
    usage: Value,
    /// and what has come of a document.
    document: Vec<u8>,
}

impl Told {
    pub(in crate::gateway) fn new(says: Says, form: Form) -> Self {
        Self { says, form, split: Split::default(), usage: Value::Null, document: Vec::new() }
    }

    /// What can be handed on once this has come.
    pub(in crate::gateway) fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.form == Form::Whole {
            self.document.extend_from_slice(piece);
            return Vec::new();
        }
        let mut out = Vec::new();
        for event in self.split.feed(piece) {
            self.event(event, &mut out);
        }
        out
    }

    /// The last of it: all of a document.
    pub(in crate::gateway) fn end(&mut self) -> Vec<u8> {
        let document = std::mem::take(&mut self.document);
        let told = std::str::from_utf8(&document).ok().and_then(|text| self.says.in_document(text));
        let mut rest = told.map_or(document, String::into_bytes);
        rest.extend(self.split.rest());
        rest
    }

    fn event(&mut self, event: Event, out: &mut Vec<u8>) {
        let Event { raw, data } = event;
        let data = data.and_then(|data| String::from_utf8(data).ok()).unwrap_or_default();
        let told = match fields(&data).map(|fields| text_of(&fields, "type")).unwrap_or_default().as_str() {
            "message_start" => {
                let opening: Value = serde_json::from_str(&data).unwrap_or_default();
                self.usage = opening["message"]["usage"].clone();
                out.extend(raw);
                return out.extend(self.says.opening());
            }
            "content_block_start" | "content_block_delta" | "content_block_stop" => self.says.moved(&data),
            "message_delta" => self.says.in_end(&data, &self.usage),
            _ => None,
        };
        out.extend(told.map_or_else(|| raw.clone(), |told| with_data(&raw, &data, &told)));
    }
}

impl Says {
    /// The document of an answer; nothing where it is none.
    fn in_document(&self, text: &str) -> Option<String> {
        let own = fields(text).filter(|fields| text_of(fields, "type") == "message")?;
        let mut told = put(text, MANAGED, &self.managed())?;
        if let Some(block) = &self.block {
            let content = own.get("content")?.get().strip_prefix('[')?;
            let comma = if content.trim_start().starts_with(']') { "" } else { "," };
            told = put(&told, "content", &format!("[{block}{comma}{content}"))?;
            let usage = own.get("usage").map_or("{}", |usage| usage.get());
            told = put(&told, "usage", &with_iterations(usage, &Value::Null)?)?;
        }
        Some(told)
    }

    fn managed(&self) -> String {
        json!({"applied_edits": self.edits}).to_string()
    }

    /// The events of the block that comes first.
    fn opening(&self) -> Vec<u8> {
        let Some(block) = &self.block else { return Vec::new() };
        let (content, sealed) = (&block["content"], &block["encrypted_content"]);
        let events = [
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": null, "encrypted_content": null}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": content, "encrypted_content": sealed}}),
            json!({"type": "content_block_stop", "index": 0}),
        ];
        events.iter().map(named).collect::<String>().into_bytes()
    }

    /// An event of a block that stands one place further back.
    fn moved(&self, data: &str) -> Option<String> {
        self.block.as_ref()?;
        let index: u64 = fields(data)?.get("index")?.get().parse().ok()?;
        put(data, "index", &(index + 1).to_string())
    }

    /// The event that ends a message.
    fn in_end(&self, data: &str, opened: &Value) -> Option<String> {
        let told = put(data, MANAGED, &self.managed())?;
        if self.block.is_none() {
            return Some(told);
        }
        let own = fields(data)?;
        let usage = own.get("usage").map_or("{}", |usage| usage.get());
        put(&told, "usage", &with_iterations(usage, opened)?)
    }
}

/// A count with what each part of an answer came to: a compaction is made by code, and nothing is billed for it.
fn with_iterations(usage: &str, opened: &Value) -> Option<String> {
    let own: Value = serde_json::from_str(usage).ok()?;
    let count = |name: &str| own[name].as_u64().or(opened[name].as_u64()).unwrap_or_default();
    let part = |kind: &str, count: &dyn Fn(&str) -> u64| {
        json!({
            "type": kind, "input_tokens": count("input_tokens"), "output_tokens": count("output_tokens"),
            "cache_creation_input_tokens": count("cache_creation_input_tokens"),
            "cache_read_input_tokens": count("cache_read_input_tokens"),
        })
    };
    let mut parts = vec![part("compaction", &|_| 0)];
    if count("output_tokens") > 0 {
        parts.push(part("message", &count));
    }
    put(usage, "iterations", &Value::from(parts).to_string())
}

type Fields<'t> = BTreeMap<String, &'t RawValue>;

/// The fields of an object as they are written.
fn fields(text: &str) -> Option<Fields<'_>> {
    serde_json::from_str(text).ok()
}

fn text_of(fields: &Fields<'_>, name: &str) -> String {
    fields.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

/// An object with another value in a field, or one field more; all else as it is written.
pub(super) fn put(text: &str, name: &str, json: &str) -> Option<String> {
    let own = fields(text)?;
    if let Some(value) = own.get(name) {
        let start = value.get().as_ptr() as usize - text.as_ptr() as usize;
        return Some([&text[..start], json, &text[start + value.get().len()..]].concat());
    }
    let end = text.rfind('}')?;
    let comma = if own.is_empty() { "" } else { "," };
    Some(format!("{}{comma}\"{name}\":{json}{}", &text[..end], &text[end..]))
}

/// The bytes of an event with other data.
fn with_data(raw: &[u8], data: &str, told: &str) -> Vec<u8> {
    match memmem::find(raw, data.as_bytes()) {
        Some(start) => [&raw[..start], told.as_bytes(), &raw[start + data.len()..]].concat(),
        // Data over several lines is written as one.
        None => serde_json::from_str(told).map_or_else(|_| raw.to_vec(), |told| named(&told).into_bytes()),
    }
}

fn named(value: &Value) -> String {
    speech::event(value["type"].as_str().unwrap_or_default(), value)
}
