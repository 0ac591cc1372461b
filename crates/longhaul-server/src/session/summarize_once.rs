//! Asks for one summary and waits for it: a command line has no session for which it could arrive later.

use std::sync::Arc;

use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_engine::summary::SummaryJob;

use super::settings::SummaryWriter;
use super::summarize::{SummaryAttempt, SummaryMethod, SummaryResult, SummaryTask, separate_requests_cost, summarize};
use crate::upstream::ModelClient;

/// Asks these writers for a summary with separate requests, one after the other until one succeeds. None is
/// asked twice.
///
/// `tag` must be a random tag that the authors of the turns cannot know. The rules and the key must be those
/// of the session, so that a model's text about one part is redacted before it is sent with the next. Each
/// request takes at most the writer's total timeout. Without a summary the caller lets code write the
/// checkpoint, so there is no error.
pub async fn summarize_once(
    models: Arc<dyn ModelClient>,
    writers: Vec<SummaryWriter>,
    job: SummaryJob,
    tag: String,
    rules: Rules,
    key: Option<SessionKey>,
) -> SummaryResult {
    let attempt = |writer: SummaryWriter| SummaryAttempt {
        expected_cost: separate_requests_cost(&job, &writer),
        writer,
        method: SummaryMethod::SeparateRequests,
    };
    let attempts = writers.into_iter().map(attempt).collect();
    summarize(models, SummaryTask { job, attempts, tag, rules, key }).await
}
