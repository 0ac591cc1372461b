//! What is no request to a model: counts of tokens, which are of what would be sent, and all else, which passes as it came.

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
use longhaul_engine::{Dialect, Tokens};
use memchr::memmem;
use serde_json::Value;
use tracing::Instrument as _;

use super::body::Pace;
use super::door::Guest;
use super::in_flight::{InFlight, Kind, OUTPUT_RESERVE};
use super::native::{self, Count, Seal, Taken};
use super::prepare::Job;
use super::relay::{Ending, How};
use super::{Gateway, body, forward, relay, speech, turn};
use crate::pool::Owner;
use crate::store::Tenant;
use crate::upstream::{Response as Answer, SoFar, Trouble};

/// Methods that ask a provider for nothing that it bills.
const FREE_METHODS: [Method; 4] = [Method::GET, Method::HEAD, Method::OPTIONS, Method::DELETE];
/// The tokens that are reserved for a body that does not say how long it is: about 100 KB of text.
const UNANNOUNCED: Tokens = Tokens(25_000);
/// The most bytes of the end of an answer that are searched for its usage; a usage object has less than 1 KB.
const MAX_TAIL_BYTES: usize = 16 * 1024;
const USAGE: &[u8] = b"\"usage\"";

impl Gateway {
    /// Counts what would be sent, not what the client has: it is what the window is filled with.
    pub(super) async fn count_tokens(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        let (mut parts, incoming) = request.into_parts();
        let guest = match gateway.let_in(&parts, Dialect::Messages).await {
            Ok(guest) => guest,
            Err(closed) => return closed.answer(Dialect::Messages),
        };
        let limits = gateway.settings.limits;
        let mut original = match body::read(incoming, Pace::of(&limits), &gateway.room).await {
            Ok(original) => original,
            Err(problem) => return problem.answer(Dialect::Messages),
        };
        let owner = guest.tenant.as_ref().map_or(Owner::EVERYBODY, Tenant::owner);
        let is_on = gateway.settings.compression.is_on() && !turn::is_bypassed(&parts.headers);
        let text = gateway.text(owner, &parts.headers, &original).await;
        let mut text = text.ok().filter(|_| is_on);
        let taken = match gateway.managed(&guest, text.as_ref()).await {
            Ok(taken) => taken.map(Arc::new),
            Err(said) => return speech::error(Dialect::Messages, StatusCode::BAD_REQUEST, &said),
        };
        if let Some(taken) = &taken {
            original = taken.body.clone();
            text = Some(taken.body.clone());
            parts.headers.remove(CONTENT_ENCODING);
            native::without_betas(&mut parts.headers);
        }
        let text = text.filter(|_| !parts.headers.contains_key(CONTENT_ENCODING));
        let counted = gateway.replayed(&parts, &guest, text, taken.clone()).await;
        let (replayed, count) =
            counted.unwrap_or_else(|| (None, taken.and_then(|taken| Count::of(&taken, None))));
        let body = replayed.map_or(original, Bytes::from);
        let response = gateway.hand_over(parts, Dialect::Messages, body.into(), None).await;
        match count {
            Some(count) => told(response, &count, limits.body).await,
            None => response,
        }
    }

    /// What of a count is for us.
    async fn managed(&self, guest: &Guest, text: Option<&Bytes>) -> Result<Option<Taken>, String> {
        let Some((tenant, text)) = guest.tenant.as_ref().zip(text) else { return Ok(None) };
        let seal = Seal::new(tenant, self.settings.limits.body);
        native::take(self, tenant.owner(), &seal, Dialect::Messages, text).await
    }

    /// What the decisions so far make of a body, where that is not the body itself, and what is to be said of its count.
    async fn replayed(
        self: &Arc<Self>,
        parts: &Parts,
        guest: &Guest,
        text: Option<Bytes>,
        taken: Option<Arc<Taken>>,
    ) -> Option<(Option<String>, Option<Count>)> {
        let (gateway, tenant, text) = (Arc::clone(self), guest.tenant.clone()?, text?);
        let scope = turn::scope(&parts.headers);
        let job = Job { gateway, tenant, dialect: Dialect::Messages, text, scope, is_continued: false };
        let work = |job: Arc<Job>, _| async move {
            let replayed = job.replayed().await;
            let count = taken.and_then(|taken| Count::of(&taken, replayed.as_deref()));
            (replayed, count)
        };
        Arc::new(job).at_work(work).await.ok()
    }

    /// Anything else goes through as it came. A request that can cost something counts against the limits of its key.
    pub(super) async fn pass(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        let span = tracing::info_span!("request", id = gateway.request_id());
        gateway.pass_on(request).instrument(span).await
    }

    async fn pass_on(self: Arc<Self>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let dialect = dialect_of(&parts);
        let guest = match self.let_in(&parts, dialect).await {
            Ok(guest) => guest,
            Err(closed) => return closed.answer(dialect),
        };
        if parts.headers.contains_key(UPGRADE) {
            // What comes through a socket of another kind could not be made smaller; who asks for one has another way.
            let said = "no connection is upgraded here; send requests one by one";
            return speech::error(dialect, StatusCode::UPGRADE_REQUIRED, said);
        }
        let costs = !FREE_METHODS.contains(&parts.method);
        let (body, paid) = if costs {
            let flight =
                match self.admit(&guest, (dialect, Kind::Other), (announced(&parts), OUTPUT_RESERVE)).await {
                    Ok(flight) => flight,
                    Err(closed) => return closed.answer(dialect),
                };
            let (body, bytes) = counted(body, body::expansion(&parts.headers));
            (body, Some(Paid { flight: Some(flight), bytes, tail: UsageTail::default() }))
        } else {
            (body, None)
        };
        let body = body::onward(body, Pace::of(&self.settings.limits));
        self.hand_over(parts, dialect, body, paid).await
    }

