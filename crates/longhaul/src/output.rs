//! Writes the result of a command: data as bytes to a file or standard output, text for people as a [`Page`]
//! that escapes control characters.

use std::io::{ErrorKind, Write, stderr, stdout};
use std::path::Path;

use anstream::{AutoStream, ColorChoice};
pub(crate) use longhaul_engine::tokens::group_digits;
use serde::Serialize;

use crate::failure::Failure;
pub(crate) use append::{FileAccess, append_lines};
pub(crate) use overwrite_guard::{OverwriteGuard, refuse_overwriting_inputs};
pub(crate) use page::{
    ColorMode, EMPHASIS_STYLE, ERROR_STYLE, Page, RECALLABLE_STYLE, SECONDARY_STYLE, SUCCESS_STYLE, StyledLine,
    WARNING_STYLE, escape_controls,
};
pub(crate) use writer::{OutputWriter, write_failure};

mod append;
mod overwrite_guard;
mod page;
mod writer;

/// Writes all bytes to a file, or to standard output without one. A closed pipe is not a failure: a reader
/// such as `head` has read what it needs.
pub(crate) fn write(file: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    if file.is_none() {
        let mut out = stdout().lock();
        return match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::System(format!("cannot write to standard output: {error}")))
            }
            _ => Ok(()),
        };
    }
    let mut sink = OutputWriter::open(file)?;
    sink.write(bytes)?;
    sink.close()
}

/// Creates a directory and its parents, if they do not exist.
pub(crate) fn create_directory(directory: &Path) -> Result<(), Failure> {
    let shown = directory.display();
    std::fs::create_dir_all(directory).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
            Failure::InvalidInput(format!("{shown} is a file, or its path contains one; name a directory"))
        }
        _ => Failure::System(format!("cannot create {shown}: {error}")),
    })
}

/// Writes a value as indented JSON that ends with a newline.
pub(crate) fn write_json(file: Option<&Path>, value: &impl Serialize) -> Result<(), Failure> {
    write(file, to_json(value, JsonLayout::Pretty)?.as_bytes())
}

/// The layout of JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonLayout {
    /// Indented, so that people can read it too.
    Pretty,
    /// One value per line.
    Compact,
}

/// Returns a value as JSON that ends with a newline.
pub(crate) fn to_json(value: &impl Serialize, layout: JsonLayout) -> Result<String, Failure> {
    let text = match layout {
        JsonLayout::Pretty => serde_json::to_string_pretty(value),
        JsonLayout::Compact => serde_json::to_string(value),
    };
    text.map(|text| text + "\n").map_err(|error| Failure::System(format!("cannot write the result as JSON: {error}")))
}

/// Formats a count with its noun: `1 request`, `3 requests`.
pub(crate) fn pluralize(count: usize, noun: &str) -> String {
    if count == 1 {
        return format!("1 {noun}");
    }
    let number = group_digits(count as u64);
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

/// Prints one line for people on standard error, after `longhaul: `. An error of the terminal is ignored.
pub(crate) fn print_message(line: &str) {
    let mut page = Page::default();
    page.add_line(StyledLine::from("longhaul: ").plain(line));
    print_page(&page);
}

/// Prints a failure like [`print_message`], in the style for errors.
pub(crate) fn print_failure(line: &str) {
    let mut page = Page::default();
    page.add_line(StyledLine::from("longhaul: ").styled(ERROR_STYLE, line));
    print_page(&page);
}

/// Prints a page on standard error. An error of the terminal is ignored.
pub(crate) fn print_page(page: &Page) {
    let choice = AutoStream::choice(&stderr());
    let _ = stderr().lock().write_all(page.render(color_mode(choice)).as_bytes());
}

/// Writes a page to a file, or to standard output without one.
pub(crate) fn write_page(file: Option<&Path>, page: &Page) -> Result<(), Failure> {
    write(file, render_page(file, page).as_bytes())
}

/// Renders a page for standard output or a file. A file gets no colors, unless the user asked for them.
pub(crate) fn render_page(file: Option<&Path>, page: &Page) -> String {
    let choice = match (ColorChoice::global(), file) {
        (ColorChoice::Auto, Some(_)) => ColorChoice::Never,
        _ => AutoStream::choice(&stdout()),
    };
    page.render(color_mode(choice))
}

fn color_mode(choice: ColorChoice) -> ColorMode {
    if choice == ColorChoice::Never { ColorMode::Plain } else { ColorMode::Colored }
}
