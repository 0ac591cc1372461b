//! The options of one call.

use std::sync::Arc;

use super::summary_request::SummaryRequest;
use crate::Tokens;
use crate::checkpoint::Weights;
use crate::plan::{CompactOptions, Trigger};
use crate::summary::{Completeness, ModelSummary, SummaryScope};

/// The options of one compaction, for [`Session::compact_with`](crate::Session::compact_with). Options that
/// apply to every request belong to the [`Session`](crate::Session).
///
/// ```
/// use longhaul_engine::{Options, Session, Tokens};
///
/// # let body = include_str!("../../../../examples/session.json");
/// let mut session = Session::new("gpt-5");
/// let options = Options::new().target_tokens(Tokens(3_000)).focus("the database schema");
/// let smaller = session.compact_with(body, &options)?.expect("the request has more than 3,000 tokens");
/// assert!(smaller.report.tokens.after <= Tokens(3_000));
/// # Ok::<(), longhaul_engine::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct Options {
    force: bool,
    target_tokens: Option<Tokens>,
    focus: Option<String>,
    keep_from: Option<usize>,
    summary: Option<ModelSummary>,
    weights: Option<Arc<Weights>>,
}

impl Options {
    /// Creates options with which [`compact_with`](crate::Session::compact_with) does the same as
    /// [`compact`](crate::Session::compact).
    pub fn new() -> Self {
        Self::default()
    }

    /// Compacts now, even if the request is below the threshold.
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Compacts now, to at most this size. If that is impossible, the result is as small as it can be,
    /// and [`reached`](crate::report::CompactionReport::reached) is false.
    pub fn target_tokens(mut self, tokens: Tokens) -> Self {
        self.target_tokens = Some(tokens);
        self
    }

    /// Names a topic that the checkpoint should keep before everything else.
    pub fn focus(mut self, topic: impl Into<String>) -> Self {
        self.focus = Some(topic.into());
        self
    }

    /// Compacts now, and leaves the message with this index and all later ones unchanged. After an earlier
    /// compaction, the index counts the messages of the request in which its decisions are replayed.
    pub fn keep_from(mut self, message: usize) -> Self {
        self.keep_from = Some(message);
        self
    }

    /// Uses a summary that you wrote, of all turns that the compaction removes. Statements that the
    /// transcript contradicts are corrected or removed;
    /// [`findings`](crate::report::CompactionReport::findings) lists them.
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        self.summary = Some(ModelSummary {
            scope: SummaryScope::AllRemoved,
            text: text.into(),
            author: "the caller".to_owned(),
            completeness: Completeness::Complete,
        });
        self
    }

    /// Uses the summary that a model wrote for a [`SummaryRequest`]. It is checked against the transcript
    /// like any other summary. A request without a reply changes nothing.
    pub fn summary_by_model(mut self, request: SummaryRequest) -> Self {
        self.summary = request.into_summary();
        self
    }

    /// Replaces the weights of the checkpoint's content, for measurements.
    #[doc(hidden)]
    pub fn weights(mut self, weights: Weights) -> Self {
        self.weights = Some(Arc::new(weights));
        self
    }

    /// Returns the options of the engine, without those of the session.
    pub(super) fn to_engine_options(&self) -> CompactOptions {
        let options = CompactOptions {
            force: self.force,
            to_tokens: self.target_tokens,
            focus: self.focus.clone(),
            keep_from: self.keep_from,
            summary: self.summary.clone(),
            weights: self.weights.clone(),
            ..CompactOptions::default()
        };
        let trigger = if options.is_requested() { Trigger::Manual } else { Trigger::Preflight };
        CompactOptions { trigger, ..options }
    }
}
