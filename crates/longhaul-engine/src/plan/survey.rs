//! What stands where and what it costs: measured once, before anything is decided.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::Tokens;
use crate::known::Known;
use crate::meter::Meter;
use crate::transcript::{
    Block, BlockKind, ElementId, Exchange, Form, Speaker, Status, Transcript, Unit, UnitKind,
};
use crate::wire::{self, Role};

/// A transcript with the tokens of each unit.
pub(super) struct Survey<'t, 'b> {
    pub(super) transcript: &'t Transcript<'b>,
    pub(super) meter: Meter,
    /// The whole request.
    pub(super) total: Tokens,
    /// Each unit, framing included.
    pub(super) units: Vec<Tokens>,
    /// How the newest prompt begins: what the task is about.
    pub(super) about: Vec<String>,
}

/// How much of a prompt or reply says what it is about.
pub(super) const FOCUS_BYTES: usize = 2_000;

/// A result inside a transcript: unit, exchange, block.
pub(super) type ResultAt = (usize, usize, usize);

impl<'t, 'b> Survey<'t, 'b> {
    pub(super) fn new(meter: Meter, known: &mut Known, transcript: &'t Transcript<'b>) -> Self {
        let total = meter.parts(known, transcript).total();
        let units = transcript.units.iter().map(|unit| meter.unit(known, unit)).collect();
        let mut survey = Self { transcript, meter, total, units, about: Vec::new() };
        survey.about = survey.newest_prompt().map_or_else(Vec::new, |at| {
            let words = transcript.units[at].blocks().filter(|block| block.kind == BlockKind::Text);
            words.map(|block| block.opening(FOCUS_BYTES).into_owned()).collect()
        });
        survey
    }

    pub(super) fn exchange(&self, (unit, exchange, _): ResultAt) -> Option<&'t Exchange<'b>> {
        match &self.transcript.units[unit].kind {
            UnitKind::Step { exchanges, .. } => exchanges.get(exchange),
            _ => None,
        }
    }

    pub(super) fn block(&self, at: ResultAt) -> Option<&'t Block<'b>> {
        self.exchange(at)?.results.get(at.2)
    }

    /// The results with words in a unit that may be replaced.
    pub(super) fn results(&self, unit: usize) -> Vec<ResultAt> {
        let UnitKind::Step { exchanges, .. } = &self.transcript.units[unit].kind else { return Vec::new() };
        let blocks = exchanges.iter().enumerate().flat_map(|(exchange, e)| {
            e.results.iter().enumerate().map(move |(at, block)| ((unit, exchange, at), block))
        });
        let editable = |block: &Block<'_>| {
            block.kind == BlockKind::Text && block.text.is_some_and(|text| text.form == Form::String)
        };
        blocks.filter(|(_, block)| editable(block)).map(|(at, _)| at).collect()
    }

    /// The newest thing that a person said.
    pub(super) fn newest_prompt(&self) -> Option<usize> {
        let said_by = |wanted: &[Speaker]| {
            self.transcript.units.iter().rposition(|unit| {
                matches!(&unit.kind, UnitKind::Prompt { by, .. } if wanted.contains(by))
                    && says_something(unit)
            })
        };
        said_by(&[Speaker::User]).or_else(|| said_by(&[Speaker::Unsure]))
    }

    /// The units that hold part of the newest message under the user's name, tool results apart. Whoever wrote it, that is
    /// what providers take for the newest thing said.
    fn newest_message(&self) -> Vec<usize> {
        let said = |unit: &Unit<'b>| match &unit.kind {
            UnitKind::Prompt { .. } => unit.owns.clone(),
            UnitKind::Step { exchanges, .. } => {
                let spoken = exchanges.iter().filter(|e| e.call.is_none() && e.status == Status::Answered);
                spoken.flat_map(|e| e.answers.clone()).collect()
            }
            UnitKind::Checkpoint(_) | UnitKind::Opaque(_) => Vec::new(),
        };
        let messages =
            self.transcript.units.iter().flat_map(said).filter_map(|id| self.transcript.message_of(id));
        let is_user = |index: &usize| {
            let id = self.transcript.messages.map(|array| ElementId { array, index: *index as u32 });
            id.and_then(|id| wire::role(self.transcript, id)) == Some(Role::User)
        };
        let newest = messages.collect::<BTreeSet<_>>().into_iter().rev().find(is_user);
        let holds = |unit: &Unit<'b>| unit.owns.iter().any(|id| self.transcript.message_of(*id) == newest);
        let units =
            self.transcript.units.iter().enumerate().filter(|(_, unit)| newest.is_some() && holds(unit));
        units.map(|(at, _)| at).collect()
    }

    /// The units that stay whatever happens: what a person said first and last, the newest message under the user's name, the
    /// newest checkpoint, and the last unit, with the last that is understood.
    pub(super) fn pinned(&self) -> BTreeSet<usize> {
        let units = &self.transcript.units;
        let checkpoint = units.iter().rposition(|unit| matches!(unit.kind, UnitKind::Checkpoint(_)));
        let by_user = |unit: &Unit<'_>| matches!(unit.kind, UnitKind::Prompt { by: Speaker::User, .. });
        let first = units.iter().position(|unit| by_user(unit) && says_something(unit));
        let understood = |unit: &Unit<'_>| !matches!(unit.kind, UnitKind::Opaque(_));
        let last = [self.units.len().checked_sub(1), self.transcript.units.iter().rposition(understood)];
        let said = self.newest_message().into_iter().chain(self.newest_prompt()).chain(first);
        said.chain(checkpoint).chain(last.into_iter().flatten()).collect()
    }

    /// The first exchange: the first prompt, what comes with it, and the step that answers it.
    pub(super) fn first_exchange(&self) -> Range<usize> {
        let is_step = |unit: &Unit<'_>| matches!(unit.kind, UnitKind::Step { .. });
        let first_step = self.transcript.units.iter().position(is_step);
        0..first_step.map_or(self.transcript.units.len(), |at| at + 1)
    }

    /// The newest whole units within so many tokens: at least one, and the newest prompt if it is among them.
    pub(super) fn newest(&self, tokens: Tokens) -> Range<usize> {
        let mut left = tokens;
        let mut start = self.units.len();
        for (index, cost) in self.units.iter().enumerate().rev() {
            if *cost > left && start < self.units.len() {
                break;
            }
            left = left - *cost;
            start = index;
        }
        start..self.units.len()
    }
}

/// Whether there is more in a unit than blanks.
fn says_something(unit: &Unit<'_>) -> bool {
    let is_blank = |block: &Block<'_>| block.opening(FOCUS_BYTES).trim().is_empty();
    unit.blocks().any(|block| block.kind != BlockKind::Text || !is_blank(block))
}
