//! What can be typed about one compaction.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Answer, PolicyFlags, Told, Wanted};

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

The body goes to standard output, -o or --out-dir, the report for people to standard error. --json prints the report for \
programs on standard output, so it needs -o, --out-dir or --preview; of several bodies, and with --out-dir, it prints one \
report a line.

An input whose first line is a whole body and that goes on behind it holds a body a line; --jsonl says so where the first \
line may be broken. A line that is no body is said with its number and passes as it is, the others still come out, and the \
exit code is 2.

--live compacts the newest session that runs through a gateway, or the SESSION that you name, from another terminal. It works on the \
store that the gateway writes; the agent's next request is sent compacted, and longhaul undo takes it back. It takes --focus, \
--to-tokens, --preview, --store and --json.

A result that is still over the window, or over --to-tokens, is written all the same; it is said, and the exit code is 1.

No model is asked and nothing is billed, unless --summarizer auto is given and auxiliary.compression.model is configured; which model \
that is, where, and whose key pays is said before anything is sent. With --preview, too, it is asked. longhaul summarize shows what it \
is asked.

What is removed is lost unless --originals or --store keeps it; longhaul recall reads it back. --store stands behind BODY: \
alone it means the configured store, or the one in your data folder, and a word behind it is another store. With it the body is \
recorded without its secrets, what was decided before about the same history is decided again, and a compaction can be undone.";

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option that is given or not")]
pub(crate) struct CompressArgs {
    /// Request bodies: files, - for standard input, or sessions (files, claude:latest, store:ID); one that holds a body a line is worked on line by line
    #[arg(value_name = "BODY", required_unless_present = "live", conflicts_with = "live")]
    pub(crate) bodies: Vec<PathBuf>,
    /// Compact a session that an agent is using behind a gateway: the newest, or the one that is named
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "latest",
          conflicts_with_all = ["summarizer", "summary", "diff", "show", "in_place", "out_dir", "jsonl", "originals",
                                "originals_raw", "log", "report", "output", "keep_from", "dialect", "model", "whole"])]
    pub(crate) live: Option<String>,
    #[command(flatten)]
    pub(crate) told: Told,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// Who writes the checkpoint; by default our own code
    #[arg(long, value_enum, value_name = "WHO")]
    pub(crate) summarizer: Option<Summarizer>,
    /// A summary of what goes, handed in: what the body bears out of it is taken into the checkpoint
    #[arg(long, value_name = "FILE", conflicts_with_all = ["summarizer", "out_dir", "jsonl"])]
    pub(crate) summary: Option<PathBuf>,
    /// Say what would be done, and write no body
    #[arg(long)]
    pub(crate) preview: bool,
    /// Show step by step what was folded, digested or removed, and why: on standard error, with --preview on standard output
    #[arg(long)]
    pub(crate) diff: bool,
    /// Print a part of the result instead of the body, on standard output or in -o
    #[arg(long, value_enum, value_name = "PART", conflicts_with_all = ["json", "out_dir", "in_place", "jsonl"])]
    pub(crate) show: Option<Shown>,
    /// Write each result over its body, which is kept as FILE.bak (FILE.bak.1, … if there is one)
    #[arg(long, conflicts_with_all = ["output", "out_dir", "preview"])]
    pub(crate) in_place: bool,
    /// Where several bodies go, each under its name; the directory is made if it is not there
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) out_dir: Option<PathBuf>,
    /// BODY holds a body a line, even if its first line is broken; the result is the same lines in the same order
    #[arg(long, conflicts_with = "out_dir")]
    pub(crate) jsonl: bool,
    /// Keep what is removed or shortened in this file, secrets taken out
    #[arg(long, value_name = "FILE")]
    pub(crate) originals: Option<PathBuf>,
    /// Keep it as it was, secrets included, in a file that only you can read (mode 0600)
    #[arg(long, value_name = "FILE", conflicts_with = "originals")]
    pub(crate) originals_raw: Option<PathBuf>,
    /// Append a row about each compaction to a log, for longhaul stats
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Write the report as JSON to a file; of several bodies one report a line
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Say nothing on standard error but failures
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) answer: Answer,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

impl CompressArgs {
    /// Whether no body is written.
    pub(crate) fn is_preview(&self) -> bool {
        self.preview || self.show.is_some()
    }
}

/// Who writes the summary of what is folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Summarizer {
    /// Our own code
    None,
    /// The model of auxiliary.compression.model; our own code where none is configured, or it fails
    Auto,
}

/// What of a result is printed alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    /// The handover that stands in the place of what was folded
    Checkpoint,
}
