//! What a format has to say for itself: one row a format, so that adding an agent is one file and one row.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{Agent, Asked, Moment, Session, Unread};

/// One way in which an agent keeps its sessions. An agent may have several.
pub(super) struct Format {
    /// Whose it is.
    pub(super) agent: Agent,
    /// Whether a file or folder is of this format.
    pub(super) shows: fn(&Glimpse<'_>) -> bool,
    /// Where the agent keeps its sessions on a machine: folders, or databases. They need not exist.
    pub(super) homes: fn(&Machine) -> Vec<PathBuf>,
    /// The sessions in such a place, each with its id and when it was last written to; what cannot be read is left out. It is
    /// asked before anything is read, so it looks at names and times, not into files.
    pub(super) list: fn(&Path) -> Vec<Place>,
    /// One session.
    pub(super) read: fn(&Place, &Asked) -> Result<Session, Unread>,
}

/// Every format, in the order in which a file is tried.
pub(super) const FORMATS: &[Format] = &[
    super::claude::FORMAT,
    super::codex::FORMAT,
    super::pi::FORMAT,
    super::gemini::FORMAT,
    super::cline::FORMAT,
    super::cline::CLASSIC,
    super::roo::FORMAT,
    super::aider::FORMAT,
    super::opencode::DATABASE,
    super::opencode::TREE,
    super::opencode::EXPORT,
    super::goose::DATABASE,
    super::goose::LINES,
    super::hermes::DATABASE,
    super::hermes::LINES,
    super::hermes::SNAPSHOT,
    super::openhands::V1,
    super::openhands::V0,
];

/// What is known of a file before it is read.
#[derive(Debug, Clone, Copy)]
pub struct Glimpse<'g> {
    /// Its path; a folder where the agent keeps a session in several files.
    pub path: &'g Path,
    /// Its first bytes, unpacked, up to 64 KiB; none of a folder.
    pub head: &'g [u8],
}

impl Glimpse<'_> {
    /// The objects that it begins with, one after the other. The last may be cut short: then the fields that are whole are
    /// there.
    pub(super) fn records(&self) -> Vec<Map<String, Value>> {
        let head = self.head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(self.head);
        let mut from = serde_json::Deserializer::from_slice(head);
        let mut records = Vec::new();
        loop {
            let mut fields = Map::new();
            let read = Fields(&mut fields).deserialize(&mut from);
            if !fields.is_empty() {
                records.push(fields);
            }
            if read.is_err() {
                return records;
            }
        }
    }

    /// The first of them.
    pub(super) fn first(&self) -> Map<String, Value> {
        self.records().into_iter().next().unwrap_or_default()
    }

    /// Whether it is a `SQLite` database.
    pub(super) fn is_database(&self) -> bool {
        self.head.starts_with(b"SQLite format 3\0")
    }
}

/// Keeps the fields of an object as they are read, so that those before an early end are there.
struct Fields<'f>(&'f mut Map<String, Value>);

impl<'de> DeserializeSeed<'de> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            // The key counts even where its value is cut short.
            self.0.insert(key.clone(), Value::Null);
            let value = map.next_value()?;
            self.0.insert(key, value);
        }
        Ok(())
    }
}

/// Where a session is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Whose it is.
    pub agent: Agent,
    /// The file, the folder or the database.
    pub path: PathBuf,
    /// Its id. Of several in a database or a file it says which one; where it says nothing, the newest is meant.
    pub id: Option<String>,
    /// When it was last written to, where that is known without reading it.
    pub touched: Option<Moment>,
}

impl Place {
    /// A file or folder, touched when the file system says so.
    #[must_use]
    pub fn of_file(agent: Agent, path: &Path, id: Option<String>) -> Self {
        let modified = path.metadata().and_then(|data| data.modified()).ok();
        Self { agent, path: path.to_owned(), id, touched: modified.map(Moment::of_system) }
    }
}

/// What of a machine says where agents keep their sessions.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The user's folder.
    pub home: PathBuf,
    /// The folder that the command was called in, whose parents may hold a session too.
    pub folder: PathBuf,
    /// The environment.
    pub environment: BTreeMap<String, String>,
}

impl Machine {
    /// A folder that a variable names, where it is set to something.
    pub(super) fn named_by(&self, variable: &str) -> Option<PathBuf> {
        self.environment.get(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}
