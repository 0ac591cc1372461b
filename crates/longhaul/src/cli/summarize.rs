//! What can be typed about a model's summary.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{Answer, PolicyFlags, Told};
use crate::numbers;

pub(super) const HELP: &str = "\
Example:
  longhaul summarize session.json --to-tokens 20k --ask
  longhaul summarize session.json --to-tokens 20k
  longhaul summarize session.json --to-tokens 20k --answer summary.md
  LONGHAUL_AUXILIARY__COMPRESSION__MODEL=gpt-5-mini longhaul summarize claude:latest --json

Without a configured model (auxiliary.compression.model), and with --ask, only what one would be asked is printed: nothing is sent \
and nothing is billed. With a model it is asked; which one, where, and whose key pays is said on standard error before anything is \
sent. Secrets are taken out of what it is asked. A model that fails is said, the checkpoint is made by code, and the exit code is 0.

The body is compacted as compress --force would, and nothing of that is written. Where shorter tool outputs are enough, nothing is \
folded and there is nothing to ask; --to-tokens N or --keep-from MESSAGE folds.";

#[derive(Debug, Args)]
pub(crate) struct SummarizeArgs {
    /// The request body: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) told: Told,
    /// A topic that is wanted before all else
    #[arg(long, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) focus: Option<String>,
    /// Only print what a model would be asked
    #[arg(long)]
    pub(crate) ask: bool,
    /// Audit this summary instead of asking a model, as compress --summary does
    #[arg(long = "answer", value_name = "FILE", conflicts_with = "ask")]
    pub(crate) handed_in: Option<PathBuf>,
    /// The size that the body is compacted to, in tokens (20000, 20k)
    #[arg(long, value_name = "N", value_parser = numbers::tokens)]
    pub(crate) to_tokens: Option<u64>,
    /// Fold what is before this message (0 is the first in the body)
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) keep_from: Option<usize>,
    #[command(flatten)]
    pub(crate) answer: Answer,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}
