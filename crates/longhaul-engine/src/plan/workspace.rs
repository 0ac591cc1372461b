//! The shared state of one compaction, and the passes that prune its turns.

use std::rc::Rc;

use super::draft::Draft;
use super::finalize::PlanContext;
use super::repair;
use super::survey::Survey;
use crate::block_cache::BlockCache;
use crate::evidence::Evidence;
use crate::passes::{self, ByteLimits, PassScope, ProposedChange};
use crate::redact::Redactor;
use crate::summary::{AuditedSummary, ModelSummary, SummaryRejection, audit};

/// How a new checkpoint treats the actions that the previous one lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlierActions {
    /// It lists them again, as far as there is room.
    Repeated,
    /// They move to a stored page, and the checkpoint has the recall ID of that page.
    Paged,
}

/// The state that all phases of a compaction share.
pub(super) struct Workspace<'w, 't, 'b> {
    pub(super) survey: &'w Survey<'t, 'b>,
    pub(super) context: &'w PlanContext,
    pub(super) earlier_actions: EarlierActions,
    pub(super) block_cache: &'w mut BlockCache,
    pub(super) redactor: Redactor,
    /// The evidence of all turns, collected on first use: a compaction that summarizes nothing does not need
    /// it.
    evidence: Option<Rc<Evidence>>,
    /// The audited form of a supplied summary, computed on first use.
    audited_summary: Option<Rc<Result<AuditedSummary, SummaryRejection>>>,
}

impl<'w, 't, 'b> Workspace<'w, 't, 'b> {
    pub(super) fn new(
        survey: &'w Survey<'t, 'b>,
        context: &'w PlanContext,
        earlier_actions: EarlierActions,
        block_cache: &'w mut BlockCache,
    ) -> Self {
        let redactor = survey.options.redactor(block_cache);
        Self { survey, context, earlier_actions, block_cache, redactor, evidence: None, audited_summary: None }
    }

    /// Returns the evidence of all turns, and collects it on the first call.
    pub(super) fn evidence(&mut self) -> Rc<Evidence> {
        let (cache, transcript) = (&mut *self.block_cache, self.survey.transcript);
        Rc::clone(self.evidence.get_or_insert_with(|| Rc::new(Evidence::collect(cache, transcript))))
    }

    /// Returns the audited form of a summary. The audit runs once, however often a checkpoint is rewritten.
    pub(super) fn audited(&mut self, answer: &ModelSummary) -> Rc<Result<AuditedSummary, SummaryRejection>> {
        let evidence = self.evidence();
        let (transcript, redactor) = (self.survey.transcript, &mut self.redactor);
        let audited = || Rc::new(audit(answer, transcript, &evidence, redactor));
        Rc::clone(self.audited_summary.get_or_insert_with(audited))
    }
}

/// Runs the passes over the turns that may change. If the body or one of its strings has too many bytes, it
/// also runs the passes that reduce bytes, which may change other turns as well.
pub(super) fn prune(draft: &mut Draft<'_, '_, '_>, cache: &mut BlockCache, may_change: &dyn Fn(usize) -> bool) {
    let survey = draft.survey;
    let originals = &survey.options.originals;
    let scope = PassScope {
        policy: survey.policy,
        transcript: survey.transcript,
        actions: &Evidence::read_actions(cache, survey.transcript),
        may_change,
        recall_id: &|text| originals.recall_id(text),
    };
    let mut changes = passes::run_all(&scope);
    changes.extend(passes::shrink_to_byte_limits(&scope, ByteLimits::default()));
    let is_kept = |change: &ProposedChange| {
        let part = survey.transcript.blocks_of_turn(change.at.unit).nth(change.at.block);
        part.and_then(|part| part.role.tool_call())
            .is_some_and(|tool_call| survey.policy.user_protections.protects_tool(&tool_call.tool))
    };
    for change in changes.into_iter().filter(|change| !is_kept(change)) {
        let why = change.reason();
        draft.replace_text(change.at, change.new_text, why);
    }
    repair::repair(draft, may_change);
}
