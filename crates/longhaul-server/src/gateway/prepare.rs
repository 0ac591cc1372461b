//! Prepares a request for sending: finds its session, replays its decisions, compacts if a trigger applies,
//! and sets the cache breakpoints.
//!
//! All of this runs in the pool. None of it can fail a request: after any error the original is sent, with a
//! reason.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use longhaul_engine::cache::{CachingMode, FIVE_MINUTES, ONE_HOUR, PrefixChain};
use longhaul_engine::keyed_hash::{HashChainCache, KeyedHash};
use longhaul_engine::policy::Policy;
use longhaul_engine::wire::{self, CacheLifetime};
use longhaul_engine::{ApiFormat, CancelFlag, Tokens, Transcript};
use tokio::time::timeout;

use super::Gateway;
use super::baseline::ClientRequest;
use super::breakpoints::UpstreamCaching;
use super::commands::{self, CommandRequest};
use super::live_sessions::{LiveEntry, SessionClaim};
use super::recall_loop::{self, HiddenToolTurns};
use super::session_memory::{CacheExpectation, NextRequest, SessionMemory};
use super::settings::RecallMode;
use super::summary_client::SummaryClient;
use crate::session::{IncomingRequest, LiveSession, RequestAction, RequestSizes, replay_if_changed};
use crate::store::{StoreError, Tenant, TrafficAction};
use crate::upstream::ModelClient;

/// A request that is to be prepared.
pub(super) struct RequestJob {
    pub(super) gateway: Arc<Gateway>,
    pub(super) tenant: Tenant,
    pub(super) api_format: ApiFormat,
    /// The request body as decompressed UTF-8 text.
    pub(super) text: Bytes,
    /// The ID that the client gave its session; empty if it gave none.
    pub(super) client_session_id: Vec<u8>,
    /// Whether the request contains a compaction that the gateway handed to the client earlier.
    pub(super) continues_client_compaction: bool,
    /// Asks models for summaries of the session; none if code writes all of them.
    pub(super) summary_client: Option<Arc<SummaryClient>>,
}

/// A prepared request, with all that is needed to settle it later.
pub(super) struct ReadyRequest {
    pub(super) claim: SessionClaim,
    /// The new body; none if the client's own body is sent unchanged.
    pub(super) body: Option<Bytes>,
    /// Whether the body contains cache breakpoints or a cache key of ours.
    pub(super) has_breakpoints: bool,
    /// Whether the body offers the recall tools.
    pub(super) has_tools: bool,
    /// The hash of the newest message.
    pub(super) newest_message: Option<KeyedHash>,
    pub(super) action: TrafficAction,
    pub(super) sizes: RequestSizes,
    pub(super) model: String,
    pub(super) cache_expectation: CacheExpectation,
    /// The kind of store error because of which the session is in memory only.
    pub(super) store_error_kind: Option<&'static str>,
    /// The tokens of the previous request as the provider counted them.
    pub(super) previous_tokens: Tokens,
    /// The request as the client sent it, for the cost baseline; none if its price is unknown.
    pub(super) client_request: Option<ClientRequest>,
    prefix_chain: Option<PrefixChain>,
}

/// The outcome of preparing a request.
pub(super) enum PrepareOutcome {
    Ready(Box<ReadyRequest>),
    /// A command that the gateway answers itself, without a model.
    Command(CommandRequest),
    /// The request is passed through unchanged, for this reason.
    Bypass(&'static str),
}

impl RequestJob {
    fn text(&self) -> &str {
        // The UTF-8 was checked when the body was decoded.
        std::str::from_utf8(&self.text).unwrap_or_default()
    }

    /// Returns the same job for another text.
    pub(super) fn with_text(&self, text: Bytes) -> Self {
        let (gateway, tenant, client_session_id) =
            (Arc::clone(&self.gateway), self.tenant.clone(), self.client_session_id.clone());
        Self {
            gateway,
            tenant,
            api_format: self.api_format,
            text,
            client_session_id,
            continues_client_compaction: self.continues_client_compaction,
            summary_client: self.summary_client.clone(),
        }
    }

    /// Claims the session that the request continues, or a new one, and lets it ask models as this client.
    pub(super) async fn claim_session(&self, incoming: &IncomingRequest<'_>) -> SessionClaim {
        let mut claim = self.gateway.claim_session(&self.tenant, incoming).await;
        self.lend_models(claim.session());
        claim
    }

    /// Lets a session ask models with the credential of this request's client, until the request is settled.
    fn lend_models(&self, session: &mut LiveSession) {
        session.use_models(self.summary_client.clone().map(|client| client as Arc<dyn ModelClient>));
    }

