//! Starts a model's summary for the next compaction early, so that no request waits for it.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::insertion_point::RoleOrder;
use longhaul_engine::plan::{Plan, PlanInput, Trigger};
use longhaul_engine::policy::{CachePolicy, Policy};
use longhaul_engine::prices::Dollars;
use longhaul_engine::summary::{self, SummaryJob};
use longhaul_engine::{Tokens, Transcript};

use super::LiveSession;
use super::background_summary::{HistoryPrefix, PlannedSummary, SummaryBasis};
use super::compact::ManualOptions;
use super::prepared_request::Reporter;
use super::request_context::{ParsedRequest, RequestContext, SizeEstimate};
use super::settings::{
    AutoCompaction, FirstWriter, Summarizer, SummaryModels, SummaryStart, SummaryWriter, UnpricedModels,
};
use super::summarize::{
    SummaryAttempt, SummaryFailure, SummaryMethod, SummaryTask, extension_cost, separate_requests_cost,
};
use super::triggers::CompactionCause;
use crate::DailyBudget;
use crate::upstream::{ModelClient, UpstreamError};
use longhaul_engine::Timestamp;

/// The share of the size of the next compaction from which its summary is started. Chosen by hand.
const EARLY_SUMMARY_SHARE: f64 = 0.80;
/// The share of that size below which no summary is started, however fast the session grows: most of its turns would
/// be newer than the summary. Chosen by hand.
const EARLIEST_SUMMARY_SHARE: f64 = 0.50;
/// The number of requests that a summary is started ahead of the compaction. A model writes for half a minute to a
/// minute, in which an agent sends a few requests. Chosen by hand.
const SUMMARY_LEAD_REQUESTS: f64 = 4.0;
/// A model is asked for at least this many tokens, however little money there is. A shorter summary would leave out
/// more than code does.
pub(super) const MIN_SUMMARY_TOKENS: Tokens = Tokens(2_000);
/// Differences of this size between two prices are rounding errors.
const ROUNDING_DOLLARS: f64 = 1e-9;
/// If a checkpoint by code keeps less than this share of the evidence it found, the evidence counts as dense.
/// Chosen by hand.
const DENSE_EVIDENCE_SHARE: f64 = 0.50;

impl LiveSession {
    /// Sets the client that asks models for summaries until the next call; `None` if none can be asked. A program
    /// that sends the requests of clients sets it for each request, because it contains the client's credential.
    pub fn use_models(&mut self, models: Option<Arc<dyn ModelClient>>) {
        self.models = models;
    }

    /// Requests the summary that was planned while the newest request was prepared, now that this request has been
    /// answered. Only needed with [`SummaryStart::AfterReply`]. Returns notices for people.
    pub fn start_planned_summary(&mut self, now: Timestamp) -> Vec<String> {
        let host = Arc::clone(&self.host);
        let mut reporter = Reporter::new(&*host);
        if let Some(planned) = self.background_summary.take_planned() {
            self.begin_summary(planned, now, &mut reporter);
        }
        reporter.notices
    }

    /// Drops the planned summary, because the newest request was not answered.
    pub fn drop_planned_summary(&mut self) {
        self.background_summary.take_planned();
    }

    /// Records that the provider limits the rate of the client's own requests, or is overloaded: the session's own
    /// model is not asked for summaries for a while.
    pub fn record_rate_limit(&mut self, now: Timestamp) {
        let failure = SummaryFailure::Upstream(UpstreamError::RateLimited { delay: None });
        self.state.cooldowns.record_failure(&self.model, &failure, now);
    }

