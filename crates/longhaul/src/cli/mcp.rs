//! The arguments of `longhaul mcp`.

use clap::Args;

use super::StoreFlags;
use crate::config::ListenAddress;

pub(super) const HELP: &str = "\
Example:
  claude mcp add longhaul -- longhaul mcp
  longhaul mcp --session 7k2m9x4qhd
  longhaul mcp --listen 127.0.0.1:8485

An agent starts this server and uses it over standard input and output; the log is on standard error. With --listen it keeps \
running and answers at http://ADDRESS/mcp. It offers recall_search, recall_open, recall_outline, status, compress and undo \
over the store. A call that names no session is about --session, else about the session written last.

An address that other machines can reach requires keys: longhaul keys add. A key gives access only to the sessions of its \
tenant. docs/mcp.md has the configuration for each agent.";

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The session for calls that name none: its ID, or the start of it [default: the one written last]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Answer over HTTP at this address instead of standard input and output; port 0 for any free port
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<ListenAddress>,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
}
