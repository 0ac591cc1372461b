//! The body of a request: read under a limit, and unpacked for reading. What is not rewritten goes on as it came, packed.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use longhaul_engine::{Dialect, Tokens};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::{Gateway, speech};
use crate::pool::{NotDone, Owner};

/// For so long what comes of a body that is too large is thrown away, before that is said.
const LISTENS: Duration = Duration::from_secs(2);

/// Room for bodies is counted in places of so many bytes: small bodies are many, and their number is bounded by that of connections.
const PLACE_BYTES: usize = 16 * 1024;
/// So much is unpacked before it is looked whether there is room for more.
const UNPACKED_AT_ONCE: usize = 256 * 1024;
/// So much room an announced length takes before the bytes are there.
const MAX_RESERVED_BYTES: usize = 1024 * 1024;
/// So long a request waits for room before it is refused: clients send it again after that.
const MAX_ROOM_WAIT: Duration = Duration::from_secs(2);

/// Longer bodies are looked through in the pool: on two cores this much takes about 0.1 ms.
pub(super) const MAX_INLINE_BYTES: usize = 256 * 1024;

/// About so many bytes are a token, where nobody counts.
const BYTES_OF_A_TOKEN: usize = 4;

/// About how many tokens so many bytes are.
pub(super) fn about(bytes: usize) -> Tokens {
    Tokens((bytes / BYTES_OF_A_TOKEN) as u64)
}

/// How many times larger than its packed form JSON text is taken to be, before anybody has unpacked it.
const PACKED_FACTOR: usize = 5;

/// How many bytes of text a byte of a body is taken to be, by its headers.
pub(super) fn expansion(headers: &HeaderMap) -> usize {
    let is_packed = headers.get(CONTENT_ENCODING).is_some_and(|packed| packed != "identity");
    if is_packed { PACKED_FACTOR } else { 1 }
}

/// About how many tokens a body of so many bytes is, by its headers.
pub(super) fn estimate(headers: &HeaderMap, bytes: usize) -> Tokens {
    about(bytes.saturating_mul(expansion(headers)))
}

/// The output that a request asks for at most, as far as its first and last bytes show: `max_tokens` and its other names. A packed body
/// shows nothing.
pub(super) fn requested_output(headers: &HeaderMap, body: &[u8]) -> Option<Tokens> {
    const NAMES: [&[u8]; 3] = [b"\"max_tokens\"", b"\"max_completion_tokens\"", b"\"max_output_tokens\""];
    /// No more of either end is read: this runs on the threads that serve connections.
    const MAX_SCANNED_BYTES: usize = 64 << 10;
    /// No model writes more in one reply, so that a number in a text cannot use up a day.
    const MAX_OUTPUT: u64 = 128_000;
    if expansion(headers) > 1 {
        return None;
    }
    let number = |rest: &[u8]| {
        let rest = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let digits = rest.iter().take(12).take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse::<u64>().ok()
    };
    let ends =
        [&body[..body.len().min(MAX_SCANNED_BYTES)], &body[body.len().saturating_sub(MAX_SCANNED_BYTES)..]];
    let found = ends.into_iter().flat_map(|part| {
        NAMES.into_iter().flat_map(move |name| {
            memchr::memmem::find_iter(part, name).filter_map(move |at| number(&part[at + name.len()..]))
        })
    });
    found.max().map(|output| Tokens(output.min(MAX_OUTPUT)))
}

/// About how many bytes so many tokens are.
pub(super) fn bytes_of(tokens: Tokens) -> usize {
    usize::try_from(tokens.number()).unwrap_or(usize::MAX).saturating_mul(BYTES_OF_A_TOKEN)
}

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    TooLarge,
    TooSlow,
    Broken,
    /// Too many bodies are in memory.
    NoRoom,
}

impl Refused {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What the client is told, in its dialect.
    pub(super) fn answer(self, dialect: Dialect) -> Response {
        let mut response = speech::error(dialect, self.status(), self.said());
        if self == Self::NoRoom {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }

    pub(crate) fn said(self) -> &'static str {
        match self {
            Self::TooLarge => "the request body is larger than the gateway takes",
            Self::TooSlow => "the request body came too slowly",
            Self::Broken => "the request body broke off",
            Self::NoRoom => "the gateway holds as many request bodies as it may; try again",
        }
    }
}

/// The room for all bodies that are in memory at a time.
pub(crate) struct Room {
    /// Places of [`PLACE_BYTES`] each.
    places: Arc<Semaphore>,
}

