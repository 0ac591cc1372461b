//! The decisions of a compaction while it is worked out: which blocks get which text, and which turns are
//! removed.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{
    BlockReport, CheckpointReport, ContentKind, EscalationAction, EscalationStep, EvidenceReport, Fate,
    SUMMARIZED_REASON, SessionRestart,
};
use super::survey::{EditableResult, MAX_FOCUS_BYTES, Survey};
use super::{CountFacts, Original, Originals};
use crate::Tokens;
use crate::checkpoint::RecallPage;
use crate::digest::{self, Focus, ToolOutput};
use crate::facts::Facts;
use crate::host_text;
use crate::insertion_point::removed_messages;
use crate::ledger::PlacedText;
use crate::passes::NewText;
use crate::summary::AuditFinding;
use crate::transcript::{Block, BlockKind, BlockPosition, BlockRole, Seal, TurnBlock, TurnKind};

/// A block that gets another text, with its tokens before and after.
#[derive(Debug, Clone)]
pub(super) struct BlockChange {
    pub(super) new_text: NewText,
    pub(super) reason: &'static str,
    pub(super) before: Tokens,
    pub(super) after: Tokens,
}

/// The decisions so far, and the tokens of the request with them.
#[derive(Clone)]
pub(super) struct Draft<'s, 't, 'b> {
    pub(super) survey: &'s Survey<'t, 'b>,
    /// The tokens of the request, without the replacement of removed turns.
    pub(super) total: Tokens,
    pub(super) changes: BTreeMap<BlockPosition, BlockChange>,
    /// The turns to remove.
    pub(super) removed_turns: BTreeSet<usize>,
    /// The text that replaces the removed turns.
    pub(super) replacement: Replacement,
    /// Results for calls that have none.
    pub(super) stubs: BTreeMap<BlockPosition, String>,
    /// The steps that were taken because the request was still too large, in order.
    pub(super) escalation: Vec<EscalationStep>,
    /// Notes for the report.
    pub(super) notes: Vec<String>,
}

/// The text in place of removed turns.
#[derive(Debug, Clone, Default)]
pub(super) enum Replacement {
    /// No text: no turn is removed, or only orphaned results are.
    #[default]
    Nothing,
    /// A notice with the number of removed messages.
    CountOnly(PlacedText),
    /// A checkpoint that summarizes them.
    Checkpoint(CheckpointDraft),
}

/// A new checkpoint with its position and the figures for the report.
#[derive(Debug, Clone)]
pub(super) struct CheckpointDraft {
    pub(super) placed: PlacedText,
    pub(super) report: CheckpointReport,
    /// The number of items that the checkpoint could have mentioned.
    pub(super) evidence_found: usize,
    /// The number of items that it mentions.
    pub(super) evidence_kept: usize,
    /// The corrections to a model's summary.
    pub(super) findings: Vec<AuditFinding>,
    /// The reason why a supplied summary was not used.
    pub(super) unused_summary_note: Option<String>,
    /// The pages that were written together with it.
    pub(super) pages: Vec<RecallPage>,
}

impl Replacement {
    pub(super) fn placed_text(&self) -> Option<&PlacedText> {
        match self {
            Self::Nothing => None,
            Self::CountOnly(placed) => Some(placed),
            Self::Checkpoint(checkpoint) => Some(&checkpoint.placed),
        }
    }

    pub(super) fn checkpoint(&self) -> Option<&CheckpointDraft> {
        match self {
            Self::Checkpoint(checkpoint) => Some(checkpoint),
            Self::Nothing | Self::CountOnly(_) => None,
        }
    }
}

/// The length of a shortened result.
#[derive(Clone, Copy)]
pub(super) enum DigestLength {
    /// At most this many tokens.
    Budget(Tokens),
    /// One line, with the errors if the call failed.
    OneLine,
}

impl<'s, 't, 'b> Draft<'s, 't, 'b> {
    pub(super) fn new(survey: &'s Survey<'t, 'b>) -> Self {
        Self {
            survey,
            total: survey.total,
            changes: BTreeMap::new(),
            removed_turns: BTreeSet::new(),
            replacement: Replacement::Nothing,
            stubs: BTreeMap::new(),
            escalation: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether no block changes and no turn is removed.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.removed_turns.is_empty()
    }

    fn originals(&self) -> &'t Originals {
        &self.survey.options.originals
    }

