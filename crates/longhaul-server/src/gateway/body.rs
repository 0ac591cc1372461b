//! Reads request bodies within limits of size, speed and memory, and decompresses a copy for reading.
//!
//! A body that is not rewritten is forwarded as it was received, still compressed.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use longhaul_engine::{ApiFormat, Tokens};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Gateway, own_replies};
use crate::pool::{JobError, Owner};

/// The longest time for which the rest of a body that is too large is discarded before the client gets the
/// error. Chosen by hand.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// The bytes of one semaphore permit of [`BodyMemory`]. The bytes that arrived count as a multiple of this. A
/// body that announces fewer reserves nothing before it arrives.
const PERMIT_BYTES: usize = 16 * 1024;
/// The bytes that are decompressed before the memory limit is checked again.
const DECOMPRESS_CHUNK_BYTES: usize = 256 * 1024;
/// The largest number of bytes that an announced length reserves before the bytes arrive.
const MAX_ANNOUNCED_RESERVE_BYTES: usize = 1024 * 1024;
/// The longest time that a request waits for memory before it is refused. Chosen by hand: clients retry after
/// that.
const MEMORY_WAIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The largest body that is searched as a whole on the threads that serve connections; larger ones are searched
/// in the pool. On two cores this many bytes take about 0.1 ms. [`requested_output`] reads the ends of every
/// body there.
pub(super) const MAX_INLINE_BYTES: usize = 256 * 1024;

/// The average bytes per token, for estimates where nothing is tokenized.
const BYTES_PER_TOKEN: usize = 4;

/// Estimates the tokens in a number of bytes of text.
pub(super) fn estimate_tokens(bytes: usize) -> Tokens {
    Tokens((bytes / BYTES_PER_TOKEN) as u64)
}

/// The factor by which compressed JSON text is assumed to grow when it is decompressed. Chosen by hand.
const COMPRESSION_FACTOR: usize = 5;

/// Returns the estimated bytes of text for each byte of a body: more than 1 if its headers say that it is
/// compressed.
pub(super) fn expansion_factor(headers: &HeaderMap) -> usize {
    if is_content_encoded(headers) { COMPRESSION_FACTOR } else { 1 }
}

/// Returns whether the headers of a body say that it is compressed (gzip, …). The name says "encoded", because
/// to compress means to compact a session here.
pub(super) fn is_content_encoded(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity")
}

/// Returns whether the headers of a body say that it is a stream of server-sent events.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Estimates the tokens of a body from its size in bytes and its headers.
pub(super) fn estimate_body_tokens(headers: &HeaderMap, bytes: usize) -> Tokens {
    estimate_tokens(bytes.saturating_mul(expansion_factor(headers)))
}

/// Returns the largest output that a request asks for (`max_tokens` and its other names). It searches only
/// the first and last bytes of the body, and nothing if the body is compressed.
pub(super) fn requested_output(headers: &HeaderMap, body: &[u8]) -> Option<Tokens> {
    const NAMES: [&[u8]; 3] = [b"\"max_tokens\"", b"\"max_completion_tokens\"", b"\"max_output_tokens\""];
    /// The bytes that are searched at each end. The limit is low because this runs on the threads that serve
    /// connections.
    const MAX_SCANNED_BYTES: usize = 64 << 10;
    /// The largest output that is believed. No model writes more in one reply, and a number that happens to
    /// be in a text must not use up a key's daily limit.
    const MAX_OUTPUT: u64 = 128_000;
    if expansion_factor(headers) > 1 {
        return None;
    }
    let number = |rest: &[u8]| {
        let rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let digits = rest.iter().take(12).take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse::<u64>().ok()
    };
    let ends = [&body[..body.len().min(MAX_SCANNED_BYTES)], &body[body.len().saturating_sub(MAX_SCANNED_BYTES)..]];
    let found = ends.into_iter().flat_map(|part| {
        NAMES.into_iter().flat_map(move |name| {
            memchr::memmem::find_iter(part, name).filter_map(move |at| number(&part[at + name.len()..]))
        })
    });
    found.max().map(|output| Tokens(output.min(MAX_OUTPUT)))
}

