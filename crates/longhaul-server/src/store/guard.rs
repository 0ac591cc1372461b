//! Keeps a store that does not answer from delaying whoever asks it: after the first time-out nobody waits for it any more, until a
//! probe in the background finds that it answers again.
//!
//! ```text
//! answers ──a time-out, or it cannot be reached──▶ down: refused at once ──a probe is answered──▶ answers
//!    └──an error that comes at once (full, read-only, damaged)──▶ failing: asked all the same, and reported
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Backend;
use super::error::{Result, StoreError};

/// A caller waits for the store for this long, once: it is the most that a sick store adds to a request.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// The first probe comes so soon: a store that was only slow is back with the next request or two.
const FIRST_PROBE: Duration = Duration::from_millis(250);
/// Probes come at least this often.
const MAX_PROBE_PAUSE: Duration = Duration::from_secs(5);
/// A probe may take longer than a request may wait: it holds up nobody.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The health of a store, as seen by one process.
#[derive(Default)]
pub(super) struct Guard {
    health: Mutex<Health>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Health {
    #[default]
    Answers,
    /// It is asked, and the newest change that it was asked for failed with this.
    Failing(StoreError),
    /// It is not asked.
    Down(StoreError),
}

/// Whether the work changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Guard {
    /// Why the store cannot be relied on at the moment.
    pub(super) fn trouble(&self) -> Option<StoreError> {
        match &*self.health() {
            Health::Answers => None,
            Health::Failing(error) | Health::Down(error) => Some(error.clone()),
        }
    }

    /// Asks the store, unless it is down.
    pub(super) async fn run<T>(
        self: &Arc<Self>,
        backend: &Backend,
        access: Access,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if let Health::Down(error) = &*self.health() {
            return Err(error.clone());
        }
        let limit = STORE_TIMEOUT.as_secs();
        let late = || StoreError::Unreachable(format!("the store did not answer within {limit} s"));
        let done = timeout(STORE_TIMEOUT, work).await.unwrap_or_else(|_| Err(late()));
        match &done {
            Ok(_) if access == Access::Write => self.answers(),
            Ok(_) | Err(StoreError::Unknown(_) | StoreError::Wrong(_) | StoreError::Newer(_)) => {}
            Err(error @ (StoreError::Busy(_) | StoreError::Unreachable(_))) => self.is_down(backend, error),
            Err(error) => self.fails(error),
        }
        done
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answers(&self) {
        let before = std::mem::take(&mut *self.health());
        if before != Health::Answers {
            tracing::warn!("the store answers again: sessions are recorded from now on");
        }
    }

    fn fails(&self, error: &StoreError) {
        let mut health = self.health();
        if matches!(&*health, Health::Answers) {
            tracing::warn!(
                "the store fails ({error}): sessions are compacted from memory, without recall IDs"
            );
        }
        if !matches!(&*health, Health::Down(_)) {
            *health = Health::Failing(error.clone());
        }
    }

    fn is_down(self: &Arc<Self>, backend: &Backend, error: &StoreError) {
        let before = std::mem::replace(&mut *self.health(), Health::Down(error.clone()));
        if matches!(before, Health::Down(_)) {
            return;
        }
        tracing::warn!(
            "the store is unavailable ({error}): sessions are compacted from memory, without recall IDs, until it answers"
        );
        let (guard, backend) = (Arc::downgrade(self), backend.clone());
        tokio::spawn(async move {
            let mut pause = FIRST_PROBE;
            loop {
                sleep(pause).await;
                let Some(guard) = guard.upgrade() else { return };
                if let Ok(Ok(())) = timeout(PROBE_TIMEOUT, backend.probe()).await {
                    return guard.answers();
                }
                pause = (pause * 2).min(MAX_PROBE_PAUSE);
            }
        });
    }
}
