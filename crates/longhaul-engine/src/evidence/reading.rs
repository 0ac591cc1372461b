//! What one block or exchange says by its content alone: read once, then known.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::action;
use crate::known::{ContentKey, Known, Remembered};
use crate::transcript::{Block, BlockKind, Exchange, Form, Speaker, TextSpan, Unit, UnitKind};
use crate::wire;

use super::exchange::{Acted, Did};
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

/// How something is read: the same words mean something else in another mouth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Prompt,
    Reply,
    /// A reply that ends in a call in words.
    Calling,
    /// What an exchange did,
    Action,
    /// and what it shows.
    Exchange,
}

/// A block of words that is to be read, and where it stands.
struct Words<'u, 'b> {
    unit: usize,
    block: usize,
    key: ContentKey,
    reader: Reader,
    source: &'u Block<'b>,
}

/// An exchange that is to be read. What it is fetched by is its first result, where it has one.
pub(super) struct Called<'u, 'b> {
    pub(super) unit: usize,
    pub(super) block: usize,
    key: ContentKey,
    exchange: &'u Exchange<'b>,
    reply: &'u [Block<'b>],
}

/// What was said and told, in order, each with its unit and its place among the unit's blocks.
pub(super) fn words(known: &mut Known, units: &[Unit<'_>]) -> Vec<(usize, usize, Arc<Reading>)> {
    let words: Vec<Words<'_, '_>> =
        units.iter().enumerate().flat_map(|(unit, content)| words_of(unit, &content.kind)).collect();
    let readings = known.remember_all(&words, |words| (words.key, words.reader as u8), Words::read);
    words.iter().zip(readings).map(|(words, reading)| (words.unit, words.block, reading)).collect()
}

fn words_of<'u, 'b>(unit: usize, kind: &'u UnitKind<'b>) -> Vec<Words<'u, 'b>> {
    let words = |(block, source): (usize, &'u Block<'b>), reader: Reader| {
        let form = source.text.map_or(0, |text| text.form as u8);
        Words { unit, block, key: ContentKey::of(form, source.raw().as_bytes()), reader, source }
    };
    match kind {
        UnitKind::Prompt { by: Speaker::User | Speaker::Unsure, blocks } => {
            let texts = blocks.iter().enumerate().filter(|(_, block)| block.kind == BlockKind::Text);
            texts.map(|block| words(block, Reader::Prompt)).collect()
        }
        UnitKind::Step { reply, exchanges } => {
            let is_words = |block: &Block<'_>| {
                matches!(block.kind, BlockKind::Text | BlockKind::Reasoning(_)) && block.text.is_some()
            };
            let is_spoken = exchanges.iter().any(|exchange| exchange.call.is_none());
            let reader = |block: &Block<'_>| {
                let calls = block.kind == BlockKind::Text && (is_spoken || wire::ends_in_call(block));
                if calls { Reader::Calling } else { Reader::Reply }
            };
            let said = reply.iter().enumerate().filter(|(_, block)| is_words(block));
            said.map(|(at, block)| words((at, block), reader(block))).collect()
        }
        UnitKind::Prompt { by: Speaker::Host, .. } | UnitKind::Checkpoint(_) | UnitKind::Opaque(_) => {
            Vec::new()
        }
    }
}

impl Words<'_, '_> {
    fn read(&self) -> Reading {
        let text = match self.source.text {
            Some(TextSpan { form: Form::Json, .. }) => words_in(&self.source.text()).into(),
            _ => self.source.text(),
        };
        match self.reader {
            Reader::Prompt => Reading::Spoken(Spoken::of(&text)),
            Reader::Calling => Reading::Told(Told::of(&text, call_in(&text))),
            _ => Reading::Told(Told::of(&text, text.len())),
        }
    }
}

/// The exchanges of all units, in order.
pub(super) fn exchanges<'u, 'b>(units: &'u [Unit<'b>]) -> Vec<Called<'u, 'b>> {
    let mut all = Vec::new();
    for (unit, content) in units.iter().enumerate() {
        let UnitKind::Step { reply, exchanges } = &content.kind else { continue };
        let calls = exchanges.iter().filter(|exchange| exchange.call.is_some()).count();
        let mut block = reply.len() + calls;
        for exchange in exchanges {
            all.push(Called { unit, block, key: key(exchange, reply), exchange, reply });
            block += exchange.results.len();
        }
    }
    all
}

/// What each of these exchanges did.
pub(super) fn acted(known: &mut Known, exchanges: &[Called<'_, '_>]) -> Vec<Arc<Acted>> {
    let key = |called: &Called<'_, '_>| (called.key, Reader::Action as u8);
    known.remember_all(exchanges, key, |called| Acted::of(called.exchange, called.arguments().as_deref()))
}

/// What each of these exchanges shows.
pub(super) fn shown(known: &mut Known, exchanges: &[Called<'_, '_>]) -> Vec<Arc<Reading>> {
    let acted = acted(known, exchanges);
    let both: Vec<(&Called<'_, '_>, Arc<Acted>)> = exchanges.iter().zip(acted).collect();
    known.remember_all(
        &both,
        |(called, _)| (called.key, Reader::Exchange as u8),
        |(called, acted)| Reading::Did(Did::of(called.exchange, called.arguments().as_deref(), acted)),
    )
}

impl<'b> Called<'_, 'b> {
    fn arguments(&self) -> Option<Cow<'b, str>> {
        action::arguments(self.exchange, self.reply)
    }
}

/// Where the call begins that a reply ends with.
fn call_in(text: &str) -> usize {
    action::spoken::call("", text).map_or(text.len(), |(start, _)| start)
}

/// The words of a list of texts: what a model shows of its reasoning.
fn words_in(list: &str) -> String {
    let list: Vec<Value> = serde_json::from_str(list).unwrap_or_default();
    let texts: Vec<&str> = list.iter().filter_map(|item| item.get("text")?.as_str()).collect();
    texts.join("\n\n")
}

/// What tells an exchange from others.
fn key(exchange: &Exchange<'_>, reply: &[Block<'_>]) -> ContentKey {
    let spoken = reply.iter().rfind(|block| exchange.call.is_none() && block.kind == BlockKind::Text);
    let blocks =
        spoken.into_iter().chain(&exchange.call).chain(&exchange.results).map(|block| block.raw().as_bytes());
    let ended =
        [exchange.status as u8, exchange.failed.map_or(2, u8::from), u8::from(exchange.answers.is_empty())];
    ContentKey::of_parts([exchange.tool.as_bytes(), &ended].into_iter().chain(blocks))
}
