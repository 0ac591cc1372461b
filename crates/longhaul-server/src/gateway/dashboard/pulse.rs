//! What tells open pages that there is something new: one word a second at most, as server-sent events, and nothing of what it is. A
//! page that hears it asks for itself again.

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

use super::frame::Problem;
use crate::gateway::Gateway;
use crate::store::{Tenant, Whose};

/// So many beats are remembered for who is slow; who is slower hears that there were some.
const REMEMBERED: usize = 64;
/// No page is told more often.
const APART: Duration = Duration::from_secs(1);
/// After so long without a word one is said, so that nobody on the way takes the connection for dead.
const QUIET: Duration = Duration::from_secs(15);
/// After so long a page has to ask anew, and so to show again who it is.
const LONGEST: Duration = Duration::from_mins(10);

/// The beat of a gateway.
pub(in crate::gateway) struct Pulse(Sender<Beat>);

#[derive(Debug, Clone)]
enum Beat {
    /// Something is new of a tenant's sessions.
    Of(Arc<str>),
    /// The gateway stops.
    Last,
}

impl Default for Pulse {
    fn default() -> Self {
        Self(broadcast::channel(REMEMBERED).0)
    }
}

impl Pulse {
    /// Something is new of a tenant's sessions.
    pub(in crate::gateway) fn beat(&self, tenant: &Tenant) {
        // Where nobody listens there is nobody to tell.
        let _ = self.0.send(Beat::Of(tenant.name().into()));
    }

    /// Nothing comes any more: who listens is let go.
    pub(in crate::gateway) fn stop(&self) {
        let _ = self.0.send(Beat::Last);
    }
}

/// Somebody who listens.
struct Listener {
    beats: Receiver<Beat>,
    whose: Whose,
    /// When it may be told again,
    next: Instant,
    /// and when it has to ask anew.
    end: Instant,
}

/// What comes of waiting.
enum Heard {
    News,
    Nothing,
    End,
}

impl Listener {
    fn is_for_me(&self, beat: &Beat) -> bool {
        match (beat, &self.whose) {
            (Beat::Of(name), Whose::One(tenant)) => tenant.name() == &**name,
            (Beat::Of(_), Whose::Everybody) => true,
            (Beat::Last, _) => false,
        }
    }

    async fn hear(&mut self) -> Heard {
        loop {
            match self.beats.recv().await {
                Ok(Beat::Last) | Err(RecvError::Closed) => return Heard::End,
                Ok(beat) if !self.is_for_me(&beat) => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return Heard::News,
            }
        }
    }

    /// The next word, when there is one.
    async fn word(&mut self) -> Option<&'static str> {
        let now = Instant::now();
        if now >= self.end {
            return None;
        }
        match timeout(QUIET.min(self.end - now), self.hear()).await.unwrap_or(Heard::Nothing) {
            Heard::End => None,
            Heard::Nothing => Some(": still here\n\n"),
            Heard::News => {
                sleep_until(self.next).await;
                // What came meanwhile is told with it.
                loop {
                    match self.beats.try_recv() {
                        Ok(Beat::Last) | Err(TryRecvError::Closed) => return None,
                        Ok(Beat::Of(_)) | Err(TryRecvError::Lagged(_)) => {}
                        Err(TryRecvError::Empty) => break,
                    }
                }
                self.next = Instant::now() + APART;
                Some("event: news\ndata: 1\n\n")
            }
        }
    }
}

/// `GET /events`.
pub(super) async fn events(
    State(gateway): State<Arc<Gateway>>,
    Extension(whose): Extension<Whose>,
) -> Result<Response, Problem> {
    let beats = gateway.dashboard.pulse.0.subscribe();
    if !gateway.is_ready() {
        return Err(Problem::stopping());
    }
    let now = Instant::now();
    let listener = Listener { beats, whose, next: now, end: now + LONGEST };
    // What is said first opens the stream.
    let words = stream::unfold((listener, Some("retry: 2000\n\n")), |(mut listener, first)| async move {
        let word = match first {
            Some(first) => first,
            None => listener.word().await?,
        };
        Some((Ok::<_, std::io::Error>(Bytes::from_static(word.as_bytes())), (listener, None)))
    });
    let mut response = Response::new(Body::from_stream(words));
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(response)
}
