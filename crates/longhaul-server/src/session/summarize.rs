//! Asks models for one summary: one writer, and the next if it fails.
//!
//! ```text
//! SummaryJob ──parts──▶ prompt 1 ──▶ summary ──▶ prompt 2, with the summary so far ──▶ … ──▶ ModelSummary
//! SummaryJob ──extend──▶ the session's own request with the instruction after it ──▶ ModelSummary
//! ```
//!
//! Every problem becomes a [`SummaryFailure`], and none is fatal: without a summary, code writes the
//! checkpoint.

use std::fmt;
use std::sync::Arc;

use longhaul_engine::prices::{Dollars, Usage};
use longhaul_engine::redact::{Redacted, RedactionMode, Redactor, Rules, SessionKey};
use longhaul_engine::summary::{self, Completeness, MAX_PROMPT_FRAME, ModelSummary, SummaryJob};
use longhaul_engine::{ApiFormat, Tokens};

use super::settings::SummaryWriter;
use crate::upstream::{
    FinishReason, ModelClient, ModelReply, PromptRequest, Streaming, SummaryRequest, SummaryRequestBody, TimeoutStage,
    UpstreamError,
};

/// The reason why a writer gave no summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryFailure {
    /// The call to the provider failed.
    Upstream(UpstreamError),
    /// The reply has no text.
    Empty,
    /// The model, or a filter before it, declined to answer.
    Declined,
    /// The model called a tool instead of writing.
    CalledTool,
    /// The writer's window is too small for even one turn.
    WindowTooSmall {
        /// The writer's window, in tokens.
        window: Tokens,
    },
}

impl fmt::Display for SummaryFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upstream(error) => error.fmt(f),
            Self::Empty => f.write_str("the answer is empty"),
            Self::Declined => f.write_str("the model declined to answer"),
            Self::CalledTool => f.write_str("the model called a tool instead"),
            Self::WindowTooSmall { window } => {
                write!(f, "a context window of {window} tokens is too small for even one turn")
            }
        }
    }
}

/// The way in which a writer is asked.
#[derive(Debug, Clone)]
pub(super) enum SummaryMethod {
    /// With requests that have a prompt of their own, as many as the writer's window requires.
    SeparateRequests,
    /// With the session's own request and the instruction after it, so that the provider's cache is used.
    ExtendSession {
        /// The API format of the body.
        api_format: ApiFormat,
        /// The complete request body.
        body: String,
    },
}

/// One attempt to get a summary.
#[derive(Debug, Clone)]
pub(super) struct SummaryAttempt {
    pub(super) writer: SummaryWriter,
    pub(super) method: SummaryMethod,
    /// The expected cost, if prices are known.
    pub(super) expected_cost: Option<Dollars>,
}

/// Everything that is needed to get a summary.
#[derive(Debug, Clone)]
pub(super) struct SummaryTask {
    pub(super) job: SummaryJob,
    /// The attempts in order. Each is made only if the one before it failed.
    pub(super) attempts: Vec<SummaryAttempt>,
    /// A random tag that separates the instructions from the quoted turns. The authors of the turns cannot
    /// know it.
    pub(super) tag: String,
    pub(super) rules: Rules,
    pub(super) key: Option<SessionKey>,
}

/// The result of asking for a summary.
#[derive(Debug, Clone)]
pub struct SummaryResult {
    /// The summary, if a model wrote one. It is not audited yet: the plan that uses it does that.
    pub summary: Option<ModelSummary>,
    /// The models that failed, each with its failure, in the order in which they were asked.
    pub failures: Vec<(String, SummaryFailure)>,
    /// The cost by the providers' own reports; `None` if a report or a price is missing.
    pub cost: Option<Dollars>,
}

/// Estimates the cost of a summary with separate requests; `None` without prices.
pub(super) fn separate_requests_cost(job: &SummaryJob, writer: &SummaryWriter) -> Option<Dollars> {
    let job = job.clone().with_counter(writer.model.counter());
    let parts = job.split_for_window(writer.window()).len() as u64;
    // Each part but the first is sent with the summary so far.
    let input = job.tokens() + Tokens((MAX_PROMPT_FRAME + job.budget).number() * parts);
    expected_cost(writer, input, Tokens::ZERO, Tokens(job.budget.number() * parts))
}

/// Estimates the cost of a summary that extends the session's own request of `sent` tokens, of which so many are
/// cached.
pub(super) fn extension_cost(
    job: &SummaryJob,
    writer: &SummaryWriter,
    sent: Tokens,
    cached: Tokens,
) -> Option<Dollars> {
    expected_cost(writer, sent + MAX_PROMPT_FRAME, cached.min(sent), job.budget)
}

fn expected_cost(writer: &SummaryWriter, input: Tokens, read: Tokens, output: Tokens) -> Option<Dollars> {
    let usage = Usage { input: Some(input), read: Some(read), output: Some(output), ..Usage::default() };
    writer.price.map(|price| usage.bill(&price).total())
}

