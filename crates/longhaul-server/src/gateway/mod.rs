//! The gateway: what an agent talks to in the place of its provider.
//!
//! ```text
//! client ──▶ door ──▶ body ──▶ commands? ──▶ session ──▶ marks ──▶ upstream
//!   ▲       names,   under a    answered     found by     by pace     │
//!   │       keys     limit      here         its history              │
//!   └──── relay: piece by piece, as it comes ◀── too long? smaller ◀──┘
//!                └── a copy: usage ──▶ the session, the store, the counts
//! ```
//!
//! - `listen` has the connections, `door` who is let in, `turn` one request from its bytes to its answer.
//! - `prepare` finds the session ([`live`] holds those at hand), replays and compacts; `marks` sets cache marks; `memory` knows what
//!   the provider should still have, and so why it missed.
//! - `relay` hands an answer on and reads a copy; `speech` has what we say ourselves, in the dialect; `commands` what people type for us.
//! - `tally` counts; `keep_alive` reads again what is about to lapse, where that is switched on and pays.
//!
//! What must hold: whatever goes wrong with us, the client's own request goes through. No request can choose where it goes. An answer is
//! what the provider sent, to the last byte. Nothing that takes long runs on the threads that wait.

mod body;
mod commands;
mod door;
mod keep_alive;
mod listen;
mod live;
mod marks;
mod memory;
mod prepare;
mod relay;
mod settings;
mod speech;
mod tally;
mod turn;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::{CONTENT_TYPE, UPGRADE};
use longhaul_engine::Dialect;
use longhaul_engine::identity::Chains;
use tokio::sync::Semaphore;

pub use settings::{Access, KeepAlive, Limits, Settings, Switch, Upstreams};
pub use tally::Sums;

use door::Door;
use keep_alive::Purse;
use live::Live;
use tally::Tally;

use crate::agents::Moment;
use crate::session::{Host, Incoming};
use crate::store::Store;
use crate::upstream::{Client, Letter, Models, Trouble};

/// What the world around a gateway is like.
pub struct World {
    /// What time it is.
    pub clock: Arc<dyn Fn() -> Moment + Send + Sync>,
    /// Who is told of compactions, and has random marks.
    pub host: Arc<dyn Host>,
}

/// A gateway.
pub struct Gateway {
    settings: Settings,
    store: Store,
    client: Client,
    models: Option<Arc<dyn Models>>,
    host: Arc<dyn Host>,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
    door: Door,
    live: Live,
    /// What messages are known by that came before, in parts that are locked one by one.
    chains: [Mutex<Chains>; 16],
    tally: Tally,
    /// What was spent on keeping caches warm.
    purse: Purse,
    /// How much is made ready at a time.
    workers: Arc<Semaphore>,
    requests: AtomicU64,
    is_ready: AtomicBool,
}

/// So many requests are made ready at a time for each core: some of them wait for the store.
const FOR_EACH_CORE: usize = 4;

