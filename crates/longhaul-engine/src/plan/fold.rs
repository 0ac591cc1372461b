//! The checkpoint that takes the place of folded units: what goes in, how large it may be, where it stands.

use std::collections::BTreeSet;

use super::compressor::Work;
use super::pick::{PickedLines, Pool, Stand};
use super::report::{CheckpointReport, WrittenBy};
use super::survey::Survey;
use crate::Tokens;
use crate::action::Action;
use crate::checkpoint::{self, Checkpoint, Closing, Quote, Section, Sections};
use crate::evidence::Evidence;
use crate::ledger::Placed;
use crate::passes::BlockAt;
use crate::seat;
use crate::transcript::{Block, BlockKind, ElementId, Speaker, UnitKind};
use crate::values::readable;
use crate::wire::{self, Role};

/// A checkpoint, where it stands, and what is said of it.
#[derive(Debug, Clone)]
pub(super) struct Folding {
    pub(super) placed: Placed,
    pub(super) report: CheckpointReport,
}

/// What is folded, and what is said of it whatever is quoted.
pub(super) struct Fold<'f> {
    /// The units that go, the earlier checkpoint among them.
    gone: &'f BTreeSet<usize>,
    /// What all of the checkpoint but the quotes may cost.
    sections: Tokens,
    /// What the marker alone costs.
    least: Tokens,
    before: usize,
    closing: Closing,
    voice: checkpoint::Voice,
    previous: Option<Checkpoint>,
    /// The sections as they were chosen last.
    chosen: Option<Sections>,
}

impl<'f> Fold<'f> {
    pub(super) fn new(survey: &Survey<'_, '_>, gone: &'f BTreeSet<usize>, sections: Tokens) -> Self {
        let before = place(survey, gone);
        let role = seat::find(survey.transcript, before, gone).role();
        let voice = if role == Role::User { checkpoint::Voice::User } else { checkpoint::Voice::Assistant };
        let (closing, previous) = (closing(survey, before), previous(survey, gone));
        // There is no less than the marker, whatever the budget.
        let least = survey.meter.counter.count(&Checkpoint::least(closing, voice));
        Self { gone, sections: sections.max(least), least, before, closing, voice, previous, chosen: None }
    }

    /// Writes the checkpoint within a budget, with lines quoted from what goes.
    pub(super) fn write(&mut self, work: &mut Work<'_, '_, '_>, budget: Tokens, quotes: &[Quote]) -> Folding {
        let budget = budget.max(self.least);
        let terse_below = Tokens(work.policy.checkpoint.terse_below as u64);
        let sections = match self.chosen.take() {
            Some(sections) if sections.are_terse() == (budget < terse_below) => sections,
            _ => {
                let draft = checkpoint::Draft {
                    evidence: work.evidence,
                    folded: &|unit| self.gone.contains(&unit),
                    previous: self.previous.as_ref(),
                    quotes: &[],
                    budget,
                    sections: self.sections,
                    terse_below,
                    counter: work.survey.meter.counter,
                    focus: work.wish.focus.as_deref(),
                    closing: self.closing,
                    voice: self.voice,
                };
                Sections::choose(&draft, work.redactor)
            }
        };
        let written = sections.quoting(quotes, budget, work.redactor);
        self.chosen = Some(sections);
        let filled = |section: &Section| !written.checkpoint.is_empty(*section);
        let sections = Section::ALL.iter().filter(|section| filled(section)).count();
        let report = CheckpointReport { by: WrittenBy::Code, tokens: written.tokens, sections };
        Folding { placed: Placed { before: self.before, text: written.text }, report }
    }
}

/// The share of a checkpoint that quoted lines may take.
const QUOTED: f64 = 0.35;

/// The checkpoint of what goes within a budget: sections first, then lines by worth.
pub(super) fn within(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>, budget: Tokens) -> Folding {
    let lines = Tokens((budget.number() as f64 * QUOTED) as u64).min(budget - needed(work, gone));
    let sections = budget - lines;
    let mut fold = Fold::new(work.survey, gone, sections);
    let bare = fold.write(work, sections, &[]);
    let pool = Pool::new(work.known, work.survey, work.looked_through(budget));
    let stand = |at: BlockAt| if gone.contains(&at.unit) { Stand::Goes } else { Stand::Stays };
    let left = budget - bare.report.tokens;
    let topic = work.topic();
    let picked = pool.pick(left, &stand, &[&bare.placed.text], &topic);
    drop(topic);
    let quotes = quotes(work.survey, work.evidence, &picked.lines, |rate| rate);
    fold.write(work, budget, &quotes)
}

