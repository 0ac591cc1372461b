//! An answer out of its bytes, in each dialect, whether it comes whole or as events.
//!
//! What must hold: the same bytes give the same answer however they are cut into pieces, and an answer that was not told to have
//! ended is none.

mod chat;
mod draft;
mod messages;
mod responses;

use std::sync::Arc;

use longhaul_engine::prices::Usage;
use longhaul_engine::{Dialect, Tokens};
use serde_json::Value;

use super::events::Events;
use super::said::{self, Said};
use super::wording::judge;
use super::{Reply, Trouble, Upstream};
use draft::{Draft, Odd};

/// No answer is larger; an upstream that goes on for ever must not fill the memory.
const LARGEST: usize = 64 * 1024 * 1024;
/// About how many bytes of text a token has, for output that nobody has counted yet.
const BYTES_OF_A_TOKEN: u64 = 4;
/// What an event stream can begin with, a comment too.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
/// The mark of UTF-8, which can stand before anything.
const MARK: &[u8] = "\u{feff}".as_bytes();
/// The data of the event that ends a Chat stream.
const DONE: &[u8] = b"[DONE]";

/// Reads one answer as it comes, from the bytes themselves or from a copy of them.
pub struct Reading {
    upstream: Arc<Upstream>,
    dialect: Dialect,
    shape: Shape,
    draft: Draft,
    read: usize,
    /// The events with data so far.
    events: u64,
    /// The bytes of text that these events brought.
    delta_bytes: u64,
}

/// What is known of an answer that was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SoFar {
    /// The provider's own count, as far as it was told.
    pub usage: Option<Usage>,
    /// The output so far, estimated: four bytes of text are a token, and an event of a stream is at least one.
    pub output: Tokens,
}

/// What the bytes are, which they say themselves: not every upstream says it truly in the head.
enum Shape {
    /// Not to be told yet.
    Open(Vec<u8>),
    Json(Vec<u8>),
    Events(Events),
}

/// Whether more is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The answer goes on, or may.
    More,
    /// It was told that this is all.
    Ended,
}

impl Reading {
    /// Of an answer that this upstream gives in this dialect.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>, dialect: Dialect) -> Self {
        Self {
            upstream,
            dialect,
            shape: Shape::Open(Vec::new()),
            draft: Draft::default(),
            read: 0,
            events: 0,
            delta_bytes: 0,
        }
    }

    /// Takes the next piece.
    pub fn feed(&mut self, piece: &[u8]) -> Result<Progress, Trouble> {
        self.read += piece.len();
        if self.read > LARGEST {
            return Err(self.garbled("it is larger than any answer"));
        }
        match &mut self.shape {
            Shape::Json(bytes) => bytes.extend_from_slice(piece),
            Shape::Events(events) => {
                let ended = events.feed(piece);
                return self.events(ended);
            }
            Shape::Open(bytes) => {
                bytes.extend_from_slice(piece);
                let bytes = std::mem::take(bytes);
                return self.open(&bytes);
            }
        }
        Ok(Progress::More)
    }

    /// What is known of the answer as far as it was read.
    #[must_use]
    pub fn so_far(&self) -> SoFar {
        let output = match &self.shape {
            Shape::Events(_) => Tokens(self.events.max(self.delta_bytes / BYTES_OF_A_TOKEN)),
            Shape::Open(bytes) | Shape::Json(bytes) => Tokens(bytes.len() as u64 / BYTES_OF_A_TOKEN),
        };
        SoFar { usage: self.draft.usage(), output }
    }

    /// Whether it was told that this is all.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.draft.ended
    }

    /// Whether what came so far may be all of it: it was told to be, or it is one document.
    #[must_use]
    pub fn is_told_to_end(&self) -> bool {
        matches!(self.shape, Shape::Json(_)) || self.draft.ended || self.draft.is_finished()
    }

    /// There is no more: what was said, if it was said to the end.
    pub fn finish(mut self) -> Result<Reply, Trouble> {
        match std::mem::replace(&mut self.shape, Shape::Open(Vec::new())) {
            Shape::Json(bytes) => {
                let value = serde_json::from_slice(&bytes).map_err(|error| match error.classify() {
                    serde_json::error::Category::Eof => Trouble::CutShort,
                    _ => self.garbled(&String::from_utf8_lossy(&bytes)),
                })?;
                let read = match self.dialect {
                    Dialect::Chat => chat::whole(&value, &mut self.draft),
                    Dialect::Messages => messages::whole(&value, &mut self.draft),
                    Dialect::Responses => responses::whole(&value, &mut self.draft),
                };
                read.map_err(|odd| self.trouble(odd, &value))?;
                Ok(self.draft.reply())
            }
            Shape::Events(_) if self.draft.ended => Ok(self.draft.reply()),
            Shape::Events(_) | Shape::Open(_) => Err(Trouble::CutShort),
        }
    }

    /// Finds out what the bytes are. Blanks before them say nothing: some upstreams send them so that nobody hangs up.
    fn open(&mut self, bytes: &[u8]) -> Result<Progress, Trouble> {
        let seen = bytes.strip_prefix(MARK).unwrap_or(bytes).trim_ascii_start();
        if seen.starts_with(b"{") || seen.starts_with(b"[") {
            self.shape = Shape::Json(seen.to_vec());
        } else if FIELDS.iter().any(|field| seen.starts_with(field)) {
            let mut events = Events::default();
            let ended = events.feed(seen);
            self.shape = Shape::Events(events);
            return self.events(ended);
        } else if MARK.starts_with(seen) || FIELDS.iter().any(|field| field.starts_with(seen)) {
            self.shape = Shape::Open(seen.to_vec());
        } else {
            return Err(self.garbled(&String::from_utf8_lossy(seen)));
        }
        Ok(Progress::More)
    }

    fn events(&mut self, events: Vec<Vec<u8>>) -> Result<Progress, Trouble> {
        for data in events {
            if data.trim_ascii() == DONE {
                self.draft.ended |= self.dialect == Dialect::Chat;
            } else if !data.is_empty() {
                self.events += 1;
                let value: Value = serde_json::from_slice(&data)
                    .map_err(|_| self.garbled(&String::from_utf8_lossy(&data)))?;
                let choices = value["choices"].as_array().into_iter().flatten();
                let deltas = choices.map(|choice| &choice["delta"]).chain([&value["delta"]]);
                self.delta_bytes += deltas.map(text_bytes).sum::<u64>();
                let read = match self.dialect {
                    Dialect::Chat => chat::event(&value, &mut self.draft),
                    Dialect::Messages => messages::event(&value, &mut self.draft),
                    Dialect::Responses => responses::event(&value, &mut self.draft),
                };
                read.map_err(|odd| self.trouble(odd, &value))?;
            }
            if self.draft.ended {
                return Ok(Progress::Ended);
            }
        }
        Ok(Progress::More)
    }

    fn trouble(&self, odd: Odd, value: &Value) -> Trouble {
        match odd {
            Odd::Unknown => self.garbled(&value.to_string()),
            Odd::Error(error) => {
                let said = Said::of(&error);
                let delay = super::delay::asked(&reqwest::header::HeaderMap::new(), &said.words);
                judge(&self.upstream, None, &said, delay)
            }
        }
    }

    fn garbled(&self, text: &str) -> Trouble {
        Trouble::Garbled(said::shown(&self.upstream, text))
    }
}

