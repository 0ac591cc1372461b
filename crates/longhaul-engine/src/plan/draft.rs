//! What a compaction does, while it is being worked out: which results shrink to what, which units go.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{BlockReport, Fate, What};
use super::survey::{FOCUS_BYTES, ResultAt, Survey};
use super::{Keep, Original};
use crate::Tokens;
use crate::digest::{self, Focus, Source};
use crate::known::Known;
use crate::rewrite::Edit;
use crate::transcript::{Block, BlockKind, Exchange, Place, Seal, Unit, UnitKind};

/// A result that shrinks.
pub(super) struct Shrunk {
    text: String,
    before: Tokens,
    after: Tokens,
}

/// The decisions so far, and what the request would cost with them.
pub(super) struct Draft<'s, 't, 'b> {
    pub(super) survey: &'s Survey<'t, 'b>,
    pub(super) keep: &'s Keep,
    pub(super) total: Tokens,
    pub(super) shrunk: BTreeMap<ResultAt, Shrunk>,
    pub(super) dropped: BTreeSet<usize>,
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
        let (shrunk, dropped) = (BTreeMap::new(), BTreeSet::new());
        Self { survey, keep, total: survey.total, shrunk, dropped }
    }

    /// Shrinks a result, if that saves anything over what was decided before.
    pub(super) fn shrink(&mut self, at: ResultAt, length: Length, before: Tokens) {
        let (Some(block), Some(exchange)) = (self.survey.block(at), self.survey.exchange(at)) else { return };
        let text = block.text();
        let Some(short) = self.shorter(at.0, &text, exchange, length) else { return };
        let after = self.survey.meter.counter.count(&short);
        let now = self.shrunk.get(&at).map_or(before, |s| s.after);
        if short == *text || after >= now {
            return;
        }
        self.total = self.total - (now - after);
        self.shrunk.insert(at, Shrunk { text: short, before, after });
    }

    /// A shorter text for a result; nothing for a digest that cannot be made shorter and stay true.
    fn shorter(&self, unit: usize, text: &str, exchange: &Exchange<'b>, length: Length) -> Option<String> {
        if digest::is_digest(text, &exchange.tool) {
            return match length {
                Length::Budget(_) => None,
                Length::Line => digest::first_line(text),
            };
        }
        // A line has no room for what the task is about.
        let focus = match length {
            Length::Budget(_) => self.focus(unit),
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

    /// Takes a unit out.
    pub(super) fn drop_unit(&mut self, unit: usize) {
        if !self.dropped.insert(unit) {
            return;
        }
        let of_unit = self.shrunk.range((unit, 0, 0)..(unit + 1, 0, 0));
        let saved: Tokens = of_unit.map(|(_, shrunk)| shrunk.before - shrunk.after).sum();
        self.total = self.total - (self.survey.units[unit] - saved);
    }

    /// The edits of these decisions.
    pub(super) fn edits(&self) -> Vec<Edit> {
        let transcript = self.survey.transcript;
        let mut edits = Vec::new();
        for (at, shrunk) in self.shrunk.iter().filter(|((unit, ..), _)| !self.dropped.contains(unit)) {
            if let Some(text) = self.survey.block(*at).and_then(|b| b.text) {
                edits.push(Edit::Text { text, with: shrunk.text.clone() });
            }
        }
        for unit in &self.dropped {
            edits.extend(transcript.units[*unit].owns.iter().map(|id| Edit::Remove(*id)));
        }
        edits
    }

    /// The sealed reasoning that stands behind the first change, with its units: a model that binds it to its prefix refuses
    /// it there. That of an open last step stays, for the provider wants it there; it may be refused all the same.
    pub(super) fn unbound(&self) -> Vec<(usize, &'t Block<'b>)> {
        let units = &self.survey.transcript.units;
        let shrunk = self.shrunk.keys().map(|(unit, ..)| unit + 1);
        let Some(first) = shrunk.chain(self.dropped.iter().copied()).min() else { return Vec::new() };
        let last_open = units.len().checked_sub(1).filter(|at| is_open(&units[*at]));
        let stays = |at: &usize| !self.dropped.contains(at) && Some(*at) != last_open;
        let steps = units.iter().enumerate().skip(first).filter(|(at, _)| stays(at));
        let reasoning = steps.flat_map(|(at, unit)| match &unit.kind {
            UnitKind::Step { reply, .. } => reply.iter().map(|block| (at, block)).collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        reasoning.filter(|(_, block)| block.kind == BlockKind::Reasoning(Seal::Sealed)).collect()
    }

    /// What became of each block that changed, and the originals where they are kept.
    pub(super) fn account(
        &self,
        known: &mut Known,
        unbound: &[(usize, &Block<'b>)],
    ) -> (Vec<BlockReport>, Vec<Original>) {
        let mut account = Account { rows: Vec::new(), originals: Vec::new() };
        for (at, shrunk) in self.shrunk.iter().filter(|((unit, ..), _)| !self.dropped.contains(unit)) {
            if let (Some(block), Some(exchange)) = (self.survey.block(*at), self.survey.exchange(*at)) {
                let tokens = [shrunk.before, shrunk.after];
                self.enter(&mut account, at.0, block, (What::Result, Some(&exchange.tool)), tokens);
            }
        }
        for (unit, block) in unbound {
            let tokens = [self.survey.meter.block(known, block), Tokens::ZERO];
            self.enter(&mut account, *unit, block, (What::Reasoning, None), tokens);
        }
        for unit in &self.dropped {
            for (block, what) in parts(&self.survey.transcript.units[*unit]) {
                let tokens = [self.survey.meter.block(known, block), Tokens::ZERO];
                self.enter(&mut account, *unit, block, what, tokens);
            }
        }
        account.rows.sort_by_key(|row| row.at);
        (account.rows, account.originals)
    }

    fn enter(
        &self,
        account: &mut Account,
        unit: usize,
        block: &Block<'b>,
        (what, tool): (What, Option<&str>),
        tokens: [Tokens; 2],
    ) {
        let text = if block.text.is_some() { block.text() } else { block.raw().into() };
        let fate = match (tokens[1], self.keep) {
            (Tokens::ZERO, Keep::Nothing) => Fate::Lost,
            (Tokens::ZERO, Keep::Originals(_)) => Fate::Recallable,
            _ => Fate::Digested,
        };
        let (handle, at, tool) =
            (self.keep.handle(&text), self.message_of(unit, block), tool.map(str::to_owned));
        if let Some(handle) = handle.clone() {
            account.originals.push(Original {
                handle,
                at,
                what,
                tool: tool.clone(),
                text: text.into_owned(),
            });
        }
        account.rows.push(BlockReport { handle, at, what, tool, fate, tokens });
    }

    fn message_of(&self, unit: usize, block: &Block<'b>) -> usize {
        let transcript = self.survey.transcript;
        let holding = match block.place {
            Place::Element(id) => Some(id),
            Place::Field { of, .. } => {
                let owns = &transcript.units[unit].owns;
                owns.iter().find(|id| transcript.span_of(**id).contains(of)).or(owns.first()).copied()
            }
        };
        holding.and_then(|id| transcript.message_of(id)).unwrap_or(0)
    }
}

struct Account {
    rows: Vec<BlockReport>,
    originals: Vec<Original>,
}

/// Whether a step still waits for the reply to its results, or for results.
fn is_open(unit: &Unit<'_>) -> bool {
    matches!(&unit.kind, UnitKind::Step { exchanges, .. } if !exchanges.is_empty())
}

/// The edit that takes a block out.
pub(super) fn remove(block: &Block<'_>) -> Edit {
    match block.place {
        Place::Element(id) => Edit::Remove(id),
        Place::Field { of, key } => Edit::Unset { object: of, key },
    }
}

/// The blocks of a unit, what each is, and its tool.
fn parts<'u, 'b>(unit: &'u Unit<'b>) -> Vec<(&'u Block<'b>, (What, Option<&'u str>))> {
    match &unit.kind {
        UnitKind::Prompt { blocks, .. } => blocks.iter().map(|b| (b, (What::Prompt, None))).collect(),
        UnitKind::Checkpoint(block) => vec![(block, (What::Checkpoint, None))],
        UnitKind::Opaque(block) => vec![(block, (What::Opaque, None))],
        UnitKind::Step { reply, exchanges } => {
            let said = reply.iter().map(|b| (b, (What::Reply, None)));
            let done = exchanges.iter().flat_map(|e| {
                let call = e.call.iter().map(|b| (b, (What::Call, Some(&*e.tool))));
                call.chain(e.results.iter().map(|b| (b, (What::Result, Some(&*e.tool)))))
            });
            said.chain(done).collect()
        }
    }
}
