//! Files of one record a line, of any size: a pass over all of them, and a second one over those that were chosen.
//!
//! ```text
//! file ──unpack──▶ each: a line at a time, in one buffer ──▶ the format keeps where the lines are that it wants
//!                  again: those lines only, in their order
//! ```
//!
//! An agent may be writing while it is read: what stands after the last line end and is no record yet is left for next time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::Unread;

/// How much is read at a time.
const CHUNK: usize = 1 << 18;

/// A line of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'l> {
    /// Where it is.
    pub(super) at: LineAt,
    /// What it says, without its end.
    pub(super) text: &'l str,
}

/// Where a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineAt {
    /// The byte that it begins with, once unpacked.
    pub(super) start: u64,
    /// How many bytes it has.
    pub(super) length: usize,
    /// Its number, from 1.
    pub(super) number: usize,
}

/// What was wrong with lines, in words.
#[derive(Debug, Default)]
struct Damage {
    lines: Vec<usize>,
    cut: Option<usize>,
    ended: Option<String>,
}

/// Gives every line that is not blank to `take`, which says whether it could read it. What is wrong with the file comes back
/// in words; it is no reason to stop.
pub(super) fn each<E>(
    path: &Path,
    mut take: impl FnMut(Line<'_>) -> Result<(), E>,
) -> Result<Vec<String>, Unread> {
    let damage = each_of(&mut open(path)?, &mut take).map_err(|error| unreadable(path, &error))?;
    Ok(damage.words())
}

/// Reads up to the first end of the source. A line without a line end is the last one, even if the agent has written its rest by
/// then: read on, that rest would pass for a damaged line, and the turns after it would hang on nothing.
fn each_of<E>(
    from: &mut impl BufRead,
    take: &mut impl FnMut(Line<'_>) -> Result<(), E>,
) -> io::Result<Damage> {
    let mut damage = Damage::default();
    let mut buffer = Vec::new();
    let mut at = LineAt { start: 0, length: 0, number: 0 };
    loop {
        buffer.clear();
        match from.read_until(b'\n', &mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if damaged(&error) => damage.ended = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        at = LineAt { start: at.start, length: buffer.len(), number: at.number + 1 };
        let whole = buffer.ends_with(b"\n");
        if !read_line(at, &buffer, take) {
            if whole { damage.lines.push(at.number) } else { damage.cut = Some(at.number) }
        }
        at.start += buffer.len() as u64;
        if !whole {
            break;
        }
    }
    Ok(damage)
}

/// Whether a line could be read; nothing is to be read of a blank one.
fn read_line<E>(at: LineAt, bytes: &[u8], take: &mut impl FnMut(Line<'_>) -> Result<(), E>) -> bool {
    let bare = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii();
    if bare.is_empty() {
        return true;
    }
    std::str::from_utf8(bare).is_ok_and(|text| take(Line { at, text }).is_ok())
}

/// Gives the lines at `wanted`, in the order of the file.
pub(super) fn again<E>(
    path: &Path,
    wanted: &mut [LineAt],
    mut take: impl FnMut(Line<'_>) -> Result<(), E>,
) -> Result<(), Unread> {
    wanted.sort_unstable();
    let mut from = open(path)?;
    let mut here = 0;
    let mut buffer = Vec::new();
    for at in wanted {
        let changed = || Unread::World(format!("{} changed while it was read; try again", path.display()));
        from.skip(at.start - here).map_err(|_| changed())?;
        buffer.resize(at.length, 0);
        from.read_exact(&mut buffer).map_err(|_| changed())?;
        here = at.start + at.length as u64;
        if !read_line(*at, &buffer, &mut take) {
            return Err(changed());
        }
    }
    Ok(())
}

/// The first bytes of a file, unpacked.
pub(super) fn head(path: &Path, length: usize) -> Result<Vec<u8>, Unread> {
    let mut head = Vec::new();
    match open(path)?.take(length as u64).read_to_end(&mut head) {
        Ok(_) => Ok(head),
        // What could be unpacked is enough to look at.
        Err(error) if damaged(&error) => Ok(head),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// The whole of a file, unpacked; for formats that are one document.
pub(super) fn whole(path: &Path) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|error| {
        if damaged(&error) {
            Unread::Wrong(format!("{} cannot be unpacked: {error}", path.display()))
        } else {
            unreadable(path, &error)
        }
    })?;
    Ok(bytes)
}

/// Why it cannot be read, in one line.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> Unread {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Unread::Wrong(format!("{shown} does not exist; check the path"))
        }
        _ => Unread::World(format!("cannot read {shown}: {error}")),
    }
}

/// A file as its bytes, unpacked if it is packed: by its first bytes, whatever its name says.
enum Source {
    Plain(BufReader<File>),
    Packed(Box<dyn BufRead>),
}

fn open(path: &Path) -> Result<Source, Unread> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut file = BufReader::with_capacity(CHUNK, file);
    let head = file.fill_buf().map_err(|error| unreadable(path, &error))?;
    if head.starts_with(&[0x1f, 0x8b]) {
        let unpacked = MultiGzDecoder::new(file);
        return Ok(Source::Packed(Box::new(BufReader::with_capacity(CHUNK, unpacked))));
    }
    if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let unpacked = StreamingDecoder::new(file)
            .map_err(|error| Unread::Wrong(format!("{} cannot be unpacked: {error}", path.display())))?;
        return Ok(Source::Packed(Box::new(BufReader::with_capacity(CHUNK, unpacked))));
    }
    Ok(Source::Plain(file))
}

