//! The question to a model that writes the summary.

use crate::Tokens;
use crate::redact::{Redacted, RedactionMode, Redactor, Rules};
use crate::summary::{Completeness, ModelSummary, SummaryJob};

/// A request for a summary of the turns that the next compaction removes. You send its prompts to a model
/// of your choice, one after the other, and give the replies back. Usually there is one prompt; there are
/// more if the turns are larger than the window of that model.
///
/// [`Session::request_summary`](crate::Session::request_summary) makes it, and
/// [`Options::summary_by_model`](crate::Options::summary_by_model) uses it.
///
/// ```
/// use longhaul_engine::{Options, Prompt, Session, Tokens};
///
/// # let body = include_str!("../../../../examples/session.json");
/// # let ask_your_model = |_: &Prompt| "## Goal\n- Ship the release.\n".to_owned();
/// let mut session = Session::new("gpt-5");
/// let mut options = Options::new().target_tokens(Tokens(3_000));
/// if let Some(mut request) = session.request_summary(body, &options)? {
///     while let Some(prompt) = request.next_prompt() {
///         let reply = ask_your_model(&prompt);
///         request.add_reply(reply);
///     }
///     options = options.summary_by_model(request);
/// }
/// let smaller = session.compact_with(body, &options)?;
/// # assert!(smaller.is_some());
/// # Ok::<(), longhaul_engine::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SummaryRequest {
    job: SummaryJob,
    window: Tokens,
    author: String,
    /// The tag around the material in the prompts.
    fence: String,
    rules: Rules,
    replies: Vec<String>,
}

/// One prompt for the model that writes a summary. Its texts contain no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt {
    /// The system prompt.
    pub system: String,
    /// The user message.
    pub user: String,
    /// The most tokens that the reply may have: the `max_tokens` of your request.
    pub max_reply_tokens: Tokens,
}

impl SummaryRequest {
    pub(super) fn new(job: SummaryJob, window: Tokens, author: String, fence: String, rules: Rules) -> Self {
        Self { job, window, author, fence, rules, replies: Vec::new() }
    }

    /// Returns the request for a model with another name and context window than the session's own.
    #[must_use]
    pub fn for_model(mut self, model: &str, context_length: Tokens) -> Self {
        (self.author, self.window) = (model.to_owned(), context_length);
        self
    }

    /// Returns the next prompt, or `None` if there is a reply for each. Also returns `None` if the window is too
    /// small for any prompt, as one below about 2,000 tokens is.
    #[must_use]
    pub fn next_prompt(&self) -> Option<Prompt> {
        let parts = self.job.split_for_window(self.window);
        let part = parts.get(self.replies.len())?;
        let so_far: Option<Redacted> = self
            .replies
            .last()
            .map(|reply| Redactor::numbered(self.rules.clone()).redact(reply, RedactionMode::Text).text);
        let prompt = self.job.prompt(part, so_far.as_ref(), &self.fence, self.window);
        Some(Prompt {
            system: prompt.system.into_string(),
            user: prompt.user.into_string(),
            max_reply_tokens: prompt.max_reply_tokens,
        })
    }

    /// Adds the reply of the model to the last prompt.
    pub fn add_reply(&mut self, text: impl Into<String>) {
        self.replies.push(text.into());
    }

    /// Returns the summary, or `None` if there is no reply.
    pub(super) fn into_summary(mut self) -> Option<ModelSummary> {
        let completeness = if self.next_prompt().is_none() { Completeness::Complete } else { Completeness::Truncated };
        let text = self.replies.pop()?;
        Some(ModelSummary { scope: self.job.scope, text, author: self.author, completeness })
    }
}
