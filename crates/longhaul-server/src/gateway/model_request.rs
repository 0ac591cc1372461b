//! One request to a model: it is authenticated, read, prepared, sent, and its reply is returned.
//!
//! `native_features` serves the parts of the request that the upstream lacks.

mod native_features;

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use longhaul_engine::{ApiFormat, Tokens};
use parking_lot::Mutex;
use tracing::Instrument as _;

use super::auth::{self, Principal};
use super::body::{BodyLimits, MAX_INLINE_BYTES, TextError};
use super::cache_keep_alive::RepeatableRequest;
use super::in_flight::{DEFAULT_OUTPUT_RESERVE, InFlight, RequestKind};
use super::native::CompactionSigner;
use super::prepare::{PrepareOutcome, ReadyRequest, RequestJob};
use super::recall_loop::{RecallLoop, RecallLoopRequest, RecallLoopResult};
use super::relay::{Relay, ReplySource, remove_hop_headers};
use super::retries::{OwnChanges, Refusal, RetryLadder, RetryStep};
use super::settings::Switch;
use super::summary_client::SummaryClient;
use super::{Gateway, body, commands, forward, own_replies};
use crate::pool::{JobError, Owner};
use crate::session::{RequestSizes, RetryDecision, Summarizer};
use crate::store::{Tenant, TrafficAction};
use crate::upstream::{Response as Answer, UpstreamError};
use native_features::{ClientCompaction, SERVED_HEADER, ServedFeatures};

const BYPASS_HEADER: HeaderName = HeaderName::from_static("x-longhaul-bypass");
pub(super) const SESSION_HEADER: HeaderName = HeaderName::from_static("x-longhaul-session");
pub(super) const ACTION_HEADER: HeaderName = HeaderName::from_static("x-longhaul-action");
pub(super) const TOKENS_HEADER: HeaderName = HeaderName::from_static("x-longhaul-tokens");
/// The response header that says why the session is in memory only.
const STORE_HEADER: HeaderName = HeaderName::from_static("x-longhaul-store");
const CACHE_HEADER: HeaderName = HeaderName::from_static("x-longhaul-cache");
/// The smallest request body, in bytes, that is given a session. Smaller ones (titles, probes) have nothing
/// to compact and are too short to be cached. This loses nothing: the client sends its whole history again
/// once it has grown.
const MIN_COMPACTABLE_BYTES: usize = 4096;
/// Recalled text within one reply may fill one part in this many of the free window (docs/gateway-reference.md).
const RECALL_WINDOW_DIVISOR: usize = 2;
/// The largest number of bytes that recalled text may fill within one reply. Chosen by hand.
const MAX_RECALL_BYTES: usize = 96 * 1024;
/// The field of a Responses request whose history only the provider has. Such a request cannot be compacted.
const PREVIOUS_RESPONSE_KEY: &[u8] = b"\"previous_response_id\"";

/// One request to a model, from authentication to its reply.
struct ModelRequest {
    gateway: Arc<Gateway>,
    principal: Principal,
    api_format: ApiFormat,
    parts: Parts,
    /// The body that is sent if Longhaul fails or does nothing: the client's own, possibly content-encoded. Once
    /// native features were served, it is the decoded body without them.
    original: Bytes,
    /// The accounts of the request, which are settled when it is dropped.
    in_flight: InFlight,
    native_features: ServedFeatures,
}

impl Gateway {
    /// Handles a request to a model, within a tracing span of its own.
    pub(super) async fn handle_model_request(
        self: Arc<Self>,
        api_format: ApiFormat,
        request: Request<Body>,
    ) -> Response {
        let span = tracing::info_span!("request", id = self.next_request_id(), dialect = api_format.name());
        self.serve_model_request(api_format, request).instrument(span).await
    }

