//! What can be typed about the page of one compaction.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{PolicyFlags, Told, Wanted};

pub(super) const HELP: &str = "\
Example:
  longhaul report session.json -o page.html
  longhaul report claude:latest -o page.html --focus 'database schema'
  longhaul report session.json --engine sacred-zone --context-length 100k -o page.html

The page is one file, with no script and nothing that is fetched from anywhere: message by message what was kept, digested, folded \
into the checkpoint (with a link to the line that speaks for it) or removed, tokens by part, breakpoints, what stays cached, what it \
costs, and the session's requests drawn over time. Nothing is compacted but for the page.

Below the threshold nothing is due; the page says so, and shows what --force would do.

Secrets are taken out of what is shown, as compress --originals takes them out; --no-redact leaves them in a file that only you can \
read (mode 0600). A result that is still over the window, or over --to-tokens, is shown all the same, and the exit code is 1.";

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The request body: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) told: Told,
    /// Where the page goes; - is standard output
    #[arg(short, long, value_name = "FILE.html", required = true)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    /// A summary of what goes, handed in: what the body bears out of it is taken into the checkpoint
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Show texts as they are, secrets included
    #[arg(long)]
    pub(crate) no_redact: bool,
    /// Say nothing on standard error but failures
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

impl ReportArgs {
    /// Where the page goes; nothing is standard output.
    pub(crate) fn to(&self) -> Option<&Path> {
        Some(self.output.as_path()).filter(|path| *path != Path::new("-"))
    }
}
