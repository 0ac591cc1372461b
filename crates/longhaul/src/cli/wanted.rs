//! What can be typed about a compaction, wherever one is made or shown.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::numbers;

#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// The largest result wanted, in tokens (20000, 20k); exit code 1 if it cannot be made
    #[arg(long, value_name = "N", value_parser = numbers::tokens)]
    pub(crate) to_tokens: Option<u64>,
    /// Keep everything from this message on (0 is the first in the body), and compact what is before it
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) keep_from: Option<usize>,
    /// A topic that is to be kept before all else
    #[arg(long, value_name = "TOPIC", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) focus: Option<String>,
    /// Compact even below the threshold
    #[arg(long)]
    pub(crate) force: bool,
}
