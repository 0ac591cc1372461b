//! An HTTP response: its status, its headers, and its body as a stream with timeouts.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use tokio::time::{Instant, timeout_at};

use super::{TimeoutStage, UpstreamError};

/// An upstream's response, with the body not read yet.
#[derive(Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The response headers.
    pub headers: HeaderMap,
    /// The meaning of the response if it is an error. The body can be passed on all the same.
    pub error: Option<UpstreamError>,
    /// The response body.
    pub body: BodyStream,
}

/// A response body that is read piece by piece.
pub struct BodyStream {
    source: BodySource,
    /// The deadline of the first piece, until it arrives.
    first_deadline: Option<Deadline>,
    idle_timeout: Duration,
    total_deadline: Instant,
}

/// The origin of the pieces: first those that were read ahead, then the connection. After an error, every
/// further read returns the same error.
struct BodySource {
    buffered: Option<Bytes>,
    error: Option<UpstreamError>,
    response: reqwest::Response,
}

/// The time until which something must arrive, and the time until which everything must.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    stage: TimeoutStage,
    at: Instant,
    total: Instant,
}

impl Deadline {
    /// Creates a deadline for a stage that may last this long from now; the total deadline applies if it is
    /// earlier.
    pub(super) fn from_now(stage: TimeoutStage, last: Duration, total: Instant) -> Self {
        let at = Instant::now().checked_add(last).unwrap_or(total);
        if at < total { Self { stage, at, total } } else { Self { stage: TimeoutStage::Total, at: total, total } }
    }

    /// Waits for a future until the deadline.
    pub(super) async fn run<T>(self, work: impl Future<Output = T>) -> Result<T, UpstreamError> {
        timeout_at(self.at, work).await.map_err(|_| UpstreamError::TimedOut(self.stage))
    }
}

impl BodyStream {
    /// Creates the stream of a response whose headers have arrived. The first piece has the same deadline as
    /// the headers had.
    pub(super) fn new(response: reqwest::Response, due: Deadline, idle: Duration) -> Self {
        let source = BodySource { buffered: None, error: None, response };
        Self { source, first_deadline: Some(due), idle_timeout: idle, total_deadline: due.total }
    }

    /// Returns the next piece; `None` if the body ended properly. The timeout runs only while the caller
    /// waits for a piece.
    pub async fn next(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        if let Some(ahead) = self.source.buffered.take() {
            return Ok(Some(ahead));
        }
        if let Some(error) = &self.source.error {
            return Err(error.clone());
        }
        let idle = || Deadline::from_now(TimeoutStage::Idle, self.idle_timeout, self.total_deadline);
        let due = self.first_deadline.take().unwrap_or_else(idle);
        let piece = due.run(self.source.response.chunk()).await;
        let piece = piece.and_then(|piece| piece.map_err(|_| UpstreamError::CutShort));
        piece.inspect_err(|error| self.source.error = Some(error.clone()))
    }

    /// Puts bytes back, so that they are returned again before the rest.
    pub(crate) fn put_back(&mut self, bytes: Bytes) {
        self.source.buffered = Some(bytes).filter(|bytes| !bytes.is_empty());
    }

    /// Returns the beginning of the body, about `max_bytes` bytes or as much as arrives: an error body that breaks
    /// off is still useful. The bytes can be read again.
    pub(super) async fn peek(&mut self, max_bytes: usize) -> Bytes {
        let mut bytes = Vec::new();
        while let Ok(Some(piece)) = self.next().await {
            bytes.extend_from_slice(&piece);
            if bytes.len() >= max_bytes {
                break;
            }
        }
        let bytes = Bytes::from(bytes);
        self.put_back(bytes.clone());
        bytes
    }
}

impl fmt::Debug for BodyStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pieces(…)")
    }
}
