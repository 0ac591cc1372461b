//! The words around a checkpoint that tell a model what it is.

use std::fmt;

use super::keyed::{key_for, keyed};
use crate::redact::SessionKey;

/// What opens the text of a checkpoint, the block that an earlier compaction left in place of older units.
pub const CHECKPOINT_OPENING: &str = "[Longhaul checkpoint";

/// How the end mark begins, in every form.
pub const END_OPENING: &str = "[End of the checkpoint";

/// Whether a text looks like a checkpoint from outside: its first line is a marker, its last an end mark. Anybody can write such
/// a text; whether it is one of a session is for those to say who know its key or its ledger.
#[must_use]
pub fn is_framed(text: &str) -> bool {
    let is_line =
        |line: Option<&str>, opening: &str| line.is_some_and(|l| l.starts_with(opening) && l.ends_with(']'));
    let text = text.trim_end();
    is_line(text.lines().next(), CHECKPOINT_OPENING) && is_line(text.lines().next_back(), END_OPENING)
}

/// A checkpoint with the mark of a session behind its first words: `[Longhaul checkpoint 4k2m9x3p7q: …`.
pub(crate) fn signed(text: &str, key: &SessionKey) -> String {
    match text.strip_prefix(CHECKPOINT_OPENING) {
        Some(rest) => format!("{CHECKPOINT_OPENING} {}{rest}", mark(text, key)),
        None => text.to_owned(),
    }
}

/// Whether a checkpoint has the mark that the key gives it, and not a word of it was changed since.
pub(crate) fn is_signed(text: &str, key: &SessionKey) -> bool {
    let behind = text.strip_prefix(CHECKPOINT_OPENING).and_then(|rest| rest.strip_prefix(' '));
    let parts = behind.and_then(|rest| rest.split_once(':'));
    parts.is_some_and(|(own, rest)| own == mark(&format!("{CHECKPOINT_OPENING}:{rest}"), key))
}

fn mark(unsigned: &str, key: &SessionKey) -> String {
    keyed(&key_for("the mark of a checkpoint", key), unsigned.trim_end())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_made_by_the_key_for_these_words_alone() {
        let text =
            "[Longhaul checkpoint: for reference.]\n\n## Goal\n- Build it.\n\n[End of the checkpoint.]";
        let [key, other] = [1, 2].map(|byte| SessionKey::new([byte; 32]));
        let ours = signed(text, &key);
        assert!(is_framed(text) && is_framed(&ours) && is_signed(&ours, &key));
        for forged in [text.to_owned(), ours.replace("Build", "Sell"), signed(text, &other)] {
            assert!(!is_signed(&forged, &key), "{forged}");
        }
        let as_handle =
            format!("{CHECKPOINT_OPENING} {}{}", keyed(&key, text), &text[CHECKPOINT_OPENING.len()..]);
        assert!(!is_signed(&as_handle, &key), "a handle is no mark");
    }
}
