//! Cooldowns: the time for which a model that failed is not asked for summaries again.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::summarize::SummaryFailure;
use crate::upstream::UpstreamError;
use longhaul_engine::Timestamp;

/// The cooldown after a reply that is broken, empty or of the wrong kind. Chosen by hand, like all of these.
const BROKEN_REPLY_COOLDOWN: Duration = Duration::from_secs(30);
/// The cooldowns after the first timeout in a row, the second, and every further one.
const TIMEOUT_COOLDOWNS: [Duration; 3] = [Duration::from_mins(1), Duration::from_mins(5), Duration::from_mins(15)];
/// The cooldown if the provider cannot be reached, refuses the key or the model, or the model's window is too
/// small.
const UNAVAILABLE_COOLDOWN: Duration = Duration::from_mins(10);
/// The cooldown if the provider is overloaded or limits the rate, and gives no delay.
const RATE_LIMIT_COOLDOWN: Duration = Duration::from_mins(1);

/// The models that are not asked for a while, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cooldowns(BTreeMap<String, Cooldown>);

/// The cooldown of one model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Cooldown {
    /// The end of the cooldown, in milliseconds since 1970.
    until: i64,
    /// The number of timeouts in a row.
    timeouts: usize,
}

impl Cooldowns {
    /// Returns the remaining cooldown of a model; `None` if it may be asked.
    #[must_use]
    pub fn remaining(&self, model: &str, now: Timestamp) -> Option<Duration> {
        let until = self.0.get(model)?.until;
        let remaining = u64::try_from(until.saturating_sub(now.0)).ok().filter(|remaining| *remaining > 0)?;
        Some(Duration::from_millis(remaining))
    }

    /// Returns the longest remaining cooldown of all models.
    #[must_use]
    pub fn longest_remaining(&self, now: Timestamp) -> Duration {
        self.0.keys().filter_map(|model| self.remaining(model, now)).max().unwrap_or_default()
    }

    /// Starts a cooldown after a failure.
    pub(super) fn record_failure(&mut self, model: &str, failure: &SummaryFailure, now: Timestamp) {
        let cooldown = self.0.entry(model.to_owned()).or_default();
        let timed_out = matches!(failure, SummaryFailure::Upstream(UpstreamError::TimedOut(_)));
        cooldown.timeouts = if timed_out { cooldown.timeouts + 1 } else { 0 };
        let duration = match failure {
            SummaryFailure::Upstream(UpstreamError::TimedOut(_)) => {
                TIMEOUT_COOLDOWNS[cooldown.timeouts.min(TIMEOUT_COOLDOWNS.len()).saturating_sub(1)]
            }
            SummaryFailure::Upstream(UpstreamError::RateLimited { delay } | UpstreamError::Overloaded { delay }) => {
                delay.unwrap_or(RATE_LIMIT_COOLDOWN)
            }
            SummaryFailure::Upstream(
                UpstreamError::Refused(_) | UpstreamError::Unreachable(_) | UpstreamError::Redirected(_),
            )
            | SummaryFailure::WindowTooSmall { .. } => UNAVAILABLE_COOLDOWN,
            SummaryFailure::Upstream(_)
            | SummaryFailure::Empty
            | SummaryFailure::Declined
            | SummaryFailure::CalledTool => BROKEN_REPLY_COOLDOWN,
        };
        cooldown.until = now.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX));
    }

    /// Ends the cooldown of a model that answered.
    pub(super) fn clear(&mut self, model: &str) {
        self.0.remove(model);
    }
}
