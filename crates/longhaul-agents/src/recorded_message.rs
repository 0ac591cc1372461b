//! The messages of a session in a form from which a request in any API format can be written.

use serde_json::Value;
use serde_json::value::RawValue;

/// One wire message of a session; in Responses, one item.
#[derive(Debug, Clone)]
pub struct RecordedMessage {
    /// The author of the message.
    pub role: Role,
    /// The content in order, each part with its origin in the agent's file.
    pub parts: Vec<(MessagePart, Origin)>,
    /// The time of the message, if the agent stores it.
    pub time: Option<super::Timestamp>,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// System instructions in mid-conversation.
    System,
    /// Developer instructions, which Codex sends.
    Developer,
    /// The user; in Messages also the author of tool results.
    User,
    /// The model.
    Assistant,
    /// A tool whose result is a message of its own, as in Chat Completions.
    Tool,
}

/// The position of a message part in the agent's file or database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A line number, counted from 1.
    Line(usize),
    /// An item of a list that is stored in one line: the line number from 1, and the item's index from 0.
    ListItem(usize, usize),
    /// A database row, by its ID.
    Row(i64),
    /// The ID of a stored part, event or message.
    Id(String),
    /// No position: the agent adds this part when it builds a request.
    Synthetic,
}

/// One part of a message's content.
#[derive(Debug, Clone)]
pub enum MessagePart {
    /// A content block (Messages), a content part (Chat Completions) or a whole item (Responses), stored in
    /// the API format already and copied byte for byte.
    Raw(Box<RawValue>),
    /// Plain text.
    Text(String),
    /// Thinking of the model.
    Thinking {
        /// The text of the thinking.
        text: String,
        /// The provider's signature, or its encrypted form of the thinking.
        signature: Option<String>,
    },
    /// A tool call.
    ToolCall {
        /// The call's ID.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments as JSON. A string is the JSON text as it was on the wire, and is written unchanged.
        arguments: Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// The ID of the call.
        id: String,
        /// The text and images of the result.
        content: Vec<MessagePart>,
        /// Whether the tool failed.
        failed: bool,
    },
    /// An image.
    Image {
        /// The media type, such as `image/png`.
        media: String,
        /// The image's bytes in base64.
        data: String,
    },
}
