//! Parses a request body in any of the three API formats into a [`Transcript`].
//!
//! ```text
//! body ──scan──▶ known fields and lists ──chat│messages│responses──▶ blocks in order ──assemble──▶ turns
//! ```
//!
//! Parsing fails only if the body is not JSON. Anything else that is not understood becomes an opaque turn or
//! an unknown block, and a [`ParseNote`].

mod assemble;
mod chat;
mod detect;
mod messages;
mod prompt_order;
mod reader;
mod responses;
mod scan;
mod user_text;
mod write;

use std::fmt;

use reader::BodyReader;
use scan::{Key, ScannedBody, ScannedElement};

use crate::ApiFormat;
use crate::json::{JsonError, Span};
use crate::transcript::Transcript;

pub use crate::transcript::Role;
pub use prompt_order::{
    BreakpointTarget, CacheLifetime, CacheSettings, ClientBreakpoint, ContentHash, PromptOrder, PromptPart,
    PromptPiece, prompt_order,
};
pub(crate) use prompt_order::{CACHE_CONTROL_FIELD, hash_pair};
pub(crate) use user_text::ends_with_text_call;
pub use write::{add_tools_edits, is_lasting_instruction, text_block_json, text_message_json, tool_result_edits};

/// Something unusual in a body that did not prevent parsing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseNote {
    /// The span in the body that the note is about.
    pub at: Span,
    /// The kind of problem.
    pub kind: ParseNoteKind,
}

/// The kind of problem that a [`ParseNote`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParseNoteKind {
    /// The body starts with a byte-order mark.
    ByteOrderMark,
    /// The body has no list of messages or items.
    NoMessages,
    /// The body is valid in both Chat Completions and Messages, and is read in this API format.
    UncertainApiFormat(ApiFormat),
    /// A string contains an unpaired surrogate.
    Damaged,
    /// An object has the same key twice. The last value counts.
    RepeatedKey,
    /// A message has a role that is not known in any API format.
    UnknownRole,
    /// A message or item is of an unknown kind.
    UnknownItem,
    /// A content block is of an unknown kind.
    UnknownBlock,
    /// A tool call has the same ID as an earlier call.
    ReusedCallId,
    /// A tool result has no call.
    OrphanResult,
    /// A tool call has a second result.
    DuplicateResult,
}

impl fmt::Display for ParseNoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByteOrderMark => "the request starts with a byte-order mark, which some providers refuse",
            Self::NoMessages => "the request has neither `messages` nor `input`",
            Self::UncertainApiFormat(ApiFormat::Messages) => {
                "could be Chat Completions or Messages; read as Messages because of the model's name"
            }
            Self::UncertainApiFormat(_) => "could be Chat Completions or Messages; read as Chat Completions",
            Self::Damaged => "a string contains half a surrogate pair; it is shown as U+FFFD and never edited (G1)",
            Self::RepeatedKey => "an object has the same key twice; the last value counts",
            Self::UnknownRole => "unknown role; left unchanged",
            Self::UnknownItem => "an item of an unknown kind; left as it is",
            Self::UnknownBlock => "a content block of an unknown kind; left as it is",
            Self::ReusedCallId => "a tool call reuses the ID of an earlier call",
            Self::OrphanResult => "a result without a call",
            Self::DuplicateResult => "a second result for one call",
        })
    }
}

/// Parses a request body. Without an API format, the format is detected from the body.
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
    api_format: impl Into<Option<ApiFormat>>,
    body: &str,
) -> Result<(Transcript<'_>, Vec<ParseNote>), JsonError> {
    parse_for(api_format, None, body)
}

/// Parses a request body that is meant for a certain model. If the shape of the body allows two API formats,
/// the name of this model decides, or the model that the body names.
///
/// # Errors
/// Fails if the body is not JSON.
pub fn parse_for<'b>(
    api_format: impl Into<Option<ApiFormat>>,
    model: Option<&str>,
    body: &'b str,
) -> Result<(Transcript<'b>, Vec<ParseNote>), JsonError> {
    let raw = ScannedBody::scan(body)?;
    let given = api_format.into();
    let (api_format, is_api_format_certain) = given.map_or_else(|| detect::api_format(&raw, model), |d| (d, true));
    let list = detect::message_list(&raw);
    let mut reader = BodyReader::new(&raw);
    match api_format {
        ApiFormat::Chat => chat::read(&mut reader, list),
        ApiFormat::Messages => messages::read(&mut reader, list),
        ApiFormat::Responses => responses::read(&mut reader, list),
    }
    let role = |element: ScannedElement| {
        let item = element.object?;
        write::parse_role(raw.string(item, Key::Role).as_deref(), raw.string(item, Key::Type).as_deref())
    };
    let roles = list.into_iter().flat_map(|id| raw.elements(id)).map(role).collect();
    let model = raw.root.object.and_then(|root| raw.string(root, Key::Model));
    let max_reply_tokens = max_reply_tokens(&raw);
    let (preamble, content_lists, assembler) = (reader.preamble, reader.content_arrays, reader.assembler);
    let (turns, mut notes) = assembler.finish();
    notes.extend(general_notes(&raw, (!is_api_format_certain).then_some(api_format)));
    notes.sort_by_key(|note| note.at.start);
    let mut arrays = raw.arrays;
    for id in content_lists {
        arrays.mark_message_content(id);
    }
    let root = raw.root.at;
    Ok((
        Transcript {
            body,
            api_format,
            is_api_format_certain,
            model,
            max_reply_tokens,
            preamble,
            turns,
            arrays,
            message_array: list,
            roles,
            root,
        },
        notes,
    ))
}

/// Returns the largest reply that the request allows, in tokens.
fn max_reply_tokens(raw: &ScannedBody<'_>) -> Option<u64> {
    let root = raw.root.object?;
    let keys = [Key::MaxTokens, Key::MaxCompletionTokens, Key::MaxOutputTokens];
    let fields = keys.into_iter().filter_map(|key| raw.field_of(root, key));
    fields.filter_map(|field| raw.body[field.at.range()].parse().ok()).max()
}

fn general_notes(raw: &ScannedBody<'_>, guessed: Option<ApiFormat>) -> Vec<ParseNote> {
    let note = |at: Span, kind| ParseNote { at, kind };
    let mut notes: Vec<ParseNote> = raw.damaged.iter().map(|at| note(*at, ParseNoteKind::Damaged)).collect();
    notes.extend(raw.repeated_keys.iter().map(|at| note(*at, ParseNoteKind::RepeatedKey)));
    if raw.has_byte_order_mark {
        notes.push(note(Span::new(0, 3), ParseNoteKind::ByteOrderMark));
    }
    if detect::has_no_messages(raw) {
        notes.push(note(raw.root.at, ParseNoteKind::NoMessages));
    } else if let Some(api_format) = guessed {
        notes.push(note(raw.root.at, ParseNoteKind::UncertainApiFormat(api_format)));
    }
    notes
}
