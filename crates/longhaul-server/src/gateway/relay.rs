//! An answer on its way back: handed on piece by piece as it comes, read from a copy, and never ended by anybody but its writer.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName};
use longhaul_engine::Dialect;

use super::aside::Talk;
use super::in_flight::InFlight;
use super::native::Told;
use super::speech;
use super::tally::Open;
use crate::upstream::{Pieces, Reading, Reply, SoFar, Trouble, Upstream};

/// What concerns one connection, and not the request.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    TRANSFER_ENCODING,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("te"),
    HeaderName::from_static("trailer"),
    HeaderName::from_static("upgrade"),
];

/// Takes out of a head what concerns its connection alone.
pub(super) fn without_hops(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|names| names.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    HOP_BY_HOP.iter().chain(&named).for_each(|name| drop(headers.remove(name)));
}

/// How an answer ended.
#[derive(Default)]
pub(super) struct Ending {
    pub(super) how: How,
    /// The whole reply, if it could be read to its end.
    pub(super) reply: Option<Reply>,
    /// What was read of it otherwise.
    pub(super) so_far: SoFar,
}

/// The ways in which an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum How {
    /// To the last byte.
    Whole,
    /// The upstream broke it off.
    Cut,
    /// The client left before the end, which is also how a request ends that never had an answer.
    #[default]
    Left,
}

/// Where what is handed on comes from.
pub(super) enum Source {
    /// An upstream's answer, as it comes.
    Upstream(Box<Pieces>),
    /// What a client may see of a reply over several of them.
    Aside(Box<Talk>),
    /// The same, all of it at once.
    Whole(Option<Bytes>),
}

impl Source {
    async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        match self {
            Self::Upstream(pieces) => pieces.next().await,
            Self::Aside(talk) => talk.next().await,
            Self::Whole(bytes) => Ok(bytes.take()),
        }
    }
}

/// An answer on its way.
pub(super) struct Relay {
    source: Source,
    /// What is added to it.
    told: Option<Told>,
    dialect: Dialect,
    /// The copy that is read, as long as it can be.
    copy: Option<Reading>,
    events: Option<Tail>,
    flight: Option<InFlight>,
    /// What was read of the answer before it could not be read any more.
    so_far: SoFar,
    /// The bytes that are still to come, where the head says how many.
    left: Option<u64>,
    ended: bool,
    _open: Open,
}

impl Relay {
    /// Begins to hand on. The head loses its length where an event might have to be added.
    pub(super) fn new(
        (upstream, dialect): (&Arc<Upstream>, Dialect),
        headers: &mut HeaderMap,
        source: Source,
        flight: InFlight,
        open: Open,
    ) -> Self {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        // Behind what is packed no event could be read.
        let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|packed| packed == "identity");
        let events = (is_plain && kind.starts_with("text/event-stream")).then(Tail::default);
        if events.is_some() {
            headers.remove(CONTENT_LENGTH);
        }
        let copy = Some(Reading::new(Arc::clone(upstream), dialect));
        let left = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        Self {
            source,
            told: None,
            dialect,
            copy,
            events,
            flight: Some(flight),
            so_far: SoFar::default(),
            left,
            ended: false,
            _open: open,
        }
    }

    /// The same, with what the answer is to say beyond. Nothing may be known of its length.
    pub(super) fn saying(mut self, told: Option<Told>) -> Self {
        self.told = told;
        self
    }

    /// The next piece of what is handed on.
    async fn pull(&mut self) -> Result<Option<Bytes>, Trouble> {
        let Some(told) = &mut self.told else { return self.source.next().await };
        while let Some(piece) = self.source.next().await? {
            let out = told.feed(&piece);
            if !out.is_empty() {
                return Ok(Some(out.into()));
            }
        }
        Ok(Some(Bytes::from(told.end())).filter(|rest| !rest.is_empty()))
    }

    /// As the body of a response.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(futures_util::stream::unfold(self, |mut relay| async move {
            let piece = relay.next().await?;
            Some((piece, relay))
        }))
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.ended {
            return None;
        }
        match self.pull().await {
            Ok(Some(piece)) => {
                if let Some(copy) = &mut self.copy
                    && copy.feed(&piece).is_err()
                {
                    self.so_far = copy.so_far();
                    self.copy = None;
                }
                if let Some(tail) = &mut self.events {
                    tail.pass(&piece);
                }
                self.left = self.left.map(|left| left.saturating_sub(piece.len() as u64));
                if self.left == Some(0) {
                    // Nobody asks for more than the head promised.
                    self.is_whole();
                }
                Some(Ok(piece))
            }
            Ok(None) => {
                self.ended = true;
                let is_whole =
                    self.copy.as_ref().is_none_or(Reading::is_told_to_end) || self.events.is_none();
                if is_whole {
                    self.is_whole();
                    return None;
                }
                Some(self.cut("the upstream ended its answer in the midst of it"))
            }
            Err(trouble) => {
                self.ended = true;
                // A connection that breaks behind the end of a stream takes nothing away from it.
                if self.has_ended() {
                    self.is_whole();
                    return None;
                }
                Some(self.cut(&trouble.to_string()))
            }
        }
    }

    /// Whether the mark that ends a stream has come.
    fn has_ended(&self) -> bool {
        self.events.is_some() && self.copy.as_ref().is_some_and(Reading::has_ended)
    }

    /// All of it is handed on.
    fn is_whole(&mut self) {
        self.ended = true;
        self.over(How::Whole);
    }

    /// Says that no more comes: as an event of the dialect, or, where there is no place for one, by breaking off too.
    fn cut(&mut self, said: &str) -> io::Result<Bytes> {
        self.over(How::Cut);
        let Some(tail) = &self.events else { return Err(io::Error::other(said.to_owned())) };
        let event = format!("{}{}", tail.closing(self.dialect), speech::error_event(self.dialect, said));
        Ok(Bytes::from(event))
    }

    fn over(&mut self, how: How) {
        let Some(flight) = self.flight.take() else { return };
        let copy = self.copy.take();
        let so_far = copy.as_ref().map_or_else(|| std::mem::take(&mut self.so_far), Reading::so_far);
        let reply = copy.filter(|_| how == How::Whole).and_then(|copy| copy.finish().ok());
        flight.ends(Ending { how, reply, so_far });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // Who leaves behind the mark that ends an answer has all of it.
        if self.has_ended() {
            self.is_whole();
        }
        self.over(How::Left);
    }
}

