//! One request to a model: in, made ready, sent, and its answer back. `served` is what of it an upstream lacks.

mod served;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use longhaul_engine::{Dialect, Tokens};
use tracing::{Instrument as _, Span};

use super::aftermath::{self, Passed, Request as Answered, Turned};
use super::aside::{Asked, Spent, Talk};
use super::door::{self, Guest};
use super::keep_alive::Warm;
use super::native::Seal;
use super::prepare::{Job, Prepared, Ready};
use super::relay::{Aftermath, Relay, Source, without_hops};
use super::settings::Switch;
use super::{Gateway, body, commands, forward, speech};
use crate::session::{Reaction, Sizes};
use crate::store::Action as TrafficAction;
use crate::upstream::{Response as Answer, Trouble};
use served::{Compacted, Native, SERVED};

const BYPASS: HeaderName = HeaderName::from_static("x-longhaul-bypass");
pub(super) const SESSION: HeaderName = HeaderName::from_static("x-longhaul-session");
pub(super) const ACTION: HeaderName = HeaderName::from_static("x-longhaul-action");
pub(super) const TOKENS: HeaderName = HeaderName::from_static("x-longhaul-tokens");
const CACHE: HeaderName = HeaderName::from_static("x-longhaul-cache");
/// Shorter requests are left alone: there is nothing in them to compact, and too little to be cached. They belong to no session until
/// they have grown, which loses nothing, since a client sends all of its history again. Titles and probes are among them.
const SHORTEST: usize = 4096;
/// So often a request is made smaller and sent again; a session ends it sooner where nothing is gained.
const MOST_TRIES: usize = 5;
/// Of the room that is left in a window, one part of so many is for what a model recalls within a turn,
const ROOM: usize = 2;
/// and no more than so many bytes.
const MOST_ROOM: usize = 96 * 1024;
/// So many bytes are read at once, on the threads that wait.
const AT_ONCE: usize = 256 * 1024;
/// What only the provider can go on from: it has the history, and we do not.
const STATEFUL: &[u8] = b"\"previous_response_id\"";

/// One request.
struct Call {
    gateway: Arc<Gateway>,
    guest: Guest,
    dialect: Dialect,
    parts: Parts,
    /// The body as it came.
    original: Bytes,
    started: Instant,
    /// What its lines in the log are found by.
    span: Span,
    native: Native,
}

impl Gateway {
    /// A request to a model.
    pub(super) async fn model(self: Arc<Self>, dialect: Dialect, request: Request<Body>) -> Response {
        let span = tracing::info_span!("request", id = self.request_id(), dialect = dialect.name());
        self.take(dialect, request, span.clone()).instrument(span).await
    }

    async fn take(self: Arc<Self>, dialect: Dialect, request: Request<Body>, span: Span) -> Response {
        let started = Instant::now();
        let (parts, incoming) = request.into_parts();
        let settings = &self.settings;
        let guest = match self.let_in(&parts, dialect).await {
            Ok(guest) => guest,
            Err(closed) => {
                tracing::warn!(status = closed.status.as_u16(), "refused: {}", closed.said);
                return closed.answer(dialect);
            }
        };
        let original = match body::read(incoming, settings.limits.body, settings.limits.pieces).await {
            Ok(original) => original,
            Err(problem) => {
                tracing::warn!(status = problem.status().as_u16(), "refused: {}", problem.said());
                return speech::error(dialect, problem.status(), problem.said());
            }
        };
        let (gateway, native) = (Arc::clone(&self), Native::default());
        Call { gateway, guest, dialect, parts, original, started, span, native }.answer().await
    }
}

