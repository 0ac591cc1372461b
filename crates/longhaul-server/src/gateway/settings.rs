//! What whoever runs a gateway settles.

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::Dialect;
use longhaul_engine::prices::Dollars;

use crate::session;
use crate::store::Secret;
use crate::upstream::Upstream;

/// What holds for a gateway as long as it runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What holds for each of its sessions.
    pub session: session::Settings,
    /// Whether anything is rewritten at all. Off means that every byte passes as it came.
    pub compression: Switch,
    /// Whether `/compress` and the like are answered by the gateway itself.
    pub commands: Switch,
    /// Whether models are offered tools that reach back to what compactions removed.
    pub recall: Recall,
    /// Where requests go.
    pub upstreams: Upstreams,
    /// Who is let in.
    pub access: Access,
    /// Names besides those of this machine under which the gateway may be asked.
    pub hosts: Vec<String>,
    /// What a request may take.
    pub limits: Limits,
    /// Whether what the provider has cached is kept warm while nobody asks.
    pub keep_alive: Option<KeepAlive>,
}

/// Something that is on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// It is on.
    On,
    /// It is off.
    Off,
}

impl Switch {
    /// Whether it is on.
    #[must_use]
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}

/// When models are offered the recall tools. They stand behind the client's own, and are answered by the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recall {
    /// Never.
    Off,
    /// As long as something of the session is compacted. They come with the compaction, which changes what is cached anyway.
    #[default]
    Auto,
    /// From the first request of a session on.
    On,
}

/// The clients that are let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// All, as long as the store has no keys: only for a gateway that nobody beyond this machine can reach. All are one tenant.
    Open,
    /// Clients with a key of the store. Each key leads to one tenant.
    Keys,
    /// Clients with this key, which is in no store: the gateway of one run. All are one tenant.
    Run(Arc<Secret>),
}

/// Where requests go, by dialect. Nothing in a request chooses.
#[derive(Debug, Clone)]
pub struct Upstreams {
    /// Chat Completions.
    pub chat: Arc<Upstream>,
    /// Messages.
    pub messages: Arc<Upstream>,
    /// Responses.
    pub responses: Arc<Upstream>,
}

impl Upstreams {
    /// Who takes bodies of this dialect.
    #[must_use]
    pub fn of(&self, dialect: Dialect) -> &Arc<Upstream> {
        match dialect {
            Dialect::Chat => &self.chat,
            Dialect::Messages => &self.messages,
            Dialect::Responses => &self.responses,
        }
    }
}

/// What a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of a body, as it comes and unpacked.
    pub body: usize,
    /// The time until a request's head is there,
    pub head: Duration,
    /// and between two pieces of its body.
    pub pieces: Duration,
    /// The bytes a second in which a body has to come, after a first time of `pieces`.
    pub body_rate: usize,
    /// The bytes of all bodies that are in memory at a time, as they came and unpacked. A request beyond them is refused with 503.
    pub bodies: usize,
    /// The time that our own work may take beyond what a session may wait for a summary; then the original goes through.
    pub deadline: Duration,
    /// The time until an upstream answers,
    pub first_byte: Duration,
    /// and that it may be silent in the midst of an answer.
    pub idle: Duration,
    /// Connections at a time.
    pub connections: usize,
    /// The time that open answers have to end in when the gateway is told to stop.
    pub drain: Duration,
    /// Sessions that are held in memory; all others are read from the store when they go on.
    pub live: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 64 * 1024 * 1024,
            head: Duration::from_secs(30),
            pieces: Duration::from_mins(1),
            body_rate: 8 * 1024,
            bodies: 256 * 1024 * 1024,
            deadline: Duration::from_secs(5),
            first_byte: Duration::from_mins(15),
            idle: Duration::from_mins(5),
            connections: 4096,
            drain: Duration::from_secs(30),
            live: 256,
        }
    }
}

/// How caches are kept warm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeepAlive {
    /// No more is spent on it in a day.
    pub a_day: Dollars,
}
