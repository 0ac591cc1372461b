//! A line of the section Relevant Files: a path and what happened to the file.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use crate::redact::Redacted;

/// Separates the path from the status.
const STATUS_SEPARATOR: &str = " — ";

/// A path with its status, such as `edited 3 times`. It renders as one line and parses back into the same
/// value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNote {
    path: Redacted,
    status: Redacted,
}

impl FileNote {
    /// Builds a note. The separator inside the path is replaced by a shorter dash, because the first
    /// separator ends the path.
    #[must_use]
    pub fn new(path: &Redacted, what: Redacted) -> Self {
        Self { path: path.replace_with_literal(STATUS_SEPARATOR, " – ").one_line(usize::MAX), status: what }
    }

    /// Returns the line. It needs no redaction, because all of its parts are redacted.
    #[must_use]
    pub fn to_line(&self) -> Redacted {
        match self.status.as_str() {
            "" => self.path.clone(),
            _ => self.path.clone().append_literal(STATUS_SEPARATOR).append(&self.status),
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// Returns what happened to the file, or an empty string if the line had no status.
    #[must_use]
    pub fn status(&self) -> &str {
        self.status.as_str()
    }
}

impl fmt::Display for FileNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_line().as_str())
    }
}

/// Parses what `Display` writes. The text was redacted when it was written.
impl FromStr for FileNote {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (path, what) = text.split_once(STATUS_SEPARATOR).unwrap_or((text, ""));
        let stored = |text: &str| Redacted::assume_redacted(text.to_owned());
        Ok(Self { path: stored(path), status: stored(what) })
    }
}
