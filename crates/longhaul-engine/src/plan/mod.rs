//! Decides whether and how to compact a transcript.
//!
//! ```text
//! transcript ──survey──▶ tokens of each turn ──engine──▶ Draft ──finalize──▶ ledger, rewrite, report
//! ```
//!
//! A plan is a value: nothing changes until somebody applies its rewrite. The report describes the result in
//! advance.
//!
//! This module may use `ledger`, `checkpoint` and the modules below them.

mod begin;
mod bounds;
mod checkpoint_draft;
mod compressor;
mod draft;
mod engine;
mod escalation;
mod finalize;
mod fit_to_size;
mod lossless;
mod observe;
mod own_checkpoint;
mod page;
mod proposal;
mod proposal_input;
mod protected_turns;
mod registry;
mod repair;
mod report;
mod sacred_zone;
mod summary_job;
mod survey;
mod workspace;

pub use report::{
    Advice, BeforeAfter, BlockReport, CheckpointReport, CompactionReport, ContentKind, CostReport, EscalationAction,
    EscalationStep, EvidenceReport, Fate, SUMMARIZED_REASON, SessionRestart, StateReport, TokensReport, Trigger,
    TurnsReport, WrittenBy, ZoneReport,
};

pub use compressor::Compressor;
pub use engine::{Engine, EngineSource, PlanInput, RequestSize, TriggerDecision};
pub use lossless::Lossless;
pub use proposal::{Proposal, ShorterText, compact_by_proposal};
pub use proposal_input::{InputBlock, InputMessage, ProposalInput};
pub use registry::EngineRegistry;
pub use sacred_zone::SacredZone;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block_cache::BlockCache;
use crate::checkpoint::Weights;
use crate::ledger::Ledger;
use crate::policy::Policy;
use crate::redact::{Redacted, Redactor, Rules, SessionKey};
use crate::summary::ModelSummary;
use crate::texts::keyed_id;
use crate::transcript::{Block, Transcript};
use crate::{CancelFlag, Rewrite, RewriteError, Tokens};

/// Whether somebody stores the original text of the blocks that a compaction removes or shortens.
#[derive(Debug, Clone, Default)]
pub enum Originals {
    /// Nobody stores them: the report counts removed blocks as lost, and no text mentions a recall ID.
    #[default]
    Discarded,
    /// The caller stores the originals under these recall IDs.
    Stored(RecallIds),
}

impl Originals {
    fn recall_ids(&self) -> Option<&RecallIds> {
        match self {
            Self::Stored(recall_ids) => Some(recall_ids),
            Self::Discarded => None,
        }
    }

    /// Returns the key that recall IDs are made with.
    fn key(&self) -> Option<&SessionKey> {
        self.recall_ids().map(|recall_ids| &recall_ids.key)
    }

    /// Returns the recall ID of a text, if originals are stored.
    fn recall_id(&self, text: &str) -> Option<String> {
        self.recall_ids().map(|recall_ids| recall_ids.for_text(text))
    }
}

/// Makes the recall IDs of a session: equal texts have equal IDs, and nobody can make an ID without the key.
#[derive(Debug, Clone)]
pub struct RecallIds {
    key: SessionKey,
    /// Texts that an earlier compaction put in place of others, each with the recall ID of the text that it
    /// replaced.
    replacements: BTreeMap<String, String>,
}

impl RecallIds {
    /// Creates the recall IDs of the session with this key.
    #[must_use]
    pub fn new(key: SessionKey) -> Self {
        Self { key, replacements: BTreeMap::new() }
    }

    /// Returns the recall ID of a text. A text that replaced another has the ID of the original.
    #[must_use]
    pub fn for_text(&self, text: &str) -> String {
        self.replacements.get(text).cloned().unwrap_or_else(|| keyed_id(&self.key, text))
    }

    /// Returns the recall ID of a block: that of its text, or of all its bytes if it has no text.
    #[must_use]
    pub fn for_block(&self, block: &Block<'_>) -> String {
        self.for_text(&if block.text.is_some() { block.text() } else { block.raw().into() })
    }

    /// Whether an earlier compaction wrote this text, so that its original is stored already.
    fn is_replacement(&self, text: &str) -> bool {
        self.replacements.contains_key(text)
    }

    /// Returns the recall IDs for the transcript that a ledger leaves: a shortened text leads to its original
    /// if it is shortened again or summarized.
    fn after_replay(&self, ledger: &Ledger, transcript: &Transcript<'_>) -> Self {
        let texts =
            ledger.texts().filter_map(|(at, text)| Some((text.to_owned(), self.for_block(transcript.block(at)?))));
        let replacements = texts.chain(self.replacements.clone()).collect();
        Self { key: self.key.clone(), replacements }
    }
}

/// A block as it was before it was removed or shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// The recall ID under which the caller stores it.
    pub recall_id: String,
    /// The index of the message that contained it, in the request after earlier decisions were replayed.
    pub message: usize,
    /// The kind of its content.
    pub kind: ContentKind,
    /// The tool that was called or that returned it, for calls and results.
    pub tool: Option<String>,
    /// Its text, which may contain secrets: redact it before you store it.
    pub text: String,
}