    /// Replaces the text of a block and updates the total.
    pub(super) fn replace_text(&mut self, at: BlockPosition, to: NewText, why: &'static str) {
        let Some(to) = self.append_relayed_text(at, to) else { return };
        let (NewText::Text(text) | NewText::Mark(text)) = &to;
        let before = self.survey.tokens_of_block(at);
        let after = self.survey.meter.counter.count(text);
        let now = self.changes.get(&at).map_or(before, |changed| changed.after);
        self.total = self.total + after - now;
        self.changes.insert(at, BlockChange { new_text: to, reason: why, before, after });
    }

    /// Appends the text that the host relayed after a result to its new text. Returns `None` if the outcome
    /// is not shorter.
    fn append_relayed_text(&self, at: BlockPosition, to: NewText) -> Option<NewText> {
        let part = self.survey.transcript.blocks_of_turn(at.unit).nth(at.block);
        let result = part.filter(|part| matches!(part.role, BlockRole::Result { .. }));
        let (NewText::Text(short), Some(TurnBlock { block, .. })) = (&to, result) else { return Some(to) };
        let text = block.text();
        if host_text::find_trailing(&text).is_none() {
            return Some(to);
        }
        let recall =
            self.originals().recall_id(&text).map_or_else(String::new, |recall_id| format!(" (recall {recall_id})"));
        let carried = host_text::append_relayed(&text, host_text::without_trailing(short), &format!(" […]{recall}"));
        (carried.len() < text.len()).then_some(NewText::Text(carried))
    }

    /// Adds a result for a call that has none, and counts it with the JSON around it.
    pub(super) fn add_stub_result(&mut self, call: BlockPosition, text: &str) {
        const STUB_FRAMING_TOKENS: Tokens = Tokens(24);
        if self.stubs.insert(call, text.to_owned()).is_none() {
            self.total += self.survey.meter.counter.count(text) + STUB_FRAMING_TOKENS;
        }
    }

    /// Returns the draft without the repairs of calls and results, or `None` if it has no repairs.
    pub(super) fn without_repairs(&self) -> Option<Self> {
        let removed_only_orphans = matches!(self.replacement, Replacement::Nothing) && !self.removed_turns.is_empty();
        if self.stubs.is_empty() && !removed_only_orphans {
            return None;
        }
        let mut draft = self.clone();
        draft.stubs.clear();
        if removed_only_orphans {
            self.removed_turns.iter().for_each(|turn| draft.restore_turn(*turn));
        }
        Some(draft)
    }

    /// Restores the original text of a block.
    pub(super) fn restore_block(&mut self, at: BlockPosition) {
        if let Some(BlockChange { before, after, .. }) = self.changes.remove(&at) {
            self.total = self.total + before - after;
        }
    }

    /// Shortens a result, if that saves tokens compared with the current decision.
    pub(super) fn shorten_result(&mut self, result: EditableResult<'t, 'b>, length: DigestLength) {
        let text = result.block.text();
        let Some(short) = self.shorter_text(&result, &text, length) else { return };
        let after = self.survey.meter.counter.count(&short);
        let now = self
            .changes
            .get(&result.position)
            .map_or(self.survey.tokens_of_block(result.position), |changed| changed.after);
        if short == *text || after >= now {
            return;
        }
        let why = match length {
            DigestLength::Budget(_) => "a large output before the protected end",
            DigestLength::OneLine => "a larger digest would have missed the target",
        };
        self.replace_text(result.position, NewText::Text(short), why);
    }

    /// Returns a shorter text for a result, or `None` for a short form that cannot become shorter without
    /// becoming wrong.
    fn shorter_text(&self, result: &EditableResult<'t, 'b>, text: &str, length: DigestLength) -> Option<String> {
        let tool_call = result.tool_call;
        let (whole, text) = (text, host_text::without_trailing(text));
        if digest::is_digest(text, &tool_call.tool) {
            return match length {
                DigestLength::Budget(_) => None,
                DigestLength::OneLine => digest::shorten_to_first_line(text),
            };
        }
        // One line has no room for details about the task.
        let focus = match length {
            DigestLength::Budget(_) => self.focus_of_turn(result.position.unit),
            DigestLength::OneLine => Focus::none(),
        };
        let arguments = tool_call.call.as_ref().map(Block::text);
        let recall_id = self.originals().recall_id(whole);
        let source = ToolOutput {
            text,
            original_bytes: None,
            tool: Some(&*tool_call.tool).filter(|name| !name.is_empty()),
            arguments: arguments.as_deref(),
            kind: None,
            failed: tool_call.failed,
            focus: &focus,
            recall_id: recall_id.as_deref(),
        };
        Some(match length {
            DigestLength::Budget(budget) => digest::digest(&source, budget).text,
            DigestLength::OneLine => digest::one_line_digest(&source).text,
        })
    }

