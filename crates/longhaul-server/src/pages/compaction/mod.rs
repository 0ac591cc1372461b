//! Shows one compaction message by message: the text before, the text after, and the reason for the change.
//!
//! ```text
//! before, after ──side──▶ messages ──align──▶ pairs of messages ──model──▶ CompactionView ──render──▶ Markup
//! the report ──parsed_report──▶ reasons, recall IDs ──────────────▲
//! the checkpoint ──checkpoint──▶ the line that covers each block ──┘
//! ```
//!
//! Invariant: the changes come from comparing the two requests; the report only adds reasons. So a report
//! that belongs to other requests cannot make the page say something false about a text.

mod align;
mod block_text;
mod caching;
mod checkpoint;
mod model;
mod parsed_report;
mod render;
mod side;

#[cfg(test)]
mod tests;

pub use block_text::SecretHandling;
pub use caching::{BreakpointRow, CacheView};
pub use checkpoint::{CheckpointItem, CheckpointView, ItemKind};
pub use model::{AddedContent, CompactionInput, CompactionView, ComparedBlock, ComparedMessage, MessageRole, Preamble};
pub use parsed_report::{
    BeforeAfter, ChangedBlock, CheckpointStats, CompactionCost, FactCounts, ParsedReport, TokenTotals, TurnCounts,
};
pub use render::{RenderOptions, compaction_view, message_list, overview};
