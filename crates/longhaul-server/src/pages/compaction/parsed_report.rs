//! The fields of a compaction's report that a page shows. They come from the engine's report, or from one
//! that was stored as JSON.

use longhaul_engine::plan::CompactionReport;
use serde::Deserialize;

/// The report of one compaction.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ParsedReport {
    /// The name of the engine.
    pub engine: String,
    /// The reason why it compacted, or why not.
    pub reason: String,
    /// Whether anything changed.
    pub changed: bool,
    /// Whether the result fits into the window and the requested size.
    #[serde(default = "yes")]
    pub reached: bool,
    /// The tokens of the whole request.
    pub tokens: TokenTotals,
    /// The number of messages before and after.
    pub messages: BeforeAfter,
    /// The bytes of the request before and after.
    pub bytes: BeforeAfter,
    /// The number of turns by the effect on them.
    pub units: TurnCounts,
    /// The blocks that changed.
    pub blocks: Vec<ChangedBlock>,
    /// The number of facts by whether they were kept.
    pub evidence: FactCounts,
    /// The checkpoint, if one was written.
    pub checkpoint: Option<CheckpointStats>,
    /// The trigger of the compaction.
    pub trigger: String,
    /// The topic that had priority.
    pub focus: Option<String>,
    /// The share of the tokens that was saved, from 0 to 1.
    pub ratio: f64,
    /// The cost and the savings.
    pub cost: CompactionCost,
    /// Further notes for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The tokens of the whole request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TokenTotals {
    /// The tokens before the compaction.
    pub before: u64,
    /// The tokens after the compaction.
    pub after: u64,
    /// The tokens before the first change, which stay cached.
    #[serde(rename = "warm")]
    pub cached: u64,
    /// The minimum size: the tokens that no compaction can remove.
    #[serde(rename = "floor")]
    pub minimum_size: u64,
    /// The name of the counting method.
    pub counted_by: String,
}

/// A number before and after the compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct BeforeAfter {
    /// The number before.
    pub before: u64,
    /// The number after.
    pub after: u64,
}

/// The number of turns by the effect of the compaction on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct TurnCounts {
    /// The turns that are unchanged.
    pub kept: u64,
    /// The turns that were shortened in part.
    #[serde(rename = "digested")]
    pub shortened: u64,
    /// The turns that the checkpoint summarizes.
    pub summarized: u64,
    /// The turns that were removed without a summary.
    #[serde(default, rename = "dropped")]
    pub removed: u64,
}

/// A block that the compaction changed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ChangedBlock {
    /// The recall ID of the original, if it is stored.
    #[serde(rename = "handle")]
    pub recall_id: Option<String>,
    /// The index of its message before the compaction.
    #[serde(rename = "at")]
    pub message: usize,
    /// The kind of the block.
    #[serde(rename = "what")]
    pub kind: String,
    /// The tool of a call or result.
    pub tool: Option<String>,
    /// The effect of the compaction on it.
    pub fate: String,
    /// The tokens before and after.
    pub tokens: [u64; 2],
    /// The reason for the change.
    #[serde(default, rename = "why")]
    pub reason: String,
}

/// The number of facts that were kept, are recallable or were lost. All are zero if the facts were not
/// counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct FactCounts {
    /// All facts that were found.
    pub found: u64,
    /// The facts that are still in the request.
    pub kept: u64,
    /// The facts that are only in stored originals.
    pub recallable: u64,
    /// The facts that are lost.
    pub lost: u64,
}

/// The size and author of the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CheckpointStats {
    /// The author: code, or the name of a model.
    pub by: String,
    /// The size in tokens.
    pub tokens: u64,
    /// The number of sections that are not empty.
    pub sections: u64,
}

/// The one-time cost of a compaction, and its savings from then on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct CompactionCost {
    /// The tokens that the provider has to read uncached.
    #[serde(rename = "cold_tokens")]
    pub uncached_tokens: u64,
    /// The extra cost of reading them uncached, in dollars; none if the price is unknown.
    pub usd: Option<f64>,
    /// The dollars that each later request saves; none if the price is unknown.
    pub usd_saved_per_turn: Option<f64>,
}

fn yes() -> bool {
    true
}

impl ParsedReport {
    /// Parses a report that was stored as JSON.
    pub fn from_json(report: &serde_json::Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(report)
    }

    /// Converts the report of the engine.
    pub fn from_report(report: &CompactionReport) -> Result<Self, serde_json::Error> {
        Self::from_json(&serde_json::to_value(report)?)
    }

    /// Returns a phrase for the trigger, to follow a colon.
    #[must_use]
    pub fn trigger_text(&self) -> &'static str {
        match self.trigger.as_str() {
            "manual" => "a person asked for it",
            "preflight" => "a request reached the threshold",
            "reply" => "the provider counted the last request and its reply at or above the threshold",
            "error" => "the provider refused the request as too long",
            "idle" => "the cache had expired anyway",
            "hygiene" => "the request reached the safety threshold",
            _ => "unknown",
        }
    }
}
