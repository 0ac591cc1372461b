//! Writing what a command gives: to a file, or to standard output.

use std::fs;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::path::{Path, PathBuf};

use anstream::{AutoStream, ColorChoice, adapter};
pub(crate) use longhaul_engine::tokens::grouped;
use serde::Serialize;

use crate::failure::Failure;

/// Writes all of it. A reader that went away, as `head` does, has what it wanted: that is no failure.
pub(crate) fn write(file: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    let Some(file) = file else {
        let mut out = stdout().lock();
        return match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::World(format!("cannot write to standard output: {error}")))
            }
            _ => Ok(()),
        };
    };
    let mut sink = Sink::open(Some(file))?;
    sink.write(bytes)?;
    sink.close()
}

/// The file beside another in which it is written, until it is whole: a reader of the target may be its writer's input, and
/// a disk may be full.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    file.with_file_name(name)
}

/// Whether a file can be replaced by renaming; devices and pipes are written as they are.
fn is_replaceable(file: &Path) -> bool {
    fs::metadata(file).map_or(true, |there| there.is_file())
}

/// Makes a directory, and those that it is in, if it is not there.
pub(crate) fn make_directory(directory: &Path) -> Result<(), Failure> {
    let shown = directory.display();
    fs::create_dir_all(directory).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            Failure::Wrong(format!("{shown} is or goes through a file; name a directory"))
        }
        _ => Failure::World(format!("cannot make {shown}: {error}")),
    })
}

fn unwritable(file: &Path, error: &std::io::Error) -> Failure {
    let shown = file.display();
    match error.kind() {
        ErrorKind::IsADirectory => Failure::Wrong(format!("{shown} is a directory; name a file in it")),
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Failure::Wrong(format!("{shown} is in no existing directory; make it first"))
        }
        _ => Failure::World(format!("cannot write {shown}: {error}")),
    }
}

/// Where a command writes piece by piece.
pub(crate) struct Sink<'p> {
    file: Option<&'p Path>,
    /// Nothing once the reader has gone away.
    to: Option<Box<dyn Write>>,
}

impl<'p> Sink<'p> {
    pub(crate) fn open(file: Option<&'p Path>) -> Result<Self, Failure> {
        let to: Box<dyn Write> = match file {
            None => Box::new(stdout().lock()),
            Some(path) if path.is_dir() => {
                return Err(unwritable(path, &ErrorKind::IsADirectory.into()));
            }
            Some(path) => {
                let part = if is_replaceable(path) { beside(path) } else { path.to_owned() };
                Box::new(fs::File::create(part).map_err(|error| unwritable(path, &error))?)
            }
        };
        Ok(Self { file, to: Some(to) })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let Some(to) = &mut self.to else { return Ok(()) };
        let done = to.write_all(bytes);
        self.check(done)
    }

    /// Whether nobody reads any more.
    pub(crate) fn is_deserted(&self) -> bool {
        self.to.is_none()
    }

    pub(crate) fn close(mut self) -> Result<(), Failure> {
        let Some(to) = &mut self.to else { return Ok(()) };
        let done = to.flush();
        self.check(done)?;
        self.to = None;
        match self.file.filter(|file| is_replaceable(file)) {
            Some(file) => fs::rename(beside(file), file).map_err(|error| unwritable(file, &error)),
            None => Ok(()),
        }
    }

    fn check(&mut self, done: std::io::Result<()>) -> Result<(), Failure> {
        match (done, self.file) {
            (Ok(()), _) => Ok(()),
            (Err(error), None) if error.kind() == ErrorKind::BrokenPipe => {
                self.to = None;
                Ok(())
            }
            (Err(error), None) => Err(Failure::World(format!("cannot write to standard output: {error}"))),
            (Err(error), Some(file)) => Err(unwritable(file, &error)),
        }
    }
}

/// What was not closed is not wanted.
impl Drop for Sink<'_> {
    fn drop(&mut self) {
        if let (Some(_), Some(file)) = (self.to.take(), self.file.filter(|file| is_replaceable(file))) {
            let _ = fs::remove_file(beside(file));
        }
    }
}

/// Writes a value as JSON, for programs that like lines to end.
pub(crate) fn write_json(file: Option<&Path>, value: &impl Serialize) -> Result<(), Failure> {
    write(file, json(value, Layout::Page)?.as_bytes())
}

/// How JSON is laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// For people to read, too.
    Page,
    /// One line a value.
    Line,
}

/// A value as JSON, with the end of its last line.
pub(crate) fn json(value: &impl Serialize, layout: Layout) -> Result<String, Failure> {
    let text = match layout {
        Layout::Page => serde_json::to_string_pretty(value),
        Layout::Line => serde_json::to_string(value),
    };
    text.map(|text| text + "\n")
        .map_err(|error| Failure::World(format!("cannot write the answer as JSON: {error}")))
}

/// Says one line to the person at the terminal. That nobody listens is no reason to stop.
pub(crate) fn say(line: &str) {
    let _ = writeln!(stderr().lock(), "longhaul: {}", printable(line));
}

/// A text without what a terminal would obey: names out of a body are somebody else's words.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Shows styled lines to the person at the terminal; plain ones where there is no terminal.
pub(crate) fn show(styled: &str, color: ColorChoice) {
    let _ = AutoStream::new(stderr().lock(), color).write_all(styled.as_bytes());
}

/// Styled lines as they are written to a file or to standard output; a file gets them plain unless colour was asked for.
pub(crate) fn painted(styled: String, file: Option<&Path>, color: ColorChoice) -> String {
    let choice = match (color, file) {
        (ColorChoice::Auto, None) => AutoStream::choice(&stdout()),
        (ColorChoice::Auto, Some(_)) => ColorChoice::Never,
        (told, _) => told,
    };
    if choice == ColorChoice::Never { adapter::strip_str(&styled).to_string() } else { styled }
}

/// Columns padded to the widest cell, two spaces apart.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: Vec<usize> =
        (0..N).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(width - cell.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_space() {
        let rows = [["a", "bb", ""], ["ccc", "é", "d"]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a    bb\nccc  é   d\n");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_a_wrong_call() {
        assert_eq!(write(Some(&std::env::temp_dir()), b"").unwrap_err().exit_code(), 2);
        assert_eq!(write(Some(Path::new("no/such/folder/x")), b"").unwrap_err().exit_code(), 2);
    }
}
