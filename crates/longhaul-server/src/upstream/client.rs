//! The HTTP client: sends requests, retries where that helps, and reads the replies.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use longhaul_engine::ApiFormat;
use reqwest::RequestBuilder;
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use tokio::time::{Instant, sleep};

use super::error_body::{self, ErrorBody};
use super::error_wording::classify_error;
use super::response::{BodyStream, Deadline, Response};
use super::{
    ModelClient, ModelReply, Progress, ReplyReader, RetryPolicy, SummaryRequest, SummaryRequestBody, TimeoutStage,
    Timeouts, Upstream, UpstreamError, prompt_request_body, retry_delay,
};

/// The maximum size of an error body that is read, in bytes. Chosen by hand.
const MAX_ERROR_BYTES: usize = 256 * 1024;

/// The time after which an unused connection is closed, because the other side may be about to close it.
/// Chosen by hand.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum of every wait and timeout. It keeps sums of times within their range.
const MAX_WAIT: Duration = Duration::from_hours(24);

/// The options of a client that depend on its environment.
pub struct ClientOptions {
    /// Whether proxies are used.
    pub proxies: ProxyMode,
    /// The time until a connection must be made.
    pub connect_timeout: Duration,
    /// Returns random bits for retry delays, so that many clients refused at the same time do not retry at
    /// the same time.
    pub random_bits: Arc<dyn Fn() -> u32 + Send + Sync>,
}

/// Whether a client uses proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyMode {
    /// Connect directly.
    Direct,
    /// Use the proxies that environment variables name.
    Environment,
}

/// A request body that is sent unchanged, with retries.
#[derive(Debug, Clone)]
pub struct ApiRequest {
    /// The API format of the body.
    pub api_format: ApiFormat,
    /// The request body.
    pub body: Bytes,
}

/// A client's own HTTP request that is forwarded to an upstream.
#[derive(Debug)]
pub struct OutboundRequest {
    /// The HTTP method.
    pub method: reqwest::Method,
    /// The path and the query.
    pub path_and_query: String,
    /// The request headers.
    pub headers: HeaderMap,
    /// The request body.
    pub body: reqwest::Body,
}

/// The HTTP client. Clones are cheap and share their connections.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    random_bits: Arc<dyn Fn() -> u32 + Send + Sync>,
}

impl Client {
    /// Creates a client that trusts the certificates of this machine. It follows no redirect, because a key
    /// is for one host. The error is one line.
    pub fn new(network: ClientOptions) -> Result<Self, String> {
        let failed = |error: &dyn Error| format!("cannot create the HTTPS client: {}", root_cause(error));
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .referer(false)
            .connect_timeout(network.connect_timeout)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        let builder = match network.proxies {
            ProxyMode::Direct => builder.no_proxy(),
            ProxyMode::Environment => builder,
        };
        let http = builder.build().map_err(|error| failed(&error))?;
        Ok(Self { http, random_bits: network.random_bits })
    }

    /// Sends a body. It retries if the upstream could not accept the request and no part of a reply arrived,
    /// after the delay that the provider asks for, and only while the caller's total time allows it. A
    /// response with an error status is returned too, with its meaning.
    pub async fn send(
        &self,
        upstream: &Upstream,
        call: &ApiRequest,
        timeouts: &Timeouts,
    ) -> Result<Response, UpstreamError> {
        let started = Instant::now();
        let deadline = started + timeouts.total.min(MAX_WAIT);
        let mut tries = 0;
        loop {
            let outcome = self.send_once(upstream, call, timeouts, deadline).await;
            let error = outcome.as_ref().map_or_else(Some, |answer| answer.error.as_ref());
            let pause = error.and_then(|error| self.retry_delay(error, tries, &timeouts.retry_policy));
            match pause {
                Some(pause) if deadline.saturating_duration_since(Instant::now()) > pause => sleep(pause).await,
                _ => return outcome,
            }
            tries += 1;
        }
    }

    async fn send_once(
        &self,
        upstream: &Upstream,
        call: &ApiRequest,
        timeouts: &Timeouts,
        deadline: Instant,
    ) -> Result<Response, UpstreamError> {
        let provider = upstream.provider().name();
        let url = upstream.url(call.api_format).ok_or_else(|| {
            let message = format!("provider `{provider}` does not accept {} requests", call.api_format);
            UpstreamError::Refused(error_body::redact_to_line(upstream, &message))
        })?;
        let request = self.http.post(url).headers(upstream.headers()).body(call.body.clone());
        send_request(upstream, request, timeouts, deadline).await
    }

    /// Forwards a client's own request once, with its headers, to a path of the upstream. Returns the
    /// upstream's response, whatever its status is.
    pub async fn forward(
        &self,
        upstream: &Upstream,
        request: OutboundRequest,
        timeouts: &Timeouts,
    ) -> Result<Response, UpstreamError> {
        let deadline = Instant::now() + timeouts.total.min(MAX_WAIT);
        let OutboundRequest { method, path_and_query: target, headers, body } = request;
        let builder = self.http.request(method, upstream.url_for_target(&target)).headers(headers).body(body);
        send_request(upstream, builder, timeouts, deadline).await
    }

