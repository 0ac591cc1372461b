//! Divides a transcript into head, middle and tail, at the boundaries of turns.
//!
//! ```text
//! system │ head: the first messages │ middle: may change │ tail: the newest turns
//! ```
//!
//! The newest message of a person stays in place: as part of the tail if the tail reaches back to it, else
//! pinned in the middle.

use std::collections::BTreeSet;
use std::ops::Range;

use super::protected_turns::first_turn_from_message;
use super::survey::Survey;
use crate::Tokens;
use crate::policy::Policy;
use crate::transcript::{Turn, TurnKind};

/// The boundaries of the middle, with the exceptions inside it.
#[derive(Clone)]
pub(super) struct Bounds<'s, 't, 'b> {
    survey: &'s Survey<'t, 'b>,
    /// The turns that may change or be removed.
    pub(super) middle: Range<usize>,
    /// Turns that stay unchanged wherever they are, unless a limit in bytes requires a change.
    pub(super) pinned: BTreeSet<usize>,
}

impl<'s, 't, 'b> Bounds<'s, 't, 'b> {
    /// Computes the bounds from the budgets of the policy.
    pub(super) fn from_policy(survey: &'s Survey<'t, 'b>) -> Self {
        let policy = survey.policy;
        let head = head_end(survey, policy.protect_first, policy.tail / 4);
        let tail = match survey.options.keep_from {
            Some(message) => first_turn_from_message(survey.transcript, message),
            None => tail_start(survey, &TailLimits::from_policy(policy), &BTreeSet::new()),
        };
        let mut bounds = Self::with_tail(survey, head, tail);
        bounds.pinned.extend(survey.first_prompt().filter(|_| survey.newest_checkpoint.is_some()));
        bounds.pin_answer(Self::max_answer_tokens(policy));
        bounds
    }

    /// Returns the largest size at which the policy keeps an answer in place.
    pub(super) fn max_answer_tokens(policy: &Policy) -> Tokens {
        policy.prune_goal / 4
    }

    /// Pins the answer that the newest message replies to, if it has at most `most` tokens: "yes, go ahead"
    /// means nothing without it.
    pub(super) fn pin_answer(&mut self, most: Tokens) {
        let survey = self.survey;
        self.pinned.extend(survey.answer_before_newest_prompt().filter(|turn| survey.turn_tokens[*turn] <= most));
    }

    /// Computes the bounds with a tail of `tail_tokens` and no head. The first prompt is pinned if its
    /// message has at most `first` tokens.
    pub(super) fn from_tail_tokens(survey: &'s Survey<'t, 'b>, tail_tokens: Tokens, first: Tokens) -> Self {
        let budget = TailLimits { budget: tail_tokens, ceiling: tail_tokens, protected_messages: 0, min_messages: 0 };
        let mut bounds = Self::with_tail(survey, 0, tail_start(survey, &budget, &survey.required_turns()));
        let said_first = survey.first_prompt().filter(|turn| survey.message_tokens(*turn) <= first);
        bounds.pinned.extend(said_first.into_iter().flat_map(|turn| survey.prompts_of_same_message(turn)));
        bounds
    }

    /// Returns the same bounds without a head, or `None` if there is no head.
    pub(super) fn without_head(&self) -> Option<Self> {
        (self.middle.start > 0).then(|| Self { middle: 0..self.middle.end, ..self.clone() })
    }

    fn with_tail(survey: &'s Survey<'t, 'b>, head: usize, tail: usize) -> Self {
        // The first messages need no protection once there is a checkpoint: an earlier compaction kept them
        // already.
        let head = if survey.newest_checkpoint.is_some() { 0 } else { head };
        Self { survey, middle: head..tail.max(head), pinned: survey.required_turns() }
    }

    /// Returns the turns of the middle that may change or be removed.
    pub(super) fn free_turns(&self) -> impl Iterator<Item = usize> {
        self.middle.clone().filter(|turn| !self.pinned.contains(turn))
    }

    /// Whether a turn may be shortened in place. Turns that an earlier compaction left before its checkpoint
    /// are not changed again.
    pub(super) fn may_shrink(&self, turn: usize) -> bool {
        self.middle.contains(&turn) && !self.pinned.contains(&turn) && self.survey.is_after_checkpoint(turn)
    }

