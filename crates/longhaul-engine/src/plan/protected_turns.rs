//! The turns that the user protects, beyond those that always stay: by `compression.keep_tools`, by
//! `keep_last_users`, by a passage between `<keep>` and `</keep>`, or by choosing a message from which
//! everything stays.
//!
//! Results of protected tools are never shortened. Their turns stay in place, newest first, within half of
//! the compaction's target size; without that limit a session of nothing else would never fit again. Older
//! ones are summarized like other turns, and the report has a note about it.

use std::collections::BTreeSet;

use memchr::memmem;

use super::CompactOptions;
use crate::Tokens;
use crate::policy::Policy;
use crate::transcript::{Block, Speaker, Transcript, Turn, TurnKind};

const KEEP_OPEN_TAG: &str = "<keep>";
const KEEP_CLOSE_TAG: &str = "</keep>";

/// The turns that the user protects.
#[derive(Debug, Default)]
pub(super) struct ProtectedTurns {
    turns: BTreeSet<usize>,
    /// The number of turns with results of protected tools that did not fit into the limit.
    pub(super) tool_turns_without_room: usize,
}

impl ProtectedTurns {
    /// Collects the protected turns, given the tokens of every turn.
    pub(super) fn new(
        policy: &Policy,
        options: &CompactOptions,
        transcript: &Transcript<'_>,
        costs: &[Tokens],
    ) -> Self {
        let turns = &transcript.turns;
        let by_user = |turn: &Turn<'_>| matches!(turn.kind, TurnKind::Prompt { speaker: Speaker::User, .. });
        let newest =
            (0..turns.len()).rev().filter(|at| by_user(&turns[*at])).take(policy.user_protections.last_user_messages);
        let fenced = (0..turns.len()).filter(|at| has_keep_tags(&turns[*at]));
        let chosen = options.keep_from.map_or(turns.len(), |message| first_turn_from_message(transcript, message));
        let mut kept =
            Self { turns: newest.chain(fenced).chain(chosen..turns.len()).collect(), tool_turns_without_room: 0 };
        if policy.user_protections.has_tools() {
            kept.add_tool_turns(policy, transcript, costs, options.to_tokens.unwrap_or(policy.prune_goal) / 2);
        }
        kept
    }

    /// Adds the turns of protected tools, newest first, while there is room.
    fn add_tool_turns(&mut self, policy: &Policy, transcript: &Transcript<'_>, costs: &[Tokens], mut room: Tokens) {
        for (at, turn) in transcript.turns.iter().enumerate().rev() {
            let of_tool =
                turn.tool_calls().iter().any(|tool_call| policy.user_protections.protects_tool(&tool_call.tool));
            if !of_tool || self.turns.contains(&at) {
                continue;
            }
            if costs[at] <= room && self.tool_turns_without_room == 0 {
                room = room - costs[at];
                self.turns.insert(at);
            } else {
                self.tool_turns_without_room += 1;
            }
        }
    }

    pub(super) fn turns(&self) -> impl Iterator<Item = usize> {
        self.turns.iter().copied()
    }

    pub(super) fn contains(&self, turn: usize) -> bool {
        self.turns.contains(&turn)
    }
}

/// Returns the first turn with a part in this message or a later one.
pub(super) fn first_turn_from_message(transcript: &Transcript<'_>, message: usize) -> usize {
    let reaches = |turn: &Turn<'_>| {
        turn.owned_elements.iter().filter_map(|id| transcript.message_of(*id)).any(|own| own >= message)
    };
    transcript.turns.iter().position(reaches).unwrap_or(transcript.turns.len())
}

/// Whether a message contains a passage that must not be compacted: both tags, each on a line of its own.
fn has_keep_tags(turn: &Turn<'_>) -> bool {
    let TurnKind::Prompt { blocks, .. } = &turn.kind else { return false };
    let has = |block: &Block<'_>, mark: &str| {
        memmem::find(block.raw().as_bytes(), mark.as_bytes()).is_some()
            && block.text().lines().any(|line| line.trim() == mark)
    };
    blocks.iter().any(|block| has(block, KEEP_OPEN_TAG) && has(block, KEEP_CLOSE_TAG))
}
