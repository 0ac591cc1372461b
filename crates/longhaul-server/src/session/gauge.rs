//! How large a request is: by the provider's own count of the last one, corrected by what was added since; else by an estimate that
//! is corrected by what the provider reported of earlier ones.

use std::fmt;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Usage;
use serde::{Deserialize, Serialize};

/// So many reports weigh alike; later ones weigh as much as one of so many, so that a change of the tokenizer is followed.
const EVEN: u32 = 8;
/// No report of a provider is believed that says more than this, or less than one of it, against our count.
const FURTHEST: f64 = 4.0;
/// The correction is taken in steps, because what was looked at is counted anew when it changes.
const STEP: f64 = 0.02;

/// How far our counts are off for one model, learned from what its provider reports.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// What our count is multiplied by.
    ratio: f64,
    /// How many reports it rests on.
    samples: u32,
    /// The mean error of our count alone, as a share,
    alone: f64,
    /// and of the corrected one, each time by what had been learned before; the first report has nothing before it.
    corrected: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self { ratio: 1.0, samples: 0, alone: 0.0, corrected: 0.0 }
    }
}

/// The mean error of counts before and after they are corrected, as shares of what the provider counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Errors {
    /// As we count.
    pub before: f64,
    /// Corrected by the reports before.
    pub after: f64,
    /// Over so many reports.
    pub samples: u32,
}

impl Calibration {
    /// Learns from one request: what we counted, uncorrected, and what the provider did.
    pub fn learn(&mut self, counted: Tokens, reported: Tokens) {
        if counted == Tokens::ZERO || reported == Tokens::ZERO {
            return;
        }
        let (counted, reported) = (counted.number() as f64, reported.number() as f64);
        let ratio = reported / counted;
        if !(1.0 / FURTHEST..=FURTHEST).contains(&ratio) {
            return;
        }
        let off = |counted: f64| (counted - reported).abs() / reported;
        let mean = |mean: f64, new: f64, of: u32| mean + (new - mean) / f64::from(of.max(1));
        if self.samples > 0 {
            self.corrected = mean(self.corrected, off(counted * self.ratio), self.samples);
        }
        self.samples = self.samples.saturating_add(1);
        self.alone = mean(self.alone, off(counted), self.samples);
        self.ratio = mean(self.ratio, ratio, self.samples.min(EVEN));
    }

    /// What a count is to be multiplied by, in steps and rounded up: estimates lean high.
    #[must_use]
    pub fn factor(&self) -> f64 {
        (self.ratio / STEP).ceil() * STEP
    }

    /// The errors, once there are two reports.
    #[must_use]
    pub fn errors(&self) -> Option<Errors> {
        let Self { alone, corrected, samples, .. } = *self;
        (samples > 1).then_some(Errors { before: alone, after: corrected, samples })
    }

    /// Whether anything was reported.
    #[must_use]
    pub fn is_learned(&self) -> bool {
        self.samples > 0
    }
}

/// The size of a request, and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Measured {
    /// Its tokens.
    pub tokens: Tokens,
    /// On whose word.
    pub by: By,
}

/// On whose word a size is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The provider counted the last request; what was added since is estimated.
    Provider,
    /// An estimate, corrected by what was reported before.
    Calibrated,
    /// An estimate.
    Estimate,
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provider => "by the provider's count",
            Self::Calibrated => "by a calibrated estimate",
            Self::Estimate => "estimated",
        })
    }
}

/// A request as we counted it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Count {
    /// Its tokens, corrected by
    pub(super) tokens: Tokens,
    /// this factor.
    pub(super) factor: f64,
    /// Which view of the session it is: what was counted of one says nothing of another.
    pub(super) view: u64,
}

impl Count {
    /// Whether another count is of the same view, and corrected alike.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.view == other.view && self.factor.to_bits() == other.factor.to_bits()
    }

    /// Uncorrected.
    fn alone(&self) -> Tokens {
        self.tokens.share(1.0 / self.factor)
    }
}