    /// Prepares the request within the deadline. A missed deadline becomes [`PrepareOutcome::Bypass`].
    pub(super) async fn run(self: &Arc<Self>, claim: Option<SessionClaim>) -> PrepareOutcome {
        let prepared = self.run_in_pool(|job, cancel| async move { job.prepare(claim, cancel).await }).await;
        prepared.unwrap_or_else(PrepareOutcome::Bypass)
    }

    /// Runs work in the pool within the deadline of a request. The error is the name of the reason why it
    /// was not done, for the action header. Work that misses the deadline is cancelled.
    pub(super) async fn run_in_pool<T, F>(
        self: &Arc<Self>,
        work: impl FnOnce(Arc<Self>, CancelFlag) -> F,
    ) -> Result<T, &'static str>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let gateway = &self.gateway;
        let limit = gateway.settings.limits.deadline + gateway.settings.session.max_summary_wait;
        let mut cancel_guard = CancelPlanOnDrop(CancelFlag::new());
        let work = gateway.pool.run(
            self.tenant.pool_owner().for_request_size(self.text.len()),
            work(Arc::clone(self), cancel_guard.0.clone()),
        );
        let outcome = timeout(limit, work).await;
        if outcome.is_ok() {
            cancel_guard.disarm();
        }
        match outcome {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(reason)) => Err(reason.name()),
            Err(_) => Err("deadline"),
        }
    }

    async fn prepare(&self, claim: Option<SessionClaim>, cancel: CancelFlag) -> PrepareOutcome {
        let Self { gateway, tenant, api_format, .. } = self;
        let mut text = self.text();
        let stripped;
        if gateway.settings.commands.is_on()
            && let Some(commands) = commands::find_commands(*api_format, text)
        {
            if let Some(command) = commands.newest {
                return PrepareOutcome::Command(CommandRequest { command, body: commands.body });
            }
            stripped = commands.body;
            text = &stripped;
        }
        let is_stripped = text.len() != self.text.len();
        let Ok(incoming) = self.parse(text) else { return PrepareOutcome::Bypass("unreadable") };
        if incoming.message_hashes.is_empty() {
            return PrepareOutcome::Bypass("unreadable");
        }
        let mut claim = match claim {
            Some(mut claim) => {
                self.lend_models(claim.session());
                claim
            }
            None => self.claim_session(&incoming).await,
        };
        let now = gateway.now();
        let model = model_name(&incoming).to_owned();
        gateway.load_hidden_turns(tenant, &incoming.message_hashes, &mut claim.entry().memory.hidden_turns).await;
        claim.begin_preparation(cancel);
        let LiveEntry { session, memory } = claim.entry();
        let previous_tokens = memory.last_token_count();
        let recall_tokens = |hidden_turns: &HiddenToolTurns| {
            recall_loop::tool_definition_tokens(*api_format) + hidden_turns.tokens(&incoming.message_hashes)
        };
        // The ledger of a session that is not in memory is loaded only by `prepare_parsed`. Hidden turns show
        // that it will have one, so the tools are counted now.
        let has_hidden_turns = memory.hidden_turns.tokens(&incoming.message_hashes) > Tokens::ZERO;
        let wants_tools = has_hidden_turns || self.wants_tools(session, memory);
        session.expect_extra_tokens(if wants_tools { recall_tokens(&memory.hidden_turns) } else { Tokens::ZERO });
        let mut finished = FinishedBody::default();
        let mut final_edit = |session: &LiveSession, sent: &Transcript<'_>, policy: &Policy| {
            finished = self.finish_body(session, memory, sent, policy, &incoming);
            finished.body.take()
        };
        let prepared = session.prepare_parsed(&incoming, now, &mut final_edit).await;
        claim.end_preparation();
        let LiveEntry { session, memory } = claim.entry();
        if let Some(client) = &self.summary_client {
            client.set_session(session.id());
        }
        session.record_extra_tokens(if finished.has_tools {
            recall_tokens(&memory.hidden_turns)
        } else {
            Tokens::ZERO
        });
        let policy = session.policy().filter(|policy| policy.known_prices().is_some());
        let client_request = policy.map(|policy| memory.baseline.read(&incoming.transcript, &policy));
        for line in &prepared.notices {
            tracing::info!(session = claim.session().name(), "{line}");
        }
        gateway.live_sessions.index_by_newest_message(&claim, incoming.message_hashes.last());
        let action = match prepared.action {
            RequestAction::Unchanged if prepared.measured.is_none() => TrafficAction::Bypassed("engine".to_owned()),
            RequestAction::Unchanged => TrafficAction::Unchanged,
            RequestAction::Replayed => TrafficAction::Replayed,
            RequestAction::Compacted => TrafficAction::Compacted,
        };
        let store_error_kind = claim.session().store_error().map(StoreError::kind);
        let sizes = prepared.sizes.unwrap_or(RequestSizes { original: Tokens::ZERO, sent: Tokens::ZERO });
        let FinishedBody { has_breakpoints, has_tools, prefix_chain, cache_expectation: expected, .. } = finished;
        let expected = if prepared.action == RequestAction::Compacted { expected.after_compaction() } else { expected };
        let is_bypassed = matches!(action, TrafficAction::Bypassed(_));
        let body = match prepared.body {
            _ if is_bypassed => None,
            Cow::Owned(body) => Some(Bytes::from(body)),
            Cow::Borrowed(body) if is_stripped => Some(Bytes::from(body.to_owned())),
            Cow::Borrowed(_) => None,
        };
        let (has_breakpoints, has_tools) = (has_breakpoints && body.is_some(), has_tools && body.is_some());
        PrepareOutcome::Ready(Box::new(ReadyRequest {
            claim,
            body,
            has_breakpoints,
            has_tools,
            newest_message: incoming.message_hashes.last().copied(),
            action,
            sizes,
            model,
            cache_expectation: expected,
            store_error_kind,
            previous_tokens,
            client_request,
            prefix_chain,
        }))
    }

    /// Applies the session's stored decisions to the request; none if neither they nor the removal of
    /// commands changes it.
    pub(super) async fn replay_decisions(&self) -> Option<String> {
        let text = self.text();
        let is_on = self.gateway.settings.commands.is_on();
        let stripped = is_on.then(|| commands::find_commands(self.api_format, text)).flatten().map(|found| found.body);
        let incoming = self.parse(stripped.as_deref().unwrap_or(text)).ok()?;
        let IncomingRequest { transcript, message_hashes, .. } = &incoming;
        let found =
            self.gateway.store.find_match_by_hashes(&self.tenant, transcript, message_hashes).await.ok().flatten();
        let replayed = found.and_then(|found| replay_if_changed(&found.view.ledger, transcript));
        replayed.or_else(|| stripped.clone())
    }

    pub(super) fn parse<'b>(&self, text: &'b str) -> Result<IncomingRequest<'b>, String> {
        IncomingRequest::parse_within(
            self.api_format,
            text,
            (&self.tenant, &self.client_session_id),
            &self.gateway.hash_chains,
        )
    }

    /// Finishes the body: adds the recall tools and the hidden tool turns, then sets the cache breakpoints.
    fn finish_body(
        &self,
        session: &LiveSession,
        memory: &mut SessionMemory,
        sent: &Transcript<'_>,
        policy: &Policy,
        incoming: &IncomingRequest<'_>,
    ) -> FinishedBody {
        memory.hidden_turns.use_ledger_version(session.ledger_version());
        let wants_tools = self.wants_tools(session, memory) && recall_loop::can_offer_tools(sent.body);
        let injected = wants_tools
            .then(|| {
                recall_loop::inject_tools_and_turns(
                    sent,
                    &incoming.message_hashes,
                    &memory.hidden_turns,
                    &self.tenant.hasher(),
                )
            })
            .flatten();
        let with_breakpoints = {
            let read = injected.as_deref().and_then(|body| wire::parse(self.api_format, body).ok());
            let sent = read.as_ref().map_or(sent, |(sent, _)| sent);
            self.set_breakpoints(session, memory, sent, policy, model_name(incoming))
        };
        let has_tools = injected.is_some();
        let Some((with_breakpoints, OutgoingCacheState { prefix_chain, cache_expectation: expected })) =
            with_breakpoints
        else {
            return FinishedBody { body: injected, has_tools, ..FinishedBody::default() };
        };
        let has_breakpoints = with_breakpoints.is_some();
        FinishedBody {
            body: with_breakpoints.or(injected),
            has_breakpoints,
            has_tools,
            prefix_chain,
            cache_expectation: expected,
        }
    }

    /// Returns whether the model is to be offered the recall tools.
    fn wants_tools(&self, session: &LiveSession, memory: &SessionMemory) -> bool {
        let is_wanted = match self.gateway.settings.recall {
            RecallMode::Off => false,
            RecallMode::Auto => self.continues_client_compaction || !session.ledger().is_empty(),
            RecallMode::On => true,
        };
        let has_large_window = |policy: Policy| policy.window >= recall_loop::MIN_WINDOW;
        is_wanted && !memory.omits_tools && session.id().is_some() && session.policy().is_some_and(has_large_window)
    }

    /// Sets the cache breakpoints and predicts what the provider's cache contains.
    fn set_breakpoints(
        &self,
        session: &LiveSession,
        memory: &mut SessionMemory,
        sent: &Transcript<'_>,
        policy: &Policy,
        model: &str,
    ) -> Option<(Option<String>, OutgoingCacheState)> {
        let now = self.gateway.now();
        let upstream = self.gateway.settings.upstreams.for_api_format(self.api_format).provider().name();
        let is_same_route = |(cached_model, cached_upstream, _): &(String, String, UpstreamCaching)| {
            cached_model == model && cached_upstream == upstream
        };
        if !memory.caching.as_ref().is_some_and(is_same_route) {
            let caching = UpstreamCaching::new(&self.gateway.settings.session.config, model, upstream, self.api_format);
            memory.caching = caching.map(|caching| (model.to_owned(), upstream.to_owned(), caching));
            memory.breakpoint_positions = None;
        }
        let (_, _, caching) = memory.caching.as_ref()?;
        let lifetime_by_pace = session.cache_lifetime(policy.prices.as_ref().map(|prices| &prices.price), now);
        let outcome = caching.set_breakpoints(sent, lifetime_by_pace, &mut memory.breakpoint_positions)?;
        let lifetime = match caching.mode {
            CachingMode::Off(_) => Duration::ZERO,
            _ if caching.lifetime(lifetime_by_pace) == CacheLifetime::OneHour => ONE_HOUR,
            _ => FIVE_MINUTES,
        };
        let unreached_minimum = (!outcome.is_cacheable).then(|| caching.min_cacheable_tokens());
        let expected = memory
            .predict_cache(&NextRequest { chain: &outcome.chain, cache_lifetime: lifetime, unreached_minimum }, now);
        let body = outcome.body.filter(|_| !memory.omits_breakpoints);
        Some((body, OutgoingCacheState { prefix_chain: Some(outcome.chain), cache_expectation: expected }))
    }
}

