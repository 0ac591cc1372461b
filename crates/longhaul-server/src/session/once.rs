//! One summary for somebody who waits for it: a command line has no turn that could go on without it, and no session to keep it for.

use std::sync::Arc;

use longhaul_engine::prices::Dollars;
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_engine::summary::{Answer, Ask};

use super::settings::Writer;
use super::summarize::{Attempt, Failure, Task, Way, small_price, summarize};
use crate::upstream::Models;

/// What came of asking once.
#[derive(Debug, Clone)]
pub struct Once {
    /// The answer, where somebody gave one. It is not audited: that is done by the plan that it is handed to.
    pub answer: Option<Answer>,
    /// Who failed before, and how, in the order in which they were asked.
    pub failed: Vec<(String, Failure)>,
    /// What it cost by the providers' own reports; nothing where they did not say, or prices are not known.
    pub paid: Option<Dollars>,
}

/// Asks these writers for a summary by small requests of our own, one after the other until one answers; nobody is asked twice.
///
/// `mark` must be one that nobody who wrote the turns can know. The rules and the key are those of the session, so that what a model
/// says of one part of it goes into the next question without its secrets. It takes no longer than the patience of each for each of
/// its requests, and nothing fails: who gets no answer makes the checkpoint by code.
pub async fn ask_once(
    models: Arc<dyn Models>,
    writers: Vec<Writer>,
    ask: Ask,
    mark: String,
    rules: Rules,
    key: Option<SessionKey>,
) -> Once {
    let attempt = |writer: Writer| Attempt { price: small_price(&ask, &writer), writer, way: Way::Small };
    let attempts = writers.into_iter().map(attempt).collect();
    let done = summarize(models, Task { ask, attempts, mark, rules, key }).await;
    Once { answer: done.answer, failed: done.failed, paid: done.paid }
}
