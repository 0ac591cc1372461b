//! A simulated provider cache: what each request of a session reads from it and writes to it.
//!
//! ```text
//! request ──▶ the longest cached prefix that has not expired is read, and its lifetime begins again
//!             the prompt after it, up to the last breakpoint, is written
//!             the rest is uncached input
//! ```
//!
//! With breakpoints, an entry is the prefix up to a breakpoint. A request finds it from a breakpoint at the
//! same piece or less than [`LOOKBACK_PIECES`] pieces after it. Without breakpoints the provider caches every
//! prefix, in steps of a fixed number of tokens. In both cases a prefix below the minimum size is not cached,
//! and an entry that is not used expires. The simulation has no second server, no eviction under load, and no
//! requests at the same time.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::time::Duration;

use super::breakpoints::{Breakpoint, LOOKBACK_PIECES};
use super::lifetime::{FIVE_MINUTES, ONE_HOUR};
use super::prefix_chain::{PrefixChain, PrefixHash, PrefixLink};
use crate::Tokens;
use crate::block_cache::ContentKeyHasher;
use crate::models::{Caching, Model};
use crate::prices::Usage;
use crate::wire::{CacheLifetime, CacheSettings, ContentHash, PromptPart};

/// The rules by which a provider caches prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheRules {
    /// The smallest prefix in tokens that is cached.
    pub min_prefix: Tokens,
    /// The places where cached prefixes may end.
    pub ends: PrefixEnds,
}

/// The places where a cached prefix may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixEnds {
    /// At breakpoints.
    AtBreakpoints,
    /// Anywhere, in steps of this many tokens. Entries live for five minutes, the shortest time that is
    /// promised.
    InSteps(Tokens),
    /// Nowhere: nothing is cached.
    Nowhere,
}

impl CacheRules {
    /// Returns the rules for a model, as far as its row in the model table contains them.
    #[must_use]
    pub fn for_model(model: &Model) -> Self {
        const STEP_TOKENS: u64 = 128;
        let minimum = model.facts.cache_minimum;
        let ends = match model.facts.caching {
            Caching::Breakpoints => PrefixEnds::AtBreakpoints,
            Caching::Automatic => PrefixEnds::InSteps(minimum.min(Tokens(STEP_TOKENS))),
            Caching::None => PrefixEnds::Nowhere,
        };
        Self { min_prefix: minimum, ends }
    }
}

/// A request as the cache sees it.
#[derive(Debug, Clone, Copy)]
pub struct CacheRequest<'r> {
    /// The hashes of the prompt up to and including each piece.
    pub links: &'r [PrefixLink],
    /// The settings that are no part of the prompt but invalidate the cache when they change.
    pub settings: CacheSettings,
    /// The tokens of the prompt up to and including each piece.
    pub prefix_tokens: &'r [Tokens],
    /// The cache breakpoints of the request.
    pub breakpoints: &'r [Breakpoint],
}

impl CacheRequest<'_> {
    fn entry_key(&self, piece: usize) -> EntryKey {
        entry_key(&self.links[piece], self.settings)
    }
}

/// The tokens of a request that were read from the cache, written to it, or neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheUsage {
    /// The tokens that were read from the cache.
    pub read: Tokens,
    /// The tokens that were written for five minutes.
    pub written_5m: Tokens,
    /// The tokens that were written for an hour.
    pub written_1h: Tokens,
    /// The tokens that were neither read nor written.
    pub uncached: Tokens,
    /// The number of pieces that were read from the cache.
    pub cached_pieces: usize,
}

impl CacheUsage {
    /// Returns the usage as a provider would report it, with this many tokens of reply.
    #[must_use]
    pub fn usage(&self, output: Tokens) -> Usage {
        let written = self.written_5m + self.written_1h;
        Usage {
            input: Some(self.read + written + self.uncached),
            read: Some(self.read),
            written: Some(written),
            written_1h: Some(self.written_1h),
            output: Some(output),
        }
    }
}

/// A simulated cache with its entries.
#[derive(Debug, Clone)]
pub struct SimulatedCache {
    rules: CacheRules,
    entries: HashMap<EntryKey, CacheEntry, BuildHasherDefault<ContentKeyHasher>>,
    /// The number of entries after expired ones were last removed.
    entries_after_sweep: usize,
    /// The time at which the last entry expires.
    last_expiry: Duration,
}

/// The model, the settings if the prefix contains messages, and the hash of the prefix.
type EntryKey = (Option<ContentHash>, Option<(Option<ContentHash>, Option<ContentHash>)>, PrefixHash);

