//! Records the provider's reaction to a request: the reported usage, or a refusal.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::plan::Trigger;
use longhaul_engine::prices::Usage;

use super::prepared_request::Reporter;
use super::request_size::CalibrationErrors;
use super::settings::AutoCompaction;
use super::{LastSent, LiveSession, learned_model};
use crate::upstream::UpstreamError;
use longhaul_engine::Timestamp;

/// A retry must be smaller than the refused request by at least this share; otherwise it is not made. Chosen
/// by hand.
const MIN_RETRY_REDUCTION: f64 = 0.05;

/// The session's conclusions from a reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AfterReply {
    /// The reason why the next request will be compacted, if it will.
    pub trigger_reason: Option<String>,
    /// The mean errors of our token counts, once there are enough reports.
    pub errors: Option<CalibrationErrors>,
    /// Lines for people.
    pub notices: Vec<String>,
}

/// The decision about a request that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryDecision {
    /// Call [`LiveSession::prepare_request`] again and send the result, which will be smaller.
    Retry,
    /// Call [`LiveSession::prepare_request`] again and send the result, which is the client's original,
    /// because the compacted request was refused. If the provider accepts the original, the compaction is
    /// undone.
    SendOriginal,
    /// Send the same request later, after this delay if the provider reported one.
    Wait(Option<Duration>),
    /// Give up, for this reason.
    GiveUp(String),
}

impl LiveSession {
    /// Records a reply to the request that was sent last, with the provider's token counts.
    pub async fn record_reply(&mut self, usage: &Usage) -> AfterReply {
        let host = Arc::clone(&self.host);
        let mut reporter = Reporter::new(&*host);
        self.note_accepted(&mut reporter).await;
        let model = self.model.clone();
        let learned = self.learned.entry(model.clone()).or_default();
        let factor = learned.calibration.factor();
        let size_with_reply = self.size_tracker.record_reported(usage, &mut learned.calibration);
        if let Some(input) = usage.input {
            self.state.prompt_cache.correct_size(input);
        }
        let learned = learned.clone();
        if learned.calibration.factor().to_bits() != factor.to_bits() {
            self.save_learned(&mut reporter).await;
        }
        let policy = learned_model::policy_for_model(&self.settings.config, &model, &learned);
        let threshold = policy.ok().map(|policy| {
            self.settings.engines.find_or_compressor(&policy.engine).observe_usage(&model, usage);
            self.last_request.threshold
        });
        let trigger_reason =
            size_with_reply.zip(threshold).filter(|(size_with_reply, threshold)| size_with_reply >= threshold);
        let trigger_reason = trigger_reason.map(|(size_with_reply, threshold)| {
            self.last_request.threshold_trigger = Trigger::Reply;
            format!("{size_with_reply} tokens, counted by the provider, reach the threshold of {threshold}")
        });
        AfterReply { trigger_reason, errors: learned.calibration.errors(), notices: reporter.notices }
    }

    /// Records that the provider accepted the last request. The HTTP status shows that before the reply is
    /// read. If the original was accepted in place of a refused compaction, the compaction was at fault, and
    /// it is undone.
    pub async fn record_accepted(&mut self) -> Vec<String> {
        let host = Arc::clone(&self.host);
        let mut reporter = Reporter::new(&*host);
        self.note_accepted(&mut reporter).await;
        reporter.notices
    }

    async fn note_accepted(&mut self, reporter: &mut Reporter<'_>) {
        self.state.last_refused_size = None;
        match (self.last_request.sent, self.last_request.refused_ledger_hash.take()) {
            (LastSent::Rewritten(ledger_hash), _) => self.state.accepted_ledger_hash = Some(ledger_hash),
            (LastSent::Original, Some(refused)) => {
                reporter
                    .report("the original was accepted: the refused compaction is undone and will not be tried again");
                self.undo_refused_compaction(refused, reporter).await;
            }
            (LastSent::Original, None) => {}
        }
    }

    /// Records that the last request ended without being accepted: it was refused, failed or got no reply. If it
    /// was the original in place of a refused compaction, the compaction is no longer blamed.
    pub fn record_unresolved(&mut self) {
        self.last_request.refused_ledger_hash = None;
    }

    /// Whether the last request contains a compaction that no provider has accepted yet.
    #[must_use]
    pub fn has_new_compaction(&self) -> bool {
        matches!(self.last_request.sent, LastSent::Rewritten(ledger_hash) if self.state.accepted_ledger_hash != Some(ledger_hash))
    }

