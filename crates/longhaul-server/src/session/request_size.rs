//! The size of a request in tokens: the provider's count of the last request plus an estimate of what was
//! added since; else an estimate that is calibrated with the provider's earlier reports.

use std::fmt;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Usage;
use serde::{Deserialize, Serialize};

/// The calibration is the plain mean of up to this many reports. After that each new report has the weight of
/// one in this many, so that the calibration follows a change of the tokenizer. Chosen by hand.
const MAX_AVERAGED_REPORTS: u32 = 8;
/// A provider's report is ignored if it differs from our count by more than this factor, up or down. Chosen
/// by hand.
const MAX_CALIBRATION_RATIO: f64 = 4.0;
/// The calibration factor changes in steps of this size, because each change invalidates the cached counts.
/// Chosen by hand.
const CALIBRATION_STEP: f64 = 0.02;

/// How far our token counts are off for one model, learned from the provider's reports.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The factor from our count to the provider's.
    ratio: f64,
    /// The number of reports behind the ratio.
    samples: u32,
    /// The mean error of our uncorrected count, as a share of the provider's.
    #[serde(rename = "alone")]
    uncorrected_error: f64,
    /// The mean error of the corrected count. Each report is compared with the ratio learned before it, so
    /// the first one does not count.
    #[serde(rename = "corrected")]
    corrected_error: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self { ratio: 1.0, samples: 0, uncorrected_error: 0.0, corrected_error: 0.0 }
    }
}

/// The mean error of our counts without and with calibration, as shares of the provider's count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CalibrationErrors {
    /// The mean error without calibration.
    pub before: f64,
    /// The mean error with the calibration learned before each report.
    pub after: f64,
    /// The number of reports.
    pub samples: u32,
}

impl Calibration {
    /// Learns from one request: our uncorrected count, and the provider's.
    pub fn learn(&mut self, counted: Tokens, reported: Tokens) {
        if counted == Tokens::ZERO || reported == Tokens::ZERO {
            return;
        }
        let (counted, reported) = (counted.number() as f64, reported.number() as f64);
        let ratio = reported / counted;
        if !(1.0 / MAX_CALIBRATION_RATIO..=MAX_CALIBRATION_RATIO).contains(&ratio) {
            return;
        }
        let error_of = |counted: f64| (counted - reported).abs() / reported;
        let mean = |mean: f64, new: f64, of: u32| mean + (new - mean) / f64::from(of.max(1));
        if self.samples > 0 {
            self.corrected_error = mean(self.corrected_error, error_of(counted * self.ratio), self.samples);
        }
        self.samples = self.samples.saturating_add(1);
        self.uncorrected_error = mean(self.uncorrected_error, error_of(counted), self.samples);
        self.ratio = mean(self.ratio, ratio, self.samples.min(MAX_AVERAGED_REPORTS));
    }

    /// Returns the factor for our counts, rounded up to the next step, so that estimates are rather too high
    /// than too low.
    #[must_use]
    pub fn factor(&self) -> f64 {
        (self.ratio / CALIBRATION_STEP).ceil() * CALIBRATION_STEP
    }

    /// Returns the mean errors, once there are two reports.
    #[must_use]
    pub fn errors(&self) -> Option<CalibrationErrors> {
        let Self { uncorrected_error, corrected_error, samples, .. } = *self;
        (samples > 1).then_some(CalibrationErrors { before: uncorrected_error, after: corrected_error, samples })
    }

    /// Whether there was any report.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.samples > 0
    }
}

/// The size of a request, and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MeasuredSize {
    /// The request's tokens.
    pub tokens: Tokens,
    /// The origin of the size.
    pub by: MeasuredBy,
}

/// The origin of a request's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MeasuredBy {
    /// The provider counted the last request; what was added since is estimated.
    Provider,
    /// An estimate, corrected by the provider's earlier reports.
    Calibrated,
    /// An uncorrected estimate.
    Estimate,
}

impl fmt::Display for MeasuredBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provider => "counted by the provider",
            Self::Calibrated => "calibrated estimate",
            Self::Estimate => "estimated",
        })
    }
}

/// Our own count of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TokenCount {
    /// The tokens, after the correction by `factor`.
    pub(super) tokens: Tokens,
    /// The calibration factor that is contained in `tokens`.
    pub(super) factor: f64,
    /// The version of the ledger that the counted request was made with. Counts with different versions
    /// cannot be compared.
    pub(super) ledger_version: u64,
}

