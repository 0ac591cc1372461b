//! Head, middle and tail of a transcript, in whole units.
//!
//! ```text
//! system │ head: the first messages │ middle: what may change │ tail: the newest units
//! ```
//!
//! The newest thing that a person said stays where it stands: in the tail if that reaches it, else pinned in the middle.

use std::collections::BTreeSet;
use std::ops::Range;

use super::keep::first_from;
use super::survey::Survey;
use crate::Tokens;
use crate::policy::Policy;
use crate::transcript::{Status, Unit, UnitKind};

/// Where the parts of a transcript begin and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Between these units things may change.
    pub(super) middle: Range<usize>,
    /// Units that stay as they are wherever they stand.
    pub(super) pinned: BTreeSet<usize>,
    /// The checkpoint of an earlier compaction.
    pub(super) checkpoint: Option<usize>,
}

impl Bounds {
    /// The bounds that the policy's budgets give.
    pub(super) fn by_policy(survey: &Survey<'_, '_>) -> Self {
        let policy = survey.policy;
        let head = head(survey, policy.protect_first, policy.tail / 4);
        let tail = match survey.wish.keep_from {
            Some(message) => first_from(survey.transcript, message),
            None => tail(survey, &Tail::of(policy), &BTreeSet::new()),
        };
        let mut bounds = Self::with_tail(survey, head, tail);
        bounds.pinned.extend(survey.first_prompt().filter(|_| bounds.checkpoint.is_some()));
        bounds.pin_answer(survey, Self::answer_by(policy));
        bounds
    }

    /// How large an answer may be to stay where it stands, by policy.
    pub(super) fn answer_by(policy: &Policy) -> Tokens {
        policy.goal / 4
    }

    /// Keeps the answer that the newest message replies to where it stands, if it is no larger: "yes, go ahead" is nothing without it.
    pub(super) fn pin_answer(&mut self, survey: &Survey<'_, '_>, most: Tokens) {
        self.pinned.extend(survey.answer().filter(|unit| survey.units[*unit] <= most));
    }

    /// The bounds with a tail of so many tokens, and no more of a head than what was said first.
    pub(super) fn by_tokens(survey: &Survey<'_, '_>, tail_tokens: Tokens, first: Tokens) -> Self {
        let budget = Tail { budget: tail_tokens, ceiling: tail_tokens, messages: 0, least: 0 };
        let mut bounds = Self::with_tail(survey, 0, tail(survey, &budget, &survey.must_stay()));
        let said_first = survey.first_prompt().filter(|unit| survey.with_its_message(*unit) <= first);
        bounds.pinned.extend(said_first.into_iter().flat_map(|unit| survey.of_its_message(unit)));
        bounds
    }

    /// The same with nothing kept for being first, if anything is.
    pub(super) fn without_head(&self) -> Option<Self> {
        (self.middle.start > 0).then(|| Self { middle: 0..self.middle.end, ..self.clone() })
    }

    fn with_tail(survey: &Survey<'_, '_>, head: usize, tail: usize) -> Self {
        let checkpoint = survey.checkpoint();
        // Once there is a checkpoint, what was kept before it for being first is no longer new to anybody.
        let head = if checkpoint.is_some() { 0 } else { head };
        Self { middle: head..tail.max(head), pinned: survey.must_stay(), checkpoint }
    }

    /// Makes the tail no longer than that of others.
    pub(super) fn end_with(&mut self, others: &Self) {
        self.middle.end = self.middle.end.max(others.middle.end);
    }

    /// The units of the middle that may change or go.
    pub(super) fn free(&self) -> impl Iterator<Item = usize> {
        self.middle.clone().filter(|unit| !self.pinned.contains(unit))
    }

    /// Whether a unit may change.
    pub(super) fn may_change(&self, unit: usize) -> bool {
        self.middle.contains(&unit) && !self.pinned.contains(&unit)
    }

    /// Whether a unit may be made shorter where it stands: what an earlier checkpoint left before itself is not touched again.
    pub(super) fn may_shrink(&self, unit: usize) -> bool {
        self.may_change(unit) && self.is_new(unit)
    }

