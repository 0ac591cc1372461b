//! The three request formats that Longhaul reads and writes.
//!
//! It uses nothing of the engine.

use std::fmt;
use std::str::FromStr;

/// A request format. A dialect is code; providers and models that speak it are rows of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Chat Completions: `messages`, tool calls in a field of the reply, results as messages of role `tool`.
    Chat,
    /// Messages: `messages` and `system`, tool calls and results as content blocks.
    Messages,
    /// Responses: `input` and `instructions`, everything a flat list of items.
    Responses,
}

impl Dialect {
    /// Every dialect, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Chat, Self::Messages, Self::Responses];

    /// The name used on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Messages => "messages",
            Self::Responses => "responses",
        }
    }

    /// The field that holds the conversation.
    #[must_use]
    pub const fn list(self) -> &'static str {
        match self {
            Self::Chat | Self::Messages => "messages",
            Self::Responses => "input",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|d| d.name() == name)
            .ok_or_else(|| format!("no dialect `{name}`; there are chat, messages and responses"))
    }
}
