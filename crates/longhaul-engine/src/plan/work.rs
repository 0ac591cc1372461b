//! What a compaction works with, and the passes over what may change.

use std::rc::Rc;

use super::draft::Draft;
use super::repair;
use super::settle::Occasion;
use super::survey::Survey;
use crate::evidence::Evidence;
use crate::known::Known;
use crate::passes::{self, ByteLimits, Change, Scope};
use crate::redact::Redactor;
use crate::summary::{Answer, Audited, NoSummary, audit};

/// What becomes of the actions that the checkpoint before lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// They are listed again, as far as there is room.
    Carried,
    /// They stand in a page that is kept, and the checkpoint says what fetches it.
    Paged,
}

/// What a compaction works with.
pub(super) struct Work<'w, 't, 'b> {
    pub(super) survey: &'w Survey<'t, 'b>,
    pub(super) occasion: &'w Occasion,
    pub(super) past: Past,
    pub(super) known: &'w mut Known,
    pub(super) redactor: &'w mut Redactor,
    /// What there is to say, once somebody asked: a compaction that folds nothing needs none of it.
    evidence: Option<Rc<Evidence>>,
    /// What a summary that was handed in comes to, once somebody asked.
    audited: Option<Rc<Result<Audited, NoSummary>>>,
}

impl<'w, 't, 'b> Work<'w, 't, 'b> {
    pub(super) fn new(
        survey: &'w Survey<'t, 'b>,
        occasion: &'w Occasion,
        past: Past,
        known: &'w mut Known,
        redactor: &'w mut Redactor,
    ) -> Self {
        Self { survey, occasion, past, known, redactor, evidence: None, audited: None }
    }

    /// The evidence of all units, read when it is first asked for.
    pub(super) fn evidence(&mut self) -> Rc<Evidence> {
        let (known, transcript) = (&mut *self.known, self.survey.transcript);
        Rc::clone(self.evidence.get_or_insert_with(|| Rc::new(Evidence::of(known, transcript))))
    }

    /// What of a summary is borne out, audited once however often a checkpoint is tried.
    pub(super) fn audited(&mut self, answer: &Answer) -> Rc<Result<Audited, NoSummary>> {
        let evidence = self.evidence();
        let (transcript, redactor) = (self.survey.transcript, &mut *self.redactor);
        let audited = || Rc::new(audit(answer, transcript, &evidence, redactor));
        Rc::clone(self.audited.get_or_insert_with(audited))
    }
}

/// Runs the passes over what may change, and those that make a body of too many bytes smaller over all that they may.
pub(super) fn prune(
    work: &mut Work<'_, '_, '_>,
    draft: &mut Draft<'_, '_, '_>,
    may_change: &dyn Fn(usize) -> bool,
) {
    let survey = work.survey;
    let keep = &survey.wish.keep;
    let scope = Scope {
        policy: survey.policy,
        transcript: survey.transcript,
        actions: &Evidence::actions(work.known, survey.transcript),
        may_change,
        handle: &|text| keep.handle(text),
    };
    let mut changes = passes::run_all(&scope);
    changes.extend(passes::byte_budget(&scope, ByteLimits::default()));
    let is_kept = |change: &Change| {
        let part = survey.transcript.parts_of(change.at.unit).nth(change.at.block);
        part.and_then(|part| part.kind.exchange()).is_some_and(|e| survey.policy.keep.tool(&e.tool))
    };
    for change in changes.into_iter().filter(|change| !is_kept(change)) {
        let why = change.why();
        draft.change(change.at, change.to, why);
    }
    repair::repair(draft, may_change);
}
