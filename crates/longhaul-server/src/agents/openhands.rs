//! `OpenHands`: a folder a session, one file an event.
//!
//! ```text
//! v1.rs   events as the software agent SDK writes them
//! v0.rs   events as the server before it wrote them; its prompt builder added words that no event holds
//! ```
//!
//! Both leave events in place when they condense: an event of its own says which are forgotten, and what stands for them.

mod v0;
mod v1;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use longhaul_engine::{Dialect, Tokens, prices::Usage};
use serde_json::Value;

use super::draft::{picture, words};
use super::folder::{entries, name};
use super::format::Format;
use super::lines;
use super::{Agent, Extent, Glimpse, Machine, Moment, Piece, Place, Unread};

/// `conversations/<id>/events/event-<n>-<id>.json`.
pub(super) const V1: Format = Format {
    agent: Agent::OpenHands,
    shows: |glimpse| shows(glimpse, v1::number),
    homes: homes_v1,
    list: |home| list(home, v1::number),
    read: v1::read,
};

/// `sessions/<id>/events/<n>.json`.
pub(super) const V0: Format = Format {
    agent: Agent::OpenHands,
    shows: |glimpse| shows(glimpse, v0::number),
    homes: |machine| vec![machine.home.join(".openhands").join("sessions")],
    list: |home| list(home, v0::number),
    read: v0::read,
};

/// The number of an event by the name of its file; nothing, where it is no event.
type Number = fn(&str) -> Option<u64>;

fn homes_v1(machine: &Machine) -> Vec<PathBuf> {
    let kept =
        machine.named_by("OPENHANDS_PERSISTENCE_DIR").unwrap_or_else(|| machine.home.join(".openhands"));
    vec![machine.named_by("OPENHANDS_CONVERSATIONS_DIR").unwrap_or_else(|| kept.join("conversations"))]
}

/// The folder of the events of a session: its own, or the one that was named.
fn events_folder(path: &Path, number: Number) -> Option<PathBuf> {
    let has_events = |folder: &PathBuf| !event_files(folder, number).is_empty();
    [path.join("events"), path.to_owned()].into_iter().find(has_events)
}

fn shows(glimpse: &Glimpse<'_>, number: Number) -> bool {
    glimpse.path.is_dir() && events_folder(glimpse.path, number).is_some()
}

fn list(home: &Path, number: Number) -> Vec<Place> {
    let place = |folder: PathBuf| {
        let events = folder.join("events");
        let id = folder.file_name()?.to_str()?.to_owned();
        let touched = Place::of_file(Agent::OpenHands, &events, None).touched;
        let found = !event_files(&events, number).is_empty();
        found.then_some(Place { agent: Agent::OpenHands, path: folder, id: Some(id), touched })
    };
    entries(home).into_iter().filter_map(place).collect()
}

/// The files of events, by their numbers.
fn event_files(folder: &Path, number: Number) -> Vec<(u64, PathBuf)> {
    let numbered = |path: PathBuf| Some((number(name(&path))?, path));
    let mut files: Vec<(u64, PathBuf)> = entries(folder).into_iter().filter_map(numbered).collect();
    files.sort();
    files
}

/// An event, and what it is called by others.
struct Event {
    id: String,
    value: Value,
}

impl Event {
    fn at(&self) -> Option<Moment> {
        self.value["timestamp"].as_str().and_then(Moment::parse)
    }
}

/// What was read of a folder.
struct Recorded {
    events: Vec<Event>,
    damage: Vec<String>,
}

impl Recorded {
    /// The events of a session, in order. The newest may be half written.
    fn read(path: &Path, number: Number) -> Result<Self, Unread> {
        let folder = events_folder(path, number).unwrap_or_else(|| path.to_owned());
        let mut damage = Vec::new();
        let mut events = Vec::new();
        for (_, file) in event_files(&folder, number) {
            let bytes = fs::read(&file).map_err(|error| lines::unreadable(&file, &error))?;
            if let Ok(value) = serde_json::from_slice::<Value>(&bytes) {
                events.push(Event { id: id_of(&value["id"]), value });
            } else {
                damage.push(format!("{} is no event and was skipped", name(&file)));
            }
        }
        if events.is_empty() {
            return Err(Unread::Wrong(format!("{} has no event that can be read", folder.display())));
        }
        Ok(Self { events, damage })
    }
}

