//! The gateway: the HTTP server that an agent uses in place of its provider.
//!
//! ```text
//! client ──▶ auth ──▶ body ──▶ in_flight ──▶ native ──▶ commands? ──▶ session ──▶ breakpoints ──▶ upstream
//!   ▲       host,     within   tokens        features   answered      found by    lifetime by the     │
//!   │       keys      limits   reserved      served     here          its history session's pauses    │
//!   └──── relay: piece by piece ◀────────── refused? retry (see `retries`) ◀──────────────────────────┘
//!                └── a copy: usage ──▶ in_flight settles: the session, the store, the metrics
//! ```
//!
//! - `serve` runs the gateway on a socket. `host_check` and `auth` decide which clients may use it.
//! - `model_request` runs one request to a model, from its bytes to its reply. `retries` chooses how to retry
//!   after a refusal. `in_flight` reserves tokens of the key's daily limit, and settles the accounts when the
//!   request ends.
//! - `passthrough` handles every other request, `paths` normalizes paths before routing, and `forward` sends
//!   requests to an upstream.
//! - `prepare` finds the session (`live_sessions` keeps sessions in memory), replays its decisions and compacts.
//! - `breakpoints` sets cache breakpoints. `session_memory` predicts what the provider has cached and explains
//!   cache misses.
//! - `relay` passes a reply on and reads a copy of it. `own_replies` builds the responses that the gateway writes
//!   itself. `commands` answers commands that a person typed.
//! - `native` serves features of one provider for upstreams that lack them.
//! - `recall_loop` offers the recall tools to models and answers their calls. Clients see none of it.
//! - `dashboard` serves the web pages at `GET /`.
//! - `summary_client` asks models for summaries in the background.
//! - `metrics` counts. `cache_keep_alive` refreshes caches that are about to expire, if it is enabled and pays.
//!
//! Invariants: if Longhaul fails, the client's own request is still forwarded. No request can choose its
//! upstream. A reply is passed on byte for byte, except for recall calls, the notes of `native`, and an error
//! event at the end of a stream that broke off. Heavy work never runs on the threads that wait for sockets.

mod auth;
mod baseline;
pub(crate) mod body;
mod breakpoints;
mod cache_keep_alive;
mod commands;
mod dashboard;
mod forward;
mod host_check;
mod in_flight;
mod key_usage;
mod live_sessions;
mod metrics;
mod model_request;
mod native;
mod own_replies;
mod passthrough;
mod paths;
mod prepare;
mod recall_loop;
mod relay;
mod retries;
mod serve;
mod session_memory;
mod settings;
mod summary_client;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::map_request;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use longhaul_engine::ApiFormat;
use longhaul_engine::keyed_hash::HashChainCache;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

pub(crate) use auth::find_gateway_key;
pub use metrics::GatewayTotals;
pub use settings::{CacheKeepAlive, ClientAccess, GatewayLimits, GatewaySettings, RecallMode, Switch};

pub use crate::upstream::Upstreams;

use auth::{Auth, Denied, Principal};
use body::BodyMemory;
use dashboard::Dashboard;
use key_usage::KeyUsage;
use live_sessions::LiveSessions;
use metrics::Metrics;

use crate::DailyBudget;
use crate::pool::Pool;
use crate::session::Host;
use crate::store::{Store, UtcDay};
use crate::upstream::{Client, ModelClient};
use longhaul_engine::Timestamp;

/// The clock and the host program that a gateway runs with. Tests replace them.
pub struct GatewayEnvironment {
    /// Returns the current time.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Receives events about compactions and supplies random tags.
    pub host: Arc<dyn Host>,
}

/// A gateway with its settings, its store and its sessions in memory.
pub struct Gateway {
    settings: GatewaySettings,
    store: Store,
    client: Client,
    models: Arc<dyn ModelClient>,
    host: Arc<dyn Host>,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    auth: Auth,
    dashboard: Dashboard,
    live_sessions: LiveSessions,
    /// The hash chains of earlier messages, split into parts with a lock each so that requests rarely wait.
    hash_chains: [Mutex<HashChainCache>; 16],
    metrics: Metrics,
    /// The settlements of ended requests that still have to be written.
    background_work: TaskTracker,
    key_usage: KeyUsage,
    /// The money for refreshing caches; none if nothing is refreshed.
    keep_alive_budget: Option<DailyBudget>,
    /// The threads for work that needs the processor.
    pool: Pool,
    /// The memory that all request bodies share.
    body_memory: BodyMemory,
    /// The places for summaries that are being written.
    summary_slots: Semaphore,
    request_count: AtomicU64,
    is_ready: AtomicBool,
}

/// The longest time that a health check waits for the store. Chosen by hand: health checks are frequent
/// and are about the gateway, not its store.
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_millis(50);