/// Where in a stream of events its newest byte stands.
#[derive(Debug, Default)]
struct Tail {
    /// What the line that is not ended begins with.
    line: Vec<u8>,
    /// Whether the event that is not ended has data.
    has_data: bool,
    after_return: bool,
}

/// How a line with data begins.
const DATA: &[u8] = b"data:";

impl Tail {
    fn pass(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            let second_half = byte == b'\n' && self.after_return;
            self.after_return = byte == b'\r';
            match byte {
                _ if second_half => {}
                b'\n' | b'\r' => {
                    self.has_data = !self.line.is_empty() && (self.has_data || self.line == DATA);
                    self.line.clear();
                }
                _ if self.line.len() < DATA.len() => self.line.push(byte),
                _ => {}
            }
        }
    }

    /// What stands between an event that broke off and an error: a line that broke off is ended, and data that might be all there was
    /// to come, the end of the answer too, becomes data of nothing. An event that has none yet becomes the error.
    fn closing(&self, dialect: Dialect) -> String {
        let line = if self.line.is_empty() { "" } else { "\n" };
        if !self.has_data && self.line != DATA {
            return line.to_owned();
        }
        let name = if dialect == Dialect::Chat { "" } else { "event: error\n" };
        format!("{line}{name}data: broken off\n\n")
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_concerns_a_connection_is_not_handed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("connection", "keep-alive, x-hop"), ("x-hop", "1"), ("te", "trailers"), ("x-stays", "1")]
        {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        without_hops(&mut headers);
        assert_eq!(headers.len(), 1);
    }

    #[test]
    fn it_is_known_whether_an_event_is_open() {
        for (text, closing) in [
            ("", ""),
            ("data: a\n\n", ""),
            ("data: a\r\n\r\n", ""),
            ("data: a\r\r", ""),
            ("data: a\n", "data: broken off\n\n"),
            ("data: a", "\ndata: broken off\n\n"),
            (": ping\n\ndata: [DONE]", "\ndata: broken off\n\n"),
            ("data: a\nid: 1", "\ndata: broken off\n\n"),
            ("data: a\n\nevent: b", "\n"),
            ("data: a\n\nevent: b\n", ""),
            ("data: a\n\ndat", "\n"),
            (": ping", "\n"),
        ] {
            let mut tail = Tail::default();
            tail.pass(text.as_bytes());
            assert_eq!(tail.closing(Dialect::Chat), closing, "{text:?}");
        }
    }
}