    async fn serve_model_request(self: Arc<Self>, api_format: ApiFormat, request: Request<Body>) -> Response {
        let (parts, incoming) = request.into_parts();
        let settings = &self.settings;
        let principal = match self.authenticate(&parts, api_format).await {
            Ok(principal) => principal,
            Err(denied) => {
                tracing::warn!(status = denied.status.as_u16(), "refused: {}", denied.message);
                return denied.to_response(api_format);
            }
        };
        let original = match body::read(incoming, BodyLimits::new(&settings.limits), &self.body_memory).await {
            Ok(original) => original,
            Err(error) => {
                tracing::warn!(status = error.status().as_u16(), "refused: {}", error.message());
                return error.to_response(api_format);
            }
        };
        let estimate = body::estimate_body_tokens(&parts.headers, original.len());
        let output = body::requested_output(&parts.headers, &original).unwrap_or(DEFAULT_OUTPUT_RESERVE);
        let in_flight = match self.admit(&principal, (api_format, RequestKind::Model), (estimate, output)).await {
            Ok(in_flight) => in_flight,
            Err(denied) => {
                tracing::warn!(status = denied.status.as_u16(), "refused: {}", denied.message);
                return denied.to_response(api_format);
            }
        };
        let (gateway, native) = (Arc::clone(&self), ServedFeatures::default());
        // The state of a request is large and connections are mostly idle, so the state is on the heap.
        Box::pin(
            ModelRequest { gateway, principal, api_format, parts, original, in_flight, native_features: native }.run(),
        )
        .await
    }
}

impl ModelRequest {
    async fn run(mut self) -> Response {
        let gateway = Arc::clone(&self.gateway);
        let settings = &gateway.settings;
        if settings.compression == Switch::Off {
            return self.pass_through(TrafficAction::Unchanged).await;
        }
        let bypass = |reason: &str| TrafficAction::Bypassed(reason.to_owned());
        if wants_bypass(&self.parts.headers) {
            return self.pass_through(bypass("requested")).await;
        }
        let Some(tenant) = self.principal.tenant.clone() else {
            return self.pass_through(bypass("store")).await;
        };
        let text = match self.compactable_text().await {
            Ok(text) => text,
            Err(reason) => return self.pass_through(bypass(reason)).await,
        };
        let signer = CompactionSigner::new(&tenant, settings.limits.max_body_bytes);
        let (text, requested_compaction) = match self.take_native_features(&signer, text).await {
            Ok(taken) => taken,
            Err(message) => return own_replies::error_response(self.api_format, StatusCode::BAD_REQUEST, &message),
        };
        if text.len() < MIN_COMPACTABLE_BYTES && !commands::may_contain_command(&text) {
            return self.pass_through(TrafficAction::Unchanged).await;
        }
        let api_format = self.api_format;
        let client_session_id = client_session_id(&self.parts.headers);
        let continues_client_compaction = self.native_features.continues_client_compaction;
        let summary_client = match &settings.session.summarizer {
            Summarizer::Code => None,
            Summarizer::Model(_) => {
                let (gateway, principal) = (Arc::clone(&self.gateway), self.principal.clone());
                Some(Arc::new(SummaryClient::new(gateway, principal, api_format, self.parts.clone())))
            }
        };
        let job = Arc::new(RequestJob {
            gateway: Arc::clone(&self.gateway),
            tenant,
            api_format,
            text,
            client_session_id,
            continues_client_compaction,
            summary_client,
        });
        let mut is_compacted = false;
        if let Some(requested) = requested_compaction {
            match self.compact_for_client(&job, &signer, &requested).await {
                Ok(Some(ClientCompaction::AsReply(response))) => return response,
                Ok(compaction) => is_compacted = compaction.is_some(),
                Err(reason) => tracing::warn!("the requested compaction failed: {reason}"),
            }
        }
        match job.run(None).await {
            PrepareOutcome::Ready(mut ready) => {
                ready.sizes.original += self.native_features.cleared_tokens;
                if is_compacted && ready.action == TrafficAction::Replayed {
                    ready.action = TrafficAction::Compacted;
                }
                self.send_with_retries(job, ready).await
            }
            PrepareOutcome::Command(command_request) => commands::answer_command(&job, command_request).await,
            PrepareOutcome::Bypass(reason) => {
                tracing::warn!("request passed through unchanged: {reason}");
                self.pass_through(bypass(reason)).await
            }
        }
    }

    /// Returns the owner that the pool counts this request's work for.
    fn owner(&self) -> Owner {
        let owner = self.principal.tenant.as_ref().map_or(Owner::NO_TENANT, Tenant::pool_owner);
        owner.for_request_size(self.original.len())
    }

