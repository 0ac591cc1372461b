//! A request in flight: a value that settles its accounts when it is dropped, whatever ended the request.
//!
//! ```text
//! admit: reserve tokens ──▶ called ──▶ answered ──▶ dropped: replace the reservation by the tokens spent,
//!    └── client gone, error, panic ──────────────▶          update session, log, metrics and store
//! ```
//!
//! Settlement happens in `Drop`, so no caller can forget it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use longhaul_engine::prices::{Dollars, TokenPrices, Usage};
use longhaul_engine::{ApiFormat, Tokens};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tracing::{Instrument as _, Span};

use super::Gateway;
use super::auth::{Denied, Principal};
use super::baseline::ReportedRequest;
use super::prepare::ReadyRequest;
use super::recall_loop::RecallLoopResult;
use super::relay::{EndKind, ReplyEnding};
use super::session_memory::CacheMiss;
use crate::store::{SessionId, TrafficAction, TrafficRecord, UtcDay};
use crate::upstream::UpstreamError;
use longhaul_engine::Timestamp;

/// The output tokens that are reserved if the request does not limit its output. Chosen by hand: a short
/// reply. A longer reply is charged when it ends.
pub(super) const DEFAULT_OUTPUT_RESERVE: Tokens = Tokens(1_000);
/// The statuses with which providers limit a client's rate or report that they are overloaded.
const RATE_LIMIT_STATUSES: [u16; 3] = [429, 503, 529];
/// The logged status of a request whose client left before there was a status. nginx uses the same number.
const CLIENT_CLOSED_STATUS: u16 = 499;

/// The kinds of request that are counted separately.
#[derive(Debug, Clone)]
pub(super) enum RequestKind {
    /// A request to a model, on a route that Longhaul reads.
    Model,
    /// A request on any other route.
    Other,
    /// A request of ours for a summary.
    Summary(SummaryCall),
}

/// A request for a summary, as far as its accounts are concerned.
#[derive(Debug, Clone)]
pub(super) struct SummaryCall {
    /// The session that is summarized; none while the store is unavailable.
    pub(super) session: Option<SessionId>,
    pub(super) model: String,
    pub(super) price: Option<TokenPrices>,
}

/// How far a request got before it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestStage {
    /// The upstream was not called.
    Admitted,
    /// The upstream is being called, and has not answered yet.
    Called,
    /// The upstream answered with this status.
    Answered(u16),
    /// The upstream gave no answer, and the client received this status.
    Unanswered(u16),
    /// The upstream could not be reached, and the client received this status.
    Unreached(u16),
}

/// An admitted request. Dropping it settles its accounts.
pub(super) struct InFlight(Option<Box<RequestAccount>>);

/// Everything that a settlement needs.
struct RequestAccount {
    gateway: Arc<Gateway>,
    principal: Principal,
    api_format: ApiFormat,
    span: Span,
    kind: RequestKind,
    started_at: Instant,
    added_latency: Duration,
    reservation: TokenReservation,
    stage: RequestStage,
    /// The tokens of the request as sent, by our own count.
    sent_tokens: Tokens,
    action: TrafficAction,
    /// The prepared request, if it belongs to a session.
    ready_request: Option<Box<ReadyRequest>>,
    recall_result: Arc<Mutex<RecallLoopResult>>,
    ending: ReplyEnding,
}

/// Tokens that count against a key's daily limit before they are spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenReservation {
    tokens: Tokens,
    day: UtcDay,
    /// Whether the store counts the reservation. Otherwise only this process does.
    is_stored: bool,
}

impl Gateway {
    /// Admits a request. `input_estimate` is its estimated input, `output_limit` the largest output that it
    /// allows. If the key has a daily limit, both count against it at once, so that concurrent requests count
    /// against each other at every gateway that shares the store.
    pub(super) async fn admit(
        self: &Arc<Self>,
        principal: &Principal,
        (api_format, kind): (ApiFormat, RequestKind),
        (input_estimate, output_limit): (Tokens, Tokens),
    ) -> Result<InFlight, Denied> {
        let reservation = self.reserve_tokens(principal, input_estimate + output_limit).await?;
        Ok(InFlight(Some(Box::new(RequestAccount {
            gateway: Arc::clone(self),
            principal: principal.clone(),
            api_format,
            span: Span::current(),
            kind,
            started_at: Instant::now(),
            added_latency: Duration::ZERO,
            reservation,
            stage: RequestStage::Admitted,
            sent_tokens: input_estimate,
            action: TrafficAction::Unchanged,
            ready_request: None,
            recall_result: Arc::default(),
            ending: ReplyEnding::default(),
        }))))
    }

