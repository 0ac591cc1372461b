//! One request to a model: in, made ready, sent, and its answer back. `served` is what of it an upstream lacks.

mod served;

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use longhaul_engine::{Dialect, Tokens};
use tracing::Instrument as _;

use super::aside::{Asked, Spent, Talk};
use super::body::{MAX_INLINE_BYTES, NoText, Pace};
use super::door::{self, Guest};
use super::in_flight::{InFlight, Kind, OUTPUT_RESERVE};
use super::keep_alive::Warm;
use super::ladder::{Facts, Ladder, Refusal, Rung};
use super::native::Seal;
use super::prepare::{Job, Prepared, Ready};
use super::relay::{Relay, Source, without_hops};
use super::settings::Switch;
use super::{Gateway, body, commands, forward, speech};
use crate::pool::{NotDone, Owner};
use crate::session::{Reaction, Sizes};
use crate::store::{Action as TrafficAction, Tenant};
use crate::upstream::{Response as Answer, Trouble};
use served::{Compacted, Native, SERVED};

const BYPASS: HeaderName = HeaderName::from_static("x-longhaul-bypass");
pub(super) const SESSION: HeaderName = HeaderName::from_static("x-longhaul-session");
pub(super) const ACTION: HeaderName = HeaderName::from_static("x-longhaul-action");
pub(super) const TOKENS: HeaderName = HeaderName::from_static("x-longhaul-tokens");
/// Why the session of a request is in memory only.
const STORE: HeaderName = HeaderName::from_static("x-longhaul-store");
const CACHE: HeaderName = HeaderName::from_static("x-longhaul-cache");
/// Shorter requests are left alone: there is nothing in them to compact, and too little to be cached. They belong to no session until
/// they have grown, which loses nothing, since a client sends all of its history again. Titles and probes are among them.
const SHORTEST: usize = 4096;
/// Of the room that is left in a window, one part of so many is for what a model recalls within a turn,
const ROOM: usize = 2;
/// and no more than so many bytes.
const MOST_ROOM: usize = 96 * 1024;
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
    /// The accounts, which are settled when the call is over.
    flight: InFlight,
    native: Native,
}

impl Gateway {
    /// A request to a model.
    pub(super) async fn model(self: Arc<Self>, dialect: Dialect, request: Request<Body>) -> Response {
        let span = tracing::info_span!("request", id = self.request_id(), dialect = dialect.name());
        self.take(dialect, request).instrument(span).await
    }

    async fn take(self: Arc<Self>, dialect: Dialect, request: Request<Body>) -> Response {
        let (parts, incoming) = request.into_parts();
        let settings = &self.settings;
        let guest = match self.let_in(&parts, dialect).await {
            Ok(guest) => guest,
            Err(closed) => {
                tracing::warn!(status = closed.status.as_u16(), "refused: {}", closed.said);
                return closed.answer(dialect);
            }
        };
        let original = match body::read(incoming, Pace::of(&settings.limits), &self.room).await {
            Ok(original) => original,
            Err(problem) => {
                tracing::warn!(status = problem.status().as_u16(), "refused: {}", problem.said());
                return problem.answer(dialect);
            }
        };
        let estimate = body::estimate(&parts.headers, original.len());
        let output = body::requested_output(&parts.headers, &original).unwrap_or(OUTPUT_RESERVE);
        let flight = match self.admit(&guest, (dialect, Kind::Model), (estimate, output)).await {
            Ok(flight) => flight,
            Err(closed) => {
                tracing::warn!(status = closed.status.as_u16(), "refused: {}", closed.said);
                return closed.answer(dialect);
            }
        };
        let (gateway, native) = (Arc::clone(&self), Native::default());
        // On the heap: a call's state is large, and most of a connection's life there is none.
        Box::pin(Call { gateway, guest, dialect, parts, original, flight, native }.answer()).await
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

    /// Whose work it is in the pool.
    fn owner(&self) -> Owner {
        let owner = self.guest.tenant.as_ref().map_or(Owner::EVERYBODY, Tenant::owner);
        owner.of_bytes(self.original.len())
    }

    /// The body as text, or why it has to go as it came.
    async fn text(&self) -> Result<Bytes, &'static str> {
        let text = self.gateway.text(self.owner(), &self.parts.headers, &self.original).await;
        let text = text.map_err(NoText::name)?;
        if self.dialect != Dialect::Responses {
            return Ok(text);
        }
        let read = text.clone();
        let stateful = match text.len() {
            ..=MAX_INLINE_BYTES => Ok(is_stateful(&read)),
            _ => self.gateway.pool.compute(self.owner(), move || is_stateful(&read)).await,
        };
        if stateful.map_err(NotDone::name)? { Err("stateful") } else { Ok(text) }
    }

