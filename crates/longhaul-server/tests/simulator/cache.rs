//! What the providers keep of the prompts they read, for each credential and model.
//!
//! ```text
//! with marks      entries end at marks; a mark finds those at its block and at the 19 before it; a read lets them live on
//! without         every prefix, in steps of 128 tokens from 1,024 on
//! unlimited       every prefix that was ever sent, for ever: nobody can read more of the same bytes
//! ```
//!
//! A prefix ends with a block here. A provider without marks could read a part of a block, so it reads as much at least.

use std::collections::{HashMap, HashSet};

use super::prompt::{Block, Lifetime, Part, Prompt};
use super::seen::Traffic;

/// How many blocks a mark looks at, its own first.
const LOOK_BACK: usize = 20;
/// Without marks prefixes are kept in steps of so many tokens, from so many on.
const STEP: u64 = 128;
const SHORTEST: u64 = 1_024;
const FIVE_MINUTES: i64 = 5 * 60 * 1_000;

/// Who says what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// The client, by marks.
    Marks,
    /// The provider, of every prompt.
    Automatic,
}

/// By what a provider keeps a prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) keeping: Keeping,
    /// Shorter prefixes that are marked are not kept.
    pub(super) minimum: u64,
    /// How many milliseconds a prompt without marks is kept.
    pub(super) unmarked: i64,
    /// Whose it is, and for which model.
    pub(super) owner: u64,
    /// In milliseconds.
    pub(super) now: i64,
}

/// What is kept.
#[derive(Debug, Default)]
pub(super) struct Cache {
    marked: HashMap<Key, Entry>,
    /// When a prefix without marks was last used.
    used: HashMap<Key, i64>,
    sent: HashSet<Key>,
}

/// The owner, what voids messages beside the prompt, and the prefix.
type Key = (u64, u64, u64);

#[derive(Debug, Clone, Copy)]
struct Entry {
    lives: i64,
    lapses: i64,
}

impl Lifetime {
    fn milliseconds(self) -> i64 {
        match self {
            Self::FiveMinutes => FIVE_MINUTES,
            Self::OneHour => 12 * FIVE_MINUTES,
        }
    }
}

impl Cache {
    /// Takes a prompt, and says what was found of it and what was left.
    pub(super) fn send(&mut self, prompt: &Prompt, terms: &Terms) -> Traffic {
        let keys: Vec<Key> = prompt.blocks.iter().map(|block| key(block, prompt, terms)).collect();
        let ever = keys.iter().rposition(|key| self.sent.contains(key));
        let unlimited = ever.map_or(0, |at| prompt.blocks[at].end);
        let traffic = match terms.keeping {
            Keeping::Marks => self.send_marked(&prompt.blocks, &keys, terms),
            Keeping::Automatic => self.send_unmarked(&prompt.blocks, &keys, terms),
        };
        self.sent.extend(keys);
        let total = prompt.tokens();
        Traffic { total, unlimited, fresh: total - traffic.read - traffic.written, ..traffic }
    }

    fn send_marked(&mut self, blocks: &[Block], keys: &[Key], terms: &Terms) -> Traffic {
        let long_enough = |at: &usize| blocks[*at].end >= terms.minimum;
        let marks: Vec<usize> = (0..blocks.len()).filter(|at| blocks[*at].mark.is_some()).filter(long_enough).collect();
        let seen = |mark: &usize| (mark + 1).saturating_sub(LOOK_BACK)..=*mark;
        let found = marks.iter().flat_map(seen).filter(|at| self.living(&keys[*at], terms).is_some()).max();
        if let Some(found) = found {
            for used in marks.iter().copied().filter(|mark| *mark < found).chain([found]) {
                if let Some(entry) = self.living(&keys[used], terms) {
                    entry.lapses = terms.now + entry.lives;
                }
            }
        }
        let read = found.map_or(0, |at| blocks[at].end);
        let mut traffic = Traffic { read, ..Traffic::default() };
        let mut end = read;
        for at in marks.into_iter().filter(|at| found.is_none_or(|found| *at > found)) {
            let Some(lifetime) = blocks[at].mark else { continue };
            let written = blocks[at].end - end;
            end = blocks[at].end;
            traffic.written += written;
            traffic.written_1h += if lifetime == Lifetime::OneHour { written } else { 0 };
            let lives = lifetime.milliseconds();
            self.marked.insert(keys[at], Entry { lives, lapses: terms.now + lives });
        }
        traffic
    }

    fn living(&mut self, key: &Key, terms: &Terms) -> Option<&mut Entry> {
        self.marked.get_mut(key).filter(|entry| terms.now < entry.lapses)
    }

    fn send_unmarked(&mut self, blocks: &[Block], keys: &[Key], terms: &Terms) -> Traffic {
        let lives = |key: &Key| self.used.get(key).is_some_and(|used| terms.now < used + terms.unmarked);
        let found = keys.iter().rposition(lives).map_or(0, |at| blocks[at].end);
        let whole = found / STEP * STEP;
        self.used.extend(keys.iter().map(|key| (*key, terms.now)));
        Traffic { read: if whole < SHORTEST { 0 } else { whole }, ..Traffic::default() }
    }
}

fn key(block: &Block, prompt: &Prompt, terms: &Terms) -> Key {
    let beside = if block.part == Part::Messages { prompt.settings } else { 0 };
    (terms.owner, beside, block.prefix)
}
