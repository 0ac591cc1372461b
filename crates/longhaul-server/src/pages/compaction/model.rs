//! The data of a compaction's page, before it becomes markup.

use std::collections::{BTreeMap, HashMap};

use longhaul_engine::action::Actions;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{self, CachingMode};
use longhaul_engine::meter::{Meter, TokenBreakdown};
use longhaul_engine::models::Model;
use longhaul_engine::plan::ContentKind;
use longhaul_engine::transcript::{BlockKind, TurnKind};
use longhaul_engine::wire::Role;
use longhaul_engine::{ApiFormat, Tokens};

use super::align::{self, BlockEquality, BlockMatch};
use super::block_text::SecretHandling;
use super::caching::{CacheView, list_breakpoints};
use super::checkpoint::{CheckpointView, ItemFinder, SummarizedTurn};
use super::parsed_report::{ChangedBlock, ParsedReport};
use super::side::{ParsedSide, SideMessages};
use crate::pages::Fate;

/// The two requests of a compaction, and the facts needed to show them.
pub struct CompactionInput<'s> {
    /// The request body before the compaction.
    pub before: &'s str,
    /// The request body after it; the same text if nothing changed.
    pub after: &'s str,
    /// The API format of both, if it is known.
    pub api_format: Option<ApiFormat>,
    /// The report of the compaction.
    pub report: ParsedReport,
    /// The model whose tokens are counted.
    pub model: &'s Model,
    /// The way in which the provider caches.
    pub caching_mode: CachingMode,
    /// The same as a sentence.
    pub caching_status: String,
}

/// One compaction, ready to be rendered.
pub struct CompactionView {
    /// The report of the compaction.
    pub report: ParsedReport,
    /// The tokens by part of the request, before and after.
    pub token_breakdowns: [TokenBreakdown; 2],
    /// The content before the messages.
    pub preamble: Preamble,
    /// The messages before the compaction in order, with the new ones inserted at their place.
    pub messages: Vec<ComparedMessage>,
    /// The checkpoint, if the compaction wrote one.
    pub checkpoint: Option<CheckpointView>,
    /// The provider's cache before and after.
    pub caching: CacheView,
}

/// The content before the messages, which no compaction changes.
#[derive(Debug, Clone, Default)]
pub struct Preamble {
    /// The blocks of the system prompt.
    pub system: Vec<String>,
    /// The number of tool definitions.
    pub tools: usize,
}

/// A message before the compaction, compared with the one after it.
#[derive(Debug, Clone)]
pub struct ComparedMessage {
    /// The index of the message before; none if it is new.
    pub before: Option<usize>,
    /// The index of the message after; none if it was removed.
    pub after: Option<usize>,
    /// The role of the message.
    pub role: MessageRole,
    /// The effect of the compaction on the message.
    pub fate: Fate,
    /// The blocks that the message had before.
    pub blocks: Vec<ComparedBlock>,
    /// The content that was added to the message.
    pub added: Vec<AddedContent>,
}

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRole {
    /// A system or developer message.
    System,
    /// A user message.
    User,
    /// A message of the model.
    Assistant,
    /// A tool result.
    Tool,
    /// An item whose role is not known.
    Unknown,
}

/// A block before the compaction, compared with the one after it.
#[derive(Debug, Clone)]
pub struct ComparedBlock {
    /// The kind of the block.
    pub kind: ContentKind,
    /// The tool of a call or result.
    pub tool: Option<String>,
    /// The effect of the compaction on the block.
    pub fate: Fate,
    /// The tokens of the block before and after.
    pub tokens: [Tokens; 2],
    /// The text before.
    pub before: String,
    /// The text that replaced it; none if the block is unchanged or removed.
    pub after: Option<String>,
    /// The reason for the change, from the report.
    pub reason: Option<String>,
    /// The recall ID of the original, if it is stored.
    pub recall_id: Option<String>,
    /// The index of the checkpoint item that covers the block.
    pub checkpoint_item: Option<usize>,
}

