//! Requests that are not to a model: token counts, which count what would be sent, and all others, which pass
//! through unchanged.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, UPGRADE};
use http::request::Parts;
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use longhaul_engine::prices::Usage;
use longhaul_engine::{ApiFormat, Tokens};
use memchr::memmem;
use serde_json::Value;
use tracing::Instrument as _;

use super::auth::Principal;
use super::body::BodyLimits;
use super::in_flight::{DEFAULT_OUTPUT_RESERVE, InFlight, RequestKind};
use super::native::{self, CompactionSigner, CountAnnotation, ServedRequest};
use super::prepare::RequestJob;
use super::relay::{EndKind, ReplyEnding};
use super::{Gateway, body, forward, model_request, own_replies, relay};
use crate::pool::Owner;
use crate::store::Tenant;
use crate::upstream::{PartialUsage, Response as Answer, UpstreamError};

/// Methods whose requests no provider bills.
const FREE_METHODS: [Method; 4] = [Method::GET, Method::HEAD, Method::OPTIONS, Method::DELETE];
/// The tokens that are reserved for a body without an announced length: about 100 KB of text. Chosen by hand.
const UNANNOUNCED_BODY_TOKENS: Tokens = Tokens(25_000);
/// The largest number of bytes at the end of a reply that is searched for its usage. A usage object has less
/// than 1 KB.
const MAX_TAIL_BYTES: usize = 16 * 1024;
const USAGE_KEY: &[u8] = b"\"usage\"";

impl Gateway {
    /// Counts the tokens of the request that would be sent, because that is what fills the window.
    pub(super) async fn count_tokens(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        let (mut parts, incoming) = request.into_parts();
        let principal = match gateway.authenticate(&parts, ApiFormat::Messages).await {
            Ok(principal) => principal,
            Err(denied) => return denied.to_response(ApiFormat::Messages),
        };
        let limits = gateway.settings.limits;
        let mut original = match body::read(incoming, BodyLimits::new(&limits), &gateway.body_memory).await {
            Ok(original) => original,
            Err(problem) => return problem.to_response(ApiFormat::Messages),
        };
        let owner = principal.tenant.as_ref().map_or(Owner::NO_TENANT, Tenant::pool_owner);
        let is_on = gateway.settings.compression.is_on() && !model_request::wants_bypass(&parts.headers);
        let text = gateway.body_text(owner, &parts.headers, &original).await;
        let mut text = text.ok().filter(|_| is_on);
        let served = match gateway.take_native_features(&principal, text.as_ref()).await {
            Ok(served) => served.map(Arc::new),
            Err(message) => {
                return own_replies::error_response(ApiFormat::Messages, StatusCode::BAD_REQUEST, &message);
            }
        };
        if let Some(served) = &served {
            original = served.body.clone();
            text = Some(served.body.clone());
            parts.headers.remove(CONTENT_ENCODING);
            native::remove_served_betas(&mut parts.headers);
        }
        let text = text.filter(|_| !parts.headers.contains_key(CONTENT_ENCODING));
        let counted = gateway.replay_for_count(&parts, &principal, text, served.clone()).await;
        let (replayed, count) =
            counted.unwrap_or_else(|| (None, served.and_then(|served| CountAnnotation::new(&served, None))));
        let body = replayed.map_or(original, Bytes::from);
        let response = gateway.forward_passthrough(parts, ApiFormat::Messages, body.into(), None).await;
        match count {
            Some(count) => annotate_count(&gateway, response, &count, limits.max_body_bytes).await,
            None => response,
        }
    }

    /// Removes the features that the gateway serves from a count request; none if there are none.
    async fn take_native_features(
        &self,
        principal: &Principal,
        text: Option<&Bytes>,
    ) -> Result<Option<ServedRequest>, String> {
        let Some((tenant, text)) = principal.tenant.as_ref().zip(text) else { return Ok(None) };
        let signer = CompactionSigner::new(tenant, self.settings.limits.max_body_bytes);
        native::serve_features(self, tenant.pool_owner(), &signer, ApiFormat::Messages, text).await
    }

