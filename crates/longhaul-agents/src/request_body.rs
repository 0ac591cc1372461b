//! Writes a session as a request body. Each API format has its own module.
//!
//! Parts that are in the API format already are copied byte for byte, so that the body has the same prefix as
//! the request that the agent sent and the provider's cache matches it.

mod chat;
mod messages;
mod responses;

use longhaul_engine::ApiFormat;
use serde::Serialize;

use super::{AgentSession, MessagePart};

/// Writes the request body that the session would send next, without the next prompt. The body lacks
/// everything that the agent does not store, mostly the system prompt and the tools.
#[must_use]
pub fn request_body(session: &AgentSession) -> String {
    let mut out = JsonWriter::default();
    out.open('{');
    if let Some(model) = &session.model {
        out.field("model", model);
    }
    match session.api_format {
        ApiFormat::Messages => messages::write(session, &mut out),
        ApiFormat::Chat => chat::write(session, &mut out),
        ApiFormat::Responses => responses::write(session, &mut out),
    }
    if let Some(tools) = &session.tools {
        out.field("tools", tools);
    }
    out.close('}');
    out.text
}

/// Writes JSON text directly, so that no second copy of the session is built.
#[derive(Default)]
struct JsonWriter {
    text: String,
    /// Whether the next value needs a comma before it.
    needs_comma: bool,
}

impl JsonWriter {
    fn open(&mut self, bracket: char) {
        self.separate();
        self.text.push(bracket);
        self.needs_comma = false;
    }

    fn close(&mut self, bracket: char) {
        self.text.push(bracket);
        self.needs_comma = true;
    }

    /// Writes a comma if one is needed before the next value.
    fn separate(&mut self) {
        if self.needs_comma {
            self.text.push(',');
        }
        self.needs_comma = true;
    }

    /// Writes a field's name. The caller writes its value next.
    fn key(&mut self, name: &str) {
        self.value(name);
        self.text.push(':');
        self.needs_comma = false;
    }

    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.key(name);
        self.value(value);
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        self.separate();
        // Serialization cannot fail: all map keys are strings, and there is no I/O.
        self.text.push_str(&serde_json::to_string(value).unwrap_or_default());
    }

    fn raw(&mut self, json: &str) {
        self.separate();
        self.text.push_str(json);
    }
}

/// Returns an image as a data URL.
fn to_data_url(media: &str, data: &str) -> String {
    format!("data:{media};base64,{data}")
}

/// Returns the arguments of a call as JSON text.
fn arguments_json(arguments: &serde_json::Value) -> String {
    match arguments {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the text if the parts are a single text or empty, else `None`.
fn single_text(pieces: &[&MessagePart]) -> Option<String> {
    let words: Option<Vec<&str>> = pieces
        .iter()
        .map(|piece| match piece {
            MessagePart::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    match words?.as_slice() {
        [] => Some(String::new()),
        [one] => Some((*one).to_owned()),
        _ => None,
    }
}
