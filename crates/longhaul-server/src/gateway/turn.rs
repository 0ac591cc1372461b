//! One request to a model: in, made ready, sent, and its answer back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use longhaul_engine::prices::Usage;
use longhaul_engine::{Dialect, Tokens};
use tracing::Instrument as _;

use super::door::{self, Guest};
use super::keep_alive::Warm;
use super::prepare::{Job, Prepared, Ready};
use super::relay::{Aftermath, Ending, Relay, without_hops};
use super::settings::Switch;
use super::{Gateway, body, commands, speech};
use crate::session::{Reaction, Sizes};
use crate::store::{Action as TrafficAction, Day, Traffic};
use crate::upstream::{Letter, Patience, Progress, Reading, Response as Answer, Retries, Stage, Trouble};

/// Headers of ours, which no upstream is shown.
const OURS: &str = "x-longhaul-";
const BYPASS: HeaderName = HeaderName::from_static("x-longhaul-bypass");
const SESSION: HeaderName = HeaderName::from_static("x-longhaul-session");
const ACTION: HeaderName = HeaderName::from_static("x-longhaul-action");
const TOKENS: HeaderName = HeaderName::from_static("x-longhaul-tokens");
const CACHE: HeaderName = HeaderName::from_static("x-longhaul-cache");
/// Shorter requests are left alone: there is nothing in them to compact, and too little to be cached. They belong to no session until
/// they have grown, which loses nothing, since a client sends all of its history again. Titles and probes are among them.
const SHORTEST: usize = 4096;
/// So often a request is made smaller and sent again; a session ends it sooner where nothing is gained.
const MOST_TRIES: usize = 5;
/// The events that say that a request was taken, and no more.
const TAKEN: [&str; 3] = ["response.created", "response.in_progress", "response.queued"];
/// So much of an answer is held back at most until it says more.
const MOST_AHEAD: usize = 2 * 1024 * 1024;
/// About so many bytes of a body are a token, where nobody counts.
const BYTES_OF_A_TOKEN: u64 = 4;
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
}

impl Gateway {
    /// A request to a model.
    pub(super) async fn model(self: Arc<Self>, dialect: Dialect, request: Request<Body>) -> Response {
        let span = tracing::info_span!("request", id = self.request_id(), dialect = dialect.name());
        self.take(dialect, request).instrument(span).await
    }

    async fn take(self: Arc<Self>, dialect: Dialect, request: Request<Body>) -> Response {
        let started = Instant::now();
        let (parts, incoming) = request.into_parts();
        let settings = &self.settings;
        let refused = |status: StatusCode, said: &str| {
            tracing::warn!(status = status.as_u16(), "refused: {said}");
            speech::error(dialect, status, said)
        };
        let guest = match self.let_in(&parts, dialect).await {
            Ok(guest) => guest,
            Err(closed) => {
                tracing::warn!(status = closed.status.as_u16(), "refused: {}", closed.said);
                return closed.answer(dialect);
            }
        };
        let original = match body::read(incoming, settings.limits.body, settings.limits.pieces).await {
            Ok(original) => original,
            Err(problem) => return refused(problem.status(), problem.said()),
        };
        Call { gateway: Arc::clone(&self), guest, dialect, parts, original, started }.answer().await
    }
}