impl Call {
    async fn answer(mut self) -> Response {
        let settings = &self.gateway.settings;
        if settings.compression == Switch::Off {
            return self.pass(TrafficAction::None).await;
        }
        let bypassed = |reason: &str| TrafficAction::Bypassed(reason.to_owned());
        if is_bypassed(&self.parts.headers) {
            return self.pass(bypassed("asked")).await;
        }
        let Some(tenant) = self.guest.tenant.clone() else {
            return self.pass(bypassed("store")).await;
        };
        let text = match self.text().await {
            Ok(text) => text,
            Err(reason) => return self.pass(bypassed(reason)).await,
        };
        let seal = Seal::new(&tenant, settings.limits.body);
        let (text, due) = match self.take_native(&seal, text).await {
            Ok(taken) => taken,
            Err(said) => return speech::error(self.dialect, StatusCode::BAD_REQUEST, &said),
        };
        if text.len() < SHORTEST && !commands::may_be_in(&text) {
            return self.pass(TrafficAction::None).await;
        }
        let (gateway, dialect) = (Arc::clone(&self.gateway), self.dialect);
        let scope = scope(&self.parts.headers);
        let is_continued = self.native.is_continued;
        let job = Arc::new(Job { gateway, tenant, dialect, text, scope, is_continued });
        let mut is_compacted = false;
        if let Some(due) = due {
            match self.compact(&job, &seal, &due).await {
                Ok(Some(Compacted::Shown(response))) => return response,
                Ok(made) => is_compacted = made.is_some(),
                Err(reason) => tracing::warn!("no compaction, though one was asked for: {reason}"),
            }
        }
        match job.run(None).await {
            Prepared::Ready(mut ready) => {
                ready.sizes.whole += self.native.saved;
                if is_compacted && ready.action == TrafficAction::Replayed {
                    ready.action = TrafficAction::Compacted;
                }
                self.send(job, ready).await
            }
            Prepared::Command(asked) => commands::answer(&job, asked).await,
            Prepared::Bypass(reason) => {
                tracing::warn!("the request goes as it came: {reason}");
                self.pass(bypassed(reason)).await
            }
        }
    }

