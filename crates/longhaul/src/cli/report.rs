//! The arguments of `longhaul report`.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{CompactionFlags, InputFlags, PolicyFlags};

pub(super) const HELP: &str = "\
Example:
  longhaul report session.json -o page.html
  longhaul report claude:latest -o page.html --focus 'database schema'
  longhaul report session.json --engine sacred-zone --context-length 100k -o page.html

The page is one file without scripts that loads nothing else. It shows, message by message, what was kept, shortened, \
summarized into the checkpoint (with a link to the line that represents it) or removed; and the tokens by part, the cache \
breakpoints, what stays cached, the cost, and a chart of the session's requests. The compaction is made only for the page.

Below the threshold no compaction is triggered; the page says so, and shows what --force would do.

Secrets in the texts are redacted, as with compress --originals. --no-redact keeps them, in a file that only you can read \
(mode 0600). A result that is still larger than the window or --to-tokens is shown anyway, with exit code 1.";

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The request: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    /// The page to write; - for standard output
    #[arg(short, long, value_name = "FILE.html", required = true)]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) compaction: CompactionFlags,
    /// A summary of the removed turns; the checkpoint takes those of its statements that the request confirms
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Show texts with their secrets
    #[arg(long)]
    pub(crate) no_redact: bool,
    /// Print only failures on standard error
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

impl ReportArgs {
    /// Returns the file to write to, or `None` for standard output.
    pub(crate) fn output_file(&self) -> Option<&Path> {
        Some(self.output.as_path()).filter(|path| *path != Path::new("-"))
    }
}
