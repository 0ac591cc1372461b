//! A provider's cache, modelled: what each request of a session reads from it and writes to it.
//!
//! ```text
//! request ──▶ the longest prefix that is there and alive is read, and lives on
//!             what follows it, up to the last mark, is written
//!             the rest is fresh
//! ```
//!
//! With marks, an entry is the prefix up to a mark, and is found from a mark at its place or at most [`LOOK_BACK`] pieces
//! after it. Without marks the provider keeps every prefix, in steps of so many tokens. Either way a prefix below the minimum
//! is not kept, and what is not used for its lifetime is gone. The model knows no second server, no eviction under load and
//! no request that starts before the one before it has answered.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::time::Duration;

use super::chain::{Chain, Link, Prefix};
use super::marks::{LOOK_BACK, Mark};
use super::pace::{FIVE_MINUTES, ONE_HOUR};
use crate::Tokens;
use crate::known::AsIs;
use crate::models::{Caching, Model};
use crate::prices::Usage;
use crate::wire::{Lifetime, Part, Says, Settings};

/// How a provider keeps prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Shorter prefixes are not kept.
    pub minimum: Tokens,
    /// Where prefixes may end.
    pub ends: Ends,
}

/// Where a kept prefix may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// At marks.
    Marks,
    /// Anywhere, in steps of so many tokens; kept for five minutes, which is the least that is promised.
    Steps(Tokens),
    /// Nowhere: nothing is kept.
    Nowhere,
}

impl Rules {
    /// The rules for a model, as far as its row tells.
    #[must_use]
    pub fn of(model: &Model) -> Self {
        const STEP: u64 = 128;
        let minimum = model.facts.cache_minimum;
        let ends = match model.facts.caching {
            Caching::Marks => Ends::Marks,
            Caching::Automatic => Ends::Steps(minimum.min(Tokens(STEP))),
            Caching::None => Ends::Nowhere,
        };
        Self { minimum, ends }
    }
}

/// A request, as a cache sees it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// What the prompt says, up to and with each piece.
    pub links: &'r [Link],
    /// What is no part of the prompt and voids the cache all the same.
    pub settings: Settings,
    /// How many tokens that is, for each piece.
    pub sizes: &'r [Tokens],
    /// The marks on it.
    pub marks: &'r [Mark],
}

impl Request<'_> {
    fn key(&self, piece: usize) -> Key {
        key(&self.links[piece], self.settings)
    }
}

/// What a request found and left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Tokens found in the cache.
    pub read: Tokens,
    /// Tokens put there for five minutes.
    pub written_5m: Tokens,
    /// Tokens put there for an hour.
    pub written_1h: Tokens,
    /// Tokens that were neither.
    pub fresh: Tokens,
    /// How many pieces were found.
    pub warm: usize,
}

impl Traffic {
    /// The same as a provider would report it, with so many tokens of reply.
    #[must_use]
    pub fn usage(&self, output: Tokens) -> Usage {
        let written = self.written_5m + self.written_1h;
        Usage {
            input: Some(self.read + written + self.fresh),
            read: Some(self.read),
            written: Some(written),
            written_1h: Some(self.written_1h),
            output: Some(output),
        }
    }
}

/// A cache with what is in it.
#[derive(Debug, Clone)]
pub struct Cache {
    rules: Rules,
    entries: HashMap<Key, Entry, BuildHasherDefault<AsIs>>,
    /// How many entries there were when those that had lapsed were last thrown out.
    swept: usize,
    /// When the last of them lapses.
    lapses: Duration,
}

/// Which prefix, for which model, and for messages under which settings.
type Key = (Option<Says>, Option<(Option<Says>, Option<Says>)>, Prefix);

#[derive(Debug, Clone, Copy)]
struct Entry {
    tokens: Tokens,
    lifetime: Duration,
    lapses: Duration,
    /// In a cache without marks, what was last sent behind it: as long as that lives, this does, too.
    goes_on: Option<Key>,
}

