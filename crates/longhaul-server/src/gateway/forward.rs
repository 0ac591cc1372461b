//! From here to an upstream: what of a head it is shown, who pays, and what it means that no answer came.

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
use longhaul_engine::Dialect;
use memchr::memmem;

use super::relay::without_hops;
use super::{Gateway, door, speech};
use crate::upstream::{Letter, Patience, Progress, Reading, Response as Answer, Retries, Stage, Trouble};

/// Headers of ours, which no upstream is shown.
const OURS: &str = "x-longhaul-";
/// The events that say that a request was taken, and no more.
const TAKEN: [&str; 3] = ["response.created", "response.in_progress", "response.queued"];
/// So much of an answer is held back at most until it says more.
const MOST_AHEAD: usize = 2 * 1024 * 1024;

/// The word in the names of the dashboard's cookies.
const OUR_COOKIES: &[u8] = b"longhaul";
/// Headers by which an answer changes what a browser does with a whole origin, or where it goes next.
static ORIGIN_WIDE: [HeaderName; 9] = [
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
    /// Sends a request of somebody who was let in to the upstream of a dialect, with this head and whoever's key pays.
    pub(super) async fn forward(
        &self,
        dialect: Dialect,
        parts: &Parts,
        mut headers: HeaderMap,
        body: reqwest::Body,
    ) -> Result<Answer, Trouble> {
        let upstream = self.settings.upstreams.of(dialect);
        door::pay(&mut headers, upstream);
        let letter = Letter { method: parts.method.clone(), target: target(parts), headers, body };
        let hushed = |trouble| door::hushed(&parts.headers, trouble);
        let answer = self.client.forward(upstream, letter, &self.patience()).await.map_err(hushed)?;
        Ok(Answer { trouble: answer.trouble.map(hushed), ..answer })
    }

    /// In the Responses dialect a request that is too long is taken, and refused by the first event that says more than that it was
    /// taken. Until then nothing is handed on, so that a smaller one can be sent in its place.
    pub(super) async fn look_ahead(&self, parts: &Parts, answer: &mut Answer) {
        let upstream = Arc::clone(self.settings.upstreams.of(Dialect::Responses));
        let mut reading = Reading::new(upstream, Dialect::Responses);
        let mut taken = Vec::new();
        while let Ok(Some(piece)) = answer.body.next().await {
            taken.extend_from_slice(&piece);
            match reading.feed(&piece) {
                Err(trouble @ (Trouble::TooLong { .. } | Trouble::TooLarge(_))) => {
                    answer.trouble = Some(door::hushed(&parts.headers, trouble));
                }
                Ok(Progress::More) if taken.len() < MOST_AHEAD && says_nothing_yet(&taken) => continue,
                _ => {}
            }
            break;
        }
        answer.body.put_back(Bytes::from(taken));
    }

    pub(super) fn patience(&self) -> Patience {
        let limits = &self.settings.limits;
        let whole = Duration::from_hours(24);
        Patience { first_byte: limits.first_byte, idle: limits.idle, whole, retries: Retries::NONE }
    }
}

/// What a client is told where no answer came.
pub(super) fn no_answer(dialect: Dialect, trouble: &Trouble) -> Response {
    let status = match trouble {
        Trouble::TimedOut(Stage::FirstByte | Stage::Idle | Stage::Whole) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_GATEWAY,
    };
    speech::error(dialect, status, &format!("longhaul: {trouble}"))
}

/// An upstream's answer as it is handed on.
pub(super) fn response(status: u16, mut headers: HeaderMap, body: Body) -> Response {
    sandbox(&mut headers);
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    *response.headers_mut() = headers;
    response
}

/// Keeps an upstream's answer from doing anything in a browser as if it were a page of the dashboard, which has the same origin: it runs
/// no script, loads nothing, sets none of our cookies and changes nothing for the origin as a whole. Clients of an API see no difference.
fn sandbox(headers: &mut HeaderMap) {
    for name in &ORIGIN_WIDE {
        headers.remove(name);
    }
    let foreign = |cookie: &&HeaderValue| !names_ours(cookie.as_bytes());
    let cookies: Vec<HeaderValue> = headers.get_all(SET_COOKIE).iter().filter(foreign).cloned().collect();
    headers.remove(SET_COOKIE);
    headers.extend(cookies.into_iter().map(|cookie| (SET_COOKIE, cookie)));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Whether a cookie could come back as one of ours. The name may be empty, and the value then stands for both.
fn names_ours(cookie: &[u8]) -> bool {
    let pair = cookie.split(|byte| *byte == b';').next().unwrap_or_default().to_ascii_lowercase();
    memmem::find(&pair, OUR_COOKIES).is_some()
}

/// The head of a request as an upstream is to see it.
pub(super) fn outgoing(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    without_hops(&mut headers);
    headers.remove(HOST);
    headers.remove(CONTENT_LENGTH);
    // Who waited for a sign to go on has had it from us.
    headers.remove(EXPECT);
    let is_ours = |name: &&HeaderName| name.as_str().starts_with(OURS) && **name != door::KEY;
    let ours: Vec<HeaderName> = headers.keys().filter(is_ours).cloned().collect();
    for name in &ours {
        headers.remove(name);
    }
    let cookies: Vec<HeaderValue> = headers.get_all(COOKIE).iter().filter_map(foreign_cookies).collect();
    headers.remove(COOKIE);
    headers.extend(cookies.into_iter().map(|cookies| (COOKIE, cookies)));
    headers
}

/// Returns the cookies of a header without the dashboard's own, which no upstream is shown; none if no other is left.
fn foreign_cookies(cookies: &HeaderValue) -> Option<HeaderValue> {
    let pairs = cookies.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let foreign: Vec<&[u8]> = pairs.filter(|pair| !pair.is_empty() && !names_ours(pair)).collect();
    if foreign.is_empty() { None } else { HeaderValue::from_bytes(&foreign.join(&b"; "[..])).ok() }
}

/// The path of a request, and what stands behind it.
pub(super) fn target(parts: &Parts) -> String {
    parts.uri.path_and_query().map_or_else(|| "/".to_owned(), |target| target.as_str().to_owned())
}

/// Whether a stream of events only says so far that a request was taken.
fn says_nothing_yet(events: &[u8]) -> bool {
    let text = String::from_utf8_lossy(events);
    let mut names = text.lines().filter_map(|line| line.strip_prefix("event:")).map(str::trim);
    text.trim_start().starts_with("event:") && names.all(|name| TAKEN.contains(&name))
}
