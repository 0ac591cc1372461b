//! What can be typed about the gateway: one that stays, and one for a single run of an agent.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::{PluginsFlag, StorePlace};
use crate::config::{Flag, Listen};

pub(super) const SERVE_HELP: &str = "\
Example:
  longhaul serve
  longhaul serve --upstream http://127.0.0.1:11434/v1
  longhaul serve --listen 0.0.0.0:8484 --store postgres://me@db/longhaul

Point an agent at the address that is printed, and it goes on past its window. Without --upstream, requests go where upstreams: of the \
configuration says, else to the vendor of their dialect, with the client's own key. Nothing in a request can name another place.

An address that others can reach wants keys: longhaul keys add. On 127.0.0.1 everybody on this machine is let in until the store has a \
key. Ctrl-C lets replies that are under way come to their end; a second one \
does not. The log is on standard error; gateway.log_level and LONGHAUL_LOG say how much of it.";

pub(super) const RUN_HELP: &str = "\
Example:
  longhaul run -- claude
  longhaul run -- codex exec 'make the tests pass'
  longhaul run --upstream http://127.0.0.1:11434/v1 -- aider --model openai/qwen3

A gateway of its own on a free port of this machine, what the agent needs to find it, and the agent's own compaction switched off where \
a variable or an option can do that: for this run, and in no file of the agent's. Known are claude, codex, opencode, pi, aider, \
hermes and mini; any other program gets ANTHROPIC_BASE_URL, OPENAI_BASE_URL and OPENAI_API_BASE. One of those that you have set already is where \
the gateway sends requests to.

The gateway has a random key that only the agent gets, so nobody else on this machine can use it. Its dashboard is at the address with \
the key that is printed at the start.

Signals and the exit code are the agent's; a signal that ends it is 128 and its number. What was saved is said at the end.";

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 is any that is free [default: 127.0.0.1:8484]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<Listen>,
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlag,
    #[command(flatten)]
    pub(crate) plugins: PluginsFlag,
    #[command(flatten)]
    pub(crate) place: StorePlace,
    /// Print where it listens, and the rest, as one line of JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
}

impl ServeArgs {
    /// The options that were typed, as the keys they set.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let path = ["gateway", "listen"].map(str::to_owned).to_vec();
        let listen =
            self.listen.map(|listen| Flag { name: "--listen", path, value: listen.to_string().into() });
        self.upstream.flags().into_iter().chain(listen).chain(self.plugins.flag()).collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlag,
    #[command(flatten)]
    pub(crate) plugins: PluginsFlag,
    #[command(flatten)]
    pub(crate) place: StorePlace,
    /// Append the gateway's log to a file; without it there is none, as the terminal is the agent's
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Say nothing on standard error but failures
    #[arg(long)]
    pub(crate) quiet: bool,
    /// The agent, and what it is called with
    #[arg(value_name = "AGENT", required = true, last = true)]
    pub(crate) agent: Vec<OsString>,
}

/// Where all requests go.
#[derive(Debug, Args)]
pub(crate) struct UpstreamFlag {
    /// The base URL that requests of every dialect go to [default: `upstreams`, else the vendor's own]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
}

impl UpstreamFlag {
    /// What was typed, as the keys it sets.
    pub(crate) fn flags(&self) -> Vec<Flag> {
        let Some(url) = &self.upstream else { return Vec::new() };
        ["chat", "messages", "responses"].map(|dialect| upstream_flag("--upstream", dialect, url)).into()
    }
}

/// An address that a dialect's requests go to, and who said so.
pub(crate) fn upstream_flag(name: &'static str, dialect: &str, url: &str) -> Flag {
    let path = ["upstreams", dialect, "base_url"].map(str::to_owned).to_vec();
    Flag { name, path, value: Value::from(url) }
}
