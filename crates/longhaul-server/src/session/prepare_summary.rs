//! Starts a model's summary for the next compaction early, so that no request waits for it.

use std::borrow::Cow;
use std::time::Duration;

use longhaul_engine::insertion_point::RoleOrder;
use longhaul_engine::plan::{Plan, PlanInput, Trigger};
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::Dollars;
use longhaul_engine::summary::{self, SummaryJob};

use super::LiveSession;
use super::background_summary::{HistoryPrefix, SummaryBasis};
use super::compact::ManualOptions;
use super::prepared_request::Reporter;
use super::request_context::{ParsedRequest, RequestContext, SizeEstimate};
use super::settings::{AutoCompaction, FirstWriter, Summarizer, SummaryWriter};
use super::summarize::{SummaryAttempt, SummaryMethod, SummaryTask, extension_cost, separate_requests_cost};
use super::triggers::CompactionCause;
use longhaul_engine::Timestamp;

/// The share of the threshold from which a summary is started early. Chosen by hand.
const EARLY_SUMMARY_SHARE: f64 = 0.80;
/// If a checkpoint by code keeps less than this share of the evidence it found, the evidence counts as dense.
/// Chosen by hand.
const DENSE_EVIDENCE_SHARE: f64 = 0.50;

impl LiveSession {
    /// Words the notice about the model that writes the checkpoints; returns `None` if code writes them.
    pub(super) fn summarizer_line(&self, policy: &Policy) -> Option<String> {
        let Summarizer::Model { auxiliary, .. } = &self.settings.summarizer else { return None };
        let (name, window) = (&auxiliary.model.name, auxiliary.window());
        let announcement =
            format!("{name} at {} writes the summaries and bills them", auxiliary.upstream.provider().name());
        let required_window = summary::required_window(policy.threshold, policy.checkpoint.max);
        Some(if self.models.is_none() {
            format!("{name} is configured for summaries, but cannot be asked here: code writes the checkpoints")
        } else if window < required_window {
            format!(
                "{announcement}; its window of {window} tokens is smaller than the {required_window} of a whole request, so it \
                 is asked in parts"
            )
        } else {
            announcement
        })
    }

    /// Starts a summary if the request is near the threshold and no summary is ready or running.
    pub(super) fn start_summary_early(&mut self, context: RequestContext<'_, '_>, reporter: &mut Reporter<'_>) {
        let RequestContext { size, now, .. } = context;
        let (tokens, threshold) = (size.measured.tokens, context.threshold);
        // Without automatic compaction, no compaction would use the summary.
        let is_paused =
            self.settings.auto_compaction == AutoCompaction::Off || self.state.breaker.allows(tokens, now).is_err();
        if tokens >= threshold.share(EARLY_SUMMARY_SHARE)
            && !is_paused
            && !self.background_summary.is_ready_or_running(None)
        {
            let cause = CompactionCause::required(Trigger::Preflight, String::new());
            self.start_summary(context, &cause, &ManualOptions::default(), reporter);
        }
    }

    /// Waits for a summary for the compaction that is starting, at most as long as the settings allow.
    pub(super) async fn await_summary(
        &mut self,
        context: RequestContext<'_, '_>,
        cause: &CompactionCause,
        manual: &ManualOptions,
        reporter: &mut Reporter<'_>,
    ) {
        // After a refusal the client has waited already: it gets its reply first.
        if cause.trigger == Trigger::Error {
            return;
        }
        // A summary that comes too late serves the next compaction, but only if the client sends these turns
        // again. It will if it sent turns now that were compacted before: then the replay of the ledger changed
        // the body. A summary with a focus serves only this compaction.
        let focus = manual.focus.as_deref();
        let is_repeated = matches!(context.request.view_body, Cow::Owned(_)) && focus.is_none();
        let is_useful = !self.settings.max_summary_wait.is_zero() || is_repeated;
        if is_useful && !self.background_summary.is_ready_or_running(focus) {
            self.start_summary(context, cause, manual, reporter);
        }
        if self.background_summary.is_running(focus) {
            self.collect_summary(self.settings.max_summary_wait, context.now, reporter).await;
        }
        if self.background_summary.is_running(focus) && focus.is_some() {
            self.background_summary.cancel();
            reporter.report("the model's summary is not ready: code writes the checkpoint");
        } else if self.background_summary.is_running(focus) {
            reporter.report(
                "the model's summary is not ready: code writes the checkpoint, and the next compaction uses the summary",
            );
        }
    }

