//! Compaction with a summary by a model. The engine plans without a model first, so that no model is asked,
//! or paid, if nothing is summarized.

use longhaul_engine::plan::{CompactOptions, CompactedRequest, Plan};

use super::compact_request::CompressRun;
use crate::body_planner::BodyPlanner;
use crate::failure::Failure;
use crate::summarizer::{self, SummaryAttempt, SummarySubject};

/// The model's reply for one request. The plan may be repeated after a conflict in the store, but the model
/// is asked only once.
#[derive(Default)]
pub(super) struct SummaryCache {
    result: Option<SummaryAttempt>,
}

impl CompressRun<'_> {
    /// Plans a compaction. If it summarizes turns and a model is configured, it asks the model and plans
    /// again with the model's summary.
    pub(super) fn plan_with_summary(
        &self,
        planner: &mut BodyPlanner<'_, '_>,
        options: &CompactOptions,
        cache: &mut SummaryCache,
    ) -> Result<Plan, Failure> {
        let plan = planner.plan(options)?;
        let Some(summarizer) = &self.summarizer else { return Ok(plan) };
        let mut outcome = match plan {
            Plan::Ready(outcome) => outcome,
            Plan::Unchanged(report) => return Ok(Plan::Unchanged(report)),
        };
        if outcome.report.checkpoint.is_none() {
            outcome.report.notes.push("nothing new is summarized, so no model is asked".to_owned());
            return Ok(Plan::Ready(outcome));
        }
        if cache.result.is_none() {
            let Some(job) = planner.summary_job(options, &outcome.report)? else {
                let note = "the summarized turns contain nothing for a model; our own code writes the checkpoint";
                outcome.report.notes.push(note.to_owned());
                return Ok(Plan::Ready(outcome));
            };
            let (policy, api_format) = (planner.policy, planner.transcript.api_format);
            let subject = SummarySubject {
                policy,
                api_format,
                rules: &options.redaction_rules,
                key: options.session_key.clone(),
            };
            cache.result = Some(summarizer.request_summary(job, summarizer::random_tag()?, &subject));
        }
        let Some(attempt) = &cache.result else { return Ok(Plan::Ready(outcome)) };
        let mut plan = match &attempt.summary {
            Some(summary) => planner.plan(&CompactOptions { summary: Some(summary.clone()), ..options.clone() })?,
            None => Plan::Ready(outcome),
        };
        let (Plan::Unchanged(report) | Plan::Ready(CompactedRequest { report, .. })) = &mut plan;
        attempt.add_to_report(report);
        Ok(plan)
    }
}
