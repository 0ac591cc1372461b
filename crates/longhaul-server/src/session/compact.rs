//! Makes one compaction: takes a model's summary if one is ready, plans, asks the host, commits, and notifies
//! the host.

use std::borrow::Cow;

use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{
    CompactOptions, CompactedRequest, CompactionReport, CountFacts, Originals, Plan, PlanInput, RecallIds, StateReport,
    Trigger, WrittenBy,
};
use longhaul_engine::redact::Redacted;
use longhaul_engine::schedule::LastCompaction;
use longhaul_engine::summary::ModelSummary;
use longhaul_engine::{Tokens, Transcript};

use super::background_summary::SummaryBasis;
use super::command::Preview;
use super::host::{self, CompactionEvent, PendingRemoval};
use super::prepared_request::{PreparedRequest, Reporter, RequestAction, RequestSizes};
use super::recorder::CommitResult;
use super::request_context::{ParsedRequest, Purpose, RequestContext, hash_ledger, replay_ledger, user_prompts};
use super::request_size::MeasuredSize;
use super::triggers::{CompactionCause, Urgency};
use super::{LiveSession, breaker, notices};
use crate::store::StoreError;
use longhaul_engine::Timestamp;

/// Two compactions with at most this many requests between them are close. Chosen by hand.
const MAX_CLOSE_REQUESTS: usize = 3;
/// After this many close compactions in a row the user gets a notice. Chosen by hand.
const MIN_CLOSE_COMPACTIONS: u32 = 3;

/// The result of an attempt to compact.
pub(super) enum CompactionResult {
    /// Nothing changed, for this reason.
    Unchanged { reason: String, report: Option<CompactionReport> },
    /// Another process compacted the session first; this is the body after its compaction.
    LostRace { body: String },
    /// The compaction was planned for a preview, and not applied.
    Previewed(CompactedRequest),
    /// The compaction is active.
    Applied(CompactedRequest),
}

impl CompactionResult {
    /// Returns the request to send. `view_body` is the request after the ledger from before was replayed.
    pub(super) fn into_prepared(
        self,
        view_body: Cow<'_, str>,
        measured: MeasuredSize,
        sizes: RequestSizes,
    ) -> PreparedRequest<'_> {
        let (body, action, reason, report) = match self {
            Self::Unchanged { reason, report } => {
                let is_replayed = matches!(view_body, Cow::Owned(_));
                let action = if is_replayed { RequestAction::Replayed } else { RequestAction::Unchanged };
                (view_body, action, reason, report)
            }
            Self::LostRace { body } => {
                let reason = "another process compacted the session first; its result is used".to_owned();
                (body.into(), RequestAction::Replayed, reason, None)
            }
            Self::Previewed(CompactedRequest { body, report, .. }) => {
                let reason = "preview: nothing was changed".to_owned();
                (body.into(), RequestAction::Unchanged, reason, Some(report))
            }
            Self::Applied(CompactedRequest { body, report, .. }) => {
                (body.into(), RequestAction::Compacted, report.reason.clone(), Some(report))
            }
        };
        let (measured, sizes) = (Some(measured), Some(sizes));
        PreparedRequest { body, action, reason, report, measured, sizes, notices: Vec::new() }
    }
}

/// The reason why a plan changed nothing.
struct NoChange {
    reason: String,
    report: Option<CompactionReport>,
}

/// The options of a compaction that the policy does not contain: from a person's command, and from the host.
#[derive(Debug, Clone, Default)]
pub(super) struct ManualOptions {
    pub(super) focus: Option<String>,
    keep_from_message: Option<usize>,
    preview: Preview,
    /// The text that the host wants the checkpoint to quote.
    host_note: Option<Redacted>,
}

impl ManualOptions {
    pub(super) fn new(purpose: &Purpose, view: &Transcript<'_>) -> Self {
        let Purpose::Compress(compress) = purpose else { return Self::default() };
        let keep_from = compress.keep_newest.and_then(|exchange_count| start_of_newest_exchanges(view, exchange_count));
        Self { focus: compress.focus.clone(), keep_from_message: keep_from, preview: compress.preview, host_note: None }
    }
}

/// Returns the index of the message with which the newest `exchange_count` exchanges begin. An exchange is a person's
/// message and everything that follows it.
pub(super) fn start_of_newest_exchanges(view: &Transcript<'_>, exchange_count: usize) -> Option<usize> {
    let first = user_prompts(view).rev().take(exchange_count.max(1)).last()?;
    first.owned_elements.iter().filter_map(|id| view.message_of(*id)).min()
}

