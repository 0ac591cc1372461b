//! From decisions to a rewrite, and the account of it: the same for every engine.

use std::collections::BTreeSet;

use super::draft::Draft;
use super::engine::Load;
use super::report::{
    CheckpointReport, CostReport, EvidenceReport, Pair, Report, Restart, Rung, StateReport, TokensReport,
    UnitsReport, ZoneReport,
};
use super::survey::Survey;
use super::{CountFacts, Outcome, Wish};
use crate::config::EngineName;
use crate::known::Known;
use crate::ledger::{Decisions, Placed};
use crate::policy::Policy;
use crate::seat::gone_messages;
use crate::transcript::{BlockKind, ElementId, Seal, Transcript, UnitKind};
use crate::{Refused, Rewrite, Tokens, wire};

/// Everything that was decided, before it becomes a rewrite.
#[derive(Clone)]
pub(super) struct Settled<'p> {
    pub(super) engine: EngineName,
    pub(super) policy: &'p Policy,
    pub(super) wish: &'p Wish,
    pub(super) reason: String,
    pub(super) target: Tokens,
    /// What no step can take away.
    pub(super) floor: Tokens,
    /// Whether a tool loop with bound reasoning is open.
    pub(super) in_loop: bool,
    pub(super) zone: Option<ZoneReport>,
    pub(super) ladder: Vec<Rung>,
    pub(super) restart: Option<Restart>,
    /// What stands in place of the units that go.
    pub(super) placed: Option<Placed>,
    /// What it is, if it is more than a count.
    pub(super) checkpoint: Option<CheckpointReport>,
    /// How many things a checkpoint could have said, and how many it says.
    pub(super) said: (usize, usize),
    /// What else a person should know.
    pub(super) notes: Vec<String>,
}

impl<'p> Settled<'p> {
    /// Before anything is decided.
    pub(super) fn before(
        engine: EngineName,
        policy: &'p Policy,
        wish: &'p Wish,
        transcript: &Transcript<'_>,
    ) -> Self {
        Self {
            engine,
            policy,
            wish,
            reason: String::new(),
            target: Tokens::ZERO,
            floor: Tokens::ZERO,
            in_loop: policy.model.facts.thinking_bound && ends_in_bound_loop(transcript),
            zone: None,
            ladder: Vec::new(),
            restart: None,
            placed: None,
            checkpoint: None,
            said: (0, 0),
            notes: Vec::new(),
        }
    }
}

impl Settled<'_> {
    /// What says whether a compaction is due.
    pub(super) fn load(&self, survey: &Survey<'_, '_>) -> Load {
        Load { tokens: survey.total, bytes: survey.transcript.body.len(), in_loop: self.in_loop }
    }

    /// The rewrite with its account; nothing if it would not make the request smaller.
    pub(super) fn outcome(
        self,
        known: &mut Known,
        draft: &Draft<'_, '_, '_>,
    ) -> Result<Option<Outcome>, Refused> {
        let survey = draft.survey;
        let transcript = survey.transcript;
        let binds = self.policy.model.facts.thinking_bound;
        let unbound = if binds { draft.unbound() } else { BTreeSet::new() };
        let decisions = Decisions {
            gone: draft.gone.clone(),
            texts: draft.standing().map(|(at, changed)| (*at, changed.to.clone())).collect(),
            removed: unbound.clone(),
            checkpoint: self.placed.clone(),
        };
        let ledger = decisions.first(transcript);
        let rewrite = Rewrite::new(transcript, ledger.edits(transcript))?;
        let body = rewrite.apply(transcript.body);
        let (rewritten, _) = wire::parse(transcript.dialect, &body)?;
        let (after, messages) = (survey.meter.parts(known, &rewritten).total(), rewritten.message_count());
        if after >= survey.total {
            return Ok(None);
        }
        let why =
            if self.checkpoint.is_some() { "folded into the checkpoint" } else { "the window was full" };
        // What a checkpoint says of what is gone, it counts itself.
        let facts = if self.checkpoint.is_some() { CountFacts::No } else { self.wish.facts };
        let account = draft.account(&unbound, (why, facts));
        let notes = self.notes(after);
        let mut report = unchanged(draft, &self);
        report.changed = true;
        report.tokens.after = after;
        report.tokens.warm = warm(draft, &rewrite);
        report.messages.after = messages;
        report.bytes.after = body.len();
        report.blocks = account.rows;
        report.evidence = account.evidence;
        report.evidence.enter(self.said.0, self.said.1, &self.wish.keep);
        report.ratio = 1.0 - after.number() as f64 / survey.total.number().max(1) as f64;
        report.cost = self.cost(survey.total, after, after - report.tokens.warm);
        report.state = StateReport::after(0, report.ratio);
        let touched = draft.standing().map(|(at, _)| at.unit).chain(unbound.iter().map(|at| at.unit));
        report.units.digested = touched.collect::<BTreeSet<_>>().len();
        let gone =
            if self.checkpoint.is_some() { &mut report.units.summarized } else { &mut report.units.dropped };
        *gone = draft.gone.len();
        report.units.kept -= report.units.digested + draft.gone.len();
        if self.checkpoint.is_none() {
            report.unsummarized = gone_messages(transcript, &draft.gone).iter().filter(|gone| **gone).count();
        }
        report.notes = notes;
        report.ladder = self.ladder;
        report.restart = self.restart;
        report.checkpoint = self.checkpoint;
        Ok(Some(Outcome { rewrite, body, ledger, report, originals: account.originals }))
    }

    /// What the change costs, in money too where the model's prices are known. What is cold is written into the cache instead of
    /// read from it; what is gone is read no more.
    fn cost(&self, before: Tokens, after: Tokens, cold_tokens: Tokens) -> CostReport {
        let price = self.policy.prices.as_ref().map(|prices| prices.price.at(after));
        let dollars = |tokens: Tokens, price: f64| tokens.number() as f64 * price / 1e6;
        CostReport {
            cold_tokens,
            usd: price.map(|price| dollars(cold_tokens, price.write_5m - price.read)),
            usd_saved_per_turn: price.map(|price| dollars(before - after, price.read)),
        }
    }

    /// What a person should know: a goal that was missed, reasoning that may be refused.
    fn notes(&self, after: Tokens) -> Vec<String> {
        let window = self.policy.window;
        let (floor, target) = (self.floor, self.target);
        let mut notes = self.notes.clone();
        let over = [(window, "window"), (target, "target")].into_iter().find(|(limit, _)| after > *limit);
        if let Some((limit, name)) = over {
            notes.push(format!(
                "still over the {name} of {limit} tokens: {floor} of them no step can take away"
            ));
        }
        if self.in_loop {
            let note = "a tool loop is open, and its reasoning is bound to what was changed; the provider may refuse it \
                        unless it is told to drop such blocks";
            notes.push(note.to_owned());
        }
        notes
    }
}

