//! Why a command ended without doing its work, by exit code.

use std::fmt::{self, Display};

/// Each variant is one exit code. The text is one line, lower case: what, where, what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The call or its input is wrong: exit code 2.
    Wrong(String),
    /// The world failed, the disk or the network: exit code 3.
    World(String),
}

impl Failure {
    /// What the process ends with. 0 is success, and 1 an answer that is no.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Wrong(_) => 2,
            Failure::World(_) => 3,
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Wrong(text) | Failure::World(text) => f.write_str(text),
        }
    }
}
