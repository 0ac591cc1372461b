//! The ledger: the recorded decisions of a session's compactions, which are replayed byte for byte.
//!
//! A client sends its original history again with every request. The provider's cache is lost unless the same
//! cuts are made again each time. So the ledger stores the decisions in terms of the *original* turns, and
//! [`Ledger::edits`] is the only place where decisions become edits, at the first compaction and at every
//! replay.
//!
//! ```text
//! original   t0 t1 t2 t3 t4 t5 t6      removed: t1 to t3, new text: t4
//! view       t0 [checkpoint] t4' t5 t6
//! ```
//!
//! The *view* is the request as it is sent, with the decisions applied.
//!
//! This module may use `passes`, `insertion_point` and the modules below them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::cache;
use crate::insertion_point::{self, RoleOrder};
use crate::json::Span;
use crate::passes::NewText;
use crate::redact::Redactor;
use crate::rewrite::{Edit, Rewrite, RewriteError};
use crate::transcript::{Block, BlockPosition, BlockRole, JsonSlot, Role, Transcript, TurnBlock, TurnKind};
use crate::wire::{self, ClientBreakpoint};

/// All decisions about the turns of a session so far. It is stored, so its field names must not change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The number of compactions that the ledger contains.
    pub epoch: u32,
    /// The number of original turns that the decisions are about, counted from the first.
    covers: usize,
    /// The hash of the contents of those turns.
    prefix: String,
    #[serde(flatten)]
    decisions: Decisions,
}

/// A text that we insert, and its position. It is stored, so its field names must not change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacedText {
    /// The turn before which it is inserted.
    pub before: usize,
    /// The whole text.
    pub text: String,
    /// The order of roles that the provider accepts, which decides about the position.
    #[serde(default)]
    pub takes: RoleOrder,
}

/// Decisions about the turns and blocks of a transcript. They are stored, so their serialized names must not
/// change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    /// The turns to remove.
    #[serde(rename = "gone")]
    pub removed_turns: BTreeSet<usize>,
    /// The blocks that get another text.
    #[serde(rename = "texts", with = "pairs")]
    pub new_texts: BTreeMap<BlockPosition, NewText>,
    /// The blocks to remove from turns that stay.
    #[serde(rename = "removed")]
    pub removed_blocks: BTreeSet<BlockPosition>,
    /// The results to add to calls without one.
    #[serde(rename = "stubs", with = "pairs", default)]
    pub stub_results: BTreeMap<BlockPosition, String>,
    /// The text in place of the removed turns.
    pub checkpoint: Option<PlacedText>,
}

