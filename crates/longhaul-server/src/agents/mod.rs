//! Sessions as coding agents keep them, and the request that each would send next.
//!
//! ```text
//! file, folder or database ──one file a format──▶ Session ──request──▶ body of a dialect
//!                            claude.rs, codex.rs…  turns, usage, times
//! ```
//!
//! A format's file knows how its agent keeps a session *and* how it makes messages of it: which records are sent, which branch
//! is the active one, where the last compaction was, which neighbours become one message. What it gives are turns that stand
//! for one wire message each, so nothing behind it has to know the agent. Unknown records are skipped and counted; a last
//! line that is cut short is what a running agent leaves, and is counted too.
//!
//! Nothing is ever written into an agent's folder. A database is read from a copy, because opening one in place writes
//! beside it.

mod aider;
mod claude;
mod cline;
mod codex;
mod database;
mod draft;
mod find;
mod folder;
mod format;
mod gemini;
mod goose;
mod hermes;
mod lines;
mod moment;
mod opencode;
mod openhands;
mod pi;
mod request;
mod roo;
mod tasks;
mod turn;

pub use find::{is_name, keeper, named, sessions};
pub use format::{Glimpse, Machine, Place};
pub use moment::Moment;
pub use request::body;
pub use turn::{Origin, Piece, Role, Turn};

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use format::FORMATS;

use longhaul_engine::Dialect;
use serde_json::Value;

/// The agents whose sessions are read.
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
    /// All of them, in the order of the documentation.
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

    /// The name on the command line and in JSON.
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
            .ok_or_else(|| format!("no agent `{name}`; there are {}", names()))
    }
}

/// What of a session is wanted.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// How much of it.
    pub extent: Extent,
    /// The model that the next request goes to, where it is not the session's own: thinking that belongs to another model is
    /// then treated as the agent treats it.
    pub model: Option<String>,
    /// The dialect of the request, where it is not the one that the agent speaks to the session's model.
    pub dialect: Option<Dialect>,
}

/// How much of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// What the agent would send next: after its last compaction.
    #[default]
    Next,
    /// Every turn of the active branch, as if nothing had been compacted; summaries of compactions are left out.
    Whole,
}

/// One session, read.
#[derive(Debug, Clone)]
pub struct Session {
    /// Whose it is.
    pub agent: Agent,
    /// Its id, as the agent names it.
    pub id: String,
    /// The folder that it worked in.
    pub project: Option<String>,
    /// What the agent or its user called it.
    pub title: Option<String>,
    /// The model of its newest reply, or the one that was asked for.
    pub model: Option<String>,
    /// The dialect of its turns.
    pub dialect: Dialect,
    /// The system prompt, where the file holds it.
    pub system: Option<String>,
    /// The tool definitions in the dialect's form, where the file holds them.
    pub tools: Option<Value>,
    /// The turns in the order in which they are sent, one a wire message (an item, in Responses).
    pub turns: Vec<Turn>,
    /// How often it was compacted by the agent.
    pub compactions: usize,
    /// When it began,
    pub started: Option<Moment>,
    /// and when it was last written to.
    pub updated: Option<Moment>,
    /// Every request that the provider reported about, in order of time and of the whole session, compacted or not.
    pub requests: Vec<Reported>,
    /// What was read, but not understood: kinds of records, and how many of each.
    pub unknown: BTreeMap<String, usize>,
    /// What is wrong with the file, in words; it was read all the same.
    pub damage: Vec<String>,
}

/// What a provider reported about one request of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// When its reply came.
    pub at: Option<Moment>,
    /// The model that answered.
    pub model: Option<String>,
    /// What it used.
    pub usage: longhaul_engine::prices::Usage,
    /// The first of the turns that its reply became, where that is among them.
    pub reply: Option<usize>,
    /// What the agent itself wrote down as its cost, in dollars.
    pub dollars: Option<f64>,
}

/// Why a session cannot be read, in one line: what, where, what to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is no session, or damaged beyond reading.
    Wrong(String),
    /// It could not be read from the disk.
    World(String),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(text) | Self::World(text) => f.write_str(text),
        }
    }
}

/// How much of a file is looked at to tell what it is.
const HEAD: usize = 1 << 16;

/// Whose session a file or folder is; nothing, where it is none that is known.
pub fn recognise(path: &Path) -> Result<Option<Place>, Unread> {
    let head = if path.is_dir() { Vec::new() } else { lines::head(path, HEAD)? };
    let glimpse = Glimpse { path, head: &head };
    let format = FORMATS.iter().find(|format| (format.shows)(&glimpse));
    Ok(format.map(|format| Place::of_file(format.agent, path, None)))
}

/// Whose session begins with these bytes; for what has no file, and cannot be read twice.
#[must_use]
pub fn begins(head: &[u8]) -> Option<Agent> {
    let glimpse = Glimpse { path: Path::new("-"), head: &head[..head.len().min(HEAD)] };
    FORMATS.iter().find(|format| (format.shows)(&glimpse)).map(|format| format.agent)
}

/// Reads a session.
pub fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let path = place.path.as_path();
    let head = if path.is_dir() { Vec::new() } else { lines::head(path, HEAD)? };
    let glimpse = Glimpse { path, head: &head };
    let mut formats = FORMATS.iter().filter(|format| format.agent == place.agent);
    match formats.find(|format| (format.shows)(&glimpse)) {
        Some(format) => (format.read)(place, asked),
        None => Err(Unread::Wrong(format!("{} is no session of {}", path.display(), place.agent))),
    }
}
