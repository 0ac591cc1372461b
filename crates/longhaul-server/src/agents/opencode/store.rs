//! The database, the tree of files and the export, read into one shape.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::database::{self, Database, Row};
use super::super::find::bare_name;
use super::super::folder::entries;
use super::super::{Agent, Moment, Place, Unread, lines};
use super::{name_of, text};

/// A session as it is kept.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) info: Value,
    /// In order of time.
    pub(super) messages: Vec<Message>,
    pub(super) unknown: BTreeMap<String, usize>,
    pub(super) damage: Vec<String>,
}

pub(super) struct Message {
    pub(super) id: String,
    pub(super) info: Value,
    /// In order of their ids.
    pub(super) parts: Vec<Part>,
}

pub(super) struct Part {
    pub(super) id: String,
    pub(super) data: Value,
}

const SESSION: &[&str] = &["id", "parent_id", "directory", "title", "revert", "time_created", "time_updated"];

impl Stored {
    /// The session with this id, or the newest that no other one started.
    pub(super) fn of_database(path: &Path, id: Option<&str>) -> Result<Self, Unread> {
        let database = database::open(path)?;
        let rows = sessions(&database)?;
        let chosen = match id {
            Some(id) => rows.iter().find(|row| row.text("id") == Some(id)),
            None => rows.iter().find(|row| row.words("parent_id").is_none()).or(rows.first()),
        };
        let row = chosen.ok_or_else(|| database.lacks(id))?;
        let mut stored = Self { info: info(row), ..Self::default() };
        let id = row.text("id");
        let messages = database.rows(
            "message",
            &["id", "data"],
            "WHERE session_id = ?1 ORDER BY time_created, id",
            &[&id],
        )?;
        for row in &messages {
            match (row.words("id"), row.json("data")) {
                (Some(id), Some(info)) => stored.messages.push(Message { id, info, parts: Vec::new() }),
                _ => stored.skip("message that is no JSON"),
            }
        }
        let places: BTreeMap<String, usize> =
            stored.messages.iter().enumerate().map(|(at, message)| (message.id.clone(), at)).collect();
        let parts = database.rows(
            "part",
            &["id", "message_id", "data"],
            "WHERE session_id = ?1 ORDER BY id",
            &[&id],
        )?;
        for row in &parts {
            let place = row.text("message_id").and_then(|id| places.get(id));
            match (place, row.words("id"), row.json("data")) {
                (Some(at), Some(id), Some(data)) => stored.messages[*at].parts.push(Part { id, data }),
                _ => stored.skip("part that belongs to nothing"),
            }
        }
        Ok(stored)
    }

    /// What `opencode export` printed: one document.
    pub(super) fn of_export(path: &Path) -> Result<Self, Unread> {
        let bytes = lines::whole(path)?;
        let mut whole: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Unread::Wrong(format!("{} is damaged: {error}", path.display())))?;
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
            stored.push(info, parts);
        }
        stored.sort();
        Ok(stored)
    }

    /// The tree of files that a path is in or is the root of.
    pub(super) fn of_tree(path: &Path, id: Option<&str>) -> Result<Self, Unread> {
        let root = root(path).unwrap_or_else(|| path.to_owned());
        let file = if path.is_file() { Some(path.to_owned()) } else { newest(&root, id) };
        let Some(file) = file else {
            return Err(Unread::Wrong(match id {
                Some(id) => format!("{} has no session `{id}`", root.display()),
                None => format!("{} has no sessions yet", root.display()),
            }));
        };
        let bytes = lines::whole(&file)?;
        let info: Value = serde_json::from_slice(&bytes)
            .map_err(|error| Unread::Wrong(format!("{} is damaged: {error}", file.display())))?;
        let session = text(&info["id"]).or_else(|| name_of(&file)).unwrap_or_default();
        let mut stored = Self { info, ..Self::default() };
        let mut unread = 0;
        for message in documents(&root.join("message").join(&session), &mut unread) {
            let parts = match text(&message["id"]) {
                Some(id) => documents(&root.join("part").join(id), &mut unread),
                None => Vec::new(),
            };
            stored.push(message, parts);
        }
        stored.sort();
        if unread > 0 {
            stored.damage.push(format!("{unread} files are no JSON and were skipped"));
        }
        Ok(stored)
    }

    fn skip(&mut self, kind: &str) {
        *self.unknown.entry(kind.to_owned()).or_default() += 1;
    }

    fn push(&mut self, info: Value, parts: Vec<Value>) {
        let Some(id) = text(&info["id"]) else { return self.skip("message without an id") };
        let parts =
            parts.into_iter().map(|data| Part { id: text(&data["id"]).unwrap_or_default(), data }).collect();
        self.messages.push(Message { id, info, parts });
    }

    fn sort(&mut self) {
        let created = |message: &Message| message.info["time"]["created"].as_i64();
        self.messages.sort_by(|one, other| (created(one), &one.id).cmp(&(created(other), &other.id)));
        for message in &mut self.messages {
            message.parts.sort_by(|one, other| one.id.cmp(&other.id));
        }
    }
}

