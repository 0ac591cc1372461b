//! Reads a request that is not compacted, so that a later compaction finds its blocks in the cache.
//!
//! A session grows at its end, and its requests are observed one after the other. The cache stores up to
//! which byte the last request was read, and the tokens of that part. If the same bytes come again, only the
//! rest is counted and read: a request costs time for what is new, plus one pass of the hash over what is
//! not. Unused entries age in the [`BlockCache`], so in a cache that many sessions share, a compaction may
//! have to read old blocks again.

use crate::Tokens;
use crate::block_cache::{BlockCache, Cacheable, ContentKey, PrefixHasher};
use crate::evidence::Evidence;
use crate::meter::{MESSAGE_FRAMING_TOKENS, Meter};
use crate::transcript::{Block, ElementId, Transcript, Turn};

/// The number of messages at the end that may still change, because clients move their cache breakpoints from
/// request to request. Chosen by hand.
const UNSETTLED_MESSAGES: usize = 8;
/// Separates these cache entries from other entries for the same content.
const CACHE_FORM: u8 = u8::MAX;

/// The part of a session that was read already.
#[derive(Debug, Clone, Copy)]
struct ObservedPrefix {
    end: usize,
    key: ContentKey,
    meter: Meter,
    /// The tokens of the blocks in that part.
    tokens: Tokens,
}

impl Cacheable for ObservedPrefix {
    fn size_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

/// Reads a request and returns its tokens.
pub(super) fn observe(meter: Meter, cache: &mut BlockCache, transcript: &Transcript<'_>) -> Tokens {
    let session = session_cache_key(transcript);
    let mut hash = PrefixHasher::new(transcript.body);
    let before = cache.get::<ObservedPrefix>(session, CACHE_FORM);
    let before = before.filter(|seen| seen.meter == meter && hash.key_up_to(seen.end) == Some(seen.key));
    let (seen, so_far) = before.map_or((0, Tokens::ZERO), |seen| (seen.end, seen.tokens));
    let end = settled_end(transcript).max(seen);

    let is_new = |block: &Block<'_>| block.at.start as usize >= seen;
    let new: Vec<&Block<'_>> = transcript.blocks().filter(|block| is_new(block)).collect();
    let counts = meter.count_blocks(cache, new.iter().copied());
    let (mut tokens, mut rest) = (so_far, Tokens::ZERO);
    let mut add = |block: &Block<'_>, count: Tokens| {
        *(if (block.at.start as usize) < end { &mut tokens } else { &mut rest }) += count;
    };
    new.iter().zip(counts).for_each(|(block, count)| add(block, count));
    let turns = &transcript.turns;
    let old = turns.len() - turns.iter().rev().take_while(|turn| turn.blocks().any(is_new)).count();
    for tool_call in turns[old..].iter().flat_map(Turn::tool_calls) {
        if let Some(call) = tool_call.call.as_ref().filter(|call| is_new(call)) {
            add(call, meter.count_tool_name(cache, tool_call));
        }
    }
    if let Some(key) = hash.key_up_to(end).filter(|_| end > seen) {
        cache.insert(session, CACHE_FORM, ObservedPrefix { end, key, meter, tokens });
    }
    Evidence::observe(cache, transcript, old);
    tokens + rest + Tokens(MESSAGE_FRAMING_TOKENS.number() * transcript.message_count() as u64)
}

/// Returns the key under which a session is found again: the hash of its first block.
fn session_cache_key(transcript: &Transcript<'_>) -> ContentKey {
    let first = transcript.turns.iter().flat_map(Turn::blocks).next();
    ContentKey::new(CACHE_FORM, first.map_or(&[], |block| block.raw().as_bytes()))
}

/// Returns the first byte that may still change.
fn settled_end(transcript: &Transcript<'_>) -> usize {
    let last = transcript.message_count().checked_sub(UNSETTLED_MESSAGES + 1);
    let id = transcript.message_array.zip(last).map(|(array, at)| ElementId { array, index: at as u32 });
    id.map_or(0, |id| transcript.span_of(id).end as usize)
}
