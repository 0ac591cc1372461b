//! Where a text of ours can stand between messages, so that every provider takes it.
//!
//! The role is chosen away from the message before it (after the model or a tool: user, else assistant) and flipped if it
//! collides with the message behind it. Where neither is legal, the text becomes a block of a user message that is there.

use crate::rewrite::Edit;
use crate::transcript::{Block, ElementId, Transcript, Unit};
use crate::wire::{self, Role};

/// The edits that put `text` before the message with this index. `goes` says which messages will not be there.
pub(super) fn put(
    transcript: &Transcript<'_>,
    before: usize,
    goes: &dyn Fn(usize) -> bool,
    text: &str,
) -> Vec<Edit> {
    let Some(array) = transcript.messages else { return Vec::new() };
    let element = |index: usize| ElementId { array, index: index as u32 };
    let count = transcript.message_count();
    let previous = (0..before.min(count)).rev().find(|i| !goes(*i)).map(element);
    let next = (before..count).find(|i| !goes(*i)).map(element);
    let role = |id: Option<ElementId>| id.and_then(|id| wire::role(transcript, id));
    let is_model = |role: Option<Role>| matches!(role, Some(Role::Assistant | Role::Tool));
    let wanted = if is_model(role(previous)) { Role::User } else { Role::Assistant };
    let flipped = if wanted == Role::User { Role::Assistant } else { Role::User };
    let collides = |with: Option<ElementId>, own: Role| role(with) == Some(own);
    let at = next.unwrap_or(element(count));
    let dialect = transcript.dialect;
    // The first message must be the user's, and a reply of ours must not be the last word.
    let as_message = |own: Role| {
        own == Role::User || (previous.is_some_and(|p| role(Some(p)) != Some(Role::System)) && next.is_some())
    };
    for own in [wanted, flipped] {
        if !collides(previous, own) && !collides(next, own) && as_message(own) {
            return vec![Edit::Insert { before: at, json: wire::message(dialect, own, text) }];
        }
    }
    let user = |id: Option<ElementId>| id.filter(|_| role(id) == Some(Role::User));
    match (user(previous), user(next)) {
        (Some(message), _) => as_block(transcript, message, End::Back, text),
        (None, Some(message)) => as_block(transcript, message, End::Front, text),
        (None, None) => vec![Edit::Insert { before: at, json: wire::message(dialect, Role::User, text) }],
    }
}

/// At which end of a message's content a block is added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

/// Adds a block to a user message. String content becomes a list in which the original text is a block of its own.
fn as_block(transcript: &Transcript<'_>, message: ElementId, end: End, text: &str) -> Vec<Edit> {
    let block = wire::block(transcript.dialect, Role::User, text);
    if let Some(array) = transcript.content_array(message) {
        let count = transcript.arrays.elements(array).len() as u32;
        let index = if end == End::Front { 0 } else { count };
        return vec![Edit::Insert { before: ElementId { array, index }, json: block }];
    }
    let said = transcript.units.iter().filter(|unit| unit.owns.contains(&message)).flat_map(Unit::blocks);
    let own = transcript.span_of(message);
    let original = said.filter(|b| own.contains(b.at)).map(Block::text).find(|text| !text.trim().is_empty());
    // An empty string may be a message's content; an empty block may not be part of it.
    let Some(original) = original else {
        return vec![Edit::Insert {
            before: message,
            json: wire::message(transcript.dialect, Role::User, text),
        }];
    };
    let original = wire::block(transcript.dialect, Role::User, &original);
    let json = match end {
        End::Front => format!("[{block},{original}]"),
        End::Back => format!("[{original},{block}]"),
    };
    vec![Edit::Set { object: own, key: "content", json }]
}