/// Before which unit the checkpoint stands: behind all that it replaces; but first of all where a reply would be, for a request
/// begins with the user's words.
fn place(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>) -> usize {
    let transcript = survey.transcript;
    let behind = gone.last().map_or(0, |last| last + 1);
    let first = (0..behind).find(|unit| !gone.contains(unit)).filter(|first| *first > 0);
    let is_reply = |unit: &usize| {
        let message = transcript.units[*unit].owns.first().and_then(|id| transcript.message_of(*id));
        let id = transcript.messages.zip(message).map(|(array, at)| ElementId { array, index: at as u32 });
        matches!(id.and_then(|id| wire::role(transcript, id)), Some(Role::Assistant | Role::Tool))
    };
    first.filter(is_reply).unwrap_or(behind)
}

/// Where the request is, seen from a checkpoint before this unit.
fn closing(survey: &Survey<'_, '_>, before: usize) -> Closing {
    match survey.newest_prompt() {
        Some(newest) if newest < before => Closing::RequestAbove,
        _ => Closing::RequestFollows,
    }
}

/// The checkpoint that this one replaces.
fn previous(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>) -> Option<Checkpoint> {
    let at = survey.checkpoint().filter(|at| gone.contains(at))?;
    match &survey.transcript.units[at].kind {
        UnitKind::Checkpoint(block) => Checkpoint::parse(&block.text()),
        _ => None,
    }
}

/// What the least that a checkpoint can be would cost.
pub(super) fn smallest(survey: &Survey<'_, '_>) -> Tokens {
    survey.meter.counter.count(&Checkpoint::least(Closing::RequestAbove, checkpoint::Voice::User))
}

/// What a rule adds to its words in a checkpoint: its mark, and its part of the heading.
const RULE_FRAMING: Tokens = Tokens(10);

/// What a checkpoint of these units needs to hold their rules, and those of the checkpoint that it replaces.
pub(super) fn needed(work: &Work<'_, '_, '_>, gone: &BTreeSet<usize>) -> Tokens {
    let counter = work.survey.meter.counter;
    let cost = |rule: &str| counter.count(rule) + RULE_FRAMING;
    let rules = work.evidence.rules.iter().filter(|rule| gone.contains(&rule.unit));
    let held = previous(work.survey, gone).unwrap_or_default();
    let held = held.list(Section::Constraints).iter().map(|rule| cost(rule.as_str()));
    smallest(work.survey) + rules.map(|rule| cost(&rule.text)).chain(held).sum::<Tokens>()
}

/// Picked lines as quotes, each under the name of what it is from. `weight` says what a rate is worth beside the sections.
pub(super) fn quotes(
    survey: &Survey<'_, '_>,
    evidence: &Evidence,
    picked: &PickedLines,
    weight: impl Fn(f64) -> f64,
) -> Vec<Quote> {
    let mut quotes = Vec::with_capacity(picked.len());
    for (at, (rate, lines)) in picked {
        let Some(block) = survey.transcript.units[at.unit].blocks().nth(at.block) else { continue };
        let text = readable(block);
        let lines = lines.iter().map(|line| text[line.clone()].to_owned()).collect();
        let source = source(survey, evidence, *at, block);
        quotes.push(Quote { unit: at.unit, source, lines, weight: weight(*rate) });
    }
    quotes
}

/// How a block is named to a reader. The name is cut where it is written, for it is redacted before.
pub(super) fn source(survey: &Survey<'_, '_>, evidence: &Evidence, at: BlockAt, block: &Block<'_>) -> String {
    match &survey.transcript.units[at.unit].kind {
        UnitKind::Prompt { by: Speaker::User, .. } => "the user".to_owned(),
        UnitKind::Prompt { .. } => "a note to the assistant".to_owned(),
        UnitKind::Checkpoint(_) | UnitKind::Opaque(_) => "an earlier summary".to_owned(),
        UnitKind::Step { reply, exchanges } => {
            if at.block < reply.len() {
                let thought = matches!(block.kind, BlockKind::Reasoning(_));
                return if thought { "the assistant's thoughts" } else { "the assistant" }.to_owned();
            }
            let owner = exchanges.iter().position(|exchange| {
                let holds = |b: &Block<'_>| std::ptr::eq(b, block);
                exchange.call.as_ref().is_some_and(holds) || exchange.results.iter().any(holds)
            });
            let action = owner.and_then(|index| evidence.action(at.unit, index));
            let called = action.map_or_else(
                || "a tool".to_owned(),
                |action: &Action| {
                    let target = action.target.as_deref().unwrap_or_default();
                    format!("{} {target}", action.tool).trim_end().to_owned()
                },
            );
            if block.kind == BlockKind::Call { format!("call of {called}") } else { called }
        }
    }
}
