//! The configuration of the gateway: its address, its limits, its commands and tools, its log and traces.

use std::fmt::{self, Display};
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use longhaul_engine::policy::InvalidValue;
use serde::{Deserialize, Serialize};

/// The `gateway` section of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GatewayConfig {
    /// The address to listen on; port 0 for any free port.
    pub(crate) listen: ListenAddress,
    /// Whether clients need a key of the store. They always do at an address that other machines can reach.
    pub(crate) require_keys: bool,
    /// Host names that requests may use, besides `localhost` and every IP address. Without any, a gateway that
    /// requires keys accepts every name.
    pub(crate) hosts: Vec<String>,
    /// Whether the gateway itself answers messages such as `/compress`.
    pub(crate) commands: bool,
    /// When models are offered the recall tools, which find the text that compactions removed.
    pub(crate) recall: RecallSetting,
    /// The maximum size of one request, in bytes.
    pub(crate) max_body_bytes: u64,
    /// The maximum size of all requests in memory, in bytes, as received and decompressed. Two requests of the maximum
    /// size are always accepted.
    pub(crate) max_bodies_bytes: u64,
    /// The maximum number of connections at the same time.
    pub(crate) max_connections: u32,
    pub(crate) keep_alive: KeepAliveConfig,
    /// How long open replies may continue after a shutdown was requested, in seconds.
    pub(crate) drain_seconds: u64,
    /// The format of the log.
    pub(crate) log: LogFormat,
    /// The least important level of events that are logged.
    pub(crate) log_level: LogLevel,
    /// The URL of a collector that receives traces by OTLP over HTTP.
    pub(crate) otlp_endpoint: Option<String>,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self {
            listen: ListenAddress::default(),
            require_keys: false,
            hosts: Vec::new(),
            commands: true,
            recall: RecallSetting::default(),
            max_body_bytes: 64 * 1024 * 1024,
            max_bodies_bytes: 256 * 1024 * 1024,
            max_connections: 4096,
            keep_alive: KeepAliveConfig::default(),
            drain_seconds: 30,
            log: LogFormat::default(),
            log_level: LogLevel::default(),
            otlp_endpoint: None,
        }
    }
}

/// An IP address of this machine with a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct ListenAddress(pub(crate) SocketAddr);

impl Default for ListenAddress {
    fn default() -> Self {
        Self(SocketAddr::from((Ipv4Addr::LOCALHOST, 8484)))
    }
}

impl ListenAddress {
    /// Whether only programs on this machine can reach the address.
    pub(crate) fn is_local(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, Self::Err> {
        let typed = typed.trim();
        let named = typed.strip_prefix("localhost:").map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST));
        let address = named.as_deref().unwrap_or(typed).parse();
        address.map(Self).map_err(|_| "expected an address and a port, such as 127.0.0.1:8484".to_owned())
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = String;

    fn try_from(typed: String) -> Result<Self, Self::Error> {
        typed.parse()
    }
}

impl From<ListenAddress> for String {
    fn from(listen: ListenAddress) -> Self {
        listen.to_string()
    }
}

impl Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0, f)
    }
}

/// Whether to keep a provider's cache from expiring during a pause, and the budget for that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct KeepAliveConfig {
    /// Whether to repeat a request shortly before its cache entry expires, if that is expected to pay.
    pub(crate) enabled: bool,
    /// The maximum cost of these requests per day, in US dollars.
    pub(crate) usd_per_day: f64,
}

impl Default for KeepAliveConfig {
    fn default() -> Self {
        Self { enabled: false, usd_per_day: 1.0 }
    }
}

/// When models are offered the recall tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RecallSetting {
    Off,
    #[default]
    Auto,
    On,
}

/// The format of a line in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The least important level of events that are logged.
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

impl GatewayConfig {
    /// Refuses the first value that is out of range.
    pub(super) fn check(&self) -> Result<(), InvalidValue> {
        let refused =
            |key: &str, problem: &str| Err(InvalidValue { key: format!("gateway.{key}"), problem: problem.to_owned() });
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
    fn an_address_is_parsed_and_printed_alike_and_local_ones_are_recognized() {
        for (typed, shown, is_local) in [
            ("127.0.0.1:8484", "127.0.0.1:8484", true),
            ("localhost:0", "127.0.0.1:0", true),
            ("[::1]:80", "[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80", true),
            ("0.0.0.0:8484", "0.0.0.0:8484", false),
            ("[::]:8484", "[::]:8484", false),
            ("192.168.1.2:1", "192.168.1.2:1", false),
        ] {
            let listen: ListenAddress = typed.parse().unwrap();
            assert_eq!((listen.to_string().as_str(), listen.is_local()), (shown, is_local));
        }
        for wrong in ["", "8484", "127.0.0.1", "example.com:80", "127.0.0.1:99999", "http://127.0.0.1:80"] {
            assert!(wrong.parse::<ListenAddress>().is_err(), "{wrong}");
        }
    }
}
