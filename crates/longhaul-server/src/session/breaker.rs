//! Pauses automatic compaction that saves too little or comes too often.
//!
//! ```text
//! closed ──two in a row save under 10 %, or too many in an hour──▶ paused ──300 s, or regrown──▶ one try
//!   ▲                                                                                              │
//!   └──────────── it saves 10 % or more, and the hour has room ◀───────────────────────────────────┤
//!                                                     paused again ◀── it does not ────────────────┘
//! ```
//!
//! The breaker is saved across restarts.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::plan::StateReport;
use serde::{Deserialize, Serialize};

use longhaul_engine::Timestamp;

/// This many compactions in a row that save under a tenth cause a pause. Chosen by hand.
const MAX_INEFFECTIVE_IN_A_ROW: u32 = 2;
/// The time after which a paused compaction is tried again. Chosen by hand.
const PAUSE_DURATION: Duration = Duration::from_mins(5);
const HOUR_MS: i64 = 3_600_000;

/// Decides whether automatic compaction may run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Breaker {
    /// The number of compactions in a row that saved under a tenth.
    #[serde(rename = "in_vain")]
    ineffective_in_a_row: u32,
    /// The times of the compactions in the last hour, in milliseconds since 1970.
    recent: Vec<i64>,
    paused: Option<Pause>,
}

/// A pause of automatic compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The reason for the pause.
    #[serde(rename = "why")]
    pub reason: PauseReason,
    /// The request size when the pause began.
    #[serde(rename = "at")]
    pub size: Tokens,
    /// The minimum size: the tokens that no compaction can remove.
    #[serde(rename = "floor")]
    pub minimum_size: Tokens,
    /// The request size that ends the pause early. It does not apply to [`PauseReason::TooOften`].
    #[serde(rename = "regrown")]
    pub ends_at_size: Tokens,
    /// The time at which the pause ends, in milliseconds since 1970.
    until: i64,
}

/// The reason for a pause of automatic compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// The content that must stay fills nearly the whole request.
    Dense,
    /// The checkpoints are about as long as the turns that they replace.
    LongCheckpoints,
    /// There were too many compactions in an hour.
    TooOften,
}

/// The sizes before and after a compaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompactionEffect {
    /// The tokens of the request before the compaction.
    pub(super) before: Tokens,
    /// The tokens of the request after it.
    pub(super) after: Tokens,
    /// The tokens of the checkpoint, which are contained in `after`.
    pub(super) checkpoint: Tokens,
    /// The tokens that no compaction can remove.
    pub(super) minimum_size: Tokens,
}

impl CompactionEffect {
    fn saved_share(&self) -> f64 {
        (self.before - self.after).number() as f64 / self.before.number().max(1) as f64
    }

    /// Finds the reason for a small saving: a long checkpoint, or content that must stay.
    fn pause_reason(&self) -> PauseReason {
        let without_checkpoint = Self { after: self.after - self.checkpoint, checkpoint: Tokens::ZERO, ..*self };
        if is_effective(without_checkpoint.saved_share()) { PauseReason::LongCheckpoints } else { PauseReason::Dense }
    }
}

/// Whether a compaction that saves this share of a request is effective: whether it saves a tenth or more.
pub(super) fn is_effective(saved_share: f64) -> bool {
    StateReport::after(0, saved_share).ineffective_in_a_row == 0
}

impl Breaker {
    /// Whether automatic compaction may be tried at this size; the error is the current pause.
    pub(super) fn allows(&self, tokens: Tokens, now: Timestamp) -> Result<(), Pause> {
        match self.paused {
            Some(pause) if !pause.is_over(tokens, now) => Err(pause),
            _ => Ok(()),
        }
    }

    /// Records a compaction that was made or tried. Returns the pause, if automatic compaction pauses from
    /// now on.
    pub(super) fn record_compaction(
        &mut self,
        effect: CompactionEffect,
        max_per_hour: usize,
        window: Tokens,
        now: Timestamp,
    ) -> Option<Pause> {
        self.recent.retain(|at| now.0 - at < HOUR_MS);
        if effect.after < effect.before {
            self.recent.push(now.0);
        }
        self.ineffective_in_a_row =
            StateReport::after(self.ineffective_in_a_row, effect.saved_share()).ineffective_in_a_row;
        let reason = if self.ineffective_in_a_row >= MAX_INEFFECTIVE_IN_A_ROW {
            Some(effect.pause_reason())
        } else {
            (self.recent.len() > max_per_hour).then_some(PauseReason::TooOften)
        };
        self.paused = reason.map(|reason| Pause {
            reason,
            size: effect.after,
            minimum_size: effect.minimum_size,
            // A twentieth of the window may contain enough new turns to summarize.
            ends_at_size: effect.after + window / 20,
            until: now.0.saturating_add(PAUSE_DURATION.as_millis() as i64),
        });
        self.paused
    }

    /// Returns the newest pause; it may be over already.
    #[must_use]
    pub fn paused(&self) -> Option<&Pause> {
        self.paused.as_ref()
    }

