//! Tells open pages that something changed, as server-sent events: at most one message a second, without any
//! content. A page that receives it loads itself again.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio::time::{Instant, sleep_until, timeout};

use super::middleware::DashboardError;
use crate::gateway::Gateway;
use crate::store::{Tenant, TenantScope};

/// The number of events that are kept for slow listeners. A listener that misses more only learns that there
/// was a change. Chosen by hand.
const BUFFERED_EVENTS: usize = 64;
/// The shortest time between two messages to one page. Chosen by hand.
const MIN_MESSAGE_INTERVAL: Duration = Duration::from_secs(1);
/// The time without a change after which a comment is sent, so that proxies do not close the connection.
/// Chosen by hand.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The time after which a stream ends. The page then connects again, which checks its login again. Chosen by
/// hand.
const MAX_STREAM_DURATION: Duration = Duration::from_mins(10);

/// The sender of change events, one for each gateway.
pub(in crate::gateway) struct ChangeFeed(Sender<FeedEvent>);

#[derive(Debug, Clone)]
enum FeedEvent {
    /// The sessions of the tenant with this name changed.
    Changed(Arc<str>),
    /// The gateway is shutting down.
    Closed,
}

impl Default for ChangeFeed {
    fn default() -> Self {
        Self(broadcast::channel(BUFFERED_EVENTS).0)
    }
}

impl ChangeFeed {
    /// Tells the listeners that a session of this tenant changed.
    pub(in crate::gateway) fn notify(&self, tenant: &Tenant) {
        // Sending fails only if nobody listens.
        let _ = self.0.send(FeedEvent::Changed(tenant.name().into()));
    }

    /// Ends the streams of all listeners, so that the gateway can shut down.
    pub(in crate::gateway) fn close(&self) {
        let _ = self.0.send(FeedEvent::Closed);
    }
}

/// One open page that receives change events.
struct FeedListener {
    events: Receiver<FeedEvent>,
    scope: TenantScope,
    /// The earliest time of the next message.
    next_allowed: Instant,
    /// The time at which the stream ends.
    stream_end: Instant,
}

/// The result of waiting for a change.
enum WaitResult {
    Changed,
    TimedOut,
    Closed,
}

impl FeedListener {
    fn is_visible(&self, event: &FeedEvent) -> bool {
        match (event, &self.scope) {
            (FeedEvent::Changed(name), TenantScope::One(tenant)) => tenant.name() == &**name,
            (FeedEvent::Changed(_), TenantScope::All) => true,
            (FeedEvent::Closed, _) => false,
        }
    }

    async fn wait_for_change(&mut self) -> WaitResult {
        loop {
            match self.events.recv().await {
                Ok(FeedEvent::Closed) | Err(RecvError::Closed) => return WaitResult::Closed,
                Ok(event) if !self.is_visible(&event) => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return WaitResult::Changed,
            }
        }
    }

    /// Waits for the next message of the stream; nothing if the stream ends.
    async fn next_message(&mut self) -> Option<&'static str> {
        let now = Instant::now();
        if now >= self.stream_end {
            return None;
        }
        match timeout(KEEP_ALIVE_INTERVAL.min(self.stream_end - now), self.wait_for_change())
            .await
            .unwrap_or(WaitResult::TimedOut)
        {
            WaitResult::Closed => None,
            WaitResult::TimedOut => Some(": still here\n\n"),
            WaitResult::Changed => {
                sleep_until(self.next_allowed).await;
                // One message covers all changes since the last one.
                loop {
                    match self.events.try_recv() {
                        Ok(FeedEvent::Closed) | Err(TryRecvError::Closed) => return None,
                        Ok(FeedEvent::Changed(_)) | Err(TryRecvError::Lagged(_)) => {}
                        Err(TryRecvError::Empty) => break,
                    }
                }
                self.next_allowed = Instant::now() + MIN_MESSAGE_INTERVAL;
                Some("event: change\ndata: 1\n\n")
            }
        }
    }
}

/// `GET /events`.
pub(super) async fn stream_events(
    State(gateway): State<Arc<Gateway>>,
    Extension(scope): Extension<TenantScope>,
) -> Result<Response, DashboardError> {
    let events = gateway.dashboard.change_feed.0.subscribe();
    if !gateway.is_ready() {
        return Err(DashboardError::shutting_down());
    }
    let now = Instant::now();
    let listener = FeedListener { events, scope, next_allowed: now, stream_end: now + MAX_STREAM_DURATION };
    // A first message makes the browser treat the stream as open.
    let messages = stream::unfold((listener, Some("retry: 2000\n\n")), |(mut listener, first)| async move {
        let message = match first {
            Some(first) => first,
            None => listener.next_message().await?,
        };
        Some((Ok::<_, std::io::Error>(Bytes::from_static(message.as_bytes())), (listener, None)))
    });
    let mut response = Response::new(Body::from_stream(messages));
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