/// A body with its places, which are free again when nobody has any of it.
struct Held<T> {
    body: T,
    _places: Option<OwnedSemaphorePermit>,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Held<T> {
    fn as_ref(&self) -> &[u8] {
        self.body.as_ref()
    }
}

/// Places that are taken one by one.
struct Taking<'r> {
    room: &'r Room,
    places: Option<OwnedSemaphorePermit>,
    /// Bytes that the places are enough for.
    bytes: usize,
}

impl Room {
    pub(crate) fn new(bytes: usize) -> Self {
        let places = (bytes / PLACE_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { places: Arc::new(Semaphore::new(places)) }
    }

    /// So many bytes before any of them came: waits for room without holding any, for so long.
    async fn reserve(&self, bytes: usize, most: Duration) -> Result<Taking<'_>, Refused> {
        let mut taking = Taking { room: self, places: None, bytes: 0 };
        let places = u32::try_from(bytes / PLACE_BYTES).unwrap_or(u32::MAX);
        if places > 0 {
            let taken = timeout(most, Arc::clone(&self.places).acquire_many_owned(places)).await;
            taking.places = Some(taken.map_err(|_| Refused::NoRoom)?.map_err(|_| Refused::NoRoom)?);
            taking.bytes = places as usize * PLACE_BYTES;
        }
        Ok(taking)
    }
}

impl Taking<'_> {
    /// Takes what is missing for so many bytes, if there is room now: whoever holds some does not wait for more.
    fn grow(&mut self, bytes: usize) -> Result<(), Refused> {
        let missing = bytes.saturating_sub(self.bytes).div_ceil(PLACE_BYTES);
        if missing == 0 {
            return Ok(());
        }
        let places = u32::try_from(missing).map_err(|_| Refused::NoRoom)?;
        let more = Arc::clone(&self.room.places).try_acquire_many_owned(places);
        let more = more.map_err(|_| Refused::NoRoom)?;
        self.bytes += missing * PLACE_BYTES;
        match &mut self.places {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    fn hold(self, body: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Held { body, _places: self.places })
    }
}

/// How a body has to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// The bytes that it may have.
    pub(crate) most: usize,
    /// The time between two pieces.
    pub(crate) pieces: Duration,
    /// The bytes a second in which it has to come all in all.
    pub(crate) rate: usize,
}

impl Pace {
    pub(crate) fn of(limits: &super::Limits) -> Self {
        Self { most: limits.body, pieces: limits.pieces, rate: limits.body_rate }
    }

    /// When a body of which nothing came yet is waited for no longer.
    fn begin(&self) -> Instant {
        Instant::now() + self.pieces
    }

    /// The same once more bytes came. Who was fast may not be silent for longer than others.
    fn earn(&self, until: Instant, bytes: usize) -> Instant {
        let earned = Duration::from_secs_f64(bytes as f64 / self.rate.max(1) as f64);
        (until + earned).min(self.begin())
    }
}

/// Reads a body that comes fast enough, where there is room for it.
pub(crate) async fn read(mut body: Body, pace: Pace, room: &Room) -> Result<Bytes, Refused> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > pace.most {
        throw_away(body).await;
        return Err(Refused::TooLarge);
    }
    // What was only announced takes little room: it may come slowly, or never.
    let mut taking = room.reserve(announced.min(MAX_RESERVED_BYTES), MAX_ROOM_WAIT).await?;
    let mut until = pace.begin();
    let mut read: Vec<u8> = Vec::new();
    let mut only: Option<Bytes> = None;
    let mut length = 0;
    while let Some(frame) = timeout_at(until, body.frame()).await.map_err(|_| Refused::TooSlow)? {
        let Ok(piece) = frame.map_err(|_| Refused::Broken)?.into_data() else { continue };
        length += piece.len();
        until = pace.earn(until, piece.len());
        if length > pace.most {
            throw_away(body).await;
            return Err(Refused::TooLarge);
        }
        taking.grow(length)?;
        match only.take() {
            None if read.is_empty() => only = Some(piece),
            before => {
                read.extend_from_slice(&before.unwrap_or_default());
                read.extend_from_slice(&piece);
            }
        }
    }
    Ok(match only {
        Some(only) => taking.hold(only),
        None => taking.hold(read),
    })
}

/// Who is still sending would not hear that it is too much.
async fn throw_away(mut body: Body) {
    let _ = timeout(LISTENS, async { while let Some(Ok(_)) = body.frame().await {} }).await;
}

