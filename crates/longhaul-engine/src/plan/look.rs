//! A request that is left as it is, looked at so that a later compaction finds known what stood there already.
//!
//! A session grows at its end, and its requests are looked at one after the other. Up to which byte the last one was looked at is
//! remembered, with what that part comes to; if the same bytes stand there again, only what is behind them is counted and
//! read. So a turn costs what is new, and one pass of the hash over what is not. What is not asked for grows old in [`Known`]: in one
//! that many sessions share, a compaction may have to read again what was looked at long ago.

use crate::Tokens;
use crate::evidence::Evidence;
use crate::known::{ContentKey, Known, Passing, Remembered};
use crate::meter::{MESSAGE_FRAMING, Meter};
use crate::transcript::{Block, ElementId, Transcript, Unit};

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
    let mut hash = Passing::over(transcript.body);
    let before = known.recall::<Seen>(session, FORM);
    let before = before.filter(|seen| seen.meter == meter && hash.up_to(seen.end) == Some(seen.key));
    let (seen, so_far) = before.map_or((0, Tokens::ZERO), |seen| (seen.end, seen.tokens));
    let end = settled(transcript).max(seen);

    let is_new = |block: &Block<'_>| block.at.start as usize >= seen;
    let new: Vec<&Block<'_>> = transcript.blocks().filter(|block| is_new(block)).collect();
    let counts = meter.blocks(known, new.iter().copied());
    let (mut tokens, mut rest) = (so_far, Tokens::ZERO);
    let mut add = |block: &Block<'_>, count: Tokens| {
        *(if (block.at.start as usize) < end { &mut tokens } else { &mut rest }) += count;
    };
    new.iter().zip(counts).for_each(|(block, count)| add(block, count));
    let units = &transcript.units;
    let old = units.len() - units.iter().rev().take_while(|unit| unit.blocks().any(is_new)).count();
    for exchange in units[old..].iter().flat_map(Unit::exchanges) {
        if let Some(call) = exchange.call.as_ref().filter(|call| is_new(call)) {
            add(call, meter.name(known, exchange));
        }
    }
    if let Some(key) = hash.up_to(end).filter(|_| end > seen) {
        known.leave(session, FORM, Seen { end, key, meter, tokens });
    }
    Evidence::look(known, transcript, old);
    tokens + rest + Tokens(MESSAGE_FRAMING.number() * transcript.message_count() as u64)
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
