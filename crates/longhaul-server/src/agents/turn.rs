//! What was said in a session, in a form that every dialect can be written from.

use serde_json::Value;
use serde_json::value::RawValue;

/// One wire message; in Responses, one item.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub pieces: Vec<(Piece, Origin)>,
    /// When, where the file says so.
    pub at: Option<super::Moment>,
}

/// Who speaks in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions in mid-conversation.
    System,
    /// Instructions of the developer, as Codex sends them.
    Developer,
    /// The user; in Messages also the results of tools.
    User,
    /// The model.
    Assistant,
    /// A tool's result as a message of its own (Chat).
    Tool,
}

/// Where a piece stands in the agent's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line, counted from 1.
    Line(usize),
    /// An item of a list in a line: the line from 1, the item from 0.
    Item(usize, usize),
    /// A row of a database, by its id.
    Row(i64),
    /// A part, an event or a message with an id of its own.
    Id(String),
    /// The agent puts it there itself; it stands nowhere.
    Client,
}

/// One piece of a message. What is already in the dialect's own form stays as it was written.
#[derive(Debug, Clone)]
pub enum Piece {
    /// A content block (Messages), a part of the content (Chat) or a whole item (Responses) in the dialect's form, byte for
    /// byte.
    Wire(Box<RawValue>),
    /// Words.
    Text(String),
    /// What the model thought, with the provider's signature where there is one.
    Thinking {
        /// The words.
        text: String,
        /// The signature.
        signature: Option<String>,
    },
    /// A call of a tool.
    Call {
        /// Its id.
        id: String,
        /// The tool.
        name: String,
        /// The arguments as JSON. A string is the JSON text of them as it went over the wire, which is kept as it is.
        arguments: Value,
    },
    /// What came back.
    Result {
        /// The id of its call.
        id: String,
        /// Text and images.
        content: Vec<Piece>,
        /// Whether the tool failed.
        failed: bool,
    },
    /// A picture, as base64.
    Image {
        /// Its media type.
        media: String,
        /// Its bytes.
        data: String,
    },
}
