//! The client for model providers, in any of the three API formats, streaming or not.
//!
//! ```text
//! SummaryRequest ──prompt_request_body──▶ body ──send──▶ status, headers, body stream ──ReplyReader──▶ ModelReply
//!                                          ▲    │                             │
//!                                          └─retry after a delay, if no byte of a reply arrived yet
//!                                                                             └──classify_error──▶ UpstreamError
//! ```
//!
//! - [`Provider`] is a row of `providers.toml`; [`Upstream`] is a provider with an address and an [`ApiKey`],
//!   which is never printed.
//! - [`ModelClient`] is all that a session needs: a [`SummaryRequest`] gets a [`ModelReply`] or an
//!   [`UpstreamError`]. [`Client`] implements it over HTTP. For the gateway, [`Client::forward`] returns the
//!   reply as a stream.
//! - `wordings.toml` recognizes errors by their words, `delays.toml` how long they ask to wait. All rows are
//!   tried for all providers, because routers pass on the errors of others.
//! - [`ReplyReader`] has one file for each API format, and accepts a reply in pieces of any size. Only a
//!   reply with an explicit end counts as complete.
//!
//! Invariants: no key is printed, or sent to another host; nothing is retried after a part of a reply
//! arrived; nothing waits longer than the caller's [`Timeouts`]. Waiting uses the runtime's clock, the caller
//! passes random numbers in, and dates are compared with the reply's own `Date` header.

mod api_key;
mod client;
mod endpoint;
mod error;
mod error_body;
mod error_wording;
mod prompt_request;
mod provider;
mod reply_reader;
mod response;
mod retry_delay;
mod sse;
mod summary_request;
mod timeouts;

pub use api_key::ApiKey;
pub use client::{ApiRequest, Client, ClientOptions, OutboundRequest, ProxyMode};
pub use endpoint::{Upstream, Upstreams};
pub use error::{RecommendedAction, TimeoutStage, UpstreamError};
pub use prompt_request::prompt_request_body;
pub use provider::{NativeFeature, Provider};
pub use reply_reader::{PartialUsage, Progress, ReplyReader};
pub use response::{BodyStream, Response};
pub(crate) use sse::{SseDecoder, SseEvent};
pub use summary_request::{
    FinishReason, ModelReply, Payer, PromptRequest, Streaming, SummaryRequest, SummaryRequestBody,
};
pub use timeouts::{RetryPolicy, Timeouts};

/// A client that can ask models. [`Client`] is the real one; tests use scripted replies, and need no socket.
#[async_trait::async_trait]
pub trait ModelClient: Send + Sync {
    /// Sends one request and returns the reply, within the request's timeouts.
    async fn ask(&self, question: SummaryRequest) -> Result<ModelReply, UpstreamError>;
}