    /// Returns the body as text, or the reason why it must be passed through unchanged.
    async fn compactable_text(&self) -> Result<Bytes, &'static str> {
        let text = self.gateway.body_text(self.owner(), &self.parts.headers, &self.original).await;
        let text = text.map_err(TextError::name)?;
        if self.api_format != ApiFormat::Responses {
            return Ok(text);
        }
        let read = text.clone();
        let stateful = match text.len() {
            ..=MAX_INLINE_BYTES => Ok(has_previous_response(&read)),
            _ => self.gateway.pool.compute(self.owner(), move || has_previous_response(&read)).await,
        };
        if stateful.map_err(JobError::name)? { Err("stateful") } else { Ok(text) }
    }

    /// Sends a prepared request. After a refusal it sends what [`RetryLadder`] chooses, until a reply can be
    /// returned.
    async fn send_with_retries(mut self, job: Arc<RequestJob>, mut ready: Box<ReadyRequest>) -> Response {
        let omissions_before = Omissions::read(&mut ready);
        self.in_flight.attach_request(ready);
        let mut ladder = RetryLadder::default();
        // The refusal of the compacted request, kept while the original is tried.
        let mut refused = None;
        loop {
            let answer = match self.forward().await {
                Ok(answer) => answer,
                Err(error) => return self.upstream_failed(&error),
            };
            let changes = self.own_changes();
            let refusal = Refusal::from_response(&answer, changes);
            if let Some(error) = &answer.error {
                tracing::warn!("{error}");
            }
            if let Some(step) = refusal.and_then(|refusal| ladder.next_step(refusal, changes))
                && self.prepare_retry(step, &job, answer.error.as_ref()).await
            {
                self.gateway.metrics.count_retry(step.metric_label());
                refused = (step == RetryStep::Original).then_some(answer);
                continue;
            }
            if let Some(ready) = self.in_flight.ready_request() {
                omissions_before.restore(ready, ladder.newest().filter(|_| answer.error.is_none()));
            }
            let is_too_long = refusal == Some(Refusal::TooLong);
            // If the original exceeds the window, the earlier refusal is the one that explains the problem.
            let answer = refused.filter(|_| is_too_long).unwrap_or(answer);
            return self.return_reply(answer).await;
        }
    }

    /// Returns the changes of Longhaul that the newest try contains.
    fn own_changes(&mut self) -> OwnChanges {
        let Some(ready) = self.in_flight.ready_request() else { return OwnChanges::default() };
        OwnChanges {
            has_tools: ready.has_tools,
            has_breakpoints: ready.has_breakpoints,
            has_new_compaction: ready.body.is_some() && ready.claim.session().has_new_compaction(),
        }
    }

    /// Prepares a refused request again with one change. Returns false if that fails or yields the same body.
    async fn prepare_retry(&mut self, step: RetryStep, job: &Arc<RequestJob>, error: Option<&UpstreamError>) -> bool {
        let Some(mut ready) = self.in_flight.detach_request() else { return false };
        let memory = &mut ready.claim.entry().memory;
        match step {
            RetryStep::WithoutTools => memory.omits_tools = true,
            RetryStep::WithoutBreakpoints => memory.omits_breakpoints = true,
            RetryStep::Smaller | RetryStep::Original => {
                let now = self.gateway.now();
                let decision = match error {
                    Some(error) => ready.claim.session().record_failure(error, now).await.0,
                    None => RetryDecision::GiveUp(String::new()),
                };
                if !matches!(decision, RetryDecision::Retry | RetryDecision::SendOriginal) {
                    self.in_flight.attach_request(ready);
                    return false;
                }
            }
        }
        let previous_body = ready.body.clone().unwrap_or_else(|| job.text.clone());
        let cleared_tokens = self.native_features.cleared_tokens;
        let PrepareOutcome::Ready(mut again) = job.run(Some(ready.claim)).await else { return false };
        again.sizes.original += cleared_tokens;
        let is_changed = *again.body.as_ref().unwrap_or(&job.text) != previous_body;
        if again.body.is_none() && step != RetryStep::WithoutTools {
            again.action = TrafficAction::Bypassed("refused".to_owned());
        }
        self.in_flight.attach_request(again);
        is_changed
    }

    /// Passes the request through unchanged.
    async fn pass_through(mut self, action: TrafficAction) -> Response {
        self.in_flight.set_action(&action);
        let answer = match self.forward().await {
            Ok(answer) => answer,
            Err(error) => return self.upstream_failed(&error),
        };
        let mut response = self.relay(answer);
        set_header(response.headers_mut(), ACTION_HEADER, &action.to_string());
        response
    }

    async fn forward(&mut self) -> Result<Answer, UpstreamError> {
        let mut headers = forward::outgoing_headers(&self.parts.headers);
        // The relay reads a copy of the reply, so the reply must not be compressed.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let ready = self.in_flight.ready_request().map(|ready| (ready.body.clone(), ready.sizes.sent));
        let (body, counted) = ready.unwrap_or((None, Tokens::ZERO));
        if body.is_some() {
            headers.remove(CONTENT_ENCODING);
        }
        let body = body.unwrap_or_else(|| self.original.clone());
        let estimate = body::estimate_body_tokens(&headers, body.len());
        self.in_flight.mark_called(if counted > Tokens::ZERO { counted } else { estimate });
        let mut answer = self.gateway.forward(self.api_format, &self.parts, headers, body.into()).await?;
        if self.api_format == ApiFormat::Responses && answer.error.is_none() {
            self.gateway.detect_refusal_in_stream(&self.parts, &mut answer).await;
        }
        // A refusal inside a stream comes with status 200. It is marked as 300 or more here, so that it is not
        // billed. If the refusal is passed on to the client, `return_reply` marks the real status.
        let status = if answer.error.is_some() { answer.status.max(300) } else { answer.status };
        self.in_flight.mark_answered(status);
        Ok(answer)
    }

    /// Returns a reply to the client, accepted or not, with the `x-longhaul-` headers.
    async fn return_reply(mut self, answer: Answer) -> Response {
        self.in_flight.mark_answered(answer.status);
        let Some(mut ready) = self.in_flight.detach_request() else { return self.relay(answer) };
        if answer.error.is_none() {
            for line in ready.claim.session().record_accepted().await {
                tracing::warn!("{line}");
            }
            ready.record_accepted(&self.gateway);
            self.remember_for_keep_alive(&mut ready);
        }
        let recall_request = self.recall_loop_request(&mut ready, &answer);
        // The request was sent. Nobody needs its body while the reply is streamed.
        ready.body = None;
        let session = ready.claim.session().name();
        let store_error_kind = ready.store_error_kind;
        if let Some(kind) = store_error_kind {
            self.gateway.metrics.count_without_store(kind);
        }
        let (action, expected) = (ready.action.to_string(), ready.cache_expectation.to_string());
        let RequestSizes { original: original_tokens, sent } = ready.sizes;
        self.in_flight.attach_request(ready);
        let mut response = match recall_request {
            None => self.relay(answer),
            Some(recall_request) => self.run_recall_loop(answer, recall_request).await,
        };
        let headers = response.headers_mut();
        set_header(headers, ACTION_HEADER, &action);
        set_header(headers, CACHE_HEADER, &expected);
        if let Some(kind) = store_error_kind {
            set_header(headers, STORE_HEADER, &format!("unavailable: {kind}"));
        }
        set_header(headers, TOKENS_HEADER, &format!("{}/{}", original_tokens.number(), sent.number()));
        if let Some(session) = session {
            set_header(headers, SESSION_HEADER, &session);
        }
        response
    }

    /// Keeps the request for a later cache refresh, if refreshes are enabled and the gateway's own key pays
    /// for it.
    fn remember_for_keep_alive(&self, ready: &mut ReadyRequest) {
        let upstream = self.gateway.settings.upstreams.for_api_format(self.api_format);
        let is_paid_by_gateway = auth::does_gateway_pay(&self.parts.headers, upstream);
        let is_content_encoded = self.parts.headers.contains_key(CONTENT_ENCODING);
        if self.gateway.settings.keep_alive.is_none() || !is_paid_by_gateway || is_content_encoded {
            return;
        }
        let mut headers = forward::outgoing_headers(&self.parts.headers);
        auth::remove_all_keys(&mut headers);
        // A copy, because it outlives the request and must not count against the memory for bodies.
        let body = ready.body.clone().unwrap_or_else(|| Bytes::copy_from_slice(&self.original));
        let (api_format, target, at) = (self.api_format, forward::path_and_query(&self.parts), self.gateway.now());
        let repeatable = RepeatableRequest { api_format, target, headers, body, sent_at: at };
        ready.claim.entry().memory.set_repeatable(repeatable);
    }

    /// Returns the input of the recall loop; none if the model was not offered the recall tools.
    fn recall_loop_request(&self, ready: &mut ReadyRequest, answer: &Answer) -> Option<RecallLoopRequest> {
        let is_offered = ready.has_tools && answer.error.is_none();
        let (body, newest_message) = ready.body.clone().filter(|_| is_offered).zip(ready.newest_message)?;
        let (gateway, api_format) = (Arc::clone(&self.gateway), self.api_format);
        let (tenant, session) = (self.principal.tenant.clone()?, ready.claim.session());
        let window = session.policy().map_or(Tokens::ZERO, |policy| policy.window);
        let window_bytes_left = body::estimate_bytes(window - ready.sizes.sent) / RECALL_WINDOW_DIVISOR;
        let (parts, session) = (self.parts.clone(), ready.claim.session().id()?);
        Some(RecallLoopRequest {
            gateway,
            api_format,
            parts,
            body,
            newest_message,
            tenant,
            session,
            recall_bytes_left: window_bytes_left.min(MAX_RECALL_BYTES),
        })
    }

    /// Returns the part of a reply that the client may see, when the model can call the recall tools.
    async fn run_recall_loop(self, mut answer: Answer, recall_request: RecallLoopRequest) -> Response {
        let is_stream = body::is_event_stream(&answer.headers);
        answer.headers.remove(CONTENT_LENGTH);
        let Answer { status, headers, body, .. } = answer;
        let recall_result: Arc<Mutex<RecallLoopResult>> = self.in_flight.recall_result();
        let recall_loop = RecallLoop::new(recall_request, body, recall_result);
        let source = if is_stream {
            ReplySource::RecallLoop(Box::new(recall_loop))
        } else {
            match recall_loop.collect_document().await {
                Ok(bytes) => ReplySource::Document(Some(bytes)),
                Err(error) => return self.upstream_failed(&error),
            }
        };
        self.build_response(status, headers, source)
    }

    fn relay(self, answer: Answer) -> Response {
        let Answer { status, headers, body, .. } = answer;
        self.build_response(status, headers, ReplySource::Upstream(Box::new(body)))
    }

    fn build_response(self, status: u16, mut headers: HeaderMap, source: ReplySource) -> Response {
        let upstream = self.gateway.settings.upstreams.for_api_format(self.api_format);
        remove_hop_headers(&mut headers);
        let annotator = self.reply_annotator(status, &mut headers);
        if !self.native_features.header_value.is_empty() {
            set_header(&mut headers, SERVED_HEADER, &self.native_features.header_value);
        }
        let open = self.gateway.metrics.begin_reply();
        let relay = Relay::new((upstream, self.api_format), &mut headers, source, self.in_flight, open);
        forward::sandboxed_response(status, headers, relay.with_annotator(annotator).into_body())
    }

    fn upstream_failed(mut self, error: &UpstreamError) -> Response {
        tracing::warn!("the upstream did not answer: {error}");
        let response = self.gateway.failure_response(self.api_format, error);
        self.in_flight.mark_unanswered(error, response.status().as_u16());
        response
    }
}

