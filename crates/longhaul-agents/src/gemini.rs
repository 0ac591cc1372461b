//! Gemini CLI: one JSON document (`.json`), or a header and one record per line (`.jsonl`), where later
//! records can change earlier ones.
//!
//! By default the messages are written in Chat Completions form, which Google's compatible endpoint accepts.
//! A record of the model contains its tool calls and their results, so it becomes an assistant message and
//! tool results.

mod messages;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use longhaul_engine::prices::Usage;
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::{Map, Value};

use super::session_format::{FileProbe, SessionFormat, SessionLocation, UserEnvironment};
use super::{
    Agent, AgentSession, Extent, Origin, ReadOptions, RequestUsage, SessionReadError, Timestamp, file_reader, folder,
};

pub(super) const FORMAT: SessionFormat = SessionFormat { agent: Agent::Gemini, recognizes, default_paths, list, read };

/// The number of bytes that are examined to decide whether a file is one document. Chosen by hand: 64 KiB.
const HEAD_BYTES: usize = 1 << 16;

fn recognizes(probe: &FileProbe<'_>) -> bool {
    let first = probe.first_record();
    ["sessionId", "projectHash"].iter().all(|name| first.get(*name).is_some_and(Value::is_string))
}

fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    let home = environment.path_variable("GEMINI_CLI_HOME").unwrap_or_else(|| environment.home.clone());
    vec![home.join(".gemini/tmp")]
}

/// Lists the files `<project>/chats/session-<time>-<beginning of the ID>`. Subagents have folders of their
/// own there and are left out.
fn list(default_path: &Path) -> Vec<SessionLocation> {
    let session = |path: &PathBuf| {
        let ending = path.extension().is_some_and(|ending| ending == "json" || ending == "jsonl");
        ending && folder::file_name(path).starts_with("session-")
    };
    let projects = folder::sorted_entries(default_path);
    let files = projects.iter().flat_map(|project| folder::sorted_entries(&project.join("chats"))).filter(session);
    files
        .map(|path| {
            let name = folder::file_name(&path).split('.').next().unwrap_or_default();
            let id = name.rsplit('-').next().map(str::to_owned);
            SessionLocation::from_path(Agent::Gemini, &path, id)
        })
        .collect()
}

fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let path = location.path.as_path();
    let head = file_reader::read_head(path, HEAD_BYTES)?;
    let is_document = FileProbe { path, head: &head }.first_record().contains_key("messages");
    let log = if is_document { SessionLog::read_document(path)? } else { SessionLog::read_lines(path)? };
    let records: Vec<&LogRecord> = match options.extent {
        Extent::NextRequest => log.sent_ids.iter().filter_map(|id| log.records.get(id)).collect(),
        Extent::FullHistory => {
            log.all_ids.iter().filter_map(|id| log.records.get(id)).filter(|r| !r.is_summary).collect()
        }
    };
    let mut unknown = log.unknown_records.clone();
    let api_format = options.api_format.unwrap_or(ApiFormat::Chat);
    let written = messages::build_messages(&records, (options.extent, api_format), &mut unknown);
    let requests: Vec<RequestUsage> = log
        .usage_reports
        .iter()
        .map(|(id, reported)| RequestUsage {
            reply_index: written.message_of_record.get(id).copied(),
            ..reported.clone()
        })
        .collect();
    let header = |name: &str| log.header.get(name).and_then(Value::as_str);
    let times = || log.records.values().filter_map(|record| record_time(&record.value));
    Ok(AgentSession {
        agent: Agent::Gemini,
        id: header("sessionId").unwrap_or_default().to_owned(),
        project: find_project(path),
        title: header("summary").map(str::to_owned),
        model: options.model.clone().or_else(|| requests.iter().rev().find_map(|request| request.model.clone())),
        api_format,
        system_prompt: None,
        tools: None,
        messages: written.messages,
        compactions: log.compactions,
        started: header("startTime").and_then(Timestamp::parse).or_else(|| times().min()),
        updated: header("lastUpdated").and_then(Timestamp::parse).into_iter().chain(times()).max(),
        requests,
        unknown_records: unknown,
        warnings: log.warnings,
    })
}

/// The state of a session after all its records were applied.
#[derive(Default)]
struct SessionLog {
    header: Map<String, Value>,
    records: HashMap<String, LogRecord>,
    /// The IDs of the records that would be sent, in order.
    sent_ids: Vec<String>,
    /// The IDs of all records that were not rewound, in order.
    all_ids: Vec<String>,
    /// The reported usage by record ID, once for each record. It is kept even if the record is removed.
    usage_reports: Vec<(String, RequestUsage)>,
    compactions: usize,
    unknown_records: BTreeMap<String, usize>,
    warnings: Vec<String>,
}

struct LogRecord {
    id: String,
    origin: Origin,
    value: Value,
    /// The value before a compression changed it.
    before_compression: Option<Value>,
    /// Whether the record was added by a compression, in place of the records that it removed.
    is_summary: bool,
}

