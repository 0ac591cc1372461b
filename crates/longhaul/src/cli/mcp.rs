//! What can be typed about the server for other agents.

use clap::Args;

use super::StorePlace;
use crate::config::Listen;

pub(super) const HELP: &str = "\
Example:
  claude mcp add longhaul -- longhaul mcp
  longhaul mcp --session 7k2m9x4qhd
  longhaul mcp --listen 127.0.0.1:8485

An agent starts it and talks to it on standard input and output; the log is on standard error. With --listen it stays, and answers at \
http://ADDRESS/mcp. It offers recall_search, recall_open, recall_outline, status, compress and undo over the store. Without a session \
in a call, they are about --session, else about the one written last.

An address that others can reach wants keys: longhaul keys add. A key leads to its tenant's sessions alone. docs/mcp.md has the lines for \
each agent.";

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// The session that calls are about which name none; its id or the beginning of it [default: the one written last]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Answer over HTTP at this address instead of standard input and output; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<Listen>,
    #[command(flatten)]
    pub(crate) place: StorePlace,
}
