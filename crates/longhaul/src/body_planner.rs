//! Plans the compaction of one body with an engine, and the summary that a model would be asked for.

use longhaul_engine::Transcript;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::plan::{Advice, CompactOptions, CompactionReport, Engine, Plan, PlanInput};
use longhaul_engine::policy::Policy;
use longhaul_engine::rewrite::RewriteError;
use longhaul_engine::summary::{Completeness, ModelSummary, SummaryJob, SummaryScope};

use crate::failure::Failure;
use crate::input;

/// A body with the engine, the policy and the history that a plan for it needs.
pub(crate) struct BodyPlanner<'f, 't> {
    pub(crate) engine: &'f dyn Engine,
    pub(crate) policy: &'f Policy,
    pub(crate) block_cache: &'f mut BlockCache,
    pub(crate) transcript: &'f Transcript<'t>,
    /// The decisions that were made about this body before.
    pub(crate) ledger: &'f Ledger,
    /// The name of the body in messages.
    pub(crate) label: &'f str,
}

impl<'t> BodyPlanner<'_, 't> {
    /// Plans a compaction of the body, if one is triggered.
    pub(crate) fn plan(&mut self, options: &CompactOptions) -> Result<Plan, Failure> {
        let planned = self.engine.plan(self.ledger, self.input(options));
        let mut plan = planned.map_err(|refused| self.internal_error(&refused))?;
        if let Plan::Unchanged(report) = &mut plan {
            report.reason.push_str(match report.advice {
                None => "",
                Some(Advice::RequestSize) => "; use --to-tokens N to go below that",
                Some(Advice::RequestSizeOrKeptPart) => "; use --to-tokens N or --keep-from MESSAGE to summarize anyway",
            });
        }
        Ok(plan)
    }

    /// Returns the summary to request from a model after a compaction with this report, or `None` if nothing
    /// was summarized.
    pub(crate) fn summary_job(
        &mut self,
        options: &CompactOptions,
        report: &CompactionReport,
    ) -> Result<Option<SummaryJob>, Failure> {
        let job = self.engine.summary_job_after_compaction(self.ledger, self.input(options), report);
        job.map_err(|refused| self.internal_error(&refused))
    }

    fn input<'i>(&'i mut self, options: &'i CompactOptions) -> PlanInput<'i, 't> {
        PlanInput { policy: self.policy, options, cache: self.block_cache, transcript: self.transcript }
    }

    fn internal_error(&self, refused: &RewriteError) -> Failure {
        Failure::System(format!("internal error, {} was not changed: {refused}", self.label))
    }
}

/// Refuses a `--keep-from` beyond the last message.
pub(crate) fn check_keep_from(
    keep_from: Option<usize>,
    transcript: &Transcript<'_>,
    shown: &str,
) -> Result<(), Failure> {
    let last = transcript.message_count().saturating_sub(1);
    match keep_from.filter(|from| *from > last) {
        Some(from) => Err(Failure::InvalidInput(format!(
            "--keep-from {from} is after the last message of {shown}; its messages are 0 to {last}"
        ))),
        None => Ok(()),
    }
}

/// Reads a summary that the user wrote. It applies to everything that is removed; the user is responsible for
/// that.
pub(crate) fn read_given_summary(path: &std::path::Path) -> Result<ModelSummary, Failure> {
    let text = input::read_text(path)?;
    Ok(ModelSummary {
        scope: SummaryScope::AllRemoved,
        text,
        // Where the file is means nothing to the model that reads the checkpoint.
        author: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        completeness: Completeness::Complete,
    })
}