    fn start_summary(
        &mut self,
        context: RequestContext<'_, '_>,
        cause: &CompactionCause,
        manual: &ManualOptions,
        reporter: &mut Reporter<'_>,
    ) {
        let Some(models) = self.models.clone() else { return };
        let Summarizer::Model { auxiliary, main, .. } = &self.settings.summarizer else { return };
        let RequestContext { request, now, .. } = context;
        let ParsedRequest { policy, engine, transcript, .. } = request;
        let is_in_cooldown = |model: &str| self.state.cooldowns.remaining(model, now).is_some();
        if is_in_cooldown(&auxiliary.model.name) && (main.is_none() || is_in_cooldown(&policy.model.name)) {
            return;
        }
        let options = &self.compact_options(cause, manual);
        let input = PlanInput { policy, options, cache: &mut self.block_cache, transcript };
        let job = engine.summary_job_after_replay(self.ledger.current(), input);
        let Ok(Some(job)) = job else { return };
        if self.background_summary.was_requested(&job.scope, manual.focus.as_deref()) {
            return;
        }
        let attempts = self.plan_attempts(context, &job, cause, reporter);
        let (attempts, expected) = match self.within_daily_limit(attempts, now) {
            Ok(affordable) => affordable,
            Err(reason) => {
                if self.given_notices.insert(reason.clone()) {
                    reporter.report(reason);
                }
                return;
            }
        };
        let (Some(first), Some(tag)) = (attempts.first(), self.host.random_tag()) else { return };
        reporter.report(format!(
            "{} is writing a summary of the turns that the next compaction will replace",
            first.writer.model.name
        ));
        self.state.breaker.record_cost(expected, now);
        let prefix = HistoryPrefix::new(transcript, policy.protect_last);
        let basis = SummaryBasis { ledger: self.ledger.current().clone(), prefix, focus: manual.focus.clone() };
        let (rules, key) = (self.settings.rules.clone(), self.key());
        self.background_summary.start(models, SummaryTask { job, attempts, tag, rules, key }, basis, expected);
    }

    /// Lists the models to ask, in order: one model, and another if it fails. Models that failed recently are
    /// left out.
    fn plan_attempts(
        &mut self,
        context: RequestContext<'_, '_>,
        job: &SummaryJob,
        cause: &CompactionCause,
        reporter: &mut Reporter<'_>,
    ) -> Vec<SummaryAttempt> {
        let RequestContext { request, now, .. } = context;
        let Summarizer::Model { auxiliary, main, first } = self.settings.summarizer.clone() else {
            return Vec::new();
        };
        let own_model = main.map(|upstream| {
            let price = request.policy.prices.as_ref().map(|prices| prices.price);
            let (model, timeouts) = (request.policy.model.clone(), auxiliary.timeouts);
            self.own_model_attempt(context, job, SummaryWriter { model, price, upstream, timeouts })
        });
        let auxiliary = SummaryAttempt {
            expected_cost: separate_requests_cost(job, &auxiliary),
            writer: auxiliary,
            method: SummaryMethod::SeparateRequests,
        };
        let Some(own_model) = own_model else {
            return self.without_cooldowns(vec![auxiliary], now);
        };
        let is_cheaper = own_model
            .expected_cost
            .zip(auxiliary.expected_cost)
            .is_some_and(|(own_cost, auxiliary_cost)| own_cost < auxiliary_cost);
        let is_dense = first == FirstWriter::Auto && self.is_evidence_dense(request, cause);
        if is_dense {
            reporter.report(format!(
                "the session has many details, so its own model {} is asked for the summary",
                own_model.writer.model.name
            ));
        }
        let order = if is_dense || is_cheaper { vec![own_model, auxiliary] } else { vec![auxiliary, own_model] };
        self.without_cooldowns(order, now)
    }

    /// Plans to ask the session's own model in the cheaper of the two ways: with separate requests, or by
    /// extending the session's request.
    fn own_model_attempt(
        &self,
        context: RequestContext<'_, '_>,
        job: &SummaryJob,
        writer: SummaryWriter,
    ) -> SummaryAttempt {
        let RequestContext { request, view, now, size: SizeEstimate { measured, .. }, .. } = context;
        let api_format = request.transcript.api_format;
        let separate_cost = separate_requests_cost(job, &writer);
        let extension_cost = extension_cost(job, &writer, measured.tokens, self.state.prompt_cache.cached_tokens(now));
        let is_cheaper = extension_cost
            .zip(separate_cost)
            .is_some_and(|(extension_cost, separate_cost)| extension_cost < separate_cost);
        let role_order =
            if writer.model.facts.user_after_tool { RoleOrder::UserAfterTool } else { RoleOrder::ReplyAfterTool };
        let fits = summary::required_window(measured.tokens, job.budget) <= request.policy.window;
        if is_cheaper
            && fits
            && writer.upstream.provider().supports(api_format)
            && let Ok(body) = job.append_to(view, role_order)
        {
            return SummaryAttempt {
                writer,
                method: SummaryMethod::ExtendSession { api_format, body },
                expected_cost: extension_cost,
            };
        }
        SummaryAttempt { writer, method: SummaryMethod::SeparateRequests, expected_cost: separate_cost }
    }

