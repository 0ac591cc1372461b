//! The engine `compressor`: it shortens old turns in place and, if that is not enough, replaces them with a
//! checkpoint.
//!
//! ```text
//! system │ head │ ········ middle ········ │ tail          before
//! system │ head │ shortened middle         │ tail          after pruning, if that is enough
//! system │ head │ checkpoint               │ tail          if it is not
//! system │ first prompt │ checkpoint │ shortened │ tail    if a size was requested: newest turns fill the rest
//! ```
//!
//! Evidence is read from the original blocks, and only if turns are summarized. The system prompt and the
//! newest user message keep their exact bytes. So does the last assistant turn, unless its results alone are
//! too large.

use std::collections::BTreeSet;

use super::begin::compact_if_triggered;
use super::bounds::Bounds;
use super::checkpoint_draft;
use super::draft::{DigestLength, Draft, Replacement};
use super::engine::{Engine, EngineSource, PlanInput};
use super::finalize::{PlanContext, complete_report, finalize};
use super::fit_to_size::{self, SizeLimit};
use super::observe;
use super::summary_job;
use super::survey::Survey;
use super::workspace::{EarlierActions, Workspace, prune};
use super::{Advice, CompactedRequest, Plan};
use crate::block_cache::BlockCache;
use crate::config::EngineName;
use crate::meter::Meter;
use crate::policy::Policy;
use crate::summary::SummaryJob;
use crate::transcript::{ElementId, Transcript, Turn};
use crate::{RewriteError, Tokens};

/// The engine that shortens old turns and summarizes them into a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Compressor;

impl Engine for Compressor {
    fn name(&self) -> EngineName {
        EngineName::COMPRESSOR
    }

    fn description(&self) -> &'static str {
        "shortens what is old and, if that is not enough, summarizes it into a checkpoint; the default"
    }

    fn source(&self) -> EngineSource {
        EngineSource::BuiltIn
    }

    fn observe(&self, policy: &Policy, cache: &mut BlockCache, transcript: &Transcript<'_>) -> Tokens {
        observe::observe(Meter::for_model(&policy.model), cache, transcript)
    }

    fn summary_job(&self, input: PlanInput<'_, '_>) -> Option<SummaryJob> {
        summary_job::build_summary_job(EarlierActions::Repeated, input)
    }

    fn compact(&self, input: PlanInput<'_, '_>) -> Result<Plan, RewriteError> {
        compact(self, EarlierActions::Repeated, input)
    }
}

/// Runs one compaction for an engine that prunes and summarizes; `earlier_actions` tells what becomes of
/// the actions in the previous checkpoint.
pub(super) fn compact(
    engine: &dyn Engine,
    earlier_actions: EarlierActions,
    input: PlanInput<'_, '_>,
) -> Result<Plan, RewriteError> {
    compact_if_triggered(engine, input, plan_context, |survey, context, cache| {
        let survey = &survey;
        let mut work = Workspace::new(survey, &context, earlier_actions, cache);
        let compacted = match survey.options.to_tokens {
            Some(wanted) => fit_to_size::fit_to_size(&mut work, SizeLimit::Requested(wanted)),
            None => compact_by_policy(&mut work),
        };
        let Some(compacted) = compacted? else {
            let (reason, advice) = explain_nothing_to_compact(survey, context.smallest_result);
            let mut plan = context.unchanged(survey, reason);
            plan.report_mut().advice = advice;
            return Ok(plan);
        };
        survey.options.check_cancelled()?;
        let Some(rule) = newly_broken_rule(&compacted, survey) else {
            return Ok(Plan::Ready(complete_report(compacted, survey, cache)?));
        };
        if let Some(second_best) = shorten_in_place(&mut work, rule)? {
            return Ok(Plan::Ready(complete_report(second_best, survey, cache)?));
        }
        let reason =
            format!("the result would break rule {rule}, which the request keeps; the request stays unchanged");
        Ok(context.unchanged(survey, reason))
    })
}

