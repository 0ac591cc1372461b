//! However an answer is cut into pieces, it says the same; and where it is cut off, it says nothing.

use std::sync::Arc;

use longhaul_engine::Dialect;
use longhaul_server::upstream::{Progress, Reading, Reply, Trouble, Upstream};

use super::scripted::{Ending, Speech};
use super::upstream;

const TEXT: &str = "\"Grüße\" \\ 🎉";

fn host() -> Arc<Upstream> {
    Arc::new(upstream("compatible", "http://127.0.0.1:1/v1"))
}

fn read<'a>(dialect: Dialect, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Reply, Trouble> {
    let mut reading = Reading::new(host(), dialect);
    for piece in pieces {
        if reading.feed(piece)? == Progress::Ended {
            break;
        }
    }
    reading.finish()
}

/// All that can be said, in every dialect and shape.
fn speeches() -> impl Iterator<Item = (Dialect, String)> {
    Dialect::ALL.into_iter().flat_map(|dialect| {
        Ending::ALL.into_iter().flat_map(move |ending| {
            let speech = Speech::new(TEXT).ending(ending);
            let events = speech.events(dialect);
            let shapes =
                [events.replace('\n', "\r\n"), events.replace('\n', "\r"), speech.whole(dialect), events];
            shapes.map(|bytes| (dialect, bytes))
        })
    })
}

#[test]
fn pieces_cut_anywhere_say_the_same() {
    for (dialect, bytes) in speeches() {
        let bytes = bytes.as_bytes();
        let wanted = read(dialect, [bytes]).unwrap();
        assert_eq!(wanted.text, TEXT);
        assert!(wanted.usage.is_some() && wanted.model.is_some());
        for cut in 0..=bytes.len() {
            let given = read(dialect, [&bytes[..cut], &bytes[cut..]]).unwrap();
            assert_eq!(given, wanted, "{dialect} cut at {cut}");
        }
        assert_eq!(read(dialect, bytes.chunks(1)).unwrap(), wanted, "{dialect} byte by byte");
    }
}

#[test]
fn what_is_cut_off_anywhere_is_no_answer() {
    for (dialect, bytes) in speeches() {
        // The second half of the last line's end adds nothing.
        let end = if bytes.ends_with("\r\n") { bytes.len() - 1 } else { bytes.len() };
        for cut in 0..end {
            let given = read(dialect, [&bytes.as_bytes()[..cut]]);
            assert_eq!(given, Err(Trouble::CutShort), "{dialect} cut off at {cut} of {}", bytes.len());
        }
    }
}

#[test]
fn an_end_of_another_dialect_is_none() {
    for dialect in Dialect::ALL {
        for other in Dialect::ALL.into_iter().filter(|other| *other != dialect) {
            let events = Speech::new(TEXT).events(other);
            assert!(read(dialect, [events.as_bytes()]).is_err(), "{other} read as {dialect}");
        }
    }
}

#[test]
fn what_never_ends_is_given_up() {
    let mut reading = Reading::new(host(), Dialect::Chat);
    let blanks = vec![b' '; 1 << 20];
    reading.feed(b"{").unwrap();
    let trouble = (0..100).find_map(|_| reading.feed(&blanks).err());
    assert!(matches!(trouble, Some(Trouble::Garbled(_))), "{trouble:?}");
}
