//! The engine `sacred-zone`: it shortens tool results outside a protected zone, the largest first. If that is
//! not enough, it drops the oldest turns. It writes no summary.
//!
//! ```text
//! system │ first prompt and reply │ ········ results here may shrink ········ │ the newest tokens
//! ```
//!
//! The size of the protected end depends on the session. It grows if recent calls refer far back, if one
//! prompt leads to many calls, or if the newest failure is still open.

use std::collections::HashSet;

use super::begin::compact_if_triggered;
use super::draft::{DigestLength, Draft, Replacement};
use super::engine::{Engine, EngineSource, PlanInput, RequestSize, TriggerDecision};
use super::finalize::{PlanContext, complete_report, finalize};
use super::report::{SessionRestart, ZoneReport};
use super::survey::{EditableResult, Survey};
use super::{CompactOptions, Plan, escalation};
use crate::config::EngineName;
use crate::digest::is_digest;
use crate::facts::{FactKind, Facts};
use crate::host_text;
use crate::ledger::PlacedText;
use crate::policy::{Policy, SacredBudget};
use crate::texts::{CHECKPOINT_END_OPENING, CHECKPOINT_OPENING, sign_checkpoint};
use crate::transcript::{Speaker, TurnKind};
use crate::{RewriteError, Tokens};

/// The number of newest assistant turns from which the zone is sized. Chosen by hand.
const RECENT_TURNS: usize = 12;
/// The number of calls per prompt from which on a session counts as fully busy. Chosen by hand.
const BUSY_CALLS_PER_PROMPT: f64 = 20.0;
/// The number of bytes of a text that are searched for values.
const MAX_SEARCHED_BYTES: usize = 64 * 1024;
/// The length in bytes below which a value would occur in any text by chance.
const MIN_VALUE_BYTES: usize = 5;

/// The engine that shortens tool results outside the protected zone, and escalates if that is not enough.
#[derive(Debug, Clone, Copy)]
pub struct SacredZone;

impl Engine for SacredZone {
    fn name(&self) -> EngineName {
        EngineName::SACRED_ZONE
    }

    fn description(&self) -> &'static str {
        "shortens old tool outputs, the largest first; writes no summary"
    }

    fn source(&self) -> EngineSource {
        EngineSource::BuiltIn
    }

    fn base_threshold(&self, policy: &Policy) -> Tokens {
        policy.sacred.trigger
    }

    fn check_trigger(&self, policy: &Policy, options: &CompactOptions, size: &RequestSize) -> TriggerDecision {
        let now = size.describe_share(policy.window);
        let trigger = size.threshold(self.base_threshold(policy), policy);
        let overflows = size.overflow_reason(policy);
        if size.tokens < trigger && !options.is_requested() && overflows.is_none() {
            return TriggerDecision::Wait(format!("below the trigger of {trigger}: {now}"));
        }
        if let Some(wanted) = options.to_tokens.filter(|wanted| size.tokens <= *wanted) {
            return TriggerDecision::Wait(format!("already at or under the {wanted} tokens asked for: {now}"));
        }
        if let Some(later) = size.wait_for_loop(policy) {
            return later;
        }
        TriggerDecision::Compact(match overflows {
            Some(reason) => reason,
            None if size.tokens < trigger => format!("asked for at {now}"),
            None => format!("{now} reach the trigger of {trigger}"),
        })
    }

    fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
        compact_if_triggered(self, input, plan_context, |mut survey, context, cache| {
            survey.task_openings.extend(survey.options.focus.clone());
            let survey = &survey;
            let zone = measure_zone(survey);
            let context = PlanContext { zone: Some(zone), ..context };
            // A forced compaction shortens everything it may, so that forcing it again would change nothing.
            let is_forced = survey.options.force && survey.options.to_tokens.is_none();
            let shrink_to = if is_forced { Tokens::ZERO } else { context.target };
            let protected = protected_turns(survey, zone.recent);
            let mut draft = Draft::new(survey);
            shorten_largest_results(&mut draft, shrink_to, &protected);
            escalation::escalate(&mut draft, context.target, &protected);
            if draft.is_empty() {
                return Ok(context.unchanged(survey, explain_nothing_to_shorten(survey, zone.recent)));
            }
            insert_removal_notice(&mut draft);
            if let Some(outcome) = finalize(&draft, &context, cache)? {
                return Ok(Plan::Ready(complete_report(outcome, survey, cache)?));
            }
            let reason = "what could be removed is smaller than the text that would replace it";
            Ok(context.unchanged(survey, reason.to_owned()))
        })
    }
}

