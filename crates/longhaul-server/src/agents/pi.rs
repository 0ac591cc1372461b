//! pi: an entry a line. Since the second version they are a tree by `id` and `parentId`; the first is a plain list.
//!
//! The last entry is the leaf, and its path from the root is the session. What is sent is all of it or, behind the summary of
//! the newest compaction on the path, what that one kept and what came after it. `turns.rs` makes messages of it.

mod turns;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use longhaul_engine::prices::Usage;
use longhaul_engine::{Dialect, Tokens};
use serde::Deserialize;
use serde_json::Value;

use super::folder;
use super::format::{Format, Glimpse, Machine, Place};
use super::lines::{self, LineAt};
use super::{Agent, Asked, Extent, Moment, Reported, Session, Unread};
use turns::Turns;

pub(super) const FORMAT: Format = Format { agent: Agent::Pi, shows, homes, list, read };

/// The kinds of entries that are known. Those without a word here say nothing to the model.
const KINDS: &[&str] = &[
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

/// How the dialect of a model that never answered in the session follows from how its name, or its provider's, begins.
const SPOKEN: &[(&str, Dialect)] = &[
    ("anthropic", Dialect::Messages),
    ("claude", Dialect::Messages),
    ("openai", Dialect::Responses),
    ("gpt-", Dialect::Responses),
    ("codex", Dialect::Responses),
    ("o1", Dialect::Responses),
    ("o3", Dialect::Responses),
    ("o4", Dialect::Responses),
];

fn shows(glimpse: &Glimpse<'_>) -> bool {
    let first = glimpse.first();
    let is_text = |name: &str| first.get(name).is_some_and(Value::is_string);
    first.get("type").and_then(Value::as_str) == Some("session") && is_text("id") && is_text("timestamp")
}

fn homes(machine: &Machine) -> Vec<PathBuf> {
    let agent = machine.named_by("PI_CODING_AGENT_DIR").unwrap_or_else(|| machine.home.join(".pi/agent"));
    vec![agent.join("sessions")]
}

/// A folder a project, a file a session: `<time>_<id>.jsonl`.
fn list(home: &Path) -> Vec<Place> {
    let session = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
    let projects = folder::entries(home);
    let files = projects.iter().flat_map(|project| folder::entries(project)).filter(session);
    files
        .map(|path| {
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            let id = name.split_once('_').map_or(name, |(_, id)| id).to_owned();
            Place::of_file(Agent::Pi, &path, Some(id))
        })
        .collect()
}

fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let mut file = File::read(&place.path)?;
    let branch = file.branch();
    let newest = file.newest_model(&branch);
    let compaction = branch.iter().rposition(|&entry| file.entries[entry].kind == "compaction");
    let (summary, mut sent) = match (asked.extent, compaction) {
        (Extent::Next, Some(at)) => (Some(branch[at]), file.kept(&branch, at)),
        _ => (None, branch.clone()),
    };
    sent.retain(|&entry| file.entries[entry].kind != "compaction");

    let model = asked.model.clone().or_else(|| newest.model.clone());
    let dialect = asked.dialect.unwrap_or_else(|| match &asked.model {
        Some(name) => file.dialect_of(name),
        None => newest.dialect(),
    });
    let mut turns = Turns::new(dialect, model.clone());
    let where_is =
        |entries: &[usize]| -> Vec<LineAt> { entries.iter().map(|&entry| file.entries[entry].at).collect() };
    lines::again(&place.path, &mut where_is(summary.as_slice()), |line| turns.summary(&line))?;
    lines::again(&place.path, &mut where_is(&sent), |line| turns.entry(&line))?;
    let written = turns.finish(&mut file.unknown);

    let compacted = branch.iter().filter(|&&entry| file.entries[entry].kind == "compaction").count();
    Ok(Session {
        agent: Agent::Pi,
        id: file.id.clone(),
        project: file.project.clone(),
        title: branch.iter().rev().find_map(|&entry| file.entries[entry].title.clone()),
        model,
        dialect,
        system: None,
        tools: None,
        turns: written.turns,
        compactions: compacted,
        started: file.entries.iter().filter_map(|entry| entry.time).chain(file.started).min(),
        updated: file.entries.iter().filter_map(|entry| entry.time).chain(file.started).max(),
        requests: file.requests(&written.replies),
        unknown: file.unknown,
        damage: file.damage,
    })
}

