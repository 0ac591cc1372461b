//! Reads a reply from its bytes in each API format, as one document or as a stream of events.
//!
//! Invariants: the same bytes give the same reply, however they are cut into pieces; a stream without its
//! explicit end is no reply.

mod chat;
mod messages;
mod partial_reply;
mod responses;

use std::sync::Arc;

use longhaul_engine::prices::Usage;
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::Value;

use super::error_body::{self, ErrorBody};
use super::error_wording::classify_error;
use super::sse::{SseDecoder, SseEvent};
use super::{ModelReply, Upstream, UpstreamError};
use partial_reply::{PartialReply, UnexpectedValue};

/// The maximum size of a reply, in bytes, so that an endless one cannot fill the memory. Chosen by hand.
const MAX_REPLY_BYTES: usize = 64 * 1024 * 1024;
/// The approximate number of text bytes per token, for output that no provider has counted yet. A common rule
/// of thumb.
const BYTES_PER_TOKEN: u64 = 4;
/// The beginnings of an event stream; the last one is a comment.
const SSE_FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
/// The byte order mark of UTF-8, which may precede any reply.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// The data of the event that ends a Chat stream.
const DONE_DATA: &[u8] = b"[DONE]";

/// Reads one reply piece by piece, from the connection or from a copy of its bytes.
pub struct ReplyReader {
    upstream: Arc<Upstream>,
    api_format: ApiFormat,
    format: BodyFormat,
    reply: PartialReply,
    bytes_read: usize,
    /// The number of events with data so far.
    event_count: u64,
    /// The bytes of text in these events.
    delta_bytes: u64,
}

/// The usage of a reply that was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PartialUsage {
    /// The provider's own count, as far as it was reported.
    pub usage: Option<Usage>,
    /// The estimated output so far: four bytes of text count as a token, and each event of a stream as at
    /// least one.
    pub estimated_output: Tokens,
}

/// The format of the body. It is detected from the bytes, because the content type of some upstreams is
/// wrong.
enum BodyFormat {
    /// Too few bytes arrived to tell.
    Undetermined(Vec<u8>),
    Json(Vec<u8>),
    Events(SseDecoder),
}

/// Whether more bytes are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The reply continues, or may continue.
    More,
    /// The reply has had its explicit end.
    Ended,
}

impl ReplyReader {
    /// Creates a reader for a reply of this upstream in this API format.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>, api_format: ApiFormat) -> Self {
        Self {
            upstream,
            api_format,
            format: BodyFormat::Undetermined(Vec::new()),
            reply: PartialReply::default(),
            bytes_read: 0,
            event_count: 0,
            delta_bytes: 0,
        }
    }

    /// Reads the next piece.
    pub fn feed(&mut self, piece: &[u8]) -> Result<Progress, UpstreamError> {
        self.bytes_read += piece.len();
        if self.bytes_read > MAX_REPLY_BYTES {
            return Err(self.garbled("it is larger than any answer"));
        }
        match &mut self.format {
            BodyFormat::Json(bytes) => bytes.extend_from_slice(piece),
            BodyFormat::Events(events) => {
                let ended_events = events.feed(piece);
                return self.read_events(ended_events);
            }
            BodyFormat::Undetermined(bytes) => {
                bytes.extend_from_slice(piece);
                let bytes = std::mem::take(bytes);
                return self.detect_format(&bytes);
            }
        }
        Ok(Progress::More)
    }

    /// Returns the usage of the part that was read.
    #[must_use]
    pub fn partial_usage(&self) -> PartialUsage {
        let output = match &self.format {
            BodyFormat::Events(_) => Tokens(self.event_count.max(self.delta_bytes / BYTES_PER_TOKEN)),
            BodyFormat::Undetermined(bytes) | BodyFormat::Json(bytes) => Tokens(bytes.len() as u64 / BYTES_PER_TOKEN),
        };
        PartialUsage { usage: self.reply.usage(), estimated_output: output }
    }

    /// Whether the reply has had its explicit end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.reply.has_ended
    }

    /// Whether the bytes so far may be the complete reply: it had its end or a finish reason, or it is a
    /// single document.
    #[must_use]
    pub fn may_be_complete(&self) -> bool {
        matches!(self.format, BodyFormat::Json(_)) || self.reply.has_ended || self.reply.is_finished()
    }

    /// Returns the reply after the last piece; fails if it is incomplete.
    pub fn finish(mut self) -> Result<ModelReply, UpstreamError> {
        match std::mem::replace(&mut self.format, BodyFormat::Undetermined(Vec::new())) {
            BodyFormat::Json(bytes) => {
                let value = serde_json::from_slice(&bytes).map_err(|error| match error.classify() {
                    serde_json::error::Category::Eof => UpstreamError::CutShort,
                    _ => self.garbled(&String::from_utf8_lossy(&bytes)),
                })?;
                let read = match self.api_format {
                    ApiFormat::Chat => chat::read_document(&value, &mut self.reply),
                    ApiFormat::Messages => messages::read_document(&value, &mut self.reply),
                    ApiFormat::Responses => responses::read_document(&value, &mut self.reply),
                };
                read.map_err(|odd| self.to_upstream_error(odd, &value))?;
                Ok(self.reply.into_reply())
            }
            BodyFormat::Events(_) if self.reply.has_ended => Ok(self.reply.into_reply()),
            BodyFormat::Events(_) | BodyFormat::Undetermined(_) => Err(UpstreamError::CutShort),
        }
    }

    /// Detects the format of the body. Blanks at the beginning are skipped: some upstreams send them to keep
    /// the connection alive.
    fn detect_format(&mut self, bytes: &[u8]) -> Result<Progress, UpstreamError> {
        let content = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes).trim_ascii_start();
        if content.starts_with(b"{") || content.starts_with(b"[") {
            self.format = BodyFormat::Json(content.to_vec());
        } else if SSE_FIELDS.iter().any(|field| content.starts_with(field)) {
            let mut events = SseDecoder::default();
            let ended_events = events.feed(content);
            self.format = BodyFormat::Events(events);
            return self.read_events(ended_events);
        } else if BYTE_ORDER_MARK.starts_with(content) || SSE_FIELDS.iter().any(|field| field.starts_with(content)) {
            self.format = BodyFormat::Undetermined(content.to_vec());
        } else {
            return Err(self.garbled(&String::from_utf8_lossy(content)));
        }
        Ok(Progress::More)
    }

    fn read_events(&mut self, events: Vec<SseEvent>) -> Result<Progress, UpstreamError> {
        for data in events.into_iter().filter_map(|event| event.data) {
            if data.trim_ascii() == DONE_DATA {
                self.reply.has_ended |= self.api_format == ApiFormat::Chat;
            } else if !data.is_empty() {
                self.event_count += 1;
                let value: Value =
                    serde_json::from_slice(&data).map_err(|_| self.garbled(&String::from_utf8_lossy(&data)))?;
                let choices = value["choices"].as_array().into_iter().flatten();
                let deltas = choices.map(|choice| &choice["delta"]).chain([&value["delta"]]);
                self.delta_bytes += deltas.map(text_bytes).sum::<u64>();
                let read = match self.api_format {
                    ApiFormat::Chat => chat::read_event(&value, &mut self.reply),
                    ApiFormat::Messages => messages::read_event(&value, &mut self.reply),
                    ApiFormat::Responses => responses::read_event(&value, &mut self.reply),
                };
                read.map_err(|odd| self.to_upstream_error(odd, &value))?;
            }
            if self.reply.has_ended {
                return Ok(Progress::Ended);
            }
        }
        Ok(Progress::More)
    }

    fn to_upstream_error(&self, odd: UnexpectedValue, value: &Value) -> UpstreamError {
        match odd {
            UnexpectedValue::Unrecognized => self.garbled(&value.to_string()),
            UnexpectedValue::ApiError(error) => {
                let error_body = ErrorBody::from_json(&error);
                let delay = super::retry_delay::requested_delay(&reqwest::header::HeaderMap::new(), &error_body.text);
                classify_error(&self.upstream, None, &error_body, delay)
            }
        }
    }

    fn garbled(&self, text: &str) -> UpstreamError {
        UpstreamError::Garbled(error_body::redact_to_line(&self.upstream, text))
    }
}