    async fn reserve_tokens(&self, principal: &Principal, tokens: Tokens) -> Result<TokenReservation, Denied> {
        let now = self.now();
        let day = UtcDay::containing(now);
        let none = TokenReservation { tokens: Tokens::ZERO, day, is_stored: false };
        let Some((key, daily_limit)) = principal.daily_limit() else { return Ok(none) };
        let is_stored = match self.store.reserve_key_tokens(key, tokens, daily_limit, day).await {
            Ok(true) => true,
            Ok(false) => {
                self.key_usage.set(key, day, daily_limit);
                return Err(Denied::daily_limit(daily_limit, day.time_left(now)));
            }
            Err(error) => {
                tracing::warn!("cannot record a key's expected usage in the store: {error}");
                if self.key_usage.used(key, day) >= daily_limit {
                    return Err(Denied::daily_limit(daily_limit, day.time_left(now)));
                }
                false
            }
        };
        self.key_usage.replace_reserved(key, day, Tokens::ZERO, tokens);
        Ok(TokenReservation { tokens, day, is_stored })
    }
}

impl InFlight {
    fn account(&mut self) -> Option<&mut RequestAccount> {
        self.0.as_deref_mut()
    }

    /// Sets the action that is logged for a request without a session.
    pub(super) fn set_action(&mut self, action: &TrafficAction) {
        if let Some(account) = self.account() {
            account.action = action.clone();
        }
    }

    /// Takes over the prepared request that is about to be sent.
    pub(super) fn attach_request(&mut self, ready: Box<ReadyRequest>) {
        if let Some(account) = self.account() {
            account.ready_request = Some(ready);
        }
    }

    /// Gives the prepared request back, so that it can be prepared again.
    pub(super) fn detach_request(&mut self) -> Option<Box<ReadyRequest>> {
        self.account()?.ready_request.take()
    }

    /// Returns the prepared request, if it belongs to a session.
    pub(super) fn ready_request(&mut self) -> Option<&mut ReadyRequest> {
        self.account()?.ready_request.as_deref_mut()
    }

    /// Returns the usage that the recall loop of this request fills in.
    pub(super) fn recall_result(&self) -> Arc<Mutex<RecallLoopResult>> {
        self.0.as_ref().map(|account| Arc::clone(&account.recall_result)).unwrap_or_default()
    }

    /// Notes that the upstream is about to be called with a request of this size.
    pub(super) fn mark_called(&mut self, sent: Tokens) {
        if let Some(account) = self.account() {
            if account.stage == RequestStage::Admitted {
                account.added_latency = account.started_at.elapsed();
            }
            (account.stage, account.sent_tokens) = (RequestStage::Called, sent);
        }
    }

    /// Corrects the number of tokens sent, once it is known.
    pub(super) fn set_sent_tokens(&mut self, tokens: Tokens) {
        if let Some(account) = self.account() {
            account.sent_tokens = tokens;
        }
    }

    /// Notes that the upstream answered with this status.
    pub(super) fn mark_answered(&mut self, status: u16) {
        if let Some(account) = self.account() {
            account.stage = RequestStage::Answered(status);
        }
    }

    /// Notes that no answer came, and that the client received this status.
    pub(super) fn mark_unanswered(&mut self, error: &UpstreamError, status: u16) {
        if let Some(account) = self.account() {
            account.stage = match error {
                UpstreamError::Unreachable(_) | UpstreamError::TimedOut(crate::upstream::TimeoutStage::Connect) => {
                    RequestStage::Unreached(status)
                }
                _ => RequestStage::Unanswered(status),
            };
        }
    }

    /// Ends the request together with its reply.
    pub(super) fn finish(mut self, ending: ReplyEnding) {
        if let Some(account) = self.account() {
            account.ending = ending;
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Some(mut account) = self.0.take() else { return };
        // Let the next request claim the session at once. It waits for the lock until this one is written.
        if let Some(ready) = &mut account.ready_request {
            ready.claim.release();
        }
        if let Ok(runtime) = Handle::try_current() {
            let (tasks, span) = (account.gateway.background_work.clone(), account.span.clone());
            tasks.spawn_on(account.settle().instrument(span), &runtime);
        }
    }
}

/// The tokens that one request used.
#[derive(Debug, Clone, PartialEq, Default)]
struct BilledUsage {
    /// The usage of the first reply, which is what the client's own request caused.
    first_reply: Usage,
    /// The usage of all replies, including those to recall calls.
    all_replies: Usage,
    /// The tokens that the key is charged: reported ones, and estimates where nothing was reported.
    charged_tokens: Tokens,
}

impl RequestAccount {
    /// Returns the status for the log and the metrics.
    fn status(&self) -> u16 {
        match self.stage {
            RequestStage::Answered(status) | RequestStage::Unanswered(status) | RequestStage::Unreached(status) => {
                status
            }
            RequestStage::Admitted | RequestStage::Called => CLIENT_CLOSED_STATUS,
        }
    }

