//! What tool outputs there are.

use serde::{Deserialize, Serialize};

/// The kind of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Images and other bytes.
    Binary,
    /// A JSON document, or one a line.
    Json,
    /// A diff or patch, with or without commits.
    Diff,
    /// Web pages and accessibility trees.
    Html,
    /// Compilers, linters and package managers.
    Build,
    /// What a search found, in files or on the web.
    #[serde(rename = "search-results")]
    Search,
    /// A test runner's report.
    Tests,
    /// Rows and columns.
    Table,
    /// Names of files and folders.
    Listing,
    /// Lines with a time or a level.
    Log,
    /// A file of code.
    Source,
    /// Sentences.
    Prose,
    /// Anything else that a program prints.
    Output,
}

/// What an output is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Of something that ran: failing tests and error totals in it are its own.
    Run,
    /// Of something that was read: what it says about failing, it says about something else.
    Read,
}
