//! The steps that are taken while a request is still too large, mildest first.
//!
//! Shortening results to single lines costs little, so it happens as soon as the engine's target is missed.
//! Turns are dropped only when the window is nearly full, and then down to the target, so that the next
//! request does not drop turns again.

use std::ops::Range;

use super::draft::{DigestLength, Draft};
use super::report::{EscalationAction, EscalationStep};
use super::survey::Survey;
use crate::Tokens;

/// Takes as many steps as necessary. `protected` turns stay until a new session has to begin.
pub(super) fn escalate(draft: &mut Draft<'_, '_, '_>, target: Tokens, protected: &dyn Fn(usize) -> bool) {
    let policy = draft.survey.policy;
    let drop_above = policy.drop_oldest_above.min(draft.survey.max_request_tokens());
    let take_step = |step: EscalationAction, draft: &mut Draft<'_, '_, '_>, act: &dyn Fn(&mut Draft<'_, '_, '_>)| {
        let before = draft.total;
        act(draft);
        if draft.total < before {
            draft.escalation.push(EscalationStep { step, tokens: [before, draft.total] });
        }
    };
    let turns = 0..draft.survey.turn_tokens.len();
    if draft.total > target.min(policy.digest_all_above) {
        take_step(EscalationAction::DigestAll, draft, &|draft| {
            shorten_all_results(draft, turns.clone(), protected);
        });
    }
    if draft.total > drop_above {
        take_step(EscalationAction::DropOldest, draft, &|draft| {
            for turn in turns.clone().filter(|turn| !protected(*turn)) {
                if draft.total <= target.min(drop_above) {
                    break;
                }
                draft.remove_turn(turn);
            }
        });
    }
    // Skip the restart if the new session would not fit either.
    if draft.total > drop_above && minimum_result_size(draft.survey) <= drop_above {
        let pinned = draft.survey.pinned_turns();
        take_step(EscalationAction::Restart, draft, &|draft| {
            for turn in turns.clone() {
                if draft.total > target.min(drop_above) && !pinned.contains(&turn) {
                    draft.remove_turn(turn);
                }
            }
        });
    }
}

fn shorten_all_results(draft: &mut Draft<'_, '_, '_>, turns: Range<usize>, protected: &dyn Fn(usize) -> bool) {
    for turn in turns.filter(|turn| !protected(*turn)) {
        for result in draft.survey.editable_results(turn) {
            draft.shorten_result(result, DigestLength::OneLine);
        }
    }
}

/// Returns the tokens that no step can remove: the system prompt, the tools and the pinned turns.
pub(super) fn minimum_result_size(survey: &Survey<'_, '_>) -> Tokens {
    survey.tokens_with_only(&survey.pinned_turns())
}
