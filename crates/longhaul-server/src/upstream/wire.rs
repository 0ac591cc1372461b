//! One answer on its way: its status, its head, and its body in pieces, each of which may take only so long.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use tokio::time::{Instant, timeout_at};

use super::{Stage, Trouble};

/// What an upstream answers, before anybody reads it.
#[derive(Debug)]
pub struct Response {
    /// The status of HTTP.
    pub status: u16,
    /// The head.
    pub headers: HeaderMap,
    /// What it stands for, if it is an error. The body can be handed on all the same.
    pub trouble: Option<Trouble>,
    /// The body.
    pub body: Pieces,
}

/// A body in pieces.
pub struct Pieces {
    source: Source,
    /// When the first piece has to be there, as long as it is not.
    first: Option<Due>,
    idle: Duration,
    whole: Instant,
}

/// What was read ahead comes first, then what is still on the wire; what broke off once stays broken off, whoever found out.
struct Source {
    ahead: Option<Bytes>,
    broke: Option<Trouble>,
    wire: reqwest::Response,
}

/// When something has to be there, and when all has to be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Due {
    stage: Stage,
    at: Instant,
    whole: Instant,
}

impl Due {
    /// A stage that may last so long from now, unless the whole is due before that.
    pub(super) fn from_now(stage: Stage, last: Duration, whole: Instant) -> Self {
        let at = Instant::now().checked_add(last).unwrap_or(whole);
        if at < whole { Self { stage, at, whole } } else { Self { stage: Stage::Whole, at: whole, whole } }
    }

    /// What comes of it in time.
    pub(super) async fn wait<T>(self, work: impl Future<Output = T>) -> Result<T, Trouble> {
        timeout_at(self.at, work).await.map_err(|_| Trouble::TimedOut(self.stage))
    }
}

impl Pieces {
    /// Of an answer whose head has come. The first piece is part of what was waited for with the head.
    pub(super) fn of(response: reqwest::Response, due: Due, idle: Duration) -> Self {
        let source = Source { ahead: None, broke: None, wire: response };
        Self { source, first: Some(due), idle, whole: due.whole }
    }

    /// The next piece; none, where the body has ended as it should. Time counts while it is waited for, and not while nobody asks.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        if let Some(ahead) = self.source.ahead.take() {
            return Ok(Some(ahead));
        }
        if let Some(trouble) = &self.source.broke {
            return Err(trouble.clone());
        }
        let idle = || Due::from_now(Stage::Idle, self.idle, self.whole);
        let due = self.first.take().unwrap_or_else(idle);
        let piece = due.wait(self.source.wire.chunk()).await;
        let piece = piece.and_then(|piece| piece.map_err(|_| Trouble::CutShort));
        piece.inspect_err(|trouble| self.source.broke = Some(trouble.clone()))
    }

    /// What was taken comes again, before the rest.
    pub(crate) fn put_back(&mut self, taken: Bytes) {
        self.source.ahead = Some(taken).filter(|taken| !taken.is_empty());
    }

    /// The beginning of the body, at most about so many bytes, and as far as it comes: an error that breaks off still says something.
    /// It stays to be read.
    pub(super) async fn peek(&mut self, most: usize) -> Bytes {
        let mut read = Vec::new();
        while let Ok(Some(piece)) = self.next().await {
            read.extend_from_slice(&piece);
            if read.len() >= most {
                break;
            }
        }
        let read = Bytes::from(read);
        self.put_back(read.clone());
        read
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pieces(…)")
    }
}