    fn billed_usage(&self, recall_result: &RecallLoopResult) -> BilledUsage {
        match self.stage {
            RequestStage::Admitted | RequestStage::Unreached(_) => return BilledUsage::default(),
            RequestStage::Answered(status) if !(200..300).contains(&status) => return BilledUsage::default(),
            RequestStage::Answered(_) | RequestStage::Called | RequestStage::Unanswered(_) => {}
        }
        let ReplyEnding { reply, so_far, .. } = &self.ending;
        let sum = |usage: &Usage| usage.input.unwrap_or_default() + usage.output.unwrap_or_default();
        if let Some(first_usage) = recall_result.first_reply {
            // A round of the recall loop may have ended before its usage was reported.
            let unreported_output =
                if recall_result.unreported_tokens > Tokens::ZERO { so_far.estimated_output } else { Tokens::ZERO };
            return BilledUsage {
                first_reply: first_usage,
                all_replies: recall_result.all_replies,
                charged_tokens: sum(&recall_result.all_replies) + recall_result.unreported_tokens + unreported_output,
            };
        }
        let reported = reply.as_ref().and_then(|reply| reply.usage);
        let partial = || {
            let usage = so_far.usage.unwrap_or_default();
            let output = usage.output.unwrap_or_default().max(so_far.estimated_output);
            Usage { output: usage.input.map(|_| output), ..usage }
        };
        let first_usage = reported.unwrap_or_else(partial);
        let output = first_usage.output.unwrap_or(so_far.estimated_output);
        BilledUsage {
            first_reply: first_usage,
            all_replies: first_usage,
            charged_tokens: first_usage.input.unwrap_or(self.sent_tokens) + output,
        }
    }

    async fn settle(mut self: Box<Self>) {
        let recall_result = std::mem::take(&mut *self.recall_result.lock());
        let bill = self.billed_usage(&recall_result);
        match (self.kind.clone(), self.ready_request.take()) {
            _ if self.stage == RequestStage::Admitted => {}
            (RequestKind::Model, Some(ready)) => self.settle_session(*ready, recall_result, &bill).await,
            (RequestKind::Model, None) => {
                let traffic = TrafficRecord {
                    action: self.action.clone(),
                    usage: bill.all_replies,
                    added_time: self.added_latency,
                    total_time: self.started_at.elapsed(),
                    ..empty_traffic(self.gateway.now())
                };
                self.gateway.metrics.record_reply(self.api_format, self.status(), &traffic, None);
                self.log(&traffic, None);
            }
            (RequestKind::Summary(call), _) => self.settle_summary(call, &bill).await,
            (RequestKind::Other, _) => {
                let (status, tokens) = (self.status(), bill.charged_tokens.number());
                tracing::info!(status, tokens, "passed through: {}", self.ending.kind.log_message());
            }
        }
        self.settle_reservation(bill.charged_tokens).await;
    }

    /// Records a summary as a request of its own, so that its cost is part of every total.
    async fn settle_summary(&self, call: SummaryCall, bill: &BilledUsage) {
        let SummaryCall { session, model, price } = call;
        let gateway = &self.gateway;
        let usage = bill.all_replies;
        let usd = price.filter(|_| usage.input.is_some()).map(|price| usage.bill(&price).total());
        let traffic = TrafficRecord {
            model: Some(model),
            action: TrafficAction::Summary,
            usage,
            total_time: self.started_at.elapsed(),
            usd,
            usd_without_longhaul: usd.map(|_| Dollars::ZERO),
            ..empty_traffic(gateway.now())
        };
        gateway.metrics.record_summary(self.status(), &traffic);
        self.log(&traffic, None);
        // A request that nobody answered has no figures to store; the metrics count it.
        let session = session.filter(|_| (200..300).contains(&self.status()));
        let (Some(session), Some(tenant)) = (session, &self.principal.tenant) else { return };
        if let Err(error) = gateway.store.record_traffic(tenant, session, &traffic).await {
            tracing::warn!("cannot record a summary in the store: {error}");
        }
        gateway.dashboard.change_feed.notify(tenant);
    }

