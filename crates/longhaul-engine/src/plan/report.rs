//! The report of a compaction, for people and for programs. Its field names are part of the `--json` output.

use serde::Serialize;

use super::Originals;
use crate::config::EngineName;
use crate::summary::AuditFinding;
use crate::transcript::{BlockKind, BlockRole, Transcript, Turn, TurnBlock, TurnKind};
use crate::{ApiFormat, Tokens};

/// The description of one compaction, or of the reason why there was none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompactionReport {
    /// The API format of the request.
    pub dialect: ApiFormat,
    /// Whether the request can have no other API format.
    pub dialect_sure: bool,
    /// The engine that planned the compaction.
    pub engine: EngineName,
    /// The reason for the compaction, or for leaving the request unchanged.
    pub reason: String,
    /// The options that would compact a request which stays unchanged. It is for callers to put into words,
    /// because they know what their options are called.
    #[serde(skip)]
    pub advice: Option<Advice>,
    /// Whether the request changed.
    pub changed: bool,
    /// Whether the result fits into the window and the requested size; if not, a note explains why.
    pub reached: bool,
    /// The tokens of the whole request.
    pub tokens: TokensReport,
    /// The number of messages.
    pub messages: BeforeAfter<usize>,
    /// The length of the request body in bytes.
    pub bytes: BeforeAfter<usize>,
    /// The number of turns that were kept, shortened, summarized or dropped.
    pub units: TurnsReport,
    /// The blocks that changed.
    pub blocks: Vec<BlockReport>,
    /// The number of facts that were kept, are recallable or were lost.
    pub evidence: EvidenceReport,
    /// The checkpoint that replaces the summarized turns, if there is one.
    pub checkpoint: Option<CheckpointReport>,
    /// The corrections to a model's summary.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<AuditFinding>,
    /// The event that started the compaction.
    pub trigger: Trigger,
    /// The topic that had priority, with secrets removed.
    pub focus: Option<String>,
    /// The share of the tokens that was saved, from 0 to 1.
    pub ratio: f64,
    /// The number of messages that were removed without a summary.
    pub unsummarized: usize,
    /// The price of the compaction, and the savings from it.
    pub cost: CostReport,
    /// The state of the session's compactions.
    pub state: StateReport,
    /// The measurements for the recent zone; only the engine `sacred-zone` makes them.
    pub zone: Option<ZoneReport>,
    /// The steps that were taken because the request was still too large, in order.
    pub ladder: Vec<EscalationStep>,
    /// The session that was archived, if a new one had to begin.
    pub restart: Option<SessionRestart>,
    /// Further remarks for people.
    pub notes: Vec<String>,
}

impl CompactionReport {
    /// Returns the report with the sizes compared to the original request, for a compaction of a request that
    /// was replayed from it.
    pub(super) fn compared_with_original(self, tokens: Tokens, original: &Transcript<'_>, body: &str) -> Self {
        let tokens = TokensReport { before: tokens, ..self.tokens };
        Self {
            changed: true,
            ratio: tokens.saved_share(),
            tokens,
            messages: BeforeAfter { before: original.message_count(), ..self.messages },
            bytes: BeforeAfter { before: original.body.len(), after: body.len() },
            ..self
        }
    }
}

/// Options with which a compaction would change a request that the policy leaves unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Request a size with [`CompactOptions::to_tokens`](super::CompactOptions::to_tokens).
    RequestSize,
    /// Request a size, or choose what stays with [`CompactOptions::keep_from`](super::CompactOptions::keep_from).
    RequestSizeOrKeptPart,
}

/// A figure before and after the compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BeforeAfter<T> {
    /// The figure before the compaction.
    pub before: T,
    /// The figure after the compaction.
    pub after: T,
}