/// Whether the report counts the facts in shortened blocks. To count them, every shortened block has to be
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountFacts {
    /// Count them.
    #[default]
    Yes,
    /// Skip the count, because nobody will read it.
    No,
}

/// The options of one compaction that the policy does not contain. The default has none of them set.
#[derive(Debug, Clone, Default)]
pub struct CompactOptions {
    /// The event that started the compaction.
    pub trigger: Trigger,
    /// Whether to compact below the threshold as well.
    pub force: bool,
    /// The largest result in tokens, in place of the policy's target.
    pub to_tokens: Option<Tokens>,
    /// A topic that the checkpoint should keep before everything else.
    pub focus: Option<String>,
    /// Whether the caller stores originals.
    pub originals: Originals,
    /// The session's ID, which the report records if a new session has to begin.
    pub session_id: Option<String>,
    /// Whether the report counts facts.
    pub count_facts: CountFacts,
    /// The rules for secrets in the texts that are written.
    pub redaction_rules: Rules,
    /// The session's key. With it, the new checkpoint is signed, and only a checkpoint with a valid signature
    /// counts as ours.
    pub session_key: Option<SessionKey>,
    /// The exact texts of the checkpoints that the session is known to have.
    pub known_checkpoints: Vec<String>,
    /// The first message that must stay unchanged with everything after it; all messages before it may be
    /// removed. It is an index in the request after earlier decisions were replayed.
    pub keep_from: Option<usize>,
    /// A text that the host wants to keep; the checkpoint quotes it word for word.
    pub host_note: Option<Redacted>,
    /// A summary by a model of the turns that are removed, or of the older ones among them.
    pub summary: Option<ModelSummary>,
    /// What each kind of content of a checkpoint is worth, in place of the fitted weights. Only measurements set this.
    pub weights: Option<Arc<Weights>>,
    /// Cancels the plan between two phases.
    pub cancel: CancelFlag,
}

impl CompactOptions {
    /// Returns an error once the plan is cancelled.
    fn check_cancelled(&self) -> Result<(), RewriteError> {
        if self.cancel.is_cancelled() { Err(RewriteError::Cancelled) } else { Ok(()) }
    }

    /// Returns the redactor for the texts that are written. Texts that the cache knows to be free of secrets are
    /// not searched again.
    fn redactor(&self, cache: &BlockCache) -> Redactor {
        Redactor::with_clean_texts(self.redaction_rules.clone(), self.originals.key(), cache.clean_texts())
    }

    /// Returns what each kind of content of a checkpoint is worth.
    fn weights(&self) -> &Weights {
        self.weights.as_deref().unwrap_or_else(|| Weights::fitted())
    }

    /// Whether the caller asks for a compaction regardless of the threshold.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.force || self.to_tokens.is_some() || self.keep_from.is_some()
    }

    /// Returns the options for the transcript that a ledger leaves.
    fn after_replay(&self, ledger: &Ledger, transcript: &Transcript<'_>) -> Self {
        let own = ledger.checkpoint().map(str::to_owned);
        let checkpoints = self.known_checkpoints.iter().cloned().chain(own).collect();
        let recall_ids = self.originals.recall_ids().map(|ids| ids.after_replay(ledger, transcript));
        let originals = recall_ids.map_or(Originals::Discarded, Originals::Stored);
        Self { originals, known_checkpoints: checkpoints, ..self.clone() }
    }
}

/// Counts the tokens that no compaction of a request can remove: its system prompt, its tools, its newest
/// messages, lasting instructions, and the turns that the user protects.
#[must_use]
pub fn minimum_size(policy: &Policy, cache: &mut BlockCache, transcript: &Transcript<'_>) -> Tokens {
    let options = CompactOptions::default();
    let verified = own_checkpoint::VerifiedTranscript::new(policy, &options, transcript);
    let survey = survey::Survey::new(policy, &options, cache, &verified);
    survey.tokens_with_only(&survey.required_turns())
}

/// The result of planning. There is one at a time, so the size of its variants does not matter.
#[expect(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// The transcript stays as it is, for the reason in the report.
    Unchanged(CompactionReport),
    /// A rewrite that makes the transcript smaller.
    Ready(CompactedRequest),
}

impl Plan {
    fn report_mut(&mut self) -> &mut CompactionReport {
        let (Self::Unchanged(report) | Self::Ready(CompactedRequest { report, .. })) = self;
        report
    }
}

/// A request with its compaction worked out.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactedRequest {
    /// The changes to the original request body.
    pub rewrite: Rewrite,
    /// The request body with the rewrite applied.
    pub body: String,
    /// The decisions, to be replayed when the client sends the same history again.
    pub ledger: Ledger,
    /// The description of the compaction.
    pub report: CompactionReport,
    /// The blocks that were removed or shortened, if the caller stores originals; empty otherwise.
    pub originals: Vec<Original>,
}
