//! How near a session is to its next compaction, told to people once per crossing, and never to the model.

use longhaul_engine::Tokens;
use serde::{Deserialize, Serialize};

/// Said from this share of the threshold on.
const TOLD_AT: f64 = 0.85;

/// Whether the pressure was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pressure {
    told: bool,
}

impl Pressure {
    /// What is to be said of a request of this size, if anything.
    pub(super) fn of(&mut self, tokens: Tokens, threshold: Tokens) -> Option<String> {
        let is_high = tokens >= threshold.share(TOLD_AT);
        let crossed = is_high && !self.told;
        self.told = is_high;
        let share = 100.0 * tokens.number() as f64 / threshold.number().max(1) as f64;
        crossed.then(|| {
            format!("context at {share:.0} % of the compaction threshold ({tokens}/{threshold} tokens)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_per_crossing() {
        let mut pressure = Pressure::default();
        let mut said = |tokens| pressure.of(Tokens(tokens), Tokens(50_000));
        assert_eq!(said(40_000), None);
        assert_eq!(
            said(42_500).as_deref(),
            Some("context at 85 % of the compaction threshold (42,500/50,000 tokens)")
        );
        assert_eq!(said(45_000), None);
        assert_eq!(said(20_000), None, "it has fallen");
        assert!(said(44_000).is_some());
    }
}