    /// Whether a unit came after the last checkpoint.
    pub(super) fn is_new(&self, unit: usize) -> bool {
        self.checkpoint.is_none_or(|checkpoint| unit > checkpoint)
    }

    /// The oldest of so many units that came after the last checkpoint and may go, be it of the tail.
    pub(super) fn first_new(&self, units: usize) -> Option<usize> {
        (0..units).find(|unit| self.is_new(*unit) && !self.pinned.contains(unit))
    }

    /// What goes where all between them is folded.
    pub(super) fn gone(&self, survey: &Survey<'_, '_>) -> BTreeSet<usize> {
        let mut gone: BTreeSet<usize> = self.free().chain(self.checkpoint).collect();
        self.add_orphans(survey, &mut gone);
        survey.keep_messages_whole(&mut gone);
        gone
    }

    /// Whether pruning alone could reach the goal, if it left as little as it can of what it may change.
    pub(super) fn could_be_enough(&self, survey: &Survey<'_, '_>, goal: Tokens) -> bool {
        let most: Tokens = self.free().map(|unit| survey.prunable(unit)).sum();
        survey.total - most <= goal
    }

    /// Adds to what goes the results without a call that would stand right behind it: not everybody takes them there, and they
    /// belong to what goes if to anything.
    pub(super) fn add_orphans(&self, survey: &Survey<'_, '_>, gone: &mut BTreeSet<usize>) {
        let is_orphan = |unit: &Unit<'_>| match &unit.kind {
            UnitKind::Step { reply, exchanges } => {
                reply.is_empty() && exchanges.iter().all(|e| e.status == Status::Orphan)
            }
            _ => false,
        };
        let behind = gone.last().map_or(survey.units.len(), |last| last + 1);
        let units = survey.transcript.units.iter().enumerate().skip(behind);
        let orphans = units.take_while(|(at, unit)| is_orphan(unit) && !self.pinned.contains(at));
        gone.extend(orphans.map(|(at, _)| at));
    }
}

/// The units of the first messages, as far as their steps take no more than so many tokens: a giant result is not kept for being
/// first.
fn head(survey: &Survey<'_, '_>, messages: usize, most: Tokens) -> usize {
    let (mut seen, mut tokens) = (0, Tokens::ZERO);
    let reached = |(at, unit): (usize, &Unit<'_>)| {
        let before = seen;
        seen += unit.owns.len().max(1);
        if matches!(unit.kind, UnitKind::Step { .. }) {
            tokens += survey.units[at];
        }
        before >= messages || tokens > most
    };
    survey.transcript.units.iter().enumerate().position(reached).unwrap_or(survey.transcript.units.len())
}

/// How far the tail reaches back.
struct Tail {
    budget: Tokens,
    /// A unit that begins within the budget may reach up to here.
    ceiling: Tokens,
    /// This many messages stay up to the ceiling,
    messages: usize,
    /// and this many whatever they cost.
    least: usize,
}

impl Tail {
    fn of(policy: &Policy) -> Self {
        let (budget, ceiling) = (policy.tail, policy.tail_ceiling);
        Self { budget, ceiling, messages: policy.protect_last, least: policy.protect_least }
    }
}

/// The first unit of the tail. What is paid for elsewhere costs it nothing.
fn tail(survey: &Survey<'_, '_>, tail: &Tail, paid: &BTreeSet<usize>) -> usize {
    let (mut tokens, mut messages) = (Tokens::ZERO, 0);
    let mut start = survey.units.len();
    for (index, unit) in survey.transcript.units.iter().enumerate().rev() {
        let with = if paid.contains(&index) { tokens } else { tokens + survey.units[index] };
        let wanted = tokens < tail.budget || messages < tail.messages;
        let is_checkpoint = matches!(unit.kind, UnitKind::Checkpoint(_));
        if is_checkpoint || (!(wanted && with <= tail.ceiling) && messages >= tail.least) {
            break;
        }
        tokens = with;
        messages += unit.owns.len().max(1);
        start = index;
    }
    start
}
