//! What is done when a request is still too large, each step only if the one before was not enough.
//!
//! Lines in place of digests cost little, so they are taken as soon as the engine's own target is missed. Units are dropped
//! only when the window is all but full, and then down to the target, so that the next turn does not drop again.

use std::ops::Range;

use super::draft::{Draft, Length};
use super::report::{Rung, Step};
use super::survey::Survey;
use crate::Tokens;

/// Climbs as far as needed. `protected` units stay, until a new session has to begin.
pub(super) fn climb(draft: &mut Draft<'_, '_, '_>, target: Tokens, protected: &dyn Fn(usize) -> bool) {
    let policy = draft.survey.policy;
    let drop_oldest = policy.drop_oldest.min(draft.survey.limit());
    let rung = |step: Step, draft: &mut Draft<'_, '_, '_>, act: &dyn Fn(&mut Draft<'_, '_, '_>)| {
        let before = draft.total;
        act(draft);
        if draft.total < before {
            draft.ladder.push(Rung { step, tokens: [before, draft.total] });
        }
    };
    let units = 0..draft.survey.units.len();
    if draft.total > target.min(policy.digest_all) {
        rung(Step::DigestAll, draft, &|draft| digest_every(draft, units.clone(), protected));
    }
    if draft.total > drop_oldest {
        rung(Step::DropOldest, draft, &|draft| {
            for unit in units.clone().filter(|unit| !protected(*unit)) {
                if draft.total <= target.min(drop_oldest) {
                    break;
                }
                draft.take_out(unit);
            }
        });
    }
    // A new session that would not fit either is no help.
    if draft.total > drop_oldest && floor(draft.survey) <= drop_oldest {
        let pinned = draft.survey.pinned();
        rung(Step::Restart, draft, &|draft| {
            for unit in units.clone() {
                if draft.total > target.min(drop_oldest) && !pinned.contains(&unit) {
                    draft.take_out(unit);
                }
            }
        });
    }
}

fn digest_every(draft: &mut Draft<'_, '_, '_>, units: Range<usize>, protected: &dyn Fn(usize) -> bool) {
    for unit in units.filter(|unit| !protected(*unit)) {
        for result in draft.survey.results(unit) {
            draft.shrink(result, Length::Line);
        }
    }
}

/// What no step can take away: the preamble and the pinned units.
pub(super) fn floor(survey: &Survey<'_, '_>) -> Tokens {
    survey.with_only(&survey.pinned())
}
