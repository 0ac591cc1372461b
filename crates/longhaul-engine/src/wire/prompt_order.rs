//! The pieces of a request body in the order in which a provider reads them: tools, system prompt, messages.
//!
//! A provider's cache compares the prompt that it builds from a body, not the bytes of the body. So the hash
//! of a piece ignores white space, the order of keys, how characters are escaped, and cache breakpoints. It
//! is the same for a string and for a list with one text block. Each piece also stores where a cache
//! breakpoint for it would be written.

mod content_hash;
mod walk;

use crate::json::{Scanner, Span};
use crate::transcript::{Role, TextSpan, Transcript};

pub(crate) use content_hash::hash_pair;
use walk::PromptWalk;

/// The JSON field that sets a cache breakpoint.
pub(crate) const CACHE_CONTROL_FIELD: &str = "cache_control";

/// A part of the prompt. The order of the variants is the order in which a provider reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptPart {
    /// Tool definitions.
    Tools,
    /// The system prompt.
    System,
    /// The conversation.
    Messages,
}

/// A hash of a piece's content that does not depend on how the JSON is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub(crate) u128);

/// The smallest part of a prompt that a cache can distinguish: a tool, a content block or a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptPiece {
    /// The part of the prompt that contains the piece.
    pub part: PromptPart,
    /// The index of the message or item that contains the piece.
    pub message: Option<u32>,
    /// The role of that message.
    pub role: Option<Role>,
    /// The span of the piece in the body.
    pub at: Span,
    /// The text of the piece, if it is a text.
    pub text: Option<TextSpan>,
    /// The hash of the content. For the first piece of a message it includes the role and the other fields of
    /// the message.
    pub content_hash: ContentHash,
    /// The place where a cache breakpoint on this piece would be written.
    pub breakpoint_target: BreakpointTarget,
}

/// The place where a cache breakpoint on a piece is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakpointTarget {
    /// In this object, which is the piece itself.
    Block(Span),
    /// In the text block that has to replace this string.
    String(Span),
    /// In this message, for hosts that read breakpoints there.
    Message(Span),
    /// Nowhere: the piece is reasoning, an empty text, or of a kind that accepts no breakpoint.
    None,
}

/// How long a cached prefix is kept after its last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub enum CacheLifetime {
    /// Five minutes, the default of a breakpoint without a lifetime.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour.
    #[serde(rename = "1h")]
    OneHour,
}

/// A cache breakpoint that the client set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientBreakpoint {
    /// The index of the piece that has the breakpoint. It is `None` for the breakpoint at the top level of
    /// the request, which moves with the end of the messages.
    pub piece: Option<usize>,
    /// The span of the object that has the `cache_control` field.
    pub object: Span,
    /// The lifetime that the client asked for.
    pub lifetime: CacheLifetime,
}

/// Hashes of the settings that are not part of the prompt but invalidate a cached prefix when they change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheSettings {
    /// The model. A change invalidates everything.
    pub model: Option<ContentHash>,
    /// The `tool_choice` field. A change invalidates the messages.
    pub tool_choice: Option<ContentHash>,
    /// The `thinking` field. A change invalidates the messages.
    pub thinking: Option<ContentHash>,
}

/// A request body in the order in which a provider reads it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PromptOrder {
    /// All pieces: tools, then the system prompt, then messages.
    pub pieces: Vec<PromptPiece>,
    /// The client's cache breakpoints, in the same order.
    pub breakpoints: Vec<ClientBreakpoint>,
    /// The settings that are not part of the prompt but affect its cache.
    pub cache_settings: CacheSettings,
    /// Whether the client chose a `prompt_cache_key`.
    pub has_cache_key: bool,
    /// The span of the outermost value, if it is an object.
    pub root: Option<Span>,
    /// The indices of the pieces of messages that accept a breakpoint in a block.
    block_targets: Vec<usize>,
    /// The indices of the pieces of messages that accept a breakpoint in a block or in the message. Both
    /// lists are kept because searching all pieces on every request would be slow when hardly any accepts a
    /// breakpoint.
    targets: Vec<usize>,
}

impl PromptOrder {
    /// Returns the same body without pieces and breakpoints.
    pub(crate) fn without_pieces(&self) -> Self {
        Self {
            cache_settings: self.cache_settings,
            has_cache_key: self.has_cache_key,
            root: self.root,
            ..Self::default()
        }
    }

    /// Appends a piece.
    pub(crate) fn push_piece(&mut self, piece: PromptPiece) {
        let at = self.pieces.len();
        if piece.part == PromptPart::Messages {
            match piece.breakpoint_target {
                BreakpointTarget::Block(_) | BreakpointTarget::String(_) => {
                    self.block_targets.push(at);
                    self.targets.push(at);
                }
                BreakpointTarget::Message(_) => self.targets.push(at),
                BreakpointTarget::None => {}
            }
        }
        self.pieces.push(piece);
    }

    /// Returns the indices of the pieces of messages that accept a breakpoint in a block, in order.
    pub(crate) fn block_targets(&self) -> &[usize] {
        &self.block_targets
    }

    /// Returns the indices of the pieces of messages that accept a breakpoint in a block or in the message,
    /// in order.
    pub(crate) fn targets(&self) -> &[usize] {
        &self.targets
    }
}

/// Lists the pieces of a body in the order in which the provider reads them.
#[must_use]
pub fn prompt_order(transcript: &Transcript<'_>) -> PromptOrder {
    let mut walk = PromptWalk::new(transcript);
    let mut scanner = Scanner::within(transcript.body, transcript.root());
    // `wire::parse` has scanned the whole body already, so scanning cannot fail here.
    let _ = match scanner.peek() {
        b'{' => walk.walk_root(&mut scanner).map(|at| walk.prompt_order.root = Some(at)),
        b'[' => walk.walk_messages(&mut scanner).map(|list| walk.message_pieces = list),
        _ => Ok(()),
    };
    walk.finish()
}