/// What the first pass keeps of a file: everything but what was said.
struct File {
    id: String,
    project: Option<String>,
    started: Option<Moment>,
    /// Version 1: the entries are a list, and have no ids.
    is_list: bool,
    /// The model that the header of the first version names.
    model: Speaker,
    entries: Vec<Entry>,
    unknown: BTreeMap<String, usize>,
    damage: Vec<String>,
}

/// Who answers: a model, by the API and the provider that it is asked through.
#[derive(Debug, Clone, Default)]
struct Speaker {
    api: Option<String>,
    provider: Option<String>,
    model: Option<String>,
}

struct Entry {
    at: LineAt,
    kind: String,
    id: Option<String>,
    parent: Option<String>,
    time: Option<Moment>,
    title: Option<String>,
    kept: Option<Kept>,
    speaker: Option<Speaker>,
    spent: Option<Spent>,
}

/// The first entry that a compaction kept.
enum Kept {
    Id(String),
    /// Of all entries that could be read, the header among them.
    Index(usize),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
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
    message: Option<Head>,
}

#[derive(Deserialize)]
struct Head {
    role: Option<String>,
    api: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    usage: Option<Spent>,
}

/// What pi wrote down about a reply; `input` is without what the cache had or took.
#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase")]
struct Spent {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cost: Option<Cost>,
}

#[derive(Deserialize, Clone, Copy)]
struct Cost {
    total: Option<f64>,
}

impl File {
    fn read(path: &Path) -> Result<Self, Unread> {
        let mut file = Self {
            id: String::new(),
            project: None,
            started: None,
            is_list: true,
            model: Speaker::default(),
            entries: Vec::new(),
            unknown: BTreeMap::new(),
            damage: Vec::new(),
        };
        file.damage = lines::each(path, |line| -> serde_json::Result<()> {
            file.take(line.at, serde_json::from_str(line.text)?);
            Ok(())
        })?;
        if file.id.is_empty() {
            return Err(Unread::Wrong(format!("{} has no header of a pi session", path.display())));
        }
        Ok(file)
    }

    fn take(&mut self, at: LineAt, record: Record) {
        if !KINDS.contains(&record.kind.as_str()) {
            *self.unknown.entry(record.kind.clone()).or_default() += 1;
        }
        let time = record.timestamp.as_deref().and_then(Moment::parse);
        if record.kind == "session" {
            self.is_list = record.version.unwrap_or(1) < 2;
            self.started = time;
            self.project = record.cwd;
            self.model = Speaker { api: None, provider: record.provider, model: record.model_id };
            self.id = record.id.unwrap_or_default();
            return;
        }
        let kept = match (record.first_kept_entry_id, record.first_kept_entry_index) {
            (Some(id), _) => Some(Kept::Id(id)),
            // Later versions do not look at the number.
            (None, Some(index)) if self.is_list => Some(Kept::Index(index)),
            _ => None,
        };
        let (speaker, spent) = match record.message {
            Some(head) if head.role.as_deref() == Some("assistant") => {
                (Some(Speaker { api: head.api, provider: head.provider, model: head.model }), head.usage)
            }
            _ if record.kind == "model_change" => {
                (Some(Speaker { api: None, provider: record.provider, model: record.model_id }), None)
            }
            _ => (None, None),
        };
        let title = record.name.filter(|_| record.kind == "session_info");
        let (kind, id, parent) = (record.kind, record.id, record.parent_id);
        self.entries.push(Entry { at, kind, id, parent, time, title, kept, speaker, spent });
    }

