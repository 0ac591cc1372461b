//! The part of a session, besides its messages, that must survive a restart. It contains no text of a
//! conversation.

use longhaul_engine::Tokens;
use longhaul_engine::schedule::LastCompaction;
use serde::{Deserialize, Serialize};

use super::breaker::Breaker;
use super::cooldown::Cooldowns;
use super::pressure_notice::PressureNotice;
use super::prompt_cache::PromptCache;

/// The saved state of a session.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionState {
    /// The pauses of automatic compaction.
    pub breaker: Breaker,
    /// The models that are not asked for summaries for a while.
    pub cooldowns: Cooldowns,
    /// The last failure of a model's summary, in words.
    pub last_error: Option<String>,
    /// The auxiliary model that failed last, until it answers again.
    pub auxiliary_failed: Option<String>,
    /// The content of the provider's prompt cache.
    #[serde(rename = "cached")]
    pub(super) prompt_cache: PromptCache,
    pub(super) pressure: PressureNotice,
    /// The size that the provider refused last, until it accepts one. It matters only for the retries of one
    /// request, so it is not saved.
    #[serde(skip)]
    pub(super) last_refused_size: Option<Tokens>,
    /// The hashes of the ledgers whose rewrites the provider refused.
    #[serde(rename = "refused_rewrites")]
    pub(super) refused_ledger_hashes: Vec<u64>,
    /// The sizes that the last compaction left and removed.
    #[serde(rename = "last")]
    pub(super) last_compaction: Option<LastCompaction>,
    /// The number of requests when the session was compacted last.
    #[serde(rename = "compacted_at")]
    pub(super) request_count_at_compaction: Option<usize>,
    /// The number of compactions in a row that came within a few requests of the one before.
    pub(super) close_in_a_row: u32,
    /// The hash of the ledger whose rewrite the provider accepted last.
    #[serde(rename = "accepted")]
    pub(super) accepted_ledger_hash: Option<u64>,
    /// The number of the compaction that a reset discarded.
    #[serde(rename = "forgotten")]
    pub(super) reset_compaction: Option<usize>,
    /// Whether the newest change of the session's head was an undo, by the user or after a refusal.
    pub(super) is_undone: bool,
}

impl SessionState {
    /// Returns the state without the timing of requests, to see whether anything else changed.
    pub(super) fn without_timing(&self) -> Self {
        Self { prompt_cache: PromptCache::default(), ..self.clone() }
    }

    /// Returns the state for a new session of the same client: the cooldowns and the hash of the accepted
    /// ledger carry over.
    pub(super) fn for_new_session(&self) -> Self {
        let cooldowns = self.cooldowns.clone();
        Self { cooldowns, accepted_ledger_hash: self.accepted_ledger_hash, ..Self::default() }
    }
}
