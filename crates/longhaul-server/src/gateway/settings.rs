//! The settings of a gateway, which its operator chooses.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::prices::Dollars;

use crate::session;
use crate::store::GatewayKey;
use crate::upstream::Upstreams;

/// The settings of a gateway. They stay the same while it runs.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// The settings of each session.
    pub session: session::SessionSettings,
    /// Whether requests are rewritten. If it is off, every byte passes through unchanged.
    pub compression: Switch,
    /// Whether the gateway answers typed commands such as `/compress`.
    pub commands: Switch,
    /// When models are offered the tools that recall content that compactions removed.
    pub recall: RecallMode,
    /// The upstreams that requests are sent to.
    pub upstreams: Upstreams,
    /// The clients that may use the gateway.
    pub access: ClientAccess,
    /// Host names under which the gateway may be addressed, besides those of this machine.
    pub hosts: Vec<String>,
    /// The limits for requests, connections and sessions.
    pub limits: GatewayLimits,
    /// The settings for refreshing providers' caches while sessions are idle; none to refresh nothing.
    pub keep_alive: Option<CacheKeepAlive>,
}

/// A setting that is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// The feature is enabled.
    On,
    /// The feature is disabled.
    Off,
}

impl Switch {
    /// Returns whether the setting is on.
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}

/// When models are offered the recall tools. They are listed after the client's tools, and the
/// gateway answers their calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecallMode {
    /// The tools are never offered.
    Off,
    /// The tools are offered while the session is compacted. They arrive with the compaction, which changes
    /// the cached prefix anyway.
    #[default]
    Auto,
    /// The tools are offered from the first request of a session on.
    On,
}

/// The clients that may use the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAccess {
    /// All clients, as long as the store has no keys. Only for a gateway that no other machine can reach. All
    /// clients are one tenant.
    Open,
    /// Clients with a key of the store. Each key belongs to one tenant.
    Keys,
    /// Clients with this key, which is in no store: the gateway of one `longhaul run`. All clients are one
    /// tenant.
    RunKey(Arc<GatewayKey>),
}

/// The limits for requests, connections and sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayLimits {
    /// The largest body in bytes, both as received and decompressed.
    pub max_body_bytes: usize,
    /// The longest time until the headers of a request are complete.
    pub head_timeout: Duration,
    /// The longest time between two pieces of a request body.
    pub piece_timeout: Duration,
    /// The lowest average speed of a request body in bytes per second, after a first period of
    /// `piece_timeout`.
    pub min_body_bytes_per_second: usize,
    /// The limit for the bytes of all bodies in memory, as received and decompressed. A request beyond it is
    /// refused with 503.
    pub max_total_body_bytes: usize,
    /// The longest time that Longhaul's own work may take, not counting the wait for a summary. After it the
    /// original request is sent.
    pub deadline: Duration,
    /// The longest time until an upstream begins its reply.
    pub first_byte_timeout: Duration,
    /// The longest time that an upstream may be silent within a reply.
    pub idle_timeout: Duration,
    /// The largest number of open connections.
    pub max_connections: usize,
    /// The time that open replies have to end when the gateway shuts down.
    pub drain_timeout: Duration,
    /// The largest number of sessions in memory. Other sessions are read from the store when they continue.
    pub max_live_sessions: usize,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            max_body_bytes: 64 * 1024 * 1024,
            head_timeout: Duration::from_secs(30),
            piece_timeout: Duration::from_mins(1),
            min_body_bytes_per_second: 8 * 1024,
            max_total_body_bytes: 256 * 1024 * 1024,
            deadline: Duration::from_secs(5),
            first_byte_timeout: Duration::from_mins(15),
            idle_timeout: Duration::from_mins(5),
            max_connections: 4096,
            drain_timeout: Duration::from_secs(30),
            max_live_sessions: 256,
        }
    }
}

/// The settings for refreshing providers' caches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CacheKeepAlive {
    /// The most money that may be spent on refreshes in a day.
    pub max_per_day: Dollars,
}
