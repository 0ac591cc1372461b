//! The input and the output of writing a checkpoint.

use std::collections::BTreeSet;

use super::weights::Weights;
use super::{Checkpoint, Notes, QuotedLines, Section};
use crate::evidence::Evidence;
use crate::redact::Redacted;
use crate::texts::{CheckpointMarker, EarlierWorkNode};
use crate::tokens::{TokenCounter, Tokens};
use crate::transcript::BlockPosition;

/// A function that calls another one with each of several texts.
pub(crate) type TextVisit<'d> = dyn Fn(&mut dyn FnMut(&str)) + 'd;

/// Everything that a checkpoint is made from.
#[derive(Clone, Copy)]
pub struct CheckpointInput<'d> {
    /// The facts of the session that a checkpoint can quote.
    pub evidence: &'d Evidence,
    /// Returns whether the turn with this index is summarized.
    pub is_summarized: &'d dyn Fn(usize) -> bool,
    /// The checkpoint that the new one replaces.
    pub previous: Option<&'d Checkpoint>,
    /// The index of the turn with that checkpoint.
    pub previous_turn: Option<usize>,
    /// The nodes for the section Earlier Work. They are copied unchanged.
    pub earlier_work: &'d [EarlierWorkNode],
    /// The number of the last action before the summarized turns.
    pub last_action_before: u32,
    /// A model's summary that passed the audit.
    pub notes: Option<SummaryNotes<'d>>,
    /// The quoted lines about the topic of `--focus`.
    pub topic_quotes: &'d [QuotedLines],
    /// The text that the host asked to keep.
    pub host_note: Option<&'d QuotedLines>,
    /// Returns the text of the result of the tool use at this position.
    pub result_text: &'d dyn Fn(BlockPosition) -> String,
    /// Calls a function with each text that stays in the request: the system prompt and the turns that are not summarized.
    pub visit_kept_texts: &'d TextVisit<'d>,
    /// Returns the recall ID of a block, if originals are stored.
    pub recall_id: &'d dyn Fn(BlockPosition) -> Option<String>,
    /// The tokens that the checkpoint may use.
    pub budget: Tokens,
    /// The token counter of the model that reads the checkpoint.
    pub counter: TokenCounter,
    /// The index of the turn with the answer that the newest user message replies to.
    pub replied_to_turn: Option<usize>,
    /// The topic that the user asked to keep above all else.
    pub focus: Option<&'d str>,
    /// What each kind of candidate is worth.
    pub weights: &'d Weights,
    /// The first and last line of the checkpoint.
    pub marker: &'d CheckpointMarker,
}

/// A model's summary of some of the turns.
#[derive(Clone, Copy)]
pub struct SummaryNotes<'d> {
    /// The name of the author, on one line.
    pub author: &'d Redacted,
    /// The summary, without what the audit removed.
    pub notes: &'d Notes,
    /// The indices of the turns that the summary is about.
    pub turns: &'d BTreeSet<usize>,
    /// Facts that the audit found in the summary in a wrong place, each with its origin.
    pub moved: &'d [Redacted],
    /// The tool calls whose outcome the summary reported wrongly.
    pub misreported: &'d BTreeSet<BlockPosition>,
}

/// A checkpoint and the figures about how it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenCheckpoint {
    /// The content of the checkpoint.
    pub checkpoint: Checkpoint,
    /// The rendered text.
    pub text: String,
    /// The tokens of the rendered text.
    pub tokens: Tokens,
    /// The number of candidates that the evidence offered.
    pub candidates_found: usize,
    /// The number of candidates that the checkpoint contains.
    pub candidates_kept: usize,
    /// The number of the last action of the summarized turns, whether it is listed or not.
    pub last_action: u32,
    /// The candidates that the model's summary left out and that the checkpoint contains nevertheless.
    pub restored: Vec<(Section, Redacted)>,
}
