//! From decisions to a rewrite, and the account of it: the same for every engine.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::report::{
    CostReport, EvidenceReport, Pair, Report, StateReport, TokensReport, UnitsReport, ZoneReport,
};
use super::survey::Survey;
use super::{Outcome, repair};
use crate::cache::{self, MOST_MARKS};
use crate::check::{Severity, check, compare};
use crate::config::EngineName;
use crate::json::pointer;
use crate::known::Known;
use crate::ledger::{Decisions, Ledger};
use crate::passes::NewText;
use crate::redact::{Content, Redactor};
use crate::transcript::BlockAt;
use crate::{Refused, Rewrite, Tokens, Transcript, wire};

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
    survey.wish.go_on()?;
    let transcript = survey.transcript;
    let binds = survey.policy.model.facts.thinking_bound;
    let unbound = if binds { draft.unbound() } else { BTreeSet::new() };
    let decisions = Decisions {
        gone: draft.gone.clone(),
        texts: standing(draft, known),
        removed: unbound.clone(),
        stubs: draft.stubs.clone(),
        checkpoint: draft.in_place.placed().cloned(),
    };
    let unrepaired = Decisions { stubs: BTreeMap::new(), ..decisions.clone() };
    let mut ledger = decisions.first(transcript);
    let rewrite = Rewrite::new(transcript, ledger.edits(transcript)).or_else(|_| {
        // A stub can be in the way of a checkpoint in the same message, which is worth more.
        ledger = unrepaired.first(transcript);
        Rewrite::new(transcript, ledger.edits(transcript))
    })?;
    let body = rewrite.apply(transcript.body);
    // A repair that is no clean one is none.
    if let Some(unrepaired) = draft.unrepaired().filter(|_| breaks(survey, &body)) {
        return settle(&unrepaired, occasion, known);
    }
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
    // What stays warm is counted when it is settled which outcome it is.
    let tokens = TokensReport { after, warm: Tokens::ZERO, ..same.tokens };
    let report = Report {
        changed: true,
        reached: reached(survey, after),
        messages: Pair { after: messages, ..same.messages },
        bytes: Pair { after: body.len(), ..same.bytes },
        units: UnitsReport { kept: same.units.kept - digested - gone, digested, summarized, dropped },
        blocks: account.rows,
        evidence: account.evidence,
        checkpoint,
        findings: draft.in_place.folding().map(|folding| folding.findings.clone()).unwrap_or_default(),
        ratio: tokens.saved(),
        unsummarized: if checkpoint.is_some() { 0 } else { draft.gone_messages() },
        state: StateReport::after(0, tokens.saved()),
        ladder: draft.ladder.clone(),
        restart: draft.restart(),
        notes: [notes(draft, occasion, after), marks_gone(&ledger, transcript)].concat(),
        tokens,
        ..same
    };
    Ok(Some(Outcome { rewrite, body, ledger, report, originals: account.originals }))
}