/// Estimates the bytes of text that a number of tokens has.
pub(super) fn estimate_bytes(tokens: Tokens) -> usize {
    usize::try_from(tokens.number()).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN)
}

/// The reason why a request body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    TooLarge,
    TooSlow,
    Broken,
    /// The bodies in memory have reached their limit.
    MemoryFull,
}

impl BodyError {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::MemoryFull => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the error as a response in the client's API format.
    pub(super) fn to_response(self, api_format: ApiFormat) -> Response {
        let mut response = own_replies::error_response(api_format, self.status(), self.message());
        if self == Self::MemoryFull {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::TooLarge => "the request body exceeds the gateway's limit",
            Self::TooSlow => "the request body arrived too slowly",
            Self::Broken => "the request body ended early",
            Self::MemoryFull => "the gateway's memory for request bodies is full; try again",
        }
    }
}

/// The memory that all request bodies share.
pub(crate) struct BodyMemory {
    /// Permits for [`PERMIT_BYTES`] bytes each.
    permits: Arc<Semaphore>,
}

/// A body with its permits, which are returned when the last copy of the body is dropped.
struct ReservedBody<T> {
    body: T,
    _permits: Option<OwnedSemaphorePermit>,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for ReservedBody<T> {
    fn as_ref(&self) -> &[u8] {
        self.body.as_ref()
    }
}

/// Permits that grow with the bytes that have arrived.
struct MemoryReservation<'r> {
    memory: &'r BodyMemory,
    permits: Option<OwnedSemaphorePermit>,
    /// The bytes that the permits cover.
    reserved_bytes: usize,
}

impl BodyMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        let permit_count = (bytes / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(permit_count)) }
    }

    /// Reserves memory before any bytes arrive. It waits up to the given time, and holds no other memory
    /// meanwhile.
    async fn reserve(&self, bytes: usize, wait_timeout: Duration) -> Result<MemoryReservation<'_>, BodyError> {
        let mut reservation = MemoryReservation { memory: self, permits: None, reserved_bytes: 0 };
        let permit_count = u32::try_from(bytes / PERMIT_BYTES).unwrap_or(u32::MAX);
        if permit_count > 0 {
            let permit = timeout(wait_timeout, Arc::clone(&self.permits).acquire_many_owned(permit_count)).await;
            reservation.permits = Some(permit.map_err(|_| BodyError::MemoryFull)?.map_err(|_| BodyError::MemoryFull)?);
            reservation.reserved_bytes = permit_count as usize * PERMIT_BYTES;
        }
        Ok(reservation)
    }
}

impl MemoryReservation<'_> {
    /// Reserves what is missing for a total of so many bytes, or fails at once. A holder of memory never
    /// waits for more, so no two requests can block each other.
    fn grow(&mut self, bytes: usize) -> Result<(), BodyError> {
        let missing = bytes.saturating_sub(self.reserved_bytes).div_ceil(PERMIT_BYTES);
        if missing == 0 {
            return Ok(());
        }
        let permit_count = u32::try_from(missing).map_err(|_| BodyError::MemoryFull)?;
        let more = Arc::clone(&self.memory.permits).try_acquire_many_owned(permit_count);
        let more = more.map_err(|_| BodyError::MemoryFull)?;
        self.reserved_bytes += missing * PERMIT_BYTES;
        match &mut self.permits {
            Some(permits) => permits.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    fn attach_to(self, body: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(ReservedBody { body, _permits: self.permits })
    }
}

/// The limits for the size and speed of a request body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits {
    /// The largest number of bytes.
    pub(crate) max_bytes: usize,
    /// The longest time between two pieces.
    pub(crate) piece_timeout: Duration,
    /// The lowest average speed, in bytes per second.
    pub(crate) min_bytes_per_second: usize,
}