/// Content that the compaction added.
#[derive(Debug, Clone)]
pub enum AddedContent {
    /// The checkpoint.
    Checkpoint,
    /// Another text.
    Text(String),
}

impl CompactionView {
    /// Compares the two requests; nothing if one of them cannot be parsed.
    #[must_use]
    pub fn new(sides: CompactionInput<'_>, secrets: &mut SecretHandling, cache: &mut BlockCache) -> Option<Self> {
        let before = ParsedSide::parse(sides.api_format, sides.before)?;
        let after = ParsedSide::parse(Some(before.transcript.api_format), sides.after)?;
        let meter = Meter::for_model(sides.model);
        let parts = [&before, &after].map(|side| meter.breakdown(cache, &side.transcript));
        let cached_prefix =
            cache::cached_prefix(&before.prompt_order, &after.transcript, &after.prompt_order, sides.model, cache);
        let first_uncached = cached_prefix.difference.map(|difference| difference.message.unwrap_or(0) as usize);
        let caching = CacheView {
            status: sides.caching_status,
            before: list_breakpoints(&before, &sides.caching_mode, sides.model, cache),
            after: list_breakpoints(&after, &sides.caching_mode, sides.model, cache),
            first_uncached_message: first_uncached,
        };
        let (old, new) = (before.messages(), after.messages());
        let matches = align::match_messages(&old, &new);
        let mut builder = ViewBuilder {
            changed_blocks: group_changed_blocks(&sides.report),
            old: &old,
            new: &new,
            secrets,
            block_cache: cache,
            meter,
            checkpoint: None,
            // Blocks that an earlier compaction summarized count as summarized, although this report has no
            // checkpoint.
            was_summarized: sides.report.checkpoint.is_some() || (has_checkpoint(&after) && !has_checkpoint(&before)),
        };
        let mut messages = builder.build_messages(&matches);
        let checkpoint = builder.checkpoint.take();
        let checkpoint = checkpoint.map(|view| link_checkpoint_items(view, &before, &mut messages));
        let checkpoint = checkpoint.map(|view| CheckpointView {
            tokens: sides.report.checkpoint.as_ref().map_or(view.tokens, |stats| stats.tokens),
            replaced_messages: messages.iter().filter(|(message, _)| message.fate == Fate::Summarized).count(),
            ..view
        });
        let messages = messages.into_iter().map(|(message, _)| message).collect();
        let preamble = build_preamble(&before, secrets);
        Some(Self { report: sides.report, token_breakdowns: parts, preamble, messages, checkpoint, caching })
    }

    /// Counts the blocks with this fate.
    #[must_use]
    pub fn count_blocks(&self, fate: Fate) -> usize {
        self.messages.iter().flat_map(|message| &message.blocks).filter(|block| block.fate == fate).count()
    }

    /// Counts the messages with this fate, without new ones.
    #[must_use]
    pub fn count_messages(&self, fate: Fate) -> usize {
        self.messages.iter().filter(|message| message.before.is_some() && message.fate == fate).count()
    }
}

fn has_checkpoint(side: &ParsedSide<'_>) -> bool {
    side.transcript.turns.iter().any(|turn| matches!(turn.kind, TurnKind::Checkpoint(_)))
}

/// A message, and for each of its blocks the index of its turn.
type MessageWithTurns = (ComparedMessage, Vec<usize>);

/// Groups the changed blocks of a report by message and kind, in reverse order, so that `pop` returns the
/// first one.
fn group_changed_blocks(report: &ParsedReport) -> HashMap<(usize, String), Vec<ChangedBlock>> {
    let mut rows: HashMap<(usize, String), Vec<ChangedBlock>> = HashMap::new();
    for row in report.blocks.iter().rev() {
        rows.entry((row.message, row.kind.clone())).or_default().push(row.clone());
    }
    rows
}

struct ViewBuilder<'p, 't, 'b> {
    changed_blocks: HashMap<(usize, String), Vec<ChangedBlock>>,
    old: &'p SideMessages<'t, 'b>,
    new: &'p SideMessages<'t, 'b>,
    secrets: &'p mut SecretHandling,
    block_cache: &'p mut BlockCache,
    meter: Meter,
    checkpoint: Option<CheckpointView>,
    /// Whether a checkpoint summarizes the removed blocks.
    was_summarized: bool,
}

