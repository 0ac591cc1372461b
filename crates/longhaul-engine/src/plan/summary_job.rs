//! Builds the job for the model that summarizes the turns which a compaction would remove now.

use std::collections::BTreeSet;

use super::PlanInput;
use super::bounds::Bounds;
use super::own_checkpoint::VerifiedTranscript;
use super::survey::Survey;
use super::workspace::EarlierActions;
use crate::checkpoint::Checkpoint;
use crate::redact::{Redacted, RedactionMode, Redactor};
use crate::summary::{Material, SummaryJob, SummaryScope, escape_markers, render_turn};
use crate::transcript::TurnKind;

/// Builds the job, also if shorter results would be enough: a summary says more than they do. Returns `None` if there
/// is no new turn to summarize.
pub(super) fn build_summary_job(earlier_actions: EarlierActions, input: PlanInput<'_, '_>) -> Option<SummaryJob> {
    let PlanInput { policy, options, cache, transcript } = input;
    let verified = VerifiedTranscript::new(policy, options, transcript);
    let survey = &Survey::new(policy, options, cache, &verified);
    let bounds = Bounds::from_policy(survey);
    let gone = bounds.turns_to_summarize();
    if !bounds.free_turns().any(|turn| survey.is_after_checkpoint(turn) && gone.contains(&turn)) {
        return None;
    }
    let mut redactor = options.redactor(cache);
    let budget = survey.checkpoint_budget(&gone);
    let focus = survey.focus().map(|focus| redactor.redact(&focus, RedactionMode::Text).text.one_line(400));
    let material = Material {
        turns: render_turns(survey, &gone, &mut redactor),
        previous: previous_summary(earlier_actions, survey, &gone, &mut redactor),
        focus,
    };
    Some(SummaryJob::new(SummaryScope::from_turns(survey.transcript, &gone), material, budget, survey.meter.counter))
}

fn render_turns(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>, redactor: &mut Redactor) -> Vec<Redacted> {
    let is_turn = |turn: &&usize| Some(**turn) != survey.newest_checkpoint;
    let turns = gone.iter().filter(is_turn).map(|turn| render_turn(survey.transcript, *turn, redactor));
    turns.filter(|turn| !turn.as_str().is_empty()).collect()
}

/// Returns the text of the previous checkpoint, if it is among the removed turns, without its frame. With
/// pages, it also leaves out the earlier work, which a model should not retell.
fn previous_summary(
    earlier_actions: EarlierActions,
    survey: &Survey<'_, '_>,
    gone: &BTreeSet<usize>,
    redactor: &mut Redactor,
) -> Option<Redacted> {
    let at = survey.newest_checkpoint.filter(|at| gone.contains(at))?;
    let TurnKind::Checkpoint(block) = &survey.transcript.turns[at].kind else { return None };
    let text = block.text();
    let inside = match earlier_actions {
        EarlierActions::Paged => Checkpoint::parse(&text)?.without_actions().render_page(),
        EarlierActions::Repeated => {
            let inside = text.find("\n## ").map_or(0, |at| at + 1)..text.rfind("\n[").unwrap_or(text.len());
            text.get(inside)?.to_owned()
        }
    };
    let inside = inside.trim();
    Some(escape_markers(&redactor.redact(inside, RedactionMode::Text).text)).filter(|text| !text.as_str().is_empty())
}