/// The newest first.
fn sessions(database: &Database) -> Result<Vec<Row>, Unread> {
    database.rows("session", SESSION, "ORDER BY time_updated DESC, id DESC", &[])
}

/// A row of the table in the form of the files.
fn info(row: &Row) -> Value {
    json!({
        "id": row.text("id"),
        "parentID": row.text("parent_id"),
        "directory": row.text("directory"),
        "title": row.text("title"),
        "revert": row.json("revert"),
        "time": {"created": row.whole("time_created"), "updated": row.whole("time_updated")},
    })
}

/// The databases of a folder (development channels have their own), or the one that is named.
fn databases(home: &Path) -> Vec<PathBuf> {
    if home.is_file() {
        return vec![home.to_owned()];
    }
    let is_one = |path: &Path| bare_name(path, &[".db"]).is_some_and(|name| name.starts_with("opencode"));
    entries(home).into_iter().filter(|path| is_one(path)).collect()
}

pub(super) fn list_databases(home: &Path) -> Vec<Place> {
    let mut places = Vec::new();
    for path in databases(home) {
        let rows = database::open(&path).and_then(|database| sessions(&database)).unwrap_or_default();
        for row in rows.iter().filter(|row| row.words("parent_id").is_none()) {
            if let Some(id) = row.words("id") {
                let touched = row.whole("time_updated").map(Moment);
                places.push(Place { agent: Agent::Opencode, path: path.clone(), id: Some(id), touched });
            }
        }
    }
    places
}

/// The sessions of the tree that no database took over.
pub(super) fn list_tree(home: &Path) -> Vec<Place> {
    let Some(root) = root(home) else { return Vec::new() };
    let known: BTreeSet<Option<String>> = list_databases(home).into_iter().map(|place| place.id).collect();
    let place = |path: &PathBuf| {
        let info = document(path)?;
        let id = text(&info["id"]).or_else(|| name_of(path));
        if text(&info["parentID"]).is_some() || known.contains(&id) {
            return None;
        }
        let mut place = Place::of_file(Agent::Opencode, path, id);
        place.touched = info["time"]["updated"].as_i64().map(Moment).or(place.touched);
        Some(place)
    };
    session_files(&root).iter().filter_map(place).collect()
}

/// The root of the tree that a path is, holds, or is a session's file of.
pub(super) fn root(path: &Path) -> Option<PathBuf> {
    let is_root = |folder: &Path| folder.join("session").is_dir() && folder.join("message").is_dir();
    let around = || {
        let sessions = path.parent()?.parent()?;
        (sessions.file_name()? == "session").then(|| sessions.parent()).flatten().map(Path::to_owned)
    };
    let candidates = if path.is_dir() {
        vec![path.to_owned(), path.join("storage")]
    } else {
        around().into_iter().collect()
    };
    candidates.into_iter().find(|folder| is_root(folder))
}

/// Files of sessions: each in the folder of its project.
fn session_files(root: &Path) -> Vec<PathBuf> {
    let is_session = |path: &PathBuf| name_of(path).is_some();
    entries(&root.join("session")).iter().flat_map(|project| entries(project)).filter(is_session).collect()
}

/// The session with this id, or the newest that no other one started.
fn newest(root: &Path, id: Option<&str>) -> Option<PathBuf> {
    let found = session_files(root).into_iter().filter_map(|path| Some((document(&path)?, path)));
    let wanted = found.filter(|(info, _)| id.is_none_or(|id| info["id"] == id));
    wanted
        .max_by_key(|(info, _)| (text(&info["parentID"]).is_none(), info["time"]["updated"].as_i64()))
        .map(|(_, path)| path)
}

fn document(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The documents of a folder by their names; those that are none are counted.
fn documents(folder: &Path, unread: &mut usize) -> Vec<Value> {
    let mut documents = Vec::new();
    for path in entries(folder).into_iter().filter(|path| name_of(path).is_some()) {
        match document(&path) {
            Some(document) => documents.push(document),
            None => *unread += 1,
        }
    }
    documents
}
