//! Passes a reply on piece by piece as it arrives, and reads a copy of it. The relay never makes a broken
//! reply look complete.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName};
use longhaul_engine::ApiFormat;

use super::in_flight::InFlight;
use super::metrics::OpenReply;
use super::native::ReplyAnnotator;
use super::recall_loop::RecallLoop;
use super::{body, own_replies};
use crate::upstream::{BodyStream, ModelReply, PartialUsage, ReplyReader, SseDecoder, Upstream, UpstreamError};

/// Headers that concern one connection, and not the request.
const HOP_BY_HOP_HEADERS: [HeaderName; 8] = [
    CONNECTION,
    TRANSFER_ENCODING,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("te"),
    HeaderName::from_static("trailer"),
    HeaderName::from_static("upgrade"),
];

/// Removes the headers that concern only one connection.
pub(super) fn remove_hop_headers(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|names| names.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    HOP_BY_HOP_HEADERS.iter().chain(&named).for_each(|name| drop(headers.remove(name)));
}

/// How a reply ended, and what was read of it.
#[derive(Default)]
pub(super) struct ReplyEnding {
    pub(super) kind: EndKind,
    /// The whole reply, if it could be read to its end.
    pub(super) reply: Option<ModelReply>,
    /// The usage and output that were read before the end, if the whole reply could not be read.
    pub(super) so_far: PartialUsage,
}

/// The ways in which a reply can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum EndKind {
    /// The reply was passed on to its last byte.
    Complete,
    /// The upstream broke the reply off.
    BrokenOff,
    /// The client left before the end. This is also the ending of a request that never had a reply.
    #[default]
    ClientLeft,
}

/// The source of the bytes that are passed on.
pub(super) enum ReplySource {
    /// An upstream's reply, unchanged.
    Upstream(Box<BodyStream>),
    /// The visible part of a streamed reply whose model can call the recall tools.
    RecallLoop(Box<RecallLoop>),
    /// The visible part of such a reply as one document.
    Document(Option<Bytes>),
}

impl ReplySource {
    async fn next(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        match self {
            Self::Upstream(pieces) => pieces.next().await,
            Self::RecallLoop(recall_loop) => recall_loop.next().await,
            Self::Document(bytes) => Ok(bytes.take()),
        }
    }
}

/// A reply that is being passed on.
pub(super) struct Relay {
    source: ReplySource,
    /// The filter that adds notes to the reply.
    annotator: Option<ReplyAnnotator>,
    api_format: ApiFormat,
    /// The reader of the copy; none once the copy could not be read.
    reader: Option<ReplyReader>,
    /// The position within a stream of events, to end it properly if it breaks off; none if it cannot be read.
    events: Option<SseDecoder>,
    in_flight: Option<InFlight>,
    /// The usage and output that were read before the copy could not be read any more.
    so_far: PartialUsage,
    /// The bytes that have not arrived yet, if the headers announce a length.
    remaining_bytes: Option<u64>,
    is_ended: bool,
    _open: OpenReply,
}

impl Relay {
    /// Creates a relay. It removes the length from the headers of a stream, because an event may have to be
    /// added.
    pub(super) fn new(
        (upstream, api_format): (&Arc<Upstream>, ApiFormat),
        headers: &mut HeaderMap,
        source: ReplySource,
        in_flight: InFlight,
        open: OpenReply,
    ) -> Self {
        // An event cannot be appended to a compressed stream.
        let is_readable = body::is_event_stream(headers) && !body::is_content_encoded(headers);
        let events = is_readable.then(SseDecoder::default);
        if events.is_some() {
            headers.remove(CONTENT_LENGTH);
        }
        let reader = Some(ReplyReader::new(Arc::clone(upstream), api_format));
        let announced_length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        Self {
            source,
            annotator: None,
            api_format,
            reader,
            events,
            in_flight: Some(in_flight),
            so_far: PartialUsage::default(),
            remaining_bytes: announced_length,
            is_ended: false,
            _open: open,
        }
    }

    /// Returns the relay with a filter that adds notes. The headers must not announce a length then.
    pub(super) fn with_annotator(mut self, annotator: Option<ReplyAnnotator>) -> Self {
        self.annotator = annotator;
        self
    }

    /// Returns the next piece from the source, with notes added.
    async fn next_piece(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        let Some(annotator) = &mut self.annotator else { return self.source.next().await };
        while let Some(piece) = self.source.next().await? {
            let out = annotator.feed(&piece);
            if !out.is_empty() {
                return Ok(Some(out.into()));
            }
        }
        Ok(Some(Bytes::from(annotator.finish())).filter(|rest| !rest.is_empty()))
    }

