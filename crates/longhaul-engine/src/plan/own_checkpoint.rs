//! Finds out which of the texts that look like a checkpoint belongs to this session. Anybody can begin a
//! message with our marker, and a model may repeat a checkpoint that it read: such a text is treated as an
//! ordinary message.
//!
//! ```text
//! has a valid signature, or the ledger contains its text ──▶ our checkpoint
//! no key: complete, and in one of our positions ──▶ treated as ours, but its rules are not the user's
//! anything else ──▶ a message
//! ```

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::CompactOptions;
use crate::checkpoint::Checkpoint;
use crate::insertion_point;
use crate::policy::Policy;
use crate::texts::has_valid_signature;
use crate::transcript::{Block, Role, Speaker, Transcript, Turn, TurnKind};

/// The number of assistant turns that may precede our checkpoint in addition to the protected first ones: an
/// answer that was being replied to, or turns that were pinned under another policy. Chosen by hand.
const MAX_EXTRA_TURNS_BEFORE: usize = 4;

/// Who confirms that a checkpoint is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointTrust {
    /// The session's key or its ledger confirms it.
    Verified,
    /// Nobody confirms it: the text only has the right form and position.
    Unverified,
}

/// A transcript in which only our own checkpoint is read as a checkpoint.
pub(super) struct VerifiedTranscript<'t, 'b> {
    pub(super) transcript: Cow<'t, Transcript<'b>>,
    pub(super) trust: CheckpointTrust,
    /// The turns that only look like a checkpoint.
    pub(super) lookalikes: BTreeSet<usize>,
}

impl<'t, 'b> VerifiedTranscript<'t, 'b> {
    pub(super) fn new(policy: &Policy, options: &CompactOptions, transcript: &'t Transcript<'b>) -> Self {
        let candidates = transcript.turns.iter().enumerate().filter_map(|(at, turn)| match &turn.kind {
            TurnKind::Checkpoint(block) => Some((at, block)),
            _ => None,
        });
        let candidates: Vec<(usize, &Block<'b>)> = candidates.collect();
        let verified: Vec<usize> =
            candidates.iter().filter(|(_, block)| is_verified(options, &block.text())).map(|(at, _)| *at).collect();
        let is_placed = |at: &usize| is_at_own_position(policy, transcript, *at);
        // Of several, take the newest in one of our positions: a repeated checkpoint is far behind, or older.
        let newest = verified.iter().rev().copied().find(is_placed).or(verified.first().copied());
        let trust = if newest.is_some() { CheckpointTrust::Verified } else { CheckpointTrust::Unverified };
        let has_form = |(at, block): &&(usize, &Block<'b>)| {
            options.session_key.is_none() && is_placed(at) && Checkpoint::is_complete_rendering(&block.text())
        };
        let ours = newest.or_else(|| candidates.iter().rev().find(has_form).map(|(at, _)| *at));
        let mut transcript = Cow::Borrowed(transcript);
        let lookalikes: BTreeSet<usize> = candidates.iter().map(|(at, _)| *at).filter(|at| Some(*at) != ours).collect();
        for at in &lookalikes {
            let kind = as_plain_message(&transcript, *at);
            transcript.to_mut().turns[*at].kind = kind;
        }
        Self { transcript, trust, lookalikes }
    }
}

/// Whether the session's key or its ledger confirms a checkpoint.
fn is_verified(options: &CompactOptions, text: &str) -> bool {
    options.session_key.as_ref().is_some_and(|key| has_valid_signature(text, key))
        || options.known_checkpoints.iter().any(|own| own == text)
}

/// Whether our checkpoint could be in this position: after few assistant turns, and where we would insert it.
fn is_at_own_position(policy: &Policy, transcript: &Transcript<'_>, at: usize) -> bool {
    let is_kept = |turn: &Turn<'_>| turn.tool_calls().iter().any(|e| policy.user_protections.protects_tool(&e.tool));
    let is_step = |turn: &&Turn<'_>| matches!(turn.kind, TurnKind::Assistant { .. }) && !is_kept(turn);
    let steps = transcript.turns[..at].iter().filter(is_step).count();
    steps <= policy.protect_first + MAX_EXTRA_TURNS_BEFORE
        && insertion_point::is_at_insertion_point(transcript, &transcript.turns[at])
}

/// Returns a turn that looks like a checkpoint as an ordinary message.
fn as_plain_message<'b>(transcript: &Transcript<'b>, at: usize) -> TurnKind<'b> {
    let turn = &transcript.turns[at];
    let blocks = turn.blocks().cloned().collect();
    match transcript.role_of_turn(turn) {
        Some(Role::Assistant) => TurnKind::Assistant { reply: blocks, tool_calls: Vec::new() },
        _ => TurnKind::Prompt { speaker: Speaker::User, blocks },
    }
}
