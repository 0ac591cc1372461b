//! A summary that a model writes in the background: started before it is needed, used if it is ready in time,
//! cancelled if the history changes.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Transcript;
use longhaul_engine::keyed_hash::{KeyedHash, KeyedHasher};
use longhaul_engine::ledger::Ledger;
use longhaul_engine::prices::Dollars;
use longhaul_engine::summary::{ModelSummary, SummaryScope};
use tokio::task::JoinHandle;

use super::summarize::{SummaryResult, SummaryTask, summarize};
use crate::upstream::ModelClient;

/// The first messages of a session and their hash, to detect whether a client changed them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HistoryPrefix {
    messages: usize,
    last_hash: Option<KeyedHash>,
}

impl HistoryPrefix {
    /// Hashes all messages but the newest ones: a client may still change those, and no summary covers them.
    pub(super) fn new(transcript: &Transcript<'_>, newest: usize) -> Self {
        let chain = hash_chain(transcript);
        let messages = chain.len().saturating_sub(newest.max(1));
        Self { messages, last_hash: messages.checked_sub(1).map(|last| chain[last]) }
    }

    /// Whether a transcript still begins with these messages.
    fn matches(&self, transcript: &Transcript<'_>) -> bool {
        let last = self.messages.checked_sub(1);
        last.is_none_or(|last| hash_chain(transcript).get(last).copied() == self.last_hash)
    }
}

fn hash_chain(transcript: &Transcript<'_>) -> Vec<KeyedHash> {
    KeyedHasher::new([0; 32]).hash_chain(transcript)
}

/// The state of the session for which a summary was requested.
#[derive(Debug, Clone)]
pub(super) struct SummaryBasis {
    /// The ledger at that time. The turn numbers in the summary job refer to the transcript after this ledger.
    pub(super) ledger: Ledger,
    pub(super) prefix: HistoryPrefix,
    /// The topic that the summary keeps before anything else. Only a compaction with the same focus uses the
    /// summary.
    pub(super) focus: Option<String>,
}

/// A summary that is planned and not requested yet.
pub(super) struct PlannedSummary {
    pub(super) models: Arc<dyn ModelClient>,
    pub(super) task: SummaryTask,
    pub(super) basis: SummaryBasis,
    /// The cost to reserve, for all attempts together.
    pub(super) expected_cost: Dollars,
}

/// A summary that a background task is writing. Dropping it cancels the task.
#[derive(Debug)]
pub(super) struct RunningSummary {
    task: JoinHandle<SummaryResult>,
    basis: SummaryBasis,
    /// The cost that was recorded as spent when the task started.
    pub(super) expected_cost: Dollars,
}

impl Drop for RunningSummary {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A finished summary that no compaction has used yet.
#[derive(Debug, Clone)]
pub(super) struct ReadySummary {
    pub(super) summary: ModelSummary,
    pub(super) basis: SummaryBasis,
}

/// The background summary of one session: at most one planned, one running, and one ready.
#[derive(Default)]
pub(super) struct BackgroundSummary {
    planned: Option<PlannedSummary>,
    running: Option<RunningSummary>,
    ready: Option<ReadySummary>,
    /// The turns and the focus of the last request: the same summary is never requested twice.
    last_asked: Option<(SummaryScope, Option<String>)>,
}

impl BackgroundSummary {
    /// Whether a summary with this focus is ready, running or planned.
    pub(super) fn is_begun(&self, focus: Option<&str>) -> bool {
        let is_ready = self.ready.as_ref().is_some_and(|ready| ready.basis.focus.as_deref() == focus);
        let is_planned = self.planned.as_ref().is_some_and(|planned| planned.basis.focus.as_deref() == focus);
        is_ready || is_planned || self.is_running(focus)
    }

    /// Whether a summary with this focus is running.
    pub(super) fn is_running(&self, focus: Option<&str>) -> bool {
        self.running.as_ref().is_some_and(|job| job.basis.focus.as_deref() == focus)
    }

    /// Whether the last request was for the same turns and the same focus.
    pub(super) fn was_requested(&self, scope: &SummaryScope, focus: Option<&str>) -> bool {
        self.last_asked
            .as_ref()
            .is_some_and(|(last_scope, last_focus)| last_scope == scope && last_focus.as_deref() == focus)
    }

    /// Cancels the running summary.
    pub(super) fn cancel(&mut self) {
        self.running = None;
    }

    /// Keeps a summary that is requested later, in place of an earlier plan.
    pub(super) fn plan(&mut self, planned: PlannedSummary) {
        self.planned = Some(planned);
    }

    /// Returns the planned summary, to complete it.
    pub(super) fn planned(&mut self) -> Option<&mut PlannedSummary> {
        self.planned.as_mut()
    }

    /// Removes and returns the planned summary.
    pub(super) fn take_planned(&mut self) -> Option<PlannedSummary> {
        self.planned.take()
    }

    /// Starts a summary, and drops one that is ready.
    pub(super) fn start(&mut self, planned: PlannedSummary) {
        let PlannedSummary { models, task, basis, expected_cost } = planned;
        self.last_asked = Some((task.job.scope.clone(), basis.focus.clone()));
        self.ready = None;
        self.running = Some(RunningSummary { task: tokio::spawn(summarize(models, task)), basis, expected_cost });
    }

    /// Returns the result of the running summary and its expected cost, if it is finished or finishes within
    /// `wait`.
    pub(super) async fn collect(&mut self, wait: Duration) -> Option<(SummaryResult, Dollars)> {
        let job = self.running.as_mut()?;
        let result = if wait.is_zero() {
            if !job.task.is_finished() {
                return None;
            }
            (&mut job.task).await
        } else {
            tokio::time::timeout(wait, &mut job.task).await.ok()?
        };
        let job = self.running.take()?;
        // A task that panicked has no summary, like one that failed.
        let result = result.unwrap_or(SummaryResult { summary: None, failures: Vec::new(), cost: None });
        if let Some(summary) = &result.summary {
            self.ready = Some(ReadySummary { summary: summary.clone(), basis: job.basis.clone() });
        }
        Some((result, job.expected_cost))
    }

    /// Returns the summary that is ready.
    pub(super) fn ready(&self) -> Option<&ReadySummary> {
        self.ready.as_ref()
    }

    /// Drops the ready summary because a compaction used it, or no compaction can use it any more.
    pub(super) fn discard_ready(&mut self) {
        self.ready = None;
    }

    /// Cancels and drops summaries of turns that the client has changed since.
    pub(super) fn discard_if_changed(&mut self, transcript: &Transcript<'_>) {
        if self.running.as_ref().is_some_and(|job| !job.basis.prefix.matches(transcript)) {
            self.running = None;
        }
        if self.ready.as_ref().is_some_and(|ready| !ready.basis.prefix.matches(transcript)) {
            self.ready = None;
        }
    }
}