/// Whether the transcript ends in a tool loop with sealed reasoning in it: nobody has spoken since it began, and the reply to
/// the last results is still to come.
fn ends_in_bound_loop(transcript: &Transcript<'_>) -> bool {
    let in_loop = transcript.units.iter().rev().map_while(|unit| match &unit.kind {
        UnitKind::Step { reply, exchanges } if !exchanges.is_empty() => Some(reply),
        _ => None,
    });
    in_loop.flatten().any(|block| block.kind == BlockKind::Reasoning(Seal::Sealed))
}

/// Tokens before the first splice, in reading order: tools and system come first wherever they stand in the body.
fn warm(draft: &Draft<'_, '_, '_>, rewrite: &Rewrite) -> Tokens {
    let survey = draft.survey;
    let Some(first) = rewrite.splices().first().map(|splice| splice.at.start) else { return survey.total };
    let starts_after = |id: &ElementId| survey.transcript.span_of(*id).end > first;
    let cold = survey.transcript.units.iter().zip(&survey.units);
    let cold: Tokens =
        cold.filter(|(unit, _)| unit.owns.iter().any(starts_after)).map(|(_, tokens)| *tokens).sum();
    survey.total - cold
}

/// The report of a compaction that does nothing.
pub(super) fn unchanged(draft: &Draft<'_, '_, '_>, settled: &Settled<'_>) -> Report {
    let survey = draft.survey;
    let transcript = survey.transcript;
    let (messages, bytes) = (transcript.message_count(), transcript.body.len());
    Report {
        dialect: transcript.dialect,
        dialect_sure: transcript.dialect_sure,
        engine: settled.engine,
        reason: settled.reason.clone(),
        changed: false,
        tokens: TokensReport {
            before: survey.total,
            after: survey.total,
            warm: survey.total,
            floor: settled.floor,
            counted_by: survey.meter.counter.name(),
        },
        messages: Pair { before: messages, after: messages },
        bytes: Pair { before: bytes, after: bytes },
        units: UnitsReport { kept: transcript.units.len(), digested: 0, summarized: 0, dropped: 0 },
        blocks: Vec::new(),
        evidence: EvidenceReport::default(),
        checkpoint: None,
        trigger: settled.wish.trigger,
        focus: settled.wish.focus.clone(),
        ratio: 0.0,
        unsummarized: 0,
        cost: CostReport::default(),
        state: StateReport::default(),
        zone: settled.zone,
        ladder: Vec::new(),
        restart: None,
        notes: Vec::new(),
    }
}
