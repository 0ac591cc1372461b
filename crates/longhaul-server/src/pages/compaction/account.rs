//! What a compaction said about itself, as far as a page shows it: out of the engine's report, or of one that was kept as JSON.

use longhaul_engine::plan::Report;
use serde::Deserialize;

/// The account of one compaction.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Account {
    /// What compacted.
    pub engine: String,
    /// Why it did, or did not.
    pub reason: String,
    /// Whether anything changed.
    pub changed: bool,
    /// Whether what came out fits.
    #[serde(default = "yes")]
    pub reached: bool,
    /// Tokens of the whole request.
    pub tokens: TokensSaid,
    /// Messages before and after.
    pub messages: Both,
    /// Bytes before and after.
    pub bytes: Both,
    /// What became of the units.
    pub units: Units,
    /// The blocks that changed.
    pub blocks: Vec<Changed>,
    /// What became of the evidence.
    pub evidence: Evidence,
    /// The summary in place of what was folded.
    pub checkpoint: Option<CheckpointSaid>,
    /// What set it off.
    pub trigger: String,
    /// What was to be kept first.
    pub focus: Option<String>,
    /// The share that was saved.
    pub ratio: f64,
    /// What it costs, and what it saves.
    pub cost: Cost,
    /// Anything else worth knowing.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// Tokens of the whole request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TokensSaid {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
    /// What stands before the first change.
    pub warm: u64,
    /// What no compaction can remove.
    pub floor: u64,
    /// How they were counted.
    pub counted_by: String,
}

/// Before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Both {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// Units by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Units {
    /// Untouched.
    pub kept: u64,
    /// Some of it shortened.
    pub digested: u64,
    /// Folded into a summary.
    pub summarized: u64,
    /// Taken out.
    #[serde(default)]
    pub dropped: u64,
}

/// A block that changed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Changed {
    /// What fetches the original.
    pub handle: Option<String>,
    /// The index of its message.
    pub at: usize,
    /// What it was.
    pub what: String,
    /// The tool that it has to do with.
    pub tool: Option<String>,
    /// What became of it.
    pub fate: String,
    /// Before and after.
    pub tokens: [u64; 2],
    /// Which decision changed it.
    #[serde(default)]
    pub why: String,
}

/// What became of the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Evidence {
    /// All of it.
    pub found: u64,
    /// Still in the request.
    pub kept: u64,
    /// In an original that can be fetched.
    pub recallable: u64,
    /// Gone.
    pub lost: u64,
}

/// The summary in place of what was folded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CheckpointSaid {
    /// Who wrote it.
    pub by: String,
    /// Its size.
    pub tokens: u64,
    /// How many of its sections say something.
    pub sections: u64,
}

/// What a compaction costs once, and what it saves from then on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct Cost {
    /// Tokens that the provider has to read anew.
    pub cold_tokens: u64,
    /// What that costs more.
    pub usd: Option<f64>,
    /// What each later turn costs less.
    pub usd_saved_per_turn: Option<f64>,
}

fn yes() -> bool {
    true
}

impl Account {
    /// Of a report that was kept as JSON.
    pub fn read(report: &serde_json::Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(report)
    }

    /// Of the engine's own report.
    pub fn of(report: &Report) -> Result<Self, serde_json::Error> {
        Self::read(&serde_json::to_value(report)?)
    }

    /// The trigger, in words that can follow a colon.
    #[must_use]
    pub fn occasion(&self) -> &'static str {
        match self.trigger.as_str() {
            "manual" => "somebody asked",
            "preflight" => "a request was about to be sent that is near the threshold",
            "reply" => "the provider's count of the last reply was over the threshold",
            "error" => "the provider refused the request as too long",
            "idle" => "the cache had lapsed anyway",
            "hygiene" => "the transcript had grown between turns",
            _ => "a trigger that this version does not know",
        }
    }
}
