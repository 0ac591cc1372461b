//! Processes one request: parse, record, replay, measure, and compact if a trigger applies.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::keyed_hash::KeyedHash;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{self, CompactedRequest, RequestSize, Trigger};
use longhaul_engine::policy::Policy;
use longhaul_engine::schedule::CacheState;
use longhaul_engine::{Tokens, Transcript, wire};
use tokio::task::yield_now;

use super::compact::{CompactionResult, ManualOptions};
use super::prepare_summary::role_order;
use super::prepared_request::{PreparedRequest, Reporter, RequestAction, WindowUsage};
use super::recorder::{RecordedLedger, Restored};
use super::request_context::{ParsedRequest, Purpose, RequestContext, SizeEstimate};
use super::request_size::{SizeTracker, TokenCount};
use super::triggers::{CompactionCause, CompactionDecision, TriggerInput, Urgency, is_in_bound_loop};
use super::{AutoCompaction, IncomingRequest, LastSent, LiveSession, Recorder, learned_model};
use crate::store::StoreError;
use longhaul_engine::Timestamp;

/// The smallest size that a compaction could leave is counted only for requests of at least this share of an
/// engine's own threshold. This share is below those at which the pressure notice is given and summaries are
/// started. Chosen by hand.
const NEAR_THRESHOLD_SHARE: f64 = 0.5;

/// A callback with which the caller edits the body at the end, before it is sent. `None` means no change.
pub type FinalEdit<'t> = dyn FnMut(&LiveSession, &Transcript<'_>, &Policy) -> Option<String> + Send + 't;

/// How a request relates to the one before it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Continuity {
    /// Whether the newest change of the session's head was an undo, by the user or after a refusal.
    is_undone: bool,
    /// Whether it continues the last request, and no other process changed the session in between.
    is_continuation: bool,
}

