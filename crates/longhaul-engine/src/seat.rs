//! Where a text of ours can stand between messages, so that every provider takes it.
//!
//! The role is chosen away from the message before it (after the model or a tool: user, else assistant) and flipped if it
//! collides with the message behind it. Where neither is legal, the text becomes a block of a user message that is there.
//!
//! It may use `wire`, `rewrite` and what is below them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::rewrite::Edit;
use crate::transcript::{ArrayId, Block, ElementId, Form, Transcript, Unit, UnitKind};
use crate::wire::{self, Role};

/// Where a text is to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// A message of its own.
    Message {
        /// Under whose name.
        role: Role,
        /// Before which message; the list's length for the end.
        before: ElementId,
    },
    /// A block of a user message.
    Block {
        /// The message.
        of: ElementId,
        /// At which end.
        end: End,
    },
    /// Nowhere: there is no list of messages.
    None,
}

/// What the provider takes beyond what all of them do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Takes {
    /// A user's message right behind a tool's result.
    #[default]
    UserAfterTool,
    /// Only a reply or another result there.
    ReplyAfterTool,
}

/// At which end of a message's content a block is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Before what is there.
    Front,
    /// Behind it.
    Back,
}

/// The seat before a unit, when these units are gone.
#[must_use]
pub fn find(transcript: &Transcript<'_>, before: usize, gone: &BTreeSet<usize>, takes: Takes) -> Seat {
    let Some(array) = transcript.messages else { return Seat::None };
    let goes = gone_messages(transcript, gone);
    let count = transcript.message_count();
    let messages_of = |unit: &Unit<'_>| {
        let messages: Vec<usize> = unit.owns.iter().filter_map(|id| transcript.message_of(*id)).collect();
        messages
    };
    // Two units can share a message: what stands behind a unit stands behind all of its messages.
    let kept = transcript.units.iter().enumerate().take(before).filter(|(at, _)| !gone.contains(at));
    let behind = kept.flat_map(|(_, unit)| messages_of(unit)).max().map(|message| message + 1);
    let first = transcript.units.get(before).and_then(|unit| messages_of(unit).into_iter().min());
    let before = behind.or(first).unwrap_or(count);
    let element = |index: usize| ElementId { array, index: index as u32 };
    let previous = (0..before).rev().find(|i| !goes[*i]).map(element);
    let next = (before..count).find(|i| !goes[*i]).map(element);
    let role = |id: Option<ElementId>| id.and_then(|id| transcript.role(id.index as usize));
    let is_model = |role: Option<Role>| matches!(role, Some(Role::Assistant | Role::Tool));
    let wanted = if is_model(role(previous)) { Role::User } else { Role::Assistant };
    let flipped = if wanted == Role::User { Role::Assistant } else { Role::User };
    let collides = |with: Option<ElementId>, own: Role| role(with) == Some(own);
    // Not everybody takes instructions behind a reply.
    let instructs = |own: Role| own == Role::Assistant && role(next) == Some(Role::System);
    let at = next.unwrap_or(element(count));
    // The first message must be the user's, and a reply of ours must not be the last word.
    let as_message = |own: Role| {
        own == Role::User || (previous.is_some_and(|p| role(Some(p)) != Some(Role::System)) && next.is_some())
    };
    let is_refused =
        |own: Role| own == Role::User && role(previous) == Some(Role::Tool) && takes == Takes::ReplyAfterTool;
    let legal = |own: &Role| {
        !collides(previous, *own)
            && !collides(next, *own)
            && !instructs(*own)
            && !is_refused(*own)
            && as_message(*own)
    };
    if let Some(role) = [wanted, flipped].into_iter().find(legal) {
        return Seat::Message { role, before: at };
    }
    let user = |id: Option<ElementId>| id.filter(|_| role(id) == Some(Role::User));
    let said =
        |message: &ElementId| !goes[message.index as usize] && role(Some(*message)) == Some(Role::User);
    let earlier = (0..before).rev().map(element).find(said).filter(|_| is_refused(Role::User));
    match (user(previous).or(earlier), user(next)) {
        (Some(of), _) => Seat::Block { of, end: End::Back },
        (None, Some(of)) => Seat::Block { of, end: End::Front },
        (None, None) => Seat::Message { role: Role::User, before: at },
    }
}