/// Whether a compaction at the threshold saves enough. From the safety threshold on any saving is enough.
fn saves_enough(context: RequestContext<'_, '_>, report: &CompactionReport) -> bool {
    let is_forced = context.size.measured.tokens >= context.request.policy.safety_threshold;
    is_forced || breaker::is_effective(report.ratio)
}

impl LiveSession {
    pub(super) async fn compact(
        &mut self,
        context: RequestContext<'_, '_>,
        cause: &CompactionCause,
        manual: &ManualOptions,
        reporter: &mut Reporter<'_>,
    ) -> CompactionResult {
        let RequestContext { request, size, now, .. } = context;
        let unchanged = |reason: String| CompactionResult::Unchanged { reason, report: None };
        let is_required = cause.urgency == Urgency::Required && manual.preview == Preview::No;
        if cause.urgency == Urgency::IfItPays && !self.could_pay(context) {
            return unchanged(self.postpone_payoff_check(context));
        }
        // Nothing requires the compaction yet, and it is better with a model's summary. An expired cache does not wait.
        if cause.urgency == Urgency::IfItPays
            && cause.trigger != Trigger::Idle
            && self.awaits_summary(context, reporter)
        {
            return unchanged("a compaction would pay; it waits for the model's summary".to_owned());
        }
        if is_required {
            reporter.report(notices::compaction_started(&size.measured, &request.policy, &cause.reason));
            self.await_summary(context, cause, manual, reporter).await;
        }
        let (mut base, mut summary) = self.base_and_summary(request.transcript, cause, manual);
        let mut planned = self.plan(context, cause, manual, &base, summary.clone());
        if planned.is_err() && base != *self.ledger.current() && cause.urgency != Urgency::WhileFree {
            // The late summary leads to no plan: continue without it.
            self.background_summary.discard_ready();
            (base, summary) = (self.ledger.current().clone(), None);
            planned = self.plan(context, cause, manual, &base, None);
        }
        let mut outcome = match planned {
            Ok(outcome) => outcome,
            Err(no_change) => {
                let NoChange { reason, report } = *no_change;
                if cause.urgency == Urgency::WhileFree {
                    self.background_summary.discard_ready();
                }
                if is_required && cause.counts_as_attempt() {
                    self.record_attempt(context, size.count.tokens, report.as_ref(), reporter);
                }
                if cause.urgency == Urgency::IfItPays {
                    self.postpone_payoff_check(context);
                }
                return CompactionResult::Unchanged { reason, report };
            }
        };
        if cause.can_be_skipped() && !saves_enough(context, &outcome.report) {
            self.record_attempt(context, outcome.report.tokens.after, Some(&outcome.report), reporter);
            let reason = "it would save under 10 %, less than the lost cache is worth".to_owned();
            return CompactionResult::Unchanged { reason, report: Some(outcome.report) };
        }
        if self.state.refused_ledger_hashes.contains(&hash_ledger(&outcome.ledger)) {
            return unchanged("the provider refused the same compaction before".to_owned());
        }
        if cause.urgency == Urgency::IfItPays && !self.pays(context, &outcome.report) {
            return unchanged(self.postpone_payoff_check(context));
        }
        if manual.preview == Preview::Yes {
            reporter.report(format!("a preview: {}", self.result_line(context, &outcome.report)));
            return CompactionResult::Previewed(outcome);
        }
        if cause.urgency != Urgency::Required {
            reporter.report(notices::compaction_started(&size.measured, &request.policy, &cause.reason));
        }
        let host_note = self.show_removal_to_host(request, &outcome);
        if host_note.is_some()
            && let Ok(outcome_with_note) =
                self.plan(context, cause, &ManualOptions { host_note, ..manual.clone() }, &base, summary)
        {
            outcome = outcome_with_note;
            outcome.report.notes.push("the checkpoint quotes a note of the host".to_owned());
        }
        let mut committed = self.commit(request.transcript, &outcome, now).await;
        if let Err(error) = &committed {
            // Plan again without recall IDs, because the store that they point to is unavailable.
            self.continue_without_store(error, reporter);
            outcome = match self.plan(context, cause, manual, &base, None) {
                Ok(outcome) => outcome,
                Err(no_change) => {
                    return CompactionResult::Unchanged { reason: no_change.reason, report: no_change.report };
                }
            };
            committed = self.commit(request.transcript, &outcome, now).await;
        }
        match committed {
            Ok(CommitResult::Overtaken) => self.adopt_winner(request, now, reporter).await,
            Ok(CommitResult::Saved(compaction)) => self.activate(context, cause, outcome, Some(compaction), reporter),
            Ok(CommitResult::Outdated) => self.activate(context, cause, outcome, None, reporter),
            Err(error) => unchanged(format!("the compaction could not be saved: {error}")),
        }
    }

