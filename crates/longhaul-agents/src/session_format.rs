//! The table of session formats. Each format is one row, so supporting another agent takes one module and one
//! row.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{Agent, AgentSession, ReadOptions, SessionReadError, Timestamp};

/// A format in which an agent stores its sessions. An agent can have several.
pub(super) struct SessionFormat {
    /// The agent that writes this format.
    pub(super) agent: Agent,
    /// Returns whether a file or folder has this format.
    pub(super) recognizes: fn(&FileProbe<'_>) -> bool,
    /// Returns the folders or databases in which the agent stores its sessions by default. They need not
    /// exist.
    pub(super) default_paths: fn(&UserEnvironment) -> Vec<PathBuf>,
    /// Lists the sessions in one of the default paths, each with its ID and the time of its last change.
    /// Leaves out what cannot be read. It is called for every agent before a session is chosen, so it should
    /// look at names, file times and database rows instead of reading conversations.
    pub(super) list: fn(&Path) -> Vec<SessionLocation>,
    /// Reads one session.
    pub(super) read: fn(&SessionLocation, &ReadOptions) -> Result<AgentSession, SessionReadError>,
}

/// All formats, in the order in which they are tried on a file.
pub(super) const FORMATS: &[SessionFormat] = &[
    super::claude::FORMAT,
    super::codex::FORMAT,
    super::pi::FORMAT,
    super::gemini::FORMAT,
    super::cline::FORMAT,
    super::cline::LEGACY_FORMAT,
    super::roo::FORMAT,
    super::aider::FORMAT,
    super::opencode::DATABASE_FORMAT,
    super::opencode::TREE_FORMAT,
    super::opencode::EXPORT_FORMAT,
    super::goose::DATABASE_FORMAT,
    super::goose::JSONL_FORMAT,
    super::hermes::DATABASE_FORMAT,
    super::hermes::JSONL_FORMAT,
    super::hermes::SNAPSHOT_FORMAT,
    super::openhands::V1_FORMAT,
    super::openhands::V0_FORMAT,
];

/// The path and the first bytes of a file, from which a format recognizes its sessions.
#[derive(Debug, Clone, Copy)]
pub struct FileProbe<'g> {
    /// The path; a folder if the agent stores a session in several files.
    pub path: &'g Path,
    /// The first bytes after decompression, up to 64 KiB; empty for a folder.
    pub head: &'g [u8],
}

impl FileProbe<'_> {
    /// Parses the JSON objects at the beginning of the file. If the last one is truncated, it has only the
    /// fields before that point.
    pub(super) fn leading_records(&self) -> Vec<Map<String, Value>> {
        let head = self.head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(self.head);
        let mut from = serde_json::Deserializer::from_slice(head);
        let mut records = Vec::new();
        loop {
            let mut fields = Map::new();
            let read = FieldCollector(&mut fields).deserialize(&mut from);
            if !fields.is_empty() {
                records.push(fields);
            }
            if read.is_err() {
                return records;
            }
        }
    }

    /// Parses the first JSON object of the file; see [`Self::leading_records`]. Returns an empty map if there
    /// is none.
    pub(super) fn first_record(&self) -> Map<String, Value> {
        self.leading_records().into_iter().next().unwrap_or_default()
    }

    /// Returns whether the file is a `SQLite` database.
    pub(super) fn is_sqlite(&self) -> bool {
        self.head.starts_with(b"SQLite format 3\0")
    }
}

/// Collects the fields of a JSON object during parsing, so that the fields before a premature end are
/// available.
struct FieldCollector<'f>(&'f mut Map<String, Value>);

impl<'de> DeserializeSeed<'de> for FieldCollector<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldCollector<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            // The key is recorded even if its value is truncated.
            self.0.insert(key.clone(), Value::Null);
            let value = map.next_value()?;
            self.0.insert(key, value);
        }
        Ok(())
    }
}

/// The location of a stored session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLocation {
    /// The agent that wrote the session.
    pub agent: Agent,
    /// The file, folder or database.
    pub path: PathBuf,
    /// The session's ID. It selects one of several sessions in a database or file; `None` selects the newest.
    pub id: Option<String>,
    /// The time of the last change, if it is known without reading the session.
    pub modified: Option<Timestamp>,
}

impl SessionLocation {
    /// Returns the location of a file or folder, with the modification time of the file system.
    #[must_use]
    pub fn from_path(agent: Agent, path: &Path, id: Option<String>) -> Self {
        let modified = path.metadata().and_then(|data| data.modified()).ok();
        Self { agent, path: path.to_owned(), id, modified: modified.map(Timestamp::from) }
    }
}

/// The facts about a user's environment that determine where agents store their sessions.
#[derive(Debug, Clone, Default)]
pub struct UserEnvironment {
    /// The user's home folder.
    pub home: PathBuf,
    /// The current folder of the command. Its parents can contain a session too (aider).
    pub current_dir: PathBuf,
    /// The environment variables.
    pub variables: BTreeMap<String, String>,
}

impl UserEnvironment {
    /// Returns an environment variable as a path, or `None` if it is not set or empty.
    pub(super) fn path_variable(&self, variable: &str) -> Option<PathBuf> {
        self.variables.get(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}
