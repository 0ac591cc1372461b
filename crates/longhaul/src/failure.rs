//! The failures with which a command can end, by exit code.

use std::fmt::{self, Display};

use serde_json::{Value, json};

/// A failure with one exit code for each variant. The text is one line in lower case: what happened, to what,
/// what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A negative result, such as a failed check or nothing found: exit code 1.
    Negative(String),
    /// Wrong arguments or wrong input: exit code 2.
    InvalidInput(String),
    /// An I/O error of the disk or the network, or an internal error: exit code 3.
    System(String),
}

impl Failure {
    /// Returns the exit code of the process, which is never 0.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Negative(_) => 1,
            Failure::InvalidInput(_) => 2,
            Failure::System(_) => 3,
        }
    }
}

impl Failure {
    /// Returns the failure as JSON for programs.
    pub(crate) fn to_json(&self) -> Value {
        json!({ "error": { "message": self.to_string(), "exit": self.exit_code() } })
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Negative(text) | Failure::InvalidInput(text) | Failure::System(text) => f.write_str(text),
        }
    }
}