impl BodyLimits {
    pub(crate) fn new(limits: &super::GatewayLimits) -> Self {
        Self {
            max_bytes: limits.max_body_bytes,
            piece_timeout: limits.piece_timeout,
            min_bytes_per_second: limits.min_body_bytes_per_second,
        }
    }

    /// Returns the deadline for the first piece.
    fn first_deadline(&self) -> Instant {
        Instant::now() + self.piece_timeout
    }

    /// Returns the deadline after more bytes arrived. A fast sender may not pause longer than others.
    fn extend_deadline(&self, deadline: Instant, bytes: usize) -> Instant {
        let earned = Duration::from_secs_f64(bytes as f64 / self.min_bytes_per_second.max(1) as f64);
        (deadline + earned).min(self.first_deadline())
    }
}

/// Reads a whole body into memory, within its limits.
pub(crate) async fn read(mut body: Body, limits: BodyLimits, memory: &BodyMemory) -> Result<Bytes, BodyError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limits.max_bytes {
        discard(body).await;
        return Err(BodyError::TooLarge);
    }
    // An announced length reserves little memory: its bytes may arrive slowly, or never.
    let mut reservation = memory.reserve(announced.min(MAX_ANNOUNCED_RESERVE_BYTES), MEMORY_WAIT_TIMEOUT).await?;
    let mut deadline = limits.first_deadline();
    let mut pieces: Vec<u8> = Vec::new();
    let mut single_piece: Option<Bytes> = None;
    let mut length = 0;
    while let Some(frame) = timeout_at(deadline, body.frame()).await.map_err(|_| BodyError::TooSlow)? {
        let Ok(piece) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        length += piece.len();
        deadline = limits.extend_deadline(deadline, piece.len());
        if length > limits.max_bytes {
            discard(body).await;
            return Err(BodyError::TooLarge);
        }
        reservation.grow(length)?;
        match single_piece.take() {
            None if pieces.is_empty() => single_piece = Some(piece),
            first => {
                pieces.extend_from_slice(&first.unwrap_or_default());
                pieces.extend_from_slice(&piece);
            }
        }
    }
    Ok(match single_piece {
        Some(single_piece) => reservation.attach_to(single_piece),
        None => reservation.attach_to(pieces),
    })
}

/// Discards the rest of a body for a while. A client that is still sending would not read the error.
async fn discard(mut body: Body) {
    let _ = timeout(DISCARD_TIMEOUT, async { while let Some(Ok(_)) = body.frame().await {} }).await;
}

/// Returns a body that streams the client's body to the upstream, within its speed limit. An empty body stays
/// empty, so that no body is announced.
pub(super) fn stream_onward(body: Body, limits: BodyLimits) -> reqwest::Body {
    if body.is_end_stream() {
        return reqwest::Body::default();
    }
    let start = (body, limits.first_deadline());
    reqwest::Body::wrap_stream(futures_util::stream::unfold(start, move |(mut body, deadline)| async move {
        loop {
            let frame = match timeout_at(deadline, body.frame()).await {
                Ok(frame) => frame?.map_err(std::io::Error::other),
                Err(_) => Err(std::io::Error::other(BodyError::TooSlow.message())),
            };
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(piece)) => {
                    let deadline = limits.extend_deadline(deadline, piece.len());
                    return Some((Ok(piece), (body, deadline)));
                }
                Ok(Err(_trailers)) => {}
                Err(error) => return Some((Err(error), (body, deadline))),
            }
        }
    }))
}

/// The reason why a body could not be decoded as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextError {
    /// The compression is unknown, the text is too large, or it is not UTF-8.
    Unreadable,
    /// There is no memory for the text, or the pool is full.
    Busy,
    /// An internal error.
    Failed,
}

impl TextError {
    /// Returns the reason as headers and logs name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Busy => "busy",
            Self::Failed => "engine",
        }
    }
}