    /// The entries from the root to the leaf. A parent that is not in the file ends it.
    fn branch(&self) -> Vec<usize> {
        if self.is_list {
            return (0..self.entries.len()).collect();
        }
        let named = |(at, entry): (usize, &'_ Entry)| entry.id.clone().map(|id| (id, at));
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

    /// What goes out beside the summary of the compaction at `at` of the branch.
    fn kept(&self, branch: &[usize], at: usize) -> Vec<usize> {
        let (before, after) = (&branch[..at], &branch[at + 1..]);
        let first = match &self.entries[branch[at]].kept {
            Some(Kept::Id(id)) => {
                before.iter().position(|&entry| self.entries[entry].id.as_ref() == Some(id))
            }
            Some(Kept::Index(index)) => index.checked_sub(1).filter(|&entry| entry < at),
            None => None,
        };
        before[first.unwrap_or(at)..].iter().chain(after).copied().collect()
    }

    /// The model that the next prompt goes to.
    fn newest_model(&self, branch: &[usize]) -> Speaker {
        let newest = branch.iter().rev().find_map(|&entry| self.entries[entry].speaker.as_ref());
        let mut newest = newest.unwrap_or(&self.model).clone();
        // A change of the model names no API: the replies of that model do.
        if newest.api.is_none() {
            newest.api =
                self.replies().find(|reply| reply.model == newest.model).and_then(|reply| reply.api.clone());
        }
        newest
    }

    fn replies(&self) -> impl Iterator<Item = &Speaker> {
        self.entries
            .iter()
            .rev()
            .filter_map(|entry| entry.speaker.as_ref())
            .filter(|speaker| speaker.api.is_some())
    }

    /// The dialect that a model of this name is asked in.
    fn dialect_of(&self, name: &str) -> Dialect {
        match self.replies().find(|reply| reply.is(name)) {
            Some(reply) => reply.dialect(),
            None => spoken(name),
        }
    }

    fn requests(&self, replies: &HashMap<usize, usize>) -> Vec<Reported> {
        let reported = |entry: &Entry| {
            let usage = entry.spent.as_ref().and_then(Spent::usage)?;
            Some(Reported {
                at: entry.time,
                model: entry.speaker.as_ref().and_then(|speaker| speaker.model.clone()),
                usage,
                reply: replies.get(&entry.at.number).copied(),
                dollars: entry.spent.and_then(|spent| spent.cost).and_then(|cost| cost.total),
            })
        };
        self.entries.iter().filter_map(reported).collect()
    }
}

impl Speaker {
    /// Whether this is the model of that name, with its provider or without.
    fn is(&self, name: &str) -> bool {
        let Some(model) = self.model.as_deref() else { return false };
        model == name
            || name
                .split_once('/')
                .is_some_and(|(provider, rest)| rest == model && self.provider.as_deref() == Some(provider))
    }

    fn dialect(&self) -> Dialect {
        match (self.api.as_deref(), self.provider.as_deref()) {
            (Some(api), _) if api.starts_with("anthropic") => Dialect::Messages,
            (Some(api), _) if api.ends_with("responses") => Dialect::Responses,
            (Some(_), _) => Dialect::Chat,
            (None, provider) => provider.or(self.model.as_deref()).map_or(Dialect::Chat, spoken),
        }
    }
}

fn spoken(name: &str) -> Dialect {
    SPOKEN.iter().find(|(start, _)| name.starts_with(start)).map_or(Dialect::Chat, |(_, dialect)| *dialect)
}

impl Spent {
    /// Nothing, where a reply was broken off before anything was counted.
    fn usage(&self) -> Option<Usage> {
        let tokens =
            |count: Option<f64>| count.filter(|count| *count >= 0.0).map(|count| Tokens(count as u64));
        let (read, written, output) =
            (tokens(self.cache_read), tokens(self.cache_write), tokens(self.output));
        let input = tokens(self.input)? + read.unwrap_or_default() + written.unwrap_or_default();
        let usage = Usage { input: Some(input), read, written, written_1h: None, output };
        (input + output.unwrap_or_default() > Tokens(0)).then_some(usage)
    }
}