    /// Words the notice about the model that writes the checkpoints; returns `None` if code writes them.
    pub(super) fn summarizer_line(&self, policy: &Policy) -> Option<String> {
        let Summarizer::Model(summary_models) = &self.settings.summarizer else { return None };
        let Some(auxiliary) = &summary_models.auxiliary else {
            return Some(format!("{} itself writes the summaries, in the background", policy.model.name));
        };
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

    /// Whether a compaction that only the price suggests should wait, because a model is writing a summary for it or
    /// will be asked with this request.
    pub(super) fn awaits_summary(&mut self, context: RequestContext<'_, '_>, reporter: &mut Reporter<'_>) -> bool {
        self.start_summary_early(context, reporter);
        self.background_summary.is_running(None) || self.has_planned_summary()
    }

    /// Plans or starts a summary if the request is near the size of the next compaction and no summary was begun. A
    /// session that grows fast is near it sooner, because the model needs time to write.
    pub(super) fn start_summary_early(&mut self, context: RequestContext<'_, '_>, reporter: &mut Reporter<'_>) {
        let RequestContext { size, now, threshold, .. } = context;
        let tokens = size.measured.tokens;
        // Without automatic compaction, no compaction would use the summary.
        let is_paused =
            self.settings.auto_compaction == AutoCompaction::Off || self.state.breaker.allows(tokens, now).is_err();
        let lead = self.state.prompt_cache.average_growth().share(SUMMARY_LEAD_REQUESTS);
        let next_size = match &context.request.policy.prices {
            Some(_) => self.price_band(context).comfortable.min(threshold),
            None => threshold,
        };
        let early_size = next_size.share(EARLY_SUMMARY_SHARE).min(next_size - lead);
        let early_size = early_size.max(next_size.share(EARLIEST_SUMMARY_SHARE));
        let is_due = tokens >= early_size.max(self.last_request.next_summary_check);
        if is_due && !is_paused && !self.background_summary.is_begun(None) {
            let cause = CompactionCause::required(Trigger::Preflight, String::new());
            let start = self.settings.summary_start;
            self.start_summary(context, &cause, &ManualOptions::default(), start, reporter);
            // A summary is priced by all of its turns, which is too much work to repeat with each request.
            if !self.background_summary.is_begun(None) {
                self.last_request.next_summary_check = tokens + context.request.policy.window / 20;
            }
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
        // the body. A summary with a focus serves only this compaction. If summaries are requested after the reply,
        // a late one is not begun here: the request that is sent next does not contain its turns, so the provider
        // would not read them from its cache.
        let focus = manual.focus.as_deref();
        let is_repeated = matches!(context.request.view_body, Cow::Owned(_)) && focus.is_none();
        let may_be_late = is_repeated && self.settings.summary_start == SummaryStart::AtOnce;
        let is_useful = !self.settings.max_summary_wait.is_zero() || may_be_late;
        if is_useful && !self.background_summary.is_begun(focus) {
            self.start_summary(context, cause, manual, SummaryStart::AtOnce, reporter);
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

    /// Plans a summary of the turns that a compaction would remove now, and requests it at once or when the request
    /// is answered.
    fn start_summary(
        &mut self,
        context: RequestContext<'_, '_>,
        cause: &CompactionCause,
        manual: &ManualOptions,
        start: SummaryStart,
        reporter: &mut Reporter<'_>,
    ) {
        let Some(models) = self.models.clone() else { return };
        let Summarizer::Model(summary_models) = self.settings.summarizer.clone() else { return };
        let RequestContext { request, now, .. } = context;
        let ParsedRequest { policy, engine, transcript, .. } = request;
        let names = summary_models.auxiliary.iter().map(|auxiliary| &auxiliary.model.name);
        let mut names = names.chain(summary_models.own.iter().map(|_| &policy.model.name));
        if names.all(|name| self.state.cooldowns.remaining(name, now).is_some()) {
            return;
        }
        let options = &self.compact_options(cause, manual);
        let input = PlanInput { policy, options, cache: &mut self.block_cache, transcript };
        let job = engine.summary_job_after_replay(self.ledger.current(), input);
        let Ok(Some(job)) = job else { return };
        if self.background_summary.was_requested(&job.scope, manual.focus.as_deref()) {
            return;
        }
        let preferred = self.preferred_writer(&summary_models, request, cause, reporter);
        let planned = self.affordable_attempts(context, job, &AttemptOptions { summary_models, preferred, start });
        let (job, attempts, expected_cost) = match planned {
            Ok(planned) => planned,
            Err(reason) => {
                if self.given_notices.insert(reason.clone()) {
                    reporter.report(reason);
                }
                return;
            }
        };
        let (false, Some(tag)) = (attempts.is_empty(), self.host.random_tag()) else { return };
        let prefix = HistoryPrefix::new(transcript, policy.protect_last);
        let basis = SummaryBasis { ledger: self.ledger.current().clone(), prefix, focus: manual.focus.clone() };
        let (rules, key) = (self.settings.rules.clone(), self.key());
        let task = SummaryTask { job, attempts, tag, rules, key };
        let planned = PlannedSummary { models, task, basis, expected_cost };
        match start {
            SummaryStart::AtOnce => self.begin_summary(planned, now, reporter),
            SummaryStart::AfterReply => self.background_summary.plan(planned),
        }
    }

    /// Reserves the cost of a planned summary and requests it.
    fn begin_summary(&mut self, planned: PlannedSummary, now: Timestamp, reporter: &mut Reporter<'_>) {
        let Some(first) = planned.task.attempts.first() else { return };
        if let Some(budget) = &self.settings.limits.daily_budget
            && !budget.try_reserve(planned.expected_cost, now)
        {
            reporter.report(daily_limit_line(budget));
            return;
        }
        reporter.report(format!(
            "{} is writing a summary of the turns that the next compaction will replace",
            first.writer.model.name
        ));
        self.background_summary.start(planned);
    }

    /// Completes a planned summary that extends the session's request: the caller has edited the request since, and
    /// the provider reads its cache only for the bytes that are sent.
    pub(super) fn use_sent_request(&mut self, sent: &Transcript<'_>, role_order: RoleOrder) {
        let Some(planned) = self.background_summary.planned() else { return };
        let job = &planned.task.job;
        planned.task.attempts.retain_mut(|attempt| match &mut attempt.method {
            SummaryMethod::SeparateRequests => true,
            SummaryMethod::ExtendSession { body, .. } => match job.append_to(sent, role_order) {
                Ok(extended) => {
                    *body = extended;
                    true
                }
                Err(_) => false,
            },
        });
    }

    /// Whether a summary waits for the reply to the request that is being prepared.
    pub(super) fn has_planned_summary(&mut self) -> bool {
        self.background_summary.planned().is_some()
    }

    /// Chooses the writer that is asked first, where the settings leave that open.
    fn preferred_writer(
        &mut self,
        summary_models: &SummaryModels,
        request: &ParsedRequest<'_, '_>,
        cause: &CompactionCause,
        reporter: &mut Reporter<'_>,
    ) -> PreferredWriter {
        let has_choice = summary_models.own.is_some() && summary_models.auxiliary.is_some();
        if !has_choice || summary_models.first != FirstWriter::Auto || !self.is_evidence_dense(request, cause) {
            return PreferredWriter::Cheaper;
        }
        let name = &request.policy.model.name;
        reporter.report(format!("the session has many details, so its own model {name} is asked for the summary"));
        PreferredWriter::Own
    }

    /// Plans the attempts whose cost is within the limits. If a shorter summary is affordable and the full one is
    /// not, the shorter one is requested. Returns the job, the attempts and their cost together, or the reason why
    /// no model is asked.
    fn affordable_attempts(
        &self,
        context: RequestContext<'_, '_>,
        job: SummaryJob,
        options: &AttemptOptions,
    ) -> Result<(SummaryJob, Vec<SummaryAttempt>, Dollars), String> {
        let attempts = self.plan_attempts(context, &job, options);
        let Some(limit) = self.summary_cost_limit(context) else {
            return self.within_daily_limit(job, attempts, context.now);
        };
        let Some(first) = attempts.first() else { return Ok((job, attempts, Dollars::ZERO)) };
        let full_cost = first.expected_cost;
        let (job, mut attempts) = match full_cost {
            Some(cost) if cost > limit => {
                let shortest = job.budget.min(MIN_SUMMARY_TOKENS);
                let shortest_cost = self.plan_attempts(context, &job.clone().with_budget(shortest), options);
                let shortest_cost = shortest_cost.first().and_then(|attempt| attempt.expected_cost).unwrap_or(cost);
                // The cost grows with the length of the reply, and with nothing else that can be chosen here.
                let share =
                    ((limit - shortest_cost).0 / (cost - shortest_cost).0.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
                let job = job.clone().with_budget(shortest + (job.budget - shortest).share(share));
                let attempts = self.plan_attempts(context, &job, options);
                (job, attempts)
            }
            _ => (job, attempts),
        };
        let name = attempts.first().map_or_else(String::new, |first| first.writer.model.name.clone());
        attempts.retain(|attempt| attempt.expected_cost.is_none_or(|cost| cost.0 <= limit.0 + ROUNDING_DOLLARS));
        if attempts.is_empty() {
            return Err(format!(
                "a summary by {name} would cost more than {:.0} % of what the compaction is expected to save: code writes \
                 the checkpoint",
                100.0 * self.settings.limits.max_summary_cost_share.unwrap_or_default()
            ));
        }
        self.within_daily_limit(job, attempts, context.now)
    }

    /// Returns the most that a summary may cost, by what the compaction is expected to save; `None` without a limit.
    fn summary_cost_limit(&self, context: RequestContext<'_, '_>) -> Option<Dollars> {
        let share = self.settings.limits.max_summary_cost_share?;
        let saving = self.expected_saving(context)?;
        Some(Dollars(saving.0 * share))
    }

    /// Lists the models to ask, in order: one model, and another if it fails. Models that failed recently are
    /// left out.
    fn plan_attempts(
        &self,
        context: RequestContext<'_, '_>,
        job: &SummaryJob,
        options: &AttemptOptions,
    ) -> Vec<SummaryAttempt> {
        let RequestContext { request, now, .. } = context;
        let AttemptOptions { summary_models, preferred, start } = options;
        let own = summary_models.own.as_ref().map(|own| {
            let price = request.policy.prices.as_ref().map(|prices| prices.price);
            let (model, timeouts) = (request.policy.model.clone(), summary_models.timeouts);
            let (upstream, payer) = (Arc::clone(own.upstream(request.transcript.api_format)), own.payer());
            self.own_model_attempt(context, job, SummaryWriter { model, price, upstream, payer, timeouts }, *start)
        });
        let auxiliary = summary_models.auxiliary.as_ref().map(|writer| SummaryAttempt {
            expected_cost: separate_requests_cost(job, writer),
            writer: writer.clone(),
            method: SummaryMethod::SeparateRequests,
        });
        let cost = |attempt: &Option<SummaryAttempt>| attempt.as_ref().and_then(|attempt| attempt.expected_cost);
        let is_cheaper = cost(&own).zip(cost(&auxiliary)).is_some_and(|(own, auxiliary)| own < auxiliary);
        let order = if *preferred == PreferredWriter::Own || is_cheaper { [own, auxiliary] } else { [auxiliary, own] };
        self.without_cooldowns(order.into_iter().flatten().collect(), now)
    }

    /// Plans to ask the session's own model in the cheaper of the two ways: with separate requests, or by
    /// extending the session's request.
    fn own_model_attempt(
        &self,
        context: RequestContext<'_, '_>,
        job: &SummaryJob,
        writer: SummaryWriter,
        start: SummaryStart,
    ) -> SummaryAttempt {
        let RequestContext { request, view, now, size: SizeEstimate { measured, .. }, .. } = context;
        let api_format = request.transcript.api_format;
        let separate_cost = separate_requests_cost(job, &writer);
        let cached = match (start, &request.policy.caching) {
            // Once the request is answered, the provider has all of it in its cache.
            (SummaryStart::AfterReply, CachePolicy::Automatic | CachePolicy::Breakpoints { .. }) => measured.tokens,
            _ => self.state.prompt_cache.cached_tokens(now),
        };
        let extension_cost = extension_cost(job, &writer, measured.tokens, cached);
        let is_cheaper = match (extension_cost, separate_cost) {
            (Some(extension_cost), Some(separate_cost)) => extension_cost < separate_cost,
            // Without prices: cached tokens cost a small part of others at every provider that caches.
            _ => start == SummaryStart::AfterReply && cached > Tokens::ZERO,
        };
        let fits = summary::required_window(measured.tokens, job.budget) <= request.policy.window;
        if is_cheaper
            && fits
            && writer.upstream.provider().supports(api_format)
            && let Ok(body) = job.append_to(view, role_order(&request.policy))
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
        job: SummaryJob,
        attempts: Vec<SummaryAttempt>,
        now: Timestamp,
    ) -> Result<(SummaryJob, Vec<SummaryAttempt>, Dollars), String> {
        let skips_unpriced =
            matches!(&self.settings.summarizer, Summarizer::Model(models) if models.unpriced == UnpricedModels::Skip);
        let budget = self.settings.limits.daily_budget.as_ref();
        let (mut affordable, mut expected, mut refusal) = (Vec::new(), Dollars::ZERO, None);
        for attempt in attempts {
            let name = &attempt.writer.model.name;
            match attempt.expected_cost {
                Some(cost) if budget.is_none_or(|budget| budget.spent(now) + expected + cost <= budget.limit()) => {
                    expected += cost;
                    affordable.push(attempt);
                }
                Some(_) => drop(
                    refusal.get_or_insert_with(|| budget.map_or_else(String::new, |budget| daily_limit_line(budget))),
                ),
                None if skips_unpriced => {
                    refusal.get_or_insert_with(|| {
                        format!("the price of {name} is not known, so it is not asked for summaries: code writes the checkpoints")
                    });
                }
                None => affordable.push(attempt),
            }
        }
        match refusal {
            Some(reason) if affordable.is_empty() => Err(reason),
            _ => Ok((job, affordable, expected)),
        }
    }

    /// Collects the result of a running summary if it is finished, or finishes within `wait`.
    pub(super) async fn collect_summary(&mut self, wait: Duration, now: Timestamp, reporter: &mut Reporter<'_>) {
        let Some((result, expected)) = self.background_summary.collect(wait).await else { return };
        if let (Some(cost), Some(budget)) = (result.cost, &self.settings.limits.daily_budget) {
            budget.settle(expected, cost, now);
        }
        let auxiliary = match &self.settings.summarizer {
            Summarizer::Model(models) => models.auxiliary.as_ref().map(|auxiliary| auxiliary.model.name.clone()),
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

/// The writer that is asked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreferredWriter {
    /// The session's own model.
    Own,
    /// The auxiliary model, unless the session's own is cheaper.
    Cheaper,
}

/// The choices for the attempts to get a summary, besides their cost.
struct AttemptOptions {
    summary_models: SummaryModels,
    preferred: PreferredWriter,
    start: SummaryStart,
}

/// Returns the roles that a message may have at the end of a request of this session.
pub(super) fn role_order(policy: &Policy) -> RoleOrder {
    if policy.model.facts.user_after_tool { RoleOrder::UserAfterTool } else { RoleOrder::ReplyAfterTool }
}

fn daily_limit_line(budget: &DailyBudget) -> String {
    format!(
        "the daily limit of {} for summaries is reached: code writes the checkpoints until tomorrow",
        budget.limit()
    )
}