    /// Sends a request that was made ready, and after a refusal what the ladder says, until an answer can be handed on.
    async fn send(mut self, job: Arc<Job>, mut ready: Box<Ready>) -> Response {
        let known = Switches::of(&mut ready);
        self.flight.hold(ready);
        let mut ladder = Ladder::default();
        // The refusal of a compacted request, while the original is tried.
        let mut refused = None;
        loop {
            let answer = match self.forward().await {
                Ok(answer) => answer,
                Err(trouble) => return self.no_answer(&trouble),
            };
            let facts = self.facts();
            let refusal = Refusal::in_answer(&answer, facts.has_tools && is_packed(&answer));
            if let Some(trouble) = &answer.trouble {
                tracing::warn!("{trouble}");
            }
            if let Some(rung) = refusal.and_then(|refusal| ladder.next(refusal, facts))
                && self.climb(rung, &job, answer.trouble.as_ref()).await
            {
                self.gateway.tally.again(rung.name());
                refused = (rung == Rung::Original).then_some(answer);
                continue;
            }
            if let Some(ready) = self.flight.ready() {
                known.restore(ready, ladder.newest().filter(|_| answer.trouble.is_none()));
            }
            let is_too_long = refusal == Some(Refusal::TooLong);
            // The original may be longer than the window: what was wrong with the request stands in the refusal before.
            let answer = refused.filter(|_| is_too_long).unwrap_or(answer);
            return self.hand_on(answer).await;
        }
    }

    /// What of the newest try is Longhaul's.
    fn facts(&mut self) -> Facts {
        let Some(ready) = self.flight.ready() else { return Facts::default() };
        Facts {
            has_tools: ready.has_tools,
            has_breakpoints: ready.is_marked,
            has_new_compaction: ready.body.is_some() && ready.claim.session().has_new_compaction(),
        }
    }

    /// Makes a refused request ready again, changed. False if that cannot be done or gives the same again.
    async fn climb(&mut self, rung: Rung, job: &Arc<Job>, trouble: Option<&Trouble>) -> bool {
        let Some(mut ready) = self.flight.release() else { return false };
        let memory = &mut ready.claim.held().memory;
        match rung {
            Rung::WithoutTools => memory.is_untooled = true,
            Rung::WithoutBreakpoints => memory.is_unmarked = true,
            Rung::Smaller | Rung::Original => {
                let now = self.gateway.now();
                let reaction = match trouble {
                    Some(trouble) => ready.claim.session().failed(trouble, now).await.0,
                    None => Reaction::GiveUp(String::new()),
                };
                if !matches!(reaction, Reaction::Retry | Reaction::SendOriginal) {
                    self.flight.hold(ready);
                    return false;
                }
            }
        }
        let before = ready.body.clone().unwrap_or_else(|| job.text.clone());
        let saved = self.native.saved;
        let Prepared::Ready(mut again) = job.run(Some(ready.claim)).await else { return false };
        again.sizes.whole += saved;
        let is_other = *again.body.as_ref().unwrap_or(&job.text) != before;
        if again.body.is_none() && rung != Rung::WithoutTools {
            again.action = TrafficAction::Bypassed("refused".to_owned());
        }
        self.flight.hold(again);
        is_other
    }

    /// Sends it as it came.
    async fn pass(mut self, action: TrafficAction) -> Response {
        self.flight.acted(&action);
        let answer = match self.forward().await {
            Ok(answer) => answer,
            Err(trouble) => return self.no_answer(&trouble),
        };
        let mut response = self.relay(answer);
        set(response.headers_mut(), ACTION, &action.to_string());
        response
    }

    async fn forward(&mut self) -> Result<Answer, Trouble> {
        let mut headers = forward::outgoing(&self.parts.headers);
        // What is read from a copy must come in plain.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let ready = self.flight.ready().map(|ready| (ready.body.clone(), ready.sizes.sent));
        let (body, counted) = ready.unwrap_or((None, Tokens::ZERO));
        if body.is_some() {
            headers.remove(CONTENT_ENCODING);
        }
        let body = body.unwrap_or_else(|| self.original.clone());
        let estimate = body::estimate(&headers, body.len());
        self.flight.calls(if counted > Tokens::ZERO { counted } else { estimate });
        let mut answer = self.gateway.forward(self.dialect, &self.parts, headers, body.into()).await?;
        if self.dialect == Dialect::Responses && answer.trouble.is_none() {
            self.gateway.look_ahead(&self.parts, &mut answer).await;
        }
        // A refusal within the answer costs as little as one in its status.
        let status = if answer.trouble.is_some() { answer.status.max(300) } else { answer.status };
        self.flight.answered(status);
        Ok(answer)
    }