    /// The body as text, or why it has to go as it came. What takes long is done where nobody waits for the thread.
    async fn text(&self) -> Result<Bytes, &'static str> {
        let (headers, original) = (self.parts.headers.clone(), self.original.clone());
        let (dialect, most) = (self.dialect, self.gateway.settings.limits.body);
        let is_long = original.len() > AT_ONCE || headers.contains_key(CONTENT_ENCODING);
        let read = move || match body::text(&headers, &original, most) {
            None => Err("unreadable"),
            Some(text) if dialect == Dialect::Responses && is_stateful(&text) => Err("stateful"),
            Some(text) => Ok(text),
        };
        if !is_long {
            return read();
        }
        tokio::task::spawn_blocking(read).await.unwrap_or(Err("engine"))
    }

    /// Sends a request that was made ready; where the provider finds it too long, a smaller one; where it does not take what was
    /// rewritten, the original.
    async fn send(self, job: Arc<Job>, mut ready: Box<Ready>) -> Response {
        let added = self.started.elapsed();
        // Whether it was tried without marks.
        let mut unmarked = false;
        // Whether it was tried without tools.
        let mut untooled = false;
        let mut tries = 0;
        loop {
            let answer = match self.forward(ready.body.as_ref()).await {
                Ok(answer) => answer,
                Err(trouble) => return self.no_answer(&trouble),
            };
            if unmarked && answer.trouble.is_some() {
                // They were not what was wrong.
                ready.claim.held().memory.is_unmarked = false;
            }
            // A model that takes no tools, or an answer that only the client could unpack, goes without ours.
            if ready.has_tools
                && (matches!(answer.trouble, Some(Trouble::BadRequest(_))) || is_packed(&answer))
            {
                ready.claim.held().memory.is_untooled = true;
                let Ready { claim, .. } = *ready;
                let Prepared::Ready(again) = job.run(Some(claim)).await else {
                    return self.hand_on(answer, None, added).await;
                };
                self.gateway.tally.again("tools");
                (ready, untooled) = (again, true);
                continue;
            }
            if untooled && answer.trouble.is_some() {
                ready.claim.held().memory.is_untooled = false;
            }
            tries += 1;
            let Some(trouble) = answer.trouble.as_ref().filter(|_| tries <= MOST_TRIES) else {
                return self.hand_on(answer, Some(ready), added).await;
            };
            if !matches!(trouble, Trouble::TooLong { .. } | Trouble::TooLarge(_) | Trouble::BadRequest(_)) {
                return self.hand_on(answer, Some(ready), added).await;
            }
            tracing::warn!("{trouble}");
            let now = self.gateway.now();
            let (reaction, _) = ready.claim.session().failed(trouble, now).await;
            match reaction {
                Reaction::Retry => {
                    let before = ready.body.clone().unwrap_or_else(|| job.text.clone());
                    let Ready { claim, .. } = *ready;
                    match job.run(Some(claim)).await {
                        Prepared::Ready(again) if again.body.as_ref().is_some_and(|body| *body != before) => {
                            self.gateway.tally.again("too_long");
                            ready = again;
                        }
                        Prepared::Ready(same) => return self.hand_on(answer, Some(same), added).await,
                        Prepared::Command(_) | Prepared::Bypass(_) => {
                            return self.hand_on(answer, None, added).await;
                        }
                    }
                }
                Reaction::SendOriginal => {
                    self.gateway.tally.again("refused");
                    ready.body = None;
                    ready.sizes.sent = ready.sizes.whole;
                    ready.action = TrafficAction::Bypassed("refused".to_owned());
                }
                // It may be our marks that it does not take.
                Reaction::GiveUp(_) if ready.is_marked && matches!(trouble, Trouble::BadRequest(_)) => {
                    ready.claim.held().memory.is_unmarked = true;
                    let Ready { claim, .. } = *ready;
                    let Prepared::Ready(again) = job.run(Some(claim)).await else {
                        return self.hand_on(answer, None, added).await;
                    };
                    self.gateway.tally.again("marks");
                    (ready, unmarked) = (again, true);
                    if ready.body.is_none() {
                        ready.action = TrafficAction::Bypassed("refused".to_owned());
                    }
                }
                Reaction::Wait(_) | Reaction::GiveUp(_) => {
                    return self.hand_on(answer, Some(ready), added).await;
                }
            }
        }
    }

    /// Sends it as it came.
    async fn pass(self, action: TrafficAction) -> Response {
        let answer = match self.forward(None).await {
            Ok(answer) => answer,
            Err(trouble) => return self.no_answer(&trouble),
        };
        let aftermath = self.passed(&answer, action.clone());
        let mut response = self.relay(answer, aftermath);
        set(response.headers_mut(), ACTION, &action.to_string());
        response
    }

    /// What follows where the client's own body was sent.
    fn passed(&self, answer: &Answer, action: TrafficAction) -> Box<dyn Aftermath> {
        let sent = body::about(self.original.len());
        Box::new(Passed { request: self.answered(answer), action, sent })
    }

    /// The request, for what follows its answer.
    fn answered(&self, answer: &Answer) -> Answered {
        Answered {
            gateway: Arc::clone(&self.gateway),
            guest: self.guest.clone(),
            dialect: self.dialect,
            status: answer.status,
            started: self.started,
            span: self.span.clone(),
        }
    }

    async fn forward(&self, body: Option<&Bytes>) -> Result<Answer, Trouble> {
        let mut headers = forward::outgoing(&self.parts.headers);
        // What is read from a copy must come in plain.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if body.is_some() {
            headers.remove(CONTENT_ENCODING);
        }
        let body = body.unwrap_or(&self.original).clone();
        let mut answer = self.gateway.forward(self.dialect, &self.parts, headers, body.into()).await?;
        if self.dialect == Dialect::Responses && answer.trouble.is_none() {
            self.gateway.look_ahead(&self.parts, &mut answer).await;
        }
        Ok(answer)
    }

    /// Hands an answer on, whatever it is.
    async fn hand_on(self, answer: Answer, ready: Option<Box<Ready>>, added: Duration) -> Response {
        let Some(mut ready) = ready else {
            let aftermath = self.passed(&answer, TrafficAction::None);
            return self.relay(answer, aftermath);
        };
        if answer.trouble.is_none() {
            ready.is_sent(&self.gateway);
            self.can_repeat(&mut ready);
        }
        let spent = Arc::default();
        let talk = self.asked(&mut ready, &answer);
        // It is on its way: as long as the answer takes, nobody else needs it any more.
        ready.body = None;
        let session = ready.claim.session().name();
        let (action, expected) = (ready.action.to_string(), ready.expected.to_string());
        let Sizes { whole, sent } = ready.sizes;
        let request = self.answered(&answer);
        let aftermath = Box::new(Turned { request, added, ready, spent: Arc::clone(&spent) });
        let mut response = match talk {
            None => self.relay(answer, aftermath),
            Some(asked) => self.talk(answer, asked, spent, aftermath).await,
        };
        let headers = response.headers_mut();
        set(headers, ACTION, &action);
        set(headers, CACHE, &expected);
        set(headers, TOKENS, &format!("{}/{}", whole.number(), sent.number()));
        if let Some(session) = session {
            set(headers, SESSION, &session);
        }
        response
    }

    /// Remembers a request that may have to be made again, where that is wanted and the gateway pays for it.
    fn can_repeat(&self, ready: &mut Ready) {
        let upstream = self.gateway.settings.upstreams.of(self.dialect);
        let is_ours = door::is_ours_to_pay(&self.parts.headers, upstream);
        let is_packed = self.parts.headers.contains_key(CONTENT_ENCODING);
        if self.gateway.settings.keep_alive.is_none() || !is_ours || is_packed {
            return;
        }
        let mut headers = forward::outgoing(&self.parts.headers);
        door::without_keys(&mut headers);
        let body = ready.body.clone().unwrap_or_else(|| self.original.clone());
        let (dialect, target, at) = (self.dialect, forward::target(&self.parts), self.gateway.now());
        let warm = Warm { dialect, target, headers, body, at };
        ready.claim.held().memory.can_repeat(warm);
    }

    /// What is needed to answer a model that calls our tools, where it has some.
    fn asked(&self, ready: &mut Ready, answer: &Answer) -> Option<Asked> {
        let is_offered = ready.has_tools && answer.trouble.is_none();
        let (body, after) = ready.body.clone().filter(|_| is_offered).zip(ready.tip)?;
        let (gateway, dialect) = (Arc::clone(&self.gateway), self.dialect);
        let (tenant, session) = (self.guest.tenant.clone()?, ready.claim.session());
        let window = session.policy().map_or(Tokens::ZERO, |policy| policy.window);
        let room = body::bytes_of(window - ready.sizes.sent) / ROOM;
        let (parts, session) = (self.parts.clone(), ready.claim.session().id()?);
        Some(Asked { gateway, dialect, parts, body, after, tenant, session, room: room.min(MOST_ROOM) })
    }

    /// Hands on what a client may see of a reply whose model can call our tools.
    async fn talk(
        &self,
        mut answer: Answer,
        asked: Asked,
        spent: Arc<Mutex<Spent>>,
        aftermath: Box<dyn Aftermath>,
    ) -> Response {
        let kind = answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_stream = kind.starts_with("text/event-stream");
        answer.headers.remove(CONTENT_LENGTH);
        let Answer { status, headers, body, .. } = answer;
        let talk = Talk::new(asked, body, spent);
        let source = if is_stream {
            Source::Aside(Box::new(talk))
        } else {
            match talk.whole().await {
                Ok(bytes) => Source::Whole(Some(bytes)),
                Err(trouble) => return self.no_answer(&trouble),
            }
        };
        self.hand_back(status, headers, source, aftermath)
    }

    fn relay(&self, answer: Answer, aftermath: Box<dyn Aftermath>) -> Response {
        let Answer { status, headers, body, .. } = answer;
        self.hand_back(status, headers, Source::Upstream(Box::new(body)), aftermath)
    }

    fn hand_back(
        &self,
        status: u16,
        mut headers: HeaderMap,
        source: Source,
        aftermath: Box<dyn Aftermath>,
    ) -> Response {
        let upstream = self.gateway.settings.upstreams.of(self.dialect);
        without_hops(&mut headers);
        let told = self.told(status, &mut headers);
        let relay =
            Relay::new((upstream, self.dialect), &mut headers, source, aftermath, self.gateway.tally.open());
        if !self.native.served.is_empty() {
            set(&mut headers, SERVED, &self.native.served);
        }
        forward::response(status, headers, relay.saying(told).into_body())
    }

    fn no_answer(&self, trouble: &Trouble) -> Response {
        tracing::warn!("no answer of the upstream: {trouble}");
        let response = forward::no_answer(self.dialect, trouble);
        let none = aftermath::nothing(self.gateway.now());
        self.gateway.tally.answered(self.dialect, response.status().as_u16(), &none, None);
        response
    }
}

/// What a client says of its session, so that it is told from others that begin alike.
pub(super) fn scope(headers: &HeaderMap) -> Vec<u8> {
    headers.get(SESSION).map(|id| id.as_bytes().to_vec()).unwrap_or_default()
}

/// Whether a client wants a request to pass as it came.
pub(super) fn is_bypassed(headers: &HeaderMap) -> bool {
    headers.get(BYPASS).is_some_and(|value| value == "1")
}

/// Whether an answer is packed, though it was asked for in plain.
fn is_packed(answer: &Answer) -> bool {
    answer.headers.get(CONTENT_ENCODING).is_some_and(|packed| packed != "identity")
}

/// Whether the provider has the history, and is only told to go on.
fn is_stateful(text: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Opening<'b> {
        #[serde(borrow)]
        previous_response_id: Option<std::borrow::Cow<'b, str>>,
    }
    memchr::memmem::find(text, STATEFUL).is_some()
        && serde_json::from_slice::<Opening<'_>>(text)
            .is_ok_and(|opening| opening.previous_response_id.is_some())
}

pub(super) fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}