/// Returns the target and the minimum size for a compaction by this engine.
fn plan_context(engine: &dyn Engine, survey: &Survey<'_, '_>, reason: String) -> PlanContext {
    let target = survey.policy.sacred.target.min(survey.max_request_tokens());
    let (engine, target) = (engine.name(), survey.options.to_tokens.unwrap_or(target));
    PlanContext { engine, reason, target, smallest_result: escalation::minimum_result_size(survey), zone: None }
}

/// Explains why nothing is shortened: the large results are protected, or there are none.
fn explain_nothing_to_shorten(survey: &Survey<'_, '_>, recent: Tokens) -> String {
    let least = survey.policy.sacred.min_output;
    let results = (0..survey.turn_tokens.len()).flat_map(|turn| survey.editable_results(turn));
    let is_whole = |result: &EditableResult<'_, '_>| {
        !is_digest(host_text::without_trailing(&result.block.text()), &result.tool_call.tool)
    };
    let large = results.filter(|result| survey.tokens_of_block(result.position) > least && is_whole(result)).count();
    if large == 0 {
        return format!("nothing to shrink: no output has more than {least} tokens (sacred_zone.min_tokens)");
    }
    format!(
        "nothing to shrink: the {large} outputs over {least} tokens are in the first prompt and its reply, or in the newest {recent} tokens, \
         which are protected (sacred_zone.recent_tokens)"
    )
}

/// Inserts a notice in place of turns that were removed without a summary.
fn insert_removal_notice(draft: &mut Draft<'_, '_, '_>) {
    let Some(first) = draft.removed_turns.first() else { return };
    let text = removal_notice(draft.count_removed_messages(), draft.restart().as_ref());
    let text =
        draft.survey.options.session_key.as_ref().map_or_else(|| text.clone(), |key| sign_checkpoint(&text, key));
    draft.replacement = Replacement::CountOnly(PlacedText { before: *first, text, takes: draft.survey.role_order() });
}

/// Returns the notice in place of messages that were removed without a summary.
fn removal_notice(messages: usize, restart: Option<&SessionRestart>) -> String {
    let from = match restart.map(|restart| restart.parent.as_deref()) {
        Some(Some(session)) => format!(" of session {session}, which is archived,"),
        Some(None) => " of the session before, which is archived,".to_owned(),
        None => String::new(),
    };
    let (noun, verb) = if messages == 1 { ("message", "was") } else { ("messages", "were") };
    format!(
        "{CHECKPOINT_OPENING}: {messages} earlier {noun}{from} {verb} removed from here on without a summary, because the context \
         window was full. For reference only; go on from the recent messages below.]\n\n{CHECKPOINT_END_OPENING}.]"
    )
}

/// Shortens the largest results until the target is reached or no candidate is left.
fn shorten_largest_results(draft: &mut Draft<'_, '_, '_>, target: Tokens, protected: &dyn Fn(usize) -> bool) {
    let survey = draft.survey;
    let budget = &survey.policy.sacred;
    let turns = (0..survey.turn_tokens.len()).filter(|turn| !protected(*turn));
    let results = turns.flat_map(|turn| survey.editable_results(turn));
    let mut candidates: Vec<_> = results
        .map(|result| (survey.tokens_of_block(result.position), result))
        .filter(|(tokens, _)| *tokens > budget.min_output)
        .collect();
    candidates.sort_by_key(|(tokens, result)| (std::cmp::Reverse(*tokens), result.position));
    for (tokens, result) in candidates {
        if draft.total <= target {
            break;
        }
        draft.shorten_result(result, DigestLength::Budget(digest_budget(budget, tokens)));
    }
}

fn digest_budget(budget: &SacredBudget, tokens: Tokens) -> Tokens {
    Tokens((tokens.number() as f64 * budget.digest_share) as u64).max(budget.digest_tokens)
}

/// Returns a test for turns that must not change: the opening turns, the pinned turns and the newest tokens.
fn protected_turns(survey: &Survey<'_, '_>, recent: Tokens) -> impl Fn(usize) -> bool + use<> {
    let (first, newest, pinned) = (survey.opening_turns(), survey.newest_within(recent), survey.pinned_turns());
    move |turn: usize| first.contains(&turn) || newest.contains(&turn) || pinned.contains(&turn)
}