    /// Hands an answer on, whatever it is.
    async fn hand_on(mut self, answer: Answer) -> Response {
        self.flight.answered(answer.status);
        let Some(mut ready) = self.flight.release() else { return self.relay(answer) };
        if answer.trouble.is_none() {
            for line in ready.claim.session().accepted().await {
                tracing::warn!("{line}");
            }
            ready.is_sent(&self.gateway);
            self.can_repeat(&mut ready);
        }
        let talk = self.asked(&mut ready, &answer);
        // It is on its way: as long as the answer takes, nobody else needs it any more.
        ready.body = None;
        let session = ready.claim.session().name();
        let store_trouble = ready.store_trouble;
        if let Some(kind) = store_trouble {
            self.gateway.tally.without_store(kind);
        }
        let (action, expected) = (ready.action.to_string(), ready.expected.to_string());
        let Sizes { whole, sent } = ready.sizes;
        self.flight.hold(ready);
        let mut response = match talk {
            None => self.relay(answer),
            Some(asked) => self.talk(answer, asked).await,
        };
        let headers = response.headers_mut();
        set(headers, ACTION, &action);
        set(headers, CACHE, &expected);
        if let Some(kind) = store_trouble {
            set(headers, STORE, &format!("unavailable: {kind}"));
        }
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
        // A copy of its own: it is kept for longer than there is room for bodies of requests.
        let body = ready.body.clone().unwrap_or_else(|| Bytes::copy_from_slice(&self.original));
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
    async fn talk(self, mut answer: Answer, asked: Asked) -> Response {
        let kind = answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_stream = kind.starts_with("text/event-stream");
        answer.headers.remove(CONTENT_LENGTH);
        let Answer { status, headers, body, .. } = answer;
        let spent: Arc<Mutex<Spent>> = self.flight.spent();
        let talk = Talk::new(asked, body, spent);
        let source = if is_stream {
            Source::Aside(Box::new(talk))
        } else {
            match talk.whole().await {
                Ok(bytes) => Source::Whole(Some(bytes)),
                Err(trouble) => return self.no_answer(&trouble),
            }
        };
        self.hand_back(status, headers, source)
    }

    fn relay(self, answer: Answer) -> Response {
        let Answer { status, headers, body, .. } = answer;
        self.hand_back(status, headers, Source::Upstream(Box::new(body)))
    }

    fn hand_back(self, status: u16, mut headers: HeaderMap, source: Source) -> Response {
        let upstream = self.gateway.settings.upstreams.of(self.dialect);
        without_hops(&mut headers);
        let told = self.told(status, &mut headers);
        if !self.native.served.is_empty() {
            set(&mut headers, SERVED, &self.native.served);
        }
        let open = self.gateway.tally.open();
        let relay = Relay::new((upstream, self.dialect), &mut headers, source, self.flight, open);
        forward::response(status, headers, relay.saying(told).into_body())
    }

    fn no_answer(mut self, trouble: &Trouble) -> Response {
        tracing::warn!("no answer of the upstream: {trouble}");
        let response = forward::no_answer(self.dialect, trouble);
        self.flight.unanswered(trouble, response.status().as_u16());
        response
    }
}

/// What a session's requests go without, because a provider refused them with it.
#[derive(Clone, Copy)]
struct Switches {
    is_untooled: bool,
    is_unmarked: bool,
}

impl Switches {
    fn of(ready: &mut Ready) -> Self {
        let memory = &ready.claim.held().memory;
        Self { is_untooled: memory.is_untooled, is_unmarked: memory.is_unmarked }
    }

    /// Goes back to what was known before a request was tried again, but for the change that helped.
    fn restore(self, ready: &mut Ready, helped: Option<Rung>) {
        let memory = &mut ready.claim.held().memory;
        memory.is_untooled = self.is_untooled || helped == Some(Rung::WithoutTools);
        memory.is_unmarked = self.is_unmarked || helped == Some(Rung::WithoutBreakpoints);
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
