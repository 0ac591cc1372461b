//! Turns the decisions of a draft into a rewrite and its report, in the same way for every engine.

use std::collections::{BTreeMap, BTreeSet};

use super::draft::Draft;
use super::report::{
    BeforeAfter, CompactionReport, CostReport, EvidenceReport, StateReport, TokensReport, TurnsReport, ZoneReport,
};
use super::survey::Survey;
use super::{CompactedRequest, Plan, repair};
use crate::block_cache::BlockCache;
use crate::cache::{self, MAX_BREAKPOINTS};
use crate::check::{Severity, compare};
use crate::config::EngineName;
use crate::json::find_pointer;
use crate::ledger::{Decisions, Ledger};
use crate::passes::NewText;
use crate::redact::{RedactionMode, Redactor};
use crate::transcript::BlockPosition;
use crate::{Rewrite, RewriteError, Tokens, Transcript, wire};

/// The engine, the reason and the target of a plan, for its decisions and its report.
#[derive(Debug, Clone)]
pub(super) struct PlanContext {
    pub(super) engine: EngineName,
    pub(super) reason: String,
    pub(super) target: Tokens,
    /// The tokens of the smallest result that this engine can reach.
    pub(super) smallest_result: Tokens,
    pub(super) zone: Option<ZoneReport>,
}

impl PlanContext {
    /// Returns the plan that changes nothing, for another reason than that of the compaction.
    pub(super) fn unchanged(self, survey: &Survey<'_, '_>, reason: String) -> Plan {
        Plan::Unchanged(unchanged_report(survey, &Self { reason, ..self }))
    }
}

/// Builds the rewrite and its report. Returns `None` if the request would not become smaller.
pub(super) fn finalize(
    draft: &Draft<'_, '_, '_>,
    context: &PlanContext,
    cache: &mut BlockCache,
) -> Result<Option<CompactedRequest>, RewriteError> {
    let survey = draft.survey;
    survey.options.check_cancelled()?;
    let transcript = survey.transcript;
    let mut applied = apply_draft(draft, cache)?;
    // Discard repairs that break a rule.
    let unrepaired = draft.without_repairs().filter(|_| breaks_rules(survey, &applied.body));
    if let Some(unrepaired) = &unrepaired {
        applied = apply_draft(unrepaired, cache)?;
    }
    let draft = unrepaired.as_ref().unwrap_or(draft);
    let AppliedDraft { ledger, rewrite, body, invalidated_reasoning } = applied;
    let (rewritten, _) = wire::parse(transcript.api_format, &body)?;
    let (after, messages) = (survey.meter.breakdown(cache, &rewritten).total(), rewritten.message_count());
    if after >= survey.total {
        return Ok(None);
    }
    let unchanged = unchanged_report(survey, context);
    let summary = draft.summarize_changes(&invalidated_reasoning);
    let changed_turns =
        draft.changes_in_kept_turns().map(|(at, _)| at.unit).chain(invalidated_reasoning.iter().map(|at| at.unit));
    let (digested, gone) = (changed_turns.collect::<BTreeSet<_>>().len(), draft.removed_turns.len());
    let checkpoint = draft.replacement.checkpoint().map(|checkpoint| checkpoint.report);
    let (summarized, dropped) = if checkpoint.is_some() { (gone, 0) } else { (0, gone) };
    // The cached tokens are counted once it is clear which result is used.
    let tokens = TokensReport { after, warm: Tokens::ZERO, ..unchanged.tokens };
    let report = CompactionReport {
        changed: true,
        reached: fits_limits(survey, after),
        messages: BeforeAfter { after: messages, ..unchanged.messages },
        bytes: BeforeAfter { after: body.len(), ..unchanged.bytes },
        units: TurnsReport { kept: unchanged.units.kept - digested - gone, digested, summarized, dropped },
        blocks: summary.rows,
        evidence: summary.evidence,
        checkpoint,
        findings: draft.replacement.checkpoint().map(|checkpoint| checkpoint.findings.clone()).unwrap_or_default(),
        ratio: tokens.saved_share(),
        unsummarized: if checkpoint.is_some() { 0 } else { draft.count_removed_messages() },
        state: StateReport::after(0, tokens.saved_share()),
        ladder: draft.escalation.clone(),
        restart: draft.restart(),
        notes: [collect_notes(draft, context, after), note_removed_breakpoints(&ledger, transcript)].concat(),
        tokens,
        ..unchanged
    };
    Ok(Some(CompactedRequest { rewrite, body, ledger, report, originals: summary.originals }))
}