impl Gateway {
    /// A gateway before a store. The client is who talks to upstreams, and who asks for summaries where the settings want some.
    #[must_use]
    pub fn new(settings: Settings, store: Store, client: Client, world: World) -> Arc<Self> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let models: Arc<dyn Models> = Arc::new(client.clone());
        Arc::new(Self {
            live: Live::new(settings.limits.live),
            settings,
            store,
            client,
            models: Some(models),
            host: world.host,
            clock: world.clock,
            door: Door::default(),
            chains: std::array::from_fn(|_| Mutex::default()),
            tally: Tally::new(),
            purse: Purse::default(),
            workers: Arc::new(Semaphore::new(cores * FOR_EACH_CORE)),
            requests: AtomicU64::new(0),
            is_ready: AtomicBool::new(true),
        })
    }

    /// What it did so far.
    #[must_use]
    pub fn sums(&self) -> Sums {
        self.tally.sums()
    }

    fn now(&self) -> Moment {
        (self.clock)()
    }

    /// What a request is called in the log, and an answer of ours.
    fn request_id(&self) -> String {
        format!("lh{:08x}", self.requests.fetch_add(1, Ordering::Relaxed))
    }

    fn stops(&self) {
        self.is_ready.store(false, Ordering::Relaxed);
    }

    fn routes(self: Arc<Self>) -> Router {
        let to = |dialect: Dialect| {
            move |State(gateway): State<Arc<Self>>, request: Request| gateway.model(dialect, request)
        };
        Router::new()
            .route("/v1/messages", post(to(Dialect::Messages)))
            .route("/v1/chat/completions", post(to(Dialect::Chat)))
            .route("/v1/responses", post(to(Dialect::Responses)))
            .route("/v1/messages/count_tokens", post(Self::count_tokens))
            .route("/healthz", get(Self::health))
            .route("/metrics", get(Self::metrics))
            .fallback(Self::pass)
            .method_not_allowed_fallback(Self::pass)
            .with_state(self)
    }

    async fn health(State(gateway): State<Arc<Self>>) -> Response {
        if !gateway.is_ready.load(Ordering::Relaxed) {
            return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
        }
        match gateway.store.has_keys().await {
            Ok(_) => (StatusCode::OK, "ok\n").into_response(),
            Err(error) => {
                tracing::warn!("the store does not answer: {error}");
                (StatusCode::OK, "ok, without the store: requests go through as they come\n").into_response()
            }
        }
    }

    async fn metrics(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        if let Err(closed) = Door::check_names(&request.into_parts().0, &gateway.settings) {
            return (closed.status, closed.said).into_response();
        }
        let page = gateway.tally.page(gateway.live.count());
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
    }

    /// Counts what would be sent, not what the client has: it is what the window is filled with.
    async fn count_tokens(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        let (parts, incoming) = request.into_parts();
        let limits = gateway.settings.limits;
        let original = match body::read(incoming, limits.body, limits.pieces).await {
            Ok(original) => original,
            Err(problem) => return speech::error(Dialect::Messages, problem.status(), problem.said()),
        };
        let replayed = gateway.replayed(&parts, &original).await;
        let body = replayed.map_or(original, bytes::Bytes::from);
        gateway.hand_over(parts, Dialect::Messages, body.into()).await
    }

    /// What the decisions so far make of a body; nothing where that is the body itself.
    async fn replayed(&self, parts: &http::request::Parts, original: &bytes::Bytes) -> Option<String> {
        if self.settings.compression == Switch::Off
            || parts.headers.contains_key(http::header::CONTENT_ENCODING)
        {
            return None;
        }
        let text = body::text(&parts.headers, original, self.settings.limits.body)?;
        let upstream = self.settings.upstreams.of(Dialect::Messages);
        let guest =
            self.door.admit(&self.store, &parts.headers, upstream, self.settings.access).await.ok()?;
        let (store, runtime) = (self.store.clone(), tokio::runtime::Handle::current());
        let work = move || {
            let text = std::str::from_utf8(&text).ok()?;
            let incoming = Incoming::read(Dialect::Messages, text, None).ok()?;
            let found = runtime.block_on(store.find(&guest.tenant, &incoming.transcript)).ok()??;
            crate::session::replay(&found.view.ledger, &incoming.transcript)
        };
        tokio::task::spawn_blocking(work).await.ok()?
    }

    /// Anything else goes through as it came.
    async fn pass(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let dialect = dialect_of(&parts);
        if parts.headers.contains_key(UPGRADE) {
            // What comes through a socket of another kind could not be made smaller; who asks for one has another way.
            let said = "no connection is upgraded here; send requests one by one";
            return speech::error(dialect, StatusCode::UPGRADE_REQUIRED, said);
        }
        gateway.hand_over(parts, dialect, reqwest::Body::wrap_stream(body.into_data_stream())).await
    }

    /// Hands a request over to the upstream of a dialect, and its answer back.
    async fn hand_over(
        &self,
        parts: http::request::Parts,
        dialect: Dialect,
        body: reqwest::Body,
    ) -> Response {
        if let Err(closed) = Door::check_names(&parts, &self.settings) {
            return speech::error(dialect, closed.status, &closed.said);
        }
        let upstream = self.settings.upstreams.of(dialect);
        let guest = self.door.admit(&self.store, &parts.headers, upstream, self.settings.access).await;
        let guest = match guest {
            Ok(guest) => guest,
            Err(closed) => return speech::error(dialect, closed.status, &closed.said),
        };
        let mut headers = turn::outgoing(&parts.headers);
        guest.pay(&mut headers, upstream);
        let letter = Letter { method: parts.method.clone(), target: turn::target(&parts), headers, body };
        self.tally.passed();
        match self.client.forward(upstream, letter, &self.patience()).await {
            Ok(answer) => {
                let mut headers = answer.headers;
                relay::without_hops(&mut headers);
                let open = self.tally.open();
                let pieces =
                    futures_util::stream::unfold((answer.body, open), |(mut pieces, open)| async move {
                        let piece = pieces.next().await.transpose()?;
                        Some((piece.map_err(std::io::Error::other), (pieces, open)))
                    });
                let mut response = Response::new(Body::from_stream(pieces));
                *response.status_mut() =
                    StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
                *response.headers_mut() = headers;
                response
            }
            Err(trouble) => {
                let status = match trouble {
                    Trouble::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
                    _ => StatusCode::BAD_GATEWAY,
                };
                speech::error(dialect, status, &format!("longhaul: {trouble}"))
            }
        }
    }
}

/// Whose a request of another kind is: what only one provider's clients send gives it away.
fn dialect_of(parts: &http::request::Parts) -> Dialect {
    let headers = &parts.headers;
    if headers.contains_key("anthropic-version") || parts.uri.path().starts_with("/v1/messages") {
        Dialect::Messages
    } else if parts.uri.path().starts_with("/v1/chat") {
        Dialect::Chat
    } else {
        Dialect::Responses
    }
}
