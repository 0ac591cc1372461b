//! The compressor: what is old becomes short where it stands, and if that is not enough a checkpoint takes its place.
//!
//! ```text
//! system │ head │ ········ middle ········ │ tail          before
//! system │ head │ digested middle          │ tail          after pruning, if that is enough
//! system │ head │ checkpoint               │ tail          if it is not
//! system │ said first │ checkpoint │ digested │ tail       if a size was asked for: the newest fills what is left of it
//! ```
//!
//! Evidence is read from the whole blocks, whatever was pruned, and only if something is folded. The newest message of the user and the system prompt are the same
//! bytes as before; so is the last step, unless its results alone are too large.

use std::collections::BTreeSet;

use super::ask;
use super::bounds::Bounds;
use super::draft::{Draft, InPlace, Length};
use super::engine::{Due, Engine, Source};
use super::fit::{self, Aim};
use super::fold;
use super::look;
use super::ours::Ours;
use super::settle::{Occasion, finished, settle, unchanged};
use super::survey::Survey;
use super::work::{Past, Work, prune};
use super::{Outcome, Plan, Wish};
use crate::check::check;
use crate::config::EngineName;
use crate::known::Known;
use crate::meter::Meter;
use crate::policy::Policy;
use crate::redact::Redactor;
use crate::summary::Ask;
use crate::transcript::{ElementId, Transcript, Unit};
use crate::{Refused, Tokens};

/// The engine that prunes what is old and folds it into a checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Compressor;

impl Engine for Compressor {
    fn name(&self) -> EngineName {
        EngineName::COMPRESSOR
    }

