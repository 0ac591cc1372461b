//! `OpenHands`: a folder per session, with one file per event.
//!
//! ```text
//! v1.rs   events of the software agent SDK
//! v0.rs   events of the server before it, whose prompt builder added texts that are in no event
//! ```
//!
//! Both keep events in place when they condense the history: a condensation event says which events are
//! removed and which summary replaces them.

mod v0;
mod v1;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use longhaul_engine::{ApiFormat, Tokens, prices::Usage};
use serde_json::Value;

use super::file_reader;
use super::folder::{file_name, sorted_entries};
use super::message_drafts::{image_from_url, text_part};
use super::session_format::SessionFormat;
use super::{Agent, Extent, FileProbe, MessagePart, SessionLocation, SessionReadError, Timestamp, UserEnvironment};

/// The format of `conversations/<id>/events/event-<n>-<id>.json`.
pub(super) const V1_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::OpenHands,
    recognizes: |probe| recognizes(probe, v1::event_number),
    default_paths: default_paths_v1,
    list: |default_path| list(default_path, v1::event_number),
    read: v1::read,
};

/// The format of `sessions/<id>/events/<n>.json`.
pub(super) const V0_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::OpenHands,
    recognizes: |probe| recognizes(probe, v0::event_number),
    default_paths: |machine| vec![machine.home.join(".openhands").join("sessions")],
    list: |default_path| list(default_path, v0::event_number),
    read: v0::read,
};

/// A function that returns an event's number from its file name, or `None` if the file is not an event.
type ParseEventNumber = fn(&str) -> Option<u64>;

fn default_paths_v1(environment: &UserEnvironment) -> Vec<PathBuf> {
    let kept =
        environment.path_variable("OPENHANDS_PERSISTENCE_DIR").unwrap_or_else(|| environment.home.join(".openhands"));
    vec![environment.path_variable("OPENHANDS_CONVERSATIONS_DIR").unwrap_or_else(|| kept.join("conversations"))]
}

/// Returns the folder with the events of a session: its `events` folder, or `path` itself.
fn events_folder(path: &Path, number: ParseEventNumber) -> Option<PathBuf> {
    let has_events = |folder: &PathBuf| !event_files(folder, number).is_empty();
    [path.join("events"), path.to_owned()].into_iter().find(has_events)
}

fn recognizes(probe: &FileProbe<'_>, number: ParseEventNumber) -> bool {
    probe.path.is_dir() && events_folder(probe.path, number).is_some()
}

fn list(default_path: &Path, number: ParseEventNumber) -> Vec<SessionLocation> {
    let location_of = |folder: PathBuf| {
        let events = folder.join("events");
        let id = folder.file_name()?.to_str()?.to_owned();
        let touched = SessionLocation::from_path(Agent::OpenHands, &events, None).modified;
        let found = !event_files(&events, number).is_empty();
        found.then_some(SessionLocation { agent: Agent::OpenHands, path: folder, id: Some(id), modified: touched })
    };
    sorted_entries(default_path).into_iter().filter_map(location_of).collect()
}

/// Lists the files of events in order of their numbers.
fn event_files(folder: &Path, number: ParseEventNumber) -> Vec<(u64, PathBuf)> {
    let numbered = |path: PathBuf| Some((number(file_name(&path))?, path));
    let mut files: Vec<(u64, PathBuf)> = sorted_entries(folder).into_iter().filter_map(numbered).collect();
    files.sort();
    files
}

/// An event, and the ID by which other events refer to it.
struct Event {
    id: String,
    value: Value,
}

impl Event {
    fn time(&self) -> Option<Timestamp> {
        self.value["timestamp"].as_str().and_then(Timestamp::parse)
    }
}

/// The events of a session.
struct EventLog {
    events: Vec<Event>,
    warnings: Vec<String>,
}

impl EventLog {
    /// Reads the events of a session in order. Skips files that cannot be parsed; the newest can be
    /// incomplete.
    fn read(path: &Path, number: ParseEventNumber) -> Result<Self, SessionReadError> {
        let folder = events_folder(path, number).unwrap_or_else(|| path.to_owned());
        let mut damage = Vec::new();
        let mut events = Vec::new();
        for (_, file) in event_files(&folder, number) {
            let bytes = fs::read(&file).map_err(|error| file_reader::read_error(&file, &error))?;
            if let Ok(value) = serde_json::from_slice::<Value>(&bytes) {
                events.push(Event { id: id_text(&value["id"]), value });
            } else {
                damage.push(format!("skipped {}, which is not a valid event", file_name(&file)));
            }
        }
        if events.is_empty() {
            return Err(SessionReadError::Invalid(format!("{} has no readable event", folder.display())));
        }
        Ok(Self { events, warnings: damage })
    }
}