/// Makes the attempts in order until one succeeds.
pub(super) async fn summarize(models: Arc<dyn ModelClient>, task: SummaryTask) -> SummaryResult {
    let mut result = SummaryResult { summary: None, failures: Vec::new(), cost: Some(Dollars::ZERO) };
    for attempt in &task.attempts {
        let mut call = WriterCall { models: &*models, task: &task, writer: &attempt.writer, cost: &mut result.cost };
        match call.run(&attempt.method).await {
            Ok((text, completeness)) => {
                let (scope, author) = (task.job.scope.clone(), attempt.writer.model.name.clone());
                result.summary = Some(ModelSummary { scope, text, author, completeness });
                return result;
            }
            Err(failure) => result.failures.push((attempt.writer.model.name.clone(), failure)),
        }
    }
    result
}

/// One writer that is being asked.
struct WriterCall<'t> {
    models: &'t dyn ModelClient,
    task: &'t SummaryTask,
    writer: &'t SummaryWriter,
    cost: &'t mut Option<Dollars>,
}

impl WriterCall<'_> {
    async fn run(&mut self, method: &SummaryMethod) -> Result<(String, Completeness), SummaryFailure> {
        if let SummaryMethod::ExtendSession { api_format, body } = method {
            return self.ask(SummaryRequestBody::Raw { api_format: *api_format, body: body.clone() }).await;
        }
        let window = self.writer.window();
        match self.in_parts(window).await {
            // The provider knows its window better than our table: retry once, in smaller parts.
            Err(SummaryFailure::Upstream(UpstreamError::TooLong { maximum, .. })) => {
                let smaller = maximum.filter(|maximum| *maximum < window).unwrap_or(window / 2);
                self.in_parts(smaller).await
            }
            other => other,
        }
    }

    /// Asks for one part after the other, each with the summary of the parts before it.
    async fn in_parts(&mut self, window: Tokens) -> Result<(String, Completeness), SummaryFailure> {
        let job = self.task.job.clone().with_counter(self.writer.model.counter());
        let parts = job.split_for_window(window);
        let mut redactor = match &self.task.key {
            Some(key) => Redactor::keyed(self.task.rules.clone(), key.clone()),
            None => Redactor::numbered(self.task.rules.clone()),
        };
        let mut so_far: Option<(Redacted, String, Completeness)> = None;
        for part in &parts {
            let summary_so_far = so_far.as_ref().map(|(text, ..)| text);
            let prompt = job.prompt(part, summary_so_far, &self.task.tag, window);
            let (text, completeness) = self.ask(self.prompt_request(prompt)).await?;
            so_far = Some((redactor.redact(&text, RedactionMode::Text).text, text, completeness));
        }
        so_far.map(|(_, text, completeness)| (text, completeness)).ok_or(SummaryFailure::WindowTooSmall { window })
    }

    fn prompt_request(&self, prompt: summary::SummaryPrompt) -> SummaryRequestBody {
        let summary::SummaryPrompt { system, user, max_reply_tokens: max_tokens } = prompt;
        let model = self.writer.model.name.clone();
        SummaryRequestBody::FromPrompt(PromptRequest { model, system, user, max_tokens, streaming: Streaming::Off })
    }

    async fn ask(&mut self, body: SummaryRequestBody) -> Result<(String, Completeness), SummaryFailure> {
        let timeouts = self.writer.timeouts;
        let SummaryWriter { model, price, upstream, payer, .. } = self.writer;
        let (upstream, model) = (Arc::clone(upstream), model.name.clone());
        let request = SummaryRequest { upstream, payer: *payer, model, price: *price, body, timeouts };
        // The client applies the timeouts itself; this limit covers clients that do not.
        let answer = tokio::time::timeout(timeouts.total, self.models.ask(request)).await;
        let reply = answer
            .map_err(|_| UpstreamError::TimedOut(TimeoutStage::Total))
            .flatten()
            .map_err(SummaryFailure::Upstream)?;
        self.add_cost(&reply);
        let completeness = match reply.finish {
            FinishReason::Complete => Completeness::Complete,
            FinishReason::Truncated => Completeness::Truncated,
            FinishReason::Refused => return Err(SummaryFailure::Declined),
            FinishReason::ToolCall => return Err(SummaryFailure::CalledTool),
        };
        if reply.text.trim().is_empty() {
            return Err(SummaryFailure::Empty);
        }
        Ok((reply.text, completeness))
    }

    fn add_cost(&mut self, reply: &ModelReply) {
        let bill = reply.usage.zip(self.writer.price).map(|(usage, price)| usage.bill(&price).total());
        *self.cost = self.cost.zip(bill).map(|(sum, bill)| sum + bill);
    }
}
