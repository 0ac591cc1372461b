//! An answer as far as it is known.

use longhaul_engine::prices::Usage;
use serde_json::{Map, Value};

use crate::upstream::{Finish, Reply};

/// Why models say that they stopped. A word that is not here may mean anything, so the answer is not taken to be whole.
const FINISHES: &[(&str, Finish)] = &[
    ("stop", Finish::Whole),
    ("end_turn", Finish::Whole),
    ("stop_sequence", Finish::Whole),
    ("eos", Finish::Whole),
    ("eos_token", Finish::Whole),
    ("completed", Finish::Whole),
    ("tool_calls", Finish::ToolCall),
    ("tool_use", Finish::ToolCall),
    ("function_call", Finish::ToolCall),
    ("content_filter", Finish::Refused),
    ("refusal", Finish::Refused),
    ("safety", Finish::Refused),
];

#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) text: String,
    /// The model said no in a place of its own.
    pub(super) refused: bool,
    /// A tool was called, whatever is said about the end.
    pub(super) called: bool,
    /// It was said that this is all.
    pub(super) ended: bool,
    finish: Option<Finish>,
    usage: Map<String, Value>,
    model: Option<String>,
}

/// What is no answer, or no part of one.
#[derive(Debug)]
pub(super) enum Odd {
    /// An error stands in its place.
    Error(Value),
    /// Nothing that is known.
    Unknown,
}

impl Draft {
    /// Notes the text, if it is one.
    pub(super) fn say(&mut self, text: &Value) {
        self.text.push_str(text.as_str().unwrap_or_default());
    }

    /// Notes why it stopped, if it is said.
    pub(super) fn stop(&mut self, word: &Value) {
        if let Some(word) = word.as_str() {
            let known = FINISHES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            self.finish = Some(known.map_or(Finish::Cut, |(_, finish)| *finish));
        }
    }

    /// Notes what was used. What comes later says more: an opening has the input, an end the output.
    pub(super) fn use_up(&mut self, usage: &Value) {
        for (name, value) in usage.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
            self.usage.insert(name.clone(), value.clone());
        }
    }

    /// Notes who answers.
    pub(super) fn by(&mut self, model: &Value) {
        if let Some(model) = model.as_str().filter(|model| !model.is_empty()) {
            self.model = Some(model.to_owned());
        }
    }

    /// Whether the model said why it stopped: some upstreams leave out the mark that should follow.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// What was used, as far as it was told.
    pub(super) fn usage(&self) -> Option<Usage> {
        Usage::read(&Value::Object(self.usage.clone()))
    }

    pub(super) fn reply(self) -> Reply {
        let finish = match self.finish {
            _ if self.refused => Finish::Refused,
            Some(Finish::Whole) | None if self.called => Finish::ToolCall,
            finish => finish.unwrap_or(Finish::Whole),
        };
        Reply { text: self.text, usage: Usage::read(&Value::Object(self.usage)), finish, model: self.model }
    }
}

/// Whether there is something in the place: not null, no empty text or list.
pub(super) fn is_there(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

/// An error in the place of an answer.
pub(super) fn without_error(value: &Value) -> Result<(), Odd> {
    if is_there(&value["error"]) || value["type"] == "error" {
        Err(Odd::Error(value.clone()))
    } else {
        Ok(())
    }
}
