//! The turns that a summary is about.

use std::collections::BTreeSet;

use crate::block_cache::ContentKey;
use crate::transcript::{Transcript, TurnBlock};

/// The turns that a summary is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryScope {
    /// Exactly these turns, in this order, by the hashes of their content.
    Turns(Vec<ContentKey>),
    /// All turns that the compaction removes. A person or a program supplied the summary for that.
    AllRemoved,
}

impl SummaryScope {
    /// Builds the scope of these turns. Cache breakpoints of blocks with text do not count as content, because a
    /// client moves them from request to request.
    pub(crate) fn from_turns(transcript: &Transcript<'_>, turns: &BTreeSet<usize>) -> Self {
        Self::Turns(turns.iter().map(|turn| turn_key(transcript, *turn)).collect())
    }

    /// Finds the turns of the summary in a transcript. `gone` are the turns that the compaction removes.
    /// Returns `None` if a summarized turn is missing or changed, or if none of them is in `gone`.
    pub(crate) fn find_turns(&self, transcript: &Transcript<'_>, gone: &BTreeSet<usize>) -> Option<BTreeSet<usize>> {
        let Self::Turns(keys) = self else { return Some(gone.clone()) };
        let mut wanted = keys.iter().peekable();
        let mut found = BTreeSet::new();
        for turn in 0..transcript.turns.len() {
            if wanted.next_if(|wanted| **wanted == turn_key(transcript, turn)).is_some() {
                found.insert(turn);
            }
        }
        (wanted.peek().is_none() && !found.is_disjoint(gone)).then_some(found)
    }
}

fn turn_key(transcript: &Transcript<'_>, turn: usize) -> ContentKey {
    let said = |part: TurnBlock<'_, '_>| match part.block.text {
        Some(text) => text.at,
        None => part.block.at,
    };
    ContentKey::from_parts(transcript.blocks_of_turn(turn).map(|part| transcript.body[said(part).range()].as_bytes()))
}
