//! A reply as far as it was read.

use longhaul_engine::prices::Usage;
use serde_json::{Map, Value};

use crate::upstream::{FinishReason, ModelReply};

/// The finish reasons of all providers. An unknown one may mean anything, so the reply counts as truncated.
const FINISHES: &[(&str, FinishReason)] = &[
    ("stop", FinishReason::Complete),
    ("end_turn", FinishReason::Complete),
    ("stop_sequence", FinishReason::Complete),
    ("eos", FinishReason::Complete),
    ("eos_token", FinishReason::Complete),
    ("completed", FinishReason::Complete),
    ("tool_calls", FinishReason::ToolCall),
    ("tool_use", FinishReason::ToolCall),
    ("function_call", FinishReason::ToolCall),
    ("content_filter", FinishReason::Refused),
    ("refusal", FinishReason::Refused),
    ("safety", FinishReason::Refused),
];

#[derive(Debug, Default)]
pub(super) struct PartialReply {
    pub(super) text: String,
    /// Whether the model declined in a separate field.
    pub(super) is_refused: bool,
    /// Whether the model called a tool, whatever its finish reason is.
    pub(super) has_tool_call: bool,
    /// Whether the stream had its explicit end.
    pub(super) has_ended: bool,
    finish: Option<FinishReason>,
    usage: Map<String, Value>,
    model: Option<String>,
}

/// A JSON value that is no reply, and no part of one.
#[derive(Debug)]
pub(super) enum UnexpectedValue {
    /// An error in place of a reply.
    ApiError(Value),
    /// A value of unknown shape.
    Unrecognized,
}

impl PartialReply {
    /// Appends a text, if the value is a string.
    pub(super) fn push_text(&mut self, text: &Value) {
        self.text.push_str(text.as_str().unwrap_or_default());
    }

    /// Sets the finish reason, if the value is a string.
    pub(super) fn set_finish(&mut self, word: &Value) {
        if let Some(word) = word.as_str() {
            let entry = FINISHES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            self.finish = Some(entry.map_or(FinishReason::Truncated, |(_, finish)| *finish));
        }
    }

    /// Merges reported usage. Later fields replace earlier ones: the first event has the input, the last one
    /// the output.
    pub(super) fn merge_usage(&mut self, usage: &Value) {
        for (name, value) in usage.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            self.usage.insert(name.clone(), value.clone());
        }
    }

    /// Sets the model that replies, if the value names one.
    pub(super) fn set_model(&mut self, model: &Value) {
        if let Some(model) = model.as_str().filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
    }

    /// Whether there was a finish reason. Some upstreams leave out the explicit end that should follow it.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Returns the usage reported so far.
    pub(super) fn usage(&self) -> Option<Usage> {
        Usage::parse(&Value::Object(self.usage.clone()))
    }

    pub(super) fn into_reply(self) -> ModelReply {
        let finish = match self.finish {
            _ if self.is_refused => FinishReason::Refused,
            Some(FinishReason::Complete) | None if self.has_tool_call => FinishReason::ToolCall,
            finish => finish.unwrap_or(FinishReason::Complete),
        };
        ModelReply { text: self.text, usage: Usage::parse(&Value::Object(self.usage)), finish, model: self.model }
    }
}

/// Whether a value is present: not null, and no empty string or list.
pub(super) fn is_present(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

/// Fails if the value is an error in place of a reply.
pub(super) fn reject_error(value: &Value) -> Result<(), UnexpectedValue> {
    if is_present(&value["error"]) || value["type"] == "error" {
        Err(UnexpectedValue::ApiError(value.clone()))
    } else {
        Ok(())
    }
}
