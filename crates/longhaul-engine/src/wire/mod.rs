//! Bytes become a [`Transcript`]: what a client sent, in any of three dialects, as units with the spans of their bytes.
//!
//! ```text
//! body ──raw──▶ known fields and lists ──chat│messages│responses──▶ pieces in order ──assemble──▶ units
//! ```
//!
//! Parsing fails only on what is not JSON. Whatever else is strange becomes an opaque unit or block and a [`Note`].
//!
//! It may use `texts`, `models` and what is below them.

mod assemble;
mod blocks;
mod chat;
mod messages;
mod raw;
mod reading;
mod recognise;
mod responses;
mod spoken;
mod write;

use std::fmt;

use blocks::Reader;
use raw::{Element, Key, Raw};

use crate::Dialect;
use crate::json::{NotJson, Span};
use crate::transcript::Transcript;

pub use crate::transcript::Role;
pub use reading::{ClientMark, Lifetime, Part, Piece, Reading, Says, Seat, Settings, reading};
pub(crate) use reading::{MARK, pair};
pub(crate) use spoken::ends_in_call;
pub use write::{answer, block, instructs, message, offer};

/// Something strange in a body that did not keep it from being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Where.
    pub at: Span,
    /// What.
    pub kind: NoteKind,
}

/// What was strange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoteKind {
    /// The body begins with a byte-order mark.
    ByteOrderMark,
    /// Nothing in the body is a list of messages or items.
    NoMessages,
    /// Chat and messages would both read this body; it is read as this one.
    UnsureDialect(Dialect),
    /// A string with half a surrogate pair in it.
    Damaged,
    /// A key that stands twice in one object; the last one counts.
    RepeatedKey,
    /// A role that no dialect has.
    UnknownRole,
    /// A message or item of a kind that is not known.
    UnknownItem,
    /// A content block of a kind that is not known.
    UnknownBlock,
    /// A call id that an earlier call had.
    ReusedCallId,
    /// A result without a call.
    OrphanResult,
    /// A second result for one call.
    DuplicateResult,
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByteOrderMark => "the body begins with a byte-order mark, which some providers refuse",
            Self::NoMessages => "no `messages` or `input` in the body",
            Self::UnsureDialect(Dialect::Messages) => {
                "chat and messages bodies both look like this; read as messages, by the model's name"
            }
            Self::UnsureDialect(_) => "chat and messages bodies both look like this; read as chat",
            Self::Damaged => "half a surrogate pair in a string, shown as U+FFFD and never edited (G1)",
            Self::RepeatedKey => "a key stands twice in one object; the last one counts",
            Self::UnknownRole => "an unknown role; left as it is",
            Self::UnknownItem => "an item of an unknown kind; left as it is",
            Self::UnknownBlock => "a content block of an unknown kind; left as it is",
            Self::ReusedCallId => "a call id that an earlier call had",
            Self::OrphanResult => "a result without a call",
            Self::DuplicateResult => "a second result for one call",
        })
    }
}

/// Reads a body. Without a dialect, it is recognised by the body's shape.
///
/// # Examples
///
/// ```
/// use longhaul_engine::{Edit, Rewrite, wire};
///
/// let body = r#"{"messages": [{"role": "user", "content": "list the files"},
///     {"role": "assistant", "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": "{}"}}]},
///     {"role": "tool", "tool_call_id": "c1", "content": "a.txt\nb.txt"}]}"#;
/// let (transcript, _notes) = wire::parse(None, body)?;
///
/// let listing = transcript.blocks().find(|b| b.text() == "a.txt\nb.txt").unwrap();
/// let edit = Edit::Text { text: listing.text.unwrap(), with: "2 files".into() };
/// let rewrite = Rewrite::new(&transcript, vec![edit])?;
///
/// let smaller = rewrite.apply(body);
/// assert_eq!(smaller, body.replace(r"a.txt\nb.txt", "2 files"));
/// assert_eq!(rewrite.inverse(body).apply(&smaller), body);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn parse(
    dialect: impl Into<Option<Dialect>>,
    body: &str,
) -> Result<(Transcript<'_>, Vec<Note>), NotJson> {
    parse_for(dialect, None, body)
}

/// Reads a body for a model that its sender names, which decides where its shape does not; else the one that the body names.
///
/// # Errors
/// A body that is not JSON.
pub fn parse_for<'b>(
    dialect: impl Into<Option<Dialect>>,
    model: Option<&str>,
    body: &'b str,
) -> Result<(Transcript<'b>, Vec<Note>), NotJson> {
    let raw = Raw::scan(body)?;
    let told = dialect.into();
    let (dialect, dialect_sure) = told.map_or_else(|| recognise::dialect(&raw, model), |d| (d, true));
    let list = recognise::list(&raw);
    let mut reader = Reader::new(&raw);
    match dialect {
        Dialect::Chat => chat::read(&mut reader, list),
        Dialect::Messages => messages::read(&mut reader, list),
        Dialect::Responses => responses::read(&mut reader, list),
    }
    let role = |element: Element| {
        let item = element.item?;
        write::role_of(raw.string(item, Key::Role).as_deref(), raw.string(item, Key::Type).as_deref())
    };
    let roles = list.into_iter().flat_map(|id| raw.elements(id)).map(role).collect();
    let model = raw.root.item.and_then(|root| raw.string(root, Key::Model));
    let longest_reply = longest_reply(&raw);
    let (preamble, content_lists, assembler) = (reader.preamble, reader.content_lists, reader.assembler);
    let (units, mut notes) = assembler.finish();
    notes.extend(general_notes(&raw, (!dialect_sure).then_some(dialect)));
    notes.sort_by_key(|note| note.at.start);
    let mut arrays = raw.arrays;
    for id in content_lists {
        arrays.mark_message_content(id);
    }
    let root = raw.root.at;
    Ok((
        Transcript {
            body,
            dialect,
            dialect_sure,
            model,
            longest_reply,
            preamble,
            units,
            arrays,
            messages: list,
            roles,
            root,
        },
        notes,
    ))
}

/// The most tokens that the request lets the reply have.
fn longest_reply(raw: &Raw<'_>) -> Option<u64> {
    let root = raw.root.item?;
    let keys = [Key::MaxTokens, Key::MaxCompletionTokens, Key::MaxOutputTokens];
    let fields = keys.into_iter().filter_map(|key| raw.field_of(root, key));
    fields.filter_map(|field| raw.body[field.at.range()].parse().ok()).max()
}

fn general_notes(raw: &Raw<'_>, guessed: Option<Dialect>) -> Vec<Note> {
    let note = |at: Span, kind| Note { at, kind };
    let mut notes: Vec<Note> = raw.damaged.iter().map(|at| note(*at, NoteKind::Damaged)).collect();
    notes.extend(raw.repeated_keys.iter().map(|at| note(*at, NoteKind::RepeatedKey)));
    if raw.byte_order_mark {
        notes.push(note(Span::new(0, 3), NoteKind::ByteOrderMark));
    }
    if recognise::is_empty(raw) {
        notes.push(note(raw.root.at, NoteKind::NoMessages));
    } else if let Some(dialect) = guessed {
        notes.push(note(raw.root.at, NoteKind::UnsureDialect(dialect)));
    }
    notes
}