impl Gateway {
    /// Returns the text of a body. Large or compressed bodies are decoded in the pool.
    pub(super) async fn body_text(
        self: &Arc<Self>,
        owner: Owner,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Bytes, TextError> {
        let max_bytes = self.settings.limits.max_body_bytes;
        if body.len() <= MAX_INLINE_BYTES && !headers.contains_key(CONTENT_ENCODING) {
            return decode_text(headers, body, max_bytes, &self.body_memory);
        }
        let (gateway, headers, body) = (Arc::clone(self), headers.clone(), body.clone());
        let read =
            self.pool.compute(owner, move || decode_text(&headers, &body, max_bytes, &gateway.body_memory)).await;
        read.unwrap_or_else(|reason| match reason {
            JobError::Busy => Err(TextError::Busy),
            JobError::Panicked => Err(TextError::Failed),
        })
    }
}

/// Decompresses a body and checks that it is UTF-8.
fn decode_text(headers: &HeaderMap, body: &Bytes, limit: usize, memory: &BodyMemory) -> Result<Bytes, TextError> {
    let encoding = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim());
    let text = match encoding {
        None | Some("" | "identity") => body.clone(),
        Some("gzip" | "x-gzip") => decompress(flate2::read::MultiGzDecoder::new(&body[..]), limit, memory)?,
        Some("deflate") => decompress(flate2::read::ZlibDecoder::new(&body[..]), limit, memory)?,
        Some("zstd") => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(&body[..]);
            decompress(decoder.map_err(|_| TextError::Unreadable)?, limit, memory)?
        }
        Some(_) => return Err(TextError::Unreadable),
    };
    match std::str::from_utf8(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err(TextError::Unreadable),
    }
}

