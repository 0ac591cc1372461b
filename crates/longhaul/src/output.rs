//! Writing what a command gives: data to a file or to standard output as it is, words to people through a page.

use std::io::{ErrorKind, Write, stderr, stdout};
use std::path::Path;

use anstream::{AutoStream, ColorChoice};
pub(crate) use longhaul_engine::tokens::grouped;
use serde::Serialize;

use crate::failure::Failure;
pub(crate) use append::{Readers, append};
pub(crate) use page::{AWAY, BAD, FAINT, FAIR, GOOD, Line, Page, Paint, STRONG, printable};
pub(crate) use places::{Places, refuse_inputs};
pub(crate) use sink::{Sink, unwritable};

mod append;
mod page;
mod places;
mod sink;

/// Writes all of it. A reader that went away, as `head` does, has what it wanted: that is no failure.
pub(crate) fn write(file: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    if file.is_none() {
        let mut out = stdout().lock();
        return match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::World(format!("cannot write to standard output: {error}")))
            }
            _ => Ok(()),
        };
    }
    let mut sink = Sink::open(file)?;
    sink.write(bytes)?;
    sink.close()
}

/// Makes a directory, and those that it is in, if it is not there.
pub(crate) fn make_directory(directory: &Path) -> Result<(), Failure> {
    let shown = directory.display();
    std::fs::create_dir_all(directory).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            Failure::Wrong(format!("{shown} is or goes through a file; name a directory"))
        }
        _ => Failure::World(format!("cannot make {shown}: {error}")),
    })
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
    let mut page = Page::default();
    page.line(Line::from("longhaul: ").plain(line));
    show(&page);
}

/// The same of what went wrong.
pub(crate) fn say_failure(line: &str) {
    let mut page = Page::default();
    page.line(Line::from("longhaul: ").styled(BAD, line));
    show(&page);
}

/// Shows a page to the person at the terminal, on standard error.
pub(crate) fn show(page: &Page) {
    let choice = AutoStream::choice(&stderr());
    let _ = stderr().lock().write_all(page.render(paint(choice)).as_bytes());
}

/// Writes a page where the answer goes.
pub(crate) fn give(file: Option<&Path>, page: &Page) -> Result<(), Failure> {
    write(file, painted(file, page).as_bytes())
}

/// A page as it is written to standard output or a file; a file gets it plain unless colour was asked for.
pub(crate) fn painted(file: Option<&Path>, page: &Page) -> String {
    let choice = match (ColorChoice::global(), file) {
        (ColorChoice::Auto, Some(_)) => ColorChoice::Never,
        _ => AutoStream::choice(&stdout()),
    };
    page.render(paint(choice))
}

fn paint(choice: ColorChoice) -> Paint {
    if choice == ColorChoice::Never { Paint::Plain } else { Paint::Coloured }
}
