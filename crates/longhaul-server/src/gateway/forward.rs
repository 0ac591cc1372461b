//! Sends requests to an upstream: which headers it receives, whose key pays, and which error a failure
//! becomes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{
    ALT_SVC, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, COOKIE, EXPECT, HOST, REFRESH, SET_COOKIE,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use longhaul_engine::ApiFormat;
use memchr::memmem;

use super::relay::remove_hop_headers;
use super::{Gateway, auth, own_replies};
use crate::upstream::{
    OutboundRequest, Progress, ReplyReader, Response as Answer, RetryPolicy, TimeoutStage, Timeouts, UpstreamError,
};

/// The prefix of our own headers, which no upstream receives.
const OWN_HEADER_PREFIX: &str = "x-longhaul-";
/// The events that only say that a request was accepted.
const ACCEPTED_EVENTS: [&str; 3] = ["response.created", "response.in_progress", "response.queued"];
/// The largest number of bytes of a reply that is held back until another event arrives. Chosen by hand.
const MAX_LOOK_AHEAD_BYTES: usize = 2 * 1024 * 1024;

/// A word that the names of all dashboard cookies contain.
const OWN_COOKIE_WORD: &[u8] = b"longhaul";
/// Response headers that change how a browser treats the whole origin, or where it goes next.
static ORIGIN_WIDE_HEADERS: [HeaderName; 9] = [
    ALT_SVC,
    REFRESH,
    STRICT_TRANSPORT_SECURITY,
    HeaderName::from_static("clear-site-data"),
    HeaderName::from_static("service-worker-allowed"),
    HeaderName::from_static("nel"),
    HeaderName::from_static("report-to"),
    HeaderName::from_static("reporting-endpoints"),
    HeaderName::from_static("origin-agent-cluster"),
];

impl Gateway {
    /// Sends a request of an authenticated client to the upstream of an API format. The client's key pays, or
    /// else the gateway's.
    pub(super) async fn forward(
        &self,
        api_format: ApiFormat,
        parts: &Parts,
        mut headers: HeaderMap,
        body: reqwest::Body,
    ) -> Result<Answer, UpstreamError> {
        let upstream = self.settings.upstreams.for_api_format(api_format);
        auth::set_provider_key(&mut headers, upstream);
        let request =
            OutboundRequest { method: parts.method.clone(), path_and_query: path_and_query(parts), headers, body };
        let without_keys = |error| auth::hide_keys(&parts.headers, error);
        let answer = self.client.forward(upstream, request, &self.upstream_timeouts()).await.map_err(without_keys)?;
        Ok(Answer { error: answer.error.map(without_keys), ..answer })
    }

    /// Looks for a refusal at the start of a Responses stream. In this API format a request that is too long
    /// is accepted first, and refused by the first event after those of [`ACCEPTED_EVENTS`]. Nothing is passed
    /// on until then, so that a smaller request can still be sent instead.
    pub(super) async fn detect_refusal_in_stream(&self, parts: &Parts, answer: &mut Answer) {
        let upstream = Arc::clone(self.settings.upstreams.for_api_format(ApiFormat::Responses));
        let mut reader = ReplyReader::new(upstream, ApiFormat::Responses);
        let mut bytes = Vec::new();
        while let Ok(Some(piece)) = answer.body.next().await {
            bytes.extend_from_slice(&piece);
            match reader.feed(&piece) {
                Err(error @ (UpstreamError::TooLong { .. } | UpstreamError::TooLarge(_))) => {
                    answer.error = Some(auth::hide_keys(&parts.headers, error));
                }
                Ok(Progress::More) if bytes.len() < MAX_LOOK_AHEAD_BYTES && has_only_accepted_events(&bytes) => {
                    continue;
                }
                _ => {}
            }
            break;
        }
        answer.body.put_back(Bytes::from(bytes));
    }

    pub(super) fn upstream_timeouts(&self) -> Timeouts {
        let limits = &self.settings.limits;
        let total = Duration::from_hours(24);
        Timeouts {
            first_byte: limits.first_byte_timeout,
            idle: limits.idle_timeout,
            total,
            retry_policy: RetryPolicy::NONE,
        }
    }

