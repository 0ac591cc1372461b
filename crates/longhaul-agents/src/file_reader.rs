//! Reads files of any size, compressed or not. Files with one record per line are read in two passes:
//!
//! ```text
//! file ──decompress──▶ for_each_line: one line at a time, in one buffer ──▶ the caller notes the positions of the lines it needs
//!                      reread_lines: only those lines, in file order
//! ```
//!
//! An agent can be writing the file at the same time: an incomplete last line is skipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::SessionReadError;

/// The buffer size for reading files and for decompression, in bytes. Chosen by hand: 256 KiB.
const BUFFER_BYTES: usize = 1 << 18;

/// One line of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'l> {
    /// The line's position in the file.
    pub(super) position: LinePosition,
    /// The text without the line end and without surrounding white space.
    pub(super) text: &'l str,
}

/// The position of a line in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinePosition {
    /// The offset of the first byte, after decompression.
    pub(super) start: u64,
    /// The length in bytes, with the line end.
    pub(super) length: usize,
    /// The line number, from 1.
    pub(super) number: usize,
}

/// The problems that were found in the lines of a file.
#[derive(Debug, Default)]
struct LineDamage {
    skipped_lines: Vec<usize>,
    truncated_line: Option<usize>,
    decompression_error: Option<String>,
}

/// Calls `take` for every line that is not blank; `take` returns an error if it cannot parse the line.
/// Returns the problems with the file as warnings, because damaged lines do not stop the pass.
pub(super) fn for_each_line<E>(
    path: &Path,
    mut take: impl FnMut(Line<'_>) -> Result<(), E>,
) -> Result<Vec<String>, SessionReadError> {
    let damage = for_each_line_in(&mut open(path)?, &mut take).map_err(|error| read_error(path, &error))?;
    Ok(damage.into_warnings())
}

/// Reads until the source first reports its end. A line without a line end is the last one that
/// is read, even if the agent completes it in the meantime. The rest of that line would look like a damaged
/// line, and the records after it would refer to a missing parent.
fn for_each_line_in<E>(
    from: &mut impl BufRead,
    take: &mut impl FnMut(Line<'_>) -> Result<(), E>,
) -> io::Result<LineDamage> {
    let mut damage = LineDamage::default();
    let mut buffer = Vec::new();
    let mut at = LinePosition { start: 0, length: 0, number: 0 };
    loop {
        buffer.clear();
        match from.read_until(b'\n', &mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if is_decompression_error(&error) => {
                damage.decompression_error = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        at = LinePosition { start: at.start, length: buffer.len(), number: at.number + 1 };
        let whole = buffer.ends_with(b"\n");
        if !parse_line(at, &buffer, take) {
            if whole { damage.skipped_lines.push(at.number) } else { damage.truncated_line = Some(at.number) }
        }
        at.start += buffer.len() as u64;
        if !whole {
            break;
        }
    }
    Ok(damage)
}

/// Passes a line to `take` and returns whether it could be parsed. Blank lines count as parsed.
fn parse_line<E>(at: LinePosition, bytes: &[u8], take: &mut impl FnMut(Line<'_>) -> Result<(), E>) -> bool {
    let bare = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii();
    if bare.is_empty() {
        return true;
    }
    std::str::from_utf8(bare).is_ok_and(|text| take(Line { position: at, text }).is_ok())
}

/// Calls `take` for the lines at `wanted`, in file order. Fails if the file was changed since the first pass.
pub(super) fn reread_lines<E>(
    path: &Path,
    wanted: &mut [LinePosition],
    mut take: impl FnMut(Line<'_>) -> Result<(), E>,
) -> Result<(), SessionReadError> {
    wanted.sort_unstable();
    let mut from = open(path)?;
    let mut here = 0;
    let mut buffer = Vec::new();
    for at in wanted {
        let changed = || SessionReadError::Io(format!("{} changed while it was read; try again", path.display()));
        from.skip(at.start - here).map_err(|_| changed())?;
        buffer.resize(at.length, 0);
        from.read_exact(&mut buffer).map_err(|_| changed())?;
        here = at.start + at.length as u64;
        if !parse_line(*at, &buffer, &mut take) {
            return Err(changed());
        }
    }
    Ok(())
}

/// Reads the first `length` bytes of a file, after decompression.
pub(super) fn read_head(path: &Path, length: usize) -> Result<Vec<u8>, SessionReadError> {
    let mut head = Vec::new();
    match open(path)?.take(length as u64).read_to_end(&mut head) {
        Ok(_) => Ok(head),
        // The part that could be decompressed is enough to recognize the format.
        Err(error) if is_decompression_error(&error) => Ok(head),
        Err(error) => Err(read_error(path, &error)),
    }
}

/// Reads a whole file and decompresses it, for formats that are a single document.
pub(super) fn read_all(path: &Path) -> Result<Vec<u8>, SessionReadError> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|error| {
        if is_decompression_error(&error) {
            SessionReadError::Invalid(format!("cannot decompress {}: {error}", path.display()))
        } else {
            read_error(path, &error)
        }
    })?;
    Ok(bytes)
}

/// Converts an I/O error to one line for the user.
pub(super) fn read_error(path: &Path, error: &io::Error) -> SessionReadError {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            SessionReadError::Invalid(format!("{shown} does not exist; check the path"))
        }
        _ => SessionReadError::Io(format!("cannot read {shown}: {error}")),
    }
}

/// An open file that decompresses itself. Compression is recognized by the first bytes, not by the file name.
enum InputFile {
    Plain(BufReader<File>),
    Compressed(Box<dyn BufRead>),
}

fn open(path: &Path) -> Result<InputFile, SessionReadError> {
    let file = File::open(path).map_err(|error| read_error(path, &error))?;
    let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
    let head = file.fill_buf().map_err(|error| read_error(path, &error))?;
    if head.starts_with(&[0x1f, 0x8b]) {
        let unpacked = MultiGzDecoder::new(file);
        return Ok(InputFile::Compressed(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked))));
    }
    if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let unpacked = StreamingDecoder::new(file)
            .map_err(|error| SessionReadError::Invalid(format!("cannot decompress {}: {error}", path.display())))?;
        return Ok(InputFile::Compressed(Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacked))));
    }
    Ok(InputFile::Plain(file))
}

