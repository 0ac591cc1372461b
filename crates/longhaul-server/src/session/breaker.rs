//! When automatic compaction pauses: where it saves too little, comes too often, or costs too much.
//!
//! ```text
//! closed ──two in a row save under 10 %, or too many in an hour──▶ paused ──300 s, or regrown──▶ a probe
//!   ▲                                                                                              │
//!   └──────────────────────── it saves 10 % or more ◀──────────────────────────────────────────────┤
//!                                                     paused again ◀── it does not ────────────────┘
//! ```
//!
//! The money is apart from that: where a day's is spent, no model is asked, and the checkpoints are made by code. All of it is kept
//! across restarts.

use std::fmt;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::plan::StateReport;
use longhaul_engine::prices::Dollars;
use serde::{Deserialize, Serialize};

use crate::agents::Moment;

/// So many compactions in a row may save too little.
const IN_VAIN: u32 = 2;
/// After so long a paused one is tried again.
const PROBE_AFTER: Duration = Duration::from_mins(5);
const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// The state of the breaker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Breaker {
    /// Compactions in a row that saved under a tenth.
    in_vain: u32,
    /// When there were compactions in the last hour, in milliseconds since 1970.
    recent: Vec<i64>,
    paused: Option<Pause>,
    /// The day that money was spent on last, in days since 1970,
    day: i64,
    /// and how much it was.
    spent: f64,
}

/// Automatic compaction pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Why.
    pub why: Why,
    /// The size at which it began.
    pub at: Tokens,
    /// What no compaction can remove.
    pub floor: Tokens,
    /// It is tried again from this size on, unless it came too often,
    pub regrown: Tokens,
    /// or from this moment on, in milliseconds since 1970.
    until: i64,
}

/// Why it pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// What must stay fills the request.
    Dense,
    /// The checkpoints are about as long as what they replace.
    LongCheckpoints,
    /// There were too many in an hour.
    TooOften,
}

/// How a compaction turned out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    /// The size before
    pub(super) before: Tokens,
    /// and after.
    pub(super) after: Tokens,
    /// The checkpoint in it.
    pub(super) checkpoint: Tokens,
    /// What no compaction can remove.
    pub(super) floor: Tokens,
}

impl Outcome {
    fn saved(&self) -> f64 {
        (self.before - self.after).number() as f64 / self.before.number().max(1) as f64
    }

    /// Whether it was the checkpoint that took what was gained.
    fn why(&self) -> Why {
        let without = Self { after: self.after - self.checkpoint, checkpoint: Tokens::ZERO, ..*self };
        if StateReport::after(0, without.saved()).ineffective_in_a_row == 0 {
            Why::LongCheckpoints
        } else {
            Why::Dense
        }
    }
}

impl Breaker {
    /// Whether automatic compaction may be tried at this size; if not, why.
    pub(super) fn allows(&self, tokens: Tokens, now: Moment) -> Result<(), Pause> {
        match self.paused {
            Some(pause) if !pause.is_over(tokens, now) => Err(pause),
            _ => Ok(()),
        }
    }

    /// A compaction was tried. Where automatic compaction pauses from now on, it says so.
    pub(super) fn tried(
        &mut self,
        outcome: Outcome,
        most_an_hour: usize,
        window: Tokens,
        now: Moment,
    ) -> Option<Pause> {
        self.recent.retain(|at| now.0 - at < HOUR);
        if outcome.after < outcome.before {
            self.recent.push(now.0);
        }
        self.in_vain = StateReport::after(self.in_vain, outcome.saved()).ineffective_in_a_row;
        let why = if self.in_vain >= IN_VAIN {
            Some(outcome.why())
        } else {
            (self.recent.len() > most_an_hour).then_some(Why::TooOften)
        };
        self.paused = why.map(|why| Pause {
            why,
            at: outcome.after,
            floor: outcome.floor,
            // What a twentieth of the window adds may be foldable.
            regrown: outcome.after + window / 20,
            until: now.0.saturating_add(PROBE_AFTER.as_millis() as i64),
        });
        self.paused
    }

    /// The pause that is on, if one is.
    #[must_use]
    pub fn paused(&self) -> Option<&Pause> {
        self.paused.as_ref()
    }

    /// How many compactions in a row saved under a tenth.
    #[must_use]
    pub fn in_vain(&self) -> u32 {
        self.in_vain
    }

    /// What models were paid today.
    #[must_use]
    pub fn spent(&self, now: Moment) -> Dollars {
        if now.0.div_euclid(DAY) == self.day { Dollars(self.spent) } else { Dollars::ZERO }
    }

    /// One that begins anew: only what was spent stays spent.
    pub(super) fn anew(&self) -> Self {
        Self { day: self.day, spent: self.spent, ..Self::default() }
    }

