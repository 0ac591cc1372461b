//! The notices about compactions, for people.

use longhaul_engine::Tokens;
use longhaul_engine::plan::{CompactionReport, WrittenBy};
use longhaul_engine::policy::Policy;

use super::request_size::MeasuredSize;

/// Words the notice that a compaction starts.
pub(super) fn compaction_started(measured: &MeasuredSize, policy: &Policy, reason: &str) -> String {
    let MeasuredSize { tokens, by } = measured;
    format!("compacting at {tokens} tokens ({} % of the window, {by}): {reason}", percent(*tokens, policy.window))
}

/// Words the notice that a compaction is finished, with the sizes before and after.
pub(super) fn compaction_finished(before: Tokens, after: Tokens, report: &CompactionReport) -> String {
    let messages = report.messages;
    let saved = 100.0 * (1.0 - after.number() as f64 / before.number().max(1) as f64);
    let by = match report.checkpoint.as_ref().map(|checkpoint| checkpoint.by) {
        None => "no checkpoint was needed",
        Some(WrittenBy::Code) => "checkpoint written by code",
        Some(WrittenBy::Model) => "checkpoint written by a model",
        Some(WrittenBy::Plugin) => "checkpoint written by the engine",
        Some(WrittenBy::Fallback) => "degraded: the checkpoint only counts what was removed",
    };
    let focus = report.focus.as_ref().map_or_else(String::new, |focus| format!(", focus: {focus}"));
    format!(
        "compacted: {before} → {after} tokens ({saved:.0} % saved), {} → {} messages, {by}{focus}",
        messages.before, messages.after
    )
}

/// Formats a part of a total in percent, without the sign.
fn percent(part: Tokens, total: Tokens) -> String {
    format!("{:.0}", 100.0 * part.number() as f64 / total.number().max(1) as f64)
}
