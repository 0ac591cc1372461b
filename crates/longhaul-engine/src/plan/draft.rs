//! What a compaction does, while it is being worked out: which blocks change to what, which units go.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{BlockReport, EvidenceReport, Fate, What};
use super::survey::{FOCUS_BYTES, ResultAt, Survey};
use super::{CountFacts, Keep, Original};
use crate::Tokens;
use crate::digest::{self, Focus, Source};
use crate::facts::Facts;
use crate::passes::{BlockAt, NewText};
use crate::transcript::{Block, BlockKind, Exchange, Seal, Unit, UnitKind};

/// A block that changes.
#[derive(Debug, Clone)]
pub(super) struct Changed {
    pub(super) to: NewText,
    pub(super) why: &'static str,
    pub(super) before: Tokens,
    pub(super) after: Tokens,
}

/// The decisions so far, and what the request would cost with them.
#[derive(Clone)]
pub(super) struct Draft<'s, 't, 'b> {
    pub(super) survey: &'s Survey<'t, 'b>,
    pub(super) keep: &'s Keep,
    pub(super) total: Tokens,
    pub(super) changed: BTreeMap<BlockAt, Changed>,
    /// Units that go, with something or nothing in their place.
    pub(super) gone: BTreeSet<usize>,
}

/// How short a result is to become.
#[derive(Clone, Copy)]
pub(super) enum Length {
    /// Within a budget.
    Budget(Tokens),
    /// One line, and the errors of what failed.
    Line,
}

impl<'s, 't, 'b> Draft<'s, 't, 'b> {
    pub(super) fn new(survey: &'s Survey<'t, 'b>, keep: &'s Keep) -> Self {
        Self { survey, keep, total: survey.total, changed: BTreeMap::new(), gone: BTreeSet::new() }
    }

    /// Another text for a block. What it costs is counted now.
    pub(super) fn change(&mut self, at: BlockAt, to: NewText, why: &'static str, before: Tokens) {
        let (NewText::Text(text) | NewText::Mark(text)) = &to;
        let after = self.survey.meter.counter.count(text);
        let now = self.changed.get(&at).map_or(before, |changed| changed.after);
        self.total = self.total + after - now;
        self.changed.insert(at, Changed { to, why, before, after });
    }

    /// Leaves a block as it was.
    pub(super) fn restore(&mut self, at: BlockAt) {
        if let Some(Changed { before, after, .. }) = self.changed.remove(&at) {
            self.total = self.total + before - after;
        }
    }

    /// Shrinks a result, if that saves anything over what was decided before.
    pub(super) fn shrink(&mut self, result: ResultAt<'t, 'b>, length: Length, before: Tokens) {
        let text = result.block.text();
        let Some(short) = self.shorter(&result, &text, length) else { return };
        let after = self.survey.meter.counter.count(&short);
        let now = self.changed.get(&result.at).map_or(before, |changed| changed.after);
        if short == *text || after >= now {
            return;
        }
        let why = match length {
            Length::Budget(_) => "a large output before the protected end",
            Length::Line => "a larger digest would have missed the target",
        };
        self.change(result.at, NewText::Text(short), why, before);
    }

    /// A shorter text for a result; nothing for a digest that cannot be made shorter and stay true.
    fn shorter(&self, result: &ResultAt<'t, 'b>, text: &str, length: Length) -> Option<String> {
        let exchange = result.exchange;
        if digest::is_digest(text, &exchange.tool) {
            return match length {
                Length::Budget(_) => None,
                Length::Line => digest::first_line(text),
            };
        }
        // A line has no room for what the task is about.
        let focus = match length {
            Length::Budget(_) => self.focus(result.at.unit),
            Length::Line => Focus::none(),
        };
        let arguments = exchange.call.as_ref().map(Block::text);
        let handle = self.keep.handle(text);
        let source = Source {
            text,
            tool: Some(&*exchange.tool).filter(|name| !name.is_empty()),
            arguments: arguments.as_deref(),
            kind: None,
            failed: exchange.failed,
            focus: &focus,
            handle: handle.as_deref(),
        };
        Some(match length {
            Length::Budget(budget) => digest::digest(&source, budget).text,
            Length::Line => digest::one_line(&source).text,
        })
    }