    fn about(&self) -> &'static str {
        "shortens what is old and, if that is not enough, folds it into a checkpoint; the default"
    }

    fn source(&self) -> Source {
        Source::BuiltIn
    }

    fn look(&self, policy: &Policy, known: &mut Known, transcript: &Transcript<'_>) -> Tokens {
        look::look(Meter::of(&policy.model), known, transcript)
    }

    fn would_ask(
        &self,
        policy: &Policy,
        wish: &Wish,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Option<Ask> {
        ask::ask(Past::Carried, policy, wish, known, transcript)
    }

    fn compact(
        &self,
        policy: &Policy,
        wish: &Wish,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Result<Plan, Refused> {
        compact(self, Past::Carried, policy, wish, known, transcript)
    }
}

/// One compaction by an engine that prunes and folds, whatever becomes of the past.
pub(super) fn compact(
    engine: &dyn Engine,
    past: Past,
    policy: &Policy,
    wish: &Wish,
    known: &mut Known,
    transcript: &Transcript<'_>,
) -> Result<Plan, Refused> {
    let ours = Ours::of(policy, wish, transcript);
    let survey = &Survey::new(policy, wish, known, &ours);
    wish.go_on()?;
    let leave = |reason: String| Ok(Plan::Leave(unchanged(survey, &occasion(engine, survey, reason))));
    let occasion = match engine.due(policy, wish, &survey.load()) {
        Due::Now(reason) => occasion(engine, survey, reason),
        Due::NotYet(reason) => return leave(reason),
    };
    let mut redactor = Redactor::with_memory(wish.rules.clone(), wish.keep.key(), known.clean());
    let mut work = Work::new(survey, &occasion, past, known, &mut redactor);
    let outcome = match wish.to_tokens {
        Some(wanted) => fit::fit(&mut work, Aim::Size(wanted)),
        None => by_policy(&mut work),
    };
    let Some(outcome) = outcome? else { return leave(protected(survey, occasion.floor)) };
    wish.go_on()?;
    let Some(rule) = newly_broken(&outcome, policy, transcript) else {
        return Ok(Plan::Ready(finished(outcome, survey, known)?));
    };
    match in_place(&mut work, rule)? {
        Some(second_best) => Ok(Plan::Ready(finished(second_best, survey, known)?)),
        None => leave(format!(
            "what came out would break rule {rule}, which the request keeps; it stays as it is"
        )),
    }
}

/// Why nothing can be folded or shortened: what protects all of it, and what would change that.
fn protected(survey: &Survey<'_, '_>, floor: Tokens) -> String {
    let since = if survey.checkpoint().is_some() { " since the checkpoint" } else { "" };
    let opening = format!("nothing to fold or shorten{since}");
    let stays = survey.must_stay();
    if survey.wish.to_tokens.is_some() || (0..survey.units.len()).all(|unit| stays.contains(&unit)) {
        return format!(
            "{opening}: the system prompt, the tools, the newest message and the last step always stay ({floor} tokens with a \
             handover)"
        );
    }
    let bounds = Bounds::by_policy(survey);
    let goal = survey.policy.goal;
    if bounds.free().any(|unit| bounds.is_new(unit)) && survey.total <= goal {
        return format!(
            "nothing to shorten{since}, and nothing is folded at or under the goal of {goal} tokens, half the threshold; \
             --to-tokens N or --keep-from MESSAGE folds all the same"
        );
    }
    let messages = |units: &[Unit<'_>]| units.iter().map(|unit| unit.owns.len()).sum::<usize>();
    let units = &survey.transcript.units;
    let kept = bounds.middle.clone().filter(|unit| survey.kept.contains(*unit)).count();
    let parts = [
        (messages(&units[..bounds.middle.start]), "at the head (--protect-first)"),
        (kept, "by keep_tools, keep_last_users, <keep> or --keep-from"),
        (messages(&units[bounds.middle.end..]), "at the end (--protect-last, --target-ratio)"),
    ];
    let named = parts.iter().filter(|(count, _)| *count > 0);
    let named: Vec<String> = named.map(|(count, by)| format!("{count} {by}")).collect();
    format!("{opening}: messages are protected, {}; --to-tokens N goes below that", named.join(", "))
}

/// What a compaction of this engine is to come to.
fn occasion(engine: &dyn Engine, survey: &Survey<'_, '_>, reason: String) -> Occasion {
    let (engine, target) = (engine.name(), survey.wish.to_tokens.unwrap_or(survey.policy.goal));
    Occasion { engine, reason, target, floor: fit::floor(survey), zone: None }
}

/// A rule that a rewritten body breaks and the original did not: what nobody thought of is not to end in a refusal.
///
/// A text in place of another breaks no rule. What is wrong in another field than the list of messages, or behind the first
/// message that is the same in both, is wrong in both; the first itself may break a rule through its new neighbour. Only if
/// more is wrong, the original is judged, which may be a hundred times larger.
pub(super) fn newly_broken(
    outcome: &Outcome,
    policy: &Policy,
    transcript: &Transcript<'_>,
) -> Option<&'static str> {
    if outcome.ledger.only_changes_texts() {
        return None;
    }
    let target = policy.model.target(transcript.dialect);
    let mut after = check(&outcome.body, transcript.dialect, &target);
    let same_end = outcome.report.messages.after.saturating_sub(unchanged_at_the_end(outcome, transcript));
    let is_the_same = |at: &str| {
        // A bare list of messages has no field before the index.
        let mut path = at.split('/').skip(1).skip_while(|field| *field == transcript.dialect.list());
        path.next().is_some_and(|next| next.parse().map_or(true, |message: usize| message > same_end))
    };
    after.retain(|violation| !is_the_same(&violation.at));
    if after.is_empty() {
        return None;
    }
    let before: BTreeSet<&str> =
        check(transcript.body, transcript.dialect, &target).iter().map(|violation| violation.rule).collect();
    after.iter().map(|violation| violation.rule).find(|rule| !before.contains(rule))
}

/// How many messages stand, byte for byte, behind all that was changed.
fn unchanged_at_the_end(outcome: &Outcome, transcript: &Transcript<'_>) -> usize {
    let Some(array) = transcript.messages else { return 0 };
    let end = outcome.rewrite.splices().last().map_or(0, |splice| splice.at.end);
    let stands = |index: &usize| transcript.span_of(ElementId { array, index: *index as u32 }).start >= end;
    (0..transcript.message_count()).rev().take_while(stands).count()
}

/// The second best, where folding would break a rule: nothing goes, and what may be shorter is. Where the window is too small
/// for that, results become lines.
fn in_place(work: &mut Work<'_, '_, '_>, rule: &str) -> Result<Option<Outcome>, Refused> {
    let survey = work.survey;
    let bounds = Bounds::by_policy(survey);
    let mut draft = Draft::new(survey);
    prune(work, &mut draft, &|unit| bounds.may_shrink(unit));
    if draft.total > survey.too_large() {
        let stays = survey.must_stay();
        for result in
            (0..survey.units.len()).filter(|unit| !stays.contains(unit)).flat_map(|unit| survey.results(unit))
        {
            draft.shrink(result, Length::Line);
        }
    }
    draft.notes.push(format!(
        "folding would have broken rule {rule}, which the request keeps; it is only made shorter in place"
    ));
    let outcome = settle(&draft, work.occasion, work.known)?;
    Ok(outcome.filter(|outcome| newly_broken(outcome, survey.policy, survey.transcript).is_none()))
}

/// A compaction by the policy's own budgets.
fn by_policy(work: &mut Work<'_, '_, '_>) -> Result<Option<Outcome>, Refused> {
    let too_large = work.survey.too_large();
    let bounds = Bounds::by_policy(work.survey);
    // What the next compaction would not keep for being first is not kept now, if there is no room for it.
    let headless = bounds.without_head();
    for bounds in [Some(bounds), headless].into_iter().flatten() {
        let draft = within_bounds(work, &bounds);
        let size =
            draft.total + draft.in_place.folding().map_or(Tokens::ZERO, |folding| folding.report.tokens);
        if size > too_large {
            continue;
        }
        if draft.is_empty() {
            return Ok(None);
        }
        match settle(&draft, work.occasion, work.known)? {
            Some(outcome) if outcome.report.tokens.after > too_large => {}
            outcome => return Ok(outcome),
        }
    }
    fit::fit(work, Aim::Window(too_large))
}

/// What a compaction between these bounds comes to: pruned if that is enough, else folded.
fn within_bounds<'s, 't, 'b>(work: &mut Work<'s, 't, 'b>, bounds: &Bounds) -> Draft<'s, 't, 'b> {
    let goal = work.occasion.target;
    let mut draft = Draft::new(work.survey);
    let gone = bounds.gone(work.survey);
    let has_new = bounds.free().any(|unit| bounds.is_new(unit) && gone.contains(&unit));
    // Who chose from where on all is kept wants the rest folded, however small it is.
    let try_pruning = work.survey.wish.keep_from.is_none() && bounds.could_be_enough(work.survey, goal);
    if try_pruning {
        prune(work, &mut draft, &|unit| bounds.may_shrink(unit));
        if draft.total <= goal {
            return draft;
        }
    }
    match checkpoint_budget(work, &gone).filter(|_| has_new) {
        Some(budget) => {
            draft = Draft::new(work.survey);
            for unit in &gone {
                draft.take_out(*unit);
            }
            draft.in_place = InPlace::Checkpoint(fold::within(work, &gone, budget));
        }
        None if try_pruning => {}
        None => prune(work, &mut draft, &|unit| bounds.may_shrink(unit)),
    }
    draft
}

