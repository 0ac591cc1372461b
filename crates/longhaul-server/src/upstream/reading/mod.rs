//! An answer out of its bytes, in each dialect, whether it comes whole or as events.
//!
//! What must hold: the same bytes give the same answer however they are cut into pieces, and an answer that was not told to have
//! ended is none.

mod chat;
mod draft;
mod messages;
mod responses;

use longhaul_engine::Dialect;
use serde_json::Value;

use super::events::Events;
use super::said::{self, Said};
use super::wording::judge;
use super::{Reply, Trouble, Upstream};
use draft::{Draft, Odd};

/// No answer is larger; an upstream that goes on for ever must not fill the memory.
const LARGEST: usize = 64 * 1024 * 1024;
/// What an event stream can begin with, a comment too.
const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];
/// The data of the event that ends a Chat stream.
const DONE: &[u8] = b"[DONE]";

/// Reads one answer as it comes.
pub(super) struct Reading<'u> {
    upstream: &'u Upstream,
    dialect: Dialect,
    shape: Shape,
    draft: Draft,
    read: usize,
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
pub(super) enum Progress {
    More,
    Ended,
}

impl<'u> Reading<'u> {
    pub(super) fn new(upstream: &'u Upstream, dialect: Dialect) -> Self {
        Self { upstream, dialect, shape: Shape::Open(Vec::new()), draft: Draft::default(), read: 0 }
    }

    /// Takes the next piece.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<Progress, Trouble> {
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
                return self.open(bytes);
            }
        }
        Ok(Progress::More)
    }

    /// There is no more: what was said, if it was said to the end.
    pub(super) fn finish(mut self) -> Result<Reply, Trouble> {
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

    fn open(&mut self, bytes: Vec<u8>) -> Result<Progress, Trouble> {
        let seen = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes).trim_ascii_start();
        if seen.starts_with(b"{") || seen.starts_with(b"[") {
            self.shape = Shape::Json(seen.to_vec());
            return Ok(Progress::More);
        }
        if FIELDS.iter().any(|field| seen.starts_with(field)) {
            let mut events = Events::default();
            let ended = events.feed(&bytes);
            self.shape = Shape::Events(events);
            return self.events(ended);
        }
        if seen.is_empty()
            || FIELDS.iter().any(|field| field.starts_with(seen))
            || "\u{feff}".as_bytes().starts_with(seen)
        {
            self.shape = Shape::Open(bytes);
            return Ok(Progress::More);
        }
        Err(self.garbled(&String::from_utf8_lossy(seen)))
    }

    fn events(&mut self, events: Vec<Vec<u8>>) -> Result<Progress, Trouble> {
        for data in events {
            if data.trim_ascii() == DONE {
                self.draft.ended |= self.dialect == Dialect::Chat;
            } else if !data.is_empty() {
                let value = serde_json::from_slice(&data)
                    .map_err(|_| self.garbled(&String::from_utf8_lossy(&data)))?;
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
                judge(self.upstream, None, &said, delay)
            }
        }
    }

    fn garbled(&self, text: &str) -> Trouble {
        Trouble::Garbled(said::shown(self.upstream, text))
    }
}