    /// Returns the error response for a request that the upstream did not answer. It names the upstream's
    /// address, which contains no credentials.
    pub(super) fn failure_response(&self, api_format: ApiFormat, error: &UpstreamError) -> Response {
        let status = match error {
            UpstreamError::TimedOut(TimeoutStage::FirstByte | TimeoutStage::Idle | TimeoutStage::Total) => {
                StatusCode::GATEWAY_TIMEOUT
            }
            _ => StatusCode::BAD_GATEWAY,
        };
        let address = self.settings.upstreams.for_api_format(api_format).address();
        own_replies::error_response(api_format, status, &format!("longhaul: {address}: {error}"))
    }
}

/// Returns an upstream's reply as a response for the client, with sandboxed headers.
pub(super) fn sandboxed_response(status: u16, mut headers: HeaderMap, body: Body) -> Response {
    sandbox_headers(&mut headers);
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = headers;
    response
}

/// Keeps an upstream's reply from acting in a browser like a page of the dashboard, which has the same
/// origin. It runs no script, loads nothing, sets none of our cookies and changes nothing for the origin. API
/// clients see no difference.
fn sandbox_headers(headers: &mut HeaderMap) {
    for name in &ORIGIN_WIDE_HEADERS {
        headers.remove(name);
    }
    let foreign = |cookie: &&HeaderValue| !may_be_own_cookie(cookie.as_bytes());
    let cookies: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().filter(foreign).cloned().collect();
    headers.remove(SET_COOKIE);
    headers.extend(cookies.into_iter().map(|cookie| (SET_COOKIE, cookie)));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Returns whether a browser could send this cookie back as one of ours. It searches the value too, because
/// the name may be empty.
fn may_be_own_cookie(cookie: &[u8]) -> bool {
    let pair = cookie.split(|byte| *byte == b';').next().unwrap_or_default().to_ascii_lowercase();
    memmem::find(&pair, OWN_COOKIE_WORD).is_some()
}

/// Returns the request headers that the upstream receives, and the gateway key, which
/// [`auth::set_provider_key`] removes.
pub(super) fn outgoing_headers(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    remove_hop_headers(&mut headers);
    headers.remove(HOST);
    headers.remove(CONTENT_LENGTH);
    // The gateway has already answered `Expect: 100-continue`.
    headers.remove(EXPECT);
    let is_ours = |name: &&HeaderName| name.as_str().starts_with(OWN_HEADER_PREFIX) && **name != auth::KEY_HEADER;
    let own_headers: Vec<HeaderName> = headers.keys().filter(is_ours).cloned().collect();
    for name in &own_headers {
        headers.remove(name);
    }
    let cookies: Vec<HeaderValue> = headers.get_all(COOKIE).iter().filter_map(foreign_cookies).collect();
    headers.remove(COOKIE);
    headers.extend(cookies.into_iter().map(|cookies| (COOKIE, cookies)));
    headers
}

/// Returns the cookies of a header without the dashboard's own; none if no other is left.
fn foreign_cookies(cookies: &HeaderValue) -> Option<HeaderValue> {
    let pairs = cookies.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let foreign: Vec<&[u8]> = pairs.filter(|pair| !pair.is_empty() && !may_be_own_cookie(pair)).collect();
    if foreign.is_empty() { None } else { HeaderValue::from_bytes(&foreign.join(&b"; "[..])).ok() }
}

/// Returns the path and query of a request.
pub(super) fn path_and_query(parts: &Parts) -> String {
    parts.uri.path_and_query().map_or_else(|| "/".to_owned(), |target| target.as_str().to_owned())
}

/// Returns whether a stream of events says only that the request was accepted.
fn has_only_accepted_events(events: &[u8]) -> bool {
    let text = String::from_utf8_lossy(events);
    let mut names = text.lines().filter_map(|line| line.strip_prefix("event:")).map(str::trim);
    text.trim_start().starts_with("event:") && names.all(|name| ACCEPTED_EVENTS.contains(&name))
}