/// The tokens of the whole request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TokensReport {
    /// The tokens before the compaction.
    pub before: Tokens,
    /// The tokens after the compaction.
    pub after: Tokens,
    /// The tokens before the first change, in the order in which a provider reads: they stay cached.
    pub warm: Tokens,
    /// The minimum size, which no compaction can go below: the system prompt, the tools, the newest user
    /// message, the last turn and the smallest checkpoint. The engine `sacred-zone` writes no checkpoint; its
    /// minimum includes the first prompt and an existing checkpoint instead.
    pub floor: Tokens,
    /// The name of the token counter.
    pub counted_by: String,
}

impl TokensReport {
    /// Returns the share of the tokens that was saved, from 0 to 1.
    pub(super) fn saved_share(&self) -> f64 {
        1.0 - self.after.number() as f64 / self.before.number().max(1) as f64
    }
}

/// The number of turns by what happened to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TurnsReport {
    /// The turns that did not change.
    pub kept: usize,
    /// The turns of which a part was shortened.
    pub digested: usize,
    /// The turns that a checkpoint replaces.
    pub summarized: usize,
    /// The turns that were removed and only counted.
    pub dropped: usize,
}

/// The value of [`BlockReport::why`] for a block of a summarized turn.
pub const SUMMARIZED_REASON: &str = "summarized into the checkpoint";

/// A block that changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockReport {
    /// The recall ID of the original, if it is stored.
    pub handle: Option<String>,
    /// The index of the message that contained it.
    pub at: usize,
    /// The kind of its content.
    pub what: ContentKind,
    /// The tool that was called or that returned it, for calls and results.
    pub tool: Option<String>,
    /// What happened to the block.
    pub fate: Fate,
    /// The tokens before and after.
    pub tokens: [Tokens; 2],
    /// The reason for the change, worded to follow a colon.
    pub why: &'static str,
}

/// The facts by what happened to them. With a checkpoint, these are the items that it could have mentioned.
/// Without one, they are the facts in the changed blocks, if they are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct EvidenceReport {
    /// All facts: the sum of the other three numbers.
    pub found: usize,
    /// The facts that the request still contains.
    pub kept: usize,
    /// The facts that only a stored original contains.
    pub recallable: usize,
    /// The facts that are gone.
    pub lost: usize,
}

impl EvidenceReport {
    /// Adds a block with `found` facts, of which the replacement contains `kept`.
    pub(super) fn add(&mut self, found: usize, kept: usize, originals: &Originals) {
        let gone = found.saturating_sub(kept);
        self.found += found;
        self.kept += found - gone;
        match originals {
            Originals::Discarded => self.lost += gone,
            Originals::Stored(_) => self.recallable += gone,
        }
    }
}

/// The checkpoint that replaces the summarized turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CheckpointReport {
    /// The author of the checkpoint.
    pub by: WrittenBy,
    /// The size of the checkpoint in tokens.
    pub tokens: Tokens,
    /// The number of sections that are not empty.
    pub sections: usize,
}

/// The author of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WrittenBy {
    /// Our own code, from the evidence.
    Code,
    /// A model.
    Model,
    /// An engine from outside, in its own words.
    Plugin,
    /// No checkpoint: a fixed notice with the number of removed messages.
    Fallback,
}

/// The price of a compaction, and the savings per later request. The dollars are `None` if the prices of the
/// model are unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CostReport {
    /// The tokens after the first change, which are no longer cached and have to be written to the cache
    /// again.
    pub cold_tokens: Tokens,
    /// The price of writing them to the cache, minus the price of reading them from it.
    pub usd: Option<f64>,
    /// The savings of each later request (not of each turn, as the name says).
    pub usd_saved_per_turn: Option<f64>,
}

/// The state of a session's compactions. A single compaction has no history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StateReport {
    /// Whether a fixed text had to replace a checkpoint.
    pub fallback_used: bool,
    /// The error of the last attempt to get a summary from a model.
    pub last_error: Option<String>,
    /// The auxiliary model that failed.
    pub auxiliary_failed: Option<String>,
    /// The number of compactions in a row that saved less than a tenth, this one included.
    pub ineffective_in_a_row: u32,
    /// The time until which automatic compaction is paused.
    pub paused_until: Option<String>,
    /// The number of seconds for which no model is asked for a summary.
    pub cooldown_seconds: u64,
}

