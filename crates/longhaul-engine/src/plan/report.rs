//! What a compaction says about itself, for people and for programs.

use serde::Serialize;

use super::Keep;
use crate::config::EngineName;
use crate::summary::Finding;
use crate::transcript::{BlockKind, Part, PartKind, Transcript, Unit, UnitKind};
use crate::{Dialect, Tokens};

/// The account of one compaction, or of why there was none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// How the body is written.
    pub dialect: Dialect,
    /// Whether its shape leaves no doubt of that.
    pub dialect_sure: bool,
    /// What compacted.
    pub engine: EngineName,
    /// Why it did, or did not, in words.
    pub reason: String,
    /// Whether anything changed.
    pub changed: bool,
    /// Whether what comes out fits the window, and the size that was asked for; where it does not, a note says why.
    pub reached: bool,
    /// Tokens of the whole request.
    pub tokens: TokensReport,
    /// Messages before and after.
    pub messages: Pair<usize>,
    /// Bytes before and after.
    pub bytes: Pair<usize>,
    /// What became of the units.
    pub units: UnitsReport,
    /// The blocks that changed.
    pub blocks: Vec<BlockReport>,
    /// What became of the evidence.
    pub evidence: EvidenceReport,
    /// The summary that stands in place of what was folded, where one does.
    pub checkpoint: Option<CheckpointReport>,
    /// What was mended of a model's summary.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What set it off.
    pub trigger: Trigger,
    /// The topic that was to be kept first.
    pub focus: Option<String>,
    /// The share that was saved.
    pub ratio: f64,
    /// How many messages went without anything in their place but a count.
    pub unsummarized: usize,
    /// What the change costs, and what it saves.
    pub cost: CostReport,
    /// How the session's compactions are going.
    pub state: StateReport,
    /// What the engine measured to decide; for the sacred zone, how its recent part was sized.
    pub zone: Option<ZoneReport>,
    /// What was done because the request was still too large, in order.
    pub ladder: Vec<Rung>,
    /// The session that was archived, where a new one was begun.
    pub restart: Option<Restart>,
    /// Anything else worth knowing.
    pub notes: Vec<String>,
}

impl Report {
    /// The same about what came in, where what was looked at had been made from it by replaying older decisions.
    pub(super) fn about(self, tokens: Tokens, original: &Transcript<'_>, body: &str) -> Self {
        let tokens = TokensReport { before: tokens, ..self.tokens };
        Self {
            changed: true,
            ratio: tokens.saved(),
            tokens,
            messages: Pair { before: original.message_count(), ..self.messages },
            bytes: Pair { before: original.body.len(), after: body.len() },
            ..self
        }
    }
}

/// Before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pair<T> {
    /// Before.
    pub before: T,
    /// After.
    pub after: T,
}

/// Tokens of the whole request, measured both times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TokensReport {
    /// Before.
    pub before: Tokens,
    /// After.
    pub after: Tokens,
    /// What stands before the first change, in the order in which a provider reads.
    pub warm: Tokens,
    /// What no compaction can remove: system prompt, tool definitions, the newest user message, the last step, and the smallest
    /// checkpoint. The sacred zone makes none; its floor has what the user said first, and a checkpoint that is there already.
    pub floor: Tokens,
    /// How they were counted.
    pub counted_by: String,
}

impl TokensReport {
    /// The share that was saved.
    pub(super) fn saved(&self) -> f64 {
        1.0 - self.after.number() as f64 / self.before.number().max(1) as f64
    }
}

/// Units by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct UnitsReport {
    /// Untouched.
    pub kept: usize,
    /// Some of it shortened.
    pub digested: usize,
    /// Taken out, with a summary in their place.
    pub summarized: usize,
    /// Taken out, with only a count in their place.
    pub dropped: usize,
}

/// A block that changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockReport {
    /// What fetches the original, where it is kept.
    pub handle: Option<String>,
    /// The index of its message.
    pub at: usize,
    /// What it was.
    pub what: What,
    /// The tool that it has to do with.
    pub tool: Option<String>,
    /// What became of it.
    pub fate: Fate,
    /// Before and after.
    pub tokens: [Tokens; 2],
    /// Which decision changed it, in words that can follow a colon.
    pub why: &'static str,
}

/// What became of the evidence: of what a checkpoint could have said, how much it says; where none was made, the facts in the
/// blocks that were changed, if they are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EvidenceReport {
    /// All of them; the other three add up to it.
    pub found: usize,
    /// Still in the request.
    pub kept: usize,
    /// In an original that can be fetched by its handle.
    pub recallable: usize,
    /// Gone.
    pub lost: usize,
}

impl EvidenceReport {
    /// Enters a block that held so many facts, of which so many stand in what replaces it.
    pub(super) fn enter(&mut self, found: usize, kept: usize, keep: &Keep) {
        let gone = found.saturating_sub(kept);
        self.found += found;
        self.kept += found - gone;
        match keep {
            Keep::Nothing => self.lost += gone,
            Keep::Originals(_) => self.recallable += gone,
        }
    }
}

