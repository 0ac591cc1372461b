//! The decisions that apply to a session now, with what is derived from them.

use std::borrow::Cow;

use longhaul_engine::ledger::Ledger;
use longhaul_engine::{RewriteError, Transcript};

use super::request_context::{hash_ledger, replay_continuation, replay_ledger};

/// The number of own checkpoints to remember. Chosen by hand: an agent sends back the newest one, or returns
/// to one or two before it.
const MAX_REMEMBERED_CHECKPOINTS: usize = 4;

/// The ledger that each request of a session replays.
#[derive(Default)]
pub(super) struct ActiveLedger {
    current: Ledger,
    /// The number of times that the ledger was replaced. Equal numbers mean the same ledger.
    version: u64,
    /// The ledger before the current one, for undoing a refused compaction.
    previous: Ledger,
    /// The session's newest checkpoints, word for word: an agent may send them back as messages of its own.
    checkpoints: Vec<String>,
    /// The version that the last request replayed.
    replayed_version: Option<u64>,
    /// A version and the hash of its ledger, so that it is not hashed again.
    cached_hash: Option<(u64, u64)>,
}

impl ActiveLedger {
    /// Returns a ledger that was saved earlier.
    pub(super) fn restored(current: Ledger) -> Self {
        let checkpoints = current.checkpoint().map(str::to_owned).into_iter().collect();
        Self { current, checkpoints, ..Self::default() }
    }

    pub(super) fn current(&self) -> &Ledger {
        &self.current
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn checkpoints(&self) -> &[String] {
        &self.checkpoints
    }

    /// Replaces the ledger, and remembers the old one and the new checkpoint.
    pub(super) fn replace(&mut self, ledger: Ledger) {
        if ledger == self.current {
            return;
        }
        self.version += 1;
        if let Some(checkpoint) = ledger.checkpoint() {
            self.checkpoints.retain(|known| known != checkpoint);
            self.checkpoints.push(checkpoint.to_owned());
            let surplus = self.checkpoints.len().saturating_sub(MAX_REMEMBERED_CHECKPOINTS);
            self.checkpoints.drain(..surplus);
        }
        self.previous = std::mem::replace(&mut self.current, ledger);
    }

    /// Returns to the ledger before the current one, unless it is one of the refused ones, given by their
    /// hashes. Then nothing is compacted.
    pub(super) fn undo(&mut self, refused_hashes: &[u64]) {
        let previous = std::mem::take(&mut self.previous);
        let was_refused = refused_hashes.contains(&hash_ledger(&previous));
        self.replace(if was_refused { Ledger::default() } else { previous });
    }

    /// Forgets all decisions and checkpoints.
    pub(super) fn clear(&mut self) {
        self.replace(Ledger::default());
        self.previous = Ledger::default();
        self.checkpoints.clear();
    }

    /// Replays the ledger on a request. If the last request replayed the same ledger, it is not checked again
    /// whether the ledger matches the request.
    pub(super) fn replay<'b>(&mut self, transcript: &Transcript<'b>) -> Result<Cow<'b, str>, RewriteError> {
        let is_continuation = self.replayed_version == Some(self.version);
        let replay = if is_continuation { replay_continuation } else { replay_ledger };
        let view = replay(&self.current, transcript)?;
        self.replayed_version = matches!(view, Cow::Owned(_)).then_some(self.version);
        Ok(view)
    }

    /// Makes the next replay check whether the ledger matches its request, because that request does not continue
    /// one that replayed it.
    pub(super) fn forget_replay(&mut self) {
        self.replayed_version = None;
    }

    /// Returns the hash of the current ledger.
    pub(super) fn hash(&mut self) -> u64 {
        match self.cached_hash {
            Some((version, hash)) if version == self.version => hash,
            _ => {
                let hash = hash_ledger(&self.current);
                self.cached_hash = Some((self.version, hash));
                hash
            }
        }
    }
}