/// What the checkpoint of these units may cost; nothing if none is worth it. Rules are kept even where a checkpoint of a quarter
/// of so little would have no room for them.
pub(super) fn checkpoint_budget(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>) -> Option<Tokens> {
    let replaced: Tokens = gone.iter().map(|unit| work.survey.units[*unit]).sum();
    let budget = work.survey.policy.checkpoint.tokens(replaced);
    let most = fold::largest(work.past, replaced).max(fold::summary(work.survey));
    let budget = budget.min(most).max(fold::needed(work, gone));
    (budget < replaced).then_some(budget)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::Config;
    use crate::wire;

    /// No transcript is known whose folding breaks a rule; so what is done then is tried by itself.
    #[test]
    fn where_folding_would_break_a_rule_results_are_made_shorter_in_place() {
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
        let model = crate::models::find("gpt-5").with(stated.as_object().unwrap()).unwrap();
        let policy = Policy::new(&Config::default(), &model).unwrap().0;
        let wish = Wish { force: true, ..Wish::default() };
        let (mut known, mut redactor) =
            (Known::default(), Redactor::numbered(crate::redact::Rules::default()));
        let ours = Ours::of(&policy, &wish, &transcript);
        let survey = Survey::new(&policy, &wish, &mut known, &ours);
        let occasion = occasion(&Compressor, &survey, "asked for".to_owned());
        let mut work = Work::new(&survey, &occasion, Past::Carried, &mut known, &mut redactor);
        let outcome = in_place(&mut work, "X1").unwrap().unwrap();
        let report = outcome.report;
        assert!(report.tokens.after < Tokens(400), "{:?}", report.tokens);
        assert_eq!((report.units.summarized, report.units.dropped, report.messages.after), (0, 0, 7));
        assert!(report.notes.iter().any(|note| note.contains("rule X1")), "{:?}", report.notes);
    }
}
