//! Adds to a reply the edits that were applied to its request, in the provider's format. All other bytes of
//! the reply stay unchanged.

use std::collections::BTreeMap;

use memchr::memmem;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::CONTEXT_MANAGEMENT;
use crate::gateway::own_replies::{self, ReplyForm};
use crate::upstream::{SseDecoder, SseEvent};

/// The notes that a reply must contain.
#[derive(Debug, Clone, Default)]
pub(in crate::gateway) struct ReplyNotes {
    /// The applied edits in the provider's format.
    pub(in crate::gateway) applied_edits: Vec<Value>,
    /// The compaction that was made, as the first content block of the reply.
    pub(in crate::gateway) compaction_block: Option<Value>,
}

/// Adds the notes to a reply while it is relayed.
pub(in crate::gateway) struct ReplyAnnotator {
    notes: ReplyNotes,
    form: ReplyForm,
    /// The decoder of a streamed reply.
    decoder: SseDecoder,
    /// The usage in the first event of a stream.
    first_usage: Value,
    /// The bytes of a reply that is a single document, until it is complete.
    document: Vec<u8>,
}

impl ReplyAnnotator {
    pub(in crate::gateway) fn new(notes: ReplyNotes, form: ReplyForm) -> Self {
        Self { notes, form, decoder: SseDecoder::default(), first_usage: Value::Null, document: Vec::new() }
    }

    /// Takes a piece of the reply, and returns the bytes that can be passed on.
    pub(in crate::gateway) fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.form == ReplyForm::Document {
            self.document.extend_from_slice(piece);
            return Vec::new();
        }
        let mut out = Vec::new();
        for event in self.decoder.feed(piece) {
            self.annotate_event(event, &mut out);
        }
        out
    }

    /// Returns the last bytes; for a document, all of it.
    pub(in crate::gateway) fn finish(&mut self) -> Vec<u8> {
        let document = std::mem::take(&mut self.document);
        let annotated = std::str::from_utf8(&document).ok().and_then(|text| self.notes.annotate_document(text));
        let mut rest = annotated.map_or(document, String::into_bytes);
        rest.extend(self.decoder.take_rest());
        rest
    }

    fn annotate_event(&mut self, event: SseEvent, out: &mut Vec<u8>) {
        let SseEvent { raw, data } = event;
        let data = data.and_then(|data| String::from_utf8(data).ok()).unwrap_or_default();
        let changed = match parse_fields(&data).map(|fields| string_field(&fields, "type")).unwrap_or_default().as_str()
        {
            "message_start" => {
                let opening: Value = serde_json::from_str(&data).unwrap_or_default();
                self.first_usage = opening["message"]["usage"].clone();
                out.extend(raw);
                return out.extend(self.notes.compaction_events());
            }
            "content_block_start" | "content_block_delta" | "content_block_stop" => self.notes.shift_block_index(&data),
            "message_delta" => self.notes.annotate_end(&data, &self.first_usage),
            _ => None,
        };
        out.extend(changed.map_or_else(|| raw.clone(), |changed| replace_data(&raw, &data, &changed)));
    }
}

impl ReplyNotes {
    /// Adds the notes to a reply that is a single document; nothing if it is not a message.
    fn annotate_document(&self, text: &str) -> Option<String> {
        let fields = parse_fields(text).filter(|fields| string_field(fields, "type") == "message")?;
        let mut annotated = set_field(text, CONTEXT_MANAGEMENT, &self.context_management())?;
        if let Some(block) = &self.compaction_block {
            let content = fields.get("content")?.get().strip_prefix('[')?;
            let comma = if content.trim_start().starts_with(']') { "" } else { "," };
            annotated = set_field(&annotated, "content", &format!("[{block}{comma}{content}"))?;
            let usage = fields.get("usage").map_or("{}", |usage| usage.get());
            annotated = set_field(&annotated, "usage", &with_iterations(usage, &Value::Null)?)?;
        }
        Some(annotated)
    }

    fn context_management(&self) -> String {
        json!({"applied_edits": self.applied_edits}).to_string()
    }

    /// Returns the events of the compaction block, which comes before all others.
    fn compaction_events(&self) -> Vec<u8> {
        let Some(block) = &self.compaction_block else { return Vec::new() };
        let (content, sealed) = (&block["content"], &block["encrypted_content"]);
        let events = [
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": null, "encrypted_content": null}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": content, "encrypted_content": sealed}}),
            json!({"type": "content_block_stop", "index": 0}),
        ];
        events.iter().map(named_event).collect::<String>().into_bytes()
    }

    /// Adds one to the index of a block that follows the compaction block.
    fn shift_block_index(&self, data: &str) -> Option<String> {
        self.compaction_block.as_ref()?;
        let index: u64 = parse_fields(data)?.get("index")?.get().parse().ok()?;
        set_field(data, "index", &(index + 1).to_string())
    }

    /// Adds the notes to the event that ends a message.
    fn annotate_end(&self, data: &str, first_usage: &Value) -> Option<String> {
        let annotated = set_field(data, CONTEXT_MANAGEMENT, &self.context_management())?;
        if self.compaction_block.is_none() {
            return Some(annotated);
        }
        let fields = parse_fields(data)?;
        let usage = fields.get("usage").map_or("{}", |usage| usage.get());
        set_field(&annotated, "usage", &with_iterations(usage, first_usage)?)
    }
}

/// Adds `iterations` to a usage: one entry for the compaction, with zero tokens because code made it, and one
/// for the message.
fn with_iterations(usage: &str, first_usage: &Value) -> Option<String> {
    let message_usage: Value = serde_json::from_str(usage).ok()?;
    let count = |name: &str| message_usage[name].as_u64().or(first_usage[name].as_u64()).unwrap_or_default();
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
    set_field(usage, "iterations", &Value::from(parts).to_string())
}

type JsonFields<'t> = BTreeMap<String, &'t RawValue>;

/// Parses the fields of an object without interpreting their values.
fn parse_fields(text: &str) -> Option<JsonFields<'_>> {
    serde_json::from_str(text).ok()
}

fn string_field(fields: &JsonFields<'_>, name: &str) -> String {
    fields.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

/// Sets one field of an object, or appends it. All other bytes stay unchanged.
pub(super) fn set_field(text: &str, name: &str, json: &str) -> Option<String> {
    let fields = parse_fields(text)?;
    if let Some(value) = fields.get(name) {
        let start = value.get().as_ptr() as usize - text.as_ptr() as usize;
        return Some([&text[..start], json, &text[start + value.get().len()..]].concat());
    }
    let end = text.rfind('}')?;
    let comma = if fields.is_empty() { "" } else { "," };
    Some(format!("{}{comma}\"{name}\":{json}{}", &text[..end], &text[end..]))
}

/// Returns the bytes of an event with other data.
fn replace_data(raw: &[u8], data: &str, new_data: &str) -> Vec<u8> {
    match memmem::find(raw, data.as_bytes()) {
        Some(start) => [&raw[..start], new_data.as_bytes(), &raw[start + data.len()..]].concat(),
        // Data that spans several lines is written on one line.
        None => {
            serde_json::from_str(new_data).map_or_else(|_| raw.to_vec(), |new_data| named_event(&new_data).into_bytes())
        }
    }
}

fn named_event(value: &Value) -> String {
    own_replies::sse_event(value["type"].as_str().unwrap_or_default(), value)
}
