//! pi: one entry per line. Since version 2 the entries form a tree by `id` and `parentId`; in version 1 they
//! are a list.
//!
//! The last entry is the leaf, and the path from the root to it is the active branch. The whole branch is
//! sent or, after a compaction, the newest summary, the entries that it kept, and the entries after it.
//! `messages.rs` builds messages from them.

mod messages;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use longhaul_engine::prices::Usage;
use longhaul_engine::{ApiFormat, Tokens};
use serde::Deserialize;
use serde_json::Value;

use super::file_reader::{self, LinePosition};
use super::folder;
use super::session_format::{FileProbe, SessionFormat, SessionLocation, UserEnvironment};
use super::{Agent, AgentSession, Extent, ReadOptions, RequestUsage, SessionReadError, Timestamp};
use messages::MessageBuilder;

pub(super) const FORMAT: SessionFormat = SessionFormat { agent: Agent::Pi, recognizes, default_paths, list, read };

/// The types of entries that are known. Only messages, custom messages, and summaries of branches and
/// compactions are sent to the model.
const KNOWN_ENTRY_TYPES: &[&str] = &[
    "session",
    "message",
    "custom_message",
    "branch_summary",
    "compaction",
    "model_change",
    "thinking_level_change",
    "custom",
    "label",
    "session_info",
];

/// The API format of a model that never replied in the session, by the beginning of the model's or provider's
/// name.
const API_FORMATS_BY_PREFIX: &[(&str, ApiFormat)] = &[
    ("anthropic", ApiFormat::Messages),
    ("claude", ApiFormat::Messages),
    ("openai", ApiFormat::Responses),
    ("gpt-", ApiFormat::Responses),
    ("codex", ApiFormat::Responses),
    ("o1", ApiFormat::Responses),
    ("o3", ApiFormat::Responses),
    ("o4", ApiFormat::Responses),
];

fn recognizes(probe: &FileProbe<'_>) -> bool {
    let first = probe.first_record();
    let is_text = |name: &str| first.get(name).is_some_and(Value::is_string);
    first.get("type").and_then(Value::as_str) == Some("session") && is_text("id") && is_text("timestamp")
}

fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    let agent = environment.path_variable("PI_CODING_AGENT_DIR").unwrap_or_else(|| environment.home.join(".pi/agent"));
    vec![agent.join("sessions")]
}

/// Lists the sessions: a folder per project, with a file `<time>_<id>.jsonl` per session.
fn list(default_path: &Path) -> Vec<SessionLocation> {
    let session = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
    let projects = folder::sorted_entries(default_path);
    let files = projects.iter().flat_map(|project| folder::sorted_entries(project)).filter(session);
    files
        .map(|path| {
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let id = name.split_once('_').map_or(name, |(_, id)| id).to_owned();
            SessionLocation::from_path(Agent::Pi, &path, Some(id))
        })
        .collect()
}

fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let mut file = SessionIndex::scan(&location.path)?;
    let branch = file.active_branch();
    let newest = file.next_model(&branch);
    let compaction = branch.iter().rposition(|&entry| file.entries[entry].kind == "compaction");
    let (summary, mut sent) = match (options.extent, compaction) {
        (Extent::NextRequest, Some(at)) => (Some(branch[at]), file.entries_after_compaction(&branch, at)),
        _ => (None, branch.clone()),
    };
    sent.retain(|&entry| file.entries[entry].kind != "compaction");

    let model = options.model.clone().or_else(|| newest.model.clone());
    let api_format = options.api_format.unwrap_or_else(|| match &options.model {
        Some(name) => file.api_format_of(name),
        None => newest.api_format(),
    });
    let mut turns = MessageBuilder::new(api_format, model.clone());
    let where_is = |entries: &[usize]| -> Vec<LinePosition> {
        entries.iter().map(|&entry| file.entries[entry].position).collect()
    };
    file_reader::reread_lines(&location.path, &mut where_is(summary.as_slice()), |line| {
        turns.add_compaction_summary(&line)
    })?;
    file_reader::reread_lines(&location.path, &mut where_is(&sent), |line| turns.add_entry(&line))?;
    let written = turns.finish(&mut file.unknown_records);

    let compacted = branch.iter().filter(|&&entry| file.entries[entry].kind == "compaction").count();
    Ok(AgentSession {
        agent: Agent::Pi,
        id: file.id.clone(),
        project: file.project.clone(),
        title: branch.iter().rev().find_map(|&entry| file.entries[entry].title.clone()),
        model,
        api_format,
        system_prompt: None,
        tools: None,
        messages: written.messages,
        compactions: compacted,
        started: file.entries.iter().filter_map(|entry| entry.time).chain(file.started).min(),
        updated: file.entries.iter().filter_map(|entry| entry.time).chain(file.started).max(),
        requests: file.reported_requests(&written.message_of_line),
        unknown_records: file.unknown_records,
        warnings: file.warnings,
    })
}