/// Measures the session and sizes the recent zone.
fn measure_zone(survey: &Survey<'_, '_>) -> ZoneReport {
    let SacredBudget { recent, recent_min: recent_least, recent_max: recent_most, .. } = survey.policy.sacred;
    let turns = &survey.transcript.turns;
    let steps: Vec<usize> =
        (0..turns.len()).filter(|at| matches!(turns[*at].kind, TurnKind::Assistant { .. })).collect();
    let newest = &steps[steps.len().saturating_sub(RECENT_TURNS)..];
    let refers_back = back_reference_share(survey, newest);
    let calls_a_turn = calls_per_prompt(survey, newest);
    let open_error = newest.iter().rev().find_map(|at| has_failed(survey, *at)).unwrap_or(false);
    let busy = 0.25 * (calls_a_turn / BUSY_CALLS_PER_PROMPT).min(1.0) + if open_error { 0.25 } else { 0.0 };
    let wanted = Tokens((recent.number() as f64 * (0.5 + refers_back + busy)) as u64);
    // Shortening results changes the measurements. A forced compaction uses a fixed size, so that a second
    // one finds the same zone.
    let wanted = if survey.options.force { recent } else { wanted };
    let recent = wanted.clamp(recent_least, recent_most.max(recent_least));
    ZoneReport { recent, refers_back, calls_a_turn, open_error }
}

/// Returns the share of recent calls with a value that only results before the last three turns contain.
fn back_reference_share(survey: &Survey<'_, '_>, newest: &[usize]) -> f64 {
    let shown: Vec<HashSet<String>> = newest.iter().map(|at| values_in_results(survey, *at)).collect();
    let names = |steps: &[HashSet<String>], value: &str| steps.iter().any(|values| values.contains(value));
    let (mut calls, mut back) = (0usize, 0usize);
    for (position, turn) in newest.iter().enumerate().skip(4) {
        let (far, near) = (&shown[..position - 3], &shown[position - 3..position]);
        for call in survey.transcript.turns[*turn].tool_calls().iter().filter_map(|e| e.call.as_ref()) {
            calls += 1;
            let arguments = call.opening(MAX_SEARCHED_BYTES);
            back += usize::from(reference_values(&arguments).any(|v| names(far, v) && !names(near, v)));
        }
    }
    if calls == 0 { 0.0 } else { back as f64 / calls as f64 }
}

/// Returns the words that are specific enough to be a reference: paths, names with inner structure, long
/// numbers.
fn reference_values(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-')));
    words.filter(|word| {
        word.len() >= MIN_VALUE_BYTES && word.contains(['_', '/', '.'])
            || word.bytes().filter(u8::is_ascii_digit).count() >= 4
    })
}

fn values_in_results(survey: &Survey<'_, '_>, turn: usize) -> HashSet<String> {
    let results = survey.transcript.turns[turn].tool_calls().iter().flat_map(|e| &e.results);
    results
        .flat_map(|block| reference_values(&block.opening(MAX_SEARCHED_BYTES)).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Returns the number of calls per user message over the newest turns.
fn calls_per_prompt(survey: &Survey<'_, '_>, newest: &[usize]) -> f64 {
    let calls: usize = newest.iter().map(|at| survey.transcript.turns[*at].tool_calls().len()).sum();
    let from = newest.first().copied().unwrap_or(0);
    let prompts = survey.transcript.turns[from..]
        .iter()
        .filter(|turn| matches!(turn.kind, TurnKind::Prompt { speaker: Speaker::User, .. }))
        .count();
    calls as f64 / prompts.max(1) as f64
}

/// Whether the last call of a turn failed, or `None` if its result does not tell.
fn has_failed(survey: &Survey<'_, '_>, turn: usize) -> Option<bool> {
    let tool_call = survey.transcript.turns[turn].tool_calls().last()?;
    if tool_call.failed.is_some() {
        return tool_call.failed;
    }
    let text = tool_call.results.last()?.text();
    let facts = Facts::scan(&text);
    let failing = facts.of_kind(FactKind::FailingTest).next().map(|_| true);
    facts.exit_status.map(|code| code != 0).or(failing)
}
