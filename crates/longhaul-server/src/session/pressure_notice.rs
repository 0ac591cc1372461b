//! Notifies people that a session is near its next compaction, once each time that it gets there. The model
//! never sees it.

use longhaul_engine::Tokens;
use serde::{Deserialize, Serialize};

/// The share of the threshold from which the notice is given. Chosen by hand.
const NOTICE_SHARE: f64 = 0.85;

/// Remembers whether the notice was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PressureNotice {
    /// Whether the notice was given and still applies.
    #[serde(rename = "told")]
    is_given: bool,
}

impl PressureNotice {
    /// Updates the state for a request of this size, and returns the notice if the size has just crossed the
    /// limit.
    pub(super) fn update(&mut self, tokens: Tokens, threshold: Tokens) -> Option<String> {
        let is_high = tokens >= threshold.share(NOTICE_SHARE);
        let crossed = is_high && !self.is_given;
        self.is_given = is_high;
        let share = 100.0 * tokens.number() as f64 / threshold.number().max(1) as f64;
        crossed.then(|| format!("context at {share:.0} % of the compaction threshold ({tokens}/{threshold} tokens)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_per_crossing() {
        let mut pressure = PressureNotice::default();
        let mut notice_at = |tokens| pressure.update(Tokens(tokens), Tokens(50_000));
        assert_eq!(notice_at(40_000), None);
        assert_eq!(
            notice_at(42_500).as_deref(),
            Some("context at 85 % of the compaction threshold (42,500/50,000 tokens)")
        );
        assert_eq!(notice_at(45_000), None);
        assert_eq!(notice_at(20_000), None, "it has fallen");
        assert!(notice_at(44_000).is_some());
    }
}
