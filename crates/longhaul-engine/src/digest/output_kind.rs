//! The kinds of tool output.

use serde::{Deserialize, Serialize};

/// A kind of tool output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutputKind {
    /// Images and other data that is not text.
    Binary,
    /// A JSON document, or one document on each line.
    Json,
    /// A diff or patch, with or without commits.
    Diff,
    /// A web page or an accessibility tree.
    Html,
    /// The output of a compiler, linter or package manager.
    Build,
    /// The results of a search in files or on the web.
    #[serde(rename = "search-results")]
    Search,
    /// The report of a test runner.
    Tests,
    /// A table of rows and columns.
    Table,
    /// A list of files and folders.
    Listing,
    /// Lines with a time or a log level.
    Log,
    /// Source code.
    Source,
    /// Text in sentences.
    Prose,
    /// Any other output of a program.
    Output,
}

/// Whether an output reports about its own run or shows existing content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputOrigin {
    /// The output of a program that ran: failing tests and error totals are its own.
    Run,
    /// Content that was read: failures in it are not failures of this call.
    Read,
}
