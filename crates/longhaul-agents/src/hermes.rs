//! Hermes: a database of all sessions; before and beside it, JSON Lines files (written by its gateway) and
//! snapshots of whole sessions.
//!
//! All of them contain messages in Chat Completions form. A compaction appends the new list of messages
//! (head, summary, tail) to the old one, in the same session or in a child session; snapshots and JSON Lines
//! files contain only the new list. Usage is stored as totals of a session, at best for each model, and
//! becomes reports without a reply.

mod state_db;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use longhaul_engine::ApiFormat;
use serde_json::Value;

use super::discovery::strip_extension;
use super::file_reader;
use super::folder::sorted_entries;
use super::message_drafts::{self, MessageDrafts, UnansweredCalls};
use super::session_format::SessionFormat;
use super::{
    Agent, AgentSession, Extent, FileProbe, MessagePart, Origin, ReadOptions, RecordedMessage, RequestUsage, Role,
    SessionLocation, SessionReadError, Timestamp, UserEnvironment,
};

/// The format of `state.db`.
pub(super) const DATABASE_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::Hermes,
    recognizes: state_db::recognizes,
    default_paths,
    list: state_db::list,
    read: state_db::read,
};

/// The format of `sessions/<id>.jsonl`, which the gateway of Hermes writes.
pub(super) const JSONL_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::Hermes,
    recognizes: recognizes_jsonl,
    default_paths,
    list: list_jsonl,
    read: read_jsonl,
};

/// The format of `sessions/session_<id>.json`, a whole session with its system prompt and tools.
pub(super) const SNAPSHOT_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::Hermes,
    recognizes: recognizes_snapshot,
    default_paths,
    list: list_snapshots,
    read: read_snapshot,
};

/// The beginning of a summary, which can be a user or an assistant message.
const SUMMARY_PREFIX: &str = "[CONTEXT COMPACTION";

/// The text of the result that Hermes adds to a call without one.
const MISSING_RESULT_TEXT: &str = "[Result unavailable — see context summary above]";

fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    let windows = environment.path_variable("LOCALAPPDATA").map(|data| data.join("hermes"));
    vec![environment.path_variable("HERMES_HOME").or(windows).unwrap_or_else(|| environment.home.join(".hermes"))]
}

fn list_files(default_path: &Path, id: fn(&Path) -> Option<&str>) -> Vec<SessionLocation> {
    let files = sorted_entries(&default_path.join("sessions")).into_iter().filter(|path| id(path).is_some());
    let files: Vec<PathBuf> = files.collect();
    if files.is_empty() {
        return Vec::new();
    }
    let database_ids = state_db::session_ids(default_path);
    let location_of =
        |path: &PathBuf| Some(SessionLocation::from_path(Agent::Hermes, path, Some(id(path)?.to_owned())));
    files
        .iter()
        .filter_map(location_of)
        .filter(|place| !place.id.as_ref().is_some_and(|id| database_ids.contains(id)))
        .collect()
}

fn list_jsonl(default_path: &Path) -> Vec<SessionLocation> {
    list_files(default_path, |path| strip_extension(path, &[".jsonl"]))
}

fn list_snapshots(default_path: &Path) -> Vec<SessionLocation> {
    list_files(default_path, snapshot_id)
}

fn snapshot_id(path: &Path) -> Option<&str> {
    strip_extension(path, &[".json"])?.strip_prefix("session_")
}

fn recognizes_jsonl(probe: &FileProbe<'_>) -> bool {
    let first = probe.first_record();
    let is_said = first.contains_key("content") && first.get("timestamp").is_some_and(Value::is_string);
    let role = first.get("role").and_then(Value::as_str);
    role == Some("session_meta") || (role.is_some() && is_said && !first.contains_key("type"))
}

fn recognizes_snapshot(probe: &FileProbe<'_>) -> bool {
    let first = probe.first_record();
    ["session_id", "session_start", "platform"].iter().all(|name| first.contains_key(*name))
}