/// What was measured of the last request.
#[derive(Debug, Clone, Default)]
pub(super) struct Gauge {
    sent: Option<Count>,
    reported: Option<Tokens>,
    /// What went with it that is not counted,
    beside: Tokens,
    /// and what goes with the next.
    next_beside: Tokens,
}

impl Gauge {
    /// So many tokens go with the next request that it does not say itself.
    pub(super) fn beside(&mut self, tokens: Tokens) {
        self.next_beside = tokens;
    }

    /// What goes with the next request that it does not say itself.
    pub(super) fn beside_next(&self) -> Tokens {
        self.next_beside
    }

    /// So many went with the one that was sent.
    pub(super) fn went_beside(&mut self, tokens: Tokens) {
        self.beside = tokens;
    }

    /// The size of a request that is about to be sent.
    pub(super) fn measure(&self, count: Count, calibration: &Calibration) -> Measured {
        let before = self.sent.zip(self.reported).filter(|(sent, _)| sent.view == count.view);
        let added = |sent: Count| count.alone().number().checked_sub(sent.alone().number());
        match before.and_then(|(sent, reported)| Some((reported, Tokens(added(sent)?)))) {
            Some((reported, added)) => {
                let (before, now) = (self.beside, self.next_beside);
                Measured { tokens: reported - before + now + added.share(count.factor), by: By::Provider }
            }
            None if calibration.is_learned() => {
                Measured { tokens: count.tokens + self.next_beside, by: By::Calibrated }
            }
            None => Measured { tokens: count.tokens + self.next_beside, by: By::Estimate },
        }
    }

    /// A request was sent.
    pub(super) fn sent(&mut self, count: Count) {
        (self.sent, self.reported, self.beside) = (Some(count), None, self.next_beside);
    }

    /// What the request came to that was sent last.
    pub(super) fn last(&self) -> Option<Tokens> {
        self.reported.or(self.sent.map(|sent| sent.tokens))
    }

    /// The provider's report of it. What comes back is the size of the next request if nothing but the reply were added.
    pub(super) fn reported(&mut self, usage: &Usage, calibration: &mut Calibration) -> Option<Tokens> {
        let (sent, input) = (self.sent?, usage.input?);
        calibration.learn(sent.alone(), input - self.beside);
        self.reported = Some(input);
        Some(input + usage.output.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_falls_once_the_provider_has_reported() {
        let mut calibration = Calibration::default();
        for n in 1..20_u64 {
            // The provider counts 30 % more than we do, give or take two.
            let counted = 1_000 * n;
            calibration.learn(Tokens(counted), Tokens(counted * (128 + n % 5) / 100));
        }
        let errors = calibration.errors().unwrap();
        assert!(errors.before > 0.2 && errors.after < 0.02, "{errors:?}");
        assert!((1.28..1.34).contains(&calibration.factor()), "{calibration:?}");
    }

    #[test]
    fn nonsense_is_not_learned() {
        let mut calibration = Calibration::default();
        calibration.learn(Tokens(1_000), Tokens(3));
        calibration.learn(Tokens(0), Tokens(3));
        assert_eq!(calibration, Calibration::default());
    }

    #[test]
    fn the_providers_count_is_corrected_by_what_was_added() {
        let (mut gauge, mut calibration) = (Gauge::default(), Calibration::default());
        let count = |tokens, view| Count { tokens: Tokens(tokens), factor: 1.0, view };
        assert_eq!(gauge.measure(count(900, 0), &calibration).by, By::Estimate);
        gauge.sent(count(1_000, 0));
        let usage = Usage { input: Some(Tokens(1_200)), output: Some(Tokens(50)), ..Usage::default() };
        assert_eq!(gauge.reported(&usage, &mut calibration), Some(Tokens(1_250)));
        let next = gauge.measure(count(1_100, 0), &calibration);
        assert_eq!(next, Measured { tokens: Tokens(1_300), by: By::Provider });
        assert_eq!(gauge.measure(count(1_100, 1), &calibration).by, By::Calibrated, "another view");
        assert_eq!(gauge.measure(count(800, 0), &calibration).by, By::Calibrated, "an edited history");
    }
}