impl InputFile {
    /// Skips bytes: seeks in a plain file, and decompresses and discards them in a compressed one.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.seek_relative(i64::try_from(bytes).map_err(io::Error::other)?),
            Self::Compressed(from) => {
                let passed = io::copy(&mut from.take(bytes), &mut io::sink())?;
                if passed == bytes { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
            }
        }
    }
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(file) => file.read(buffer),
            Self::Compressed(from) => from.read(buffer),
        }
    }
}

impl BufRead for InputFile {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Plain(file) => file.fill_buf(),
            Self::Compressed(from) => from.fill_buf(),
        }
    }

    fn consume(&mut self, amount: usize) {
        match self {
            Self::Plain(file) => file.consume(amount),
            Self::Compressed(from) => from.consume(amount),
        }
    }
}

/// Returns whether the compressed data is damaged, as opposed to a failure of the disk.
fn is_decompression_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other
    )
}

impl LineDamage {
    fn into_warnings(self) -> Vec<String> {
        let mut words = Vec::new();
        match self.skipped_lines.as_slice() {
            [] => {}
            [one] => words.push(format!("skipped line {one}, which is not a valid record")),
            [first, ..] => {
                words.push(format!(
                    "skipped {} lines that are not valid records, the first is line {first}",
                    self.skipped_lines.len()
                ));
            }
        }
        if let Some(ended) = self.decompression_error {
            words.push(format!("decompression failed before the end of the file ({ended}); the part before was read"));
        } else if let Some(line) = self.truncated_line {
            words.push(format!("skipped the last line ({line}), which is incomplete"));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file to which a writer appends each time that the reader has reached its end.
    struct GrowingFile(Vec<&'static [u8]>);

    impl Read for GrowingFile {
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
        let mut file = BufReader::new(GrowingFile(vec![b"{\"n\":1}\n{\"n\"", b"", b":2}\n{\"n\":3}\n"]));
        let mut seen = Vec::new();
        let damage = for_each_line_in(&mut file, &mut |line: Line<'_>| {
            serde_json::from_str::<serde_json::Value>(line.text).map(|record| seen.push(record["n"].clone()))
        })
        .unwrap();
        assert_eq!(seen, [1], "record 3 may refer to record 2, which is incomplete");
        assert_eq!((damage.skipped_lines, damage.truncated_line), (vec![], Some(2)));
    }
}