    /// Applies the session's decisions to the body of a count request. Returns the new body, if it differs,
    /// and the figures that the count must report.
    async fn replay_for_count(
        self: &Arc<Self>,
        parts: &Parts,
        principal: &Principal,
        text: Option<Bytes>,
        served: Option<Arc<ServedRequest>>,
    ) -> Option<(Option<String>, Option<CountAnnotation>)> {
        let (gateway, tenant, text) = (Arc::clone(self), principal.tenant.clone()?, text?);
        let client_session_id = model_request::client_session_id(&parts.headers);
        let job = RequestJob {
            gateway,
            tenant,
            api_format: ApiFormat::Messages,
            text,
            client_session_id,
            continues_client_compaction: false,
            summary_client: None,
        };
        let work = |job: Arc<RequestJob>, _| async move {
            let replayed = job.replay_decisions().await;
            let count = served.and_then(|served| CountAnnotation::new(&served, replayed.as_deref()));
            (replayed, count)
        };
        Arc::new(job).run_in_pool(work).await.ok()
    }

    /// Passes any other request through unchanged. A request that can cost money counts against the limits of
    /// its key.
    pub(super) async fn handle_passthrough(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        let span = tracing::info_span!("request", id = gateway.next_request_id());
        gateway.serve_passthrough(request).instrument(span).await
    }

    async fn serve_passthrough(self: Arc<Self>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let api_format = guess_api_format(&parts);
        let principal = match self.authenticate(&parts, api_format).await {
            Ok(principal) => principal,
            Err(denied) => return denied.to_response(api_format),
        };
        if parts.headers.contains_key(UPGRADE) {
            // The gateway cannot compact what passes through a WebSocket, and clients can send plain requests
            // instead.
            let message = "this gateway does not upgrade connections; send plain HTTP requests";
            return own_replies::error_response(api_format, StatusCode::UPGRADE_REQUIRED, message);
        }
        let is_billable = !FREE_METHODS.contains(&parts.method);
        let (body, account) = if is_billable {
            let in_flight = match self
                .admit(&principal, (api_format, RequestKind::Other), (announced_tokens(&parts), DEFAULT_OUTPUT_RESERVE))
                .await
            {
                Ok(in_flight) => in_flight,
                Err(denied) => return denied.to_response(api_format),
            };
            let (body, bytes) = count_bytes(body, body::expansion_factor(&parts.headers));
            (
                body,
                Some(PassthroughAccount {
                    in_flight: Some(in_flight),
                    sent_bytes: bytes,
                    usage_tail: UsageTail::default(),
                }),
            )
        } else {
            (body, None)
        };
        let body = body::stream_onward(body, BodyLimits::new(&self.settings.limits));
        self.forward_passthrough(parts, api_format, body, account).await
    }

    /// Forwards a request of an authenticated client to the upstream of an API format, and returns its reply.
    pub(super) async fn forward_passthrough(
        &self,
        parts: Parts,
        api_format: ApiFormat,
        body: reqwest::Body,
        mut account: Option<PassthroughAccount>,
    ) -> Response {
        let mut headers = forward::outgoing_headers(&parts.headers);
        // A streamed body keeps the length that the client announced.
        if body.as_bytes().is_none()
            && let Some(length) = parts.headers.get(CONTENT_LENGTH)
        {
            headers.insert(CONTENT_LENGTH, length.clone());
        }
        self.metrics.count_passthrough();
        if let Some(in_flight) = account.as_mut().and_then(|account| account.in_flight.as_mut()) {
            in_flight.mark_called(announced_tokens(&parts));
        }
        let answer = self.forward(api_format, &parts, headers, body).await;
        let Answer { status, mut headers, body, .. } = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let response = self.failure_response(api_format, &error);
                if let Some(in_flight) = account.as_mut().and_then(|account| account.in_flight.as_mut()) {
                    in_flight.mark_unanswered(&error, response.status().as_u16());
                }
                return response;
            }
        };
        if let Some(in_flight) = account.as_mut().and_then(|account| account.in_flight.as_mut()) {
            in_flight.mark_answered(status);
        }
        relay::remove_hop_headers(&mut headers);
        let state = (body, self.metrics.begin_reply(), account);
        let pieces = stream::unfold(state, |(mut pieces, open, mut account)| async move {
            let piece = pieces.next().await.transpose();
            if let Some(account) = &mut account {
                match &piece {
                    Some(Ok(piece)) => account.usage_tail.feed(piece),
                    Some(Err(_)) => account.finish(EndKind::BrokenOff),
                    None => account.finish(EndKind::Complete),
                }
            }
            Some((piece?.map_err(io::Error::other), (pieces, open, account)))
        });
        forward::sandboxed_response(status, headers, Body::from_stream(pieces))
    }
}

