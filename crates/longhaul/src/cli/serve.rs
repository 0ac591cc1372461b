//! The arguments of `longhaul serve` and `longhaul run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::{PluginsFlag, StoreFlags};
use crate::config::{Flag, ListenAddress};

pub(super) const SERVE_HELP: &str = "\
Example:
  longhaul serve
  longhaul serve --upstream http://127.0.0.1:11434/v1
  longhaul serve --listen 0.0.0.0:8484 --store postgres://me@db/longhaul

Point an agent at the printed address, and it keeps working past its context window. Without --upstream, requests are sent to \
the configured upstreams, else to the provider of their API format, with the client's own key. A request cannot choose another \
address.

An address that other machines can reach requires keys: longhaul keys add. On 127.0.0.1, everybody on this machine has access \
until the store has a key. After Ctrl-C the gateway waits for open replies; a second Ctrl-C stops it at once. The log is on \
standard error; gateway.log_level and LONGHAUL_LOG set its level.";

pub(super) const RUN_HELP: &str = "\
Example:
  longhaul run -- claude
  longhaul run -- codex exec 'make the tests pass'
  longhaul run --upstream http://127.0.0.1:11434/v1 -- aider --model openai/qwen3

Starts a gateway on a free port of this machine, tells the agent how to find it, and switches off the agent's own compaction \
if a variable or an option can do that. This applies to one run and changes no file of the agent. Known agents: claude, codex, \
opencode, pi, aider, hermes and mini. Any other program gets ANTHROPIC_BASE_URL, OPENAI_BASE_URL and OPENAI_API_BASE. If you \
have set one of these already, the gateway sends requests to that address.

The gateway has a random key that only the agent gets, so nobody else on this machine can use it. The address of its \
dashboard, with the key, is printed at the start.

Signals and the exit code are the agent's; if a signal ends it, the exit code is 128 plus the signal number. The savings are \
printed at the end.";

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 for any free port [default: 127.0.0.1:8484]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<ListenAddress>,
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlag,
    #[command(flatten)]
    pub(crate) plugins: PluginsFlag,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
    /// Print the address and the other facts about the gateway as one line of JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
}

impl ServeArgs {
    /// Returns the options that were given as the configuration keys that they set.
    pub(crate) fn config_flags(&self) -> Vec<Flag> {
        let path = ["gateway", "listen"].map(str::to_owned).to_vec();
        let listen = self.listen.map(|listen| Flag { name: "--listen", path, value: listen.to_string().into() });
        self.upstream.config_flags().into_iter().chain(listen).chain(self.plugins.config_flag()).collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) upstream: UpstreamFlag,
    #[command(flatten)]
    pub(crate) plugins: PluginsFlag,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
    /// Append the gateway's log to a file; without it there is no log, because the agent uses the terminal
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Print only failures on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
    /// The agent and its arguments
    #[arg(value_name = "AGENT", required = true, last = true)]
    pub(crate) agent: Vec<OsString>,
}

/// The option that sends all requests to one upstream.
#[derive(Debug, Args)]
pub(crate) struct UpstreamFlag {
    /// The base URL for requests in every API format [default: `upstreams`, else the provider of the API
    /// format]
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
}

impl UpstreamFlag {
    /// Returns the option as the three configuration keys that it sets, one for each API format.
    pub(crate) fn config_flags(&self) -> Vec<Flag> {
        let Some(url) = &self.upstream else { return Vec::new() };
        ["chat", "messages", "responses"].map(|api_format| upstream_config_flag("--upstream", api_format, url)).into()
    }
}

/// Returns the configuration key for the base URL of one API format. `name` is the option or variable that
/// set it.
pub(crate) fn upstream_config_flag(name: &'static str, api_format: &str, url: &str) -> Flag {
    let path = ["upstreams", api_format, "base_url"].map(str::to_owned).to_vec();
    Flag { name, path, value: Value::from(url) }
}
