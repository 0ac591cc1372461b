//! What a model says, and how each provider writes it: whole, or as events.

mod chat;
mod messages;
mod responses;

use axum::body::Bytes;
use longhaul_engine::ApiFormat;
use serde_json::{Value, json};

use super::seen::Traffic;

/// What a model says: it thinks, speaks and calls, each only where there is something.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Say {
    pub(crate) thinking: String,
    pub(crate) text: String,
    pub(crate) calls: Vec<Call>,
}

/// A call of a tool. The simulator gives it its id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) input: Value,
}

impl Say {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn call(name: &str, input: Value) -> Self {
        Self::default().and_calls(name, input)
    }

    pub(crate) fn and_calls(mut self, name: &str, input: Value) -> Self {
        self.calls.push(Call { name: name.to_owned(), input });
        self
    }

    pub(crate) fn thinking(self, thinking: impl Into<String>) -> Self {
        Self { thinking: thinking.into(), ..self }
    }
}

/// All that stands in one answer.
pub(super) struct Reply<'r> {
    pub(super) say: &'r Say,
    pub(super) tokens: Traffic,
    pub(super) output: u64,
    pub(super) model: &'r str,
    /// The request's number, which all ids are made of.
    pub(super) number: usize,
    /// Seconds.
    pub(super) created: i64,
    /// What the thinking is signed with, and the reasoning sent back as.
    pub(super) signature: String,
    pub(super) encrypted: String,
    pub(super) request: &'r Value,
}

impl Reply<'_> {
    /// The answer as pieces: one for a document, one for each event of a stream.
    pub(super) fn pieces(&self, api_format: ApiFormat) -> Vec<Bytes> {
        let streams = self.request["stream"] == true;
        match api_format {
            ApiFormat::Messages if streams => named(&messages::events(self)),
            ApiFormat::Messages => vec![messages::whole(self).to_string().into()],
            ApiFormat::Chat if streams => chat::events(self),
            ApiFormat::Chat => vec![chat::whole(self).to_string().into()],
            ApiFormat::Responses if streams => named(&responses::events(self)),
            ApiFormat::Responses => vec![responses::whole(self).to_string().into()],
        }
    }

    /// What a request that refers to this answer goes on from.
    pub(super) fn output_items(&self) -> (String, Vec<Value>) {
        (responses::id(self), responses::output(self))
    }

    fn id(&self, prefix: &str) -> String {
        format!("{prefix}sim{:08}", self.number)
    }

    /// The id of one of its calls.
    fn call_id(&self, prefix: &str, call: usize) -> String {
        format!("{prefix}sim{:08}c{call}", self.number)
    }
}

/// A text as a model would send it, a few characters at a time.
fn deltas(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(12).map(|piece| piece.iter().collect()).collect()
}

/// Events that say their type before their data, too.
fn named(events: &[Value]) -> Vec<Bytes> {
    let line = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        Bytes::from(format!("event: {name}\ndata: {event}\n\n"))
    };
    events.iter().map(line).collect()
}
