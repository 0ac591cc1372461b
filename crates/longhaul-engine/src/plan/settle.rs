//! From decisions to a rewrite, and the account of it: the same for every engine.

use std::collections::BTreeSet;

use super::Outcome;
use super::draft::Draft;
use super::report::{
    CostReport, EvidenceReport, Pair, Report, StateReport, TokensReport, UnitsReport, ZoneReport,
};
use super::survey::Survey;
use crate::config::EngineName;
use crate::known::Known;
use crate::ledger::Decisions;
use crate::redact::{Content, Redactor};
use crate::transcript::ElementId;
use crate::{Refused, Rewrite, Tokens, wire};

/// Why there is a compaction, or none, and what it is to come to.
#[derive(Debug, Clone)]
pub(super) struct Occasion {
    pub(super) engine: EngineName,
    pub(super) reason: String,
    pub(super) target: Tokens,
    /// What no step can take away.
    pub(super) floor: Tokens,
    pub(super) zone: Option<ZoneReport>,
}

/// The rewrite with its account; nothing if it would not make the request smaller.
pub(super) fn settle(
    draft: &Draft<'_, '_, '_>,
    occasion: &Occasion,
    known: &mut Known,
) -> Result<Option<Outcome>, Refused> {
    let survey = draft.survey;
    let transcript = survey.transcript;
    let binds = survey.policy.model.facts.thinking_bound;
    let unbound = if binds { draft.unbound() } else { BTreeSet::new() };
    let decisions = Decisions {
        gone: draft.gone.clone(),
        texts: draft.standing().map(|(at, changed)| (*at, changed.to.clone())).collect(),
        removed: unbound.clone(),
        checkpoint: draft.in_place.placed().cloned(),
    };
    let ledger = decisions.first(transcript);
    let rewrite = Rewrite::new(transcript, ledger.edits(transcript))?;
    let body = rewrite.apply(transcript.body);
    let (rewritten, _) = wire::parse(transcript.dialect, &body)?;
    let (after, messages) = (survey.meter.parts(known, &rewritten).total(), rewritten.message_count());
    if after >= survey.total {
        return Ok(None);
    }
    let same = unchanged(survey, occasion);
    let account = draft.account(&unbound);
    let touched = draft.standing().map(|(at, _)| at.unit).chain(unbound.iter().map(|at| at.unit));
    let (digested, gone) = (touched.collect::<BTreeSet<_>>().len(), draft.gone.len());
    let checkpoint = draft.in_place.folding().map(|folding| folding.report);
    let (summarized, dropped) = if checkpoint.is_some() { (gone, 0) } else { (0, gone) };
    let tokens = TokensReport { after, warm: warm(survey, &rewrite), ..same.tokens };
    let report = Report {
        changed: true,
        messages: Pair { after: messages, ..same.messages },
        bytes: Pair { after: body.len(), ..same.bytes },
        units: UnitsReport { kept: same.units.kept - digested - gone, digested, summarized, dropped },
        blocks: account.rows,
        evidence: account.evidence,
        checkpoint,
        ratio: tokens.saved(),
        unsummarized: if checkpoint.is_some() { 0 } else { draft.gone_messages() },
        cost: cost(survey, after, after - tokens.warm),
        state: StateReport::after(0, tokens.saved()),
        ladder: draft.ladder.clone(),
        restart: draft.restart(),
        notes: notes(draft, occasion, after),
        tokens,
        ..same
    };
    Ok(Some(Outcome { rewrite, body, ledger, report, originals: account.originals }))
}

/// What the change costs, in money too where the model's prices are known. What is cold is written into the cache instead of
/// read from it; what is gone is read no more.
fn cost(survey: &Survey<'_, '_>, after: Tokens, cold_tokens: Tokens) -> CostReport {
    let price = survey.policy.prices.as_ref().map(|prices| prices.price.at(after));
    let dollars = |tokens: Tokens, price: f64| tokens.number() as f64 * price / 1e6;
    CostReport {
        cold_tokens,
        usd: price.map(|price| dollars(cold_tokens, price.write_5m - price.read)),
        usd_saved_per_turn: price.map(|price| dollars(survey.total - after, price.read)),
    }
}

/// What a person should know: a goal that was missed, reasoning that may be refused.
fn notes(draft: &Draft<'_, '_, '_>, occasion: &Occasion, after: Tokens) -> Vec<String> {
    let window = draft.survey.policy.window;
    let (floor, target) = (occasion.floor, occasion.target);
    let mut notes = draft.notes.clone();
    let over = [(window, "window"), (target, "target")].into_iter().find(|(limit, _)| after > *limit);
    if let Some((limit, name)) = over {
        notes.push(format!("still over the {name} of {limit} tokens: {floor} of them no step can take away"));
    }
    if draft.survey.in_loop() {
        let note = "a tool loop is open, and its reasoning is bound to what was changed; the provider may refuse it \
                    unless it is told to drop such blocks";
        notes.push(note.to_owned());
    }
    notes
}

/// Tokens before the first splice, in reading order: tools and system come first wherever they stand in the body.
fn warm(survey: &Survey<'_, '_>, rewrite: &Rewrite) -> Tokens {
    let Some(first) = rewrite.splices().first().map(|splice| splice.at.start) else { return survey.total };
    let starts_after = |id: &ElementId| survey.transcript.span_of(*id).end > first;
    let cold = survey.transcript.units.iter().zip(&survey.units);
    let cold: Tokens =
        cold.filter(|(unit, _)| unit.owns.iter().any(starts_after)).map(|(_, tokens)| *tokens).sum();
    survey.total - cold
}

/// The report of a compaction that does nothing.
pub(super) fn unchanged(survey: &Survey<'_, '_>, occasion: &Occasion) -> Report {
    let transcript = survey.transcript;
    let (messages, bytes) = (transcript.message_count(), transcript.body.len());
    Report {
        dialect: transcript.dialect,
        dialect_sure: transcript.dialect_sure,
        engine: occasion.engine,
        reason: occasion.reason.clone(),
        changed: false,
        tokens: TokensReport {
            before: survey.total,
            after: survey.total,
            warm: survey.total,
            floor: occasion.floor,
            counted_by: survey.meter.counter.name(),
        },
        messages: Pair { before: messages, after: messages },
        bytes: Pair { before: bytes, after: bytes },
        units: UnitsReport { kept: transcript.units.len(), digested: 0, summarized: 0, dropped: 0 },
        blocks: Vec::new(),
        evidence: EvidenceReport::default(),
        checkpoint: None,
        trigger: survey.wish.trigger,
        focus: survey.wish.focus.as_deref().map(|focus| {
            Redactor::numbered(survey.wish.rules.clone()).redact(focus, Content::Text).text.into_string()
        }),
        ratio: 0.0,
        unsummarized: 0,
        cost: CostReport::default(),
        state: StateReport::default(),
        zone: occasion.zone,
        ladder: Vec::new(),
        restart: None,
        notes: Vec::new(),
    }
}