/// The share of the tokens that a compaction has to save to count as effective.
const MIN_EFFECTIVE_SHARE: f64 = 0.10;

impl StateReport {
    /// Returns the state after a compaction that saved this share, given the number of ineffective ones
    /// directly before it.
    #[must_use]
    pub fn after(ineffective_before: u32, ratio: f64) -> Self {
        let ineffective_in_a_row = if ratio < MIN_EFFECTIVE_SHARE { ineffective_before + 1 } else { 0 };
        Self { ineffective_in_a_row, ..Self::default() }
    }
}

/// The kind of content in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ContentKind {
    /// A message to the model.
    Prompt,
    /// Text by the model.
    Reply,
    /// Reasoning by the model.
    Reasoning,
    /// A tool call.
    Call,
    /// The result of a tool call.
    Result,
    /// The checkpoint of an earlier compaction.
    Checkpoint,
    /// Content that we cannot interpret.
    Opaque,
    /// A stored page about the turns that one compaction removed.
    Page,
}

impl ContentKind {
    /// Classifies a block of a turn.
    #[must_use]
    pub fn classify(turn: &Turn<'_>, part: TurnBlock<'_, '_>) -> Self {
        match (part.role, &turn.kind) {
            (BlockRole::Call(_), _) => Self::Call,
            (BlockRole::Result { .. }, _) => Self::Result,
            (BlockRole::Content, TurnKind::Prompt { .. }) => Self::Prompt,
            (BlockRole::Content, TurnKind::Checkpoint(_)) => Self::Checkpoint,
            (BlockRole::Content, TurnKind::Opaque(_)) => Self::Opaque,
            (BlockRole::Content, TurnKind::Assistant { .. }) => match part.block.kind {
                BlockKind::Reasoning(_) => Self::Reasoning,
                _ => Self::Reply,
            },
        }
    }

    /// Returns the name that reports and the store use.
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

/// What happened to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// Unchanged. A report of the engine does not list such blocks.
    Kept,
    /// Shortened in place.
    Digested,
    /// Removed, but stored under its recall ID.
    Recallable,
    /// Removed and not stored.
    Lost,
}

/// The event that started a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// A person or program asked for it.
    #[default]
    Manual,
    /// A request near the threshold was about to be sent.
    Preflight,
    /// The usage of the last reply was over the threshold.
    Reply,
    /// The provider refused the request as too long.
    Error,
    /// The cache had expired anyway.
    Idle,
    /// The transcript had grown over the safety threshold between requests.
    Hygiene,
}

/// The measurements by which the engine `sacred-zone` sizes its recent zone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ZoneReport {
    /// The budget in tokens for the newest turns, which are not changed.
    pub recent: Tokens,
    /// The share of recent calls with a value that only older results contain.
    pub refers_back: f64,
    /// The number of recent calls per user message (not per turn, as the name says).
    pub calls_a_turn: f64,
    /// Whether the newest failure is not yet followed by a success.
    pub open_error: bool,
}

/// A step that was taken because the request was still too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EscalationStep {
    /// The action that was taken.
    pub step: EscalationAction,
    /// The tokens before and after it.
    pub tokens: [Tokens; 2],
}

/// An action for a request that is still too large, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EscalationAction {
    /// Shorten every result outside the protected zone to one line.
    DigestAll,
    /// Drop the oldest turns outside the protected zone.
    DropOldest,
    /// Begin a new session with only the pinned turns.
    Restart,
}

/// A session that was archived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionRestart {
    /// The ID of the archived session, if it is known.
    pub parent: Option<String>,
    /// The number of its messages that the new session does not contain.
    pub archived_messages: usize,
}
