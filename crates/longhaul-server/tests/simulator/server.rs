//! The simulator on its socket.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, Uri};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::answer::{Answer, Asked, Providers, fails, unpacked};
use super::delivery::{Delivery, Next, Sending};
use super::seen::{Ended, Seen, Traffic};
use super::settings::Settings;

/// More than this is not even read.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// The three providers at one address, until this is dropped.
pub(crate) struct Simulator {
    address: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    settings: Settings,
    clock: Arc<AtomicI64>,
    state: Mutex<Inside>,
}

struct Inside {
    providers: Providers,
    seen: Vec<Seen>,
    /// How many requests were taken, those that were taken out of `seen` too.
    taken: usize,
    next: VecDeque<Next>,
    delivery: Delivery,
    delay: Option<Delay>,
}

/// How long the answer to a request with this body takes, where that differs from what is usual.
type Delay = Arc<dyn Fn(&str) -> Option<Duration> + Send + Sync>;

impl Drop for Simulator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Simulator {
    pub(crate) async fn start(settings: Settings) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let inside = Inside {
            providers: Providers::new(),
            seen: Vec::new(),
            taken: 0,
            next: VecDeque::new(),
            delivery: Delivery::default(),
            delay: None,
        };
        let shared = Arc::new(Shared { settings, clock: Arc::default(), state: Mutex::new(inside) });
        let router = Router::new().fallback(take).with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, task }
    }

    /// `http://127.0.0.1:port`.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What a `base_url` is set to.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The clock, in milliseconds. It stands still unless it is set.
    pub(crate) fn clock(&self) -> Arc<AtomicI64> {
        Arc::clone(&self.shared.clock)
    }

    /// Lets so much time pass.
    pub(crate) fn pass(&self, time: Duration) {
        self.shared.clock.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// How answers are delivered from now on.
    pub(crate) fn deliver(&self, delivery: Delivery) {
        self.shared.state.lock().unwrap().delivery = delivery;
    }

    /// Delays the answers to some requests.
    pub(crate) fn delay(&self, delay: impl Fn(&str) -> Option<Duration> + Send + Sync + 'static) {
        self.shared.state.lock().unwrap().delay = Some(Arc::new(delay));
    }

    /// What is done with one request, behind those for which something was said already.
    pub(crate) fn next(&self, next: Next) {
        self.shared.state.lock().unwrap().next.push_back(next);
    }

    /// All that was seen so far, in the order of its coming.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.state.lock().unwrap().seen.clone()
    }

    /// The newest request.
    pub(crate) fn last(&self) -> Option<Seen> {
        self.shared.state.lock().unwrap().seen.last().cloned()
    }

    /// All that was seen, which is forgotten here. The cache and the numbers stay.
    pub(crate) fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.shared.state.lock().unwrap().seen)
    }

    /// Those that were answered with an error.
    pub(crate) fn refused(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(Seen::is_refused).collect()
    }

    /// The tokens of all requests that a model answered.
    pub(crate) fn tokens(&self) -> Traffic {
        self.shared.state.lock().unwrap().seen.iter().filter_map(|seen| seen.tokens).sum()
    }
}

/// Notes how far an answer came: who drops it before it was sent has left.
pub(super) struct Watch {
    shared: Arc<Shared>,
    number: usize,
    ended: Ended,
}

impl Watch {
    pub(super) fn sent(&mut self) {
        self.ended = Ended::Sent;
        self.note();
    }

    fn note(&self) {
        let mut state = self.shared.state.lock().unwrap();
        if let Some(seen) = state.seen.iter_mut().rfind(|seen| seen.number == self.number) {
            seen.ended = self.ended;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.ended == Ended::Not {
            self.ended = Ended::ClientLeft;
            self.note();
        }
    }
}

async fn take(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MOST_BYTES).await else {
        return Response::builder().status(413).body(Body::empty()).unwrap();
    };
    let (answer, headers, delivery, number) = answered(&shared, &parts.uri, &parts.headers, body);
    let watch = Watch { shared, number, ended: Ended::Not };
    sleep(delivery.after).await;
    let kind = if answer.streams { "text/event-stream; charset=utf-8" } else { "application/json" };
    let mut response = Response::builder()
        .status(answer.status)
        .header("content-type", kind)
        .header("request-id", format!("req_{number:08}"));
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Body::new(Sending::new(answer.pieces, delivery, watch))).unwrap()
}

/// Answers a request and writes down what was seen of it.
fn answered(
    shared: &Shared,
    uri: &Uri,
    headers: &HeaderMap,
    body: Bytes,
) -> (Answer, Vec<(&'static str, String)>, Delivery, usize) {
    let body = unpacked(headers, body);
    let now = shared.clock.load(Ordering::SeqCst);
    let state = &mut *shared.state.lock().unwrap();
    state.taken += 1;
    let number = state.taken;
    let asked = Asked { path: uri.path(), headers, body: &body, number, now };
    let (answer, more, delivery) = match state.next.pop_front() {
        Some(Next::Fails { status, headers }) => (fails(&asked, status), headers, Delivery::default()),
        Some(Next::Delivers(delivery)) => (state.providers.answer(&asked, &shared.settings), Vec::new(), delivery),
        None => (state.providers.answer(&asked, &shared.settings), Vec::new(), state.delivery),
    };
    let delay = state.delay.as_ref().and_then(|delay| delay(std::str::from_utf8(&body).unwrap_or_default()));
    let delivery = Delivery { after: delay.unwrap_or(delivery.after), ..delivery };
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    state.seen.push(Seen {
        number,
        path: uri.to_string(),
        headers: headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect(),
        status: answer.status,
        reply: answer.pieces.concat().into(),
        tokens: answer.tokens,
        ended: Ended::Not,
        body,
    });
    (answer, more, delivery, number)
}
