//! Who comes to a gateway from the street: clients with heads of their own making, and places where nothing of it must arrive.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_server::gateway::{ClientAccess, GatewaySettings, Upstreams};
use longhaul_server::upstream::{ApiKey, Provider, Upstream};
use reqwest::{Method, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::ground::{Ground, settings};

/// Longer than anything takes here.
const LONG: Duration = Duration::from_mins(1);

/// The three ways to a model, each with a body that it takes.
pub(crate) const MODELS: [(&str, &str); 3] = [
    ("/v1/messages", r#"{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#),
    ("/v1/chat/completions", r#"{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}"#),
    ("/v1/responses", r#"{"model":"gpt-5","input":"hi"}"#),
];

/// Settings of a gateway that holds a key for each provider.
pub(crate) fn holding(upstream: &str, key: &str) -> GatewaySettings {
    let at = |provider: &str| {
        let provider = Provider::named(provider).unwrap();
        Arc::new(Upstream::new(provider, Some(upstream), ApiKey::new(key)).unwrap())
    };
    let upstreams = Upstreams { chat: at("openai"), messages: at("anthropic"), responses: at("openai") };
    GatewaySettings { upstreams, ..settings(upstream) }
}

/// Settings of a gateway that wants keys.
pub(crate) fn closed(settings: GatewaySettings) -> GatewaySettings {
    GatewaySettings { access: ClientAccess::Keys, ..settings }
}

/// Sends a request with these headers and no others, but for those that every client sends.
pub(crate) async fn send(
    ground: &Ground,
    (method, path): (Method, &str),
    headers: &[(&str, &str)],
    body: impl Into<reqwest::Body>,
) -> Response {
    let request = ground.http.request(method, format!("{}{path}", ground.url));
    let request = request.header("content-type", "application/json").header("anthropic-version", "2023-06-01");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(body).send().await.unwrap()
}

/// The same, posted.
pub(crate) async fn post(
    ground: &Ground,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<reqwest::Body>,
) -> Response {
    send(ground, (Method::POST, path), headers, body).await
}

/// Writes bytes to a gateway and gives what comes back until it closes or rests: what no client library would send.
pub(crate) async fn raw(ground: &Ground, bytes: &[u8]) -> String {
    let address = ground.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Who is turned away early may not have been listened to until the end.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    let rests = |answer: &[u8]| if answer.is_empty() { LONG } else { Duration::from_millis(300) };
    while let Ok(Ok(length @ 1..)) = timeout(rests(&answer), stream.read(&mut piece)).await {
        answer.extend_from_slice(&piece[..length]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of an answer that came as bytes.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// A place on this machine that nobody is to come to.
pub(crate) struct Elsewhere {
    address: SocketAddr,
    came: Arc<AtomicUsize>,
}

impl Elsewhere {
    pub(crate) async fn open() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, came) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&came);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, came }
    }

    /// `http://127.0.0.1:port`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `127.0.0.1:port`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// How many came.
    pub(crate) fn came(&self) -> usize {
        self.came.load(Ordering::SeqCst)
    }
}

/// Waits for what is written after an answer.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = timeout(LONG, async {
        while !holds().await {
            sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}