    /// Removes the models that are in a cooldown, and repeated attempts with the same model and prompt.
    fn without_cooldowns(&self, attempts: Vec<SummaryAttempt>, now: Timestamp) -> Vec<SummaryAttempt> {
        let is_in_cooldown =
            |attempt: &SummaryAttempt| self.state.cooldowns.remaining(&attempt.writer.model.name, now).is_some();
        let mut attempts: Vec<SummaryAttempt> =
            attempts.into_iter().filter(|attempt| !is_in_cooldown(attempt)).collect();
        attempts.dedup_by(|a, b| {
            let is_separate = |attempt: &SummaryAttempt| matches!(attempt.method, SummaryMethod::SeparateRequests);
            a.writer.model.name == b.writer.model.name && is_separate(a) && is_separate(b)
        });
        attempts
    }

    /// Whether a checkpoint by code would have to leave out most of the evidence.
    fn is_evidence_dense(&mut self, request: &ParsedRequest<'_, '_>, cause: &CompactionCause) -> bool {
        let options = self.compact_options(cause, &ManualOptions::default());
        let ParsedRequest { policy, engine, transcript, .. } = request;
        let input = PlanInput { policy, options: &options, cache: &mut self.block_cache, transcript };
        match engine.plan(self.ledger.current(), input) {
            Ok(Plan::Ready(outcome)) if outcome.report.checkpoint.is_some() => {
                let evidence = outcome.report.evidence;
                (evidence.kept as f64) < DENSE_EVIDENCE_SHARE * evidence.found as f64
            }
            _ => false,
        }
    }

    /// Keeps the attempts that today's remaining money pays for, even if all attempts before them fail.
    /// Returns them with the cost to reserve, or the reason why none remains.
    fn within_daily_limit(
        &self,
        attempts: Vec<SummaryAttempt>,
        now: Timestamp,
    ) -> Result<(Vec<SummaryAttempt>, Dollars), String> {
        let Some(daily_limit) = self.settings.limits.max_daily_cost else {
            let expected = attempts.first().and_then(|first| first.expected_cost).unwrap_or_default();
            return Ok((attempts, expected));
        };
        let spent = self.state.breaker.spent(now);
        let (mut affordable, mut expected, mut refusal) = (Vec::new(), Dollars::ZERO, None);
        for attempt in attempts {
            let name = &attempt.writer.model.name;
            match attempt.expected_cost {
                Some(cost) if spent + expected + cost <= daily_limit => {
                    expected += cost;
                    affordable.push(attempt);
                }
                Some(_) => {
                    refusal.get_or_insert(format!(
                        "the daily limit of {daily_limit} for summaries is reached: code writes the checkpoints until tomorrow"
                    ));
                }
                None => {
                    refusal.get_or_insert(format!(
                        "the price of {name} is not known, so the daily limit cannot be checked: code writes the checkpoints"
                    ));
                }
            }
        }
        match refusal {
            Some(reason) if affordable.is_empty() => Err(reason),
            _ => Ok((affordable, expected)),
        }
    }

    /// Collects the result of a running summary if it is finished, or finishes within `wait`.
    pub(super) async fn collect_summary(&mut self, wait: Duration, now: Timestamp, reporter: &mut Reporter<'_>) {
        let Some((result, expected)) = self.background_summary.collect(wait).await else { return };
        if let Some(cost) = result.cost {
            self.state.breaker.record_cost(cost - expected, now);
        }
        let auxiliary = match &self.settings.summarizer {
            Summarizer::Model { auxiliary, .. } => Some(auxiliary.model.name.clone()),
            Summarizer::Code => None,
        };
        for (n, (model, failure)) in result.failures.iter().enumerate() {
            // A model that was asked in two ways gets one cooldown.
            if result.failures[n + 1..].iter().all(|(later, _)| later != model) {
                self.state.cooldowns.record_failure(model, failure, now);
            }
            self.state.last_error = Some(format!("{model}: {failure}"));
            if Some(model) == auxiliary.as_ref() {
                self.state.auxiliary_failed = Some(model.clone());
            }
            reporter.report(format!("no summary by {model}: {failure}"));
        }
        match &result.summary {
            Some(summary) => {
                self.state.cooldowns.clear(&summary.author);
                if Some(&summary.author) == auxiliary.as_ref() {
                    (self.state.auxiliary_failed, self.state.last_error) = (None, None);
                }
                reporter.report(format!("{} has written the summary", summary.author));
            }
            None => reporter.report("code writes the checkpoint"),
        }
    }
}