/// Decompresses chunk by chunk, so that a compression bomb takes no more memory than there is.
fn decompress(mut from: impl Read, limit: usize, memory: &BodyMemory) -> Result<Bytes, TextError> {
    let mut reservation = MemoryReservation { memory, permits: None, reserved_bytes: 0 };
    let mut text = Vec::new();
    loop {
        let piece = from.by_ref().take(DECOMPRESS_CHUNK_BYTES as u64).read_to_end(&mut text);
        let is_over = piece.map_err(|_| TextError::Unreadable)? == 0;
        if text.len() > limit {
            return Err(TextError::Unreadable);
        }
        reservation.grow(text.capacity()).map_err(|_| TextError::Busy)?;
        if is_over {
            return Ok(reservation.attach_to(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_output_that_a_request_asks_for_is_found_at_either_end() {
        let plain = HeaderMap::new();
        let output_of = |body: &str| requested_output(&plain, body.as_bytes()).map(Tokens::number);
        assert_eq!(output_of(r#"{"max_tokens" : 4096,"messages":[]}"#), Some(4_096));
        let long = "x".repeat(200 << 10);
        assert_eq!(output_of(&format!(r#"{{"messages":["{long}"],"max_output_tokens":512}}"#)), Some(512));
        assert_eq!(output_of(&format!(r#"{{"a":"{long}","max_completion_tokens":9,"b":"{long}"}}"#)), None);
        assert_eq!(output_of(r#"{"max_tokens":99999999999,"max_completion_tokens":7}"#), Some(128_000));
        assert_eq!((output_of(r#"{"max_tokens":null}"#), output_of("")), (None, None));
        let encoded_headers = HeaderMap::from_iter([(http::header::CONTENT_ENCODING, "gzip".parse().unwrap())]);
        assert_eq!(requested_output(&encoded_headers, br#"{"max_tokens":5}"#), None);
    }

    fn encoded_headers(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encoding))])
    }

    #[test]
    fn an_encoded_body_is_read_and_a_bomb_is_not() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&vec![b' '; 100_000]).unwrap();
        let gzip = Bytes::from(gzip.finish().unwrap());
        let memory = BodyMemory::new(1 << 20);
        let text = |headers: &HeaderMap, body: &Bytes, max_bytes| decode_text(headers, body, max_bytes, &memory);
        let none = Err(TextError::Unreadable);
        assert_eq!(text(&encoded_headers("gzip"), &gzip, 100_000).unwrap().len(), 100_000);
        assert_eq!(text(&encoded_headers("gzip"), &gzip, 99_999), none);
        assert_eq!(text(&encoded_headers("br"), &gzip, 100_000), none);
        assert_eq!(text(&encoded_headers("gzip"), &gzip.slice(..40), 100_000), none, "it breaks off");
        assert_eq!(text(&HeaderMap::new(), &Bytes::from_static(b"\xff"), 9), none);
    }

    #[tokio::test]
    async fn a_body_is_read_as_far_as_it_may() {
        let memory = BodyMemory::new(1 << 20);
        let limits =
            |max_bytes| BodyLimits { max_bytes, piece_timeout: Duration::from_secs(1), min_bytes_per_second: 1 };
        assert_eq!(read(Body::from("four"), limits(4), &memory).await.unwrap(), "four");
        assert_eq!(read(Body::from("four"), limits(3), &memory).await, Err(BodyError::TooLarge));
    }

    fn drips(every: Duration) -> Body {
        Body::from_stream(futures_util::stream::unfold((), move |()| async move {
            tokio::time::sleep(every).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_for_ever_ends() {
        let (memory, began) = (BodyMemory::new(1 << 20), Instant::now());
        let limits =
            BodyLimits { max_bytes: 1 << 20, piece_timeout: Duration::from_mins(1), min_bytes_per_second: 8 * 1024 };
        assert_eq!(read(drips(Duration::from_secs(50)), limits, &memory).await, Err(BodyError::TooSlow));
        assert!(began.elapsed() < Duration::from_secs(70), "{:?}", began.elapsed());
        // A body that was fast up to its last piece ends, too.
        let much = Body::from_stream(futures_util::StreamExt::chain(
            futures_util::stream::iter([Ok(Bytes::from(vec![b' '; 900_000]))]),
            drips(Duration::from_secs(50)).into_data_stream(),
        ));
        assert_eq!(read(much, limits, &memory).await, Err(BodyError::TooSlow));
        assert!(began.elapsed() < Duration::from_secs(140), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_take_no_more_memory_than_there_is_and_give_it_back() {
        let memory = BodyMemory::new(4 * PERMIT_BYTES);
        let limits =
            BodyLimits { max_bytes: 1 << 20, piece_timeout: Duration::from_mins(1), min_bytes_per_second: 8 * 1024 };
        let large_body = || Body::from(vec![b' '; 3 * PERMIT_BYTES]);
        let first = read(large_body(), limits, &memory).await.unwrap();
        let copy = first.clone();
        assert_eq!(read(large_body(), limits, &memory).await, Err(BodyError::MemoryFull));
        drop(first);
        assert_eq!(read(large_body(), limits, &memory).await, Err(BodyError::MemoryFull), "a copy is still there");
        let freed = async {
            tokio::time::sleep(MEMORY_WAIT_TIMEOUT / 2).await;
            drop(copy);
        };
        let (second, ()) = tokio::join!(read(large_body(), limits, &memory), freed);
        assert_eq!(second.unwrap().len(), 3 * PERMIT_BYTES, "who waits gets the memory that becomes free");
        // A body without an announced length.
        let piece = || Ok::<_, std::io::Error>(Bytes::from(vec![b' '; PERMIT_BYTES]));
        let unknown = Body::from_stream(futures_util::stream::iter((0..9).map(move |_| piece())));
        assert_eq!(read(unknown, limits, &memory).await, Err(BodyError::MemoryFull));
        assert_eq!(memory.permits.available_permits(), 4);
    }

    #[test]
    fn what_was_compressed_well_takes_no_more_memory_than_there_is() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&vec![b' '; 32 * DECOMPRESS_CHUNK_BYTES]).unwrap();
        let gzip = Bytes::from(gzip.finish().unwrap());
        let memory = BodyMemory::new(4 * DECOMPRESS_CHUNK_BYTES);
        assert_eq!(decode_text(&encoded_headers("gzip"), &gzip, usize::MAX, &memory), Err(TextError::Busy));
        assert_eq!(memory.permits.available_permits(), 4 * DECOMPRESS_CHUNK_BYTES / PERMIT_BYTES);
    }
}