/// The rewrite that a draft leads to.
struct AppliedDraft {
    ledger: Ledger,
    rewrite: Rewrite,
    body: String,
    /// The reasoning that is removed because it is bound to changed text.
    invalidated_reasoning: BTreeSet<BlockPosition>,
}

fn apply_draft(draft: &Draft<'_, '_, '_>, cache: &BlockCache) -> Result<AppliedDraft, RewriteError> {
    let transcript = draft.survey.transcript;
    let binds = draft.survey.policy.model.facts.thinking_bound;
    let invalidated_reasoning = if binds { draft.invalidated_reasoning() } else { BTreeSet::new() };
    let decisions = Decisions {
        removed_turns: draft.removed_turns.clone(),
        new_texts: redacted_texts(draft, cache),
        removed_blocks: invalidated_reasoning.clone(),
        stub_results: draft.stubs.clone(),
        checkpoint: draft.replacement.placed_text().cloned(),
    };
    let without_stubs = Decisions { stub_results: BTreeMap::new(), ..decisions.clone() };
    let mut ledger = decisions.into_ledger(transcript);
    let rewrite = Rewrite::new(transcript, ledger.edits(transcript)).or_else(|_| {
        // A stub can conflict with a checkpoint in the same message; the checkpoint is worth more.
        ledger = without_stubs.into_ledger(transcript);
        Rewrite::new(transcript, ledger.edits(transcript))
    })?;
    let body = rewrite.apply(transcript.body);
    Ok(AppliedDraft { ledger, rewrite, body, invalidated_reasoning })
}

/// Returns the new texts of blocks in turns that stay. If originals are stored, the ledger is stored too, so
/// secrets in shortened texts are replaced now: the stored text is then exactly the one that is sent again.
fn redacted_texts(draft: &Draft<'_, '_, '_>, cache: &BlockCache) -> BTreeMap<BlockPosition, NewText> {
    let options = draft.survey.options;
    let texts = draft.changes_in_kept_turns().map(|(at, changed)| (*at, changed.new_text.clone()));
    if options.originals.key().is_none() {
        return texts.collect();
    }
    let mut redactor = options.redactor(cache);
    texts.map(|(at, text)| (at, text.redacted(&mut redactor))).collect()
}

/// Returns the price of the change, in dollars too if the model's prices are known. Uncached tokens are
/// written to the cache instead of read from it; removed tokens are no longer read.
fn cost_report(survey: &Survey<'_, '_>, after: Tokens, cold_tokens: Tokens) -> CostReport {
    let price = survey.policy.prices.as_ref().map(|prices| prices.price.for_request(after));
    let dollars = |tokens: Tokens, price: f64| tokens.number() as f64 * price / 1e6;
    CostReport {
        cold_tokens,
        usd: price.map(|price| dollars(cold_tokens, price.write_5m - price.read)),
        usd_saved_per_turn: price.map(|price| dollars(survey.total - after, price.read)),
    }
}

/// Returns notes about summarized turns that a user would expect to stay.
fn note_unprotected_turns(draft: &Draft<'_, '_, '_>) -> Vec<String> {
    let survey = draft.survey;
    let mut notes = Vec::new();
    if survey.user_protected.tool_turns_without_room > 0 && !draft.removed_turns.is_empty() {
        let count = survey.user_protected.tool_turns_without_room;
        let turns = if count == 1 { "turn" } else { "turns" };
        notes.push(format!(
            "{count} older {turns} of protected tools do not fit and may be summarized (compression.keep_tools)"
        ));
    }
    if let Some(first) = survey.first_prompt().filter(|first| draft.removed_turns.contains(first))
        && survey.prompts_of_same_message(first).count() > 1
    {
        notes.push("the first message did not fit and is summarized as a whole".to_owned());
    }
    notes
}

/// Whether a rewritten body breaks a rule that the original keeps, or is not a valid rewrite of it.
fn breaks_rules(survey: &Survey<'_, '_>, body: &str) -> bool {
    let api_format = survey.transcript.api_format;
    let target = survey.policy.model.target(api_format);
    let compared = || compare(survey.transcript.body, body, api_format, &target);
    survey.check(body).iter().any(|violation| !survey.already_breaks(violation.rule))
        || compared().iter().any(|violation| violation.severity == Severity::Error)
}

/// Whether a request of this size fits into the window and the requested size.
fn fits_limits(survey: &Survey<'_, '_>, after: Tokens) -> bool {
    after <= survey.max_request_tokens() && survey.options.to_tokens.is_none_or(|wanted| after <= wanted)
}