impl TokenCount {
    /// Whether another count has the same ledger and the same calibration factor.
    pub(super) fn is_comparable_to(&self, other: &Self) -> bool {
        self.ledger_version == other.ledger_version && self.factor.to_bits() == other.factor.to_bits()
    }

    /// Returns the count without the calibration factor.
    fn uncorrected(&self) -> Tokens {
        self.tokens.share(1.0 / self.factor)
    }
}

/// The count and the report of the last request, from which the next one is measured.
#[derive(Debug, Clone, Default)]
pub(super) struct SizeTracker {
    last_count: Option<TokenCount>,
    last_reported: Option<Tokens>,
    /// The tokens that the caller added to the last request, and that our count does not contain.
    sent_extra: Tokens,
    /// The tokens that the caller will add to the next request.
    next_extra: Tokens,
}

impl SizeTracker {
    /// Sets the tokens that the caller will add to the next request.
    pub(super) fn set_next_extra(&mut self, tokens: Tokens) {
        self.next_extra = tokens;
    }

    /// Returns the tokens that the caller will add to the next request.
    pub(super) fn next_extra(&self) -> Tokens {
        self.next_extra
    }

    /// Sets the tokens that the caller added to the last request.
    pub(super) fn set_sent_extra(&mut self, tokens: Tokens) {
        self.sent_extra = tokens;
    }

    /// Measures a request that is about to be sent.
    pub(super) fn measure(&self, count: TokenCount, calibration: &Calibration) -> MeasuredSize {
        let previous =
            self.last_count.zip(self.last_reported).filter(|(sent, _)| sent.ledger_version == count.ledger_version);
        let added = |sent: TokenCount| count.uncorrected().number().checked_sub(sent.uncorrected().number());
        match previous.and_then(|(sent, reported)| Some((reported, Tokens(added(sent)?)))) {
            Some((reported, added)) => {
                let (previous_extra, next_extra) = (self.sent_extra, self.next_extra);
                MeasuredSize {
                    tokens: reported - previous_extra + next_extra + added.share(count.factor),
                    by: MeasuredBy::Provider,
                }
            }
            None if calibration.has_samples() => {
                MeasuredSize { tokens: count.tokens + self.next_extra, by: MeasuredBy::Calibrated }
            }
            None => MeasuredSize { tokens: count.tokens + self.next_extra, by: MeasuredBy::Estimate },
        }
    }

    /// Remembers the count of a request that was prepared and is about to be sent.
    pub(super) fn record_prepared(&mut self, count: TokenCount) {
        (self.last_count, self.last_reported, self.sent_extra) = (Some(count), None, self.next_extra);
    }

    /// Returns the size of the last request: the provider's if it reported one, else ours.
    pub(super) fn last_size(&self) -> Option<Tokens> {
        self.last_reported.or(self.last_count.map(|sent| sent.tokens))
    }

    /// Learns from the provider's report of the last request. Returns the size that the next request would
    /// have if only the reply were added.
    pub(super) fn record_reported(&mut self, usage: &Usage, calibration: &mut Calibration) -> Option<Tokens> {
        let (sent, input) = (self.last_count?, usage.input?);
        calibration.learn(sent.uncorrected(), input - self.sent_extra);
        self.last_reported = Some(input);
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
        let (mut size_tracker, mut calibration) = (SizeTracker::default(), Calibration::default());
        let count = |tokens, view| TokenCount { tokens: Tokens(tokens), factor: 1.0, ledger_version: view };
        assert_eq!(size_tracker.measure(count(900, 0), &calibration).by, MeasuredBy::Estimate);
        size_tracker.record_prepared(count(1_000, 0));
        let usage = Usage { input: Some(Tokens(1_200)), output: Some(Tokens(50)), ..Usage::default() };
        assert_eq!(size_tracker.record_reported(&usage, &mut calibration), Some(Tokens(1_250)));
        let next = size_tracker.measure(count(1_100, 0), &calibration);
        assert_eq!(next, MeasuredSize { tokens: Tokens(1_300), by: MeasuredBy::Provider });
        assert_eq!(size_tracker.measure(count(1_100, 1), &calibration).by, MeasuredBy::Calibrated, "another view");
        assert_eq!(size_tracker.measure(count(800, 0), &calibration).by, MeasuredBy::Calibrated, "an edited history");
    }
}