    /// Returns the number of compactions in a row that saved under a tenth.
    #[must_use]
    pub fn ineffective_in_a_row(&self) -> u32 {
        self.ineffective_in_a_row
    }
}

impl Pause {
    fn is_over(&self, tokens: Tokens, now: Timestamp) -> bool {
        now.0 >= self.until || (self.reason != PauseReason::TooOften && tokens >= self.ends_at_size)
    }

    /// Returns the time at which the pause ends at the latest.
    #[must_use]
    pub fn until(&self) -> Timestamp {
        Timestamp(self.until)
    }
}

/// Formats the reason, the minimum size, advice, and the time of the next try.
impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { size, minimum_size, ends_at_size, .. } = self;
        f.write_str("automatic compaction is paused: ")?;
        match self.reason {
            PauseReason::Dense => write!(
                f,
                "two compactions in a row saved under 10 %, because nearly all of the {size} tokens must stay; the \
                 system prompt, the tools and the newest turn alone have {minimum_size}. A larger window, fewer tools \
                 or shorter results would help"
            )?,
            PauseReason::LongCheckpoints => write!(
                f,
                "two compactions in a row saved under 10 %, because the checkpoint is about as long as the turns \
                 that it replaces ({size} tokens in all, {minimum_size} of them cannot be removed). Another summarizer, \
                 or none, would help"
            )?,
            PauseReason::TooOften => write!(
                f,
                "there were too many compactions in an hour ({size} tokens, {minimum_size} of them cannot be removed). A larger window or a higher threshold \
                 would help"
            )?,
        }
        write!(f, "; the next try is at {}", self.until())?;
        if self.reason != PauseReason::TooOften {
            write!(f, ", or at {ends_at_size} tokens")?;
        }
        f.write_str("; /compress still works")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Tokens = Tokens(20_000);
    const INEFFECTIVE: CompactionEffect = CompactionEffect {
        before: Tokens(10_000),
        after: Tokens(9_500),
        checkpoint: Tokens(100),
        minimum_size: Tokens(9_000),
    };

    #[test]
    fn two_in_vain_pause_and_a_probe_that_works_ends_it() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.record_compaction(INEFFECTIVE, 20, WINDOW, Timestamp(0)), None);
        let pause = breaker.record_compaction(INEFFECTIVE, 20, WINDOW, Timestamp(1_000)).unwrap();
        assert_eq!((pause.reason, pause.minimum_size), (PauseReason::Dense, Tokens(9_000)));
        assert!(pause.to_string().contains("9,000"), "{pause}");
        assert!(breaker.allows(Tokens(9_600), Timestamp(2_000)).is_err());
        assert!(breaker.allows(Tokens(10_500), Timestamp(2_000)).is_ok(), "it has regrown");
        assert!(breaker.allows(Tokens(9_600), Timestamp(301_000)).is_ok(), "300 s are over");
        assert!(
            breaker.record_compaction(INEFFECTIVE, 20, WINDOW, Timestamp(301_000)).is_some(),
            "the probe was in vain"
        );
        let good = CompactionEffect { after: Tokens(4_000), ..INEFFECTIVE };
        assert_eq!(breaker.record_compaction(good, 20, WINDOW, Timestamp(700_000)), None);
        assert_eq!((breaker.ineffective_in_a_row(), breaker.paused()), (0, None));
    }

    #[test]
    fn a_good_one_between_two_in_vain_sets_the_count_back() {
        let mut breaker = Breaker::default();
        let good = CompactionEffect { after: Tokens(9_000), ..INEFFECTIVE };
        for outcome in [INEFFECTIVE, good, INEFFECTIVE] {
            assert_eq!(breaker.record_compaction(outcome, 20, WINDOW, Timestamp(0)), None);
        }
    }

    #[test]
    fn long_checkpoints_are_told_from_dense_requests() {
        let mut breaker = Breaker::default();
        let long = CompactionEffect { checkpoint: Tokens(4_000), ..INEFFECTIVE };
        breaker.record_compaction(long, 20, WINDOW, Timestamp(0));
        assert_eq!(
            breaker.record_compaction(long, 20, WINDOW, Timestamp(0)).unwrap().reason,
            PauseReason::LongCheckpoints
        );
    }

    #[test]
    fn too_many_in_an_hour_pause_and_growth_does_not_end_it() {
        let mut breaker = Breaker::default();
        let good = CompactionEffect { after: Tokens(4_000), ..INEFFECTIVE };
        let pauses: Vec<bool> =
            (0..5).map(|n| breaker.record_compaction(good, 3, WINDOW, Timestamp(n * 1_000)).is_some()).collect();
        assert_eq!(pauses, [false, false, false, true, true]);
        assert!(breaker.allows(Tokens(19_000), Timestamp(5_000)).is_err());
        assert!(breaker.allows(Tokens(19_000), Timestamp(400_000)).is_ok());
    }
}