/// Describes the limit that a request of this size still exceeds, and the reason.
fn describe_shortfall(survey: &Survey<'_, '_>, context: &PlanContext, after: Tokens) -> Option<String> {
    let (smallest_result, window, reply) = (context.smallest_result, survey.policy.window, survey.reply_reserve());
    let limits = [
        (window, format!("window of {window} tokens")),
        (survey.max_request_tokens(), format!("window of {window} tokens with the {reply} that the reply may have")),
        (context.target, format!("target of {} tokens", context.target)),
    ];
    let (limit, name) = limits.into_iter().find(|(limit, _)| after > *limit)?;
    Some(if smallest_result > limit {
        format!("still over the {name}: {smallest_result} tokens cannot be removed")
    } else {
        format!("still over the {name}: what is left is protected or cannot be shortened")
    })
}

/// Collects the notes for people, such as a missed target or reasoning that may be refused.
fn collect_notes(draft: &Draft<'_, '_, '_>, context: &PlanContext, after: Tokens) -> Vec<String> {
    let mut notes = draft.notes.clone();
    notes.extend(draft.replacement.checkpoint().and_then(|checkpoint| checkpoint.unused_summary_note.clone()));
    notes.extend(describe_shortfall(draft.survey, context, after));
    notes.extend(note_unprotected_turns(draft));
    notes.extend(repair::describe_repairs(draft));
    if draft.survey.is_in_bound_loop() {
        let note = "a tool loop is open, and its reasoning is bound to what was changed; the provider may refuse it \
                    unless it is told to drop such blocks";
        notes.push(note.to_owned());
    }
    notes
}

/// Completes the report of the result that is used: the effect on the provider's cache, for which both bodies
/// have to be read, and the faults that remain.
pub(super) fn complete_report(
    mut compacted: CompactedRequest,
    survey: &Survey<'_, '_>,
    cache: &mut BlockCache,
) -> Result<CompactedRequest, RewriteError> {
    let (after, _) = wire::parse(survey.transcript.api_format, &compacted.body)?;
    let (old, new) = (wire::prompt_order(survey.transcript), wire::prompt_order(&after));
    let report = &mut compacted.report;
    report.notes.extend(repair::describe_faults(&after));
    report.tokens.warm = cache::cached_prefix(&old, &after, &new, &survey.policy.model, cache).tokens;
    report.cost = cost_report(survey, report.tokens.after, report.tokens.after - report.tokens.warm);
    Ok(compacted)
}

/// Returns a note about the client's cache breakpoints that were removed as too many.
fn note_removed_breakpoints(ledger: &Ledger, transcript: &Transcript<'_>) -> Vec<String> {
    let places = ledger.surplus_breakpoints(transcript).into_iter().filter_map(|breakpoint| {
        let at = find_pointer(transcript.body, breakpoint.object)?;
        Some(if at.is_empty() { "/".to_owned() } else { at })
    });
    let places: Vec<String> = places.collect();
    if places.is_empty() {
        return Vec::new();
    }
    let note = format!(
        "cache breakpoints removed, because a provider takes {MAX_BREAKPOINTS}: those on {}",
        places.join(", ")
    );
    vec![note]
}

/// Returns the report of a compaction that changes nothing.
pub(super) fn unchanged_report(survey: &Survey<'_, '_>, context: &PlanContext) -> CompactionReport {
    let transcript = survey.transcript;
    let (messages, bytes) = (transcript.message_count(), transcript.body.len());
    let reached = fits_limits(survey, survey.total);
    let missed = describe_shortfall(survey, context, survey.total).filter(|_| !reached);
    CompactionReport {
        dialect: transcript.api_format,
        dialect_sure: transcript.is_api_format_certain,
        engine: context.engine.clone(),
        reason: context.reason.clone(),
        advice: None,
        changed: false,
        reached,
        tokens: TokensReport {
            before: survey.total,
            after: survey.total,
            warm: survey.total,
            floor: context.smallest_result,
            counted_by: survey.meter.counter.name(),
        },
        messages: BeforeAfter { before: messages, after: messages },
        bytes: BeforeAfter { before: bytes, after: bytes },
        units: TurnsReport { kept: transcript.turns.len(), digested: 0, summarized: 0, dropped: 0 },
        blocks: Vec::new(),
        evidence: EvidenceReport::default(),
        checkpoint: None,
        findings: Vec::new(),
        trigger: survey.options.trigger,
        focus: survey.options.focus.as_deref().map(|focus| {
            Redactor::numbered(survey.options.redaction_rules.clone())
                .redact(focus, RedactionMode::Text)
                .text
                .into_string()
        }),
        ratio: 0.0,
        unsummarized: 0,
        cost: CostReport::default(),
        state: StateReport::default(),
        zone: context.zone,
        ladder: Vec::new(),
        restart: None,
        notes: missed.into_iter().chain(repair::describe_faults(transcript)).collect(),
    }
}
