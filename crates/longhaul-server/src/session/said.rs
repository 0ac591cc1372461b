//! What a session says to people, in words.

use longhaul_engine::Tokens;
use longhaul_engine::plan::{Report, WrittenBy};
use longhaul_engine::policy::Policy;

use super::gauge::Measured;

/// A compaction begins.
pub(super) fn begins(measured: &Measured, policy: &Policy, reason: &str) -> String {
    let Measured { tokens, by } = measured;
    format!(
        "compacting at {tokens} tokens ({} % of the window, {by}): {reason}",
        share(*tokens, policy.window)
    )
}

/// It is done, with these sizes.
pub(super) fn done(before: Tokens, after: Tokens, report: &Report) -> String {
    let messages = report.messages;
    let saved = 100.0 * (1.0 - after.number() as f64 / before.number().max(1) as f64);
    let by = match report.checkpoint.as_ref().map(|checkpoint| checkpoint.by) {
        None => "no checkpoint was needed",
        Some(WrittenBy::Code) => "checkpoint by code",
        Some(WrittenBy::Model) => "checkpoint by a model",
        Some(WrittenBy::Plugin) => "checkpoint by the engine",
        Some(WrittenBy::Fallback) => "degraded: only a count stands in place of what was removed",
    };
    let focus = report.focus.as_ref().map_or_else(String::new, |focus| format!(", focus: {focus}"));
    format!(
        "compacted: {before} → {after} tokens ({saved:.0} % saved), {} → {} messages, {by}{focus}",
        messages.before, messages.after
    )
}

/// A part of a whole, in percent.
fn share(part: Tokens, whole: Tokens) -> String {
    format!("{:.0}", 100.0 * part.number() as f64 / whole.number().max(1) as f64)
}
