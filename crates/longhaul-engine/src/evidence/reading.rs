//! What one block or exchange says by its content alone: read once, then known.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::action;
use crate::hosted;
use crate::known::{ContentKey, Known, Remembered};
use crate::transcript::{
    Block, BlockAt, BlockKind, Exchange, Form, Part, PartKind, Speaker, TextSpan, Transcript, Unit, UnitKind,
};
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
    /// The words that a host put behind the output of a tool.
    Relayed,
    /// What an exchange did,
    Action,
    /// and what it shows.
    Exchange,
}

/// A block of words that is to be read, and where it stands.
struct Words<'u, 'b> {
    at: BlockAt,
    key: ContentKey,
    reader: Reader,
    source: &'u Block<'b>,
}

/// An exchange that is to be read. What it is fetched by is its first result, where it has one.
pub(super) struct Called<'u, 'b> {
    pub(super) at: BlockAt,
    key: ContentKey,
    exchange: &'u Exchange<'b>,
    reply: &'u [Block<'b>],
}

/// What was said and told from a unit on, in order, each with its place.
pub(super) fn words(
    known: &mut Known,
    transcript: &Transcript<'_>,
    first: usize,
) -> Vec<(BlockAt, Arc<Reading>)> {
    let parts = (first..transcript.units.len()).flat_map(|unit| transcript.parts_of(unit));
    let words: Vec<Words<'_, '_>> =
        parts.filter_map(|part| Words::of(&transcript.units[part.at.unit], part)).collect();
    let readings = known.remember_all(&words, |words| (words.key, words.reader as u8), Words::read);
    words.iter().zip(readings).map(|(words, reading)| (words.at, reading)).collect()
}

impl<'u, 'b> Words<'u, 'b> {
    /// A block of a unit, if it is one of words that are to be read.
    fn of(unit: &Unit<'b>, part: Part<'u, 'b>) -> Option<Self> {
        let source = part.block;
        let reader = match (&unit.kind, source.kind) {
            _ if !matches!(part.kind, PartKind::Said) => {
                let is_result =
                    matches!(part.kind, PartKind::Result { .. }) && source.kind == BlockKind::Text;
                (is_result && may_relay(source)).then_some(Reader::Relayed)?
            }
            (UnitKind::Prompt { by: Speaker::User | Speaker::Unsure, .. }, BlockKind::Text) => Reader::Prompt,
            (UnitKind::Step { exchanges, .. }, BlockKind::Text) if source.text.is_some() => {
                let is_spoken = exchanges.iter().any(|exchange| exchange.call.is_none());
                if is_spoken || wire::ends_in_call(source) { Reader::Calling } else { Reader::Reply }
            }
            (UnitKind::Step { .. }, BlockKind::Reasoning(_)) if source.text.is_some() => Reader::Reply,
            _ => return None,
        };
        let form = source.text.map_or(0, |text| text.form as u8);
        Some(Self { at: part.at, key: ContentKey::of(form, source.raw().as_bytes()), reader, source })
    }

    fn read(&self) -> Reading {
        let text = match self.source.text {
            Some(TextSpan { form: Form::Json, .. }) => words_in(&self.source.text()).into(),
            _ => self.source.text(),
        };
        match self.reader {
            Reader::Prompt => Reading::Spoken(Spoken::of(&text)),
            Reader::Relayed => Reading::Spoken(Spoken::behind(&text)),
            Reader::Calling => Reading::Told(Told::of(&text, call_in(&text))),
            _ => Reading::Told(Told::of(&text, text.len())),
        }
    }
}

/// Whether a result may hold words that a host passed on.
fn may_relay(result: &Block<'_>) -> bool {
    const GLANCE: usize = 64;
    hosted::may_end(&result.ending(GLANCE)) || hosted::may_begin(&result.opening(GLANCE))
}

/// The exchanges from a unit on, in order.
pub(super) fn exchanges<'u, 'b>(transcript: &'u Transcript<'b>, first: usize) -> Vec<Called<'u, 'b>> {
    let mut all = Vec::new();
    for (unit, content) in transcript.units.iter().enumerate().skip(first) {
        let UnitKind::Step { reply, .. } = &content.kind else { continue };
        let called = |(block, exchange)| {
            let at = BlockAt { unit, block };
            Called { at, key: key(exchange, reply), exchange, reply }
        };
        all.extend(content.placed_exchanges().map(called));
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
