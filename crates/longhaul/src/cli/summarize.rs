//! The arguments of `longhaul summarize`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{InputFlags, OutputFlags, PolicyFlags};
use crate::typed_numbers;

pub(super) const HELP: &str = "\
Example:
  longhaul summarize session.json --to-tokens 20k --ask
  longhaul summarize session.json --to-tokens 20k
  longhaul summarize session.json --to-tokens 20k --answer summary.md
  LONGHAUL_AUXILIARY__COMPRESSION__MODEL=gpt-5-mini longhaul summarize claude:latest --json

Without a configured model (auxiliary.compression.model), or with --ask, only the prompt is printed; nothing is sent and \
nothing is billed. With a model, the prompt is sent to it; the model, its address and the key that pays are printed on \
standard error first. Secrets in the prompt are redacted. If the model fails, that is reported, our own code writes the \
checkpoint, and the exit code is 0.

The request is compacted as with compress --force, but no result is written. If shorter tool outputs are enough, nothing is \
summarized and there is no prompt; give --to-tokens N or --keep-from MESSAGE to summarize.";

#[derive(Debug, Args)]
pub(crate) struct SummarizeArgs {
    /// The request: a file, - for standard input, or a session (its file, claude:latest, store:ID)
    #[arg(value_name = "BODY")]
    pub(crate) body: PathBuf,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    /// A topic that the summary must cover before anything else
    #[arg(long, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) focus: Option<String>,
    /// Print the prompt, and ask no model
    #[arg(long)]
    pub(crate) ask: bool,
    /// Audit this summary instead of asking a model, as compress --summary does
    #[arg(long = "answer", value_name = "FILE", conflicts_with = "ask")]
    pub(crate) given_summary: Option<PathBuf>,
    /// The size to compact the request to, in tokens (20000, 20k)
    #[arg(long, value_name = "N", value_parser = typed_numbers::parse_tokens)]
    pub(crate) to_tokens: Option<u64>,
    /// Summarize everything before this message (0 is the first in the request)
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) keep_from: Option<usize>,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}