    /// What the task is about as far as this unit is concerned: the newest request, and what was done next.
    fn focus(&self, unit: usize) -> Focus {
        let next = self.survey.transcript.units.iter().skip(unit + 1);
        let next = next.filter(|u| matches!(u.kind, UnitKind::Step { .. })).take(2);
        let replies = next.flat_map(|unit| match &unit.kind {
            UnitKind::Step { reply, exchanges } => reply
                .iter()
                .chain(exchanges.iter().filter_map(|e| e.call.as_ref()))
                .take(8)
                .collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let openings: Vec<_> = replies.map(|block| block.opening(FOCUS_BYTES)).collect();
        Focus::on(self.survey.about.iter().map(String::as_str).chain(openings.iter().map(AsRef::as_ref)))
    }

    /// What a unit costs with what was decided about it.
    pub(super) fn unit(&self, unit: usize) -> Tokens {
        let of_unit = self.changed.range(BlockAt { unit, block: 0 }..BlockAt { unit: unit + 1, block: 0 });
        let (before, after) = of_unit.fold((Tokens::ZERO, Tokens::ZERO), |(before, after), (_, changed)| {
            (before + changed.before, after + changed.after)
        });
        self.survey.units[unit] + after - before
    }

    /// Takes a unit out.
    pub(super) fn take_out(&mut self, unit: usize) {
        if self.gone.insert(unit) {
            self.total = self.total - self.unit(unit);
        }
    }

    /// Puts a unit back that was taken out.
    pub(super) fn put_back(&mut self, unit: usize) {
        if self.gone.remove(&unit) {
            self.total += self.unit(unit);
        }
    }

    /// The changes of blocks whose units stay.
    pub(super) fn standing(&self) -> impl Iterator<Item = (&BlockAt, &Changed)> {
        self.changed.iter().filter(|(at, _)| !self.gone.contains(&at.unit))
    }

    /// The sealed reasoning that stands behind the first change: a model that binds it to its prefix refuses it there. That of
    /// an open last step stays, for the provider wants it there; it may be refused all the same.
    pub(super) fn unbound(&self) -> BTreeSet<BlockAt> {
        let units = &self.survey.transcript.units;
        let changed = self.changed.keys().map(|at| at.unit + 1);
        let Some(first) = changed.chain(self.gone.iter().copied()).min() else { return BTreeSet::new() };
        let last_open = units.len().checked_sub(1).filter(|at| is_open(&units[*at]));
        let stays = |at: &usize| !self.gone.contains(at) && Some(*at) != last_open;
        let steps = units.iter().enumerate().skip(first).filter(|(at, _)| stays(at));
        let sealed = steps.flat_map(|(unit, step)| {
            let blocks = step.blocks().enumerate();
            let sealed = blocks.filter(|(_, b)| b.kind == BlockKind::Reasoning(Seal::Sealed));
            sealed.map(move |(block, _)| BlockAt { unit, block })
        });
        sealed.collect()
    }

    /// What became of each block that changed, and the originals where they are kept.
    pub(super) fn account(
        &self,
        unbound: &BTreeSet<BlockAt>,
        (gone, facts): (&'static str, CountFacts),
    ) -> Account {
        let mut account = Account::default();
        let touched = self.standing().map(|(at, _)| at.unit).chain(unbound.iter().map(|at| at.unit));
        let touched: BTreeSet<usize> = touched.chain(self.gone.iter().copied()).collect();
        for unit in touched {
            for (block, part) in parts(&self.survey.transcript.units[unit]).into_iter().enumerate() {
                let at = BlockAt { unit, block };
                let changed = self.changed.get(&at);
                let before = changed.map_or_else(|| self.survey.blocks[unit][block], |c| c.before);
                let becomes = match changed {
                    _ if self.gone.contains(&unit) => Becomes::nothing(before, gone),
                    _ if unbound.contains(&at) => {
                        Becomes::nothing(before, "bound to what was changed before it")
                    }
                    Some(changed) => Becomes::changed(changed),
                    None => continue,
                };
                self.enter(&mut account, unit, &part, &becomes, facts);
            }
        }
        if !account.rows.is_sorted_by_key(|row| row.at) {
            account.rows.sort_by_key(|row| row.at);
        }
        account
    }

    fn enter(
        &self,
        account: &mut Account,
        unit: usize,
        part: &Part<'_, 'b>,
        becomes: &Becomes<'_>,
        facts: CountFacts,
    ) {
        let Part { block, what, tool } = *part;
        let text = || if block.text.is_some() { block.text() } else { block.raw().into() };
        let fate = match self.keep {
            _ if !becomes.text.is_empty() => Fate::Digested,
            Keep::Nothing => Fate::Lost,
            Keep::Originals(_) => Fate::Recallable,
        };
        if block.text.is_some() && what != What::Reasoning && facts == CountFacts::Yes {
            let text = text();
            let facts = Facts::of(&text);
            account.evidence.enter(facts.found.len(), facts.kept_in(becomes.text), self.keep);
        }
        let (at, tool) = (self.survey.message_of(unit, block), tool.map(str::to_owned));
        let mut handle = None;
        if let Keep::Originals(_) = self.keep {
            let text = text();
            handle = self.keep.handle(&text);
            let kept = handle.clone().map(|handle| (handle, tool.clone(), text.into_owned()));
            account.originals.extend(kept.map(|(handle, tool, text)| Original {
                handle,
                at,
                what,
                tool,
                text,
            }));
        }
        let (tokens, why) = (becomes.tokens, becomes.why);
        account.rows.push(BlockReport { handle, at, what, tool, fate, tokens, why });
    }
}

/// What stands in a block's place, and why.
struct Becomes<'a> {
    text: &'a str,
    tokens: [Tokens; 2],
    why: &'static str,
}

impl<'a> Becomes<'a> {
    fn nothing(before: Tokens, why: &'static str) -> Self {
        Self { text: "", tokens: [before, Tokens::ZERO], why }
    }

    fn changed(changed: &'a Changed) -> Self {
        let (NewText::Text(text) | NewText::Mark(text)) = &changed.to;
        Self { text, tokens: [changed.before, changed.after], why: changed.why }
    }
}

/// What became of the blocks that changed.
#[derive(Default)]
pub(super) struct Account {
    pub(super) rows: Vec<BlockReport>,
    pub(super) originals: Vec<Original>,
    pub(super) evidence: EvidenceReport,
}

/// Whether a step still waits for the reply to its results, or for results.
fn is_open(unit: &Unit<'_>) -> bool {
    matches!(&unit.kind, UnitKind::Step { exchanges, .. } if !exchanges.is_empty())
}

/// A block of a unit, what it is, and its tool.
struct Part<'u, 'b> {
    block: &'u Block<'b>,
    what: What,
    tool: Option<&'u str>,
}

/// The blocks of a unit in the order of [`Unit::blocks`].
fn parts<'u, 'b>(unit: &'u Unit<'b>) -> Vec<Part<'u, 'b>> {
    let plain = |what: What| move |block| Part { block, what, tool: None };
    match &unit.kind {
        UnitKind::Prompt { blocks, .. } => blocks.iter().map(plain(What::Prompt)).collect(),
        UnitKind::Checkpoint(block) => vec![plain(What::Checkpoint)(block)],
        UnitKind::Opaque(block) => vec![plain(What::Opaque)(block)],
        UnitKind::Step { reply, exchanges } => {
            let said = reply.iter().map(|block| match block.kind {
                BlockKind::Reasoning(_) => plain(What::Reasoning)(block),
                _ => plain(What::Reply)(block),
            });
            let of = |exchange: &'u Exchange<'b>, what: What| {
                move |block: &'u Block<'b>| Part { block, what, tool: Some(&*exchange.tool) }
            };
            let calls = exchanges.iter().flat_map(|e| e.call.iter().map(of(e, What::Call)));
            let results = exchanges.iter().flat_map(|e| e.results.iter().map(of(e, What::Result)));
            said.chain(calls).chain(results).collect()
        }
    }
}
