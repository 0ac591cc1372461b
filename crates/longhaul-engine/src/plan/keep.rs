//! What stays because the user wants it so, beyond what always does: `compression.keep_tools`, `keep_last_users`, messages with a
//! passage between `<keep>` and `</keep>`, and everything from a message on.
//!
//! Results of kept tools are never shortened. Their steps stay where they are, the newest first, in half of what a compaction aims
//! at: a session of nothing else would never fit again. An older one is folded like any other step, and that is said.

use std::collections::BTreeSet;

use memchr::memmem;

use super::Wish;
use crate::Tokens;
use crate::policy::Policy;
use crate::transcript::{Block, Speaker, Transcript, Unit, UnitKind};

const OPEN: &str = "<keep>";
const CLOSE: &str = "</keep>";

/// The units that the user wants to stay.
#[derive(Debug, Default)]
pub(super) struct Kept {
    units: BTreeSet<usize>,
    /// How many steps with results of kept tools found no room.
    pub(super) no_room: usize,
}

impl Kept {
    /// What stays of units that cost this much.
    pub(super) fn of(policy: &Policy, wish: &Wish, transcript: &Transcript<'_>, costs: &[Tokens]) -> Self {
        let units = &transcript.units;
        let by_user = |unit: &Unit<'_>| matches!(unit.kind, UnitKind::Prompt { by: Speaker::User, .. });
        let newest = (0..units.len()).rev().filter(|at| by_user(&units[*at])).take(policy.keep.last_users);
        let fenced = (0..units.len()).filter(|at| is_fenced(&units[*at]));
        let chosen = wish.keep_from.map_or(units.len(), |message| first_from(transcript, message));
        let mut kept = Self { units: newest.chain(fenced).chain(chosen..units.len()).collect(), no_room: 0 };
        if policy.keep.any_tool() {
            kept.add_tools(policy, transcript, costs, wish.to_tokens.unwrap_or(policy.goal) / 2);
        }
        kept
    }

    /// Adds the steps of kept tools, the newest first, as far as there is room.
    fn add_tools(
        &mut self,
        policy: &Policy,
        transcript: &Transcript<'_>,
        costs: &[Tokens],
        mut room: Tokens,
    ) {
        for (at, unit) in transcript.units.iter().enumerate().rev() {
            let of_tool = unit.exchanges().iter().any(|exchange| policy.keep.tool(&exchange.tool));
            if !of_tool || self.units.contains(&at) {
                continue;
            }
            if costs[at] <= room && self.no_room == 0 {
                room = room - costs[at];
                self.units.insert(at);
            } else {
                self.no_room += 1;
            }
        }
    }

    pub(super) fn units(&self) -> impl Iterator<Item = usize> {
        self.units.iter().copied()
    }

    pub(super) fn contains(&self, unit: usize) -> bool {
        self.units.contains(&unit)
    }
}

/// The first unit that has part of a message from this one on.
pub(super) fn first_from(transcript: &Transcript<'_>, message: usize) -> usize {
    let reaches = |unit: &Unit<'_>| {
        unit.owns.iter().filter_map(|id| transcript.message_of(*id)).any(|own| own >= message)
    };
    transcript.units.iter().position(reaches).unwrap_or(transcript.units.len())
}

/// Whether a message has a passage that is not to be compacted: both marks on lines of their own.
fn is_fenced(unit: &Unit<'_>) -> bool {
    let UnitKind::Prompt { blocks, .. } = &unit.kind else { return false };
    let has = |block: &Block<'_>, mark: &str| {
        memmem::find(block.raw().as_bytes(), mark.as_bytes()).is_some()
            && block.text().lines().any(|line| line.trim() == mark)
    };
    blocks.iter().any(|block| has(block, OPEN) && has(block, CLOSE))
}