    /// Returns the oldest turn that is newer than the last checkpoint and not pinned, even if it is in the tail.
    pub(super) fn first_after_checkpoint(&self) -> Option<usize> {
        let mut turns = 0..self.survey.turn_tokens.len();
        turns.find(|turn| self.survey.is_after_checkpoint(*turn) && !self.pinned.contains(turn))
    }

    /// Returns the turns to remove if the whole middle is summarized.
    pub(super) fn turns_to_summarize(&self) -> BTreeSet<usize> {
        self.complete(self.free_turns().chain(self.survey.newest_checkpoint).collect())
    }

    /// Also removes orphaned results after the removed turns, and keeps prompts whose message has another
    /// prompt that stays.
    pub(super) fn complete(&self, mut gone: BTreeSet<usize>) -> BTreeSet<usize> {
        self.add_orphaned_results(&mut gone);
        self.survey.keep_messages_whole(&mut gone);
        gone
    }

    /// Whether pruning alone could reach the goal, if every free turn shrank as far as possible.
    pub(super) fn pruning_could_suffice(&self, goal: Tokens) -> bool {
        let most: Tokens = self.free_turns().map(|turn| self.survey.max_prunable_tokens(turn)).sum();
        self.survey.total - most <= goal
    }

    /// Adds results without a call that would directly follow the removed turns: not every provider accepts
    /// them there, and they most likely belong to those turns.
    fn add_orphaned_results(&self, gone: &mut BTreeSet<usize>) {
        let turns = &self.survey.transcript.turns;
        let behind = gone.last().map_or(turns.len(), |last| last + 1);
        let is_orphan = |at: &usize| turns[*at].has_only_orphaned_results() && !self.pinned.contains(at);
        gone.extend((behind..turns.len()).take_while(is_orphan));
    }
}

/// Returns the end of the head: the turns of the first `messages` messages, while their assistant turns have
/// at most `most` tokens. So a huge result is not kept just because it is among the first.
fn head_end(survey: &Survey<'_, '_>, messages: usize, most: Tokens) -> usize {
    let (mut seen, mut tokens) = (0, Tokens::ZERO);
    let reached = |(at, turn): (usize, &Turn<'_>)| {
        let before = seen;
        seen += turn.owned_elements.len().max(1);
        if matches!(turn.kind, TurnKind::Assistant { .. }) {
            tokens += survey.turn_tokens[at];
        }
        before >= messages || tokens > most
    };
    survey.transcript.turns.iter().enumerate().position(reached).unwrap_or(survey.transcript.turns.len())
}

/// The limits of the tail.
struct TailLimits {
    budget: Tokens,
    /// The largest tail in tokens: a turn that begins within the budget may extend the tail to this size.
    ceiling: Tokens,
    /// The number of newest messages that stay if they fit under the ceiling.
    protected_messages: usize,
    /// The number of newest messages that stay whatever their size.
    min_messages: usize,
}

impl TailLimits {
    fn from_policy(policy: &Policy) -> Self {
        let (budget, ceiling) = (policy.tail, policy.tail_ceiling);
        Self { budget, ceiling, protected_messages: policy.protect_last, min_messages: policy.protect_min }
    }
}

/// Returns the first turn of the tail. Turns in `paid` do not count against the budget.
fn tail_start(survey: &Survey<'_, '_>, tail: &TailLimits, uncounted_turns: &BTreeSet<usize>) -> usize {
    let (mut tokens, mut messages) = (Tokens::ZERO, 0);
    let mut start = survey.turn_tokens.len();
    for (index, turn) in survey.transcript.turns.iter().enumerate().rev() {
        let tokens_with_turn =
            if uncounted_turns.contains(&index) { tokens } else { tokens + survey.turn_tokens[index] };
        let wanted = tokens < tail.budget || messages < tail.protected_messages;
        let is_checkpoint = matches!(turn.kind, TurnKind::Checkpoint(_));
        if is_checkpoint || (!(wanted && tokens_with_turn <= tail.ceiling) && messages >= tail.min_messages) {
            break;
        }
        tokens = tokens_with_turn;
        messages += turn.owned_elements.len().max(1);
        start = index;
    }
    start
}