impl Cache {
    /// An empty one.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules, entries: HashMap::default(), swept: 0, lapses: Duration::ZERO }
    }

    /// Sends a request at some time, counted from any moment: times may stand still but never go back.
    pub fn send(&mut self, now: Duration, request: &Request<'_>) -> Traffic {
        let total = request.sizes.last().copied().unwrap_or_default();
        match self.rules.ends {
            Ends::Nowhere => Traffic { fresh: total, ..Traffic::default() },
            Ends::Marks => self.send_marked(now, request, total),
            Ends::Steps(step) => self.send_unmarked(now, request, total, step),
        }
    }

    /// Throws out what has lapsed, once that may be half of all.
    fn sweep(&mut self, now: Duration) {
        const FEW: usize = 64;
        if self.entries.len() > 2 * self.swept + FEW {
            self.entries.retain(|_, entry| entry.lapses >= now);
            self.swept = self.entries.len();
        }
    }

    /// How much of a request would be found at that time. Nothing changes by asking.
    #[must_use]
    pub fn warm(&self, now: Duration, request: &Request<'_>) -> Tokens {
        let live = |piece: usize| self.entries.get(&request.key(piece)).filter(|entry| entry.lapses >= now);
        match self.rules.ends {
            Ends::Nowhere => Tokens::ZERO,
            Ends::Marks => {
                let marks = self.marked(request);
                let found = newest_found(&marks, |piece| live(piece).is_some());
                found.and_then(live).map_or(Tokens::ZERO, |entry| entry.tokens)
            }
            Ends::Steps(step) => {
                let found = self.newest_living(now, request);
                found.map_or(Tokens::ZERO, |piece| self.in_steps(request.sizes[piece], step))
            }
        }
    }

    /// Whether anything that was kept for this prompt is there at that time.
    #[must_use]
    pub fn keeps(&self, now: Duration, chain: &Chain) -> bool {
        // The newest pieces are the likeliest; nothing is looked for in a cache that has lapsed as a whole.
        let live = |link: &Link| {
            self.entries.get(&key(link, chain.settings)).is_some_and(|entry| entry.lapses >= now)
        };
        self.lapses >= now && chain.links.iter().rev().any(live)
    }

    fn send_marked(&mut self, now: Duration, request: &Request<'_>, total: Tokens) -> Traffic {
        self.sweep(now);
        let marks = self.marked(request);
        let live =
            |piece: usize| self.entries.get(&request.key(piece)).is_some_and(|kept| kept.lapses >= now);
        let found = newest_found(&marks, live);
        let mut read = Tokens::ZERO;
        if let Some(piece) = found {
            let marks_before = marks.iter().map(|(mark, _)| *mark).filter(|mark| *mark < piece);
            for used in marks_before.chain([piece]) {
                let kept = self.entries.get_mut(&request.key(used));
                if let Some(entry) = kept.filter(|entry| entry.lapses >= now) {
                    entry.lapses = now + entry.lifetime;
                    self.lapses = self.lapses.max(entry.lapses);
                    read = entry.tokens;
                }
            }
        }
        let warm = found.map_or(0, |piece| piece + 1);
        let mut traffic = Traffic { read, warm, ..Traffic::default() };
        let mut end = read;
        for (piece, lifetime) in marks.into_iter().filter(|(piece, _)| *piece >= warm) {
            let size = request.sizes[piece];
            let (written, lives) = match lifetime {
                Lifetime::FiveMinutes => (&mut traffic.written_5m, FIVE_MINUTES),
                Lifetime::OneHour => (&mut traffic.written_1h, ONE_HOUR),
            };
            *written += size - end;
            end = size.max(end);
            let entry = Entry { tokens: size, lifetime: lives, lapses: now + lives, goes_on: None };
            self.lapses = self.lapses.max(entry.lapses);
            self.entries.insert(request.key(piece), entry);
        }
        traffic.fresh = total - end;
        traffic
    }

    /// The newest piece that a cache without marks still has.
    fn newest_living(&self, now: Duration, request: &Request<'_>) -> Option<usize> {
        let mut lapsed = None;
        (0..request.sizes.len()).rev().find(|&piece| {
            let key = request.key(piece);
            let mut at = Some(key);
            while let Some(entry) = at.filter(|at| Some(*at) != lapsed).and_then(|at| self.entries.get(&at)) {
                if entry.lapses >= now {
                    return true;
                }
                at = entry.goes_on;
            }
            lapsed = Some(key);
            false
        })
    }

    /// The marks behind prefixes that are long enough, in the order of reading.
    fn marked(&self, request: &Request<'_>) -> Vec<(usize, Lifetime)> {
        let last = request.sizes.len().saturating_sub(1);
        let marked = |mark: &Mark| (mark.piece.unwrap_or(last), mark.lifetime);
        let mut marks: Vec<(usize, Lifetime)> = request.marks.iter().map(marked).collect();
        marks.retain(|&(piece, _)| request.sizes.get(piece).is_some_and(|size| *size >= self.rules.minimum));
        marks.sort_unstable();
        marks
    }

    /// How much of a prefix a cache without marks keeps.
    fn in_steps(&self, tokens: Tokens, step: Tokens) -> Tokens {
        let whole = Tokens(tokens.number() / step.number().max(1) * step.number());
        if whole < self.rules.minimum { Tokens::ZERO } else { whole }
    }

    fn send_unmarked(
        &mut self,
        now: Duration,
        request: &Request<'_>,
        total: Tokens,
        step: Tokens,
    ) -> Traffic {
        let found = self.newest_living(now, request);
        let read = found.map_or(Tokens::ZERO, |piece| self.in_steps(request.sizes[piece], step));
        let written_5m = self.in_steps(total, step) - read;
        self.lapses = now + FIVE_MINUTES;
        // What stands before the piece that was found lives on through it.
        for piece in found.unwrap_or(0)..request.sizes.len() {
            let entry = Entry {
                tokens: request.sizes[piece],
                lifetime: FIVE_MINUTES,
                lapses: now + FIVE_MINUTES,
                goes_on: (piece + 1 < request.sizes.len()).then(|| request.key(piece + 1)),
            };
            self.entries.insert(request.key(piece), entry);
        }
        if let Some(before) = found.and_then(|piece| piece.checked_sub(1))
            && let Some(entry) = self.entries.get_mut(&request.key(before))
        {
            entry.goes_on = found.map(|piece| request.key(piece));
        }
        let warm = found.filter(|_| read > Tokens::ZERO).map_or(0, |piece| piece + 1);
        Traffic { read, written_5m, written_1h: Tokens::ZERO, fresh: total - read - written_5m, warm }
    }
}

/// The newest piece that is kept, as far as somebody who starts at the marks looks for one.
fn newest_found(marks: &[(usize, Lifetime)], is_kept: impl Fn(usize) -> bool) -> Option<usize> {
    let seen_from = |mark: usize| (mark + 1).saturating_sub(LOOK_BACK)..=mark;
    marks.iter().rev().find_map(|&(mark, _)| seen_from(mark).rev().find(|&piece| is_kept(piece)))
}

/// Under what a prefix is kept: another model voids everything, other settings void the messages.
fn key(link: &Link, settings: Settings) -> Key {
    let Settings { model, tool_choice, thinking } = settings;
    (model, (link.part == Part::Messages).then_some((tool_choice, thinking)), link.prefix)
}