/// Whether a unit is one text in a seat that [`find`] gives: a message of its own, or the first or last block of a user's.
#[must_use]
pub fn is_ours(transcript: &Transcript<'_>, unit: &Unit<'_>) -> bool {
    let [element] = unit.owns[..] else { return false };
    if Some(element.array) == transcript.messages {
        return true;
    }
    let last = transcript.arrays.elements(element.array).len() as u32 - 1;
    let is_at_an_end = element.index == last || element.index == behind_results(transcript, element.array);
    transcript.role_of(unit) == Some(Role::User) && is_at_an_end
}

/// Which messages go entirely when these units go.
#[must_use]
pub fn gone_messages(transcript: &Transcript<'_>, gone: &BTreeSet<usize>) -> Vec<bool> {
    let mut stays = vec![false; transcript.message_count()];
    let mut goes = vec![false; transcript.message_count()];
    for (at, unit) in transcript.units.iter().enumerate() {
        for message in unit.owns.iter().filter_map(|id| transcript.message_of(*id)) {
            let list = if gone.contains(&at) { &mut goes } else { &mut stays };
            list[message] = true;
        }
    }
    goes.iter().zip(&stays).map(|(goes, stays)| *goes && !*stays).collect()
}

impl Seat {
    /// Under whose name the text stands.
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::Message { role, .. } => role,
            Self::Block { .. } | Self::None => Role::User,
        }
    }

    /// The edits that put a text there.
    #[must_use]
    pub fn put(self, transcript: &Transcript<'_>, text: &str) -> Vec<Edit> {
        match self {
            Self::None => Vec::new(),
            Self::Message { role, before } => {
                vec![Edit::Insert { before, json: wire::message(transcript.dialect, role, text) }]
            }
            Self::Block { of, end } => as_block(transcript, of, end, text),
        }
    }
}

/// Adds a block to a user message. String content becomes a list in which the original text is a block of its own.
fn as_block(transcript: &Transcript<'_>, message: ElementId, end: End, text: &str) -> Vec<Edit> {
    let block = wire::block(transcript.dialect, Role::User, text);
    if let Some(array) = transcript.content_array(message) {
        let count = transcript.arrays.elements(array).len() as u32;
        let index = if end == End::Front { behind_results(transcript, array) } else { count };
        return vec![Edit::Insert { before: ElementId { array, index }, json: block }];
    }
    let said = transcript.units.iter().filter(|unit| unit.owns.contains(&message)).flat_map(Unit::blocks);
    let own = transcript.span_of(message);
    let original = said.filter(|b| own.contains(b.at)).find(|block| !block.text().trim().is_empty());
    // An empty string may be a message's content; an empty block may not be part of it.
    let Some(original) = original else {
        let index = if end == End::Front { message.index } else { message.index + 1 };
        let json = wire::message(transcript.dialect, Role::User, text);
        return vec![Edit::Insert { before: ElementId { index, ..message }, json }];
    };
    let original = original_block(transcript, original);
    let json = match end {
        End::Front => format!("[{block},{original}]"),
        End::Back => format!("[{original},{block}]"),
    };
    vec![Edit::Set { object: own, key: "content", json }]
}

/// The words of a block as a block of their own, in the bytes that they have.
fn original_block(transcript: &Transcript<'_>, original: &Block<'_>) -> String {
    let empty = wire::block(transcript.dialect, Role::User, "");
    match (original.text, empty.rsplit_once("\"\"")) {
        (Some(text), Some((before, after))) if text.form != Form::Json => {
            format!("{before}\"{}\"{after}", &transcript.body[text.at.range()])
        }
        _ => wire::block(transcript.dialect, Role::User, &original.text()),
    }
}

/// Where the first block that is no result of a tool stands in a content: results come first.
fn behind_results(transcript: &Transcript<'_>, array: ArrayId) -> u32 {
    let steps = transcript.units.iter().filter_map(|unit| match &unit.kind {
        UnitKind::Step { exchanges, .. } => Some(exchanges),
        _ => None,
    });
    let answers = steps.flatten().flat_map(|exchange| &exchange.answers).filter(|id| id.array == array);
    answers.map(|id| id.index + 1).max().unwrap_or(0)
}
