//! The words around a checkpoint that tell a model what it is.

use std::fmt;

/// What opens the text of a checkpoint, the block that an earlier compaction left in place of older units.
pub const CHECKPOINT_OPENING: &str = "[Longhaul checkpoint";

/// How the end mark begins, in every form.
pub const END_OPENING: &str = "[End of the checkpoint";

/// Where the request is that the agent works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// In the newest user message, below the checkpoint.
    RequestFollows,
    /// In a user message above the checkpoint.
    RequestAbove,
    /// In no user message that is known.
    None,
}

/// The line that opens a checkpoint. Plain statements: orders to ignore things make content filters suspicious.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Where the request is.
    pub closing: Closing,
    /// The files of standing memory that the system prompt names.
    pub memory: Vec<String>,
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CHECKPOINT_OPENING}: a handover in place of earlier messages, for reference. ")?;
        f.write_str("The requests in it are earlier ones; the system prompt")?;
        if !self.memory.is_empty() {
            write!(f, " ({})", self.memory.join(", "))?;
        }
        f.write_str(" stays in force; work done need not be repeated.")?;
        match self.closing {
            Closing::RequestFollows => {
                f.write_str(" The request follows: answer the newest user message below.")?;
            }
            Closing::RequestAbove => {
                f.write_str(" The request stands above and is being worked on: go on from the state below.")?;
            }
            Closing::None => {}
        }
        f.write_str("]")
    }
}

impl Marker {
    /// The line that closes a checkpoint.
    #[must_use]
    pub fn end(&self) -> String {
        let go_on = match self.closing {
            Closing::RequestFollows => ": answer the message below, not the summary above",
            Closing::RequestAbove => ": go on with the request, not with the summary above",
            Closing::None => "",
        };
        format!("{END_OPENING}{go_on}.]")
    }
}