impl Gateway {
    /// Creates a gateway. The client forwards requests to upstreams and asks models for summaries.
    #[must_use]
    pub fn new(settings: GatewaySettings, store: Store, client: Client, environment: GatewayEnvironment) -> Arc<Self> {
        let models: Arc<dyn ModelClient> = Arc::new(client.clone());
        Arc::new(Self {
            live_sessions: LiveSessions::new(settings.limits.max_live_sessions),
            body_memory: BodyMemory::new(settings.limits.max_total_body_bytes.max(2 * settings.limits.max_body_bytes)),
            keep_alive_budget: settings.keep_alive.map(|keep_alive| DailyBudget::new(keep_alive.max_per_day)),
            settings,
            store: store.with_circuit_breaker(),
            client,
            models,
            host: environment.host,
            clock: environment.clock,
            auth: Auth::default(),
            dashboard: Dashboard::default(),
            hash_chains: std::array::from_fn(|_| Mutex::default()),
            metrics: Metrics::new(),
            background_work: TaskTracker::new(),
            key_usage: KeyUsage::default(),
            pool: Pool::for_this_machine(),
            summary_slots: Semaphore::new(summary_client::MAX_RUNNING_SUMMARIES),
            request_count: AtomicU64::new(0),
            is_ready: AtomicBool::new(true),
        })
    }

    /// Returns the totals since the gateway started.
    #[must_use]
    pub fn totals(&self) -> GatewayTotals {
        self.metrics.totals()
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Returns a new ID for a request, which appears in the log and in replies that the gateway writes
    /// itself.
    fn next_request_id(&self) -> String {
        format!("lh{:08x}", self.request_count.fetch_add(1, Ordering::Relaxed))
    }

    fn begin_shutdown(&self) {
        self.is_ready.store(false, Ordering::Relaxed);
        self.dashboard.change_feed.close();
    }

    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    fn routes(self: Arc<Self>) -> Router {
        let handler = |api_format: ApiFormat| {
            move |State(gateway): State<Arc<Self>>, request: Request| gateway.handle_model_request(api_format, request)
        };
        let routes = Router::new()
            .route(paths::MESSAGES, post(handler(ApiFormat::Messages)))
            .route(paths::CHAT, post(handler(ApiFormat::Chat)))
            .route(paths::RESPONSES, post(handler(ApiFormat::Responses)))
            .route(paths::COUNT_TOKENS, post(Self::count_tokens))
            .route(paths::COMPACT, post(Self::handle_responses_compact))
            .route("/healthz", get(Self::health))
            .route("/metrics", get(Self::metrics))
            .merge(dashboard::routes(&self))
            .fallback(Self::handle_passthrough)
            .method_not_allowed_fallback(Self::handle_passthrough)
            .with_state(self);
        // A layer runs before the inner routes are matched, so routes see a normalized path without a key.
        let normalize =
            map_request(|request: Request| async { paths::normalize_path(auth::move_key_from_path(request)) });
        Router::new().fallback_service(routes).layer(normalize)
    }

    async fn health(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        if let Err(denied) = gateway.check_page_access(&request.into_parts().0).await {
            return (denied.status, denied.message).into_response();
        }
        if !gateway.is_ready() {
            return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
        }
        let Ok(answer) = timeout(HEALTH_CHECK_TIMEOUT, gateway.store.has_keys()).await else {
            return (StatusCode::OK, "ok, but the store did not answer within 50 ms\n").into_response();
        };
        match answer.err().or_else(|| gateway.store.health_error()) {
            None => (StatusCode::OK, "ok\n").into_response(),
            Some(error) => {
                let kind = error.kind();
                let message = format!("ok, but the store is unavailable ({kind}): sessions are in memory only\n");
                (StatusCode::OK, message).into_response()
            }
        }
    }

    async fn metrics(State(gateway): State<Arc<Self>>, request: Request) -> Response {
        if let Err(denied) = gateway.check_page_access(&request.into_parts().0).await {
            return (denied.status, denied.message).into_response();
        }
        let page = gateway.metrics.render(gateway.live_sessions.count());
        ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
    }

    /// Checks whether a client may see a page about the gateway itself, such as `/metrics`.
    async fn check_page_access(&self, parts: &Parts) -> Result<(), Denied> {
        host_check::check_request(parts, &self.settings)?;
        self.auth.check_page_access(&self.store, &parts.headers, &self.settings.access, self.now()).await
    }

    /// Authenticates a request for the upstream of an API format and checks the key's daily limit. It runs
    /// before any of the body is read.
    async fn authenticate(&self, parts: &Parts, api_format: ApiFormat) -> Result<Principal, Denied> {
        host_check::check_request(parts, &self.settings)?;
        let (upstream, access, now) =
            (self.settings.upstreams.for_api_format(api_format), &self.settings.access, self.now());
        let principal = self.auth.authenticate(&self.store, &parts.headers, upstream, access, now).await?;
        let Some((key, daily_limit)) = principal.daily_limit() else { return Ok(principal) };
        let day = UtcDay::containing(now);
        match self.store.key_usage(key, day).await {
            Ok(used) => self.key_usage.set(key, day, used),
            Err(error) => tracing::warn!("cannot read a key's usage from the store: {error}"),
        }
        if self.key_usage.used(key, day) >= daily_limit {
            return Err(Denied::daily_limit(daily_limit, day.time_left(now)));
        }
        Ok(principal)
    }
}