impl ViewBuilder<'_, '_, '_> {
    /// Builds all messages in the order before the compaction. A new message is put before the messages that
    /// it replaced.
    fn build_messages(&mut self, matches: &[Option<usize>]) -> Vec<MessageWithTurns> {
        let mut next_after = vec![self.new.count(); matches.len()];
        matches.iter().enumerate().rev().fold(self.new.count(), |next, (at, after)| {
            next_after[at] = after.unwrap_or(next);
            next_after[at]
        });
        let mut messages = Vec::with_capacity(matches.len() + 1);
        let mut next = 0;
        for (before, after) in matches.iter().enumerate() {
            messages.extend((next..next_after[before]).map(|after| self.build_added_message(after)));
            next = after.map_or(next_after[before], |after| after + 1);
            // The page shows the system prompt above all messages, so a message that only contains it is
            // skipped.
            if !self.old.turn_blocks[before].is_empty() || self.old.role(before) != Some(Role::System) {
                messages.push(self.build_message(before, *after));
            }
        }
        messages.extend((next..self.new.count()).map(|after| self.build_added_message(after)));
        messages
    }

    fn build_message(&mut self, before: usize, after: Option<usize>) -> MessageWithTurns {
        let old = self.old.comparable_blocks(before);
        let new = after.map(|after| self.new.comparable_blocks(after)).unwrap_or_default();
        let block_matches = align::match_blocks(&old, &new);
        let mut pieces = Vec::with_capacity(old.len());
        for (at, block) in old.iter().enumerate() {
            pieces.push(self.build_block(
                before,
                at,
                block.content_kind,
                block.tool.as_deref(),
                after.zip(block_matches[at]),
            ));
        }
        let is_used = |at: usize| block_matches.iter().flatten().any(|found| found.block == at);
        let added_blocks: Vec<usize> = (0..new.len()).filter(|at| !is_used(*at)).collect();
        let added = added_blocks
            .into_iter()
            .filter_map(|at| self.build_added_content(after?, at, new[at].content_kind))
            .collect();
        let turns = self.old.turn_blocks[before].iter().map(|part| part.position.unit).collect();
        let role = message_role(self.old.role(before));
        let fate = message_fate(&pieces, after);
        (ComparedMessage { before: Some(before), after, role, fate, blocks: pieces, added }, turns)
    }

    /// Builds a message that exists only after the compaction.
    fn build_added_message(&mut self, after: usize) -> MessageWithTurns {
        let kinds: Vec<ContentKind> =
            self.new.comparable_blocks(after).iter().map(|block| block.content_kind).collect();
        let added =
            kinds.into_iter().enumerate().filter_map(|(at, kind)| self.build_added_content(after, at, kind)).collect();
        let role = message_role(self.new.role(after));
        (
            ComparedMessage { before: None, after: Some(after), role, fate: Fate::Kept, blocks: Vec::new(), added },
            Vec::new(),
        )
    }

    fn build_added_content(&mut self, after: usize, at: usize, kind: ContentKind) -> Option<AddedContent> {
        let block = self.new.turn_blocks.get(after)?.get(at)?.block;
        let text = self.secrets.block_text(block);
        if kind == ContentKind::Checkpoint && self.checkpoint.is_none() {
            let tokens = self.meter.count_block(self.block_cache, block).number();
            self.checkpoint = Some(CheckpointView { tokens, ..CheckpointView::parse(&text) });
            return Some(AddedContent::Checkpoint);
        }
        Some(AddedContent::Text(text))
    }

    fn build_block(
        &mut self,
        message: usize,
        at: usize,
        kind: ContentKind,
        tool: Option<&str>,
        block_match: Option<(usize, BlockMatch)>,
    ) -> ComparedBlock {
        let block = self.old.turn_blocks[message][at].block;
        let before = self.secrets.block_text(block);
        let size = self.meter.count_block(self.block_cache, block);
        let after = block_match.and_then(|(after, found)| {
            Some((self.new.turn_blocks.get(after)?.get(found.block)?.block, found.equality))
        });
        let row = match after {
            Some((_, BlockEquality::Identical)) => None,
            _ => self.changed_blocks.get_mut(&(message, kind.name().to_owned())).and_then(Vec::pop),
        };
        let (fate, size_after, text) = match after {
            Some((_, BlockEquality::Identical)) => (Fate::Kept, size, None),
            Some((after, BlockEquality::Changed)) => {
                (Fate::Shortened, self.meter.count_block(self.block_cache, after), Some(self.secrets.block_text(after)))
            }
            // Reasoning that was bound to a changed text is removed without a summary.
            None if self.was_summarized && kind != ContentKind::Reasoning => (Fate::Summarized, Tokens::ZERO, None),
            None => (Fate::Removed, Tokens::ZERO, None),
        };
        ComparedBlock {
            kind,
            tool: tool.filter(|tool| !tool.is_empty()).map(str::to_owned),
            fate,
            tokens: [size, size_after],
            before,
            after: text,
            reason: row.as_ref().map(|row| row.reason.clone()).filter(|reason| !reason.is_empty()),
            recall_id: row.and_then(|row| row.recall_id),
            checkpoint_item: None,
        }
    }
}