/// An index of the file: the result of the first pass, without the content of messages.
struct SessionIndex {
    id: String,
    project: Option<String>,
    started: Option<Timestamp>,
    /// Whether the file has version 1, in which the entries are a list without IDs.
    is_list: bool,
    /// The model that the header names (version 1).
    header_model: ModelRef,
    entries: Vec<IndexEntry>,
    unknown_records: BTreeMap<String, usize>,
    warnings: Vec<String>,
}

/// A model, with the API and the provider through which it is used.
#[derive(Debug, Clone, Default)]
struct ModelRef {
    api: Option<String>,
    provider: Option<String>,
    model: Option<String>,
}

struct IndexEntry {
    position: LinePosition,
    kind: String,
    id: Option<String>,
    parent: Option<String>,
    time: Option<Timestamp>,
    title: Option<String>,
    first_kept: Option<FirstKept>,
    model: Option<ModelRef>,
    usage: Option<RawUsage>,
}

/// The first entry that a compaction kept.
enum FirstKept {
    Id(String),
    /// An index among all entries that could be parsed, including the header.
    Index(usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntryRecord {
    #[serde(rename = "type")]
    kind: String,
    version: Option<u64>,
    id: Option<String>,
    parent_id: Option<String>,
    timestamp: Option<String>,
    cwd: Option<String>,
    name: Option<String>,
    provider: Option<String>,
    model_id: Option<String>,
    first_kept_entry_id: Option<String>,
    first_kept_entry_index: Option<usize>,
    message: Option<MessageHead>,
}

#[derive(Deserialize)]
struct MessageHead {
    role: Option<String>,
    api: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    usage: Option<RawUsage>,
}

/// The usage that pi recorded for a reply. `input` excludes cache reads and cache writes.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
struct RawUsage {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cost: Option<RawCost>,
}

#[derive(Deserialize, Clone, Copy)]
struct RawCost {
    total: Option<f64>,
}

impl SessionIndex {
    fn scan(path: &Path) -> Result<Self, SessionReadError> {
        let mut file = Self {
            id: String::new(),
            project: None,
            started: None,
            is_list: true,
            header_model: ModelRef::default(),
            entries: Vec::new(),
            unknown_records: BTreeMap::new(),
            warnings: Vec::new(),
        };
        file.warnings = file_reader::for_each_line(path, |line| -> serde_json::Result<()> {
            file.add_entry(line.position, serde_json::from_str(line.text)?);
            Ok(())
        })?;
        if file.id.is_empty() {
            return Err(SessionReadError::Invalid(format!("{} has no header of a pi session", path.display())));
        }
        Ok(file)
    }

    fn add_entry(&mut self, at: LinePosition, record: EntryRecord) {
        if !KNOWN_ENTRY_TYPES.contains(&record.kind.as_str()) {
            *self.unknown_records.entry(record.kind.clone()).or_default() += 1;
        }
        let time = record.timestamp.as_deref().and_then(Timestamp::parse);
        if record.kind == "session" {
            self.is_list = record.version.unwrap_or(1) < 2;
            self.started = time;
            self.project = record.cwd;
            self.header_model = ModelRef { api: None, provider: record.provider, model: record.model_id };
            self.id = record.id.unwrap_or_default();
            return;
        }
        let kept = match (record.first_kept_entry_id, record.first_kept_entry_index) {
            (Some(id), _) => Some(FirstKept::Id(id)),
            // Later versions ignore the index.
            (None, Some(index)) if self.is_list => Some(FirstKept::Index(index)),
            _ => None,
        };
        let (speaker, spent) = match record.message {
            Some(head) if head.role.as_deref() == Some("assistant") => {
                (Some(ModelRef { api: head.api, provider: head.provider, model: head.model }), head.usage)
            }
            _ if record.kind == "model_change" => {
                (Some(ModelRef { api: None, provider: record.provider, model: record.model_id }), None)
            }
            _ => (None, None),
        };
        let title = record.name.filter(|_| record.kind == "session_info");
        let (kind, id, parent) = (record.kind, record.id, record.parent_id);
        self.entries.push(IndexEntry {
            position: at,
            kind,
            id,
            parent,
            time,
            title,
            first_kept: kept,
            model: speaker,
            usage: spent,
        });
    }

    /// Returns the entries from the root to the leaf. A parent that is not in the file ends the branch.
    fn active_branch(&self) -> Vec<usize> {
        if self.is_list {
            return (0..self.entries.len()).collect();
        }
        let named = |(at, entry): (usize, &'_ IndexEntry)| entry.id.clone().map(|id| (id, at));
        let by_id: HashMap<String, usize> = self.entries.iter().enumerate().filter_map(named).collect();
        let mut path = Vec::new();
        let mut seen = HashSet::new();
        let mut here = self.entries.len().checked_sub(1);
        while let Some(at) = here.filter(|at| seen.insert(*at)) {
            path.push(at);
            here = self.entries[at].parent.as_ref().and_then(|parent| by_id.get(parent)).copied();
        }
        path.reverse();
        path
    }

    /// Returns the entries that are sent besides the summary of the compaction at position `at` of the
    /// branch.
    fn entries_after_compaction(&self, branch: &[usize], at: usize) -> Vec<usize> {
        let (before, after) = (&branch[..at], &branch[at + 1..]);
        let first = match &self.entries[branch[at]].first_kept {
            Some(FirstKept::Id(id)) => before.iter().position(|&entry| self.entries[entry].id.as_ref() == Some(id)),
            Some(FirstKept::Index(index)) => index.checked_sub(1).filter(|&entry| entry < at),
            None => None,
        };
        before[first.unwrap_or(at)..].iter().chain(after).copied().collect()
    }

    /// Returns the model that the next prompt is for.
    fn next_model(&self, branch: &[usize]) -> ModelRef {
        let newest = branch.iter().rev().find_map(|&entry| self.entries[entry].model.as_ref());
        let mut newest = newest.unwrap_or(&self.header_model).clone();
        // A change of the model names no API, but replies of that model do.
        if newest.api.is_none() {
            newest.api =
                self.answering_models().find(|reply| reply.model == newest.model).and_then(|reply| reply.api.clone());
        }
        newest
    }

    fn answering_models(&self) -> impl Iterator<Item = &ModelRef> {
        self.entries.iter().rev().filter_map(|entry| entry.model.as_ref()).filter(|speaker| speaker.api.is_some())
    }

    /// Returns the API format in which the model with this name is used.
    fn api_format_of(&self, name: &str) -> ApiFormat {
        match self.answering_models().find(|reply| reply.is_named(name)) {
            Some(reply) => reply.api_format(),
            None => guess_api_format(name),
        }
    }

    fn reported_requests(&self, replies: &HashMap<usize, usize>) -> Vec<RequestUsage> {
        let reported = |entry: &IndexEntry| {
            let usage = entry.usage.and_then(RawUsage::to_usage)?;
            Some(RequestUsage {
                time: entry.time,
                model: entry.model.as_ref().and_then(|speaker| speaker.model.clone()),
                usage,
                reply_index: replies.get(&entry.position.number).copied(),
                dollars: entry.usage.and_then(|spent| spent.cost).and_then(|cost| cost.total),
            })
        };
        self.entries.iter().filter_map(reported).collect()
    }
}

impl ModelRef {
    /// Returns whether this is the model with this name, given as `model` or `provider/model`.
    fn is_named(&self, name: &str) -> bool {
        let Some(model) = self.model.as_deref() else { return false };
        model == name
            || name
                .split_once('/')
                .is_some_and(|(provider, rest)| rest == model && self.provider.as_deref() == Some(provider))
    }

    fn api_format(&self) -> ApiFormat {
        match (self.api.as_deref(), self.provider.as_deref()) {
            (Some(api), _) if api.starts_with("anthropic") => ApiFormat::Messages,
            (Some(api), _) if api.ends_with("responses") => ApiFormat::Responses,
            (Some(_), _) => ApiFormat::Chat,
            (None, provider) => provider.or(self.model.as_deref()).map_or(ApiFormat::Chat, guess_api_format),
        }
    }
}

fn guess_api_format(name: &str) -> ApiFormat {
    API_FORMATS_BY_PREFIX
        .iter()
        .find(|(start, _)| name.starts_with(start))
        .map_or(ApiFormat::Chat, |(_, api_format)| *api_format)
}

impl RawUsage {
    /// Converts the usage. Returns `None` if the reply was aborted before anything was counted.
    fn to_usage(self) -> Option<Usage> {
        let tokens = |count: Option<f64>| count.filter(|count| *count >= 0.0).map(|count| Tokens(count as u64));
        let (read, written, output) = (tokens(self.cache_read), tokens(self.cache_write), tokens(self.output));
        let input = tokens(self.input)? + read.unwrap_or_default() + written.unwrap_or_default();
        let usage = Usage { input: Some(input), read, written, written_1h: None, output };
        (input + output.unwrap_or_default() > Tokens(0)).then_some(usage)
    }
}
