//! A request for a summary, and the model's reply.

use std::sync::Arc;

use longhaul_engine::prices::{TokenPrices, Usage};
use longhaul_engine::redact::Redacted;
use longhaul_engine::{ApiFormat, Tokens};

use super::{Timeouts, Upstream};

/// One request to one upstream, with timeouts.
#[derive(Debug, Clone)]
pub struct SummaryRequest {
    /// The upstream to ask.
    pub upstream: Arc<Upstream>,
    /// Whose credential pays.
    pub payer: Payer,
    /// The model that is asked, by the upstream's name for it.
    pub model: String,
    /// The prices of the model, if they are known, for the accounts of the program that sends the request.
    pub price: Option<TokenPrices>,
    /// The content of the request.
    pub body: SummaryRequestBody,
    /// The timeouts of the call.
    pub timeouts: Timeouts,
}

impl SummaryRequest {
    /// Creates a request that the upstream's key pays for, without accounts.
    #[must_use]
    pub fn new(upstream: Arc<Upstream>, body: SummaryRequestBody, timeouts: Timeouts) -> Self {
        let model = match &body {
            SummaryRequestBody::FromPrompt(prompt) => prompt.model.clone(),
            SummaryRequestBody::Raw { .. } => String::new(),
        };
        Self { upstream, payer: Payer::Upstream, model, price: None, body, timeouts }
    }
}

/// Whose credential a request for a summary is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Payer {
    /// The key of the upstream.
    #[default]
    Upstream,
    /// The credential of the client whose session is summarized. Only a program that has just received a request
    /// of this client can send it.
    Client,
}

/// The content of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryRequestBody {
    /// A small request of our own. Its body is written in the API format that the provider prefers, or with the
    /// client's credential in that of the session.
    FromPrompt(PromptRequest),
    /// A complete request body: a session's own request with an instruction at its end. It is sent unchanged,
    /// so that the provider's cache is used. It contains the model, and whether the reply streams.
    Raw {
        /// The API format of the body.
        api_format: ApiFormat,
        /// The request body.
        body: String,
    },
}

/// A request with one system prompt and one user message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptRequest {
    /// The model, by the upstream's name for it.
    pub model: String,
    /// The system prompt; it is left out if it is empty.
    pub system: Redacted,
    /// The user message: the task and its material.
    pub user: Redacted,
    /// The maximum number of tokens in the reply.
    pub max_tokens: Tokens,
    /// Whether the reply streams.
    pub streaming: Streaming,
}

/// Whether a reply streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streaming {
    /// The reply arrives at once, as one JSON document.
    Off,
    /// The reply arrives while it is written, as server-sent events.
    On,
}

/// A model's reply. The text may be empty; the caller decides what that means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelReply {
    /// The text, without the model's thinking.
    pub text: String,
    /// The token counts that the provider reported.
    pub usage: Option<Usage>,
    /// The reason why the model stopped.
    pub finish: FinishReason,
    /// The model that replied, by the provider's report.
    pub model: Option<String>,
}

/// The reason why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FinishReason {
    /// The reply is complete.
    Complete,
    /// The model reached its limit, or stopped for an unknown reason: the text may end anywhere.
    Truncated,
    /// The model, or a filter before it, declined to answer.
    Refused,
    /// The model calls a tool.
    ToolCall,
}
