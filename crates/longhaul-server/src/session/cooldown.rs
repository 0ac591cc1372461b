//! How long a model that failed is not asked again, so that the next turns are spared it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::summarize::Failure;
use crate::agents::Moment;
use crate::upstream::Trouble;

/// After a broken stream, or what is no JSON.
const BROKEN: Duration = Duration::from_secs(30);
/// After the first time-out in a row, the second, and every further one.
const TIMED_OUT: [Duration; 3] = [Duration::from_mins(1), Duration::from_mins(5), Duration::from_mins(15)];
/// Where nobody answers, or nobody who would.
const NOBODY: Duration = Duration::from_mins(10);
/// Where the provider asks for patience and does not say how much.
const BUSY: Duration = Duration::from_mins(1);

/// The models that are not asked for a while, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cooldowns(BTreeMap<String, Resting>);

/// A model that rests.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Resting {
    /// Until when, in milliseconds since 1970.
    until: i64,
    /// Time-outs in a row.
    timeouts: usize,
}

impl Cooldowns {
    /// For how long a model is not asked yet; nothing, if it may be.
    #[must_use]
    pub fn left(&self, model: &str, now: Moment) -> Option<Duration> {
        let until = self.0.get(model)?.until;
        let left = u64::try_from(until.saturating_sub(now.0)).ok().filter(|left| *left > 0)?;
        Some(Duration::from_millis(left))
    }

    /// The longest of them all.
    #[must_use]
    pub fn longest(&self, now: Moment) -> Duration {
        self.0.keys().filter_map(|model| self.left(model, now)).max().unwrap_or_default()
    }

    /// A model failed.
    pub(super) fn failed(&mut self, model: &str, failure: &Failure, now: Moment) {
        let resting = self.0.entry(model.to_owned()).or_default();
        let timed_out = matches!(failure, Failure::Trouble(Trouble::TimedOut(_)));
        resting.timeouts = if timed_out { resting.timeouts + 1 } else { 0 };
        let rest = match failure {
            Failure::Trouble(Trouble::TimedOut(_)) => {
                TIMED_OUT[resting.timeouts.min(TIMED_OUT.len()).saturating_sub(1)]
            }
            Failure::Trouble(Trouble::RateLimited { delay } | Trouble::Overloaded { delay }) => {
                delay.unwrap_or(BUSY)
            }
            Failure::Trouble(Trouble::Refused(_) | Trouble::Unreachable(_) | Trouble::Redirected(_))
            | Failure::TooSmall { .. } => NOBODY,
            Failure::Trouble(_) | Failure::Empty | Failure::WouldNot | Failure::WantsTool => BROKEN,
        };
        resting.until = now.0.saturating_add(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX));
    }

    /// A model answered.
    pub(super) fn answered(&mut self, model: &str) {
        self.0.remove(model);
    }
}
