//! What a compaction does, while it is being worked out: which blocks change to what, which units go.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{BlockReport, CheckpointReport, EvidenceReport, Fate, Restart, Rung, Step, What};
use super::survey::{FOCUS_BYTES, ResultAt, Survey};
use super::{CountFacts, Keep, Original};
use crate::Tokens;
use crate::checkpoint::Page;
use crate::digest::{self, Focus, Source};
use crate::facts::Facts;
use crate::hosted;
use crate::ledger::Placed;
use crate::passes::NewText;
use crate::seat::gone_messages;
use crate::summary::Finding;
use crate::transcript::{Block, BlockAt, BlockKind, Part, PartKind, Seal, Unit, UnitKind};

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
    /// What the request would cost, without what comes in the place of units.
    pub(super) total: Tokens,
    pub(super) changed: BTreeMap<BlockAt, Changed>,
    /// Units that go,
    pub(super) gone: BTreeSet<usize>,
    /// and what comes in their place.
    pub(super) in_place: InPlace,
    /// Results for calls that have none.
    pub(super) stubs: BTreeMap<BlockAt, String>,
    /// What was done because the request was still too large, in order.
    pub(super) ladder: Vec<Rung>,
    /// What a person should know.
    pub(super) notes: Vec<String>,
}

/// What stands in the place of units that go.
#[derive(Debug, Clone, Default)]
pub(super) enum InPlace {
    /// Nothing goes.
    #[default]
    Nothing,
    /// How many they were.
    Count(Placed),
    /// What they said.
    Checkpoint(Folding),
}

/// A checkpoint, where it stands, and what is said of it.
#[derive(Debug, Clone)]
pub(super) struct Folding {
    pub(super) placed: Placed,
    pub(super) report: CheckpointReport,
    /// How many things there were to say,
    pub(super) found: usize,
    /// and how many of them are said.
    pub(super) kept: usize,
    /// What was mended of a model's summary.
    pub(super) findings: Vec<Finding>,
    /// Why a summary that was handed in is not in it.
    pub(super) note: Option<String>,
    /// The pages that were written for it.
    pub(super) pages: Vec<Page>,
}

impl InPlace {
    pub(super) fn placed(&self) -> Option<&Placed> {
        match self {
            Self::Nothing => None,
            Self::Count(placed) => Some(placed),
            Self::Checkpoint(folding) => Some(&folding.placed),
        }
    }

    pub(super) fn folding(&self) -> Option<&Folding> {
        match self {
            Self::Checkpoint(folding) => Some(folding),
            Self::Nothing | Self::Count(_) => None,
        }
    }
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
    pub(super) fn new(survey: &'s Survey<'t, 'b>) -> Self {
        Self {
            survey,
            total: survey.total,
            changed: BTreeMap::new(),
            gone: BTreeSet::new(),
            in_place: InPlace::Nothing,
            stubs: BTreeMap::new(),
            ladder: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Whether nothing was decided.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty()
    }

    fn keep(&self) -> &'t Keep {
        &self.survey.wish.keep
    }

    /// Another text for a block. What it costs is counted now.
    pub(super) fn change(&mut self, at: BlockAt, to: NewText, why: &'static str) {
        let Some(to) = self.with_relayed(at, to) else { return };
        let (NewText::Text(text) | NewText::Mark(text)) = &to;
        let before = self.survey.tokens(at);
        let after = self.survey.meter.counter.count(text);
        let now = self.changed.get(&at).map_or(before, |changed| changed.after);
        self.total = self.total + after - now;
        self.changed.insert(at, Changed { to, why, before, after });
    }

    /// A new text for a result, with the words that a host passed on behind the old one. Nothing where that is no shorter.
    fn with_relayed(&self, at: BlockAt, to: NewText) -> Option<NewText> {
        let part = self.survey.transcript.parts_of(at.unit).nth(at.block);
        let result = part.filter(|part| matches!(part.kind, PartKind::Result { .. }));
        let (NewText::Text(short), Some(Part { block, .. })) = (&to, result) else { return Some(to) };
        let text = block.text();
        if hosted::behind(&text).is_none() {
            return Some(to);
        }
        let recall =
            self.keep().handle(&text).map_or_else(String::new, |handle| format!(" (recall {handle})"));
        let carried = hosted::carried(&text, hosted::output(short), &format!(" […]{recall}"));
        (carried.len() < text.len()).then_some(NewText::Text(carried))
    }

    /// A result for a call that has none. What it costs counts from now on, with what stands around it.
    pub(super) fn answer(&mut self, call: BlockAt, text: &str) {
        const AROUND: Tokens = Tokens(24);
        if self.stubs.insert(call, text.to_owned()).is_none() {
            self.total += self.survey.meter.counter.count(text) + AROUND;
        }
    }

    /// The same with calls and results as the client left them; nothing where they are.
    pub(super) fn unrepaired(&self) -> Option<Self> {
        let removed = matches!(self.in_place, InPlace::Nothing) && !self.gone.is_empty();
        if self.stubs.is_empty() && !removed {
            return None;
        }
        let mut draft = self.clone();
        draft.stubs.clear();
        if removed {
            self.gone.iter().for_each(|unit| draft.put_back(*unit));
        }
        Some(draft)
    }

    /// Leaves a block as it was.
    pub(super) fn restore(&mut self, at: BlockAt) {
        if let Some(Changed { before, after, .. }) = self.changed.remove(&at) {
            self.total = self.total + before - after;
        }
    }

