//! A summary in the background: begun before it is needed, used if it is ready, ended when nobody wants it any more.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Transcript;
use longhaul_engine::identity::{Identities, Identity};
use longhaul_engine::ledger::Ledger;
use longhaul_engine::prices::Dollars;
use longhaul_engine::summary::{Answer, Covers};
use tokio::task::JoinHandle;

use super::summarize::{Done, Task, summarize};
use crate::upstream::Models;

/// What stands at the beginning of a session, to know whether it is still the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beginning {
    messages: usize,
    identity: Option<Identity>,
}

impl Beginning {
    /// All but the newest messages, which a client may still change and no summary is about.
    pub(super) fn of(transcript: &Transcript<'_>, newest: usize) -> Self {
        let chain = chain(transcript);
        let messages = chain.len().saturating_sub(newest.max(1));
        Self { messages, identity: messages.checked_sub(1).map(|last| chain[last]) }
    }

    /// Whether a session still begins so.
    fn is_of(&self, transcript: &Transcript<'_>) -> bool {
        let last = self.messages.checked_sub(1);
        last.is_none_or(|last| chain(transcript).get(last).copied() == self.identity)
    }
}

fn chain(transcript: &Transcript<'_>) -> Vec<Identity> {
    Identities::new([0; 32]).chain(transcript)
}

/// For which state of a session a summary was asked.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    /// What had been decided: the units that were asked for stand in that view.
    pub(super) ledger: Ledger,
    pub(super) beginning: Beginning,
    /// The topic that was wanted before all else: no other compaction is served by it.
    pub(super) focus: Option<String>,
}

/// A summary that is being made.
#[derive(Debug)]
pub(super) struct Job {
    task: JoinHandle<Done>,
    basis: Basis,
    /// What was counted as spent when it began.
    pub(super) expected: Dollars,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A summary that nobody has used yet.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    pub(super) answer: Answer,
    pub(super) basis: Basis,
}

/// The summary for the next compaction. There is one per session, so its size does not matter.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    job: Option<Job>,
    ready: Option<Ready>,
    /// For which units and with which focus was asked last: the same are never asked for twice.
    asked: Option<(Covers, Option<String>)>,
}

impl Prepared {
    /// Whether there is one with this focus, or will be.
    pub(super) fn is_on_its_way(&self, focus: Option<&str>) -> bool {
        let is_ready = self.ready.as_ref().is_some_and(|ready| ready.basis.focus.as_deref() == focus);
        is_ready || self.is_running(focus)
    }

    /// Whether it is still being made.
    pub(super) fn is_running(&self, focus: Option<&str>) -> bool {
        self.job.as_ref().is_some_and(|job| job.basis.focus.as_deref() == focus)
    }

    /// Whether these very units were asked for before.
    pub(super) fn was_asked(&self, covers: &Covers, focus: Option<&str>) -> bool {
        self.asked.as_ref().is_some_and(|(asked, about)| asked == covers && about.as_deref() == focus)
    }

    /// Ends the one that is being made.
    pub(super) fn end(&mut self) {
        self.job = None;
    }

    /// Begins one.
    pub(super) fn begin(&mut self, models: Arc<dyn Models>, task: Task, basis: Basis, expected: Dollars) {
        self.asked = Some((task.ask.covers.clone(), basis.focus.clone()));
        self.ready = None;
        self.job = Some(Job { task: tokio::spawn(summarize(models, task)), basis, expected });
    }

    /// What came of the one that is being made, if that is over, or is within so long; and what had been counted as spent on it.
    pub(super) async fn collect(&mut self, wait: Duration) -> Option<(Done, Dollars)> {
        let job = self.job.as_mut()?;
        let done = if wait.is_zero() {
            if !job.task.is_finished() {
                return None;
            }
            (&mut job.task).await
        } else {
            tokio::time::timeout(wait, &mut job.task).await.ok()?
        };
        let job = self.job.take()?;
        // A task that broke has no answer, as one that failed has none.
        let done = done.unwrap_or(Done { answer: None, failed: Vec::new(), paid: None });
        if let Some(answer) = &done.answer {
            self.ready = Some(Ready { answer: answer.clone(), basis: job.basis.clone() });
        }
        Some((done, job.expected))
    }

    /// The one that is ready.
    pub(super) fn ready(&self) -> Option<&Ready> {
        self.ready.as_ref()
    }

    /// It was used, or cannot be any more.
    pub(super) fn used(&mut self) {
        self.ready = None;
    }

    /// Ends what is no longer wanted, because the units that it is about have changed.
    pub(super) fn keep_only_for(&mut self, transcript: &Transcript<'_>) {
        if self.job.as_ref().is_some_and(|job| !job.basis.beginning.is_of(transcript)) {
            self.job = None;
        }
        if self.ready.as_ref().is_some_and(|ready| !ready.basis.beginning.is_of(transcript)) {
            self.ready = None;
        }
    }
}
