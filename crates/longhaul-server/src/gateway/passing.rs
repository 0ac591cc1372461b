//! What is no request to a model: counts of tokens, which are of what would be sent, and all else, which passes as it came.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, UPGRADE};
use http::request::Parts;
use longhaul_engine::Dialect;
use tokio::time::timeout;

use super::door::Guest;
use super::native::{self, Count, Seal, Taken};
use super::prepare::Job;
use super::settings::Switch;
use super::{Gateway, body, forward, relay, speech, turn};
use crate::upstream::{Response as Answer, Trouble};

impl Gateway {
    /// Counts what would be sent, not what the client has: it is what the window is filled with.
    pub(super) async fn count_tokens(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        let (mut parts, incoming) = request.into_parts();
        let guest = match gateway.let_in(&parts, Dialect::Messages).await {
            Ok(guest) => guest,
            Err(closed) => return closed.answer(Dialect::Messages),
        };
        let limits = gateway.settings.limits;
        let mut original = match body::read(incoming, limits.body, limits.pieces).await {
            Ok(original) => original,
            Err(problem) => return speech::error(Dialect::Messages, problem.status(), problem.said()),
        };
        let taken = match gateway.managed(&parts, &guest, &original).await {
            Ok(taken) => taken,
            Err(said) => return speech::error(Dialect::Messages, StatusCode::BAD_REQUEST, &said),
        };
        if let Some(taken) = &taken {
            original = taken.body.clone();
            parts.headers.remove(CONTENT_ENCODING);
            native::without_betas(&mut parts.headers);
        }
        let replayed = timeout(limits.deadline, gateway.replayed(&parts, &guest, &original)).await;
        let replayed = replayed.ok().flatten();
        let count = taken.and_then(|taken| Count::of(&taken, replayed.as_deref()));
        let body = replayed.map_or(original, Bytes::from);
        let response = gateway.hand_over(parts, Dialect::Messages, body.into()).await;
        match count {
            Some(count) => told(response, &count, limits.body).await,
            None => response,
        }
    }

    /// What of a count is for us.
    async fn managed(&self, parts: &Parts, guest: &Guest, original: &Bytes) -> Result<Option<Taken>, String> {
        let is_on = self.settings.compression.is_on() && !turn::is_bypassed(&parts.headers);
        let text = body::text(&parts.headers, original, self.settings.limits.body).filter(|_| is_on);
        let Some((tenant, text)) = guest.tenant.as_ref().zip(text) else { return Ok(None) };
        let seal = Seal::new(tenant, self.settings.limits.body);
        native::take(self.settings.upstreams.of(Dialect::Messages), &seal, Dialect::Messages, &text).await
    }

    /// What the decisions so far make of a body; nothing where that is the body itself.
    async fn replayed(self: &Arc<Self>, parts: &Parts, guest: &Guest, original: &Bytes) -> Option<String> {
        if self.settings.compression == Switch::Off || parts.headers.contains_key(CONTENT_ENCODING) {
            return None;
        }
        let text = body::text(&parts.headers, original, self.settings.limits.body)?;
        let (gateway, tenant) = (Arc::clone(self), guest.tenant.clone()?);
        let scope = turn::scope(&parts.headers);
        let job = Job { gateway, tenant, dialect: Dialect::Messages, text, scope, is_continued: false };
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || runtime.block_on(job.replayed())).await.ok()?
    }

    /// Anything else goes through as it came.
    pub(super) async fn pass(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let dialect = dialect_of(&parts);
        if let Err(closed) = gateway.let_in(&parts, dialect).await {
            return closed.answer(dialect);
        }
        if parts.headers.contains_key(UPGRADE) {
            // What comes through a socket of another kind could not be made smaller; who asks for one has another way.
            let said = "no connection is upgraded here; send requests one by one";
            return speech::error(dialect, StatusCode::UPGRADE_REQUIRED, said);
        }
        let body = body::onward(body, gateway.settings.limits.pieces);
        gateway.hand_over(parts, dialect, body).await
    }

    /// Hands a request of somebody who was let in over to the upstream of a dialect, and its answer back.
    pub(super) async fn hand_over(&self, parts: Parts, dialect: Dialect, body: reqwest::Body) -> Response {
        let mut headers = forward::outgoing(&parts.headers);
        // What is handed on as it comes has the length that was announced.
        if body.as_bytes().is_none()
            && let Some(length) = parts.headers.get(CONTENT_LENGTH)
        {
            headers.insert(CONTENT_LENGTH, length.clone());
        }
        self.tally.passed();
        let Answer { status, mut headers, body, .. } =
            match self.forward(dialect, &parts, headers, body).await {
                Ok(answer) => answer,
                Err(trouble) => return forward::no_answer(dialect, &trouble),
            };
        relay::without_hops(&mut headers);
        let pieces = stream::unfold((body, self.tally.open()), |(mut pieces, open)| async move {
            let piece = pieces.next().await.transpose()?;
            Some((piece.map_err(io::Error::other), (pieces, open)))
        });
        forward::response(status, headers, Body::from_stream(pieces))
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