/// Stores a map as a list of pairs, because the keys of a JSON object are strings.
mod pairs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    type ByBlock<V> = std::collections::BTreeMap<crate::transcript::BlockPosition, V>;

    pub(super) fn serialize<V: Serialize, S: Serializer>(map: &ByBlock<V>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'d, V: Deserialize<'d>, D: Deserializer<'d>>(from: D) -> Result<ByBlock<V>, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

impl Decisions {
    /// Makes the ledger of one compaction, as if it were the first of the session.
    #[must_use]
    pub fn into_ledger(self, transcript: &Transcript<'_>) -> Ledger {
        let covers = self.turn_count().min(transcript.turns.len());
        Ledger { epoch: 1, covers, prefix: hash_turns(transcript, covers), decisions: self }
    }

    /// Returns the number of turns up to the last one with a decision.
    fn turn_count(&self) -> usize {
        let blocks =
            self.new_texts.keys().chain(self.stub_results.keys()).chain(&self.removed_blocks).map(|at| at.unit + 1);
        let turns = self.removed_turns.iter().map(|turn| turn + 1);
        blocks.chain(turns).max().unwrap_or(0)
    }
}

impl Ledger {
    /// Whether the ledger contains no decision.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.covers == 0
    }

    /// Returns the number of original turns that the decisions are about.
    #[must_use]
    pub fn covers(&self) -> usize {
        self.covers
    }

    /// Returns the text in place of the removed turns.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&str> {
        self.decisions.checkpoint.as_ref().map(|placed| placed.text.as_str())
    }

    /// Returns the original blocks that get another text, each with that text.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (BlockPosition, &str)> {
        self.decisions.new_texts.iter().map(|(at, NewText::Text(text) | NewText::Mark(text))| (*at, text.as_str()))
    }

    /// Returns the ledger without secrets in its shortened texts, as it is stored. (A ledger of a session
    /// that stores originals has none: its texts were redacted when they were made.) The text of the checkpoint
    /// was redacted when it was written.
    #[must_use]
    pub fn redacted(&self, redactor: &mut Redactor) -> Self {
        let mut ledger = self.clone();
        for text in ledger.decisions.new_texts.values_mut() {
            *text = text.clone().redacted(redactor);
        }
        ledger
    }

    /// Returns the new texts of blocks and the text of the checkpoint, but not the stub results.
    pub fn inserted_texts(&self) -> impl Iterator<Item = &str> {
        self.texts().map(|(_, text)| text).chain(self.checkpoint())
    }

    /// Returns for each original message whether none of its content is removed or gets another text. An
    /// inserted stub result or a removed surplus breakpoint does not count as a change.
    #[must_use]
    pub fn unchanged_messages(&self, transcript: &Transcript<'_>) -> Vec<bool> {
        let mut untouched = vec![true; transcript.message_count()];
        let gone = self
            .decisions
            .removed_turns
            .iter()
            .filter_map(|turn| transcript.turns.get(*turn))
            .flat_map(|turn| &turn.owned_elements);
        let gone = gone.filter_map(|id| transcript.message_of(*id));
        let texts = self.decisions.new_texts.keys().chain(&self.decisions.removed_blocks);
        let changed = texts.filter_map(|at| transcript.message_at(transcript.block(*at)?.at));
        for message in gone.chain(changed) {
            untouched[message] = false;
        }
        untouched
    }

    /// Whether every message and block stays in place.
    pub(crate) fn only_changes_texts(&self) -> bool {
        let Decisions { removed_turns, removed_blocks, stub_results, checkpoint, .. } = &self.decisions;
        removed_turns.is_empty() && removed_blocks.is_empty() && stub_results.is_empty() && checkpoint.is_none()
    }

    /// Whether a transcript begins with the turns that the decisions are about.
    #[must_use]
    pub fn matches(&self, transcript: &Transcript<'_>) -> bool {
        self.covers <= transcript.turns.len() && hash_turns(transcript, self.covers) == self.prefix
    }

    /// Applies the decisions to a transcript. Returns `None` if there are none, or if they are about another
    /// transcript.
    ///
    /// # Errors
    /// The edits contradict each other, which would be an internal error.
    pub fn replay(&self, transcript: &Transcript<'_>) -> Result<Option<Rewrite>, RewriteError> {
        if self.matches(transcript) { self.replay_unchecked(transcript) } else { Ok(None) }
    }

    /// Applies the decisions to a transcript that the caller knows to continue the one they are about,
    /// without comparing its content.
    ///
    /// # Errors
    /// The edits contradict each other, which would be an internal error.
    pub fn replay_unchecked(&self, transcript: &Transcript<'_>) -> Result<Option<Rewrite>, RewriteError> {
        if self.is_empty() || self.covers > transcript.turns.len() {
            return Ok(None);
        }
        Rewrite::new(transcript, self.edits(transcript)).map(Some)
    }

    /// Returns the decisions as edits of the original, which must [match](Self::matches).
    #[must_use]
    pub fn edits(&self, transcript: &Transcript<'_>) -> Vec<Edit> {
        let mut edits = Vec::new();
        let stays = |at: &BlockPosition| !self.decisions.removed_turns.contains(&at.unit);
        for (at, to) in
            self.decisions.new_texts.iter().filter(|(at, _)| stays(at) && !self.decisions.removed_blocks.contains(at))
        {
            edits.extend(to.to_edit(transcript, *at));
        }
        edits.extend(
            self.decisions
                .removed_blocks
                .iter()
                .filter(|at| stays(at))
                .filter_map(|at| transcript.block(*at))
                .map(remove_block_edit),
        );
        let stubs = self.decisions.stub_results.iter().filter(|(at, _)| stays(at));
        edits.extend(wire::tool_result_edits(transcript, stubs.map(|(at, text)| (*at, text.as_str()))));
        for turn in self.decisions.removed_turns.iter().filter_map(|turn| transcript.turns.get(*turn)) {
            edits.extend(turn.owned_elements.iter().map(|id| Edit::Remove(*id)));
        }
        if let Some(placed) = &self.decisions.checkpoint {
            edits.extend(
                insertion_point::find(transcript, placed.before, &self.decisions.removed_turns, placed.takes)
                    .insertion_edits(transcript, &placed.text),
            );
        }
        edits.extend(self.surplus_breakpoints(transcript).iter().map(cache::remove_breakpoint_edit));
        edits
    }

    /// Returns the client's cache breakpoints in the remaining content that exceed the provider's limit: a
    /// request with them would be refused.
    #[must_use]
    pub fn surplus_breakpoints(&self, transcript: &Transcript<'_>) -> Vec<ClientBreakpoint> {
        let named = memchr::memmem::find_iter(transcript.body.as_bytes(), wire::CACHE_CONTROL_FIELD);
        // Nearly every body has few breakpoints and does not have to be read in the provider's order.
        if self.is_empty() || named.take(cache::MAX_BREAKPOINTS + 1).count() <= cache::MAX_BREAKPOINTS {
            return Vec::new();
        }
        let turns = self.decisions.removed_turns.iter().filter_map(|turn| transcript.turns.get(*turn));
        let elements = turns.flat_map(|turn| turn.owned_elements.iter().map(|id| transcript.span_of(*id)));
        let blocks = self.decisions.removed_blocks.iter().filter_map(|at| transcript.block(*at)).map(|block| block.at);
        let mut removed: Vec<Span> = elements.chain(blocks).collect();
        removed.sort_unstable();
        let is_removed = |breakpoint: &ClientBreakpoint| {
            let before = removed.partition_point(|span| span.start <= breakpoint.object.start);
            before > 0 && removed[before - 1].contains(breakpoint.object)
        };
        let prompt_order = wire::prompt_order(transcript);
        let stay = prompt_order.breakpoints.iter().filter(|breakpoint| !is_removed(breakpoint)).copied().collect();
        cache::split_surplus(&prompt_order, stay).1
    }

    /// Combines the ledger with a later compaction, whose decisions are about the view that this ledger
    /// produces. Returns `None` if the turns of the view are not the remaining turns of the original.
    #[must_use]
    pub fn followed_by(&self, later: &Self, view: &Transcript<'_>, original: &Transcript<'_>) -> Option<Self> {
        let origin = self.original_turns(view, original)?;
        let original_turn = |turn: usize| origin.get(turn).copied().flatten();
        let original_position = |at: &BlockPosition| {
            original_turn(at.unit)
                .map(|turn| BlockPosition { unit: turn, block: self.original_block_index(turn, at.block) })
        };
        let (mut all, later) = (self.decisions.clone(), &later.decisions);
        for (at, to) in &later.new_texts {
            all.new_texts.insert(original_position(at)?, to.clone());
        }
        for at in &later.removed_blocks {
            all.removed_blocks.insert(original_position(at)?);
        }
        for (at, text) in &later.stub_results {
            all.stub_results.insert(original_position(at)?, text.clone());
        }
        all.removed_turns.extend(later.removed_turns.iter().filter_map(|turn| original_turn(*turn)));
        // Drop decisions about blocks in turns that are removed by now.
        let stays = |at: &BlockPosition| !all.removed_turns.contains(&at.unit);
        all.new_texts.retain(|at, _| stays(at));
        all.removed_blocks.retain(stays);
        all.stub_results.retain(|at, _| stays(at));
        if let Some(placed) = &later.checkpoint {
            let before = (placed.before..origin.len()).find_map(original_turn).unwrap_or(original.turns.len());
            all.checkpoint = Some(PlacedText { before, ..placed.clone() });
        }
        Some(Self { epoch: self.epoch + 1, ..all.into_ledger(original) })
    }

    /// Returns the blocks of the view that the client did not send, or `None` if the view was not made by
    /// this ledger.
    #[must_use]
    pub fn own_blocks(
        &self,
        view: &Transcript<'_>,
        original: &Transcript<'_>,
    ) -> Option<BTreeMap<BlockPosition, OwnBlock>> {
        let mut ours = BTreeMap::new();
        let Decisions { new_texts, stub_results, .. } = &self.decisions;
        for (turn, origin) in self.original_turns(view, original)?.into_iter().enumerate() {
            let stubbed =
                origin.is_some_and(|origin| stub_results.range(BlockPosition::range_of_turn(origin)).next().is_some());
            for part in view.blocks_of_turn(turn) {
                let original_position = origin.map(|turn| BlockPosition {
                    unit: turn,
                    block: self.original_block_index(turn, part.position.block),
                });
                let own_block = match original_position {
                    None => OwnBlock::Checkpoint,
                    Some(original_position) if new_texts.contains_key(&original_position) => OwnBlock::Digest,
                    Some(_) if stubbed && is_stub_result(&part, stub_results) => OwnBlock::Stub,
                    Some(_) => continue,
                };
                ours.insert(part.position, own_block);
            }
        }
        Some(ours)
    }

    /// Returns the index in the original turn of a block in the view, which does not count removed blocks.
    fn original_block_index(&self, turn: usize, block: usize) -> usize {
        let before = self.decisions.removed_blocks.range(BlockPosition::range_of_turn(turn));
        before.fold(block, |block, removed| block + usize::from(removed.block <= block))
    }

    /// Returns for each turn of the view the index of the original turn; `None` for the checkpoint.
    fn original_turns(&self, view: &Transcript<'_>, original: &Transcript<'_>) -> Option<Vec<Option<usize>>> {
        let mut left = (0..original.turns.len()).filter(|turn| !self.decisions.removed_turns.contains(turn)).peekable();
        let mut placed = self.decisions.checkpoint.as_ref();
        let mut origins = Vec::with_capacity(view.turns.len());
        for turn in &view.turns {
            // The first turn with this text is the checkpoint; a repetition of it comes later.
            let ours = placed
                .take_if(|placed| matches!(&turn.kind, TurnKind::Checkpoint(block) if block.text() == placed.text));
            let origin = if ours.is_some() { None } else { Some(left.next()?) };
            let same =
                |at: usize| std::mem::discriminant(&original.turns[at].kind) == std::mem::discriminant(&turn.kind);
            if !origin.is_none_or(same) {
                return None;
            }
            origins.push(origin);
        }
        left.peek().is_none().then_some(origins)
    }
}

