//! One side of a compaction: a parsed request, and the facts by which its messages are compared with the
//! other side.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use longhaul_engine::plan::ContentKind;
use longhaul_engine::transcript::{BlockKind, TurnBlock};
use longhaul_engine::wire::{self, PromptOrder, Role};
use longhaul_engine::{ApiFormat, Transcript};
use serde_json::Value;

/// A parsed request.
pub(super) struct ParsedSide<'b> {
    pub(super) transcript: Transcript<'b>,
    pub(super) prompt_order: PromptOrder,
}

/// The messages of a request, prepared for comparison.
pub(super) struct SideMessages<'t, 'b> {
    pub(super) transcript: &'t Transcript<'b>,
    /// The blocks of each message, in order.
    pub(super) turn_blocks: Vec<Vec<TurnBlock<'t, 'b>>>,
    /// The hash of each message's content, without white space and cache breakpoints.
    content_hashes: Vec<u64>,
}

impl<'b> ParsedSide<'b> {
    pub(super) fn parse(api_format: Option<ApiFormat>, body: &'b str) -> Option<Self> {
        let (transcript, _) = wire::parse(api_format, body).ok()?;
        let prompt_order = wire::prompt_order(&transcript);
        Some(Self { transcript, prompt_order })
    }

    pub(super) fn messages(&self) -> SideMessages<'_, 'b> {
        let transcript = &self.transcript;
        let count = transcript.message_count();
        let mut hashers = vec![DefaultHasher::new(); count];
        for piece in &self.prompt_order.pieces {
            if let Some(hasher) = piece.message.and_then(|message| hashers.get_mut(message as usize)) {
                piece.content_hash.hash(hasher);
            }
        }
        let content_hashes = hashers.into_iter().map(|hasher| hasher.finish()).collect();
        SideMessages { transcript, turn_blocks: transcript.blocks_by_message(0..count), content_hashes }
    }
}

impl<'t, 'b> SideMessages<'t, 'b> {
    pub(super) fn count(&self) -> usize {
        self.turn_blocks.len()
    }

    pub(super) fn content_hash(&self, message: usize) -> u64 {
        self.content_hashes[message]
    }

    pub(super) fn role(&self, message: usize) -> Option<Role> {
        self.transcript.role(message)
    }

    /// Hashes the IDs of a message's tool calls and results; none if it has no IDs.
    pub(super) fn call_ids_hash(&self, message: usize) -> Option<u64> {
        let value: Value = serde_json::from_str(self.transcript.message_json(message)?).ok()?;
        let mut hasher = DefaultHasher::new();
        let lists = ["tool_calls", "content"].into_iter().filter_map(|key| value[key].as_array()).flatten();
        let mut found = false;
        for value in std::iter::once(&value).chain(lists) {
            for key in ["tool_call_id", "tool_use_id", "call_id", "id"] {
                if let Some(id) = value[key].as_str() {
                    (value["type"].as_str(), key, id).hash(&mut hasher);
                    found = true;
                }
            }
        }
        found.then(|| hasher.finish())
    }

    /// Returns the blocks of a message for comparison.
    pub(super) fn comparable_blocks(&self, message: usize) -> Vec<ComparableBlock<'b>> {
        let turns = &self.transcript.turns;
        let piece = |part: &TurnBlock<'t, 'b>| {
            let tool = part.role.tool_call().map(|tool_call| tool_call.tool.to_string());
            let block = part.block;
            let text = if block.text.is_some() { block.text() } else { Cow::Borrowed(block.raw()) };
            ComparableBlock {
                content_kind: ContentKind::classify(&turns[part.position.unit], *part),
                tool,
                block_kind: block.kind,
                text,
            }
        };
        self.turn_blocks[message].iter().map(piece).collect()
    }
}

/// A block with the facts by which it is compared.
pub(super) struct ComparableBlock<'b> {
    pub(super) content_kind: ContentKind,
    pub(super) tool: Option<String>,
    block_kind: BlockKind,
    text: Cow<'b, str>,
}

impl ComparableBlock<'_> {
    /// Returns whether two blocks are the same.
    pub(super) fn is_identical(&self, other: &Self) -> bool {
        self.content_kind == other.content_kind && self.is_text() == other.is_text() && self.text == other.text
    }

    /// Returns whether one block can be the shorter form of the other: they have the same kind and tool.
    pub(super) fn is_same_kind(&self, other: &Self) -> bool {
        self.content_kind == other.content_kind && self.tool == other.tool
    }

    fn is_text(&self) -> bool {
        self.block_kind == BlockKind::Text
    }
}
