//! The protocol between Longhaul and a program. A call has a number, and its answer has the same; a
//! notification has none.
//!
//! ```text
//! ▶ {"id":1,"method":"hello","params":{"protocol":1}}
//! ◀ {"id":1,"result":{"name":"newest","version":"1.0","protocol":1,"capabilities":["compress"]}}
//! ▶ {"id":2,"method":"compress","params":{"messages":[…],…}}
//! ◀ {"id":2,"result":{"remove":[2,3],"summary":"…"}}                   or {"id":2,"error":"in a line"}
//! ▶ {"method":"usage","params":{"model":"…","input":1200,…}}
//! ```

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the protocol.
pub const PROTOCOL_VERSION: u64 = 1;

/// A line that Longhaul sends.
#[derive(Serialize)]
pub(super) struct OutgoingMessage<'l, P> {
    /// The number of a call; a notification has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    pub(super) method: Method,
    pub(super) params: &'l P,
}

/// The methods that a program may support.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Method {
    /// Asks for the program's name and capabilities.
    Hello,
    /// Asks whether to compact now.
    ShouldCompress,
    /// Asks for a proposal.
    Compress,
    /// Notifies of the token counts of a reply.
    Usage,
}

impl Method {
    /// Returns the name in the protocol.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::ShouldCompress => "should_compress",
            Self::Compress => "compress",
            Self::Usage => "usage",
        }
    }
}

/// A line that a program sends.
#[derive(Deserialize)]
pub(super) struct PluginReply {
    pub(super) id: u64,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
}

/// A program's answer to the first call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Hello {
    pub(super) name: String,
    pub(super) protocol: u64,
    #[serde(default)]
    pub(super) version: String,
    /// The names of the supported methods. Unknown names belong to a later version and are ignored.
    pub(super) capabilities: Vec<String>,
}

impl Hello {
    pub(super) fn supports(&self, method: Method) -> bool {
        self.capabilities.iter().any(|name| name == method.name())
    }
}

/// A program's answer to whether to compact now.
#[derive(Deserialize)]
pub(super) struct ShouldCompressReply {
    pub(super) due: bool,
    #[serde(default)]
    pub(super) reason: String,
}