impl Call {
    async fn answer(self) -> Response {
        let settings = &self.gateway.settings;
        if settings.compression == Switch::Off {
            return self.pass(TrafficAction::None).await;
        }
        let bypassed = |reason: &str| TrafficAction::Bypassed(reason.to_owned());
        if self.parts.headers.get(BYPASS).is_some_and(|value| value == "1") {
            return self.pass(bypassed("asked")).await;
        }
        let Some(tenant) = self.guest.tenant.clone() else {
            return self.pass(bypassed("store")).await;
        };
        let text = match self.text().await {
            Ok(text) => text,
            Err(reason) => return self.pass(bypassed(reason)).await,
        };
        if text.len() < SHORTEST && !commands::may_be_in(&text) {
            return self.pass(TrafficAction::None).await;
        }
        let (gateway, dialect) = (Arc::clone(&self.gateway), self.dialect);
        let scope = scope(&self.parts.headers);
        let job = Arc::new(Job { gateway, tenant, dialect, text, scope });
        match job.run(None).await {
            Prepared::Ready(ready) => self.send(job, ready).await,
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
        for tries in 0.. {
            let answer = match self.forward(ready.body.as_ref()).await {
                Ok(answer) => answer,
                Err(trouble) => return self.no_answer(&trouble),
            };
            if unmarked && answer.trouble.is_some() {
                // They were not what was wrong.
                ready.claim.held().memory.is_unmarked = false;
            }
            let Some(trouble) = answer.trouble.as_ref().filter(|_| tries < MOST_TRIES) else {
                return self.hand_on(answer, Some(ready), added);
            };
            if !matches!(trouble, Trouble::TooLong { .. } | Trouble::TooLarge(_) | Trouble::BadRequest(_)) {
                return self.hand_on(answer, Some(ready), added);
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
                        Prepared::Ready(same) => return self.hand_on(answer, Some(same), added),
                        Prepared::Command(_) | Prepared::Bypass(_) => {
                            return self.hand_on(answer, None, added);
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
                        return self.hand_on(answer, None, added);
                    };
                    self.gateway.tally.again("marks");
                    (ready, unmarked) = (again, true);
                    if ready.body.is_none() {
                        ready.action = TrafficAction::Bypassed("refused".to_owned());
                    }
                }
                Reaction::Wait(_) | Reaction::GiveUp(_) => return self.hand_on(answer, Some(ready), added),
            }
        }
        self.no_answer(&Trouble::CutShort)
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
        Box::new(Passed {
            gateway: Arc::clone(&self.gateway),
            guest: self.guest.clone(),
            dialect: self.dialect,
            status: answer.status,
            traffic: traffic(action, None, self.gateway.now()),
            sent: Tokens(self.original.len() as u64 / BYTES_OF_A_TOKEN),
            started: self.started,
        })
    }