/// The kind of a block in the view that the client did not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnBlock {
    /// The checkpoint, or the notice with the number of removed messages.
    Checkpoint,
    /// A shorter text in place of the original.
    Digest,
    /// A result that was added to a call without one.
    Stub,
}

fn is_stub_result(part: &TurnBlock<'_, '_>, stubs: &BTreeMap<BlockPosition, String>) -> bool {
    matches!(part.role, BlockRole::Result { .. }) && stubs.values().any(|text| *text == part.block.text())
}

/// Returns the edit that removes a block.
fn remove_block_edit(block: &Block<'_>) -> Edit {
    match block.slot {
        JsonSlot::Element(id) => Edit::Remove(id),
        JsonSlot::Field { object: of, key } => Edit::Unset { object: of, key },
    }
}

/// Hashes the contents of the first turns, independent of how they are written: cache breakpoints change
/// nothing, nor does a string that became a list with one block.
fn hash_turns(transcript: &Transcript<'_>, turns: usize) -> String {
    // The hash is several times faster over long chunks than over the same bytes in short ones.
    const CHUNK_BYTES: usize = 128 * 1024;
    let mut hasher = blake3::Hasher::new();
    let mut piece: Vec<u8> = Vec::with_capacity(2 * CHUNK_BYTES);
    for turn in transcript.turns.iter().take(turns) {
        // A lookalike of a checkpoint may be read as a message or as a checkpoint, so hash only its role.
        let is_reply = || transcript.role_of_turn(turn) == Some(Role::Assistant);
        piece.push(match &turn.kind {
            TurnKind::Prompt { .. } => 0u8,
            TurnKind::Assistant { .. } => 1,
            TurnKind::Checkpoint(_) => u8::from(is_reply()),
            TurnKind::Opaque(_) => 3,
        });
        for block in turn.blocks() {
            let bytes = block.text.map_or(block.raw(), |text| &block.body[text.at.range()]);
            piece.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            piece.extend_from_slice(bytes.as_bytes());
            if piece.len() >= CHUNK_BYTES {
                hasher.update(&piece);
                piece.clear();
            }
        }
    }
    hasher.update(&piece).finalize().to_hex()[..32].to_owned()
}

#[cfg(test)]
mod tests {
    use super::Ledger;

    #[test]
    fn a_stored_ledger_keeps_its_form() {
        let stored = concat!(
            r#"{"epoch":2,"covers":4,"prefix":"ab","gone":[1,2],"texts":[[{"unit":3,"block":1},{"Text":"short"}]],"#,
            r#""removed":[{"unit":3,"block":0}],"stubs":[[{"unit":3,"block":2},"none"]],"#,
            r#""checkpoint":{"before":3,"text":"so far","takes":"UserAfterTool"}}"#
        );
        let ledger: Ledger = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&ledger).unwrap(), stored);
        let without_stubs = r#"{"epoch":1,"covers":0,"prefix":"","gone":[],"texts":[],"removed":[],"checkpoint":null}"#;
        assert!(serde_json::from_str::<Ledger>(without_stubs).unwrap().is_empty());
    }
}