    /// Returns the topic of the task for this turn: the newest prompt, and the beginnings of the next two
    /// assistant turns.
    fn focus_of_turn(&self, turn: usize) -> Focus {
        let transcript = self.survey.transcript;
        let is_step = |turn: &usize| matches!(transcript.turns[*turn].kind, TurnKind::Assistant { .. });
        let is_result = |part: &TurnBlock<'_, '_>| matches!(part.role, BlockRole::Result { .. });
        let next = (turn + 1..transcript.turns.len()).filter(is_step).take(2);
        let replies = next.flat_map(|turn| transcript.blocks_of_turn(turn).filter(|part| !is_result(part)).take(8));
        let openings: Vec<_> = replies.map(|part| part.block.opening(MAX_FOCUS_BYTES)).collect();
        Focus::from_texts(
            self.survey.task_openings.iter().map(String::as_str).chain(openings.iter().map(AsRef::as_ref)),
        )
    }

    /// Returns the tokens of a turn after the decisions so far.
    pub(super) fn turn_tokens(&self, turn: usize) -> Tokens {
        let changes_of_turn = self.changes.range(BlockPosition::range_of_turn(turn));
        let (before, after) = changes_of_turn.fold((Tokens::ZERO, Tokens::ZERO), |(before, after), (_, changed)| {
            (before + changed.before, after + changed.after)
        });
        self.survey.turn_tokens[turn] + after - before
    }

    /// Removes a turn.
    pub(super) fn remove_turn(&mut self, turn: usize) {
        if self.removed_turns.insert(turn) {
            self.total = self.total - self.turn_tokens(turn);
        }
    }

    /// Restores a removed turn.
    pub(super) fn restore_turn(&mut self, turn: usize) {
        if self.removed_turns.remove(&turn) {
            self.total += self.turn_tokens(turn);
        }
    }

    /// Counts the messages that disappear.
    pub(super) fn count_removed_messages(&self) -> usize {
        removed_messages(self.survey.transcript, &self.removed_turns).iter().filter(|gone| **gone).count()
    }

    /// Returns the session that is left behind, if a new one has to begin.
    pub(super) fn restart(&self) -> Option<SessionRestart> {
        let parent = self.survey.options.session_id.clone();
        let restarts = self.escalation.iter().any(|taken| taken.step == EscalationAction::Restart);
        restarts.then(|| SessionRestart { parent, archived_messages: self.count_removed_messages() })
    }

    /// Returns the changed blocks whose turns stay.
    pub(super) fn changes_in_kept_turns(&self) -> impl Iterator<Item = (&BlockPosition, &BlockChange)> {
        self.changes.iter().filter(|(at, _)| !self.removed_turns.contains(&at.unit))
    }

    /// Returns the sealed reasoning after the first change, which a model refuses if it binds reasoning to
    /// its prefix. The reasoning of an open last turn stays, because the provider requires it there; it may
    /// still be refused.
    pub(super) fn invalidated_reasoning(&self) -> BTreeSet<BlockPosition> {
        let turns = &self.survey.transcript.turns;
        let changed = self.changes.keys().map(|at| at.unit + 1);
        let Some(first) = changed.chain(self.removed_turns.iter().copied()).min() else {
            return BTreeSet::new();
        };
        // The last turn is open if it has tool calls: the reply to their results is still to come.
        let last_open = turns.len().checked_sub(1).filter(|at| !turns[*at].tool_calls().is_empty());
        let stays = |at: &usize| !self.removed_turns.contains(at) && Some(*at) != last_open;
        let parts = (first..turns.len()).filter(stays).flat_map(|turn| self.survey.transcript.blocks_of_turn(turn));
        let sealed = parts.filter(|part| part.block.kind == BlockKind::Reasoning(Seal::Sealed));
        sealed.map(|part| part.position).collect()
    }