    /// Records that the last request was refused or not answered. Returns the decision, and the notices for
    /// people.
    pub async fn record_failure(&mut self, error: &UpstreamError, now: Timestamp) -> (RetryDecision, Vec<String>) {
        let host = Arc::clone(&self.host);
        let mut reporter = Reporter::new(&*host);
        let decision = match error {
            UpstreamError::TooLong { maximum, sent } => {
                self.learn_limits(*maximum, *sent, now, &mut reporter).await;
                self.decide_retry(error)
            }
            UpstreamError::TooLarge(_) => self.decide_retry(error),
            UpstreamError::BadRequest(_) => match self.last_request.sent {
                LastSent::Rewritten(ledger_hash) if self.has_new_compaction() => {
                    reporter.report(format!("the compacted request was refused, so the original is sent: {error}"));
                    self.last_request.refused_ledger_hash = Some(ledger_hash);
                    RetryDecision::SendOriginal
                }
                LastSent::Original | LastSent::Rewritten(_) => {
                    // The original is refused as well, so the compaction is not at fault.
                    self.last_request.refused_ledger_hash = None;
                    RetryDecision::GiveUp(error.to_string())
                }
            },
            UpstreamError::RateLimited { delay } | UpstreamError::Overloaded { delay } => RetryDecision::Wait(*delay),
            _ => RetryDecision::GiveUp(error.to_string()),
        };
        if let Err(error) = self.save_state().await {
            reporter.report(format!("the session's state could not be saved: {error}"));
        }
        (decision, reporter.notices)
    }

    /// Learns from a refusal: the maximum that the model accepts, and the provider's count of the request.
    async fn learn_limits(
        &mut self,
        maximum: Option<Tokens>,
        sent: Option<Tokens>,
        now: Timestamp,
        reporter: &mut Reporter<'_>,
    ) {
        let learned = self.learned.entry(self.model.clone()).or_default();
        if let Some(sent) = sent {
            let usage = Usage { input: Some(sent), ..Usage::default() };
            let _ = self.size_tracker.record_reported(&usage, &mut learned.calibration);
        }
        if let Some(maximum) = maximum {
            learned.learn_window(maximum, sent.or(self.size_tracker.last_size()), now);
            if let Some(window) = &learned.window {
                reporter.report(format!("{}: the window is now {window}", self.model));
            }
        }
        if maximum.or(sent).is_some() {
            self.save_learned(reporter).await;
        }
    }

    async fn save_learned(&self, reporter: &mut Reporter<'_>) {
        if let (Some(recorder), Some(learned)) = (&self.recorder, self.learned.get(&self.model))
            && let Err(error) = recorder.save_learned(&self.model, learned).await
        {
            reporter.report(format!("the limits learned for {} could not be saved: {error}", self.model));
        }
    }

    /// Decides whether a smaller request is worth a retry. A request that is hardly smaller than the refused
    /// one is not tried again.
    fn decide_retry(&mut self, error: &UpstreamError) -> RetryDecision {
        if self.settings.auto_compaction == AutoCompaction::Off {
            return RetryDecision::GiveUp(format!("{error}; automatic compaction is off"));
        }
        let Some(size) = self.size_tracker.last_size() else {
            return RetryDecision::GiveUp(format!("{error}; its size is not known"));
        };
        // If the request takes less than a quarter of the window, the requested reply is too long, and no
        // compaction helps.
        if let UpstreamError::TooLong { maximum: Some(maximum), .. } = error
            && size < *maximum / 4
        {
            return RetryDecision::GiveUp(format!("{error}; ask for a shorter reply"));
        }
        let smaller = |refused_size: Tokens| size <= refused_size.share(1.0 - MIN_RETRY_REDUCTION);
        if self.state.last_refused_size.is_some_and(|refused_size| !smaller(refused_size)) {
            return RetryDecision::GiveUp(format!("{error}; it could not be compacted further"));
        }
        (self.state.last_refused_size, self.last_request.size_to_undercut) = (Some(size), Some(size));
        RetryDecision::Retry
    }

    /// Returns to the ledger before the refused one, and remembers the refused one so that it is not tried
    /// again.
    async fn undo_refused_compaction(&mut self, ledger_hash: u64, reporter: &mut Reporter<'_>) {
        const MAX_REFUSED_REWRITES: usize = 16;
        self.state.refused_ledger_hashes.push(ledger_hash);
        let surplus = self.state.refused_ledger_hashes.len().saturating_sub(MAX_REFUSED_REWRITES);
        self.state.refused_ledger_hashes.drain(..surplus);
        self.ledger.undo(&self.state.refused_ledger_hashes);
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = recorder.undo_refused().await
        {
            reporter.report(format!("the compaction could not be undone in the store: {error}"));
        }
    }
}
