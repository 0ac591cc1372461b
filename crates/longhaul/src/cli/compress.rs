//! The arguments of `longhaul compress`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{CompactionFlags, InputFlags, OutputFlags, PolicyFlags};

pub(super) const HELP: &str = "\
Example:
  longhaul compress session.json -o smaller.json --originals removed.jsonl
  longhaul compress session.json --to-tokens 20k --focus 'database schema' > smaller.json
  longhaul compress session.json --preview --diff
  longhaul compress session.json --to-tokens 20k --show checkpoint
  longhaul compress session.json --store -o smaller.json
  longhaul compress session.json --summarizer auto -o smaller.json
  longhaul compress session.json --in-place
  longhaul compress *.json --out-dir smaller --json > reports.jsonl
  longhaul compress --live
  longhaul compress - < sessions.jsonl > smaller.jsonl

The compacted request goes to standard output, -o or --out-dir, the report for people to standard error. --json prints the \
report for programs on standard output, so it needs -o, --out-dir or --preview. With several requests or --out-dir, it prints \
one report per line.

If the first line of an input is a whole request and more lines follow, the input has one request per line; give --jsonl if \
the first line may be broken. A line that is not a request is reported with its number and copied unchanged, the other lines \
are still compacted, and the exit code is 2.

--live compacts the newest session that uses a gateway, or the SESSION that you name, from another terminal. It needs the \
store of that gateway. The agent's next request is sent compacted, and longhaul undo undoes it. --live accepts --focus, \
--to-tokens, --preview, --store and --json.

A result that is still larger than the window or --to-tokens is written anyway, with a message and exit code 1.

No model is called and nothing is billed, unless you give --summarizer auto or main. The \
model, its address and the key that pays are printed before anything is sent. The model is called with --preview too. longhaul \
summarize shows the prompt.

Removed text is lost unless --originals or --store keeps it; longhaul recall prints it. Put --store after BODY: alone it \
selects the configured store, or the one in your data folder; with a value it selects another store. With --store, the request \
is recorded with its secrets redacted, earlier decisions about the same history are repeated, and the compaction can be \
undone.";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option that is given or not")]
pub(crate) struct CompressArgs {
    /// Requests: files, - for standard input, or sessions (files, claude:latest, store:ID); a file can have
    /// one request per line
    #[arg(value_name = "BODY", required_unless_present = "live", conflicts_with = "live")]
    pub(crate) bodies: Vec<PathBuf>,
    /// Compact a session that an agent is using behind a gateway: the newest, or the named one
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "latest",
          conflicts_with_all = ["summarizer", "summary", "diff", "show", "in_place", "out_dir", "jsonl", "originals",
                                "originals_raw", "log", "report", "output", "keep_from", "dialect", "model", "whole"])]
    pub(crate) live: Option<String>,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    #[command(flatten)]
    pub(crate) compaction: CompactionFlags,
    /// Who writes the summary in the checkpoint; our own code by default
    #[arg(long, value_enum, value_name = "WHO")]
    pub(crate) summarizer: Option<SummarizerChoice>,
    /// A summary of the removed turns; the checkpoint takes those of its statements that the request confirms
    #[arg(long, value_name = "FILE", conflicts_with_all = ["summarizer", "out_dir", "jsonl"])]
    pub(crate) summary: Option<PathBuf>,
    /// Print what would be done, and write no request
    #[arg(long)]
    pub(crate) preview: bool,
    /// Show turn by turn what was summarized, shortened or removed, and why: on standard error, with
    /// --preview on standard output
    #[arg(long)]
    pub(crate) diff: bool,
    /// Print a part of the result instead of the request, on standard output or in -o
    #[arg(long, value_enum, value_name = "PART", conflicts_with_all = ["json", "out_dir", "in_place", "jsonl"])]
    pub(crate) show: Option<ResultPart>,
    /// Overwrite each request with its result, and keep the request as FILE.bak (FILE.bak.1, … if that exists)
    #[arg(long, conflicts_with_all = ["output", "out_dir", "preview"])]
    pub(crate) in_place: bool,
    /// The directory for the results, each under the name of its request; created if it does not exist
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) out_dir: Option<PathBuf>,
    /// Read one request per line, even if the first line is broken; the result has the same lines in the same
    /// order
    #[arg(long, conflicts_with = "out_dir")]
    pub(crate) jsonl: bool,
    /// Append the originals of what is removed or shortened to this file, with secrets redacted
    #[arg(long, value_name = "FILE")]
    pub(crate) originals: Option<PathBuf>,
    /// Append the originals with their secrets to a file that only you can read (mode 0600)
    #[arg(long, value_name = "FILE", conflicts_with = "originals")]
    pub(crate) originals_raw: Option<PathBuf>,
    /// Append a row for each compaction to a log, for longhaul stats
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Write the report as JSON to a file; for several requests, one report per line
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print only failures on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

impl CompressArgs {
    /// Whether no body is written.
    pub(crate) fn is_preview(&self) -> bool {
        self.preview || self.show.is_some()
    }
}

/// The writer of the summary in the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SummarizerChoice {
    /// Our own code
    None,
    /// The model in auxiliary.compression.model, or the session's own if none is configured
    Auto,
    /// The session's own model, at the upstream of its API format
    Main,
}

/// A part of the result that is printed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultPart {
    /// The checkpoint that replaces the summarized turns
    Checkpoint,
}
