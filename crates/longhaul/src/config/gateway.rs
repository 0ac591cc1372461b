//! What can be configured about the gateway itself: where it listens, what it answers, what it writes down.

use std::fmt::{self, Display};
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use longhaul_engine::policy::Invalid;
use serde::{Deserialize, Serialize};

/// The gateway. What is left out here is decided by the request, or by the rest of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Gateway {
    pub(crate) listen: Listen,
    /// Whether only those are served who bring a key of the store's. Beyond this machine that is always so.
    pub(crate) require_keys: bool,
    /// Host names that requests may name, beyond those of this machine and the address that is listened on.
    pub(crate) hosts: Vec<String>,
    /// Whether a message such as `/compress` is answered by the gateway itself.
    pub(crate) commands: bool,
    /// When models are offered tools that reach back to what compactions removed.
    pub(crate) recall: Recall,
    /// The largest request that is taken.
    pub(crate) max_body_bytes: u64,
    /// The bytes of all requests that are in memory at a time, as they came and unpacked; two of the largest always find room.
    pub(crate) max_bodies_bytes: u64,
    /// Connections at a time.
    pub(crate) max_connections: u32,
    pub(crate) keep_alive: KeepAlive,
    /// How long replies that are under way may go on after a shutdown was asked for.
    pub(crate) drain_seconds: u64,
    pub(crate) log: LogForm,
    pub(crate) log_level: LogLevel,
    /// Where traces go, by OTLP over HTTP.
    pub(crate) otlp_endpoint: Option<String>,
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            listen: Listen::default(),
            require_keys: false,
            hosts: Vec::new(),
            commands: true,
            recall: Recall::default(),
            max_body_bytes: 64 * 1024 * 1024,
            max_bodies_bytes: 256 * 1024 * 1024,
            max_connections: 4096,
            keep_alive: KeepAlive::default(),
            drain_seconds: 30,
            log: LogForm::default(),
            log_level: LogLevel::default(),
            otlp_endpoint: None,
        }
    }
}

/// An address of this machine and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Listen(pub(crate) SocketAddr);

impl Default for Listen {
    fn default() -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, 8484)))
    }
}

impl Listen {
    /// Whether nobody beyond this machine can reach it.
    pub(crate) fn is_local(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, Self::Err> {
        let typed = typed.trim();
        let named = typed.strip_prefix("localhost:").map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
        let address = named.as_deref().unwrap_or(typed).parse();
        address.map(Self).map_err(|_| "expected an address and a port, such as 127.0.0.1:8484".to_owned())
    }
}

impl TryFrom<String> for Listen {
    type Error = String;

    fn try_from(typed: String) -> Result<Self, Self::Error> {
        typed.parse()
    }
}

impl From<Listen> for String {
    fn from(listen: Listen) -> Self {
        listen.to_string()
    }
}

impl Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

/// Whether a provider's cache is kept warm through a pause, and for how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct KeepAlive {
    pub(crate) enabled: bool,
    pub(crate) usd_per_day: f64,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { enabled: false, usd_per_day: 1.0 }
    }
}

/// When models are offered the recall tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Recall {
    Off,
    #[default]
    Auto,
    On,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogForm {
    #[default]
    Text,
    Json,
}

/// What is worth a line of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl Gateway {
    /// Refuses the first value that is out of range.
    pub(super) fn check(&self) -> Result<(), Invalid> {
        let refused = |key: &str, problem: &str| {
            Err(Invalid { key: format!("gateway.{key}"), problem: problem.to_owned() })
        };
        if self.max_body_bytes == 0 {
            return refused("max_body_bytes", "must be at least 1");
        }
        if self.max_connections == 0 {
            return refused("max_connections", "must be at least 1");
        }
        if !(self.keep_alive.usd_per_day.is_finite() && self.keep_alive.usd_per_day >= 0.0) {
            return refused("keep_alive.usd_per_day", "must be 0 or more");
        }
        let is_host = |host: &String| !host.is_empty() && !host.contains(['/', '@', ' ']);
        if !self.hosts.iter().all(is_host) {
            return refused("hosts", "expected names such as gateway.example.com, without http:// and paths");
        }
        let is_address = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if !self.otlp_endpoint.iter().all(is_address) {
            return refused("otlp_endpoint", "it must begin with https:// or http://");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written_alike_and_what_is_local_is_known() {
        for (typed, shown, is_local) in [
            ("127.0.0.1:8484", "127.0.0.1:8484", true),
            ("localhost:0", "127.0.0.1:0", true),
            ("[::1]:80", "[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", true),
            ("0.0.0.0:8484", "0.0.0.0:8484", false),
            ("[::]:8484", "[::]:8484", false),
            ("192.168.1.2:1", "192.168.1.2:1", false),
        ] {
            let listen: Listen = typed.parse().unwrap();
            assert_eq!((listen.to_string().as_str(), listen.is_local()), (shown, is_local));
        }
        for wrong in ["", "8484", "127.0.0.1", "example.com:80", "127.0.0.1:99999", "http://127.0.0.1:80"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}