/// Ids are texts in one version and numbers in the other.
fn id_of(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// A document beside the events; nothing, where it is not there or no JSON.
fn beside(path: &Path, name: &str) -> Value {
    let folder = if path.ends_with("events") { path.parent().unwrap_or(path) } else { path };
    fs::read(folder.join(name)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn folder_name(path: &Path) -> String {
    let folder = if path.ends_with("events") { path.parent().unwrap_or(path) } else { path };
    name(folder).to_owned()
}

/// What a condensation says: which events go, and what stands where.
struct Condensed {
    forgotten: BTreeSet<String>,
    summary: Option<(String, usize)>,
}

impl Condensed {
    fn of(said: &Value) -> Self {
        let listed = said["forgotten_event_ids"].as_array().into_iter().flatten().map(id_of);
        let range =
            match (said["forgotten_events_start_id"].as_u64(), said["forgotten_events_end_id"].as_u64()) {
                (Some(start), Some(end)) if end - start.min(end) < 1 << 20 => start..end + 1,
                _ => 0..0,
            };
        let offset = said["summary_offset"].as_u64().and_then(|offset| usize::try_from(offset).ok());
        let summary = text(&said["summary"]).zip(offset);
        Self { forgotten: listed.chain(range.map(|id| id.to_string())).collect(), summary }
    }
}

/// What is sent: an event, or what stands for forgotten ones.
enum Entry<'e> {
    Event(&'e Event),
    Summary { id: String, text: String, at: Option<Moment> },
}

impl Entry<'_> {
    fn id(&self) -> &str {
        match self {
            Self::Event(event) => &event.id,
            Self::Summary { id, .. } => id,
        }
    }
}

/// The events that are sent, with condensations applied in their order, and how many of those there were.
fn view<'e>(
    events: &[&'e Event],
    extent: Extent,
    condensed: impl Fn(&Value) -> Option<Condensed>,
    is_sent: impl Fn(&Value) -> bool,
) -> (Vec<Entry<'e>>, usize) {
    let mut view = Vec::new();
    let mut count = 0;
    for event in events {
        let Some(Condensed { forgotten, summary }) = condensed(&event.value) else {
            if is_sent(&event.value) {
                view.push(Entry::Event(event));
            }
            continue;
        };
        count += 1;
        if extent == Extent::Whole {
            continue;
        }
        view.retain(|entry: &Entry<'_>| !forgotten.contains(entry.id()));
        if let Some((text, offset)) = summary {
            let id = format!("{}-summary", event.id);
            view.insert(offset.min(view.len()), Entry::Summary { id, text, at: event.at() });
        }
    }
    (view, count)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Texts and pictures as `OpenHands` writes them.
fn content(list: &Value, dialect: Dialect) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for part in list.as_array().into_iter().flatten() {
        pieces.extend(part["text"].as_str().and_then(words));
        pieces.extend(pictures(&part["image_urls"], dialect));
    }
    pieces
}

fn pictures(urls: &Value, dialect: Dialect) -> Vec<Piece> {
    let urls = urls.as_array().into_iter().flatten().filter_map(Value::as_str);
    urls.filter_map(|url| picture(url, dialect)).collect()
}

/// What a command printed, with what `OpenHands` says around it.
fn command_output(printed: &str, metadata: &Value) -> String {
    let said = |name: &str| metadata[name].as_str().unwrap_or_default();
    let line =
        |what: &str, said: Option<String>| said.map(|said| format!("\n[{what} {said}]")).unwrap_or_default();
    let code = metadata["exit_code"].as_i64().filter(|code| *code != -1);
    [
        format!("{}{printed}{}", said("prefix"), said("suffix")),
        line("Current working directory:", text(&metadata["working_dir"])),
        line("Python interpreter:", text(&metadata["py_interpreter_path"])),
        line("Command finished with exit code", code.map(|code| code.to_string())),
    ]
    .concat()
}

/// What a request used. The library beneath counts the prompt with what was read from the cache, newer versions of it also
/// with what was put there, and some providers with neither: a prompt that cannot hold them does not.
fn usage(prompt: u64, output: Option<u64>, read: u64, written: u64) -> Usage {
    let input = match prompt {
        prompt if prompt >= read + written => prompt,
        prompt if prompt >= read => prompt + written,
        prompt => prompt + read + written,
    };
    Usage {
        input: Some(Tokens(input)),
        read: Some(Tokens(read)),
        written: Some(Tokens(written)),
        written_1h: None,
        output: output.map(Tokens),
    }
}
