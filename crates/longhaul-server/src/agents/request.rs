//! A session as a request body. There is one walk over the turns; a dialect says how each of them is written.
//!
//! What is in the dialect's own form already is copied byte for byte, so that what an agent sent and what is written here
//! differ in nothing that a provider's cache would notice.

mod chat;
mod messages;
mod responses;

use longhaul_engine::Dialect;
use serde::Serialize;

use super::{Piece, Session};

/// The body of the request that a session would send next, without the prompt that would come with it. What the session's
/// file does not hold, mostly the system prompt and the tools, is not in it.
#[must_use]
pub fn body(session: &Session) -> String {
    let mut out = Writer::default();
    out.open('{');
    if let Some(model) = &session.model {
        out.field("model", model);
    }
    match session.dialect {
        Dialect::Messages => messages::write(session, &mut out),
        Dialect::Chat => chat::write(session, &mut out),
        Dialect::Responses => responses::write(session, &mut out),
    }
    if let Some(tools) = &session.tools {
        out.field("tools", tools);
    }
    out.close('}');
    out.text
}

/// JSON as it is written, so that nothing is held twice.
#[derive(Default)]
struct Writer {
    text: String,
    /// Whether something stands before what comes next.
    filled: bool,
}

impl Writer {
    fn open(&mut self, bracket: char) {
        self.next();
        self.text.push(bracket);
        self.filled = false;
    }

    fn close(&mut self, bracket: char) {
        self.text.push(bracket);
        self.filled = true;
    }

    /// Puts a comma where one is needed.
    fn next(&mut self) {
        if self.filled {
            self.text.push(',');
        }
        self.filled = true;
    }

    /// The name of a field, whose value comes next.
    fn key(&mut self, name: &str) {
        self.value(name);
        self.text.push(':');
        self.filled = false;
    }

    fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.key(name);
        self.value(value);
    }

    fn value(&mut self, value: &(impl Serialize + ?Sized)) {
        self.next();
        // A value of ours always has a JSON form: keys are text, and there is no input or output to fail.
        self.text.push_str(&serde_json::to_string(value).unwrap_or_default());
    }

    fn raw(&mut self, json: &str) {
        self.next();
        self.text.push_str(json);
    }
}

/// A picture as a URL that holds it.
fn data_url(media: &str, data: &str) -> String {
    format!("data:{media};base64,{data}")
}

/// The arguments of a call as the text of a JSON object.
fn arguments_text(arguments: &serde_json::Value) -> String {
    match arguments {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The words of pieces, where they are nothing but words.
fn only_words(pieces: &[&Piece]) -> Option<String> {
    let words: Option<Vec<&str>> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    match words?.as_slice() {
        [] => Some(String::new()),
        [one] => Some((*one).to_owned()),
        _ => None,
    }
}
