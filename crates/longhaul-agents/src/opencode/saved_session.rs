//! Reads the database, the tree of files and the export into one type.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::database_copy::{self, DatabaseCopy, Row};
use super::super::discovery::strip_extension;
use super::super::folder::sorted_entries;
use super::super::{Agent, SessionLocation, SessionReadError, Timestamp, file_reader};
use super::{json_file_stem, nonempty_text};

/// A session as opencode stores it.
#[derive(Default)]
pub(super) struct SavedSession {
    pub(super) info: Value,
    /// The messages in order of time.
    pub(super) messages: Vec<SavedMessage>,
    pub(super) unknown_records: BTreeMap<String, usize>,
    pub(super) warnings: Vec<String>,
}

pub(super) struct SavedMessage {
    pub(super) id: String,
    pub(super) info: Value,
    /// The parts in order of their IDs.
    pub(super) parts: Vec<SavedPart>,
}

pub(super) struct SavedPart {
    pub(super) id: String,
    pub(super) data: Value,
}

const SESSION_COLUMNS: &[&str] = &["id", "parent_id", "directory", "title", "revert", "time_created", "time_updated"];

impl SavedSession {
    /// Reads the session with this ID, or the newest one that is not a subagent's.
    pub(super) fn from_database(path: &Path, id: Option<&str>) -> Result<Self, SessionReadError> {
        let database = database_copy::open_copy(path)?;
        let rows = session_rows(&database)?;
        let chosen = match id {
            Some(id) => rows.iter().find(|row| row.text("id") == Some(id)),
            None => rows.iter().find(|row| row.nonempty_text("parent_id").is_none()).or(rows.first()),
        };
        let row = chosen.ok_or_else(|| database.missing_session(id))?;
        let mut stored = Self { info: session_info(row), ..Self::default() };
        let id = row.text("id");
        let messages =
            database.select("message", &["id", "data"], "WHERE session_id = ?1 ORDER BY time_created, id", &[&id])?;
        for row in &messages {
            match (row.nonempty_text("id"), row.json("data")) {
                (Some(id), Some(info)) => stored.messages.push(SavedMessage { id, info, parts: Vec::new() }),
                _ => stored.count_unknown("message that is not JSON"),
            }
        }
        let places: BTreeMap<String, usize> =
            stored.messages.iter().enumerate().map(|(at, message)| (message.id.clone(), at)).collect();
        let parts =
            database.select("part", &["id", "message_id", "data"], "WHERE session_id = ?1 ORDER BY id", &[&id])?;
        for row in &parts {
            let place = row.text("message_id").and_then(|id| places.get(id));
            match (place, row.nonempty_text("id"), row.json("data")) {
                (Some(at), Some(id), Some(data)) => stored.messages[*at].parts.push(SavedPart { id, data }),
                _ => stored.count_unknown("part without a message"),
            }
        }
        Ok(stored)
    }

    /// Reads the output of `opencode export`, which is one document.
    pub(super) fn from_export(path: &Path) -> Result<Self, SessionReadError> {
        let bytes = file_reader::read_all(path)?;
        let mut whole: Value = serde_json::from_slice(&bytes)
            .map_err(|error| SessionReadError::Invalid(format!("{} is damaged: {error}", path.display())))?;
        let mut stored = Self { info: whole["info"].take(), ..Self::default() };
        let messages = match whole["messages"].take() {
            Value::Array(messages) => messages,
            _ => Vec::new(),
        };
        for mut message in messages {
            let info = message["info"].take();
            let parts = match message["parts"].take() {
                Value::Array(parts) => parts,
                _ => Vec::new(),
            };
            stored.push_message(info, parts);
        }
        stored.sort();
        Ok(stored)
    }

    /// Reads a session from a tree of files; `path` is the root of the tree or a session's file in it.
    pub(super) fn from_tree(path: &Path, id: Option<&str>) -> Result<Self, SessionReadError> {
        let root = tree_root(path).unwrap_or_else(|| path.to_owned());
        let file = if path.is_file() { Some(path.to_owned()) } else { find_session_file(&root, id) };
        let Some(file) = file else {
            return Err(SessionReadError::Invalid(match id {
                Some(id) => format!("{} has no session `{id}`", root.display()),
                None => format!("{} has no sessions yet", root.display()),
            }));
        };
        let bytes = file_reader::read_all(&file)?;
        let info: Value = serde_json::from_slice(&bytes)
            .map_err(|error| SessionReadError::Invalid(format!("{} is damaged: {error}", file.display())))?;
        let session = nonempty_text(&info["id"]).or_else(|| json_file_stem(&file)).unwrap_or_default();
        let mut stored = Self { info, ..Self::default() };
        let mut unread = 0;
        for message in read_json_files(&root.join("message").join(&session), &mut unread) {
            let parts = match nonempty_text(&message["id"]) {
                Some(id) => read_json_files(&root.join("part").join(id), &mut unread),
                None => Vec::new(),
            };
            stored.push_message(message, parts);
        }
        stored.sort();
        if unread > 0 {
            stored.warnings.push(format!("skipped {unread} files that are not JSON"));
        }
        Ok(stored)
    }

    fn count_unknown(&mut self, kind: &str) {
        *self.unknown_records.entry(kind.to_owned()).or_default() += 1;
    }