    async fn forward(&self, body: Option<&Bytes>) -> Result<Answer, Trouble> {
        let upstream = self.gateway.settings.upstreams.of(self.dialect);
        let mut headers = outgoing(&self.parts.headers);
        // What is read from a copy must come in plain.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if body.is_some() {
            headers.remove(CONTENT_ENCODING);
        }
        door::pay(&mut headers, upstream);
        let body = body.unwrap_or(&self.original).clone();
        let target = target(&self.parts);
        let letter = Letter { method: self.parts.method.clone(), target, headers, body: body.into() };
        let hushed = |trouble| door::hushed(&self.parts.headers, trouble);
        let forwarded = self.gateway.client.forward(upstream, letter, &self.gateway.patience()).await;
        let mut answer = forwarded.map_err(hushed)?;
        if self.dialect == Dialect::Responses && answer.trouble.is_none() {
            self.look_ahead(&mut answer).await;
        }
        answer.trouble = answer.trouble.map(hushed);
        Ok(answer)
    }

    /// In this dialect a request that is too long is taken, and refused by the first event that says more than that it was taken. Until
    /// then nothing is handed on, so that a smaller one can be sent in its place.
    async fn look_ahead(&self, answer: &mut Answer) {
        let upstream = self.gateway.settings.upstreams.of(self.dialect);
        let mut reading = Reading::new(Arc::clone(upstream), self.dialect);
        let mut taken = Vec::new();
        while let Ok(Some(piece)) = answer.body.next().await {
            taken.extend_from_slice(&piece);
            match reading.feed(&piece) {
                Err(trouble @ (Trouble::TooLong { .. } | Trouble::TooLarge(_))) => {
                    answer.trouble = Some(trouble);
                }
                Ok(Progress::More) if taken.len() < MOST_AHEAD && says_nothing_yet(&taken) => continue,
                _ => {}
            }
            break;
        }
        answer.body.put_back(Bytes::from(taken));
    }

    /// Hands an answer on, whatever it is.
    fn hand_on(self, answer: Answer, ready: Option<Box<Ready>>, added: Duration) -> Response {
        let Some(mut ready) = ready else {
            let aftermath = self.passed(&answer, TrafficAction::None);
            return self.relay(answer, aftermath);
        };
        if answer.trouble.is_none() {
            ready.is_sent(&self.gateway);
            self.can_repeat(&mut ready);
        }
        // It is on its way: as long as the answer takes, nobody needs it any more.
        ready.body = None;
        let session = ready.claim.session().name();
        let (action, expected) = (ready.action.to_string(), ready.expected.to_string());
        let Sizes { whole, sent } = ready.sizes;
        let aftermath = Turned {
            gateway: Arc::clone(&self.gateway),
            guest: self.guest.clone(),
            dialect: self.dialect,
            status: answer.status,
            started: self.started,
            added,
            ready,
        };
        let mut response = self.relay(answer, Box::new(aftermath));
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
        let mut headers = outgoing(&self.parts.headers);
        door::without_keys(&mut headers);
        let body = ready.body.clone().unwrap_or_else(|| self.original.clone());
        let (dialect, target, at) = (self.dialect, target(&self.parts), self.gateway.now());
        let warm = Warm { dialect, target, headers, body, at };
        ready.claim.held().memory.can_repeat(warm);
    }

    fn relay(&self, answer: Answer, aftermath: Box<dyn Aftermath>) -> Response {
        let upstream = self.gateway.settings.upstreams.of(self.dialect);
        let Answer { status, mut headers, body, .. } = answer;
        without_hops(&mut headers);
        let relay =
            Relay::new((upstream, self.dialect), &mut headers, body, aftermath, self.gateway.tally.open());
        let mut response = Response::new(relay.into_body());
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
        *response.headers_mut() = headers;
        response
    }

    fn no_answer(&self, trouble: &Trouble) -> Response {
        tracing::warn!("no answer of the upstream: {trouble}");
        let status = match trouble {
            Trouble::TimedOut(Stage::Connect) | Trouble::Unreachable(_) => StatusCode::BAD_GATEWAY,
            Trouble::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::BAD_GATEWAY,
        };
        let none = traffic(TrafficAction::None, None, self.gateway.now());
        self.gateway.tally.answered(self.dialect, status.as_u16(), &none, None);
        speech::error(self.dialect, status, &format!("longhaul: {trouble}"))
    }
}

/// The head of a request as an upstream is to see it.
pub(super) fn outgoing(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    without_hops(&mut headers);
    headers.remove(HOST);
    headers.remove(CONTENT_LENGTH);
    // Who waited for a sign to go on has had it from us.
    headers.remove(EXPECT);
    let ours: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(OURS)).cloned().collect();
    ours.iter().filter(|name| **name != super::door::KEY).for_each(|name| drop(headers.remove(name)));
    headers
}