/// The new texts of blocks that stay. Where originals are kept the ledger is, too, so secrets that a shorter text still holds go now:
/// what is kept is then word for word what is sent again.
fn standing(draft: &Draft<'_, '_, '_>, known: &Known) -> BTreeMap<BlockAt, NewText> {
    let wish = draft.survey.wish;
    let texts = draft.standing().map(|(at, changed)| (*at, changed.to.clone()));
    let Some(key) = wish.keep.key() else { return texts.collect() };
    let mut redactor = Redactor::with_memory(wish.rules.clone(), Some(key), known.clean());
    texts.map(|(at, text)| (at, text.redacted(&mut redactor))).collect()
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

/// What was folded although somebody would expect it to stay.
fn folded_after_all(draft: &Draft<'_, '_, '_>) -> Vec<String> {
    let survey = draft.survey;
    let mut notes = Vec::new();
    if survey.kept.no_room > 0 && !draft.gone.is_empty() {
        let count = survey.kept.no_room;
        let steps = if count == 1 { "step" } else { "steps" };
        notes.push(format!(
            "{count} older {steps} of kept tools found no room and may be folded (compression.keep_tools)"
        ));
    }
    if let Some(first) = survey.first_prompt().filter(|first| draft.gone.contains(first))
        && survey.of_its_message(first).count() > 1
    {
        notes.push("the first message did not fit and is folded whole".to_owned());
    }
    notes
}

/// Whether a rewritten body breaks a rule that the original keeps, or is no rewrite of it.
fn breaks(survey: &Survey<'_, '_>, body: &str) -> bool {
    let (dialect, before) = (survey.transcript.dialect, survey.transcript.body);
    let target = survey.policy.model.target(dialect);
    let had: BTreeSet<&str> =
        check(before, dialect, &target).iter().map(|violation| violation.rule).collect();
    check(body, dialect, &target).iter().any(|violation| !had.contains(violation.rule))
        || compare(before, body, dialect, &target)
            .iter()
            .any(|violation| violation.severity == Severity::Error)
}

/// Whether a request of this size fits the window, and the size that was asked for.
fn reached(survey: &Survey<'_, '_>, after: Tokens) -> bool {
    after <= survey.limit() && survey.wish.to_tokens.is_none_or(|wanted| after <= wanted)
}

/// What a request of this size is still over, and why.
fn shortfall(survey: &Survey<'_, '_>, occasion: &Occasion, after: Tokens) -> Option<String> {
    let (floor, window, reply) = (occasion.floor, survey.policy.window, survey.reply());
    let limits = [
        (window, format!("window of {window} tokens")),
        (survey.limit(), format!("window of {window} tokens with the {reply} that the reply may have")),
        (occasion.target, format!("target of {} tokens", occasion.target)),
    ];
    let (limit, name) = limits.into_iter().find(|(limit, _)| after > *limit)?;
    Some(if floor > limit {
        format!("still over the {name}: {floor} of them no step can take away")
    } else {
        format!("still over the {name}: what is left is protected, or not shorter in other words")
    })
}

/// What a person should know: a goal that was missed, reasoning that may be refused.
fn notes(draft: &Draft<'_, '_, '_>, occasion: &Occasion, after: Tokens) -> Vec<String> {
    let mut notes = draft.notes.clone();
    notes.extend(draft.in_place.folding().and_then(|folding| folding.note.clone()));
    notes.extend(shortfall(draft.survey, occasion, after));
    notes.extend(folded_after_all(draft));
    notes.extend(repair::repaired(draft));
    if draft.survey.in_loop() {
        let note = "a tool loop is open, and its reasoning is bound to what was changed; the provider may refuse it \
                    unless it is told to drop such blocks";
        notes.push(note.to_owned());
    }
    notes
}

/// The outcome with what only the one that is chosen is asked for: what it does to the provider's cache, which costs a reading of
/// both bodies, and what is wrong in it as it was before.
pub(super) fn finished(
    mut outcome: Outcome,
    survey: &Survey<'_, '_>,
    known: &mut Known,
) -> Result<Outcome, Refused> {
    let (after, _) = wire::parse(survey.transcript.dialect, &outcome.body)?;
    let (old, new) = (wire::reading(survey.transcript), wire::reading(&after));
    let report = &mut outcome.report;
    report.notes.extend(repair::named(&after));
    report.tokens.warm = cache::warm(&old, &after, &new, &survey.policy.model, known).tokens;
    report.cost = cost(survey, report.tokens.after, report.tokens.after - report.tokens.warm);
    Ok(outcome)
}

/// Which of the client's cache marks were too many.
fn marks_gone(ledger: &Ledger, transcript: &Transcript<'_>) -> Vec<String> {
    let places = ledger.surplus_marks(transcript).into_iter().filter_map(|mark| {
        let at = pointer(transcript.body, mark.holder)?;
        Some(if at.is_empty() { "/".to_owned() } else { at })
    });
    let places: Vec<String> = places.collect();
    if places.is_empty() {
        return Vec::new();
    }
    let note = format!(
        "cache breakpoints removed, because a provider takes {MOST_MARKS}: those on {}",
        places.join(", ")
    );
    vec![note]
}

/// The report of a compaction that does nothing.
pub(super) fn unchanged(survey: &Survey<'_, '_>, occasion: &Occasion) -> Report {
    let transcript = survey.transcript;
    let (messages, bytes) = (transcript.message_count(), transcript.body.len());
    let reached = reached(survey, survey.total);
    let missed = shortfall(survey, occasion, survey.total).filter(|_| !reached);
    Report {
        dialect: transcript.dialect,
        dialect_sure: transcript.dialect_sure,
        engine: occasion.engine.clone(),
        reason: occasion.reason.clone(),
        changed: false,
        reached,
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
        findings: Vec::new(),
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
        notes: missed.into_iter().chain(repair::named(transcript)).collect(),
    }
}