/// Derives the fate of a message from the fates of its blocks.
fn message_fate(pieces: &[ComparedBlock], after: Option<usize>) -> Fate {
    let any = |fate: Fate| pieces.iter().any(|piece| piece.fate == fate);
    match after {
        Some(_) if pieces.iter().all(|piece| piece.fate == Fate::Kept) => Fate::Kept,
        Some(_) => Fate::Shortened,
        None if any(Fate::Summarized) => Fate::Summarized,
        None => Fate::Removed,
    }
}

/// Finds the checkpoint item for each summarized block.
fn link_checkpoint_items(
    view: CheckpointView,
    before: &ParsedSide<'_>,
    messages: &mut [MessageWithTurns],
) -> CheckpointView {
    let summarized = |piece: &ComparedBlock| piece.fate == Fate::Summarized;
    let mut calls: BTreeMap<usize, String> = BTreeMap::new();
    for (message, turns) in messages.iter() {
        for (piece, turn) in message.blocks.iter().zip(turns).filter(|(piece, _)| summarized(piece)) {
            let calls_text = calls.entry(*turn).or_default();
            if piece.kind == ContentKind::Call {
                calls_text.push_str(&piece.before);
            }
        }
    }
    let summarized_turns: Vec<SummarizedTurn> =
        calls.into_iter().map(|(turn, calls)| SummarizedTurn { turn, calls_text: calls }).collect();
    let finder = ItemFinder::new(&view, &Actions::from_transcript(&before.transcript), &summarized_turns);
    for (message, turns) in messages {
        for (piece, turn) in message.blocks.iter_mut().zip(turns).filter(|(piece, _)| summarized(piece)) {
            piece.checkpoint_item = finder.find(*turn, piece.kind, piece.recall_id.as_deref(), &piece.before);
        }
    }
    view
}

fn build_preamble(before: &ParsedSide<'_>, secrets: &mut SecretHandling) -> Preamble {
    let blocks = &before.transcript.preamble;
    let is_tool = |kind: BlockKind| kind == BlockKind::Tool;
    let system = blocks.iter().filter(|block| !is_tool(block.kind)).map(|block| secrets.block_text(block)).collect();
    Preamble { system, tools: blocks.iter().filter(|block| is_tool(block.kind)).count() }
}

fn message_role(role: Option<Role>) -> MessageRole {
    match role {
        Some(Role::System) => MessageRole::System,
        Some(Role::User) => MessageRole::User,
        Some(Role::Assistant) => MessageRole::Assistant,
        Some(Role::Tool) => MessageRole::Tool,
        None => MessageRole::Unknown,
    }
}