    async fn settle_session(&self, ready: ReadyRequest, recall_result: RecallLoopResult, bill: &BilledUsage) {
        let ReadyRequest {
            mut claim,
            action,
            sizes,
            model,
            cache_expectation: expected,
            previous_tokens,
            client_request,
            has_breakpoints,
            has_tools,
            ..
        } = ready;
        let is_unchanged = action == TrafficAction::Unchanged && !has_breakpoints && !has_tools;
        let (gateway, status) = (&self.gateway, self.status());
        let is_accepted = (200..300).contains(&status);
        if !is_accepted {
            claim.session().record_unresolved();
        }
        if is_accepted && self.ending.reply.is_some() {
            let mut notices = claim.session().record_reply(&bill.first_reply).await.notices;
            notices.extend(claim.session().start_planned_summary(gateway.now()));
            for line in notices {
                tracing::info!("{line}");
            }
        }
        if RATE_LIMIT_STATUSES.contains(&status) {
            claim.session().record_rate_limit(gateway.now());
        }
        let entry = claim.entry();
        if let Some(hidden_turn) = recall_result.hidden_turn {
            entry.memory.hidden_turns.add(hidden_turn);
        }
        let miss = entry
            .memory
            .record_usage_and_explain_miss(&expected, previous_tokens, &bill.first_reply)
            .filter(|_| is_accepted);
        if let Some(miss) = &miss {
            tracing::info!("cache miss: {miss}");
        }
        for line in entry.session.save_pending().await {
            tracing::warn!("{line}");
        }
        if let Some(tenant) = &self.principal.tenant {
            gateway.store_hidden_turns(tenant, &entry.session, &mut entry.memory.hidden_turns).await;
        }
        let now = gateway.now();
        let prices = entry.session.policy().and_then(|policy| policy.known_prices().cloned());
        let usd = prices.as_ref().filter(|_| bill.first_reply.input.is_some());
        let usd = usd.map(|prices| bill.all_replies.bill(&prices.price).total());
        let has_provider_lost_cache = matches!(miss, Some(CacheMiss::Lost { .. }));
        let reported =
            ReportedRequest { usage: bill.first_reply, sizes, is_unchanged, has_provider_lost_cache, at: now };
        let baseline_usage =
            client_request.and_then(|request| entry.memory.baseline.estimate_usage(&request, &reported));
        let usd_without = prices.as_ref().zip(baseline_usage).map(|(prices, usage)| usage.bill(&prices.price).total());
        let traffic = TrafficRecord {
            at: now,
            model: Some(model).filter(|model| !model.is_empty()),
            action,
            tokens_before: sizes.original,
            tokens_after: sizes.sent,
            usage: bill.all_replies,
            cache_miss_reason: miss.as_ref().map(ToString::to_string),
            added_time: self.added_latency,
            total_time: self.started_at.elapsed(),
            usd,
            usd_without_longhaul: usd_without,
        };
        gateway.metrics.record_reply(self.api_format, status, &traffic, miss.as_ref().map(CacheMiss::metric_label));
        self.log(&traffic, entry.session.name().as_deref());
        if let (Some(id), Some(tenant)) = (entry.session.id(), &self.principal.tenant)
            && let Err(error) = gateway.store.record_traffic(tenant, id, &traffic).await
        {
            tracing::warn!("cannot record a request in the store: {error}");
        }
        if let Some(tenant) = &self.principal.tenant {
            gateway.dashboard.change_feed.notify(tenant);
        }
    }

    fn log(&self, traffic: &TrafficRecord, session: Option<&str>) {
        tracing::info!(
            session,
            status = self.status(),
            action = %traffic.action,
            before = traffic.tokens_before.number(),
            after = traffic.tokens_after.number(),
            input = traffic.usage.input.map(Tokens::number),
            read = traffic.usage.read.map(Tokens::number),
            added_ms = traffic.added_time.as_secs_f64() * 1e3,
            took_ms = traffic.total_time.as_secs_f64() * 1e3,
            "{}",
            self.ending.kind.log_message(),
        );
    }

    /// Replaces the reservation by the tokens that were spent.
    async fn settle_reservation(&self, spent: Tokens) {
        let Some(key_grant) = &self.principal.key_grant else { return };
        let TokenReservation { tokens, day, is_stored } = self.reservation;
        if (tokens, spent) == (Tokens::ZERO, Tokens::ZERO) {
            return;
        }
        let gateway = &self.gateway;
        gateway.key_usage.replace_reserved(key_grant.id, day, tokens, spent);
        let stored = if is_stored { tokens } else { Tokens::ZERO };
        match gateway.store.settle_key_tokens(key_grant.id, stored, spent, day).await {
            Ok(total) => gateway.key_usage.set(key_grant.id, day, total),
            Err(error) => tracing::warn!("cannot record a key's usage in the store: {error}"),
        }
    }
}

impl EndKind {
    /// Returns the log message for this ending.
    fn log_message(self) -> &'static str {
        match self {
            Self::Complete => "answered",
            Self::BrokenOff => "the reply ended early",
            Self::ClientLeft => "the client closed the connection before the end",
        }
    }
}

/// Returns a traffic record without any figures.
fn empty_traffic(at: Timestamp) -> TrafficRecord {
    TrafficRecord {
        at,
        model: None,
        action: TrafficAction::Unchanged,
        tokens_before: Tokens::ZERO,
        tokens_after: Tokens::ZERO,
        usage: Usage::default(),
        cache_miss_reason: None,
        added_time: Duration::ZERO,
        total_time: Duration::ZERO,
        usd: None,
        usd_without_longhaul: None,
    }
}
