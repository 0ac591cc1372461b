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
//! - `listen` has the connections, `names` and `door` who is let in, `turn` one request to a model from its bytes to its answer,
//!   `aftermath` what follows that, `passing` every other request; `forward` is the way to an upstream.
//! - `prepare` finds the session ([`live`] holds those at hand), replays and compacts; `marks` sets cache marks; `memory` knows what
//!   the provider should still have, and so why it missed.
//! - `relay` hands an answer on and reads a copy; `speech` has what we say ourselves, in the dialect; `commands` what people type for us.
//! - `aside` offers the recall tools to models and answers their calls, of which no client sees anything.
//! - `dashboard` is what people see of it, at `GET /`.
//! - `tally` counts; `keep_alive` reads again what is about to lapse, where that is switched on and pays.
//!
//! What must hold: whatever goes wrong with us, the client's own request goes through. No request can choose where it goes. An answer is
//! what the provider sent, to the last byte. Nothing that takes long runs on the threads that wait.

mod aftermath;
mod aside;
mod body;
mod commands;
mod dashboard;
mod door;
mod forward;
mod keep_alive;
mod listen;
mod live;
mod marks;
mod memory;
mod names;
mod passing;
mod pending;
mod prepare;
mod relay;
mod settings;
mod speech;
mod tally;
mod turn;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use longhaul_engine::identity::Chains;
use longhaul_engine::{Dialect, Tokens};
use tokio::sync::Semaphore;

pub(crate) use door::key_of;
pub use settings::{Access, KeepAlive, Limits, Recall, Settings, Switch, Upstreams};
pub use tally::Sums;

use dashboard::Dashboard;
use door::{Closed, Door, Guest};
use keep_alive::Purse;
use live::Live;
use pending::Pending;
use tally::Tally;

use crate::agents::Moment;
use crate::session::Host;
use crate::store::{Day, Store};
use crate::upstream::{Client, Models};

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
    models: Arc<dyn Models>,
    host: Arc<dyn Host>,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
    door: Door,
    dashboard: Dashboard,
    live: Live,
    /// What messages are known by that came before, in parts that are locked one by one.
    chains: [Mutex<Chains>; 16],
    tally: Tally,
    /// What is still to be written down of answers that have ended.
    pending: Pending,
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
            models,
            host: world.host,
            clock: world.clock,
            door: Door::default(),
            dashboard: Dashboard::default(),
            chains: std::array::from_fn(|_| Mutex::default()),
            tally: Tally::new(),
            pending: Pending::default(),
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
        self.dashboard.pulse.stop();
    }

    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
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
            .merge(dashboard::routes(&self))
            .fallback(Self::pass)
            .method_not_allowed_fallback(Self::pass)
            .with_state(self)
    }

    async fn health(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        if let Err(closed) = gateway.show(&request.into_parts().0).await {
            return (closed.status, closed.said).into_response();
        }
        if !gateway.is_ready() {
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
        if let Err(closed) = gateway.show(&request.into_parts().0).await {
            return (closed.status, closed.said).into_response();
        }
        let page = gateway.tally.page(gateway.live.count());
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
    }

    /// Lets somebody see a page about the gateway.
    async fn show(&self, parts: &Parts) -> Result<(), Closed> {
        names::check(parts, &self.settings)?;
        self.door.show(&self.store, &parts.headers, self.settings.access, self.now()).await
    }

    /// Lets somebody in who wants something of the upstream of a dialect. Nothing of a body is looked at before.
    async fn let_in(&self, parts: &Parts, dialect: Dialect) -> Result<Guest, Closed> {
        names::check(parts, &self.settings)?;
        let (upstream, access, now) = (self.settings.upstreams.of(dialect), self.settings.access, self.now());
        let guest = self.door.admit(&self.store, &parts.headers, upstream, access, now).await?;
        let limited =
            guest.granted.as_ref().and_then(|granted| Some((granted.id, granted.limits.tokens_per_day?)));
        let Some((key, most)) = limited else { return Ok(guest) };
        let day = Day::of(now);
        match self.store.use_key(key, Tokens::ZERO, day).await {
            Ok(used) if used >= most => Err(Closed::until(
                day.left(now),
                format!("the key's limit of {most} tokens a day is reached"),
            )),
            Ok(_) => Ok(guest),
            Err(error) => {
                tracing::warn!("the store does not say what a key used: {error}");
                Ok(guest)
            }
        }
    }
}
