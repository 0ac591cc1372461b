//! The arguments of `longhaul trust`.

use std::path::PathBuf;

use clap::Args;

use super::OutputFlags;

pub(super) const HELP: &str = "\
Example:
  longhaul trust longhaul.yaml
  longhaul trust --list
  longhaul trust --revoke longhaul.yaml

A longhaul.yaml in the current folder or above it may belong to somebody else's repository. Until you trust it, it may set \
only numbers: those of compression.* (thresholds from 0.3 to 0.8), and context_length and thresholds of models. With any other \
key, every command that reads the configuration fails with exit code 2. Read the file before you trust it: it can send your \
requests and your keys anywhere.

Trust applies to this content in this folder. Editing or moving the file ends it. Your own configuration, and a file named by \
--config or LONGHAUL_CONFIG, need no trust. The records are in longhaul/trusted in XDG_DATA_HOME or ~/.local/share.";

#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// The configuration file to trust
    #[arg(value_name = "FILE", required_unless_present = "list")]
    pub(crate) file: Option<PathBuf>,
    /// List the trusted files
    #[arg(long, conflicts_with_all = ["file", "revoke"])]
    pub(crate) list: bool,
    /// Stop trusting FILE; exit code 1 if it was not trusted
    #[arg(long)]
    pub(crate) revoke: bool,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}