/// Explains why nothing can be summarized or shortened: which settings protect the messages, and which
/// options would change that.
fn explain_nothing_to_compact(survey: &Survey<'_, '_>, smallest_result: Tokens) -> (String, Option<Advice>) {
    let since = if survey.newest_checkpoint.is_some() { " since the checkpoint" } else { "" };
    let opening = format!("nothing to summarize or shorten{since}");
    let stays = survey.required_turns();
    if survey.options.to_tokens.is_some() || (0..survey.turn_tokens.len()).all(|turn| stays.contains(&turn)) {
        let always = "the system prompt, the tools, the newest message and the last turn always stay";
        return (format!("{opening}: {always} ({smallest_result} tokens with a checkpoint)"), None);
    }
    let bounds = Bounds::from_policy(survey);
    let goal = survey.policy.prune_goal;
    if bounds.free_turns().any(|turn| survey.is_after_checkpoint(turn)) && survey.total <= goal {
        let goal = format!("the goal of {goal} tokens, half the threshold");
        let reason = format!("nothing to shorten{since}, and nothing is summarized at or under {goal}");
        return (reason, Some(Advice::RequestSizeOrKeptPart));
    }
    let messages = |turns: &[Turn<'_>]| turns.iter().map(|turn| turn.owned_elements.len()).sum::<usize>();
    let turns = &survey.transcript.turns;
    let kept = bounds.middle.clone().filter(|turn| survey.user_protected.contains(*turn)).count();
    let parts = [
        (messages(&turns[..bounds.middle.start]), "at the head (protect_first_n)"),
        (kept, "by keep_tools, keep_last_users, <keep> or a chosen message"),
        (messages(&turns[bounds.middle.end..]), "at the end (protect_last_n, target_ratio)"),
    ];
    let named = parts.iter().filter(|(count, _)| *count > 0);
    let named: Vec<String> = named.map(|(count, by)| format!("{count} {by}")).collect();
    (format!("{opening}: messages are protected, {}", named.join(", ")), Some(Advice::RequestSize))
}

/// Returns the target and the minimum size for a compaction by this engine.
pub(super) fn plan_context(engine: &dyn Engine, survey: &Survey<'_, '_>, reason: String) -> PlanContext {
    let (engine, target) = (engine.name(), survey.options.to_tokens.unwrap_or(survey.policy.prune_goal));
    PlanContext { engine, reason, target, smallest_result: fit_to_size::minimum_with_checkpoint(survey), zone: None }
}

/// Returns a rule that the rewritten body breaks and the original does not. This is the last check, so that
/// an unforeseen case does not end in a refusal by the provider.
///
/// Replacing one text by another breaks no rule. An error outside the list of messages, or after the first
/// message of the unchanged tail, exists in both bodies; only that first message may break a rule because of
/// its new neighbour. The original, which may be a hundred times larger, is checked only if other errors
/// remain.
pub(super) fn newly_broken_rule(compacted: &CompactedRequest, survey: &Survey<'_, '_>) -> Option<&'static str> {
    if compacted.ledger.only_changes_texts() {
        return None;
    }
    let transcript = survey.transcript;
    let mut violations = survey.check(&compacted.body);
    let first_tail_message =
        compacted.report.messages.after.saturating_sub(count_unchanged_tail_messages(compacted, transcript));
    let is_in_unchanged_tail = |at: &str| {
        // In a bare list of messages, no field name precedes the index.
        let mut path = at.split('/').skip(1).skip_while(|field| *field == transcript.api_format.messages_field());
        path.next().is_some_and(|next| next.parse().map_or(true, |message: usize| message > first_tail_message))
    };
    violations.retain(|violation| !is_in_unchanged_tail(&violation.at));
    violations.iter().map(|violation| violation.rule).find(|rule| !survey.already_breaks(rule))
}

/// Counts the messages after the last change, which are the same byte for byte.
fn count_unchanged_tail_messages(compacted: &CompactedRequest, transcript: &Transcript<'_>) -> usize {
    let Some(array) = transcript.message_array else { return 0 };
    let end = compacted.rewrite.splices().last().map_or(0, |splice| splice.at.end);
    let is_after_last_change =
        |index: &usize| transcript.span_of(ElementId { array, index: *index as u32 }).start >= end;
    (0..transcript.message_count()).rev().take_while(is_after_last_change).count()
}

/// Shortens blocks and removes nothing: the fallback if summarizing would break a rule. If the window is too
/// small for that, results become single lines.
fn shorten_in_place(work: &mut Workspace<'_, '_, '_>, rule: &str) -> Result<Option<CompactedRequest>, RewriteError> {
    let survey = work.survey;
    let bounds = Bounds::from_policy(survey);
    let mut draft = Draft::new(survey);
    prune(&mut draft, work.block_cache, &|turn| bounds.may_shrink(turn));
    if draft.total > survey.max_compacted_tokens() {
        let stays = survey.required_turns();
        for result in (0..survey.turn_tokens.len())
            .filter(|turn| !stays.contains(turn))
            .flat_map(|turn| survey.editable_results(turn))
        {
            draft.shorten_result(result, DigestLength::OneLine);
        }
    }
    draft.notes.push(format!(
        "a summary would have broken rule {rule}, which the request keeps, so blocks are only shortened"
    ));
    let outcome = finalize(&draft, work.context, work.block_cache)?;
    Ok(outcome.filter(|outcome| newly_broken_rule(outcome, survey).is_none()))
}