    /// Describes every changed block, and collects the originals if they are stored.
    pub(super) fn summarize_changes(&self, invalidated: &BTreeSet<BlockPosition>) -> ChangeSummary {
        let (gone, facts) = match self.replacement {
            // A checkpoint counts the facts of the turns that it replaces by itself.
            Replacement::Checkpoint(_) => (SUMMARIZED_REASON, CountFacts::No),
            Replacement::CountOnly(_) => ("the window was full", self.survey.options.count_facts),
            Replacement::Nothing => {
                ("a result without a call, which the provider refuses", self.survey.options.count_facts)
            }
        };
        let mut summary = ChangeSummary::default();
        let changed_turns =
            self.changes_in_kept_turns().map(|(at, _)| at.unit).chain(invalidated.iter().map(|at| at.unit));
        let changed_turns: BTreeSet<usize> = changed_turns.chain(self.removed_turns.iter().copied()).collect();
        for turn in changed_turns {
            for part in self.survey.transcript.blocks_of_turn(turn) {
                let changed = self.changes.get(&part.position);
                let before = self.survey.tokens_of_block(part.position);
                let removed = |reason| BlockResult { text: "", tokens: [before, Tokens::ZERO], reason };
                let result = match changed {
                    _ if self.removed_turns.contains(&turn) => removed(gone),
                    _ if invalidated.contains(&part.position) => removed("bound to what was changed before it"),
                    Some(BlockChange {
                        new_text: NewText::Text(text) | NewText::Mark(text),
                        reason,
                        before,
                        after,
                    }) => BlockResult { text, tokens: [*before, *after], reason },
                    None => continue,
                };
                self.record_change(&mut summary, part, &result, facts);
            }
        }
        if let Some(CheckpointDraft { evidence_found: found, evidence_kept: kept, pages, .. }) =
            self.replacement.checkpoint()
        {
            summary.evidence.add(*found, *kept, self.originals());
            let at = summary.originals.first().map_or(0, |first| first.message);
            summary.originals.extend(pages.iter().map(|RecallPage { recall_id, text }| Original {
                recall_id: recall_id.clone(),
                message: at,
                kind: ContentKind::Page,
                tool: None,
                text: text.clone(),
            }));
        }
        if !summary.rows.is_sorted_by_key(|row| row.at) {
            summary.rows.sort_by_key(|row| row.at);
        }
        summary
    }

    fn record_change(
        &self,
        summary: &mut ChangeSummary,
        part: TurnBlock<'_, 'b>,
        result: &BlockResult<'_>,
        facts: CountFacts,
    ) {
        let (block, what) =
            (part.block, ContentKind::classify(&self.survey.transcript.turns[part.position.unit], part));
        let text = || if block.text.is_some() { block.text() } else { block.raw().into() };
        let fate = match self.originals() {
            _ if !result.text.is_empty() => Fate::Digested,
            Originals::Discarded => Fate::Lost,
            Originals::Stored(_) => Fate::Recallable,
        };
        if block.text.is_some() && what != ContentKind::Reasoning && facts == CountFacts::Yes {
            let text = text();
            let facts = Facts::scan(&text);
            summary.evidence.add(facts.all.len(), facts.count_kept_in(result.text), self.originals());
        }
        let at = self.survey.message_of_block(part.position.unit, block);
        let tool = part.role.tool_call().map(|tool_call| tool_call.tool.clone().into_owned());
        let mut recall_id = None;
        if let Originals::Stored(recall_ids) = self.originals() {
            let text = text();
            let id = recall_ids.for_text(&text);
            recall_id = Some(id.clone());
            if !recall_ids.is_replacement(&text) {
                let (tool, text) = (tool.clone(), text.into_owned());
                summary.originals.push(Original { recall_id: id, message: at, kind: what, tool, text });
            }
        }
        let (tokens, why) = (result.tokens, result.reason);
        summary.rows.push(BlockReport { handle: recall_id, at, what, tool, fate, tokens, why });
    }
}

/// The new text of a block (empty if the block is removed) and the reason.
struct BlockResult<'a> {
    text: &'a str,
    tokens: [Tokens; 2],
    reason: &'static str,
}

/// The changed blocks as report rows, with their originals and the count of facts.
#[derive(Default)]
pub(super) struct ChangeSummary {
    pub(super) rows: Vec<BlockReport>,
    pub(super) originals: Vec<Original>,
    pub(super) evidence: EvidenceReport,
}
