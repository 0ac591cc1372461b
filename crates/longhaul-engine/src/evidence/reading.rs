//! What one block or exchange says by its content alone: read once, then known.

use std::sync::Arc;

use serde_json::Value;

use crate::action;
use crate::known::{ContentKey, Known, Remembered};
use crate::transcript::{Block, BlockKind, Exchange, Form, Speaker, TextSpan, UnitKind};
use crate::wire;

use super::exchange::Did;
use super::prompt::Spoken;
use super::reply::Told;

/// What is known of one block or exchange by its content alone.
#[derive(Debug)]
pub(crate) enum Reading {
    Spoken(Spoken),
    Told(Told),
    Did(Did),
}

impl Remembered for Reading {
    /// The bytes that it takes, about.
    fn size(&self) -> usize {
        match self {
            Self::Spoken(spoken) => spoken.text.len() + 64,
            Self::Told(told) => told.size(),
            Self::Did(did) => did.size(),
        }
    }
}

/// How a block is read: the same words mean something else in another mouth.
#[derive(Debug, Clone, Copy)]
enum Reader {
    Prompt,
    Reply,
    /// A reply that ends in a call in words.
    Calling,
    Exchange,
}

/// What the blocks and exchanges of a unit say, in order; each with its place among the unit's blocks.
pub(super) fn of_unit(known: &mut Known, kind: &UnitKind<'_>) -> Vec<(usize, Arc<Reading>)> {
    match kind {
        UnitKind::Prompt { by: Speaker::User | Speaker::Unsure, blocks } => {
            let words = blocks.iter().enumerate().filter(|(_, block)| block.kind == BlockKind::Text);
            words
                .map(|(at, block)| {
                    (at, read(known, Reader::Prompt, block, |text| Reading::Spoken(Spoken::of(text))))
                })
                .collect()
        }
        UnitKind::Step { reply, exchanges } => {
            let mut readings = Vec::with_capacity(reply.len() + exchanges.len());
            for (at, block) in reply.iter().enumerate() {
                let is_words =
                    matches!(block.kind, BlockKind::Text | BlockKind::Reasoning(_)) && block.text.is_some();
                let spoken = exchanges.iter().any(|e| e.call.is_none()) || wire::ends_in_call(block);
                let calls = spoken && block.kind == BlockKind::Text;
                let reader = if calls { Reader::Calling } else { Reader::Reply };
                if is_words {
                    let told = |text: &str| Told::of(text, if calls { call_in(text) } else { text.len() });
                    readings.push((at, read(known, reader, block, |text| Reading::Told(told(text)))));
                }
            }
            let first = reply.len();
            let calls = exchanges.iter().filter(|exchange| exchange.call.is_some()).count();
            let mut result = first + calls;
            for exchange in exchanges {
                // What an exchange is fetched by is its first result, where it has one.
                readings.push((result, exchanged(known, exchange, reply)));
                result += exchange.results.len();
            }
            readings
        }
        UnitKind::Prompt { by: Speaker::Host, .. } | UnitKind::Checkpoint(_) | UnitKind::Opaque(_) => {
            Vec::new()
        }
    }
}

/// Where the call begins that a reply ends with.
fn call_in(text: &str) -> usize {
    action::spoken::call("", text).map_or(text.len(), |(start, _)| start)
}

fn read(
    known: &mut Known,
    reader: Reader,
    block: &Block<'_>,
    read: impl FnOnce(&str) -> Reading,
) -> Arc<Reading> {
    let form = block.text.map_or(0, |text| text.form as u8);
    known.remember(ContentKey::of(form, block.raw().as_bytes()), reader as u8, || match block.text {
        Some(TextSpan { form: Form::Json, .. }) => read(&words(&block.text())),
        _ => read(&block.text()),
    })
}

/// The words of a list of texts: what a model shows of its reasoning.
fn words(list: &str) -> String {
    let list: Vec<Value> = serde_json::from_str(list).unwrap_or_default();
    let texts: Vec<&str> = list.iter().filter_map(|item| item.get("text")?.as_str()).collect();
    texts.join("\n\n")
}

fn exchanged(known: &mut Known, exchange: &Exchange<'_>, reply: &[Block<'_>]) -> Arc<Reading> {
    let spoken = reply.iter().rfind(|block| exchange.call.is_none() && block.kind == BlockKind::Text);
    let blocks =
        spoken.into_iter().chain(&exchange.call).chain(&exchange.results).map(|block| block.raw().as_bytes());
    let ended =
        [exchange.status as u8, exchange.failed.map_or(2, u8::from), u8::from(exchange.answers.is_empty())];
    let parts = [exchange.tool.as_bytes(), &ended].into_iter().chain(blocks);
    known.remember(ContentKey::of_parts(parts), Reader::Exchange as u8, || {
        Reading::Did(Did::of(exchange, action::arguments(exchange, reply).as_deref()))
    })
}
