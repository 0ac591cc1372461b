//! A request that is left as it is, looked at so that a later compaction finds known what stood there already.
//!
//! A session grows at its end, and its requests are looked at one after the other. Up to which byte the last one was looked at is
//! remembered, with what that part comes to; if the same bytes stand there again, only what is behind them is counted and
//! read. So a turn costs what is new, and one pass of the hash over what is not.

use std::ops::Range;

use crate::Tokens;
use crate::evidence::Evidence;
use crate::known::{ContentKey, Known, Remembered};
use crate::meter::{MESSAGE_FRAMING, Meter};
use crate::transcript::{Block, ElementId, Transcript, Unit, UnitKind};

/// Messages at the end that may still change: clients move their cache marks from turn to turn.
const UNSETTLED: usize = 8;
/// What tells these memories from others of the same content.
const FORM: u8 = u8::MAX;

/// How far a session was looked at.
#[derive(Debug, Clone, Copy)]
struct Seen {
    end: usize,
    key: ContentKey,
    meter: Meter,
    /// What the blocks up to there come to.
    tokens: Tokens,
}

impl Remembered for Seen {
    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// Looks at a request and gives its tokens.
pub(super) fn look(meter: Meter, known: &mut Known, transcript: &Transcript<'_>) -> Tokens {
    let session = session(transcript);
    let before = known.recall::<Seen>(session, FORM).filter(|seen| seen.stands_in(meter, transcript));
    let (seen, so_far) = before.map_or((0, Tokens::ZERO), |seen| (seen.end, seen.tokens));
    let end = settled(transcript).max(seen);
    let tokens = so_far + between(meter, known, transcript, seen..end);
    if end > seen {
        let key = ContentKey::of(FORM, &transcript.body.as_bytes()[..end]);
        known.leave(session, FORM, Seen { end, key, meter, tokens });
    }
    let is_new = |unit: &&Unit<'_>| unit.blocks().any(|block| block.at.start as usize >= seen);
    let old = transcript.units.len() - transcript.units.iter().rev().take_while(is_new).count();
    Evidence::look(known, &transcript.units[old..]);
    let rest = between(meter, known, transcript, end..usize::MAX);
    tokens + rest + Tokens(MESSAGE_FRAMING.number() * transcript.message_count() as u64)
}

impl Seen {
    /// Whether the request begins with the same bytes.
    fn stands_in(&self, meter: Meter, transcript: &Transcript<'_>) -> bool {
        let same = |body: &[u8]| ContentKey::of(FORM, body) == self.key;
        self.meter == meter && transcript.body.as_bytes().get(..self.end).is_some_and(same)
    }
}

/// By what a session is found again: its first words.
fn session(transcript: &Transcript<'_>) -> ContentKey {
    let first = transcript.units.iter().flat_map(Unit::blocks).next();
    ContentKey::of(FORM, first.map_or(&[], |block| block.raw().as_bytes()))
}

/// Where what may still change begins.
fn settled(transcript: &Transcript<'_>) -> usize {
    let last = transcript.message_count().checked_sub(UNSETTLED + 1);
    let id = transcript.messages.zip(last).map(|(array, at)| ElementId { array, index: at as u32 });
    id.map_or(0, |id| transcript.span_of(id).end as usize)
}

/// The tokens of the blocks that begin between two bytes, and of the tools' names in them.
fn between(meter: Meter, known: &mut Known, transcript: &Transcript<'_>, bytes: Range<usize>) -> Tokens {
    let within = |block: &Block<'_>| bytes.contains(&(block.at.start as usize));
    let blocks = meter.blocks(known, transcript.blocks().filter(|block| within(block)));
    let exchanges = transcript.units.iter().flat_map(|unit| match &unit.kind {
        UnitKind::Step { exchanges, .. } => exchanges.as_slice(),
        _ => &[],
    });
    let calls = exchanges.filter(|exchange| exchange.call.as_ref().is_some_and(&within));
    blocks.into_iter().sum::<Tokens>() + calls.map(|call| meter.name(known, call)).sum()
}
