//! A file and what became of it: a line of Relevant Files.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use crate::redact::Redacted;

/// Between the path and what is said of it.
const DASH: &str = " — ";

/// A file and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNote {
    path: Redacted,
    what: Redacted,
}

impl FileNote {
    /// A note; a dash in the path becomes a shorter one, for the first long one ends it.
    #[must_use]
    pub fn new(path: &Redacted, what: Redacted) -> Self {
        Self { path: path.with(DASH, " – ").on_one_line(usize::MAX), what }
    }

    /// The line, all of whose parts are redacted.
    #[must_use]
    pub fn line(&self) -> Redacted {
        match self.what.as_str() {
            "" => self.path.clone(),
            _ => self.path.clone().and_own(DASH).and(&self.what),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// What became of it.
    #[must_use]
    pub fn what(&self) -> &str {
        self.what.as_str()
    }
}

impl fmt::Display for FileNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.line().as_str())
    }
}

/// Reads back what was written, which was redacted then.
impl FromStr for FileNote {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let (path, what) = text.split_once(DASH).unwrap_or((text, ""));
        let stored = |text: &str| Redacted::from_store(text.to_owned());
        Ok(Self { path: stored(path), what: stored(what) })
    }
}
