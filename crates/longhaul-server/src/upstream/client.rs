//! The one HTTP client: sends, waits where that mends something, and reads what comes back.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use longhaul_engine::Dialect;
use reqwest::RequestBuilder;
use reqwest::header::{HeaderMap, LOCATION};
use reqwest::redirect::Policy;
use tokio::time::{Instant, sleep};

use super::said::{self, Said};
use super::wire::{Due, Pieces, Response};
use super::wording::judge;
use super::{
    Asked, Models, Patience, Progress, Question, Reading, Reply, Retries, Stage, Trouble, Upstream, ask,
    delay,
};

/// So much of an error is read.
const ERROR: usize = 256 * 1024;

/// A connection that nobody used for so long is not used again: the other side may be about to close it.
const IDLE: Duration = Duration::from_secs(30);

/// Nobody waits longer, whatever they say; so no sum of times can be too large.
const DAY: Duration = Duration::from_hours(24);

/// Where a client is: what the world around it is like.
pub struct Network {
    /// How a connection is made.
    pub proxies: Proxies,
    /// How long that may take.
    pub connect: Duration,
    /// Random bits, so that many who were turned away together do not come back together.
    pub dice: Arc<dyn Fn() -> u32 + Send + Sync>,
}

/// How a connection is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxies {
    /// Straight.
    None,
    /// By the proxies that the environment names.
    Environment,
}

/// A body that is sent as it is.
#[derive(Debug, Clone)]
pub struct Call {
    /// What it is written in.
    pub dialect: Dialect,
    /// The body.
    pub body: Bytes,
}

/// Somebody's own request, on its way to an upstream.
#[derive(Debug)]
pub struct Letter {
    /// The method of HTTP.
    pub method: reqwest::Method,
    /// The path, and what stands behind it.
    pub target: String,
    /// The head.
    pub headers: HeaderMap,
    /// The body.
    pub body: reqwest::Body,
}

/// The client. It is cheap to clone, and its connections are shared.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    dice: Arc<dyn Fn() -> u32 + Send + Sync>,
}

impl Client {
    /// A client that trusts whom this machine trusts, and follows nobody elsewhere: a key is for one host.
    pub fn new(network: Network) -> Result<Self, String> {
        let failed = |error: &dyn Error| format!("no client for HTTPS: {}", innermost(error));
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let tls =
            rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|error| failed(&error))?
                .with_root_certificates(roots)
                .with_no_client_auth();
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(Policy::none())
            .referer(false)
            .connect_timeout(network.connect)
            .pool_idle_timeout(IDLE)
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")));
        let builder = match network.proxies {
            Proxies::None => builder.no_proxy(),
            Proxies::Environment => builder,
        };
        let http = builder.build().map_err(|error| failed(&error))?;
        Ok(Self { http, dice: network.dice })
    }

    /// Sends a body, and again where the upstream could not take it and nothing of an answer came: with the provider's own delay, and
    /// only as long as the caller still has the time for it. An error of the provider's is an answer, too, and says what it stands for.
    pub async fn send(
        &self,
        upstream: &Upstream,
        call: &Call,
        patience: &Patience,
    ) -> Result<Response, Trouble> {
        let started = Instant::now();
        let whole = started + patience.whole.min(DAY);
        let mut tries = 0;
        loop {
            let outcome = self.once(upstream, call, patience, whole).await;
            let trouble = outcome.as_ref().map_or_else(Some, |answer| answer.trouble.as_ref());
            let pause = trouble.and_then(|trouble| self.pause(trouble, tries, &patience.retries));
            match pause {
                Some(pause) if whole.saturating_duration_since(Instant::now()) > pause => sleep(pause).await,
                _ => return outcome,
            }
            tries += 1;
        }
    }

    async fn once(
        &self,
        upstream: &Upstream,
        call: &Call,
        patience: &Patience,
        whole: Instant,
    ) -> Result<Response, Trouble> {
        let provider = upstream.provider().name();
        let url = upstream.url(call.dialect).ok_or_else(|| {
            let said = format!("provider `{provider}` takes no {} requests", call.dialect);
            Trouble::Refused(said::shown(upstream, &said))
        })?;
        let request = self.http.post(url).headers(upstream.headers()).body(call.body.clone());
        exchange(upstream, request, patience, whole).await
    }

    /// Sends somebody's own request on, once, with the headers that it is given and to a path of the upstream. What comes back is the
    /// upstream's answer, whatever it is.
    pub async fn forward(
        &self,
        upstream: &Upstream,
        letter: Letter,
        patience: &Patience,
    ) -> Result<Response, Trouble> {
        let whole = Instant::now() + patience.whole.min(DAY);
        let Letter { method, target, headers, body } = letter;
        let request = self.http.request(method, upstream.at(&target)).headers(headers).body(body);
        exchange(upstream, request, patience, whole).await
    }

    /// How long to wait before the next try; nothing, where none can mend it or there were enough.
    fn pause(&self, trouble: &Trouble, tries: u32, retries: &Retries) -> Option<Duration> {
        let mends = matches!(
            trouble,
            Trouble::RateLimited { .. }
                | Trouble::Overloaded { .. }
                | Trouble::Unreachable(_)
                | Trouble::TimedOut(Stage::Connect)
        );
        let chance = f64::from((self.dice)()) / f64::from(u32::MAX);
        let ours = || {
            let doubled = retries.first.saturating_mul(2_u32.saturating_pow(tries));
            doubled.min(retries.longest).min(DAY).mul_f64(0.5 + 0.5 * chance)
        };
        // Never sooner than was asked for.
        let theirs = |delay: Duration| delay.saturating_add(delay.min(DAY).mul_f64(0.1 * chance));
        (mends && tries < retries.most).then(|| trouble.delay().map_or_else(ours, theirs))
    }
}

