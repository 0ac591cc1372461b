//! A body in the order in which a provider reads it: tools, system prompt, messages, each as pieces with what they say.
//!
//! A provider's cache compares the prompt that it makes of a body, not the body's bytes. So what a piece says is hashed
//! without white space, without the order of keys, without the way in which characters are escaped, without cache marks, and
//! alike for a string and for a list of one text. A piece also knows its seat: where a cache mark on it would be written.

mod says;
mod walk;

use crate::json::{Scanner, Span};
use crate::transcript::{Role, TextSpan, Transcript};

pub(crate) use says::pair;
use walk::Walk;

/// The field that marks a piece.
pub(crate) const MARK: &str = "cache_control";

/// A part of the prompt, in the order of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Tool definitions.
    Tools,
    /// The system prompt.
    System,
    /// What was said and done.
    Messages,
}

/// What a piece says, however it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Says(pub(crate) u128);

/// A tool, a content block, a call: the least that a cache tells apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where in the prompt it belongs.
    pub part: Part,
    /// The message or item that it stands in.
    pub message: Option<u32>,
    /// Under whose name.
    pub role: Option<Role>,
    /// Its bytes in the body.
    pub at: Span,
    /// Its words, if it is text.
    pub text: Option<TextSpan>,
    /// What it says, and that it begins a message if it does.
    pub says: Says,
    /// Where a mark would go.
    pub seat: Seat,
}

/// Where a mark on a piece is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// In this object, beside the content.
    Block(Span),
    /// In the block that this string becomes.
    String(Span),
    /// In this message, for hosts that look there.
    Message(Span),
    /// Nowhere: thinking, empty text, or a kind that takes none.
    None,
}

/// How long a marked prefix lives after its last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub enum Lifetime {
    /// Five minutes, which is what a mark without a lifetime says.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour.
    #[serde(rename = "1h")]
    OneHour,
}

/// A mark that the client set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientMark {
    /// The piece that it stands on or in; none for the one beside the messages, which moves along with their end.
    pub piece: Option<usize>,
    /// The object that has it.
    pub holder: Span,
    /// How long it is to live.
    pub lifetime: Lifetime,
}

/// What else voids a cached prefix when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// The model: voids everything.
    pub model: Option<Says>,
    /// How tools are to be chosen: voids the messages.
    pub tool_choice: Option<Says>,
    /// How the model is to think: voids the messages.
    pub thinking: Option<Says>,
}

/// A body in the order of reading.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// Tools, then the system prompt, then messages.
    pub pieces: Vec<Piece>,
    /// The client's marks, in the same order.
    pub marks: Vec<ClientMark>,
    /// What is not part of the prompt and matters all the same.
    pub settings: Settings,
    /// Whether the client chose a `prompt_cache_key`.
    pub has_cache_key: bool,
    /// The outermost value, if it is an object that fields can be set in.
    pub root: Option<Span>,
    /// The pieces of messages that can carry a mark in a block,
    in_blocks: Vec<usize>,
    /// and those that can carry one in any way: a session of which hardly any can is not searched through at each request.
    seated: Vec<usize>,
}

impl Reading {
    /// The same body before its first piece.
    pub(crate) fn without_pieces(&self) -> Self {
        Self {
            settings: self.settings,
            has_cache_key: self.has_cache_key,
            root: self.root,
            ..Self::default()
        }
    }

    /// Goes on with one more piece.
    pub(crate) fn push(&mut self, piece: Piece) {
        let at = self.pieces.len();
        if piece.part == Part::Messages {
            match piece.seat {
                Seat::Block(_) | Seat::String(_) => {
                    self.in_blocks.push(at);
                    self.seated.push(at);
                }
                Seat::Message(_) => self.seated.push(at),
                Seat::None => {}
            }
        }
        self.pieces.push(piece);
    }

    /// The pieces of messages that can carry a mark in a block, in order.
    pub(crate) fn in_blocks(&self) -> &[usize] {
        &self.in_blocks
    }

    /// The pieces of messages that can carry a mark in a block or beside the content, in order.
    pub(crate) fn seated(&self) -> &[usize] {
        &self.seated
    }
}

/// Reads a body in the provider's order.
#[must_use]
pub fn reading(transcript: &Transcript<'_>) -> Reading {
    let mut walk = Walk::new(transcript);
    let mut scanner = Scanner::within(transcript.body, transcript.root());
    // A transcript is of a body that was scanned to its end, so nothing here can fail.
    let _ = match scanner.peek() {
        b'{' => walk.root(&mut scanner).map(|at| walk.reading.root = Some(at)),
        b'[' => walk.messages(&mut scanner).map(|list| walk.list = list),
        _ => Ok(()),
    };
    walk.finish()
}
