//! The arguments of the commands that use the store, and the options that select the store.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, Args};
use longhaul_agents::Agent;
use longhaul_server::session::UNDO_PROMISE;

use super::{InputFlags, OutputFlags};
use crate::typed_numbers;

pub(super) const EXPORT_HELP: &str = "\
Example:
  longhaul export claude:latest -o next.json
  longhaul export rollout.jsonl --whole
  longhaul export store:latest
  longhaul export 7k2m9x4qhd --epoch 2
  longhaul export 7k2m9x4qhd --training > examples.jsonl

The parts that an agent's session file does not contain, mostly the system prompt and the tools, are listed on standard error. \
A file has priority over an agent's session, and that over an ID in the store. A session of the store is written as it would \
be sent now, with its secrets redacted.";

pub(super) const RECALL_HELP: &str = "\
Example:
  longhaul recall 7k2m9x4qhd
  longhaul recall --search 'connection refused' --session latest
  longhaul recall --originals removed.jsonl 7k2m9x4qhd

The recall ID is in shortened outputs, checkpoints, reports and search results. Without --session, a recall ID is looked up in \
all sessions, and a query searches the session written last, for each tenant if the store has several. The exit code is 1 if \
nothing is found.";

pub(super) const SHOW_HELP: &str = "\
Example:
  longhaul show latest
  longhaul show 7k2m9x4qhd --epoch 2 --checkpoint

--epoch N selects compaction number N: a view of the session's messages, which themselves never change.";

/// Returns the help of `undo` and `redo`, with the promise that every undo makes.
pub(super) fn undo_help() -> String {
    format!(
        "Example:\n  longhaul undo latest\n  longhaul redo latest\n\n\
         Nothing is deleted. After an undo, {UNDO_PROMISE} (compression.hygiene_threshold, 85% of the window by default). Ask for a \
         compaction with compress --force, compress --live, or /compress in the agent. The exit code is 1 if there is nothing to undo or \
         redo."
    )
}

pub(super) const IMPORT_HELP: &str = "\
Example:
  longhaul import session.json bodies.jsonl
  longhaul import claude:latest --whole

A request that continues a stored history is added to that session; an edited history becomes a fork. Secrets are redacted in \
everything that is stored. Files that cannot be used are reported, the others are imported anyway, and the exit code is 2.";

pub(super) const DELETE_HELP: &str = "\
Example:
  longhaul delete 7k2m9x4qhd
  longhaul delete 7k2m9x4qhd q81vd03m2c --yes

Messages that another session shares stay until that session is deleted too. A deletion cannot be undone, so you are asked \
first, unless you give --yes. The disk space is freed at once.";

pub(super) const VACUUM_HELP: &str = "\
Example:
  longhaul vacuum
  longhaul vacuum --older-than 30d --max-size 2GB
  longhaul vacuum --check

Without options it applies store.keep_days and store.max_bytes of the configuration, and deletes nothing if they are not set. \
--check deletes nothing and reports damage; the exit code is 1 if there is any.";

/// The options that select the store.
#[derive(Debug, Args)]
pub(crate) struct StoreFlags {
    /// The store: a file or postgres://… [default: store.path or store.url of the configuration, else a file
    /// in your data folder]
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// The configuration file; longhaul init --help lists the files that are read without it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Changes `--store` into the option of `compress`, where it means that the body is recorded and its value is
/// optional.
pub(super) fn as_recording_flag(store: Arg) -> Arg {
    store
        .help("Record the request and its compaction in the store; put it after BODY: alone for the default store, or with a file or postgres://…")
        .num_args(0..=1)
        .default_missing_value("")
        .conflicts_with_all(["originals", "originals_raw"])
}

/// The origin of the sessions that `longhaul sessions` lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionSource {
    /// The session files of an agent.
    Agent(Agent),
    /// The store.
    Store,
}

impl SessionSource {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Agent::ALL.into_iter().map(Self::Agent).chain([Self::Store])
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Agent(agent) => agent.name(),
            Self::Store => "store",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The session: a file, a name such as claude:latest or codex:ID, or store:ID, store:latest or an ID of
    /// the store
    #[arg(value_name = "SESSION")]
    pub(crate) session: PathBuf,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    /// For a session of the store: the request right after this compaction
    #[arg(long, value_name = "N", group = "moment")]
    pub(crate) epoch: Option<usize>,
    /// For a session of the store: this request, as it would have been sent then
    #[arg(long, value_name = "N", group = "moment")]
    pub(crate) request: Option<usize>,
    /// For a session of the store: the whole history, as the client sent it
    #[arg(long, group = "moment")]
    pub(crate) original: bool,
    /// For a session of the store: JSON lines for training, one for each part between two compactions
    #[arg(long, group = "moment")]
    pub(crate) training: bool,
    /// Write the training data as one line, without the texts that Longhaul wrote
    #[arg(long, requires = "training")]
    pub(crate) natural: bool,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RecallArgs {
    /// The recall ID, from a shortened output, a checkpoint or a report
    #[arg(value_name = "RECALL_ID", required_unless_present = "search")]
    pub(crate) handle: Option<String>,
    /// Look in the file that compress --originals wrote, instead of the store
    #[arg(long, value_name = "FILE", conflicts_with_all = ["session", "search", "store", "family", "limit"])]
    pub(crate) originals: Option<PathBuf>,
    /// The session, or the start of its ID; latest is the one written last
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Search for these words instead
    #[arg(long, value_name = "QUERY", conflicts_with = "handle", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) search: Option<String>,
    /// Search all sessions with the same oldest ancestor
    #[arg(long, conflicts_with = "handle")]
    pub(crate) family: bool,
    /// The maximum number of results [default: 5]
    #[arg(long, value_name = "N", conflicts_with = "handle", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) limit: Option<u16>,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session, or the start of its ID; latest is the one written last
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Show the report of this compaction instead
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<usize>,
    /// Print only the checkpoint of that compaction
    #[arg(long, requires = "epoch")]
    pub(crate) checkpoint: bool,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The session, or the start of its ID; latest is the one written last
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Requests, files with one request per line, or agents' sessions (files, or names such as
    /// claude:latest)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The sessions, or the starts of their IDs
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Delete without asking
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

#[derive(Debug, Args)]
pub(crate) struct VacuumArgs {
    /// Delete sessions that were not written since then: 30d, 12h, or a date (2026-05-01) [default:
    /// `store.keep_days`]
    #[arg(long, value_name = "WHEN", value_parser = typed_numbers::parse_since, conflicts_with = "check")]
    pub(crate) older_than: Option<typed_numbers::Since>,
    /// Delete the oldest sessions until the store has at most this size (2GB, 500MB) [default:
    /// `store.max_bytes`]
    #[arg(long, value_name = "SIZE", value_parser = typed_numbers::parse_bytes, conflicts_with = "check")]
    pub(crate) max_size: Option<u64>,
    /// Delete nothing, and report damage
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) store_flags: StoreFlags,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}