/// The bytes of all text in a value.
fn text_bytes(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(list) => list.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields.values().map(text_bytes).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::{Finish, Provider};

    fn read(dialect: Dialect, body: &str) -> Result<Reply, Trouble> {
        let upstream = Upstream::new(Provider::named("openrouter").unwrap(), None, None).unwrap();
        let mut reading = Reading::new(Arc::new(upstream), dialect);
        reading.feed(body.as_bytes())?;
        reading.finish()
    }

    #[test]
    fn what_is_said_around_the_answer_is_understood() {
        let cases = [
            (
                Dialect::Chat,
                r#"{"choices":[{"message":{"content":"a"},"finish_reason":null}]}"#,
                "a",
                Finish::Whole,
            ),
            (
                Dialect::Chat,
                r#"{"choices":[{"message":{"content":"a"},"finish_reason":"new"}]}"#,
                "a",
                Finish::Cut,
            ),
            (
                Dialect::Chat,
                r#"{"choices":[{"message":{"content":null,"refusal":"No."}}]}"#,
                "",
                Finish::Refused,
            ),
            (
                Dialect::Chat,
                r#"{"choices":[{"message":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"a"}]}}]}"#,
                "a",
                Finish::Whole,
            ),
            (
                Dialect::Messages,
                r#"{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}],"stop_reason":"model_context_window_exceeded"}"#,
                "a",
                Finish::Cut,
            ),
            (
                Dialect::Responses,
                r#"{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]}"#,
                "",
                Finish::Refused,
            ),
            (
                Dialect::Responses,
                r#"{"status":"in_progress","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}"#,
                "a",
                Finish::Cut,
            ),
        ];
        for (dialect, body, text, finish) in cases {
            let reply = read(dialect, body).unwrap();
            assert_eq!((reply.text.as_str(), reply.finish), (text, finish), "{body}");
        }
    }

    #[test]
    fn blanks_and_a_mark_before_an_answer_say_nothing() {
        let body = r#"{"choices":[{"message":{"content":"a"}}]}"#;
        let events = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
        for answer in [body, events] {
            for before in ["", "\n\n", " \r\n ", "\u{feff}"] {
                assert_eq!(
                    read(Dialect::Chat, &format!("{before}{answer}")).unwrap().text,
                    "a",
                    "{before:?}"
                );
            }
        }
    }

    #[test]
    fn thinking_is_not_said() {
        let events = concat!(
            "data: {\"type\":\"message_start\",\"message\":{}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
            "data: {\"type\":\"message_stop\"}\n\n",
        );
        assert_eq!(read(Dialect::Messages, events).unwrap().text, "a");
        let events = "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\",\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
        assert_eq!(read(Dialect::Chat, events).unwrap().text, "a");
    }

    #[test]
    fn a_routers_error_behind_a_choice_is_one() {
        let body = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"error","error":{"code":502,"message":"gone"}}]}"#;
        assert_eq!(read(Dialect::Chat, body), Err(Trouble::Overloaded { delay: None }));
    }
}
