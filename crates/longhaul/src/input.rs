//! Reading what a command works on: a file, or standard input for `-`.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::failure::Failure;

/// The whole of it, as text. A byte-order mark stays, because the output must be able to equal the input.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    let shown = shown(path);
    let bytes = read_bytes(path)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(Failure::Wrong(format!("{shown} is gzip-compressed; unpack it first")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::Wrong(format!("{shown} is not UTF-8 (byte {at}); convert it first"))
    })
}

/// The whole of it, whatever it is: bytes that are no text become replacement characters, as they do in a tool's output.
pub(crate) fn read_any(path: &Path) -> Result<String, Failure> {
    let bytes = read_bytes(path)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// How messages name an input.
pub(crate) fn shown(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

/// It as a stream of bytes, for what can be larger than memory.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    File::open(path).map(|file| Box::new(file) as Box<dyn Read>).map_err(|error| unreadable(path, &error))
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

/// Why it cannot be read, in one line.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    let shown = shown(path);
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
            Failure::Wrong(format!("{shown} does not exist; check the path"))
        }
        ErrorKind::IsADirectory => Failure::Wrong(format!("{shown} is a directory; name a file in it")),
        ErrorKind::InvalidInput => Failure::Wrong(format!("{shown} is not a file name; check the path")),
        _ => Failure::World(format!("cannot read {shown}: {error}")),
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
        for (name, bytes, said) in cases {
            let path = file(name, bytes);
            let failure = read_text(&path).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            assert!(failure.to_string().contains(said), "{failure}");
            assert!(!failure.to_string().contains('\n'));
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn a_missing_file_and_a_directory_are_told_apart() {
        let missing = read_text(Path::new("no-such-file.json")).unwrap_err();
        assert_eq!(missing, Failure::Wrong("no-such-file.json does not exist; check the path".to_owned()));
        let directory = read_text(&std::env::temp_dir()).unwrap_err();
        assert!(directory.to_string().contains("is a directory"), "{directory}");
        assert_eq!(directory.exit_code(), 2);
    }
}