    /// Makes a committed compaction the active one, updates the state, and reports it.
    fn activate(
        &mut self,
        context: RequestContext<'_, '_>,
        cause: &CompactionCause,
        mut outcome: CompactedRequest,
        compaction: Option<usize>,
        reporter: &mut Reporter<'_>,
    ) -> CompactionResult {
        self.ledger.replace(outcome.ledger.clone());
        // Entries that this compaction did not use belong to summarized turns: they may go after the next
        // compaction.
        self.block_cache.start_generation();
        (self.last_request.next_payoff_check, self.last_request.next_summary_check) = (Tokens::ZERO, Tokens::ZERO);
        let (before, after) = (context.size.count.tokens, outcome.report.tokens.after);
        // A new text for the same turns says nothing about how much a compaction removes.
        if cause.urgency != Urgency::WhileFree {
            self.state.last_compaction = Some(LastCompaction { left: after, removed: before - after });
        }
        self.state.is_undone = false;
        if let Some(line) = self.thrashing_line(context, cause) {
            reporter.report(line);
        }
        let by = outcome.report.checkpoint.as_ref().map(|checkpoint| checkpoint.by);
        // If shortening results was enough, the ready summary stays for a later compaction.
        if by.is_some() && self.background_summary.ready().is_some() {
            self.background_summary.discard_ready();
            if by != Some(WrittenBy::Model) {
                reporter.report("the model's summary was not used: it covers other turns, or failed the audit");
            }
        }
        if cause.counts_as_attempt() {
            self.record_attempt(context, outcome.report.tokens.after, Some(&outcome.report), reporter);
        }
        if cause.trigger != Trigger::Manual {
            outcome.report.reason.clone_from(&cause.reason);
        }
        let fallback_used = by == Some(WrittenBy::Fallback);
        outcome.report.state = StateReport { fallback_used, ..self.state_report(context.now) };
        reporter.report(self.result_line(context, &outcome.report));
        if let Some(compaction) = compaction {
            let name = self.recorder.as_ref().and_then(super::Recorder::name);
            self.host.after_compaction(&CompactionEvent::new(name, compaction, &outcome.report));
        }
        CompactionResult::Applied(outcome)
    }

    /// Words the notice about a finished compaction, with sizes on the scale of the size that triggered it.
    fn result_line(&self, context: RequestContext<'_, '_>, report: &CompactionReport) -> String {
        let after = context.size.scale(self.size_tracker.next_extra()).sent_size(report.tokens.after);
        notices::compaction_finished(context.size.measured.tokens, after, report)
    }

    /// Counts compactions that follow one another closely. After several in a row it returns a notice, once,
    /// with advice.
    fn thrashing_line(&mut self, context: RequestContext<'_, '_>, cause: &CompactionCause) -> Option<String> {
        let request_count = self.state.prompt_cache.request_count();
        let count_before = self.state.request_count_at_compaction.replace(request_count);
        let is_soon = |count_before| request_count.saturating_sub(count_before) <= MAX_CLOSE_REQUESTS;
        let is_close = cause.is_automatic() && count_before.is_some_and(is_soon);
        self.state.close_in_a_row = if is_close { self.state.close_in_a_row + 1 } else { 0 };
        if self.state.close_in_a_row < MIN_CLOSE_COMPACTIONS || !self.given_notices.insert("thrashing".to_owned()) {
            return None;
        }
        let (window, request_size) = (context.request.policy.window, context.request_size);
        let reply = if request_size.reply_reserve > Tokens::ZERO {
            format!(", and {} are reserved for the reply", request_size.reply_reserve)
        } else {
            String::new()
        };
        Some(format!(
            "nearly every request of this session is compacted: {} of the {window} tokens of its window cannot \
             be removed{reply}. A larger \
             window, fewer tools or shorter results would help",
            request_size.minimum_size
        ))
    }

