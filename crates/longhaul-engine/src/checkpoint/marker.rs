//! The words around a checkpoint that tell a model what it is.

use super::{Closing, Voice};
use crate::transcript::CHECKPOINT_OPENING;

/// Plain statements: orders to ignore things make content filters suspicious.
const REFERENCE: &str = ": background for reference, written when earlier messages were compacted. Requests quoted here are \
    settled unless they stand under Active Task. Standing memory in the system prompt (MEMORY.md, USER.md) stays in force. \
    Completed work need not be repeated. ";

/// How the end mark begins, in every form.
pub(super) const END_OPENING: &str = "[End of the checkpoint";

/// The marker that opens a checkpoint: one line.
pub(super) fn marker(closing: Closing) -> String {
    let closing = match closing {
        Closing::RequestFollows => "The request follows: answer the newest user message below.]",
        Closing::RequestAbove => {
            "The request stands above and is being worked on: go on from the state below.]"
        }
    };
    format!("{CHECKPOINT_OPENING}{REFERENCE}{closing}")
}

/// The line that closes a checkpoint which stands as the user's words.
pub(super) fn end_mark(closing: Closing, voice: Voice) -> Option<String> {
    let go_on = match (voice, closing) {
        (Voice::Assistant, _) => return None,
        (Voice::User, Closing::RequestFollows) => "answer the message below, not the summary above",
        (Voice::User, Closing::RequestAbove) => "go on with the request, not with the summary above",
    };
    Some(format!("{END_OPENING}: {go_on}.]"))
}