/// Returns an ID as text. IDs are strings in one version and numbers in the other.
fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

/// Reads a JSON document beside the events. Returns null if it does not exist or is not JSON.
fn read_json_beside(path: &Path, name: &str) -> Value {
    let folder = if path.ends_with("events") { path.parent().unwrap_or(path) } else { path };
    fs::read(folder.join(name)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

fn session_folder_name(path: &Path) -> String {
    let folder = if path.ends_with("events") { path.parent().unwrap_or(path) } else { path };
    file_name(folder).to_owned()
}

/// A condensation: the IDs of the events that it removes, and the summary with its position.
struct Condensation {
    forgotten: BTreeSet<String>,
    summary: Option<(String, usize)>,
}

impl Condensation {
    fn parse(said: &Value) -> Self {
        let listed = said["forgotten_event_ids"].as_array().into_iter().flatten().map(id_text);
        let range = match (said["forgotten_events_start_id"].as_u64(), said["forgotten_events_end_id"].as_u64()) {
            (Some(start), Some(end)) if end - start.min(end) < 1 << 20 => start..end + 1,
            _ => 0..0,
        };
        let offset = said["summary_offset"].as_u64().and_then(|offset| usize::try_from(offset).ok());
        let summary = nonempty_text(&said["summary"]).zip(offset);
        Self { forgotten: listed.chain(range.map(|id| id.to_string())).collect(), summary }
    }
}

/// An entry of the condensed history: an event, or the summary of removed events.
enum ViewEntry<'e> {
    Event(&'e Event),
    Summary { id: String, text: String, at: Option<Timestamp> },
}

impl ViewEntry<'_> {
    fn id(&self) -> &str {
        match self {
            Self::Event(event) => &event.id,
            Self::Summary { id, .. } => id,
        }
    }
}

/// Applies the condensations in order. Returns the entries that are sent, and the number of condensations.
fn sent_entries<'e>(
    events: &[&'e Event],
    extent: Extent,
    condensed: impl Fn(&Value) -> Option<Condensation>,
    is_sent: impl Fn(&Value) -> bool,
) -> (Vec<ViewEntry<'e>>, usize) {
    let mut view = Vec::new();
    let mut count = 0;
    for event in events {
        let Some(Condensation { forgotten, summary }) = condensed(&event.value) else {
            if is_sent(&event.value) {
                view.push(ViewEntry::Event(event));
            }
            continue;
        };
        count += 1;
        if extent == Extent::FullHistory {
            continue;
        }
        view.retain(|entry: &ViewEntry<'_>| !forgotten.contains(entry.id()));
        if let Some((text, offset)) = summary {
            let id = format!("{}-summary", event.id);
            view.insert(offset.min(view.len()), ViewEntry::Summary { id, text, at: event.time() });
        }
    }
    (view, count)
}

fn nonempty_text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Parses texts and images as `OpenHands` stores them.
fn content_parts(list: &Value, api_format: ApiFormat) -> Vec<MessagePart> {
    let mut pieces = Vec::new();
    for part in list.as_array().into_iter().flatten() {
        pieces.extend(part["text"].as_str().and_then(text_part));
        pieces.extend(images_from_urls(&part["image_urls"], api_format));
    }
    pieces
}

fn images_from_urls(urls: &Value, api_format: ApiFormat) -> Vec<MessagePart> {
    let urls = urls.as_array().into_iter().flatten().filter_map(Value::as_str);
    urls.filter_map(|url| image_from_url(url, api_format)).collect()
}

/// Returns the output of a command with the lines that `OpenHands` adds to it.
fn command_output(printed: &str, metadata: &Value) -> String {
    let said = |name: &str| metadata[name].as_str().unwrap_or_default();
    let line = |what: &str, said: Option<String>| said.map(|said| format!("\n[{what} {said}]")).unwrap_or_default();
    let code = metadata["exit_code"].as_i64().filter(|code| *code != -1);
    [
        format!("{}{printed}{}", said("prefix"), said("suffix")),
        line("Current working directory:", nonempty_text(&metadata["working_dir"])),
        line("Python interpreter:", nonempty_text(&metadata["py_interpreter_path"])),
        line("Command finished with exit code", code.map(|code| code.to_string())),
    ]
    .concat()
}

/// Returns the usage of a request. The library that `OpenHands` uses includes cache reads in the prompt,
/// newer versions of it also include cache writes, and for some providers it includes neither. A prompt that
/// is smaller than these counts cannot include them.
fn request_usage(prompt: u64, output: Option<u64>, read: u64, written: u64) -> Usage {
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