    /// Plans a compaction; the error is the reason why nothing changes.
    fn plan(
        &mut self,
        context: RequestContext<'_, '_>,
        cause: &CompactionCause,
        manual: &ManualOptions,
        base: &Ledger,
        summary: Option<ModelSummary>,
    ) -> Result<CompactedRequest, Box<NoChange>> {
        let RequestContext { request, size, .. } = context;
        let policy = match cause.urgency {
            Urgency::Required | Urgency::WhileFree => request.policy.clone(),
            Urgency::IfItPays => request.policy.for_early_compaction(size.count.tokens),
        };
        let options = CompactOptions { summary, ..self.compact_options(cause, manual) };
        let (options, cache, transcript) = (&options, &mut self.block_cache, request.transcript);
        let plan = request.engine.plan(base, PlanInput { policy: &policy, options, cache, transcript });
        let no_change =
            |report: CompactionReport| Box::new(NoChange { reason: report.reason.clone(), report: Some(report) });
        match plan {
            // A ledger that adds nothing to its base is no progress.
            Ok(Plan::Ready(mut outcome)) if outcome.ledger != *self.ledger.current() && outcome.ledger != *base => {
                outcome.ledger.epoch = self.ledger.current().epoch + 1;
                Ok(outcome)
            }
            Ok(Plan::Unchanged(report) | Plan::Ready(CompactedRequest { report, .. })) => Err(no_change(report)),
            Err(error) => {
                let reason = format!("the compaction failed: {error}");
                Err(Box::new(NoChange { reason, report: None }))
            }
        }
    }

    /// Builds the options of a plan from the session, the cause and the manual options.
    pub(super) fn compact_options(&self, cause: &CompactionCause, manual: &ManualOptions) -> CompactOptions {
        let key = self.key();
        let originals = match (&self.recorder, &key) {
            (Some(recorder), Some(key)) if recorder.has_newest_request() => {
                Originals::Stored(RecallIds::new(key.clone()))
            }
            _ => Originals::Discarded,
        };
        CompactOptions {
            trigger: cause.trigger,
            force: true,
            to_tokens: cause.to_tokens,
            focus: manual.focus.clone(),
            originals,
            session_id: self.recorder.as_ref().and_then(super::Recorder::name),
            count_facts: CountFacts::No,
            redaction_rules: self.settings.rules.clone(),
            session_key: key,
            known_checkpoints: self.ledger.checkpoints().to_vec(),
            keep_from: manual.keep_from_message,
            host_note: manual.host_note.clone(),
            summary: None,
            weights: None,
            cancel: self.cancel.clone(),
        }
    }

    /// Returns the ledger to plan from, and the summary to use. A summary that became ready after the last
    /// compaction refers to turns that this compaction removed. So the plan starts from the ledger before that
    /// compaction, and the new ledger replaces it. A compaction by hand never uses a late summary, because its
    /// options refer to the current view.
    fn base_and_summary(
        &self,
        transcript: &Transcript<'_>,
        cause: &CompactionCause,
        manual: &ManualOptions,
    ) -> (Ledger, Option<ModelSummary>) {
        let is_usable = |basis: &SummaryBasis| {
            let matches = basis.ledger.is_empty() || basis.ledger.matches(transcript);
            let is_late = basis.ledger != *self.ledger.current();
            basis.focus == manual.focus && (!is_late || (matches && cause.is_automatic()))
        };
        match self.background_summary.ready().filter(|ready| is_usable(&ready.basis)) {
            Some(ready) => (ready.basis.ledger.clone(), Some(ready.summary.clone())),
            None => (self.ledger.current().clone(), None),
        }
    }

    /// Shows the host the messages that will change, and returns its redacted note.
    fn show_removal_to_host(&self, request: &ParsedRequest<'_, '_>, outcome: &CompactedRequest) -> Option<Redacted> {
        let transcript = request.transcript;
        let text =
            self.host.before_removal(&PendingRemoval::between(self.ledger.current(), &outcome.ledger, transcript))?;
        host::redact_host_note(&text, &self.settings.rules, self.key().as_ref())
    }

    async fn commit(
        &mut self,
        transcript: &Transcript<'_>,
        outcome: &CompactedRequest,
        now: Timestamp,
    ) -> Result<CommitResult, StoreError> {
        match &mut self.recorder {
            Some(recorder) if recorder.has_newest_request() => {
                recorder.commit(transcript, outcome, &self.settings.rules, now).await
            }
            Some(recorder) => {
                recorder.hold_unsaved(outcome);
                Ok(CommitResult::Saved(outcome.ledger.epoch as usize))
            }
            None => Ok(CommitResult::Saved(outcome.ledger.epoch as usize)),
        }
    }

