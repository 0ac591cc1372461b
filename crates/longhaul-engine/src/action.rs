//! What an exchange did.

/// What an exchange did, read once from its tool's name, its arguments and its results.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// The tool as the agent writes it.
    pub tool: String,
    /// What it did.
    pub verb: Verb,
    /// What a reader would name: path, command on one line, query, address.
    pub target: Option<String>,
    /// The files it touched.
    pub files: Vec<Touch>,
    /// The range that a read asked for.
    pub lines: Option<(usize, usize)>,
    /// How it came out.
    pub outcome: Outcome,
    /// The exit status.
    pub exit: Option<i64>,
    /// The counts of a test run.
    pub tests: Option<TestCounts>,
}

/// What kind of thing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Verb {
    Read,
    Write,
    Edit,
    Search,
    List,
    Run,
    Fetch,
    Browse,
    Delegate,
    Note,
    Other,
}

/// A file and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touch {
    /// The file.
    pub path: String,
    /// What was done.
    pub how: Touched,
}

/// What was done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Touched {
    Read,
    Created,
    Edited,
    Deleted,
}

/// How an exchange came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Outcome {
    Succeeded,
    Failed,
    Unknown,
    Unanswered,
}

/// The counts of a test run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct TestCounts {
    pub passed: usize,
    pub failed: usize,
}