/// The account of a request that is passed through, until its reply has ended.
pub(super) struct PassthroughAccount {
    in_flight: Option<InFlight>,
    /// The bytes of the request that were sent so far, estimated as decompressed text.
    sent_bytes: Arc<AtomicU64>,
    usage_tail: UsageTail,
}

impl PassthroughAccount {
    /// Creates the account of a request whose whole body is known.
    pub(super) fn new(in_flight: InFlight, bytes: usize) -> Self {
        let bytes = Arc::new(AtomicU64::new(bytes as u64));
        Self { in_flight: Some(in_flight), sent_bytes: bytes, usage_tail: UsageTail::default() }
    }

    fn finish(&mut self, kind: EndKind) {
        let Some(mut in_flight) = self.in_flight.take() else { return };
        let bytes = usize::try_from(self.sent_bytes.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        in_flight.set_sent_tokens(body::estimate_tokens(bytes));
        let so_far = PartialUsage { usage: self.usage_tail.newest_usage(), estimated_output: Tokens::ZERO };
        in_flight.finish(ReplyEnding { kind, reply: None, so_far });
    }
}

impl Drop for PassthroughAccount {
    fn drop(&mut self) {
        self.finish(EndKind::ClientLeft);
    }
}

/// Returns a body that counts its bytes as they pass, each multiplied by `expansion`.
fn count_bytes(body: Body, expansion: usize) -> (Body, Arc<AtomicU64>) {
    let bytes = Arc::new(AtomicU64::new(0));
    if body.is_end_stream() {
        return (body, bytes);
    }
    let count = Arc::clone(&bytes);
    let body = body.map_frame(move |frame| {
        let bytes = frame.data_ref().map_or(0, |data| data.len().saturating_mul(expansion));
        count.fetch_add(bytes as u64, Ordering::Relaxed);
        frame
    });
    (Body::new(body), bytes)
}

/// Estimates the tokens of a request from the length that it announces.
fn announced_tokens(parts: &Parts) -> Tokens {
    let length = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    length.map_or(UNANNOUNCED_BODY_TOKENS, |length| body::estimate_body_tokens(&parts.headers, length))
}

/// The end of a reply, where providers report the usage.
#[derive(Default)]
struct UsageTail(Vec<u8>);

impl UsageTail {
    fn feed(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
        if self.0.len() > 2 * MAX_TAIL_BYTES {
            self.0.drain(..self.0.len() - MAX_TAIL_BYTES);
        }
    }

    /// Returns the newest usage object that can be read.
    fn newest_usage(&self) -> Option<Usage> {
        memmem::rfind_iter(&self.0, USAGE_KEY).find_map(|at| {
            let value = self.0[at + USAGE_KEY.len()..].trim_ascii_start().strip_prefix(b":")?;
            let value = serde_json::Deserializer::from_slice(value).into_iter::<Value>().next()?.ok()?;
            Usage::parse(&value)
        })
    }
}

/// Adds the figures about cleared content to a count response.
async fn annotate_count(gateway: &Gateway, response: Response, count: &CountAnnotation, max_bytes: usize) -> Response {
    let (mut head, body) = response.into_parts();
    let Ok(counted) = axum::body::to_bytes(body, max_bytes).await else {
        let error = UpstreamError::CutShort;
        return gateway.failure_response(ApiFormat::Messages, &error);
    };
    let annotated = std::str::from_utf8(&counted).ok().filter(|_| head.status.is_success());
    let annotated = annotated.and_then(|counted| count.annotate(counted)).map(Bytes::from);
    if annotated.is_some() {
        head.headers.remove(CONTENT_LENGTH);
    }
    Response::from_parts(head, Body::from(annotated.unwrap_or(counted)))
}

/// Guesses the API format of a request on a route that we do not know, from headers and paths that only one
/// provider's clients send, so that a key is only sent to the provider that its header belongs to.
fn guess_api_format(parts: &Parts) -> ApiFormat {
    let (headers, path) = (&parts.headers, parts.uri.path());
    let is_messages = headers.contains_key("anthropic-version") || headers.contains_key("x-api-key");
    if is_messages || path.starts_with("/v1/messages") {
        ApiFormat::Messages
    } else if path.starts_with("/v1/chat") {
        ApiFormat::Chat
    } else {
        ApiFormat::Responses
    }
}
