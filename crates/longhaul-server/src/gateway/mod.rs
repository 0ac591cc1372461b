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
//!   `ladder` the retries of a refused one, `in_flight` the accounts that are settled when it ends, `passing` every other request;
//!   `paths` brings targets into one form before they are routed, and `forward` is the way to an upstream.
//! - `prepare` finds the session ([`live`] holds those at hand), replays and compacts; `marks` sets cache marks; `memory` knows what
//!   the provider should still have, and so why it missed.
//! - `relay` hands an answer on and reads a copy; `speech` has what we say ourselves, in the dialect; `commands` what people type for us.
//! - `native` serves what one provider has for upstreams that lack it.
//! - `aside` offers the recall tools to models and answers their calls, of which no client sees anything.
//! - `dashboard` is what people see of it, at `GET /`.
//! - `tally` counts; `keep_alive` reads again what is about to lapse, where that is switched on and pays.
//!
//! What must hold: whatever goes wrong with us, the client's own request goes through. No request can choose where it goes. An answer is
//! what the provider sent, to the last byte. Nothing that takes long runs on the threads that wait.

mod aside;
mod baseline;
pub(crate) mod body;
mod commands;
mod dashboard;
mod door;
mod events;
mod forward;
mod in_flight;
mod keep_alive;
mod known_uses;
mod ladder;
mod listen;
mod live;
mod marks;
mod memory;
mod names;
mod native;
mod passing;
mod paths;
mod pending;
mod prepare;
mod relay;
mod settings;
mod speech;
mod tally;
mod turn;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use longhaul_engine::Dialect;
use longhaul_engine::identity::Chains;
use tokio::time::timeout;

pub(crate) use door::key_of;
pub use settings::{Access, KeepAlive, Limits, Recall, Settings, Switch, Upstreams};
pub use tally::Sums;

use body::Room;
use dashboard::Dashboard;
use door::{Closed, Door, Guest};
use keep_alive::Purse;
use known_uses::KnownUses;
use live::Live;
use pending::Pending;
use tally::Tally;

use crate::agents::Moment;
use crate::pool::Pool;
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
    uses: KnownUses,
    /// What was spent on keeping caches warm.
    purse: Purse,
    /// The threads for all that takes processor time.
    pool: Pool,
    /// The room for bodies in memory.
    room: Room,
    requests: AtomicU64,
    is_ready: AtomicBool,
}

/// So long a health check waits for the store: whoever asks wants to know of the gateway, and asks often.
const MAX_HEALTH_WAIT: Duration = Duration::from_millis(50);

impl Gateway {
    /// A gateway before a store. The client is who talks to upstreams, and who asks for summaries where the settings want some.
    #[must_use]
    pub fn new(settings: Settings, store: Store, client: Client, world: World) -> Arc<Self> {
        let models: Arc<dyn Models> = Arc::new(client.clone());
        Arc::new(Self {
            live: Live::new(settings.limits.live),
            room: Room::new(settings.limits.bodies.max(2 * settings.limits.body)),
            settings,
            store: store.guarded(),
            client,
            models,
            host: world.host,
            clock: world.clock,
            door: Door::default(),
            dashboard: Dashboard::default(),
            chains: std::array::from_fn(|_| Mutex::default()),
            tally: Tally::new(),
            pending: Pending::default(),
            uses: KnownUses::default(),
            purse: Purse::default(),
            pool: Pool::for_this_machine(),
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
        let routes = Router::new()
            .route(paths::MESSAGES, post(to(Dialect::Messages)))
            .route(paths::CHAT, post(to(Dialect::Chat)))
            .route(paths::RESPONSES, post(to(Dialect::Responses)))
            .route(paths::COUNT_TOKENS, post(Self::count_tokens))
            .route(paths::COMPACT, post(Self::compact))
            .route("/healthz", get(Self::health))
            .route("/metrics", get(Self::metrics))
            .merge(dashboard::routes(&self))
            .fallback(Self::pass)
            .method_not_allowed_fallback(Self::pass)
            .with_state(self);
        // A layer runs before the routes of the fallback are looked through, so that they see one form of a path, without a key.
        let normal =
            map_request(|request: Request| async { paths::normalise(door::take_key_from_path(request)) });
        Router::new().fallback_service(routes).layer(normal)
    }

    async fn health(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        if let Err(closed) = gateway.show(&request.into_parts().0).await {
            return (closed.status, closed.said).into_response();
        }
        if !gateway.is_ready() {
            return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
        }
        let Ok(asked) = timeout(MAX_HEALTH_WAIT, gateway.store.has_keys()).await else {
            return (StatusCode::OK, "ok, the store is slow\n").into_response();
        };
        match asked.err().or_else(|| gateway.store.trouble()) {
            None => (StatusCode::OK, "ok\n").into_response(),
            Some(error) => {
                let kind = error.kind();
                let said = format!("ok, without the store ({kind}): sessions are compacted from memory\n");
                (StatusCode::OK, said).into_response()
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
        self.door.show(&self.store, &parts.headers, &self.settings.access, self.now()).await
    }

    /// Lets somebody in who wants something of the upstream of a dialect. Nothing of a body is looked at before.
    async fn let_in(&self, parts: &Parts, dialect: Dialect) -> Result<Guest, Closed> {
        names::check(parts, &self.settings)?;
        let (upstream, access, now) =
            (self.settings.upstreams.of(dialect), &self.settings.access, self.now());
        let guest = self.door.admit(&self.store, &parts.headers, upstream, access, now).await?;
        let limited =
            guest.granted.as_ref().and_then(|granted| Some((granted.id, granted.limits.tokens_per_day?)));
        let Some((key, most)) = limited else { return Ok(guest) };
        let day = Day::of(now);
        match self.store.used_by_key(key, day).await {
            Ok(used) => self.uses.set(key, day, used),
            Err(error) => tracing::warn!("the store does not say what a key used: {error}"),
        }
        if self.uses.used(key, day) >= most {
            return Err(Closed::daily_limit(most, day.left(now)));
        }
        Ok(guest)
    }
}