/// The parts that a session's requests omit because a provider refused requests with them.
#[derive(Clone, Copy)]
struct Omissions {
    omits_tools: bool,
    omits_breakpoints: bool,
}

impl Omissions {
    fn read(ready: &mut ReadyRequest) -> Self {
        let memory = &ready.claim.entry().memory;
        Self { omits_tools: memory.omits_tools, omits_breakpoints: memory.omits_breakpoints }
    }

    /// Restores the omissions from before the retries, plus the one that made the provider accept the
    /// request.
    fn restore(self, ready: &mut ReadyRequest, helped: Option<RetryStep>) {
        let memory = &mut ready.claim.entry().memory;
        memory.omits_tools = self.omits_tools || helped == Some(RetryStep::WithoutTools);
        memory.omits_breakpoints = self.omits_breakpoints || helped == Some(RetryStep::WithoutBreakpoints);
    }
}

/// Returns the session ID that the client chose, which separates sessions that begin with the same messages.
/// It is empty if the client sent none.
pub(super) fn client_session_id(headers: &HeaderMap) -> Vec<u8> {
    headers.get(SESSION_HEADER).map(|id| id.as_bytes().to_vec()).unwrap_or_default()
}

/// Returns whether the client asks for this request to pass through unchanged.
pub(super) fn wants_bypass(headers: &HeaderMap) -> bool {
    headers.get(BYPASS_HEADER).is_some_and(|value| value == "1")
}

/// Returns whether the request continues a response whose history only the provider has.
fn has_previous_response(text: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Opening<'b> {
        #[serde(borrow)]
        previous_response_id: Option<std::borrow::Cow<'b, str>>,
    }
    memchr::memmem::find(text, PREVIOUS_RESPONSE_KEY).is_some()
        && serde_json::from_slice::<Opening<'_>>(text).is_ok_and(|opening| opening.previous_response_id.is_some())
}

pub(super) fn set_header(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