    /// Hands a request of somebody who was let in over to the upstream of a dialect, and its answer back.
    pub(super) async fn hand_over(
        &self,
        parts: Parts,
        dialect: Dialect,
        body: reqwest::Body,
        mut paid: Option<Paid>,
    ) -> Response {
        let mut headers = forward::outgoing(&parts.headers);
        // What is handed on as it comes has the length that was announced.
        if body.as_bytes().is_none()
            && let Some(length) = parts.headers.get(CONTENT_LENGTH)
        {
            headers.insert(CONTENT_LENGTH, length.clone());
        }
        self.tally.passed();
        if let Some(flight) = paid.as_mut().and_then(|paid| paid.flight.as_mut()) {
            flight.calls(announced(&parts));
        }
        let answer = self.forward(dialect, &parts, headers, body).await;
        let Answer { status, mut headers, body, .. } = match answer {
            Ok(answer) => answer,
            Err(trouble) => {
                let response = forward::no_answer(dialect, &trouble);
                if let Some(flight) = paid.as_mut().and_then(|paid| paid.flight.as_mut()) {
                    flight.unanswered(&trouble, response.status().as_u16());
                }
                return response;
            }
        };
        if let Some(flight) = paid.as_mut().and_then(|paid| paid.flight.as_mut()) {
            flight.answered(status);
        }
        relay::without_hops(&mut headers);
        let state = (body, self.tally.open(), paid);
        let pieces = stream::unfold(state, |(mut pieces, open, mut paid)| async move {
            let piece = pieces.next().await.transpose();
            if let Some(paid) = &mut paid {
                match &piece {
                    Some(Ok(piece)) => paid.tail.feed(piece),
                    Some(Err(_)) => paid.ends(How::Cut),
                    None => paid.ends(How::Whole),
                }
            }
            Some((piece?.map_err(io::Error::other), (pieces, open, paid)))
        });
        forward::response(status, headers, Body::from_stream(pieces))
    }
}

/// The account of a request that is passed on, while its answer is.
pub(super) struct Paid {
    flight: Option<InFlight>,
    /// The bytes of the request that went through so far.
    bytes: Arc<AtomicU64>,
    tail: UsageTail,
}

impl Paid {
    /// The account of a request whose whole body is known.
    pub(super) fn new(flight: InFlight, bytes: usize) -> Self {
        let bytes = Arc::new(AtomicU64::new(bytes as u64));
        Self { flight: Some(flight), bytes, tail: UsageTail::default() }
    }

    fn ends(&mut self, how: How) {
        let Some(mut flight) = self.flight.take() else { return };
        let bytes = usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
        flight.sent(body::about(bytes));
        let so_far = SoFar { usage: self.tail.usage(), output: Tokens::ZERO };
        flight.ends(Ending { how, reply: None, so_far });
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        self.ends(How::Left);
    }
}

/// A body whose bytes are counted as they pass, each as so many.
fn counted(body: Body, expansion: usize) -> (Body, Arc<AtomicU64>) {
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

/// About how many tokens a request says that it has.
fn announced(parts: &Parts) -> Tokens {
    let length = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    length.map_or(UNANNOUNCED, |length| body::estimate(&parts.headers, length))
}

/// The end of an answer, where providers say what it took.
#[derive(Default)]
struct UsageTail(Vec<u8>);

impl UsageTail {
    fn feed(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
        if self.0.len() > 2 * MAX_TAIL_BYTES {
            self.0.drain(..self.0.len() - MAX_TAIL_BYTES);
        }
    }

    /// The newest usage in it that can be read.
    fn usage(&self) -> Option<Usage> {
        memmem::rfind_iter(&self.0, USAGE).find_map(|at| {
            let value = self.0[at + USAGE.len()..].trim_ascii_start().strip_prefix(b":")?;
            let value = serde_json::Deserializer::from_slice(value).into_iter::<Value>().next()?.ok()?;
            Usage::read(&value)
        })
    }
}

/// A count with what is to be said of it.
async fn told(response: Response, count: &Count, most: usize) -> Response {
    let (mut head, body) = response.into_parts();
    let Ok(counted) = axum::body::to_bytes(body, most).await else {
        let trouble = Trouble::CutShort;
        return forward::no_answer(Dialect::Messages, &trouble);
    };
    let told = std::str::from_utf8(&counted).ok().filter(|_| head.status.is_success());
    let told = told.and_then(|counted| count.told(counted)).map(Bytes::from);
    if told.is_some() {
        head.headers.remove(CONTENT_LENGTH);
    }
    Response::from_parts(head, Body::from(told.unwrap_or(counted)))
}

/// Whose a request of another kind is: what only one provider's clients send gives it away. A key goes where its header belongs.
fn dialect_of(parts: &Parts) -> Dialect {
    let (headers, path) = (&parts.headers, parts.uri.path());
    let is_messages = headers.contains_key("anthropic-version") || headers.contains_key("x-api-key");
    if is_messages || path.starts_with("/v1/messages") {
        Dialect::Messages
    } else if path.starts_with("/v1/chat") {
        Dialect::Chat
    } else {
        Dialect::Responses
    }
}
