//! Reads the input of a command: a file, or standard input for `-`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;

use crate::agent_session;
use crate::failure::Failure;

/// Reads the whole input as text. A byte-order mark is kept, so that an unchanged output can equal the input.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    decode_text(&label(path), read_bytes(path)?)
}

/// Decodes bytes as UTF-8. `shown` is their name in messages.
pub(crate) fn decode_text(shown: &str, bytes: Vec<u8>) -> Result<String, Failure> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(Failure::InvalidInput(format!("{shown} is gzip-compressed; unpack it first")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::InvalidInput(format!("{shown} is not UTF-8 (byte {at}); convert it first"))
    })
}

/// Reads the whole input as text and replaces invalid bytes by replacement characters. The second value is
/// the number of bytes, if any byte was invalid.
pub(crate) fn read_lossy(path: &Path) -> Result<(String, Option<usize>), Failure> {
    Ok(match String::from_utf8(read_bytes(path)?) {
        Ok(text) => (text, None),
        Err(error) => {
            let bytes = error.as_bytes();
            (String::from_utf8_lossy(bytes).into_owned(), Some(bytes.len()))
        }
    })
}

/// Returns the name of an input in messages.
pub(crate) fn label(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// Opens the input as a stream of bytes, because it may be larger than memory.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    let open = File::open(path).map(|file| Box::new(file) as Box<dyn Read + Send>);
    open.map_err(|error| read_failure(path, &error))
}

/// The content of an input.
pub(crate) enum InputContent {
    /// One document.
    Single(Vec<u8>),
    /// One document per line.
    Lines(InputLines),
}

/// Finds out whether an input is one document or has one document per line. In the second case, the first
/// line is a whole document and more text follows. A single document never looks like that, because nothing
/// may follow its end. So two lines that are not blank decide.
pub(crate) fn read_single_or_lines(path: &Path) -> Result<InputContent, Failure> {
    let mut lines = InputLines::open(path)?;
    let mut read: Vec<InputLine> = Vec::new();
    while read.iter().filter(|line| !line.is_blank()).count() < 2
        && let Some(line) = lines.next().transpose()?
    {
        read.push(line);
    }
    let mut full = read.iter().filter(|line| !line.is_blank());
    if let (Some(first), Some(_)) = (full.next(), full.next())
        && first.is_json_document()
    {
        let head: Vec<u8> = read.iter().flat_map(|line| &line.bytes).copied().collect();
        agent_session::refuse_piped_session(&label(path), &head)?;
        lines.read_ahead = read.into();
        return Ok(InputContent::Lines(lines));
    }
    let join = |mut all: Vec<u8>, line: Vec<u8>| {
        all.extend(line);
        all
    };
    let mut bytes = read.into_iter().map(|line| line.bytes).reduce(join).unwrap_or_default();
    lines.reader.read_to_end(&mut bytes).map_err(|error| read_failure(path, &error))?;
    Ok(InputContent::Single(bytes))
}

/// One line of an input, with its line end.
pub(crate) struct InputLine {
    /// The line number, from 1.
    pub(crate) number: usize,
    pub(crate) bytes: Vec<u8>,
}

impl InputLine {
    pub(crate) fn is_blank(&self) -> bool {
        self.bytes.trim_ascii().is_empty()
    }

    fn is_json_document(&self) -> bool {
        let bytes = self.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.bytes);
        matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['))
            && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
    }
}

/// The lines of an input, read one by one, because it may be larger than memory.
pub(crate) struct InputLines {
    path: PathBuf,
    reader: BufReader<Box<dyn Read + Send>>,
    read_ahead: VecDeque<InputLine>,
    lines_read: usize,
}

impl InputLines {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let from = BufReader::new(open(path)?);
        Ok(Self { path: path.to_owned(), reader: from, read_ahead: VecDeque::new(), lines_read: 0 })
    }
}

impl Iterator for InputLines {
    type Item = Result<InputLine, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(line) = self.read_ahead.pop_front() {
            return Some(Ok(line));
        }
        let mut bytes = Vec::new();
        match self.reader.read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => {
                self.lines_read += 1;
                Some(Ok(InputLine { number: self.lines_read, bytes }))
            }
            Err(error) => Some(Err(read_failure(&self.path, &error))),
        }
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|error| read_failure(path, &error))?;
    Ok(bytes)
}

/// Explains in one line why an input cannot be read.
pub(crate) fn read_failure(path: &Path, error: &std::io::Error) -> Failure {
    let shown = label(path);
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
            Failure::InvalidInput(format!("{shown} does not exist; check the path"))
        }
        ErrorKind::IsADirectory => Failure::InvalidInput(format!("{shown} is a directory; name a file in it")),
        ErrorKind::InvalidInput => Failure::InvalidInput(format!("{shown} is not a file name; check the path")),
        _ => Failure::System(format!("cannot read {shown}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("longhaul-input-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn text_is_read_as_it_is_with_its_byte_order_mark() {
        for text in ["", "{}", "\u{feff}{\"a\": 1}\r\n"] {
            let path = file("text", text.as_bytes());
            assert_eq!(read_text(&path), Ok(text.to_owned()));
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn what_is_not_text_is_refused_in_one_line() {
        let cases: [(&str, &[u8], &str); 3] = [
            ("gzip", &[0x1f, 0x8b, 8, 0], "gzip-compressed"),
            ("latin", b"caf\xe9", "not UTF-8 (byte 3)"),
            ("cut", b"\xf0\x9f", "not UTF-8 (byte 0)"),
        ];
        for (name, bytes, message) in cases {
            let path = file(name, bytes);
            let failure = read_text(&path).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            assert!(failure.to_string().contains(message), "{failure}");
            assert!(!failure.to_string().contains('\n'));
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_document_a_line_is_told_from_one_document() {
        let cases = [
            ("", None),
            ("{}", None),
            ("{}\n\n", None),
            ("{\n}\n{}\n", None),
            ("{}\n{}", Some(vec!["{}\n", "{}"])),
            ("\n\u{feff}{}\r\n\nnot JSON\n", Some(vec!["\n", "\u{feff}{}\r\n", "\n", "not JSON\n"])),
            ("not JSON\n{}\n", None),
        ];
        for (text, expected) in cases {
            let path = file("lines", text.as_bytes());
            let found = match read_single_or_lines(&path).unwrap_or_else(|failure| panic!("{failure}")) {
                InputContent::Single(bytes) => {
                    assert_eq!(bytes, text.as_bytes());
                    None
                }
                InputContent::Lines(lines) => {
                    let lines = lines.map(|line| String::from_utf8(line.unwrap().bytes).unwrap());
                    Some(lines.collect::<Vec<_>>())
                }
            };
            assert_eq!(found, expected.map(|lines| lines.iter().map(ToString::to_string).collect()), "{text:?}");
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_missing_file_and_a_directory_are_told_apart() {
        let missing = read_text(Path::new("no-such-file.json")).unwrap_err();
        assert_eq!(missing, Failure::InvalidInput("no-such-file.json does not exist; check the path".to_owned()));
        let directory = read_text(&std::env::temp_dir()).unwrap_err();
        assert!(directory.to_string().contains("is a directory"), "{directory}");
        assert_eq!(directory.exit_code(), 2);
    }
}
