//! The three API formats that Longhaul reads and writes.
//!
//! This module uses no other module of the engine.

use std::fmt;
use std::str::FromStr;

/// An API format: the shape of a request. Each format has its own code; the providers and models that use it
/// are rows of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApiFormat {
    /// Chat Completions: a `messages` list; tool calls are a field of an assistant message, and results are
    /// messages with the role `tool`.
    Chat,
    /// Messages: a `messages` list and a `system` field; tool calls and results are content blocks.
    Messages,
    /// Responses: an `input` list and an `instructions` field; messages, calls and results are items of one
    /// flat list.
    Responses,
}

impl ApiFormat {
    /// All API formats, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Messages, Self::Responses];

    /// Returns the name that the command line and the reports use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// Returns the name of the request field that contains the conversation.
    #[must_use]
    pub const fn messages_field(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => "messages",
            Self::Responses => "input",
        }
    }
}

impl fmt::Display for ApiFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ApiFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|d| d.name() == name)
            .ok_or_else(|| format!("unknown API format `{name}`; use chat, messages or responses"))
    }
}
