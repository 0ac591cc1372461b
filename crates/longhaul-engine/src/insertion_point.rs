//! Finds a place between messages where every provider accepts a text of ours.
//!
//! The first choice is the role that differs from the message before: user after an assistant or tool
//! message, otherwise assistant. If that role is not allowed, for example because the next message has it,
//! the other role is tried. If neither is legal, the text becomes a block of an existing user message.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::rewrite::Edit;
use crate::transcript::{ArrayId, Block, ElementId, TextEncoding, Transcript, Turn, TurnKind};
use crate::wire::{self, Role};

/// The place where a text is inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertionPoint {
    /// The text becomes a message of its own.
    Message {
        /// The role of the new message.
        role: Role,
        /// The element before which the message is inserted. The index is the length of the list if it is
        /// inserted at the end.
        before: ElementId,
    },
    /// The text becomes a block of an existing user message.
    Block {
        /// The user message.
        message: ElementId,
        /// The end of the content where the block is added.
        end: ContentEnd,
    },
    /// The text cannot be inserted, because the body has no list of messages.
    None,
}

/// The roles that the provider accepts directly after a tool result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RoleOrder {
    /// A user message may follow a tool result.
    #[default]
    UserAfterTool,
    /// Only an assistant message or another tool result may follow a tool result.
    ReplyAfterTool,
}

/// The end of a message's content where a block is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentEnd {
    /// Before the existing content, but after tool results, which must be first.
    Front,
    /// After the existing content.
    Back,
}

/// Finds the insertion point before the turn with index `before`, as if the turns in `gone` were removed.
#[must_use]
pub fn find(transcript: &Transcript<'_>, before: usize, gone: &BTreeSet<usize>, takes: RoleOrder) -> InsertionPoint {
    let Some(array) = transcript.message_array else { return InsertionPoint::None };
    let goes = removed_messages(transcript, gone);
    let count = transcript.message_count();
    let messages_of = |turn: &Turn<'_>| {
        let messages: Vec<usize> = turn.owned_elements.iter().filter_map(|id| transcript.message_of(*id)).collect();
        messages
    };
    // Turns can share a message, so the insertion point is after all messages of the turns before it.
    let kept = transcript.turns.iter().enumerate().take(before).filter(|(at, _)| !gone.contains(at));
    let behind = kept.flat_map(|(_, turn)| messages_of(turn)).max().map(|message| message + 1);
    let first = transcript.turns.get(before).and_then(|turn| messages_of(turn).into_iter().min());
    let before = behind.or(first).unwrap_or(count);
    let element = |index: usize| ElementId { array, index: index as u32 };
    let previous = (0..before).rev().find(|i| !goes[*i]).map(element);
    let next = (before..count).find(|i| !goes[*i]).map(element);
    let role = |id: Option<ElementId>| id.and_then(|id| transcript.role(id.index as usize));
    let is_model = |role: Option<Role>| matches!(role, Some(Role::Assistant | Role::Tool));
    let wanted = if is_model(role(previous)) { Role::User } else { Role::Assistant };
    let flipped = if wanted == Role::User { Role::Assistant } else { Role::User };
    let collides = |with: Option<ElementId>, own: Role| role(with) == Some(own);
    // Some providers refuse a system message after an assistant message.
    let instructs = |own: Role| own == Role::Assistant && role(next) == Some(Role::System);
    let at = next.unwrap_or(element(count));
    // The first message must be a user message, and the last message must not be an assistant message of
    // ours.
    let as_message = |own: Role| {
        own == Role::User || (previous.is_some_and(|p| role(Some(p)) != Some(Role::System)) && next.is_some())
    };
    let is_refused =
        |own: Role| own == Role::User && role(previous) == Some(Role::Tool) && takes == RoleOrder::ReplyAfterTool;
    let legal = |own: &Role| {
        !collides(previous, *own) && !collides(next, *own) && !instructs(*own) && !is_refused(*own) && as_message(*own)
    };
    if let Some(role) = [wanted, flipped].into_iter().find(legal) {
        return InsertionPoint::Message { role, before: at };
    }
    let user = |id: Option<ElementId>| id.filter(|_| role(id) == Some(Role::User));
    let said = |message: &ElementId| !goes[message.index as usize] && role(Some(*message)) == Some(Role::User);
    let earlier = (0..before).rev().map(element).find(said).filter(|_| is_refused(Role::User));
    match (user(previous).or(earlier), user(next)) {
        (Some(of), _) => InsertionPoint::Block { message: of, end: ContentEnd::Back },
        (None, Some(of)) => InsertionPoint::Block { message: of, end: ContentEnd::Front },
        (None, None) => InsertionPoint::Message { role: Role::User, before: at },
    }
}

