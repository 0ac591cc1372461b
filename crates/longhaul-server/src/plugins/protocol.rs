//! The lines that we and a program exchange: a call has a number, and its answer has the same; a notification has none.
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
pub const VERSION: u64 = 1;

/// A line of ours.
#[derive(Serialize)]
pub(super) struct Line<'l, P> {
    /// The number of a call; a notification has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<u64>,
    pub(super) method: Method,
    pub(super) params: &'l P,
}

/// What a program can be told or asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Method {
    /// Who it is, and what it can do.
    Hello,
    /// Whether a compaction is due.
    ShouldCompress,
    /// What a compaction does.
    Compress,
    /// What a reply came to.
    Usage,
}

impl Method {
    /// How it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::ShouldCompress => "should_compress",
            Self::Compress => "compress",
            Self::Usage => "usage",
        }
    }
}

/// A line of a program's.
#[derive(Deserialize)]
pub(super) struct Reply {
    pub(super) id: u64,
    pub(super) result: Option<Value>,
    pub(super) error: Option<String>,
}

/// What a program says first.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Hello {
    pub(super) name: String,
    pub(super) protocol: u64,
    #[serde(default)]
    pub(super) version: String,
    /// What it can do: names that are not known here are of a later version, and nothing is asked of them.
    pub(super) capabilities: Vec<String>,
}

impl Hello {
    pub(super) fn can(&self, method: Method) -> bool {
        self.capabilities.iter().any(|name| name == method.name())
    }
}

/// Whether a compaction is due, as a program says it.
#[derive(Deserialize)]
pub(super) struct Verdict {
    pub(super) due: bool,
    #[serde(default)]
    pub(super) reason: String,
}
