//! What one block or exchange says by its content alone: read once, then known.

use std::sync::Arc;

use crate::known::{ContentKey, Known};
use crate::transcript::{Block, BlockKind, Exchange, Speaker, UnitKind};

use super::exchange::Did;
use super::prompt::Spoken;
use super::reply::Told;
use super::state;

/// What is known of one block or exchange by its content alone.
#[derive(Debug)]
pub(crate) enum Reading {
    Spoken(Spoken),
    Told(Told),
    Did(Did),
    /// A note of the program around the model.
    Note(Option<state::Sign>),
}

impl Reading {
    /// The bytes that it takes, about.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Spoken(spoken) => spoken.size(),
            Self::Told(told) => told.size(),
            Self::Did(did) => did.size(),
            Self::Note(_) => 64,
        }
    }
}

/// How a block is read: the same words mean something else in another mouth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reader {
    Prompt,
    Reply,
    Exchange,
    Note,
}

impl Reading {
    pub(super) fn spoken(&self) -> Option<&Spoken> {
        match self {
            Self::Spoken(spoken) => Some(spoken),
            _ => None,
        }
    }

    pub(super) fn told(&self) -> Option<&Told> {
        match self {
            Self::Told(told) => Some(told),
            _ => None,
        }
    }

    pub(super) fn did(&self) -> Option<&Did> {
        match self {
            Self::Did(did) => Some(did),
            _ => None,
        }
    }

    pub(super) fn names(&self) -> &[u64] {
        match self {
            Self::Spoken(spoken) => &spoken.names,
            Self::Told(told) => &told.names,
            Self::Did(did) => &did.names,
            Self::Note(_) => &[],
        }
    }
}

/// How much of a note is looked at.
const NOTE_GLANCE: usize = 4_000;

/// What the blocks and exchanges of a unit say.
pub(super) type Readings = Vec<Arc<Reading>>;

pub(super) fn of_unit(known: &mut Known, kind: &UnitKind<'_>) -> Readings {
    match kind {
        UnitKind::Prompt { by: Speaker::User, blocks } => words(blocks)
            .map(|block| read_block(known, Reader::Prompt, block, |text| Reading::Spoken(Spoken::of(text))))
            .collect(),
        UnitKind::Prompt { by: Speaker::Host, blocks } => {
            words(blocks).map(|block| of_note(known, block)).collect()
        }
        UnitKind::Step { reply, exchanges } => {
            let told = words(reply)
                .map(|block| read_block(known, Reader::Reply, block, |text| Reading::Told(Told::of(text))));
            let mut readings: Readings = told.collect();
            readings.extend(exchanges.iter().map(|exchange| read_exchange(known, exchange)));
            readings
        }
        UnitKind::Prompt { by: Speaker::Unsure, .. } | UnitKind::Checkpoint(_) | UnitKind::Opaque(_) => {
            Vec::new()
        }
    }
}

fn words<'t, 'b>(blocks: &'t [Block<'b>]) -> impl Iterator<Item = &'t Block<'b>> {
    blocks.iter().filter(|block| block.kind == BlockKind::Text)
}

pub(super) fn of_note(known: &mut Known, block: &Block<'_>) -> Arc<Reading> {
    let read = || {
        Reading::Note(
            state::of_note(&block.opening(NOTE_GLANCE))
                .or_else(|| state::of_note(&block.ending(NOTE_GLANCE))),
        )
    };
    known.reading((ContentKey::of(0, block.raw().as_bytes()), Reader::Note), read)
}

fn read_block(
    known: &mut Known,
    reader: Reader,
    block: &Block<'_>,
    read: impl FnOnce(&str) -> Reading,
) -> Arc<Reading> {
    let form = block.text.map_or(0, |text| text.form as u8);
    known.reading((ContentKey::of(form, block.raw().as_bytes()), reader), || read(&block.text()))
}

fn read_exchange(known: &mut Known, exchange: &Exchange<'_>) -> Arc<Reading> {
    let blocks = exchange.call.iter().chain(&exchange.results).map(|block| block.raw().as_bytes());
    let ended =
        [exchange.status as u8, exchange.failed.map_or(2, u8::from), u8::from(exchange.answers.is_empty())];
    let parts = [exchange.tool.as_bytes(), &ended].into_iter().chain(blocks);
    known.reading((ContentKey::of_parts(parts), Reader::Exchange), || Reading::Did(Did::of(exchange)))
}
