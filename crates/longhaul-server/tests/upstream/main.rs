//! The upstream's client against an upstream that does what it is told.

#![allow(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

mod failures;
mod keys;
mod replies;
mod retries;
#[path = "../scripted/mod.rs"]
mod scripted;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::redact::Redacted;
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::upstream::{
    ApiKey, Client, ClientOptions, ModelClient as _, ModelReply, PromptRequest, Provider, ProxyMode, RetryPolicy,
    Streaming, SummaryRequest, SummaryRequestBody, Timeouts, Upstream, UpstreamError, prompt_request_body,
};
use scripted::{Act, Server};

/// No redactor knows this key by its shape.
const KEY: &str = "a-key-that-looks-like-any-word";

fn client() -> Client {
    client_that_connects_in(Duration::from_secs(5))
}

fn client_that_connects_in(connect: Duration) -> Client {
    Client::new(ClientOptions { proxies: ProxyMode::Direct, connect_timeout: connect, random_bits: Arc::new(|| 0) })
        .unwrap()
}

fn upstream(provider: &str, base_url: &str) -> Upstream {
    Upstream::new(Provider::named(provider).unwrap(), Some(base_url), ApiKey::new(KEY)).unwrap()
}

fn small(streaming: Streaming) -> PromptRequest {
    PromptRequest {
        model: "scripted".into(),
        system: Redacted::literal("be brief"),
        user: Redacted::literal("what is new?"),
        max_tokens: Tokens(100),
        streaming,
    }
}

/// One try, and time enough.
fn once() -> Timeouts {
    Timeouts { retry_policy: RetryPolicy::NONE, ..Timeouts::with_total(Duration::from_secs(20)) }
}

/// A question in a dialect, to a host that takes all of them.
fn question(base_url: &str, api_format: ApiFormat, streaming: Streaming, timeouts: Timeouts) -> SummaryRequest {
    let upstream = Arc::new(upstream("compatible", base_url));
    let body = prompt_request_body(upstream.provider(), api_format, &small(streaming));
    SummaryRequest::new(upstream, SummaryRequestBody::Raw { api_format, body }, timeouts)
}

/// Every dialect, whole and as events.
fn ways() -> impl Iterator<Item = (ApiFormat, Streaming)> {
    ApiFormat::ALL.into_iter().flat_map(|api_format| [(api_format, Streaming::Off), (api_format, Streaming::On)])
}

/// What comes of one act, in one way to ask.
async fn outcome(
    act: Act,
    (api_format, streaming): (ApiFormat, Streaming),
    timeouts: Timeouts,
) -> Result<ModelReply, UpstreamError> {
    let server = Server::start([act]).await;
    let given = client().ask(question(&server.base_url(), api_format, streaming, timeouts)).await;
    assert_eq!(server.asked().len(), 1, "one try");
    given
}