impl Source {
    /// Passes over so many bytes: a packed file has to be unpacked for that.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.seek_relative(i64::try_from(bytes).map_err(io::Error::other)?),
            Self::Packed(from) => {
                let passed = io::copy(&mut from.take(bytes), &mut io::sink())?;
                if passed == bytes { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
            }
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Packed(from) => from.read(buffer),
        }
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Plain(file) => file.fill_buf(),
            Self::Packed(from) => from.fill_buf(),
        }
    }

    fn consume(&mut self, amount: usize) {
        match self {
            Self::Plain(file) => file.consume(amount),
            Self::Packed(from) => from.consume(amount),
        }
    }
}

/// Whether it is the packing that is damaged, and not the disk.
fn damaged(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other
    )
}

impl Damage {
    fn words(self) -> Vec<String> {
        let mut words = Vec::new();
        match self.lines.as_slice() {
            [] => {}
            [one] => words.push(format!("line {one} is no record and was skipped")),
            [first, ..] => {
                words.push(format!(
                    "{} lines are no records and were skipped, the first is line {first}",
                    self.lines.len()
                ));
            }
        }
        if let Some(ended) = self.ended {
            words.push(format!(
                "the file cannot be unpacked to its end ({ended}); what comes before was read"
            ));
        } else if let Some(line) = self.cut {
            words.push(format!("line {line}, the last, is cut short and was skipped"));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file whose writer goes on each time that its reader has met the end.
    struct Growing(Vec<&'static [u8]>);

    impl Read for Growing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let part = self.0.remove(0);
            buffer[..part.len()].copy_from_slice(part);
            Ok(part.len())
        }
    }

    #[test]
    fn a_line_that_is_finished_while_it_is_read_is_left_for_the_next_time() {
        let mut file = BufReader::new(Growing(vec![b"{\"n\":1}\n{\"n\"", b"", b":2}\n{\"n\":3}\n"]));
        let mut seen = Vec::new();
        let damage = each_of(&mut file, &mut |line: Line<'_>| {
            serde_json::from_str::<serde_json::Value>(line.text).map(|record| seen.push(record["n"].clone()))
        })
        .unwrap();
        assert_eq!(seen, [1], "record 3 hangs on record 2, which is not whole yet");
        assert_eq!((damage.lines, damage.cut), (vec![], Some(2)));
    }
}