    /// Money is spent; a negative amount corrects an estimate.
    pub(super) fn spend(&mut self, amount: Dollars, now: Moment) {
        self.spent = (self.spent(now) + amount).0.max(0.0);
        self.day = now.0.div_euclid(DAY);
    }
}

impl Pause {
    fn is_over(&self, tokens: Tokens, now: Moment) -> bool {
        now.0 >= self.until || (self.why != Why::TooOften && tokens >= self.regrown)
    }

    /// Until when it lasts at most.
    #[must_use]
    pub fn until(&self) -> Moment {
        Moment(self.until)
    }
}

/// Why, what cannot be removed, what can be done, and when it is tried again.
impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, floor, regrown, .. } = self;
        f.write_str("automatic compaction pauses: ")?;
        match self.why {
            Why::Dense => write!(
                f,
                "two in a row saved under 10 %, because nearly all of the {at} tokens has to stay; the system prompt, the tools and \
                 the newest turn alone come to {floor}. A larger window, fewer tools or shorter results would help"
            )?,
            Why::LongCheckpoints => write!(
                f,
                "two in a row saved under 10 %, because the checkpoint is about as long as what it replaces ({at} tokens in all, \
                 {floor} of which always stay). Another summarizer, or none, would help"
            )?,
            Why::TooOften => write!(
                f,
                "there were too many in an hour ({at} tokens, {floor} of which always stay). A larger window or a higher threshold \
                 would help"
            )?,
        }
        write!(f, "; it is tried again at {}", self.until())?;
        if self.why != Why::TooOften {
            write!(f, ", or from {regrown} tokens on")?;
        }
        f.write_str("; asking for one works meanwhile")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Tokens = Tokens(20_000);
    const VAIN: Outcome = Outcome {
        before: Tokens(10_000),
        after: Tokens(9_500),
        checkpoint: Tokens(100),
        floor: Tokens(9_000),
    };

    #[test]
    fn two_in_vain_pause_and_a_probe_that_works_ends_it() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.tried(VAIN, 20, WINDOW, Moment(0)), None);
        let pause = breaker.tried(VAIN, 20, WINDOW, Moment(1_000)).unwrap();
        assert_eq!((pause.why, pause.floor), (Why::Dense, Tokens(9_000)));
        assert!(pause.to_string().contains("9,000"), "{pause}");
        assert!(breaker.allows(Tokens(9_600), Moment(2_000)).is_err());
        assert!(breaker.allows(Tokens(10_500), Moment(2_000)).is_ok(), "it has regrown");
        assert!(breaker.allows(Tokens(9_600), Moment(301_000)).is_ok(), "300 s are over");
        assert!(breaker.tried(VAIN, 20, WINDOW, Moment(301_000)).is_some(), "the probe was in vain");
        let good = Outcome { after: Tokens(4_000), ..VAIN };
        assert_eq!(breaker.tried(good, 20, WINDOW, Moment(700_000)), None);
        assert_eq!((breaker.in_vain(), breaker.paused()), (0, None));
    }

    #[test]
    fn a_good_one_between_two_in_vain_sets_the_count_back() {
        let mut breaker = Breaker::default();
        let good = Outcome { after: Tokens(9_000), ..VAIN };
        for outcome in [VAIN, good, VAIN] {
            assert_eq!(breaker.tried(outcome, 20, WINDOW, Moment(0)), None);
        }
    }

    #[test]
    fn long_checkpoints_are_told_from_dense_requests() {
        let mut breaker = Breaker::default();
        let long = Outcome { checkpoint: Tokens(4_000), ..VAIN };
        breaker.tried(long, 20, WINDOW, Moment(0));
        assert_eq!(breaker.tried(long, 20, WINDOW, Moment(0)).unwrap().why, Why::LongCheckpoints);
    }

    #[test]
    fn too_many_in_an_hour_pause_and_growth_does_not_end_it() {
        let mut breaker = Breaker::default();
        let good = Outcome { after: Tokens(4_000), ..VAIN };
        let pauses: Vec<bool> =
            (0..5).map(|n| breaker.tried(good, 3, WINDOW, Moment(n * 1_000)).is_some()).collect();
        assert_eq!(pauses, [false, false, false, true, true]);
        assert!(breaker.allows(Tokens(19_000), Moment(5_000)).is_err());
        assert!(breaker.allows(Tokens(19_000), Moment(400_000)).is_ok());
    }

    #[test]
    fn what_is_spent_counts_for_a_day() {
        let mut breaker = Breaker::default();
        breaker.spend(Dollars(0.5), Moment(1_000));
        breaker.spend(Dollars(-0.2), Moment(2_000));
        assert!((breaker.spent(Moment(3_000)).0 - 0.3).abs() < 1e-9);
        assert_eq!(breaker.spent(Moment(DAY + 1)), Dollars::ZERO);
    }
}
