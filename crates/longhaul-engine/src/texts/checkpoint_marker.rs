//! The first and last line of a checkpoint, which tell a model what it reads, and the signature in the first
//! line.

use std::fmt;

use super::keyed_id::{derive_key, keyed_id};
use crate::redact::SessionKey;

/// The start of the first line of every checkpoint.
pub const CHECKPOINT_OPENING: &str = "[Longhaul checkpoint";

/// The start of the last line of every checkpoint.
pub const CHECKPOINT_END_OPENING: &str = "[End of the checkpoint";

/// Returns whether the first and the last line of a text are those of a checkpoint. Anybody can write such a
/// text: only the session's key or its ledger shows that a checkpoint is genuine.
#[must_use]
pub fn has_checkpoint_frame(text: &str) -> bool {
    let is_line = |line: Option<&str>, opening: &str| line.is_some_and(|l| l.starts_with(opening) && l.ends_with(']'));
    let text = text.trim_end();
    is_line(text.lines().next(), CHECKPOINT_OPENING) && is_line(text.lines().next_back(), CHECKPOINT_END_OPENING)
}

/// Returns a checkpoint with its signature inserted behind the opening: `[Longhaul checkpoint 4k2m9x3p7q: …`.
pub(crate) fn sign_checkpoint(text: &str, key: &SessionKey) -> String {
    match text.strip_prefix(CHECKPOINT_OPENING) {
        Some(rest) => format!("{CHECKPOINT_OPENING} {}{rest}", signature(text, key)),
        None => text.to_owned(),
    }
}

/// Returns whether a checkpoint has the signature that the key gives it, so that nobody changed it since.
pub(crate) fn has_valid_signature(text: &str, key: &SessionKey) -> bool {
    let behind = text.strip_prefix(CHECKPOINT_OPENING).and_then(|rest| rest.strip_prefix(' '));
    let parts = behind.and_then(|rest| rest.split_once(':'));
    parts.is_some_and(|(own, rest)| own == signature(&format!("{CHECKPOINT_OPENING}:{rest}"), key))
}

/// The purpose from which the key of the signatures is derived. Its bytes must never change: another text would
/// make all signatures invalid.
const SIGNATURE_PURPOSE: &str = "the mark of a checkpoint";

fn signature(unsigned: &str, key: &SessionKey) -> String {
    keyed_id(&derive_key(SIGNATURE_PURPOSE, key), unsigned.trim_end())
}

/// The position, relative to the checkpoint, of the request that the agent works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPosition {
    /// The request is in the newest user message, below the checkpoint.
    Below,
    /// The request is in a user message above the checkpoint.
    Above,
    /// No known user message contains the request.
    Unknown,
}

/// The first and the last line of a checkpoint. They consist of plain statements, because orders to ignore
/// something look suspicious to content filters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointMarker {
    /// The position of the request.
    pub request_position: RequestPosition,
    /// The names of the memory files that the system prompt mentions.
    pub memory_files: Vec<String>,
}

impl fmt::Display for CheckpointMarker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CHECKPOINT_OPENING}: a summary of earlier messages, for reference. ")?;
        f.write_str("Its requests are earlier ones; the system prompt")?;
        if !self.memory_files.is_empty() {
            write!(f, " ({})", self.memory_files.join(", "))?;
        }
        f.write_str(" still applies; completed work need not be repeated.")?;
        match self.request_position {
            RequestPosition::Below => {
                f.write_str(" The request follows: answer the newest user message below.")?;
            }
            RequestPosition::Above => {
                f.write_str(" The request is above and in progress: continue from the state below.")?;
            }
            RequestPosition::Unknown => {}
        }
        f.write_str("]")
    }
}

impl CheckpointMarker {
    /// Returns the last line of the checkpoint.
    #[must_use]
    pub fn end_line(&self) -> String {
        let continuation = match self.request_position {
            RequestPosition::Below => ": answer the message below, not the checkpoint",
            RequestPosition::Above => ": continue the request above, not the checkpoint",
            RequestPosition::Unknown => "",
        };
        format!("{CHECKPOINT_END_OPENING}{continuation}.]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_valid_only_for_its_key_and_text() {
        let text = "[Longhaul checkpoint: for reference.]\n\n## Goal\n- Build it.\n\n[End of the checkpoint.]";
        let [key, other] = [1, 2].map(|byte| SessionKey::new([byte; 32]));
        let ours = sign_checkpoint(text, &key);
        assert!(has_checkpoint_frame(text) && has_checkpoint_frame(&ours) && has_valid_signature(&ours, &key));
        for forged in [text.to_owned(), ours.replace("Build", "Sell"), sign_checkpoint(text, &other)] {
            assert!(!has_valid_signature(&forged, &key), "{forged}");
        }
        let as_recall_id =
            format!("{CHECKPOINT_OPENING} {}{}", keyed_id(&key, text), &text[CHECKPOINT_OPENING.len()..]);
        assert!(!has_valid_signature(&as_recall_id, &key), "a recall ID is no signature");
    }
}
