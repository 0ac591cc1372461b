//! What can be typed about the store of sessions, and where it is.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, Args};
use longhaul_server::agents::Agent;

use super::{Answer, Told};
use crate::numbers;

pub(super) const EXPORT_HELP: &str = "\
Example:
  longhaul export claude:latest -o next.json
  longhaul export rollout.jsonl --whole
  longhaul export store:latest
  longhaul export 7k2m9x4qhd --epoch 2
  longhaul export 7k2m9x4qhd --training > examples.jsonl

What an agent's session file does not hold, mostly the system prompt and the tools, is said on standard error. A file wins over an \
agent's session, and that over the id of a session in the store. One of the store is written as it would be sent now, without the \
secrets that were in it.";

pub(super) const RECALL_HELP: &str = "\
Example:
  longhaul recall 7k2m9x4qhd
  longhaul recall --search 'connection refused' --session latest
  longhaul recall --originals removed.jsonl 7k2m9x4qhd

The handle stands in digests, checkpoints, reports and search results. Without --session a handle is looked for in all sessions, and \
a search is over the one written last, of each tenant where a gateway has several. Nothing found is exit code 1.";

pub(super) const SHOW_HELP: &str = "\
Example:
  longhaul show latest
  longhaul show 7k2m9x4qhd --epoch 2 --checkpoint

An epoch is one compaction: a view of the session's messages, which themselves never change.";

pub(super) const UNDO_HELP: &str = "\
Example:
  longhaul undo latest
  longhaul redo latest

Nothing is deleted by it. After an undo it stays undone until you ask for a compaction (compress --force) or the safety threshold is reached. \
Nothing to undo or redo is exit code 1.";

pub(super) const IMPORT_HELP: &str = "\
Example:
  longhaul import session.json bodies.jsonl
  longhaul import claude:latest --whole

A body that goes on with a history which the store has is added to that session; an edited history becomes a fork. Secrets are taken \
out of everything that is kept. What cannot be used is said, the rest goes in all the same, and the exit code is 2.";

pub(super) const DELETE_HELP: &str = "\
Example:
  longhaul delete 7k2m9x4qhd
  longhaul delete 7k2m9x4qhd q81vd03m2c --yes

What another session shares with it stays until that one goes, too. It cannot be undone, so it is asked for, or --yes is given. The room \
is given back at once.";

pub(super) const VACUUM_HELP: &str = "\
Example:
  longhaul vacuum
  longhaul vacuum --older-than 30d --max-size 2GB
  longhaul vacuum --check

Without options it goes by store.keep_days and store.max_bytes of the configuration, and deletes nothing where those say nothing. \
--check deletes nothing and says what is damaged; anything is exit code 1.";

/// Which store, and which configuration says so.
#[derive(Debug, Args)]
pub(crate) struct StorePlace {
    /// The store: a file or postgres://…; else store.path or store.url of the configuration, else a file in your data folder
    #[arg(long, value_name = "STORE")]
    pub(crate) store: Option<String>,
    /// The configuration to read; longhaul init --help says which is read without it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// `--store` as `compress` has it: there it says that the body is recorded, and where may be left open.
pub(super) fn recording(store: Arg) -> Arg {
    store
        .help("Record the body and its compaction in the store, behind BODY: alone in the usual one, or in a file or postgres://…")
        .num_args(0..=1)
        .default_missing_value("")
        .conflicts_with_all(["originals", "originals_raw"])
}

/// Whose sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// An agent's.
    Agent(Agent),
    /// Those of the store.
    Store,
}

impl Whose {
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
    /// The session: a file, a name like claude:latest or codex:ID, or store:ID, store:latest or ID of the store
    #[arg(value_name = "SESSION")]
    pub(crate) session: PathBuf,
    #[command(flatten)]
    pub(crate) told: Told,
    /// Of the store: as it was right after this compaction
    #[arg(long, value_name = "N", group = "moment")]
    pub(crate) epoch: Option<usize>,
    /// Of the store: this request, as it would have been sent then
    #[arg(long, value_name = "N", group = "moment")]
    pub(crate) request: Option<usize>,
    /// Of the store: all of it, as the client sent it
    #[arg(long, group = "moment")]
    pub(crate) original: bool,
    /// Of the store: JSON lines to learn from, one for each stretch between two compactions
    #[arg(long, group = "moment")]
    pub(crate) training: bool,
    /// The same in one line, without anything that we wrote
    #[arg(long, requires = "training")]
    pub(crate) natural: bool,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RecallArgs {
    /// The handle that stands in the digest and in the report
    #[arg(value_name = "HANDLE", required_unless_present = "search")]
    pub(crate) handle: Option<String>,
    /// Look in the file that compress --originals wrote, and not in the store
    #[arg(long, value_name = "FILE", conflicts_with_all = ["session", "search", "store", "family", "limit"])]
    pub(crate) originals: Option<PathBuf>,
    /// The session, or the beginning of its id; latest is the one written last
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Find what fits these words best instead
    #[arg(long, value_name = "QUERY", conflicts_with = "handle", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) search: Option<String>,
    /// Search the sessions that it descends from, and all that descend from those, too
    #[arg(long, conflicts_with = "handle")]
    pub(crate) family: bool,
    /// At most so many results [default: 5]
    #[arg(long, value_name = "N", conflicts_with = "handle", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) limit: Option<u16>,
    #[command(flatten)]
    pub(crate) place: StorePlace,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session, or the beginning of its id; latest is the one written last
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// The report of this compaction instead
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<usize>,
    /// Its checkpoint alone
    #[arg(long, requires = "epoch")]
    pub(crate) checkpoint: bool,
    #[command(flatten)]
    pub(crate) place: StorePlace,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// The session, or the beginning of its id; latest is the one written last
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: StorePlace,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Request bodies, files with a body a line, or agents' sessions (files, or claude:latest)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) told: Told,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The sessions, or the beginnings of their ids
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) place: StorePlace,
    #[command(flatten)]
    pub(crate) answer: Answer,
}

#[derive(Debug, Args)]
pub(crate) struct VacuumArgs {
    /// Delete sessions that were not written since: 30d, 12h, or a date (2026-05-01) [default: `store.keep_days`]
    #[arg(long, value_name = "WHEN", value_parser = numbers::since, conflicts_with = "check")]
    pub(crate) older_than: Option<numbers::Since>,
    /// Delete the oldest until the store is no larger (2GB, 500MB) [default: `store.max_bytes`]
    #[arg(long, value_name = "SIZE", value_parser = numbers::bytes, conflicts_with = "check")]
    pub(crate) max_size: Option<u64>,
    /// Delete nothing, and say what is damaged
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) place: StorePlace,
    #[command(flatten)]
    pub(crate) answer: Answer,
}