/// The summary in place of what was folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CheckpointReport {
    /// Who wrote it.
    pub by: WrittenBy,
    /// Its size.
    pub tokens: Tokens,
    /// How many of its sections say something.
    pub sections: usize,
}

/// Who wrote a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WrittenBy {
    /// Our own code, from the evidence.
    Code,
    /// A model.
    Model,
    /// An engine from outside, in its own words.
    Plugin,
    /// Nobody: a fixed text says how much is missing.
    Fallback,
}

/// What a change costs once, and what it saves from then on. Money is absent where no prices are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CostReport {
    /// Tokens after the first change, which the provider has to read anew.
    pub cold_tokens: Tokens,
    /// What reading them anew costs more than reading them from the cache.
    pub usd: Option<f64>,
    /// What each later turn costs less.
    pub usd_saved_per_turn: Option<f64>,
}

/// How the compactions of a session are going. One that stands alone has nothing before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StateReport {
    /// Whether a fixed text had to stand in for a checkpoint.
    pub fallback_used: bool,
    /// Why the last attempt at a model's summary failed.
    pub last_error: Option<String>,
    /// The auxiliary model that failed.
    pub auxiliary_failed: Option<String>,
    /// How many compactions in a row saved under a tenth, this one included.
    pub ineffective_in_a_row: u32,
    /// Until when automatic compaction rests.
    pub paused_until: Option<String>,
    /// For how long no summarizer is asked.
    pub cooldown_seconds: u64,
}

/// A compaction that saves a smaller share than this did not do its work.
const EFFECTIVE: f64 = 0.10;

impl StateReport {
    /// The state after a compaction that saved this share, where this many in a row before it had saved too little.
    #[must_use]
    pub fn after(ineffective_before: u32, ratio: f64) -> Self {
        let ineffective_in_a_row = if ratio < EFFECTIVE { ineffective_before + 1 } else { 0 };
        Self { ineffective_in_a_row, ..Self::default() }
    }
}

/// What a block was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Something said to the model.
    Prompt,
    /// Something that the model said.
    Reply,
    /// Reasoning that its provider would refuse behind a change.
    Reasoning,
    /// A call.
    Call,
    /// What came of a call.
    Result,
    /// What an earlier compaction left.
    Checkpoint,
    /// Something not understood.
    Opaque,
    /// What a compaction wrote about a stretch of work, to be opened later.
    Page,
}

impl What {
    /// What a block of a unit is.
    #[must_use]
    pub fn of(unit: &Unit<'_>, part: Part<'_, '_>) -> Self {
        match (part.kind, &unit.kind) {
            (PartKind::Call(_), _) => Self::Call,
            (PartKind::Result { .. }, _) => Self::Result,
            (PartKind::Said, UnitKind::Prompt { .. }) => Self::Prompt,
            (PartKind::Said, UnitKind::Checkpoint(_)) => Self::Checkpoint,
            (PartKind::Said, UnitKind::Opaque(_)) => Self::Opaque,
            (PartKind::Said, UnitKind::Step { .. }) => match part.block.kind {
                BlockKind::Reasoning(_) => Self::Reasoning,
                _ => Self::Reply,
            },
        }
    }

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Reply => "reply",
            Self::Reasoning => "reasoning",
            Self::Call => "call",
            Self::Result => "result",
            Self::Checkpoint => "checkpoint",
            Self::Opaque => "opaque",
            Self::Page => "page",
        }
    }
}

/// What became of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Taken out of its place, and quoted whole in the checkpoint.
    Kept,
    /// Shortened where it stands.
    Digested,
    /// Gone, but kept elsewhere under its handle.
    Recallable,
    /// Gone.
    Lost,
}

/// What set a compaction off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// Somebody asked.
    #[default]
    Manual,
    /// A request was about to be sent that is near the threshold.
    Preflight,
    /// The provider's count of the last reply was over it.
    Reply,
    /// The provider refused the request as too long.
    Error,
    /// The cache had lapsed anyway.
    Idle,
    /// The transcript had grown between turns.
    Hygiene,
}

/// How the recent zone was sized.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ZoneReport {
    /// Tokens at the end that were not touched, as a budget.
    pub recent: Tokens,
    /// The share of recent calls that name something only older results showed.
    pub refers_back: f64,
    /// Calls for each thing the user said, of late.
    pub calls_a_turn: f64,
    /// Whether the newest failure is not yet followed by a success.
    pub open_error: bool,
}

/// One thing that was done because the request was still too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Rung {
    /// What.
    pub step: Step,
    /// Tokens before and after it.
    pub tokens: [Tokens; 2],
}

/// What can be done when a request is still too large, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Every result outside the protected zone becomes a line.
    DigestAll,
    /// The oldest units outside it go.
    DropOldest,
    /// A new session begins with what must not be lost.
    Restart,
}

/// A session that was archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restart {
    /// Which.
    pub parent: Option<String>,
    /// How many of its messages the new one does not have.
    pub archived_messages: usize,
}