/// A body that is handed on as it comes, if it comes fast enough. Where there is none, none is announced.
pub(super) fn onward(body: Body, pace: Pace) -> reqwest::Body {
    if body.is_end_stream() {
        return reqwest::Body::default();
    }
    let start = (body, pace.begin());
    reqwest::Body::wrap_stream(futures_util::stream::unfold(start, move |(mut body, until)| async move {
        loop {
            let frame = match timeout_at(until, body.frame()).await {
                Ok(frame) => frame?.map_err(std::io::Error::other),
                Err(_) => Err(std::io::Error::other(Refused::TooSlow.said())),
            };
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(piece)) => {
                    let until = pace.earn(until, piece.len());
                    return Some((Ok(piece), (body, until)));
                }
                Ok(Err(_trailers)) => {}
                Err(error) => return Some((Err(error), (body, until))),
            }
        }
    }))
}

/// Why there is no text of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoText {
    /// It is packed in a way that is not known, larger than the gateway takes, or no text.
    Unreadable,
    /// There is no room for it, or nobody to unpack it.
    Busy,
    /// An error of ours.
    Failed,
}

impl NoText {
    /// The reason as headers and logs name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Busy => "busy",
            Self::Failed => "engine",
        }
    }
}

impl Gateway {
    /// The text of a body, unpacked: in the pool, unless it is at hand.
    pub(super) async fn text(
        self: &Arc<Self>,
        owner: Owner,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<Bytes, NoText> {
        let most = self.settings.limits.body;
        if body.len() <= MAX_INLINE_BYTES && !headers.contains_key(CONTENT_ENCODING) {
            return text(headers, body, most, &self.room);
        }
        let (gateway, headers, body) = (Arc::clone(self), headers.clone(), body.clone());
        let read = self.pool.compute(owner, move || text(&headers, &body, most, &gateway.room)).await;
        read.unwrap_or_else(|reason| match reason {
            NotDone::Busy => Err(NoText::Busy),
            NotDone::Failed => Err(NoText::Failed),
        })
    }
}

/// The text of a body, unpacked.
fn text(headers: &HeaderMap, body: &Bytes, most: usize, room: &Room) -> Result<Bytes, NoText> {
    let packed = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim());
    let text = match packed {
        None | Some("" | "identity") => body.clone(),
        Some("gzip" | "x-gzip") => unpack(flate2::read::MultiGzDecoder::new(&body[..]), most, room)?,
        Some("deflate") => unpack(flate2::read::ZlibDecoder::new(&body[..]), most, room)?,
        Some("zstd") => {
            let packed = ruzstd::decoding::StreamingDecoder::new(&body[..]);
            unpack(packed.map_err(|_| NoText::Unreadable)?, most, room)?
        }
        Some(_) => return Err(NoText::Unreadable),
    };
    match std::str::from_utf8(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err(NoText::Unreadable),
    }
}

