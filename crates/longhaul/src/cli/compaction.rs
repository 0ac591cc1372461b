//! The options that every command has that makes or shows a compaction.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::typed_numbers;

#[derive(Debug, Args)]
pub(crate) struct CompactionFlags {
    /// The maximum size of the result, in tokens (20000, 20k); exit code 1 if the result is larger
    #[arg(long, value_name = "N", value_parser = typed_numbers::parse_tokens)]
    pub(crate) to_tokens: Option<u64>,
    /// Keep all messages from this one on (0 is the first in the request), and compact the ones before it
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) keep_from: Option<usize>,
    /// A topic to keep before anything else
    #[arg(long, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) focus: Option<String>,
    /// Compact even below the threshold
    #[arg(long)]
    pub(crate) force: bool,
}