    /// Takes over the compaction of another process that was faster.
    async fn adopt_winner(
        &mut self,
        request: &ParsedRequest<'_, '_>,
        now: Timestamp,
        reporter: &mut Reporter<'_>,
    ) -> CompactionResult {
        let transcript = request.transcript;
        self.record_request(transcript, request.message_hashes, now, reporter).await;
        match replay_ledger(self.ledger.current(), transcript) {
            Ok(body) => CompactionResult::LostRace { body: body.into_owned() },
            Err(error) => CompactionResult::Unchanged { reason: error.to_string(), report: None },
        }
    }

    /// Records an automatic compaction, made or tried, in the breaker, and reports a pause that it causes.
    fn record_attempt(
        &mut self,
        context: RequestContext<'_, '_>,
        after: Tokens,
        report: Option<&CompactionReport>,
        reporter: &mut Reporter<'_>,
    ) {
        let RequestContext { request, size, now, .. } = context;
        let checkpoint =
            report.and_then(|report| report.checkpoint.as_ref()).map_or(Tokens::ZERO, |checkpoint| checkpoint.tokens);
        let minimum_size = report.map_or(Tokens::ZERO, |report| report.tokens.floor);
        let effect = breaker::CompactionEffect { before: size.count.tokens, after, checkpoint, minimum_size };
        let (max_per_hour, window) = (self.settings.limits.max_compactions_per_hour, request.policy.window);
        if let Some(pause) = self.state.breaker.record_compaction(effect, max_per_hour, window, now) {
            reporter.report(pause.to_string());
        }
    }

    /// Reports the state of the session's compactions: failures, pauses and cooldowns.
    fn state_report(&self, now: Timestamp) -> StateReport {
        let state = &self.state;
        StateReport {
            fallback_used: false,
            last_error: state.last_error.clone(),
            auxiliary_failed: state.auxiliary_failed.clone(),
            ineffective_in_a_row: state.breaker.ineffective_in_a_row(),
            paused_until: state.breaker.paused().map(|pause| pause.until().to_string()),
            cooldown_seconds: state.cooldowns.longest_remaining(now).as_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_engine::config::{Config, ModelOverride};
    use serde_json::json;

    use super::*;
    use crate::session::{DefaultHost, IncomingRequest, SessionSettings};
    use crate::store::{Durability, Store, StoreLocation};

    #[tokio::test]
    async fn a_winner_that_was_undone_meanwhile_leaves_the_ledger_as_it_was() {
        const NOW: Timestamp = Timestamp(1_780_000_000_000);
        let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
        let tenant = store.get_or_create_tenant("local").await.unwrap();
        let mut config = Config::default();
        let stated = ModelOverride { context_length: Some(Tokens(20_000)), ..ModelOverride::default() };
        config.models.insert("house-model".to_owned(), stated);
        let settings = SessionSettings { config, ..SessionSettings::default() };
        let mut session = LiveSession::new(settings).with_store(store, tenant.clone());
        let mut messages = vec![json!({"role": "user", "content": "Make the build green."})];
        for n in 0..40 {
            let id = format!("call_{n}");
            let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": "{}"}});
            messages.push(json!({"role": "assistant", "content": format!("Target {n}."), "tool_calls": [call]}));
            let output = format!("compiling unit {n} of the project\n").repeat(60);
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
        }
        let body = json!({"model": "house-model", "messages": messages}).to_string();
        session.prepare_request(&body, NOW).await;
        let ledger = session.ledger().clone();
        assert!(!ledger.is_empty());
        let incoming = IncomingRequest::parse(None, &body, Some(&tenant)).unwrap();
        let policy = session.policy().unwrap();
        let request = ParsedRequest {
            transcript: &incoming.transcript,
            message_hashes: &incoming.message_hashes,
            engine: session.settings.engines.find_or_compressor(&policy.engine),
            policy,
            view_body: Cow::Borrowed(&body),
            is_undone: false,
        };
        // The store answers as before: whoever was faster has undone the compaction since.
        let result = session.adopt_winner(&request, NOW, &mut Reporter::new(&DefaultHost)).await;
        assert!(matches!(result, CompactionResult::LostRace { .. }));
        assert_eq!(*session.ledger(), ledger);
    }
}
