//! The body of a request: read under a limit, and unpacked for reading. What is not rewritten goes on as it came, packed.

use std::io::Read;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt;
use longhaul_engine::Tokens;
use tokio::time::timeout;

/// For so long what comes of a body that is too large is thrown away, before that is said.
const LISTENS: Duration = Duration::from_secs(2);

/// About so many bytes are a token, where nobody counts.
const BYTES_OF_A_TOKEN: usize = 4;

/// About how many tokens so many bytes are.
pub(super) fn about(bytes: usize) -> Tokens {
    Tokens((bytes / BYTES_OF_A_TOKEN) as u64)
}

/// About how many bytes so many tokens are.
pub(super) fn bytes_of(tokens: Tokens) -> usize {
    usize::try_from(tokens.number()).unwrap_or(usize::MAX).saturating_mul(BYTES_OF_A_TOKEN)
}

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    TooLarge,
    TooSlow,
    Broken,
}

impl Refused {
    pub(super) fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
        }
    }

    pub(super) fn said(self) -> &'static str {
        match self {
            Self::TooLarge => "the request body is larger than the gateway takes",
            Self::TooSlow => "the request body stood still for too long",
            Self::Broken => "the request body broke off",
        }
    }
}

/// Reads a body of at most so many bytes, each piece of which may take only so long.
pub(super) async fn read(mut body: Body, most: usize, pieces: Duration) -> Result<Bytes, Refused> {
    let mut read: Vec<u8> = Vec::new();
    let mut only: Option<Bytes> = None;
    while let Some(frame) = timeout(pieces, body.frame()).await.map_err(|_| Refused::TooSlow)? {
        let Ok(piece) = frame.map_err(|_| Refused::Broken)?.into_data() else { continue };
        if read.len() + only.as_ref().map_or(0, Bytes::len) + piece.len() > most {
            // Who is still sending would not hear it.
            let _ = timeout(LISTENS, async { while let Some(Ok(_)) = body.frame().await {} }).await;
            return Err(Refused::TooLarge);
        }
        match only.take() {
            None if read.is_empty() => only = Some(piece),
            before => {
                read.extend_from_slice(&before.unwrap_or_default());
                read.extend_from_slice(&piece);
            }
        }
    }
    Ok(only.unwrap_or_else(|| Bytes::from(read)))
}

/// A body that is handed on as it comes, each piece of which may take only so long. Where there is none, none is announced.
pub(super) fn onward(body: Body, pieces: Duration) -> reqwest::Body {
    if body.is_end_stream() {
        return reqwest::Body::default();
    }
    reqwest::Body::wrap_stream(futures_util::stream::unfold(body, move |mut body| async move {
        loop {
            let frame = match timeout(pieces, body.frame()).await {
                Ok(frame) => frame?.map_err(std::io::Error::other),
                Err(_) => Err(std::io::Error::other(Refused::TooSlow.said())),
            };
            match frame.map(http_body::Frame::into_data) {
                Ok(Ok(piece)) => return Some((Ok(piece), body)),
                Ok(Err(_trailers)) => {}
                Err(error) => return Some((Err(error), body)),
            }
        }
    }))
}

/// The text of a body, unpacked. Nothing where it is packed in a way that is not known, larger than that, or no text.
pub(super) fn text(headers: &HeaderMap, body: &Bytes, most: usize) -> Option<Bytes> {
    let packed = headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?").trim());
    let text = match packed {
        None | Some("" | "identity") => body.clone(),
        Some("gzip" | "x-gzip") => unpack(flate2::read::MultiGzDecoder::new(&body[..]), most)?,
        Some("deflate") => unpack(flate2::read::ZlibDecoder::new(&body[..]), most)?,
        Some("zstd") => unpack(ruzstd::decoding::StreamingDecoder::new(&body[..]).ok()?, most)?,
        Some(_) => return None,
    };
    std::str::from_utf8(&text).is_ok().then_some(text)
}

fn unpack(from: impl Read, most: usize) -> Option<Bytes> {
    let mut text = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut text).ok()?;
    (text.len() <= most).then(|| Bytes::from(text))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use http::HeaderValue;

    use super::*;

    fn packed(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(encoding))])
    }

    #[test]
    fn a_packed_body_is_read_and_a_bomb_is_not() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&vec![b' '; 100_000]).unwrap();
        let gzip = Bytes::from(gzip.finish().unwrap());
        assert_eq!(text(&packed("gzip"), &gzip, 100_000).unwrap().len(), 100_000);
        assert_eq!(text(&packed("gzip"), &gzip, 99_999), None);
        assert_eq!(text(&packed("br"), &gzip, 100_000), None);
        assert_eq!(text(&packed("gzip"), &gzip.slice(..40), 100_000), None, "it breaks off");
        assert_eq!(text(&HeaderMap::new(), &Bytes::from_static(b"\xff"), 9), None);
    }

    #[tokio::test]
    async fn a_body_is_read_as_far_as_it_may() {
        let piece = Duration::from_secs(1);
        assert_eq!(read(Body::from("four"), 4, piece).await.unwrap(), "four");
        assert_eq!(read(Body::from("four"), 3, piece).await, Err(Refused::TooLarge));
    }
}
