//! Reads the sessions that coding agents store, and builds the request that each agent would send next.
//!
//! ```text
//! file, folder or database ──one module per agent──▶ AgentSession ──request_body──▶ request body in an API format
//!                            claude.rs, codex.rs…     messages, usage, times
//! ```
//!
//! An agent's module knows how the agent stores a session *and* how the agent turns it into messages: which
//! records are sent, which branch is active, where the last compaction was, and which neighboring records
//! become one message. Its output is a list of [`RecordedMessage`]s, one for each wire message, so later code
//! does not need to know the agent. Unknown records are skipped and counted. A truncated last line is normal
//! while the agent is running; it is skipped and reported as a warning.
//!
//! Nothing is ever written into an agent's folder. Databases are read from a copy, because `SQLite` writes
//! files beside a database that it opens in place.

mod aider;
mod claude;
mod cline;
mod cline_tasks;
mod codex;
mod database_copy;
mod discovery;
mod file_reader;
mod folder;
mod gemini;
mod goose;
mod hermes;
mod message_drafts;
mod opencode;
mod openhands;
mod pi;
mod recorded_message;
mod request_body;
mod roo;
mod session_format;

pub use discovery::{agent_storing_at, find_session, is_session_name, list_sessions};
pub use longhaul_engine::Timestamp;
pub use recorded_message::{MessagePart, Origin, RecordedMessage, Role};
pub use request_body::request_body;
pub use session_format::{FileProbe, SessionLocation, UserEnvironment};

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use session_format::FORMATS;

use longhaul_engine::ApiFormat;
use serde_json::Value;

/// A coding agent whose sessions can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Agent {
    /// Claude Code.
    Claude,
    /// Codex CLI.
    Codex,
    /// pi.
    Pi,
    /// opencode.
    Opencode,
    /// Gemini CLI.
    Gemini,
    /// Cline.
    Cline,
    /// Roo Code.
    Roo,
    /// aider.
    Aider,
    /// Goose.
    Goose,
    /// Hermes.
    Hermes,
    /// `OpenHands`.
    OpenHands,
}

impl Agent {
    /// All agents, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Claude,
        Self::Codex,
        Self::Pi,
        Self::Opencode,
        Self::Gemini,
        Self::Cline,
        Self::Roo,
        Self::Aider,
        Self::Goose,
        Self::Hermes,
        Self::OpenHands,
    ];

    /// Returns the agent's name on the command line and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Pi => "pi",
            Self::Opencode => "opencode",
            Self::Gemini => "gemini",
            Self::Cline => "cline",
            Self::Roo => "roo",
            Self::Aider => "aider",
            Self::Goose => "goose",
            Self::Hermes => "hermes",
            Self::OpenHands => "openhands",
        }
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Agent {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|agent| agent.name() == name)
            .ok_or_else(|| format!("unknown agent `{name}`; known agents: {}", names()))
    }
}

/// Options for [`read`].
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The part of the session to read.
    pub extent: Extent,
    /// The model that the next request is for, if it is not the session's own. Thinking of another model is
    /// then treated as the agent treats it: dropped or sent as text.
    pub model: Option<String>,
    /// The API format of the request, if it is not the one in which the agent talks to the session's model.
    /// Agents that store messages in one API format ignore it.
    pub api_format: Option<ApiFormat>,
}

/// The part of a session to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// The messages that the agent would send next: those since its last compaction, with the summary.
    #[default]
    NextRequest,
    /// Every message of the active branch, as if nothing had been compacted, without the summaries of
    /// compactions.
    FullHistory,
}

/// A session of a coding agent, read from its file, folder or database.
#[derive(Debug, Clone)]
pub struct AgentSession {
    /// The agent that wrote the session.
    pub agent: Agent,
    /// The session's ID, as the agent writes it.
    pub id: String,
    /// The folder that the agent worked in.
    pub project: Option<String>,
    /// The title that the agent or its user gave the session.
    pub title: Option<String>,
    /// The model of the next request: [`ReadOptions::model`] if given, else the model of the newest reply.
    pub model: Option<String>,
    /// The API format of the messages.
    pub api_format: ApiFormat,
    /// The system prompt, if the agent stores it.
    pub system_prompt: Option<String>,
    /// The tool definitions in the API format, if the agent stores them.
    pub tools: Option<Value>,
    /// The messages in the order in which they are sent, one for each wire message (in Responses, one for
    /// each item).
    pub messages: Vec<RecordedMessage>,
    /// The number of times that the agent compacted the session.
    pub compactions: usize,
    /// The time at which the session began.
    pub started: Option<Timestamp>,
    /// The time at which the session was last written to.
    pub updated: Option<Timestamp>,
    /// The usage of every request that the provider reported, in order of time. It covers the whole session,
    /// also the requests before a compaction.
    pub requests: Vec<RequestUsage>,
    /// The kinds of records that were read but not understood, and the number of each.
    pub unknown_records: BTreeMap<String, usize>,
    /// Problems with the stored session that did not prevent reading it, one sentence each.
    pub warnings: Vec<String>,
}

/// The usage that a provider reported for one request of a session, or for several if the agent stores only
/// totals.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestUsage {
    /// The time of the reply.
    pub time: Option<Timestamp>,
    /// The model that replied.
    pub model: Option<String>,
    /// The tokens that the request used.
    pub usage: longhaul_engine::prices::Usage,
    /// The position in [`AgentSession::messages`] of the first message of the reply; `None` if the reply is
    /// not among the messages.
    pub reply_index: Option<usize>,
    /// The cost in US dollars, as the agent recorded it.
    pub dollars: Option<f64>,
}

/// The reason why a session cannot be read, as one line for the user: what happened, to which file, what to
/// do.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionReadError {
    /// The path does not exist or is not a session, or the session is too damaged to read.
    Invalid(String),
    /// The session could not be read from the disk, or another program is using it.
    Io(String),
}

impl fmt::Display for SessionReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) | Self::Io(text) => f.write_str(text),
        }
    }
}

/// The number of bytes, after decompression, that are examined to recognize a file's format. Chosen by hand:
/// 64 KiB.
const HEAD_BYTES: usize = 1 << 16;

/// Finds the agent that a file or folder is a session of. Returns `None` if no known format matches.
pub fn recognize_path(path: &Path) -> Result<Option<SessionLocation>, SessionReadError> {
    let head = if path.is_dir() { Vec::new() } else { file_reader::read_head(path, HEAD_BYTES)? };
    let probe = FileProbe { path, head: &head };
    let format = FORMATS.iter().find(|format| (format.recognizes)(&probe));
    Ok(format.map(|format| SessionLocation::from_path(format.agent, path, None)))
}

/// Finds the agent whose session begins with these bytes, for input that has no path and cannot be read twice
/// (a pipe).
#[must_use]
pub fn recognize_bytes(head: &[u8]) -> Option<Agent> {
    let probe = FileProbe { path: Path::new("-"), head: &head[..head.len().min(HEAD_BYTES)] };
    FORMATS.iter().find(|format| (format.recognizes)(&probe)).map(|format| format.agent)
}

/// Reads the session at a location.
pub fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let path = location.path.as_path();
    let head = if path.is_dir() { Vec::new() } else { file_reader::read_head(path, HEAD_BYTES)? };
    let probe = FileProbe { path, head: &head };
    let mut formats = FORMATS.iter().filter(|format| format.agent == location.agent);
    match formats.find(|format| (format.recognizes)(&probe)) {
        Some(format) => (format.read)(location, options),
        None => Err(SessionReadError::Invalid(format!("{} is not a session of {}", path.display(), location.agent))),
    }
}