/// Reads a JSON Lines file. Its times are those of a user's turn, not of single messages.
fn read_jsonl(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let mut reader = SessionBuilder::new(options);
    let (mut model, mut tools) = (None, None);
    let damage = file_reader::for_each_line(&location.path, |line| {
        let record: Value = serde_json::from_str(line.text)?;
        if record["role"] == "session_meta" {
            model = nonempty_text(&record["model"]).or(model.take());
            tools = record["tools"].is_array().then(|| record["tools"].clone()).or(tools.take());
        } else {
            reader.add_json_message(&record, Origin::Line(line.position.number));
        }
        Ok::<_, serde_json::Error>(())
    })?;
    let name = strip_extension(&location.path, &[".jsonl"]).unwrap_or_default();
    let mut session = reader.finish(location.id.clone().unwrap_or_else(|| name.to_owned()));
    session.model = session.model.or(model);
    session.tools = tools;
    session.warnings = damage;
    Ok(session)
}

fn read_snapshot(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let bytes = file_reader::read_all(&location.path)?;
    let whole: Value = serde_json::from_slice(&bytes)
        .map_err(|error| SessionReadError::Invalid(format!("{} is damaged: {error}", location.path.display())))?;
    let mut reader = SessionBuilder::new(options);
    for (at, message) in whole["messages"].as_array().into_iter().flatten().enumerate() {
        reader.add_json_message(message, Origin::Id(format!("messages/{at}")));
    }
    let time = |name: &str| whole[name].as_str().and_then(Timestamp::parse);
    let id = nonempty_text(&whole["session_id"]).or(location.id.clone());
    let mut session = reader.finish(id.unwrap_or_default());
    session.model = session.model.or(nonempty_text(&whole["model"]));
    session.system_prompt = nonempty_text(&whole["system_prompt"]);
    session.tools = whole["tools"].as_array().filter(|tools| !tools.is_empty()).map(|_| whole["tools"].clone());
    session.started = time("session_start");
    session.updated = time("last_updated");
    Ok(session)
}

fn nonempty_text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A message as Hermes stores it.
struct StoredMessage {
    role: String,
    content: Value,
    reasoning: Option<String>,
    tool_calls: Value,
    tool_call_id: Option<String>,
    origin: Origin,
    time: Option<Timestamp>,
}

impl StoredMessage {
    fn is_summary(&self) -> bool {
        let begins = |text: &Value| text.as_str().is_some_and(|text| text.starts_with(SUMMARY_PREFIX));
        begins(&self.content) || begins(&self.content[0]["text"])
    }

    fn has_same_content(&self, other: &Self) -> bool {
        self.role == other.role
            && self.content == other.content
            && self.tool_calls == other.tool_calls
            && self.tool_call_id == other.tool_call_id
    }
}

/// Builds a session from stored messages.
struct SessionBuilder<'r> {
    options: &'r ReadOptions,
    api_format: ApiFormat,
    messages: Vec<StoredMessage>,
    /// The number of compactions that continued the session in a child session.
    compactions: usize,
    summaries: BTreeSet<String>,
    requests: Vec<RequestUsage>,
    first_time: Option<Timestamp>,
    last_time: Option<Timestamp>,
    unknown_records: BTreeMap<String, usize>,
}

impl<'r> SessionBuilder<'r> {
    fn new(options: &'r ReadOptions) -> Self {
        Self {
            options,
            api_format: options.api_format.unwrap_or(ApiFormat::Chat),
            messages: Vec::new(),
            compactions: 0,
            summaries: BTreeSet::new(),
            requests: Vec::new(),
            first_time: None,
            last_time: None,
            unknown_records: BTreeMap::new(),
        }
    }