/// Counts the bytes of all strings in a value.
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
    use crate::upstream::{FinishReason, Provider};

    fn read(api_format: ApiFormat, body: &str) -> Result<ModelReply, UpstreamError> {
        let upstream = Upstream::new(Provider::named("openrouter").unwrap(), None, None).unwrap();
        let mut reader = ReplyReader::new(Arc::new(upstream), api_format);
        reader.feed(body.as_bytes())?;
        reader.finish()
    }

    #[test]
    fn what_is_said_around_the_answer_is_understood() {
        let cases = [
            (
                ApiFormat::Chat,
                r#"{"choices":[{"message":{"content":"a"},"finish_reason":null}]}"#,
                "a",
                FinishReason::Complete,
            ),
            (
                ApiFormat::Chat,
                r#"{"choices":[{"message":{"content":"a"},"finish_reason":"new"}]}"#,
                "a",
                FinishReason::Truncated,
            ),
            (
                ApiFormat::Chat,
                r#"{"choices":[{"message":{"content":null,"refusal":"No."}}]}"#,
                "",
                FinishReason::Refused,
            ),
            (
                ApiFormat::Chat,
                r#"{"choices":[{"message":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"a"}]}}]}"#,
                "a",
                FinishReason::Complete,
            ),
            (
                ApiFormat::Messages,
                r#"{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"}],"stop_reason":"model_context_window_exceeded"}"#,
                "a",
                FinishReason::Truncated,
            ),
            (
                ApiFormat::Responses,
                r#"{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]}"#,
                "",
                FinishReason::Refused,
            ),
            (
                ApiFormat::Responses,
                r#"{"status":"in_progress","output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}]}"#,
                "a",
                FinishReason::Truncated,
            ),
        ];
        for (api_format, body, text, finish) in cases {
            let reply = read(api_format, body).unwrap();
            assert_eq!((reply.text.as_str(), reply.finish), (text, finish), "{body}");
        }
    }

    #[test]
    fn blanks_and_a_mark_before_an_answer_say_nothing() {
        let body = r#"{"choices":[{"message":{"content":"a"}}]}"#;
        let events = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
        for answer in [body, events] {
            for before in ["", "\n\n", " \r\n ", "\u{feff}"] {
                assert_eq!(read(ApiFormat::Chat, &format!("{before}{answer}")).unwrap().text, "a", "{before:?}");
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
        assert_eq!(read(ApiFormat::Messages, events).unwrap().text, "a");
        let events =
            "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\",\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n";
        assert_eq!(read(ApiFormat::Chat, events).unwrap().text, "a");
    }

    #[test]
    fn a_routers_error_behind_a_choice_is_one() {
        let body = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"error","error":{"code":502,"message":"gone"}}]}"#;
        assert_eq!(read(ApiFormat::Chat, body), Err(UpstreamError::Overloaded { delay: None }));
    }
}