    /// Returns the delay before the next try; `None` if a retry cannot help, or all retries are used up.
    fn retry_delay(&self, error: &UpstreamError, tries: u32, retries: &RetryPolicy) -> Option<Duration> {
        let is_retryable = matches!(
            error,
            UpstreamError::RateLimited { .. }
                | UpstreamError::Overloaded { .. }
                | UpstreamError::Unreachable(_)
                | UpstreamError::TimedOut(TimeoutStage::Connect)
        );
        let chance = f64::from((self.random_bits)()) / f64::from(u32::MAX);
        let own_delay = || {
            let doubled = retries.first_delay.saturating_mul(2_u32.saturating_pow(tries));
            doubled.min(retries.max_delay).min(MAX_WAIT).mul_f64(0.5 + 0.5 * chance)
        };
        // Never sooner than the provider asked for.
        let lengthened = |delay: Duration| delay.saturating_add(delay.min(MAX_WAIT).mul_f64(0.1 * chance));
        (is_retryable && tries < retries.max_retries).then(|| error.delay().map_or_else(own_delay, lengthened))
    }
}

/// Sends one request and waits for the response headers. For an error it also reads the body and classifies
/// it.
async fn send_request(
    upstream: &Upstream,
    request: RequestBuilder,
    timeouts: &Timeouts,
    deadline: Instant,
) -> Result<Response, UpstreamError> {
    let response_deadline = Deadline::from_now(TimeoutStage::FirstByte, timeouts.first_byte, deadline);
    let response = response_deadline.run(request.send()).await?.map_err(|error| connection_error(upstream, &error))?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = BodyStream::new(response, response_deadline, timeouts.idle);
    let error = match status {
        200..300 => None,
        300..400 => {
            let location = headers.get(LOCATION).and_then(|location| location.to_str().ok()).unwrap_or_default();
            Some(UpstreamError::Redirected(error_body::redact_to_line(upstream, location)))
        }
        _ => {
            let parsed = ErrorBody::parse(&body.peek(MAX_ERROR_BYTES).await);
            let delay = retry_delay::requested_delay(&headers, &parsed.text);
            Some(classify_error(upstream, Some(status), &parsed, delay))
        }
    };
    Ok(Response { status, headers, error, body })
}

#[async_trait::async_trait]
impl ModelClient for Client {
    async fn ask(&self, request: SummaryRequest) -> Result<ModelReply, UpstreamError> {
        let upstream = &*request.upstream;
        let (api_format, body) = match request.body {
            SummaryRequestBody::FromPrompt(prompt) => {
                let api_format = upstream.provider().default_api_format();
                (api_format, prompt_request_body(upstream.provider(), api_format, &prompt))
            }
            SummaryRequestBody::Raw { api_format, body } => (api_format, body),
        };
        let call = ApiRequest { api_format, body: Bytes::from(body) };
        let mut answer = self.send(upstream, &call, &request.timeouts).await?;
        if let Some(error) = answer.error {
            return Err(error);
        }
        let mut reader = ReplyReader::new(Arc::clone(&request.upstream), api_format);
        while let Some(piece) = answer.body.next().await? {
            if reader.feed(&piece)? == Progress::Ended {
                break;
            }
        }
        reader.finish()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client(…)")
    }
}

/// Classifies a failure before the response headers. If the connection broke after it was made, the upstream
/// may have done the work, so there is no retry.
fn connection_error(upstream: &Upstream, error: &reqwest::Error) -> UpstreamError {
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => UpstreamError::TimedOut(TimeoutStage::Connect),
        (true, false) => UpstreamError::Unreachable(error_body::redact_to_line(upstream, &root_cause(error))),
        (false, _) => UpstreamError::CutShort,
    }
}

/// Returns the innermost error: the outer ones only add the address.
fn root_cause(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NINE_RETRIES: RetryPolicy =
        RetryPolicy { max_retries: 9, first_delay: Duration::from_millis(500), max_delay: Duration::from_secs(8) };

    fn pause(dice: u32, error: &UpstreamError, tries: u32, retries: &RetryPolicy) -> Option<Duration> {
        let network = ClientOptions {
            proxies: ProxyMode::Direct,
            connect_timeout: POOL_IDLE_TIMEOUT,
            random_bits: Arc::new(move || dice),
        };
        Client::new(network).unwrap().retry_delay(error, tries, retries)
    }

    #[test]
    fn a_pause_of_ours_doubles_and_has_its_end_and_chance_shortens_it() {
        let busy = UpstreamError::Overloaded { delay: None };
        let pauses = (0..9).filter_map(|tries| pause(u32::MAX, &busy, tries, &NINE_RETRIES));
        let pauses: Vec<u128> = pauses.map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 8000, 8000, 8000, 8000]);
        assert_eq!(pause(0, &busy, 0, &NINE_RETRIES), Some(Duration::from_millis(250)));
        assert_eq!(pause(0, &busy, 9, &NINE_RETRIES), None, "nine are enough");
    }

    #[test]
    fn the_providers_pause_is_never_shortened() {
        let limited = |delay| UpstreamError::RateLimited { delay: Some(delay) };
        assert_eq!(pause(0, &limited(Duration::from_secs(10)), 0, &NINE_RETRIES), Some(Duration::from_secs(10)));
        assert_eq!(pause(u32::MAX, &limited(Duration::from_secs(10)), 0, &NINE_RETRIES), Some(Duration::from_secs(11)));
    }

    #[test]
    fn no_time_is_too_long_to_be_counted() {
        let endless = RetryPolicy { max_retries: u32::MAX, first_delay: Duration::MAX, max_delay: Duration::MAX };
        assert_eq!(pause(u32::MAX, &UpstreamError::Overloaded { delay: None }, 40, &endless), Some(MAX_WAIT));
        let limited = UpstreamError::RateLimited { delay: Some(Duration::MAX) };
        assert_eq!(pause(u32::MAX, &limited, 0, &endless), Some(Duration::MAX));
    }
}