    fn push_message(&mut self, info: Value, parts: Vec<Value>) {
        let Some(id) = nonempty_text(&info["id"]) else { return self.count_unknown("message without an ID") };
        let parts = parts
            .into_iter()
            .map(|data| SavedPart { id: nonempty_text(&data["id"]).unwrap_or_default(), data })
            .collect();
        self.messages.push(SavedMessage { id, info, parts });
    }

    fn sort(&mut self) {
        let created = |message: &SavedMessage| message.info["time"]["created"].as_i64();
        self.messages.sort_by(|one, other| (created(one), &one.id).cmp(&(created(other), &other.id)));
        for message in &mut self.messages {
            message.parts.sort_by(|one, other| one.id.cmp(&other.id));
        }
    }
}

/// Selects all sessions, newest first.
fn session_rows(database: &DatabaseCopy) -> Result<Vec<Row>, SessionReadError> {
    database.select("session", SESSION_COLUMNS, "ORDER BY time_updated DESC, id DESC", &[])
}

/// Converts a row of the session table to the form of the files.
fn session_info(row: &Row) -> Value {
    json!({
        "id": row.text("id"),
        "parentID": row.text("parent_id"),
        "directory": row.text("directory"),
        "title": row.text("title"),
        "revert": row.json("revert"),
        "time": {"created": row.integer("time_created"), "updated": row.integer("time_updated")},
    })
}

/// Lists the databases of a folder, since development channels have their own. If `home` is a file, returns
/// that file.
fn database_files(default_path: &Path) -> Vec<PathBuf> {
    if default_path.is_file() {
        return vec![default_path.to_owned()];
    }
    let is_one = |path: &Path| strip_extension(path, &[".db"]).is_some_and(|name| name.starts_with("opencode"));
    sorted_entries(default_path).into_iter().filter(|path| is_one(path)).collect()
}

pub(super) fn list_databases(default_path: &Path) -> Vec<SessionLocation> {
    let mut places = Vec::new();
    for path in database_files(default_path) {
        let rows = database_copy::open_copy(&path).and_then(|database| session_rows(&database)).unwrap_or_default();
        for row in rows.iter().filter(|row| row.nonempty_text("parent_id").is_none()) {
            if let Some(id) = row.nonempty_text("id") {
                let touched = row.integer("time_updated").map(Timestamp);
                places.push(SessionLocation {
                    agent: Agent::Opencode,
                    path: path.clone(),
                    id: Some(id),
                    modified: touched,
                });
            }
        }
    }
    places
}

/// Lists the sessions of the tree that are not in a database.
pub(super) fn list_tree(default_path: &Path) -> Vec<SessionLocation> {
    let Some(root) = tree_root(default_path) else { return Vec::new() };
    let database_ids: BTreeSet<Option<String>> =
        list_databases(default_path).into_iter().map(|place| place.id).collect();
    let location_of = |path: &PathBuf| {
        let info = read_json(path)?;
        let id = nonempty_text(&info["id"]).or_else(|| json_file_stem(path));
        if nonempty_text(&info["parentID"]).is_some() || database_ids.contains(&id) {
            return None;
        }
        let mut location = SessionLocation::from_path(Agent::Opencode, path, id);
        location.modified = info["time"]["updated"].as_i64().map(Timestamp).or(location.modified);
        Some(location)
    };
    session_files(&root).iter().filter_map(location_of).collect()
}

/// Returns the root of a tree of files: `path` itself, its `storage` folder, or the root that contains this
/// session's file.
pub(super) fn tree_root(path: &Path) -> Option<PathBuf> {
    let is_root = |folder: &Path| folder.join("session").is_dir() && folder.join("message").is_dir();
    let around = || {
        let sessions = path.parent()?.parent()?;
        (sessions.file_name()? == "session").then(|| sessions.parent()).flatten().map(Path::to_owned)
    };
    let candidates =
        if path.is_dir() { vec![path.to_owned(), path.join("storage")] } else { around().into_iter().collect() };
    candidates.into_iter().find(|folder| is_root(folder))
}

/// Lists the files of sessions, which are in one folder per project.
fn session_files(root: &Path) -> Vec<PathBuf> {
    let is_session = |path: &PathBuf| json_file_stem(path).is_some();
    sorted_entries(&root.join("session"))
        .iter()
        .flat_map(|project| sorted_entries(project))
        .filter(is_session)
        .collect()
}

/// Finds the file of the session with this ID, or of the newest one that is not a subagent's.
fn find_session_file(root: &Path, id: Option<&str>) -> Option<PathBuf> {
    let found = session_files(root).into_iter().filter_map(|path| Some((read_json(&path)?, path)));
    let wanted = found.filter(|(info, _)| id.is_none_or(|id| info["id"] == id));
    wanted
        .max_by_key(|(info, _)| (nonempty_text(&info["parentID"]).is_none(), info["time"]["updated"].as_i64()))
        .map(|(_, path)| path)
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Reads the JSON files of a folder in order of their names. Counts in `unread` the files that are not JSON.
fn read_json_files(folder: &Path, unread: &mut usize) -> Vec<Value> {
    let mut documents = Vec::new();
    for path in sorted_entries(folder).into_iter().filter(|path| json_file_stem(path).is_some()) {
        match read_json(&path) {
            Some(document) => documents.push(document),
            None => *unread += 1,
        }
    }
    documents
}
