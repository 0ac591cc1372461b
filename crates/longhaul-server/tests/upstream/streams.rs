//! However an answer is cut into pieces, it says the same; and where it is cut off, it says nothing.

use std::sync::Arc;

use longhaul_engine::ApiFormat;
use longhaul_server::upstream::{ModelReply, Progress, ReplyReader, Upstream, UpstreamError};

use super::scripted::{Ending, Speech};
use super::upstream;

const TEXT: &str = "\"Grüße\" \\ 🎉";

fn host() -> Arc<Upstream> {
    Arc::new(upstream("compatible", "http://127.0.0.1:1/v1"))
}

fn read<'a>(api_format: ApiFormat, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<ModelReply, UpstreamError> {
    let mut reading = ReplyReader::new(host(), api_format);
    for piece in pieces {
        if reading.feed(piece)? == Progress::Ended {
            break;
        }
    }
    reading.finish()
}

/// All that can be said, in every dialect and shape.
fn speeches() -> impl Iterator<Item = (ApiFormat, String)> {
    ApiFormat::ALL.into_iter().flat_map(|api_format| {
        Ending::ALL.into_iter().flat_map(move |ending| {
            let speech = Speech::new(TEXT).ending(ending);
            let events = speech.events(api_format);
            let shapes = [events.replace('\n', "\r\n"), events.replace('\n', "\r"), speech.whole(api_format), events];
            shapes.map(|bytes| (api_format, bytes))
        })
    })
}

#[test]
fn pieces_cut_anywhere_say_the_same() {
    for (api_format, bytes) in speeches() {
        let bytes = bytes.as_bytes();
        let wanted = read(api_format, [bytes]).unwrap();
        assert_eq!(wanted.text, TEXT);
        assert!(wanted.usage.is_some() && wanted.model.is_some());
        for cut in 0..=bytes.len() {
            let given = read(api_format, [&bytes[..cut], &bytes[cut..]]).unwrap();
            assert_eq!(given, wanted, "{api_format} cut at {cut}");
        }
        assert_eq!(read(api_format, bytes.chunks(1)).unwrap(), wanted, "{api_format} byte by byte");
    }
}

#[test]
fn what_is_cut_off_anywhere_is_no_answer() {
    for (api_format, bytes) in speeches() {
        // The second half of the last line's end adds nothing.
        let end = if bytes.ends_with("\r\n") { bytes.len() - 1 } else { bytes.len() };
        for cut in 0..end {
            let given = read(api_format, [&bytes.as_bytes()[..cut]]);
            assert_eq!(given, Err(UpstreamError::CutShort), "{api_format} cut off at {cut} of {}", bytes.len());
        }
    }
}

#[test]
fn an_end_of_another_dialect_is_none() {
    for api_format in ApiFormat::ALL {
        for other in ApiFormat::ALL.into_iter().filter(|other| *other != api_format) {
            let events = Speech::new(TEXT).events(other);
            assert!(read(api_format, [events.as_bytes()]).is_err(), "{other} read as {api_format}");
        }
    }
}

#[test]
fn what_never_ends_is_given_up() {
    let mut reading = ReplyReader::new(host(), ApiFormat::Chat);
    let blanks = vec![b' '; 1 << 20];
    reading.feed(b"{").unwrap();
    let error = (0..100).find_map(|_| reading.feed(&blanks).err());
    assert!(matches!(error, Some(UpstreamError::Garbled(_))), "{error:?}");
}