/// What a client says of its session, so that it is told from others that begin alike.
pub(super) fn scope(headers: &HeaderMap) -> Vec<u8> {
    headers.get(SESSION).map(|id| id.as_bytes().to_vec()).unwrap_or_default()
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

fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

impl Gateway {
    pub(super) fn patience(&self) -> Patience {
        let limits = &self.settings.limits;
        let whole = Duration::from_hours(24);
        Patience { first_byte: limits.first_byte, idle: limits.idle, whole, retries: Retries::NONE }
    }
}

fn traffic(action: TrafficAction, model: Option<String>, at: crate::agents::Moment) -> Traffic {
    Traffic {
        at,
        model,
        action,
        before: Tokens::ZERO,
        after: Tokens::ZERO,
        usage: Usage::default(),
        broke: None,
        added: Duration::ZERO,
        took: Duration::ZERO,
        usd: None,
        usd_without: None,
    }
}

/// What follows an answer to a request that passed as it came.
struct Passed {
    gateway: Arc<Gateway>,
    guest: Guest,
    dialect: Dialect,
    status: u16,
    traffic: Traffic,
    /// How large it was, about.
    sent: Tokens,
    started: Instant,
}

impl Aftermath for Passed {
    fn over(self: Box<Self>, ending: Ending) {
        let usage = match ending {
            Ending::Whole(reply) => reply.and_then(|reply| reply.usage).unwrap_or_default(),
            Ending::Cut | Ending::Left => Usage::default(),
        };
        let Self { gateway, guest, dialect, status, traffic, sent, started } = *self;
        let traffic = Traffic { usage, took: started.elapsed(), ..traffic };
        gateway.tally.answered(dialect, status, &traffic, None);
        if guest.granted.is_some() && status < 300 {
            tokio::spawn(async move { gateway.charge(&guest, &usage, sent).await }.in_current_span());
        }
    }
}

/// What follows an answer to a request of a session.
struct Turned {
    gateway: Arc<Gateway>,
    guest: Guest,
    dialect: Dialect,
    status: u16,
    started: Instant,
    added: Duration,
    ready: Box<Ready>,
}

impl Aftermath for Turned {
    fn over(mut self: Box<Self>, ending: Ending) {
        // The next request may line up at once; what follows is written while it comes.
        self.ready.claim.free();
        let begun = self.gateway.pending.begin();
        let settled = async move {
            self.settle(ending).await;
            drop(begun);
        };
        tokio::spawn(settled.in_current_span());
    }
}

impl Turned {
    async fn settle(self: Box<Self>, ending: Ending) {
        let Self { gateway, guest, dialect, status, started, added, ready } = *self;
        let Ready { mut claim, action, sizes, model, expected, before, .. } = *ready;
        let now = gateway.now();
        let took = started.elapsed();
        let usage = match ending {
            Ending::Whole(Some(reply)) if status < 300 => {
                let usage = reply.usage.unwrap_or_default();
                for line in claim.session().after(&usage).await.said {
                    tracing::info!("{line}");
                }
                usage
            }
            Ending::Whole(_) | Ending::Cut | Ending::Left => Usage::default(),
        };
        let held = claim.held();
        let miss = held.memory.missed(&expected, before, &usage).filter(|_| status < 300);
        if let Some(miss) = &miss {
            tracing::info!("cache miss: {miss}");
        }
        for line in held.session.write().await {
            tracing::warn!("{line}");
        }
        let prices = held.session.policy().and_then(|policy| policy.prices);
        let usd = prices.as_ref().filter(|_| usage.input.is_some());
        let usd = usd.map(|prices| usage.bill(&prices.price).total());
        let usd_without = prices
            .as_ref()
            .zip(usd)
            .map(|(prices, _)| held.memory.without(&usage, sizes, &expected).bill(&prices.price).total());
        let traffic = Traffic {
            at: now,
            model: Some(model).filter(|model| !model.is_empty()),
            action,
            before: sizes.whole,
            after: sizes.sent,
            usage,
            broke: miss.as_ref().map(ToString::to_string),
            added,
            took,
            usd,
            usd_without,
        };
        gateway.tally.answered(dialect, status, &traffic, miss.as_ref().map(super::memory::Miss::name));
        tracing::info!(
            session = held.session.name(),
            status,
            action = %traffic.action,
            before = sizes.whole.number(),
            after = sizes.sent.number(),
            input = usage.input.map(Tokens::number),
            read = usage.read.map(Tokens::number),
            added_ms = added.as_secs_f64() * 1e3,
            took_ms = took.as_secs_f64() * 1e3,
            "answered"
        );
        if let (Some(id), Some(tenant)) = (held.session.id(), &guest.tenant)
            && let Err(error) = gateway.store.note_traffic(tenant, id, &traffic).await
        {
            tracing::warn!("the store did not keep what a request came to: {error}");
        }
        if status < 300 {
            gateway.charge(&guest, &usage, sizes.sent).await;
        }
    }
}

impl Gateway {
    /// Counts what a key used. Where nobody heard the provider's count, because who asked left before it came, it is what was sent.
    async fn charge(&self, guest: &Guest, usage: &Usage, sent: Tokens) {
        let Some(granted) = &guest.granted else { return };
        let tokens = usage.input.unwrap_or(sent) + usage.output.unwrap_or_default();
        if let Err(error) = self.store.use_key(granted.id, tokens, Day::of(self.now())).await {
            tracing::warn!("the store did not count what a key used: {error}");
        }
    }
}