    fn add_json_message(&mut self, message: &Value, origin: Origin) {
        let at = match &message["timestamp"] {
            Value::String(text) => Timestamp::parse(text),
            other => other.as_f64().map(Timestamp::from_seconds),
        };
        let stored = StoredMessage {
            role: nonempty_text(&message["role"]).unwrap_or_default(),
            content: [&message["api_content"], &message["content"]]
                .into_iter()
                .find(|content| !content.is_null())
                .cloned()
                .unwrap_or_default(),
            reasoning: nonempty_text(&message["reasoning_content"]).or(nonempty_text(&message["reasoning"])),
            tool_calls: message["tool_calls"].clone(),
            tool_call_id: nonempty_text(&message["tool_call_id"]),
            origin,
            time: at,
        };
        self.add_message(stored, true);
    }

    fn add_message(&mut self, kept: StoredMessage, wanted: bool) {
        self.first_time = self.first_time.or(kept.time);
        self.last_time = self.last_time.max(kept.time);
        if kept.is_summary() {
            self.summaries.insert(kept.content.to_string());
        }
        if wanted && kept.role != "session_meta" {
            self.messages.push(kept);
        }
    }

    fn finish(mut self, id: String) -> AgentSession {
        let mut kept = std::mem::take(&mut self.messages);
        if self.options.extent == Extent::FullHistory {
            kept = remove_compaction_copies(kept);
        }
        let mut drafts = MessageDrafts::default();
        for kept in kept {
            if let Some(turn) = self.build_message(kept) {
                drafts.push(turn, None);
            }
        }
        drafts.pair_results(UnansweredCalls::AddResult(MISSING_RESULT_TEXT));
        AgentSession {
            agent: Agent::Hermes,
            id,
            project: None,
            title: None,
            model: self.options.model.clone(),
            api_format: self.api_format,
            system_prompt: None,
            tools: None,
            messages: drafts.finish(self.api_format, &mut self.requests),
            compactions: self.compactions.max(self.summaries.len()),
            started: self.first_time,
            updated: self.last_time,
            requests: self.requests,
            unknown_records: self.unknown_records,
            warnings: Vec::new(),
        }
    }

    fn build_message(&mut self, kept: StoredMessage) -> Option<RecordedMessage> {
        let StoredMessage { role, content, reasoning, tool_calls, tool_call_id, origin, time: at } = kept;
        let said = message_drafts::chat_content_parts(&content, self.api_format);
        let (role, pieces) = match role.as_str() {
            "user" => (Role::User, said),
            "system" => (Role::System, said),
            "assistant" => {
                let thought = reasoning.map(|text| MessagePart::Thinking { text, signature: None });
                (
                    Role::Assistant,
                    thought.into_iter().chain(said).chain(message_drafts::chat_tool_calls(&tool_calls)).collect(),
                )
            }
            "tool" => (Role::Tool, vec![MessagePart::ToolResult { id: tool_call_id?, content: said, failed: false }]),
            other => {
                *self.unknown_records.entry(format!("role {other}")).or_default() += 1;
                return None;
            }
        };
        Some(RecordedMessage {
            role,
            parts: pieces.into_iter().map(|piece| (piece, origin.clone())).collect(),
            time: at,
        })
    }
}

/// Returns the messages as if nothing had been compacted. A compaction repeats the first messages, adds its
/// summary, and repeats the last messages; this function removes the summary and the repetitions.
fn remove_compaction_copies(kept: Vec<StoredMessage>) -> Vec<StoredMessage> {
    let same = |one: &[StoredMessage], other: &[StoredMessage]| {
        one.iter().zip(other).all(|(one, other)| one.has_same_content(other))
    };
    let mut out: Vec<StoredMessage> = Vec::with_capacity(kept.len());
    let mut rest = VecDeque::from(kept);
    while let Some(next) = rest.pop_front() {
        if !next.is_summary() {
            out.push(next);
            continue;
        }
        let length = out.len();
        let head = (1..=length / 2).rev().find(|head| same(&out[..*head], &out[length - head..])).unwrap_or(0);
        out.truncate(length - head);
        let behind = rest.make_contiguous();
        let most = out.len().min(behind.len());
        let tail = (1..=most).rev().find(|tail| same(&out[out.len() - tail..], &behind[..*tail])).unwrap_or(0);
        rest.drain(..tail);
    }
    out
}