    /// Returns the relay as the body of a response.
    pub(super) fn into_body(self) -> Body {
        Body::from_stream(futures_util::stream::unfold(self, |mut relay| async move {
            let piece = relay.next().await?;
            Some((piece, relay))
        }))
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        if self.is_ended {
            return None;
        }
        match self.next_piece().await {
            Ok(Some(piece)) => {
                if let Some(reader) = &mut self.reader
                    && reader.feed(&piece).is_err()
                {
                    self.so_far = reader.partial_usage();
                    self.reader = None;
                }
                if let Some(events) = &mut self.events {
                    events.feed(&piece);
                    events.forget_text();
                }
                self.remaining_bytes =
                    self.remaining_bytes.map(|remaining| remaining.saturating_sub(piece.len() as u64));
                if self.remaining_bytes == Some(0) {
                    // The client reads no further than the announced length, so the relay may not be polled
                    // again.
                    self.finish_complete();
                }
                Some(Ok(piece))
            }
            Ok(None) => {
                self.is_ended = true;
                let is_complete =
                    self.reader.as_ref().is_none_or(ReplyReader::may_be_complete) || self.events.is_none();
                if is_complete {
                    self.finish_complete();
                    return None;
                }
                Some(self.finish_broken_off("the upstream ended its reply early"))
            }
            Err(error) => {
                self.is_ended = true;
                // A connection that breaks after the end of a stream loses nothing.
                if self.has_end_marker() {
                    self.finish_complete();
                    return None;
                }
                Some(self.finish_broken_off(&error.to_string()))
            }
        }
    }

    /// Returns whether the event that ends the stream has arrived.
    fn has_end_marker(&self) -> bool {
        self.events.is_some() && self.reader.as_ref().is_some_and(ReplyReader::has_ended)
    }

    /// Ends the relay after the last byte was passed on.
    fn finish_complete(&mut self) {
        self.is_ended = true;
        self.settle(EndKind::Complete);
    }

    /// Tells the client that the reply broke off: with an error event in a stream, otherwise by breaking off
    /// as well.
    fn finish_broken_off(&mut self, message: &str) -> io::Result<Bytes> {
        self.settle(EndKind::BrokenOff);
        let Some(events) = &self.events else { return Err(io::Error::other(message.to_owned())) };
        let event =
            format!("{}{}", closing_lines(events, self.api_format), own_replies::error_event(self.api_format, message));
        Ok(Bytes::from(event))
    }

    fn settle(&mut self, kind: EndKind) {
        let Some(in_flight) = self.in_flight.take() else { return };
        let reader = self.reader.take();
        let so_far = reader.as_ref().map_or_else(|| std::mem::take(&mut self.so_far), ReplyReader::partial_usage);
        let reply = reader.filter(|_| kind == EndKind::Complete).and_then(|reader| reader.finish().ok());
        in_flight.finish(ReplyEnding { kind, reply, so_far });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // A client that leaves after the end marker has the whole reply.
        if self.has_end_marker() {
            self.finish_complete();
        }
        self.settle(EndKind::ClientLeft);
    }
}

/// Returns what must precede an error event if the stream broke off inside an event. First a line break, if it
/// broke off within a line. Then, if the event has data, a second data line that makes it invalid: `data: [DONE]`
/// is followed by `data: broken off`. If the event has no data yet, its lines, such as `id: 7`, become part of
/// the error event.
fn closing_lines(events: &SseDecoder, api_format: ApiFormat) -> String {
    let line = if events.is_in_line() { "\n" } else { "" };
    if !events.has_data() {
        return line.to_owned();
    }
    let name = if api_format == ApiFormat::Chat { "" } else { "event: error\n" };
    format!("{line}{name}data: broken off\n\n")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_concerns_a_connection_is_not_handed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("connection", "keep-alive, x-hop"), ("x-hop", "1"), ("te", "trailers"), ("x-stays", "1")]
        {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        remove_hop_headers(&mut headers);
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
            for cut in 0..=text.len() {
                let mut events = SseDecoder::default();
                for piece in [&text[..cut], &text[cut..]] {
                    events.feed(piece.as_bytes());
                    events.forget_text();
                }
                assert_eq!(closing_lines(&events, ApiFormat::Chat), closing, "{text:?} cut at {cut}");
            }
        }
    }
}