/// One request and the head of its answer; of an error also what it means.
async fn exchange(
    upstream: &Upstream,
    request: RequestBuilder,
    patience: &Patience,
    whole: Instant,
) -> Result<Response, Trouble> {
    let due = Due::from_now(Stage::FirstByte, patience.first_byte, whole);
    let response = due.wait(request.send()).await?.map_err(|error| no_answer(upstream, &error))?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let mut body = Pieces::of(response, due, patience.idle);
    let trouble = match status {
        200..300 => None,
        300..400 => {
            let place = headers.get(LOCATION).and_then(|place| place.to_str().ok()).unwrap_or_default();
            Some(Trouble::Redirected(said::shown(upstream, place)))
        }
        _ => {
            let said = Said::read(&body.peek(ERROR).await);
            Some(judge(upstream, Some(status), &said, delay::asked(&headers, &said.words)))
        }
    };
    Ok(Response { status, headers, trouble, body })
}

#[async_trait::async_trait]
impl Models for Client {
    async fn answer(&self, question: Question) -> Result<Reply, Trouble> {
        let upstream = &*question.upstream;
        let (dialect, body) = match question.asked {
            Asked::Small(small) => {
                let dialect = upstream.provider().dialect();
                (dialect, ask(upstream.provider(), dialect, &small))
            }
            Asked::Body { dialect, body } => (dialect, body),
        };
        let call = Call { dialect, body: Bytes::from(body) };
        let mut answer = self.send(upstream, &call, &question.patience).await?;
        if let Some(trouble) = answer.trouble {
            return Err(trouble);
        }
        let mut reading = Reading::new(Arc::clone(&question.upstream), dialect);
        while let Some(piece) = answer.body.next().await? {
            if reading.feed(&piece)? == Progress::Ended {
                break;
            }
        }
        reading.finish()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client(…)")
    }
}

/// What it means that not even a head came. A connection that was made and broke may have done the work, so it is not tried again.
fn no_answer(upstream: &Upstream, error: &reqwest::Error) -> Trouble {
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => Trouble::TimedOut(Stage::Connect),
        (true, false) => Trouble::Unreachable(said::shown(upstream, &innermost(error))),
        (false, _) => Trouble::CutShort,
    }
}

/// The first cause: what stands around it names the address, and says no more.
fn innermost(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Retries =
        Retries { most: 9, first: Duration::from_millis(500), longest: Duration::from_secs(8) };

    fn pause(dice: u32, trouble: &Trouble, tries: u32, retries: &Retries) -> Option<Duration> {
        let network = Network { proxies: Proxies::None, connect: IDLE, dice: Arc::new(move || dice) };
        Client::new(network).unwrap().pause(trouble, tries, retries)
    }

    #[test]
    fn a_pause_of_ours_doubles_and_has_its_end_and_chance_shortens_it() {
        let busy = Trouble::Overloaded { delay: None };
        let pauses = (0..9).filter_map(|tries| pause(u32::MAX, &busy, tries, &MOST));
        let pauses: Vec<u128> = pauses.map(|pause| pause.as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 8000, 8000, 8000, 8000]);
        assert_eq!(pause(0, &busy, 0, &MOST), Some(Duration::from_millis(250)));
        assert_eq!(pause(0, &busy, 9, &MOST), None, "nine are enough");
    }

    #[test]
    fn the_providers_pause_is_never_shortened() {
        let limited = |delay| Trouble::RateLimited { delay: Some(delay) };
        assert_eq!(pause(0, &limited(Duration::from_secs(10)), 0, &MOST), Some(Duration::from_secs(10)));
        assert_eq!(
            pause(u32::MAX, &limited(Duration::from_secs(10)), 0, &MOST),
            Some(Duration::from_secs(11))
        );
    }

    #[test]
    fn no_time_is_too_long_to_be_counted() {
        let endless = Retries { most: u32::MAX, first: Duration::MAX, longest: Duration::MAX };
        assert_eq!(pause(u32::MAX, &Trouble::Overloaded { delay: None }, 40, &endless), Some(DAY));
        let limited = Trouble::RateLimited { delay: Some(Duration::MAX) };
        assert_eq!(pause(u32::MAX, &limited, 0, &endless), Some(Duration::MAX));
    }
}
