//! Begins a plan in the same way for every engine: reads and measures the transcript, and checks the trigger.

use super::Plan;
use super::engine::{Engine, PlanInput, TriggerDecision};
use super::finalize::{PlanContext, unchanged_report};
use super::own_checkpoint::VerifiedTranscript;
use super::survey::Survey;
use crate::RewriteError;
use crate::block_cache::BlockCache;

/// Compacts with `compact` if the engine's trigger applies. Else the report has the reason why the request
/// stays unchanged. `new_context` makes the context of the plan from a reason.
pub(super) fn compact_if_triggered(
    engine: &dyn Engine,
    input: PlanInput<'_, '_>,
    new_context: impl Fn(&dyn Engine, &Survey<'_, '_>, String) -> PlanContext,
    compact: impl FnOnce(Survey<'_, '_>, PlanContext, &mut BlockCache) -> Result<Plan, RewriteError>,
) -> Result<Plan, RewriteError> {
    let PlanInput { policy, options, cache, transcript } = input;
    let verified = VerifiedTranscript::new(policy, options, transcript);
    let survey = Survey::new(policy, options, cache, &verified);
    options.check_cancelled()?;
    match engine.check_trigger(policy, options, &survey.request_size()) {
        TriggerDecision::Compact(reason) => {
            let context = new_context(engine, &survey, reason);
            compact(survey, context, cache)
        }
        TriggerDecision::Wait(reason) => {
            Ok(Plan::Unchanged(unchanged_report(&survey, &new_context(engine, &survey, reason))))
        }
    }
}
