//! What a compaction works with, and the passes over what may change.

use super::Wish;
use super::draft::Draft;
use super::survey::Survey;
use crate::evidence::Evidence;
use crate::known::Known;
use crate::passes::{self, ByteLimits, Scope};
use crate::policy::Policy;
use crate::redact::Redactor;

/// What a compaction works with.
pub(super) struct Work<'w, 't, 'b> {
    pub(super) policy: &'w Policy,
    pub(super) wish: &'w Wish,
    pub(super) known: &'w mut Known,
    pub(super) survey: &'w Survey<'t, 'b>,
    pub(super) evidence: &'w Evidence,
    pub(super) redactor: &'w mut Redactor,
}

/// Runs the passes over what may change, and those that make a body of too many bytes smaller over all that they may.
pub(super) fn prune(
    work: &mut Work<'_, '_, '_>,
    draft: &mut Draft<'_, '_, '_>,
    may_change: &dyn Fn(usize) -> bool,
) {
    let survey = work.survey;
    let keep = &work.wish.keep;
    let scope = Scope {
        policy: work.policy,
        transcript: survey.transcript,
        actions: &work.evidence.actions(),
        may_change,
        handle: &|text| keep.handle(text),
    };
    let mut changes = passes::run_all(&scope);
    changes.extend(passes::byte_budget(&scope, ByteLimits::default()));
    for change in changes {
        let Some(block) = survey.transcript.units[change.at.unit].blocks().nth(change.at.block) else {
            continue;
        };
        let before = survey.meter.block(work.known, block);
        let why = change.why();
        draft.change(change.at, change.to, why, before);
    }
}
