//! A circuit breaker: keeps a store that does not answer from delaying its callers. After the first time-out
//! nobody waits for the store, until a probe in the background finds that it answers again.
//!
//! ```text
//! healthy ──a time-out, or it cannot be reached──▶ down: refused at once ──a probe succeeds──▶ healthy
//!    └──an immediate error (full, read-only, damaged)──▶ failing: still used, and reported ──a write succeeds──▶ healthy
//! ```

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{sleep, timeout};

use super::Backend;
use super::error::{Result, StoreError};

/// The time that a caller waits for the store, and thus the most that an unavailable store adds to a request.
/// Chosen by hand.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// The delay of the first probe. It is short, so that a store that was only slow is back after a request or
/// two. Chosen by hand.
const FIRST_PROBE_DELAY: Duration = Duration::from_millis(250);
/// The longest pause between two probes. Chosen by hand.
const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// The time limit of a probe. It may be longer than that of a request, since nobody waits for a probe. Chosen
/// by hand.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The circuit breaker of a store, with the store's health as this process sees it.
#[derive(Default)]
pub(super) struct CircuitBreaker {
    health: Mutex<Health>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Health {
    #[default]
    Healthy,
    /// The store is still used, but the newest failed access ended with this error.
    Failing(StoreError),
    /// The store is not used until a probe succeeds.
    Down(StoreError),
}

/// Whether the work changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessKind {
    Read,
    Write,
}

impl CircuitBreaker {
    /// Returns why the store is failing or unavailable now, or `None` if it works.
    pub(super) fn health_error(&self) -> Option<StoreError> {
        match &*self.health() {
            Health::Healthy => None,
            Health::Failing(error) | Health::Down(error) => Some(error.clone()),
        }
    }

    /// Runs work on the store, or fails at once if the store is down.
    pub(super) async fn run<T>(
        self: &Arc<Self>,
        backend: &Backend,
        access: AccessKind,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if let Health::Down(error) = &*self.health() {
            return Err(error.clone());
        }
        let limit = STORE_TIMEOUT.as_secs();
        let timed_out = || StoreError::Unreachable(format!("the store did not answer within {limit} s"));
        let result = timeout(STORE_TIMEOUT, work).await.unwrap_or_else(|_| Err(timed_out()));
        match &result {
            Ok(_) if access == AccessKind::Write => self.mark_healthy(),
            Ok(_) | Err(StoreError::NotFound(_) | StoreError::InvalidInput(_) | StoreError::TooNew(_)) => {}
            Err(error @ (StoreError::Busy(_) | StoreError::Unreachable(_))) => self.mark_down(backend, error),
            Err(error) => self.mark_failing(error),
        }
        result
    }

    fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock()
    }

    fn mark_healthy(&self) {
        let previous = std::mem::take(&mut *self.health());
        if previous != Health::Healthy {
            tracing::warn!("the store is available again: sessions are recorded from now on");
        }
    }

    fn mark_failing(&self, error: &StoreError) {
        let mut health = self.health();
        if matches!(&*health, Health::Healthy) {
            tracing::warn!("the store failed ({error}): sessions are in memory only, without recall IDs");
        }
        if !matches!(&*health, Health::Down(_)) {
            *health = Health::Failing(error.clone());
        }
    }

    fn mark_down(self: &Arc<Self>, backend: &Backend, error: &StoreError) {
        let previous = std::mem::replace(&mut *self.health(), Health::Down(error.clone()));
        if matches!(previous, Health::Down(_)) {
            return;
        }
        tracing::warn!(
            "the store is unavailable ({error}): sessions are in memory only, without recall IDs, until it answers"
        );
        let (breaker, backend) = (Arc::downgrade(self), backend.clone());
        tokio::spawn(async move {
            let mut pause = FIRST_PROBE_DELAY;
            loop {
                sleep(pause).await;
                let Some(breaker) = breaker.upgrade() else { return };
                if let Ok(Ok(())) = timeout(PROBE_TIMEOUT, backend.check_writable()).await {
                    return breaker.mark_healthy();
                }
                pause = (pause * 2).min(MAX_PROBE_INTERVAL);
            }
        });
    }
}