/// Returns whether a turn is a single text at a place that [`find`] could return: a message of its own, or
/// the first or last block of a user message.
#[must_use]
pub fn is_at_insertion_point(transcript: &Transcript<'_>, turn: &Turn<'_>) -> bool {
    let [element] = turn.owned_elements[..] else { return false };
    if Some(element.array) == transcript.message_array {
        return true;
    }
    let last = transcript.arrays.elements(element.array).len() as u32 - 1;
    let is_at_an_end = element.index == last || element.index == index_after_results(transcript, element.array);
    transcript.role_of_turn(turn) == Some(Role::User) && is_at_an_end
}

/// Returns, for each message, whether it disappears completely when these turns are removed.
#[must_use]
pub fn removed_messages(transcript: &Transcript<'_>, gone: &BTreeSet<usize>) -> Vec<bool> {
    let mut stays = vec![false; transcript.message_count()];
    let mut goes = vec![false; transcript.message_count()];
    for (at, turn) in transcript.turns.iter().enumerate() {
        for message in turn.owned_elements.iter().filter_map(|id| transcript.message_of(*id)) {
            let list = if gone.contains(&at) { &mut goes } else { &mut stays };
            list[message] = true;
        }
    }
    goes.iter().zip(&stays).map(|(goes, stays)| *goes && !*stays).collect()
}

impl InsertionPoint {
    /// Returns the role of the message that will contain the text.
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::Message { role, .. } => role,
            Self::Block { .. } | Self::None => Role::User,
        }
    }

    /// Returns the edits that insert a text here.
    #[must_use]
    pub fn insertion_edits(self, transcript: &Transcript<'_>, text: &str) -> Vec<Edit> {
        match self {
            Self::None => Vec::new(),
            Self::Message { role, before } => {
                vec![Edit::Insert { before, json: wire::text_message_json(transcript.api_format, role, text) }]
            }
            Self::Block { message: of, end } => insert_as_block(transcript, of, end, text),
        }
    }
}

/// Returns the edits that add a block to a user message. String content becomes an array in which the
/// original text is a separate block.
fn insert_as_block(transcript: &Transcript<'_>, message: ElementId, end: ContentEnd, text: &str) -> Vec<Edit> {
    let block = wire::text_block_json(transcript.api_format, Role::User, text);
    if let Some(array) = transcript.content_array(message) {
        let count = transcript.arrays.elements(array).len() as u32;
        let index = if end == ContentEnd::Front { index_after_results(transcript, array) } else { count };
        return vec![Edit::Insert { before: ElementId { array, index }, json: block }];
    }
    let said = transcript.turns.iter().filter(|turn| turn.owned_elements.contains(&message)).flat_map(Turn::blocks);
    let own = transcript.span_of(message);
    let original = said.filter(|b| own.contains(b.at)).find(|block| !block.text().trim().is_empty());
    // A string may be empty as the content of a message, but an empty text block is refused. So this adds a
    // message.
    let Some(original) = original else {
        let index = if end == ContentEnd::Front { message.index } else { message.index + 1 };
        let json = wire::text_message_json(transcript.api_format, Role::User, text);
        return vec![Edit::Insert { before: ElementId { index, ..message }, json }];
    };
    let original = original_text_as_block(transcript, original);
    let json = match end {
        ContentEnd::Front => format!("[{block},{original}]"),
        ContentEnd::Back => format!("[{original},{block}]"),
    };
    vec![Edit::Set { object: own, key: "content", json }]
}

/// Returns the text of a block as a new text block. The text keeps its bytes.
fn original_text_as_block(transcript: &Transcript<'_>, original: &Block<'_>) -> String {
    let empty = wire::text_block_json(transcript.api_format, Role::User, "");
    match (original.text, empty.rsplit_once("\"\"")) {
        (Some(text), Some((before, after))) if text.encoding != TextEncoding::Json => {
            format!("{before}\"{}\"{after}", &transcript.body[text.at.range()])
        }
        _ => wire::text_block_json(transcript.api_format, Role::User, &original.text()),
    }
}

/// Returns the index of the first block in a content array after its tool results, which must be first.
fn index_after_results(transcript: &Transcript<'_>, array: ArrayId) -> u32 {
    let steps = transcript.turns.iter().filter_map(|turn| match &turn.kind {
        TurnKind::Assistant { tool_calls, .. } => Some(tool_calls),
        _ => None,
    });
    let answers = steps.flatten().flat_map(|tool_call| &tool_call.result_elements).filter(|id| id.array == array);
    answers.map(|id| id.index + 1).max().unwrap_or(0)
}