impl SessionLog {
    fn read_document(path: &Path) -> Result<Self, SessionReadError> {
        let bytes = file_reader::read_all(path)?;
        let read: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|error| {
            SessionReadError::Invalid(format!("{} is not a complete session of gemini: {error}", path.display()))
        })?;
        let mut log = Self { header: read, ..Self::default() };
        let Some(Value::Array(messages)) = log.header.remove("messages") else { return Ok(log) };
        for (at, message) in messages.into_iter().enumerate() {
            let id = message["id"].as_str().map_or_else(|| format!("message {at}"), str::to_owned);
            log.put_message(Origin::Id(id.clone()), id, message);
        }
        Ok(log)
    }

    fn read_lines(path: &Path) -> Result<Self, SessionReadError> {
        let mut log = Self::default();
        let damage = file_reader::for_each_line(path, |line| -> serde_json::Result<()> {
            log.apply_line(line.position.number, serde_json::from_str(line.text)?);
            Ok(())
        })?;
        log.warnings = damage;
        Ok(log)
    }

    fn apply_line(&mut self, line: usize, mut record: Map<String, Value>) {
        if let Some(to) = record.get("$rewindTo").and_then(Value::as_str) {
            self.rewind(to);
        } else if let Some(Value::Object(mut changes)) = record.remove("$set") {
            if let Some(Value::Array(messages)) = changes.remove("messages") {
                self.replace_messages(line, messages);
            }
            self.header.extend(changes);
        } else if let Some(id) = record.get("id").and_then(Value::as_str).map(str::to_owned) {
            self.put_message(Origin::Line(line), id, Value::Object(record));
        } else if record.contains_key("sessionId") {
            self.header.extend(record);
        } else {
            let kind = record.keys().next().map_or("record", String::as_str);
            *self.unknown_records.entry(kind.to_owned()).or_default() += 1;
        }
    }

    /// Adds a message, or replaces the message with the same ID.
    fn put_message(&mut self, origin: Origin, id: String, value: Value) {
        self.note_usage(&id, &value);
        let Some(record) = self.records.get_mut(&id) else {
            self.sent_ids.push(id.clone());
            return self.add_record(LogRecord { id, origin, value, before_compression: None, is_summary: false });
        };
        (record.value, record.origin) = (value, origin);
        if !self.sent_ids.contains(&id) {
            self.sent_ids.push(id);
        }
    }

    fn add_record(&mut self, record: LogRecord) {
        self.all_ids.push(record.id.clone());
        self.records.insert(record.id.clone(), record);
    }

    /// Records the reported usage of a message. A record that is written again replaces its report.
    fn note_usage(&mut self, id: &str, value: &Value) {
        let Some(usage) = parse_usage(&value["tokens"]) else { return };
        let model = value["model"].as_str().map(str::to_owned);
        let reported = RequestUsage { time: record_time(value), model, usage, reply_index: None, dollars: None };
        let earlier = self
            .records
            .contains_key(id)
            .then(|| self.usage_reports.iter_mut().rev().find(|(reported_id, _)| reported_id == id));
        match earlier.flatten() {
            Some((_, report)) => *report = reported,
            None => self.usage_reports.push((id.to_owned(), reported)),
        }
    }

    /// Replaces all messages. If some of the old ones are missing, it was a compression, and the new ones are
    /// its summary.
    fn replace_messages(&mut self, line: usize, messages: Vec<Value>) {
        let mut sent = Vec::new();
        let mut fresh = Vec::new();
        for (at, value) in messages.into_iter().enumerate() {
            let id = value["id"].as_str().map_or_else(|| format!("line {line} message {at}"), str::to_owned);
            self.note_usage(&id, &value);
            match self.records.get_mut(&id) {
                Some(record) if record.value != value => {
                    let before = std::mem::replace(&mut record.value, value);
                    record.before_compression.get_or_insert(before);
                }
                Some(_) => {}
                None => fresh.push(LogRecord {
                    id: id.clone(),
                    origin: Origin::Line(line),
                    value,
                    before_compression: None,
                    is_summary: false,
                }),
            }
            sent.push(id);
        }
        let kept: HashSet<&String> = sent.iter().collect();
        let is_compression = self.sent_ids.iter().any(|id| !kept.contains(id));
        self.compactions += usize::from(is_compression);
        for record in fresh {
            self.add_record(LogRecord { is_summary: is_compression, ..record });
        }
        self.sent_ids = sent;
    }

    /// Removes a message and all after it; all messages if its ID is unknown.
    fn rewind(&mut self, to: &str) {
        let at = self.sent_ids.iter().position(|id| id == to).unwrap_or(0);
        let gone: HashSet<String> = self.sent_ids.drain(at..).collect();
        self.all_ids.retain(|id| !gone.contains(id));
        self.records.retain(|id, _| !gone.contains(id));
    }
}

fn record_time(value: &Value) -> Option<Timestamp> {
    value["timestamp"].as_str().and_then(Timestamp::parse)
}

/// Parses the usage of a reply. `input` includes cached tokens; thinking is added to the output.
fn parse_usage(tokens: &Value) -> Option<Usage> {
    let count = |name: &str| tokens[name].as_u64().map(Tokens);
    let of_tools = count("tool").unwrap_or_default();
    let thought = count("thoughts").unwrap_or_default();
    Some(Usage {
        input: Some(count("input")? + of_tools),
        read: count("cached"),
        written: None,
        written_1h: None,
        output: count("output").map(|output| output + thought),
    })
}

/// Finds the folder that a session worked in: in a file beside its chats, else in the agent's list of
/// projects.
fn find_project(path: &Path) -> Option<String> {
    let project_folder = path.parent()?.parent()?;
    if let Ok(root) = std::fs::read_to_string(project_folder.join(".project_root")) {
        return Some(root.trim().to_owned()).filter(|root| !root.is_empty());
    }
    let file = std::fs::read(project_folder.parent()?.parent()?.join("projects.json")).ok()?;
    let listed: Value = serde_json::from_slice(&file).ok()?;
    let short = folder::file_name(project_folder);
    listed["projects"].as_object()?.iter().find(|(_, name)| *name == short).map(|(root, _)| root.clone())
}