/// Cancels the work on a request when it is dropped, because the work took too long or the client left.
struct CancelPlanOnDrop(CancelFlag);

impl CancelPlanOnDrop {
    /// Keeps the guard from cancelling anything, once the work is done.
    fn disarm(&mut self) {
        // A default flag cannot be cancelled.
        self.0 = CancelFlag::default();
    }
}

impl Drop for CancelPlanOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A body after the last changes, with what is known about it.
#[derive(Default)]
struct FinishedBody {
    /// The changed body; none if it stays unchanged.
    body: Option<String>,
    has_breakpoints: bool,
    has_tools: bool,
    prefix_chain: Option<PrefixChain>,
    cache_expectation: CacheExpectation,
}

/// Returns the name of the model that a request is for.
fn model_name<'i>(incoming: &'i IncomingRequest<'_>) -> &'i str {
    incoming.transcript.model.as_deref().unwrap_or_default()
}

/// The cache prefixes of an outgoing body, and the prediction for them.
struct OutgoingCacheState {
    prefix_chain: Option<PrefixChain>,
    cache_expectation: CacheExpectation,
}

impl ReadyRequest {
    /// Records that the provider accepted the request.
    pub(super) fn record_accepted(&mut self, gateway: &Gateway) {
        if let Some(prefix_chain) = self.prefix_chain.take() {
            let (now, sent) = (gateway.now(), self.sizes.sent);
            self.claim.entry().memory.record_accepted(prefix_chain, sent, now);
        }
    }
}

impl Gateway {
    /// Claims the session that a request continues, or a new one. A session that began while the store was down
    /// has message hashes with the interim key, so those are looked up if no session has the usual ones.
    pub(super) async fn claim_session(&self, tenant: &Tenant, incoming: &IncomingRequest<'_>) -> SessionClaim {
        if let Some(interim) = tenant.as_interim()
            && !self.live_sessions.contains(&incoming.message_hashes)
        {
            let IncomingRequest { transcript, client_session_id, .. } = incoming;
            let interim_hashes =
                interim.hasher().hash_chain_in_scope(client_session_id, transcript, &mut HashChainCache::default());
            if let Some(mut claim) = self.live_sessions.claim_existing(&interim_hashes).await {
                claim.session().change_tenant(tenant.clone());
                return claim;
            }
        }
        self.live_sessions.claim_or_create(&incoming.message_hashes, || self.new_session(tenant)).await
    }

    fn new_session(&self, tenant: &Tenant) -> LiveSession {
        LiveSession::new(self.settings.session.clone())
            .with_host(Arc::clone(&self.host))
            .with_store(self.store.clone(), tenant.clone())
    }
}
