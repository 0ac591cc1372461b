//! What a session keeps across restarts beside its messages. No words of anybody are in it.

use longhaul_engine::Tokens;
use longhaul_engine::cost::LastCompaction;
use serde::{Deserialize, Serialize};

use super::breaker::Breaker;
use super::cached::Cached;
use super::cooldown::Cooldowns;
use super::pressure::Pressure;

/// The state of a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// When automatic compaction pauses.
    pub breaker: Breaker,
    /// Which models rest.
    pub cooldowns: Cooldowns,
    /// The last failure of a model's summary, in words.
    pub last_error: Option<String>,
    /// The auxiliary model that failed last, until it answers.
    pub auxiliary_failed: Option<String>,
    /// What the provider has cached.
    pub(super) cached: Cached,
    pub(super) pressure: Pressure,
    /// The size that the provider refused last, until it takes one. It is for the retries of one request, which no restart outlives.
    #[serde(skip)]
    pub(super) refused: Option<Tokens>,
    /// Rewrites that the provider refused, by the hash of what was decided.
    pub(super) refused_rewrites: Vec<u64>,
    /// What the last compaction left and removed.
    pub(super) last: Option<LastCompaction>,
    /// How many requests there were when the session was compacted last.
    pub(super) compacted_at: Option<usize>,
    /// How many compactions in a row came within a few requests of the one before.
    pub(super) close_in_a_row: u32,
    /// The rewrite that the provider took last.
    pub(super) accepted: Option<u64>,
    /// The epoch that a reset left behind.
    pub(super) forgotten: Option<usize>,
    /// Whether the user has undone a compaction and asked for none since.
    pub(super) is_undone: bool,
}

impl State {
    /// It but for the pace of its requests.
    pub(super) fn without_pace(&self) -> Self {
        Self { cached: Cached::default(), ..self.clone() }
    }

    /// How another session begins beside this one: the same models rest, and the same money is spent.
    pub(super) fn for_another(&self) -> Self {
        let (breaker, cooldowns) = (self.breaker.anew(), self.cooldowns.clone());
        Self { breaker, cooldowns, accepted: self.accepted, ..Self::default() }
    }
}