    /// Shrinks a result, if that saves anything over what was decided before.
    pub(super) fn shrink(&mut self, result: ResultAt<'t, 'b>, length: Length) {
        let text = result.block.text();
        let Some(short) = self.shorter(&result, &text, length) else { return };
        let after = self.survey.meter.counter.count(&short);
        let now = self.changed.get(&result.at).map_or(self.survey.tokens(result.at), |changed| changed.after);
        if short == *text || after >= now {
            return;
        }
        let why = match length {
            Length::Budget(_) => "a large output before the protected end",
            Length::Line => "a larger digest would have missed the target",
        };
        self.change(result.at, NewText::Text(short), why);
    }

    /// A shorter text for a result; nothing for a digest that cannot be made shorter and stay true.
    fn shorter(&self, result: &ResultAt<'t, 'b>, text: &str, length: Length) -> Option<String> {
        let exchange = result.exchange;
        let (whole, text) = (text, hosted::output(text));
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
        let handle = self.keep().handle(whole);
        let source = Source {
            text,
            bytes: None,
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
        let transcript = self.survey.transcript;
        let is_step = |unit: &usize| matches!(transcript.units[*unit].kind, UnitKind::Step { .. });
        let is_result = |part: &Part<'_, '_>| matches!(part.kind, PartKind::Result { .. });
        let next = (unit + 1..transcript.units.len()).filter(is_step).take(2);
        let replies = next.flat_map(|unit| transcript.parts_of(unit).filter(|part| !is_result(part)).take(8));
        let openings: Vec<_> = replies.map(|part| part.block.opening(FOCUS_BYTES)).collect();
        Focus::on(self.survey.about.iter().map(String::as_str).chain(openings.iter().map(AsRef::as_ref)))
    }

    /// What a unit costs with what was decided about it.
    pub(super) fn unit(&self, unit: usize) -> Tokens {
        let of_unit = self.changed.range(BlockAt::all_of(unit));
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

    /// How many messages go.
    pub(super) fn gone_messages(&self) -> usize {
        gone_messages(self.survey.transcript, &self.gone).iter().filter(|gone| **gone).count()
    }

    /// The session that is left behind, if a new one has to begin.
    pub(super) fn restart(&self) -> Option<Restart> {
        let parent = self.survey.wish.session.clone();
        let restarts = self.ladder.iter().any(|rung| rung.step == Step::Restart);
        restarts.then(|| Restart { parent, archived_messages: self.gone_messages() })
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
        let parts = (first..units.len()).filter(stays).flat_map(|unit| self.survey.transcript.parts_of(unit));
        let sealed = parts.filter(|part| part.block.kind == BlockKind::Reasoning(Seal::Sealed));
        sealed.map(|part| part.at).collect()
    }

    /// What became of each block that changed, and the originals where they are kept.
    pub(super) fn account(&self, unbound: &BTreeSet<BlockAt>) -> Account {
        let (gone, facts) = match self.in_place {
            // What a checkpoint says of what is gone, it counts itself.
            InPlace::Checkpoint(_) => ("folded into the checkpoint", CountFacts::No),
            InPlace::Count(_) => ("the window was full", self.survey.wish.facts),
            InPlace::Nothing => {
                ("a result without a call, which the provider refuses", self.survey.wish.facts)
            }
        };
        let mut account = Account::default();
        let touched = self.standing().map(|(at, _)| at.unit).chain(unbound.iter().map(|at| at.unit));
        let touched: BTreeSet<usize> = touched.chain(self.gone.iter().copied()).collect();
        for unit in touched {
            for part in self.survey.transcript.parts_of(unit) {
                let changed = self.changed.get(&part.at);
                let before = self.survey.tokens(part.at);
                let becomes = match changed {
                    _ if self.gone.contains(&unit) => Becomes::nothing(before, gone),
                    _ if unbound.contains(&part.at) => {
                        Becomes::nothing(before, "bound to what was changed before it")
                    }
                    Some(changed) => Becomes::changed(changed),
                    None => continue,
                };
                self.enter(&mut account, part, &becomes, facts);
            }
        }
        if let Some(Folding { found, kept, pages, .. }) = self.in_place.folding() {
            account.evidence.enter(*found, *kept, self.keep());
            let at = account.originals.first().map_or(0, |first| first.at);
            account.originals.extend(pages.iter().map(|Page { handle, text }| Original {
                handle: handle.clone(),
                at,
                what: What::Page,
                tool: None,
                text: text.clone(),
            }));
        }
        if !account.rows.is_sorted_by_key(|row| row.at) {
            account.rows.sort_by_key(|row| row.at);
        }
        account
    }

    fn enter(&self, account: &mut Account, part: Part<'_, 'b>, becomes: &Becomes<'_>, facts: CountFacts) {
        let (block, what) = (part.block, What::of(&self.survey.transcript.units[part.at.unit], part));
        let text = || if block.text.is_some() { block.text() } else { block.raw().into() };
        let fate = match self.keep() {
            _ if !becomes.text.is_empty() => Fate::Digested,
            Keep::Nothing => Fate::Lost,
            Keep::Originals(_) => Fate::Recallable,
        };
        if block.text.is_some() && what != What::Reasoning && facts == CountFacts::Yes {
            let text = text();
            let facts = Facts::of(&text);
            account.evidence.enter(facts.found.len(), facts.kept_in(becomes.text), self.keep());
        }
        let at = self.survey.message_of(part.at.unit, block);
        let tool = part.kind.exchange().map(|exchange| exchange.tool.clone().into_owned());
        let mut handle = None;
        if let Keep::Originals(handles) = self.keep() {
            let text = text();
            let fetched_by = handles.of(&text);
            handle = Some(fetched_by.clone());
            if !handles.is_stand_in(&text) {
                let (tool, text) = (tool.clone(), text.into_owned());
                account.originals.push(Original { handle: fetched_by, at, what, tool, text });
            }
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
    !unit.exchanges().is_empty()
}
