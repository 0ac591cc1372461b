//! Why a command ended without doing its work, by exit code.

use std::fmt::{self, Display};

use serde_json::{Value, json};

/// Each variant is one exit code. The text is one line, lower case: what, where, what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The answer is no: exit code 1.
    No(String),
    /// The call or its input is wrong: exit code 2.
    Wrong(String),
    /// An I/O error, of the disk or the network: exit code 3.
    World(String),
}

impl Failure {
    /// What the process ends with. 0 is success.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::No(_) => 1,
            Failure::Wrong(_) => 2,
            Failure::World(_) => 3,
        }
    }
}

impl Failure {
    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        json!({ "error": { "message": self.to_string(), "exit": self.exit_code() } })
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::No(text) | Failure::Wrong(text) | Failure::World(text) => f.write_str(text),
        }
    }
}