impl LiveSession {
    /// Prepares a request that is about to be sent: returns the body to send in its place, which may be the
    /// same. It never fails; a body that cannot be parsed is returned unchanged.
    pub async fn prepare_request<'b>(&mut self, body: &'b str, now: Timestamp) -> PreparedRequest<'b> {
        self.parse_and_process(body, &Purpose::Send, now).await
    }

    /// Compacts the session if its cached prompt has expired, because then a compaction causes no additional
    /// cache write. Nobody waits for the result.
    pub async fn compact_if_idle<'b>(&mut self, body: &'b str, now: Timestamp) -> PreparedRequest<'b> {
        self.parse_and_process(body, &Purpose::Idle, now).await
    }

    /// Prepares a request that was parsed already, like [`prepare_request`](Self::prepare_request). Writes
    /// that can wait are left to [`save_pending`](Self::save_pending), so that the request is sent first.
    /// `final_edit` may add tools, recall calls with their results, and breakpoints, but must not change the
    /// client's messages.
    pub async fn prepare_parsed<'b>(
        &mut self,
        incoming: &IncomingRequest<'b>,
        now: Timestamp,
        final_edit: &mut FinalEdit<'_>,
    ) -> PreparedRequest<'b> {
        self.process(incoming, &Purpose::Send, now, final_edit).await
    }

    /// Writes the newest messages and the session's state to the store. Returns notices about what could not
    /// be written; that is written with the next request.
    pub async fn save_pending(&mut self) -> Vec<String> {
        let host = Arc::clone(&self.host);
        let mut reporter = Reporter::new(&*host);
        self.save_pending_with(&mut reporter).await;
        reporter.notices
    }

    async fn save_pending_with(&mut self, reporter: &mut Reporter<'_>) {
        if self.store_error().is_some() {
            return;
        }
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = recorder.flush().await
        {
            self.continue_without_store(&error, reporter);
        } else if let Err(error) = self.save_state().await {
            reporter.report(format!("the session's state could not be saved: {error}"));
        }
    }

    pub(super) async fn parse_and_process<'b>(
        &mut self,
        body: &'b str,
        purpose: &Purpose,
        now: Timestamp,
    ) -> PreparedRequest<'b> {
        let tenant = self.recorder.as_ref().map(Recorder::tenant);
        let mut prepared = match IncomingRequest::parse(None, body, tenant) {
            Ok(incoming) => self.process(&incoming, purpose, now, &mut |_, _, _| None).await,
            Err(error) => {
                let host = Arc::clone(&self.host);
                PreparedRequest::unchanged(body, &error, &mut Reporter::new(&*host))
            }
        };
        prepared.notices.extend(self.save_pending().await);
        prepared
    }

    pub(super) async fn process<'b>(
        &mut self,
        incoming: &IncomingRequest<'b>,
        purpose: &Purpose,
        now: Timestamp,
        final_edit: &mut FinalEdit<'_>,
    ) -> PreparedRequest<'b> {
        let host = Arc::clone(&self.host);
        let mut reporter = Reporter::new(&*host);
        self.drop_planned_summary();
        self.collect_summary(Duration::ZERO, now, &mut reporter).await;
        let request = match self.open_request(incoming, now, &mut reporter).await {
            Ok(request) => request,
            Err(error) => return PreparedRequest::unchanged(incoming.transcript.body, &error, &mut reporter),
        };
        // Yield between two heavy steps, so that other jobs run, and a request that nobody waits for is
        // dropped.
        yield_now().await;
        // On the heap: this future is large, and every caller's future would contain it.
        let prepared = Box::pin(self.measure_and_compact(request, purpose, now, final_edit, &mut reporter)).await;
        PreparedRequest { notices: reporter.notices, ..prepared }
    }

    /// Selects the model, records the request, and replays the ledger on it.
    async fn open_request<'r, 'b>(
        &mut self,
        incoming: &'r IncomingRequest<'b>,
        now: Timestamp,
        reporter: &mut Reporter<'_>,
    ) -> Result<ParsedRequest<'r, 'b>, String> {
        let IncomingRequest { transcript, message_hashes, .. } = incoming;
        let model = transcript.model.as_deref().unwrap_or(&self.settings.model).to_owned();
        self.select_model(&model, reporter).await;
        let Continuity { is_undone, is_continuation } =
            self.record_request(transcript, message_hashes, now, reporter).await;
        let learned = self.learned.get(&self.model).cloned().unwrap_or_default();
        let mut policy = learned_model::policy_for_model(&self.settings.config, &self.model, &learned)
            .map_err(|error| error.to_string())?;
        policy.safety_threshold = policy.window.share(self.settings.safety_share);
        self.report_model_facts(&policy, &learned, reporter);
        let is_refused = self.is_ledger_refused();
        if is_refused || !is_continuation {
            self.ledger.forget_replay();
        }
        let view_body = if is_refused {
            Cow::Borrowed(transcript.body)
        } else {
            self.ledger.replay(transcript).map_err(|error| error.to_string())?
        };
        let engine = self.settings.engines.find_or_compressor(&policy.engine);
        Ok(ParsedRequest { transcript, message_hashes, policy, engine, view_body, is_undone })
    }

    /// Makes a model the current one. If the model changes, the old counts and the cached prompt no longer
    /// apply.
    async fn select_model(&mut self, model: &str, reporter: &mut Reporter<'_>) {
        if self.model == model {
            return;
        }
        if !self.model.is_empty() {
            reporter.report(format!("the session continues with {model} instead of {}", self.model));
            self.size_tracker = SizeTracker::default();
            self.state.prompt_cache.forget();
        }
        model.clone_into(&mut self.model);
        if let Some(recorder) = &self.recorder
            && !self.learned.contains_key(model)
        {
            match recorder.load_learned(model).await {
                Ok(learned) => drop(self.learned.insert(model.to_owned(), learned.unwrap_or_default())),
                Err(error) => self.continue_without_store(&error, reporter),
            }
        }
    }

    /// Records a request, and takes over the state and the ledger that the store has for it.
    pub(super) async fn record_request(
        &mut self,
        transcript: &Transcript<'_>,
        message_hashes: &[KeyedHash],
        now: Timestamp,
        reporter: &mut Reporter<'_>,
    ) -> Continuity {
        let Some(recorder) = &mut self.recorder else { return Continuity::default() };
        match recorder.record(transcript, message_hashes, &self.settings.rules, now).await {
            Ok(result) => {
                if recorder.continue_with_store() {
                    reporter.report("the store is available again: the session is recorded from now on");
                }
                match result.restored {
                    Restored::InMemory => {}
                    Restored::FromStore(state) => self.state = *state,
                    Restored::Nothing => self.state = self.state.for_new_session(),
                }
                let is_forgotten =
                    result.compaction_number.is_some() && result.compaction_number == self.state.reset_compaction;
                self.state.is_undone = result.is_undone;
                let is_continuation = matches!(result.ledger, RecordedLedger::Unchanged);
                if let RecordedLedger::Replaced(ledger) = result.ledger {
                    self.ledger.replace(if is_forgotten { Ledger::default() } else { ledger });
                }
                Continuity { is_undone: result.is_undone, is_continuation }
            }
            Err(error) => {
                self.continue_without_store(&error, reporter);
                Continuity { is_undone: self.state.is_undone, is_continuation: false }
            }
        }
    }

    /// Continues the session in memory because the store does not work, and reports that once.
    pub(super) fn continue_without_store(&mut self, error: &StoreError, reporter: &mut Reporter<'_>) {
        if self.recorder.as_mut().is_some_and(|recorder| recorder.continue_without_store(error)) {
            reporter.report(format!("the store is unavailable; the session continues in memory: {error}"));
        }
    }

    /// Reports what the user should know about a model before its first request, each notice once.
    fn report_model_facts(
        &mut self,
        policy: &Policy,
        learned: &learned_model::LearnedModel,
        reporter: &mut Reporter<'_>,
    ) {
        let missing_engine = self.settings.engines.missing_message(&policy.engine);
        let missing_engine = missing_engine.map(|missing_engine| format!("{missing_engine}; using compressor instead"));
        let lines = learned_model::window_notice(policy, learned).into_iter().chain(self.summarizer_line(policy));
        let lines = lines.chain(missing_engine);
        for line in lines {
            if self.given_notices.insert(line.clone()) {
                reporter.report(line);
            }
        }
    }

    async fn measure_and_compact<'b>(
        &mut self,
        request: ParsedRequest<'_, 'b>,
        purpose: &Purpose,
        now: Timestamp,
        final_edit: &mut FinalEdit<'_>,
        reporter: &mut Reporter<'_>,
    ) -> PreparedRequest<'b> {
        let parsed_view = request.parsed_view();
        let view = parsed_view.as_ref().unwrap_or(request.transcript);
        let context = self.request_context(&request, view, now);
        let size = context.size;
        let compaction = self.decide_and_compact(context, purpose, reporter).await;
        let sent = match &compaction {
            CompactionResult::Unchanged { .. } | CompactionResult::Previewed(_) => size.count,
            CompactionResult::LostRace { body } => wire::parse(request.transcript.api_format, body)
                .map_or(size.count, |(adopted, _)| self.count(&request, &adopted)),
            CompactionResult::Applied(outcome) => {
                TokenCount { tokens: outcome.report.tokens.after, ledger_version: self.ledger.version(), ..size.count }
            }
        };
        let original_tokens = self.count_original(&request, size.count);
        self.last_request.original_count = Some((original_tokens, sent));
        // Both sizes are in the provider's tokens.
        let sizes = size.scale(self.size_tracker.next_extra()).request_sizes(original_tokens, sent.tokens);
        yield_now().await;
        let edited_body = match &compaction {
            CompactionResult::Unchanged { .. } => final_edit(self, view, &request.policy),
            CompactionResult::LostRace { body } | CompactionResult::Applied(CompactedRequest { body, .. }) => {
                let (api_format, policy) = (request.transcript.api_format, &request.policy);
                wire::parse(api_format, body).ok().and_then(|(sent, _)| final_edit(self, &sent, policy))
            }
            CompactionResult::Previewed(_) => None,
        };
        if let Some(edited_body) = &edited_body
            && self.has_planned_summary()
            && let Ok((sent, _)) = wire::parse(request.transcript.api_format, edited_body)
        {
            self.use_sent_request(&sent, role_order(&request.policy));
        }
        let ParsedRequest { view_body, policy, .. } = request;
        let mut prepared = compaction.into_prepared(view_body, size.measured, sizes);
        if let Some(edited_body) = edited_body {
            prepared.body = Cow::Owned(edited_body);
        }
        if *purpose == Purpose::Send {
            self.record_prepared(prepared.action, sent, &policy, now);
        }
        prepared
    }

    /// Measures a request as it would be sent, and collects what the decision about it needs.
    fn request_context<'r, 'b>(
        &mut self,
        request: &'r ParsedRequest<'r, 'b>,
        view: &'r Transcript<'r>,
        now: Timestamp,
    ) -> RequestContext<'r, 'b> {
        let size = self.measure(request, view);
        let request_size = self.trigger_size(request, view, size.measured.tokens);
        let threshold = request_size.threshold(request.engine.base_threshold(&request.policy), &request.policy);
        RequestContext { request, request_size, threshold, view, size, now }
    }

    /// Compacts the request if a trigger applies.
    async fn decide_and_compact(
        &mut self,
        context: RequestContext<'_, '_>,
        purpose: &Purpose,
        reporter: &mut Reporter<'_>,
    ) -> CompactionResult {
        self.last_request.threshold = context.threshold;
        let pressure = self.state.pressure.update(context.size.measured.tokens, context.threshold);
        for line in self.fixed_threshold_line(context).into_iter().chain(pressure) {
            reporter.report(line);
        }
        self.background_summary.discard_if_changed(context.request.transcript);
        yield_now().await;
        let (cause, manual) = match self.evaluate_triggers(context, purpose) {
            CompactionDecision::Compact(cause) => (Ok(cause), ManualOptions::new(purpose, context.view)),
            CompactionDecision::Leave(reason) => {
                (self.late_summary_cause(context, purpose).ok_or(reason), ManualOptions::default())
            }
        };
        let compaction = match cause {
            Ok(cause) => self.compact(context, &cause, &manual, reporter).await,
            Err(reason) => CompactionResult::Unchanged { reason, report: None },
        };
        match (&compaction, purpose) {
            (CompactionResult::Unchanged { .. }, Purpose::Send) => self.start_summary_early(context, reporter),
            (CompactionResult::Unchanged { reason, .. }, Purpose::Compress(_)) => {
                reporter.report(format!("nothing changed: {reason}"));
            }
            _ => {}
        }
        compaction
    }

    /// Returns the cause for replacing the text of the active checkpoint, which code wrote, by a model's summary
    /// that was ready too late. It is replaced only while nothing is cached, because that costs nothing.
    fn late_summary_cause(&self, context: RequestContext<'_, '_>, purpose: &Purpose) -> Option<CompactionCause> {
        let ready = self.background_summary.ready()?;
        let is_late = ready.basis.ledger != *self.ledger.current() && ready.basis.focus.is_none();
        let is_free = self.state.prompt_cache.cache_state(context.now) == CacheState::Expired;
        let is_wanted = self.settings.auto_compaction == AutoCompaction::On && !context.request.is_undone;
        if !is_late || !is_free || !is_wanted || !matches!(purpose, Purpose::Send | Purpose::Idle) {
            return None;
        }
        let reason = "the cache has expired, so the model's summary replaces the text by code".to_owned();
        Some(CompactionCause { urgency: Urgency::WhileFree, ..CompactionCause::required(Trigger::Idle, reason) })
    }

    /// Measures how full the window would be with this history, in the same way as when it is sent.
    ///
    /// # Errors
    /// The ledger cannot be replayed on the request, or the configuration is invalid.
    pub async fn window_usage(
        &mut self,
        incoming: &IncomingRequest<'_>,
        now: Timestamp,
    ) -> Result<WindowUsage, String> {
        let host = Arc::clone(&self.host);
        let mut reporter = Reporter::new(&*host);
        let request = self.open_request(incoming, now, &mut reporter).await?;
        let parsed_view = request.parsed_view();
        let view = parsed_view.as_ref().unwrap_or(request.transcript);
        let RequestContext { size, threshold, .. } = self.request_context(&request, view, now);
        let original_tokens = self.count_original(&request, size.count);
        // Both sizes are in the provider's tokens.
        let sizes = size.scale(self.size_tracker.next_extra()).request_sizes(original_tokens, size.count.tokens);
        Ok(WindowUsage { sizes, measured_by: size.measured.by, window: request.policy.window, threshold })
    }

    /// Counts the client's whole request. `count` is our count of what is sent in its place. If that count is
    /// comparable to the one of the last request, only the growth is added, because both grew by the same
    /// messages.
    fn count_original(&mut self, request: &ParsedRequest<'_, '_>, count: TokenCount) -> Tokens {
        match (&request.view_body, self.last_request.original_count) {
            (Cow::Borrowed(_), _) => count.tokens,
            // The whole history grew by as much as the view.
            (Cow::Owned(_), Some((previous, previous_count))) if previous_count.is_comparable_to(&count) => {
                previous + (count.tokens - previous_count.tokens)
            }
            (Cow::Owned(_), _) => self.count(request, request.transcript).tokens,
        }
    }

    fn count(&mut self, request: &ParsedRequest<'_, '_>, view: &Transcript<'_>) -> TokenCount {
        let calibration = self.learned.entry(self.model.clone()).or_default().calibration;
        let tokens = request.engine.observe(&request.policy, &mut self.block_cache, view);
        let factor = if calibration.has_samples() { calibration.factor() } else { 1.0 };
        TokenCount { tokens, factor, ledger_version: self.ledger.version() }
    }

    fn measure(&mut self, request: &ParsedRequest<'_, '_>, view: &Transcript<'_>) -> SizeEstimate {
        let count = self.count(request, view);
        let calibration = self.learned.entry(self.model.clone()).or_default().calibration;
        SizeEstimate { count, measured: self.size_tracker.measure(count, &calibration) }
    }

    /// Whether the provider refused the current ledger, so that the original is tried in its place.
    fn is_ledger_refused(&mut self) -> bool {
        self.last_request.refused_ledger_hash.is_some_and(|refused| refused == self.ledger.hash())
    }

    /// Collects the sizes that the triggers compare. The minimum size matters only near the threshold, so it
    /// is not counted for small requests.
    fn trigger_size(&mut self, request: &ParsedRequest<'_, '_>, view: &Transcript<'_>, tokens: Tokens) -> RequestSize {
        let policy = &request.policy;
        let is_near = tokens >= request.engine.base_threshold(policy).share(NEAR_THRESHOLD_SHARE);
        let minimum_size = if is_near { plan::minimum_size(policy, &mut self.block_cache, view) } else { Tokens::ZERO };
        let (reply_reserve, bytes) = (policy.reply_reserve(view.max_reply_tokens), view.body.len());
        RequestSize { tokens, reply_reserve, minimum_size, bytes, is_in_bound_loop: is_in_bound_loop(policy, view) }
    }

    /// Warns, once, if a threshold that the user set in tokens leaves the session hardly any room to grow.
    fn fixed_threshold_line(&mut self, context: RequestContext<'_, '_>) -> Option<String> {
        let RequestContext { request: ParsedRequest { policy, .. }, request_size, threshold, .. } = context;
        let min_threshold = policy.min_threshold(request_size.minimum_size, request_size.reply_reserve);
        if !policy.is_threshold_fixed || min_threshold <= threshold || request_size.minimum_size == Tokens::ZERO {
            return None;
        }
        let line = format!(
            "threshold_tokens of {threshold} is close to the minimum size of this session, so it is compacted \
             often; without it the threshold would be {min_threshold}"
        );
        self.given_notices.insert("threshold_tokens".to_owned()).then_some(line)
    }

    fn evaluate_triggers(&mut self, context: RequestContext<'_, '_>, purpose: &Purpose) -> CompactionDecision {
        let RequestContext { request, request_size, threshold, view, now, size: SizeEstimate { measured, .. } } =
            context;
        if self.is_ledger_refused() && *purpose == Purpose::Send {
            return CompactionDecision::Leave("the provider refused the same compaction before".to_owned());
        }
        if let Purpose::Compress(compress) = purpose {
            let reason = format!("requested at {} tokens", measured.tokens);
            let to_tokens = compress.to_tokens;
            return CompactionDecision::Compact(CompactionCause {
                to_tokens,
                ..CompactionCause::required(Trigger::Manual, reason)
            });
        }
        let input = TriggerInput {
            settings: &self.settings,
            policy: &request.policy,
            engine: &*request.engine,
            breaker: &self.state.breaker,
            request_size,
            threshold,
            messages: view.message_count(),
            refused_size: self.last_request.size_to_undercut,
            threshold_trigger: self.last_request.threshold_trigger,
            last_compaction: self.state.last_compaction,
            is_undone: request.is_undone,
            cache_state: self.state.prompt_cache.cache_state(now),
            now,
        };
        match (input.evaluate(), purpose) {
            (CompactionDecision::Compact(CompactionCause { urgency: Urgency::IfItPays, .. }), _)
                if measured.tokens < self.last_request.next_payoff_check =>
            {
                CompactionDecision::Leave(format!("a compaction at {} tokens would not pay", measured.tokens))
            }
            (CompactionDecision::Compact(_), Purpose::Idle) if input.cache_state == CacheState::MayBeCached => {
                CompactionDecision::Leave("the request is still cached".to_owned())
            }
            (decision, _) => decision,
        }
    }

    fn record_prepared(&mut self, action: RequestAction, count: TokenCount, policy: &Policy, now: Timestamp) {
        self.last_request.sent = match action {
            RequestAction::Unchanged => LastSent::Original,
            RequestAction::Replayed | RequestAction::Compacted => LastSent::Rewritten(self.ledger.hash()),
        };
        (self.last_request.size_to_undercut, self.last_request.threshold_trigger) = (None, Trigger::Preflight);
        self.size_tracker.record_prepared(count);
        self.state.prompt_cache.record_prepared(count.tokens, policy, now);
    }

    pub(super) async fn save_state(&mut self) -> crate::store::Result<()> {
        match &mut self.recorder {
            Some(recorder) => recorder.save_state(&self.state).await,
            None => Ok(()),
        }
    }
}