/// Compacts within the budgets of the policy.
fn compact_by_policy(work: &mut Workspace<'_, '_, '_>) -> Result<Option<CompactedRequest>, RewriteError> {
    let too_large = work.survey.max_compacted_tokens();
    let bounds = Bounds::from_policy(work.survey);
    // If there is no room for the head, drop its protection now: the next compaction would drop it anyway.
    let headless = bounds.without_head();
    for bounds in [Some(bounds), headless].into_iter().flatten() {
        let draft = draft_within_bounds(work, &bounds);
        let size =
            draft.total + draft.replacement.checkpoint().map_or(Tokens::ZERO, |checkpoint| checkpoint.report.tokens);
        if size > too_large {
            continue;
        }
        if draft.is_empty() {
            return Ok(None);
        }
        match finalize(&draft, work.context, work.block_cache)? {
            Some(outcome) if outcome.report.tokens.after > too_large => {}
            outcome => return Ok(outcome),
        }
    }
    fit_to_size::fit_to_size(work, SizeLimit::Window(too_large))
}

/// Drafts a compaction within these bounds: pruned if that is enough, else summarized.
fn draft_within_bounds<'s, 't, 'b>(work: &mut Workspace<'s, 't, 'b>, bounds: &Bounds<'_, '_, '_>) -> Draft<'s, 't, 'b> {
    let (survey, goal) = (work.survey, work.context.target);
    let mut draft = Draft::new(survey);
    let gone = bounds.turns_to_summarize();
    let has_new = bounds.free_turns().any(|turn| survey.is_after_checkpoint(turn) && gone.contains(&turn));
    // A caller who chose the first message to keep wants the rest summarized, however small it is. A model's summary
    // says more than short forms of old results do.
    let try_pruning = survey.options.keep_from.is_none()
        && bounds.pruning_could_suffice(goal)
        && !(has_new && checkpoint_draft::has_usable_summary(work, &gone));
    if try_pruning {
        prune(&mut draft, work.block_cache, &|turn| bounds.may_shrink(turn));
        if draft.total <= goal {
            return draft;
        }
    }
    match checkpoint_budget(work, &gone).filter(|_| has_new) {
        Some(budget) => {
            draft = Draft::new(survey);
            for turn in &gone {
                draft.remove_turn(*turn);
            }
            draft.replacement = Replacement::Checkpoint(checkpoint_draft::write_within(work, &gone, budget));
        }
        None if try_pruning => {}
        None => prune(&mut draft, work.block_cache, &|turn| bounds.may_shrink(turn)),
    }
    draft
}

/// Returns the token budget for a checkpoint of these turns, or `None` if a checkpoint would save nothing.
/// The budget always has room for the user's rules, even if a share of so few tokens would not.
pub(super) fn checkpoint_budget(work: &mut Workspace<'_, '_, '_>, gone: &BTreeSet<usize>) -> Option<Tokens> {
    let replaced: Tokens = gone.iter().map(|turn| work.survey.turn_tokens[*turn]).sum();
    let budget = work.survey.checkpoint_budget(gone);
    let budget = budget.max(checkpoint_draft::required_tokens(work, gone));
    (budget < replaced).then_some(budget)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::own_checkpoint::VerifiedTranscript;
    use super::*;
    use crate::plan::CompactOptions;
    use crate::policy::Config;
    use crate::wire;

    // No known transcript breaks a rule when it is summarized, so this test calls the fallback directly.
    #[test]
    fn results_are_shortened_in_place_if_summarizing_would_break_a_rule() {
        let call = |id: &str| {
            let function = json!({"name": "read", "arguments": "{}"});
            json!({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": function}]})
        };
        let result = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
        let long = "a line of a long output\n".repeat(2_000);
        let body = json!({"model": "gpt-5", "messages": [
            {"role": "user", "content": "Read both."},
            call("a"), result("a", &long), call("b"), result("b", &long),
            {"role": "assistant", "content": "I read both."},
            {"role": "user", "content": "And now?"},
        ]});
        let body = body.to_string();
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let stated = json!({"window": 16_000, "input_limit": null});
        let model = crate::models::find("gpt-5").with_stated_facts(stated.as_object().unwrap()).unwrap();
        let policy = Policy::new(&Config::default(), &model).unwrap().0;
        let options = CompactOptions { force: true, ..CompactOptions::default() };
        let mut cache = BlockCache::default();
        let verified = VerifiedTranscript::new(&policy, &options, &transcript);
        let survey = Survey::new(&policy, &options, &mut cache, &verified);
        let context = plan_context(&Compressor, &survey, "asked for".to_owned());
        let mut work = Workspace::new(&survey, &context, EarlierActions::Repeated, &mut cache);
        let outcome = shorten_in_place(&mut work, "X1").unwrap().unwrap();
        let report = outcome.report;
        assert!(report.tokens.after < Tokens(400), "{:?}", report.tokens);
        assert_eq!((report.units.summarized, report.units.dropped, report.messages.after), (0, 0, 7));
        assert!(report.notes.iter().any(|note| note.contains("rule X1")), "{:?}", report.notes);
    }
}
