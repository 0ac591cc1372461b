//! Which of the texts that look like a checkpoint is this session's. Anybody can begin a message with our marker, and a model may
//! say again what it read: such a text is a message like any other, and nothing ends at it.
//!
//! ```text
//! has the session's mark, or the ledger knows its words ──▶ ours
//! no key: whole, and where ours stand ──▶ taken for ours, but what it says is the transcript's, not the user's
//! anything else ──▶ a message
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::Wish;
use crate::checkpoint::Checkpoint;
use crate::policy::Policy;
use crate::seat;
use crate::texts::is_signed;
use crate::transcript::{Block, Role, Speaker, Transcript, Unit, UnitKind};

/// Steps that may stand before a checkpoint of ours beside those that are protected for being first: an answer that was being replied
/// to, a step that was pinned under another policy.
const STEPS_BEFORE: usize = 4;

/// On whose word a checkpoint is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vouched {
    /// The key's or the ledger's.
    BySession,
    /// Nobody's: it has the form, and stands where ours stand.
    ByNobody,
}

/// A transcript in which only what is ours is a checkpoint.
pub(super) struct Ours<'t, 'b> {
    pub(super) transcript: Cow<'t, Transcript<'b>>,
    pub(super) vouched: Vouched,
    /// The messages that only look like one.
    pub(super) others: BTreeSet<usize>,
}

impl<'t, 'b> Ours<'t, 'b> {
    pub(super) fn of(policy: &Policy, wish: &Wish, transcript: &'t Transcript<'b>) -> Self {
        let looks = transcript.units.iter().enumerate().filter_map(|(at, unit)| match &unit.kind {
            UnitKind::Checkpoint(block) => Some((at, block)),
            _ => None,
        });
        let looks: Vec<(usize, &Block<'b>)> = looks.collect();
        let known: Vec<usize> =
            looks.iter().filter(|(_, block)| is_known(wish, &block.text())).map(|(at, _)| *at).collect();
        let stands = |at: &usize| stands_where_ours_do(policy, transcript, *at);
        // Of several, the newest that stands where ours do: what was said again stands far behind, or is older.
        let newest = known.iter().rev().copied().find(stands).or(known.first().copied());
        let vouched = if newest.is_some() { Vouched::BySession } else { Vouched::ByNobody };
        let has_form = |(at, block): &&(usize, &Block<'b>)| {
            wish.key.is_none() && stands(at) && Checkpoint::is_whole(&block.text())
        };
        let ours = newest.or_else(|| looks.iter().rev().find(has_form).map(|(at, _)| *at));
        let mut transcript = Cow::Borrowed(transcript);
        let others: BTreeSet<usize> =
            looks.iter().map(|(at, _)| *at).filter(|at| Some(*at) != ours).collect();
        for at in &others {
            let kind = as_message(&transcript, *at);
            transcript.to_mut().units[*at].kind = kind;
        }
        Self { transcript, vouched, others }
    }
}

/// Whether the session vouches for a checkpoint.
fn is_known(wish: &Wish, text: &str) -> bool {
    wish.key.as_ref().is_some_and(|key| is_signed(text, key))
        || wish.checkpoints.iter().any(|own| own == text)
}

/// Whether a checkpoint of ours could stand there: before all but a few steps, and in a seat that we choose.
fn stands_where_ours_do(policy: &Policy, transcript: &Transcript<'_>, at: usize) -> bool {
    let is_kept = |unit: &Unit<'_>| unit.exchanges().iter().any(|e| policy.keep.tool(&e.tool));
    let is_step = |unit: &&Unit<'_>| matches!(unit.kind, UnitKind::Step { .. }) && !is_kept(unit);
    let steps = transcript.units[..at].iter().filter(is_step).count();
    steps <= policy.protect_first + STEPS_BEFORE && seat::is_ours(transcript, &transcript.units[at])
}

/// What looks like a checkpoint as what it is otherwise.
fn as_message<'b>(transcript: &Transcript<'b>, at: usize) -> UnitKind<'b> {
    let unit = &transcript.units[at];
    let blocks = unit.blocks().cloned().collect();
    match transcript.role_of(unit) {
        Some(Role::Assistant) => UnitKind::Step { reply: blocks, exchanges: Vec::new() },
        _ => UnitKind::Prompt { by: Speaker::User, blocks },
    }
}