#[derive(Debug, Clone, Copy)]
struct CacheEntry {
    tokens: Tokens,
    lifetime: Duration,
    expires_at: Duration,
    /// In a cache without breakpoints, the prefix that was last sent as the continuation of this one: as long
    /// as it lives, so does this one.
    continued_by: Option<EntryKey>,
}

impl SimulatedCache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(rules: CacheRules) -> Self {
        Self { rules, entries: HashMap::default(), entries_after_sweep: 0, last_expiry: Duration::ZERO }
    }

    /// Sends a request. `now` counts from any fixed time and must never decrease.
    pub fn send(&mut self, now: Duration, request: &CacheRequest<'_>) -> CacheUsage {
        let total = request.prefix_tokens.last().copied().unwrap_or_default();
        match self.rules.ends {
            PrefixEnds::Nowhere => CacheUsage { uncached: total, ..CacheUsage::default() },
            PrefixEnds::AtBreakpoints => self.send_with_breakpoints(now, request, total),
            PrefixEnds::InSteps(step) => self.send_automatic(now, request, total, step),
        }
    }

    /// Removes expired entries, once they may be half of all.
    fn remove_expired(&mut self, now: Duration) {
        const MIN_ENTRIES_TO_SWEEP: usize = 64;
        if self.entries.len() > 2 * self.entries_after_sweep + MIN_ENTRIES_TO_SWEEP {
            self.entries.retain(|_, entry| entry.expires_at >= now);
            self.entries_after_sweep = self.entries.len();
        }
    }

    /// Returns the tokens that a request would read at this time, without sending it.
    #[must_use]
    pub fn cached_tokens(&self, now: Duration, request: &CacheRequest<'_>) -> Tokens {
        let live = |piece: usize| self.entries.get(&request.entry_key(piece)).filter(|entry| entry.expires_at >= now);
        match self.rules.ends {
            PrefixEnds::Nowhere => Tokens::ZERO,
            PrefixEnds::AtBreakpoints => {
                let breakpoints = self.usable_breakpoints(request);
                let found = find_from_breakpoints(&breakpoints, |piece| live(piece).is_some());
                found.and_then(live).map_or(Tokens::ZERO, |entry| entry.tokens)
            }
            PrefixEnds::InSteps(step) => {
                let found = self.newest_live_piece(now, request);
                found.map_or(Tokens::ZERO, |piece| self.round_to_step(request.prefix_tokens[piece], step))
            }
        }
    }

    /// Whether any prefix of this prompt is cached at this time.
    #[must_use]
    pub fn has_live_entry(&self, now: Duration, chain: &PrefixChain) -> bool {
        // Search from the newest piece, which is the likeliest, and only if not every entry has expired.
        let live = |link: &PrefixLink| {
            self.entries.get(&entry_key(link, chain.settings)).is_some_and(|entry| entry.expires_at >= now)
        };
        self.last_expiry >= now && chain.links.iter().rev().any(live)
    }

    fn send_with_breakpoints(&mut self, now: Duration, request: &CacheRequest<'_>, total: Tokens) -> CacheUsage {
        self.remove_expired(now);
        let breakpoints = self.usable_breakpoints(request);
        let live =
            |piece: usize| self.entries.get(&request.entry_key(piece)).is_some_and(|entry| entry.expires_at >= now);
        let found = find_from_breakpoints(&breakpoints, live);
        let mut read = Tokens::ZERO;
        if let Some(piece) = found {
            let breakpoints_before =
                breakpoints.iter().map(|(breakpoint, _)| *breakpoint).filter(|breakpoint| *breakpoint < piece);
            for used in breakpoints_before.chain([piece]) {
                let entry = self.entries.get_mut(&request.entry_key(used));
                if let Some(entry) = entry.filter(|entry| entry.expires_at >= now) {
                    entry.expires_at = now + entry.lifetime;
                    self.last_expiry = self.last_expiry.max(entry.expires_at);
                    read = entry.tokens;
                }
            }
        }
        let cached_pieces = found.map_or(0, |piece| piece + 1);
        let mut usage = CacheUsage { read, cached_pieces, ..CacheUsage::default() };
        let mut end = read;
        for (piece, lifetime) in breakpoints.into_iter().filter(|(piece, _)| *piece >= cached_pieces) {
            let size = request.prefix_tokens[piece];
            let (written, lifetime) = match lifetime {
                CacheLifetime::FiveMinutes => (&mut usage.written_5m, FIVE_MINUTES),
                CacheLifetime::OneHour => (&mut usage.written_1h, ONE_HOUR),
            };
            *written += size - end;
            end = size.max(end);
            let entry = CacheEntry { tokens: size, lifetime, expires_at: now + lifetime, continued_by: None };
            self.last_expiry = self.last_expiry.max(entry.expires_at);
            self.entries.insert(request.entry_key(piece), entry);
        }
        usage.uncached = total - end;
        usage
    }

    /// Returns the newest piece that a cache without breakpoints still has.
    fn newest_live_piece(&self, now: Duration, request: &CacheRequest<'_>) -> Option<usize> {
        let mut expired = None;
        (0..request.prefix_tokens.len()).rev().find(|&piece| {
            let key = request.entry_key(piece);
            let mut at = Some(key);
            while let Some(entry) = at.filter(|at| Some(*at) != expired).and_then(|at| self.entries.get(&at)) {
                if entry.expires_at >= now {
                    return true;
                }
                at = entry.continued_by;
            }
            expired = Some(key);
            false
        })
    }

    /// Returns the breakpoints after prefixes that are long enough, in the provider's order.
    fn usable_breakpoints(&self, request: &CacheRequest<'_>) -> Vec<(usize, CacheLifetime)> {
        let last = request.prefix_tokens.len().saturating_sub(1);
        let marked = |breakpoint: &Breakpoint| (breakpoint.piece.unwrap_or(last), breakpoint.lifetime);
        let mut breakpoints: Vec<(usize, CacheLifetime)> = request.breakpoints.iter().map(marked).collect();
        breakpoints
            .retain(|&(piece, _)| request.prefix_tokens.get(piece).is_some_and(|size| *size >= self.rules.min_prefix));
        breakpoints.sort_unstable();
        breakpoints
    }

    /// Returns the tokens of a prefix that a cache without breakpoints keeps.
    fn round_to_step(&self, tokens: Tokens, step: Tokens) -> Tokens {
        let whole = Tokens(tokens.number() / step.number().max(1) * step.number());
        if whole < self.rules.min_prefix { Tokens::ZERO } else { whole }
    }

    fn send_automatic(&mut self, now: Duration, request: &CacheRequest<'_>, total: Tokens, step: Tokens) -> CacheUsage {
        let found = self.newest_live_piece(now, request);
        let read = found.map_or(Tokens::ZERO, |piece| self.round_to_step(request.prefix_tokens[piece], step));
        let written_5m = self.round_to_step(total, step) - read;
        self.last_expiry = now + FIVE_MINUTES;
        // Prefixes before the piece that was found stay alive because it continues them.
        for piece in found.unwrap_or(0)..request.prefix_tokens.len() {
            let entry = CacheEntry {
                tokens: request.prefix_tokens[piece],
                lifetime: FIVE_MINUTES,
                expires_at: now + FIVE_MINUTES,
                continued_by: (piece + 1 < request.prefix_tokens.len()).then(|| request.entry_key(piece + 1)),
            };
            self.entries.insert(request.entry_key(piece), entry);
        }
        if let Some(before) = found.and_then(|piece| piece.checked_sub(1))
            && let Some(entry) = self.entries.get_mut(&request.entry_key(before))
        {
            entry.continued_by = found.map(|piece| request.entry_key(piece));
        }
        let cached_pieces = found.filter(|_| read > Tokens::ZERO).map_or(0, |piece| piece + 1);
        CacheUsage { read, written_5m, written_1h: Tokens::ZERO, uncached: total - read - written_5m, cached_pieces }
    }
}

/// Returns the newest cached piece that the provider finds when it looks back from the breakpoints.
fn find_from_breakpoints(breakpoints: &[(usize, CacheLifetime)], is_kept: impl Fn(usize) -> bool) -> Option<usize> {
    let seen_from = |breakpoint: usize| (breakpoint + 1).saturating_sub(LOOKBACK_PIECES)..=breakpoint;
    breakpoints.iter().rev().find_map(|&(breakpoint, _)| seen_from(breakpoint).rev().find(|&piece| is_kept(piece)))
}

/// Returns the key of a prefix: another model invalidates everything, other settings invalidate the messages.
fn entry_key(link: &PrefixLink, settings: CacheSettings) -> EntryKey {
    let CacheSettings { model, tool_choice, thinking } = settings;
    (model, (link.part == PromptPart::Messages).then_some((tool_choice, thinking)), link.prefix)
}