/// Unpacks piece by piece, so that what is packed very tightly takes no more memory than there is room for.
fn unpack(mut from: impl Read, most: usize, room: &Room) -> Result<Bytes, NoText> {
    let mut taking = Taking { room, places: None, bytes: 0 };
    let mut text = Vec::new();
    loop {
        let piece = from.by_ref().take(UNPACKED_AT_ONCE as u64).read_to_end(&mut text);
        let is_over = piece.map_err(|_| NoText::Unreadable)? == 0;
        if text.len() > most {
            return Err(NoText::Unreadable);
        }
        taking.grow(text.capacity()).map_err(|_| NoText::Busy)?;
        if is_over {
            return Ok(taking.hold(text));
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
        let asked = |body: &str| requested_output(&plain, body.as_bytes()).map(Tokens::number);
        assert_eq!(asked(r#"{"max_tokens" : 4096,"messages":[]}"#), Some(4_096));
        let long = "x".repeat(200 << 10);
        assert_eq!(asked(&format!(r#"{{"messages":["{long}"],"max_output_tokens":512}}"#)), Some(512));
        assert_eq!(asked(&format!(r#"{{"a":"{long}","max_completion_tokens":9,"b":"{long}"}}"#)), None);
        assert_eq!(asked(r#"{"max_tokens":99999999999,"max_completion_tokens":7}"#), Some(128_000));
        assert_eq!((asked(r#"{"max_tokens":null}"#), asked("")), (None, None));
        let packed = HeaderMap::from_iter([(http::header::CONTENT_ENCODING, "gzip".parse().unwrap())]);
        assert_eq!(requested_output(&packed, br#"{"max_tokens":5}"#), None);
    }

    fn packed(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encoding))])
    }

    #[test]
    fn a_packed_body_is_read_and_a_bomb_is_not() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&vec![b' '; 100_000]).unwrap();
        let gzip = Bytes::from(gzip.finish().unwrap());
        let room = Room::new(1 << 20);
        let text = |headers: &HeaderMap, body: &Bytes, most| text(headers, body, most, &room);
        let none = Err(NoText::Unreadable);
        assert_eq!(text(&packed("gzip"), &gzip, 100_000).unwrap().len(), 100_000);
        assert_eq!(text(&packed("gzip"), &gzip, 99_999), none);
        assert_eq!(text(&packed("br"), &gzip, 100_000), none);
        assert_eq!(text(&packed("gzip"), &gzip.slice(..40), 100_000), none, "it breaks off");
        assert_eq!(text(&HeaderMap::new(), &Bytes::from_static(b"\xff"), 9), none);
    }

    #[tokio::test]
    async fn a_body_is_read_as_far_as_it_may() {
        let room = Room::new(1 << 20);
        let pace = |most| Pace { most, pieces: Duration::from_secs(1), rate: 1 };
        assert_eq!(read(Body::from("four"), pace(4), &room).await.unwrap(), "four");
        assert_eq!(read(Body::from("four"), pace(3), &room).await, Err(Refused::TooLarge));
    }

    fn drips(every: Duration) -> Body {
        Body::from_stream(futures_util::stream::unfold((), move |()| async move {
            tokio::time::sleep(every).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b"x")), ()))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_for_ever_ends() {
        let (room, began) = (Room::new(1 << 20), Instant::now());
        let pace = Pace { most: 1 << 20, pieces: Duration::from_mins(1), rate: 8 * 1024 };
        assert_eq!(read(drips(Duration::from_secs(50)), pace, &room).await, Err(Refused::TooSlow));
        assert!(began.elapsed() < Duration::from_secs(70), "{:?}", began.elapsed());
        // Nor does one that came fast up to its last piece.
        let much = Body::from_stream(futures_util::StreamExt::chain(
            futures_util::stream::iter([Ok(Bytes::from(vec![b' '; 900_000]))]),
            drips(Duration::from_secs(50)).into_data_stream(),
        ));
        assert_eq!(read(much, pace, &room).await, Err(Refused::TooSlow));
        assert!(began.elapsed() < Duration::from_secs(140), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_take_no_more_room_than_there_is_and_give_it_back() {
        let room = Room::new(4 * PLACE_BYTES);
        let pace = Pace { most: 1 << 20, pieces: Duration::from_mins(1), rate: 8 * 1024 };
        let whole = || Body::from(vec![b' '; 3 * PLACE_BYTES]);
        let first = read(whole(), pace, &room).await.unwrap();
        let copy = first.clone();
        assert_eq!(read(whole(), pace, &room).await, Err(Refused::NoRoom));
        drop(first);
        assert_eq!(read(whole(), pace, &room).await, Err(Refused::NoRoom), "a copy is still there");
        let freed = async {
            tokio::time::sleep(MAX_ROOM_WAIT / 2).await;
            drop(copy);
        };
        let (second, ()) = tokio::join!(read(whole(), pace, &room), freed);
        assert_eq!(second.unwrap().len(), 3 * PLACE_BYTES, "who waits gets the room that becomes free");
        // One of which the length is not said.
        let piece = || Ok::<_, std::io::Error>(Bytes::from(vec![b' '; PLACE_BYTES]));
        let unknown = Body::from_stream(futures_util::stream::iter((0..9).map(move |_| piece())));
        assert_eq!(read(unknown, pace, &room).await, Err(Refused::NoRoom));
        assert_eq!(room.places.available_permits(), 4);
    }

    #[test]
    fn what_is_packed_tightly_takes_no_more_room_than_there_is() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(&vec![b' '; 32 * UNPACKED_AT_ONCE]).unwrap();
        let gzip = Bytes::from(gzip.finish().unwrap());
        let room = Room::new(4 * UNPACKED_AT_ONCE);
        assert_eq!(text(&packed("gzip"), &gzip, usize::MAX, &room), Err(NoText::Busy));
        assert_eq!(room.places.available_permits(), 4 * UNPACKED_AT_ONCE / PLACE_BYTES);
    }
}
