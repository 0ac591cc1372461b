//! Gemini CLI: one document (`.json`), or a header and then a record a line (`.jsonl`), where later records change earlier ones.
//!
//! The turns are written in Chat form, as Google's own endpoint for that form takes them. A record of the model holds its calls and
//! what came of them, so it becomes a reply and its results.

mod turns;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use longhaul_engine::prices::Usage;
use longhaul_engine::{Dialect, Tokens};
use serde_json::{Map, Value};

use super::format::{Format, Glimpse, Machine, Place};
use super::{Agent, Asked, Extent, Moment, Origin, Reported, Session, Unread, folder, lines};

pub(super) const FORMAT: Format = Format { agent: Agent::Gemini, shows, homes, list, read };

/// How much of a file says whether it is one document.
const HEAD: usize = 1 << 16;

fn shows(glimpse: &Glimpse<'_>) -> bool {
    let first = glimpse.first();
    ["sessionId", "projectHash"].iter().all(|name| first.get(*name).is_some_and(Value::is_string))
}

fn homes(machine: &Machine) -> Vec<PathBuf> {
    let home = machine.named_by("GEMINI_CLI_HOME").unwrap_or_else(|| machine.home.clone());
    vec![home.join(".gemini/tmp")]
}

/// `<project>/chats/session-<time>-<begin of the id>`. Subagents have folders of their own there, and are left out.
fn list(home: &Path) -> Vec<Place> {
    let session = |path: &PathBuf| {
        let ending = path.extension().is_some_and(|ending| ending == "json" || ending == "jsonl");
        ending && folder::name(path).starts_with("session-")
    };
    let projects = folder::entries(home);
    let files = projects.iter().flat_map(|project| folder::entries(&project.join("chats"))).filter(session);
    files
        .map(|path| {
            let name = folder::name(&path).split('.').next().unwrap_or_default();
            let id = name.rsplit('-').next().map(str::to_owned);
            Place::of_file(Agent::Gemini, &path, id)
        })
        .collect()
}

fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let path = place.path.as_path();
    let head = lines::head(path, HEAD)?;
    let is_document = Glimpse { path, head: &head }.first().contains_key("messages");
    let log = if is_document { Log::of_document(path)? } else { Log::of_lines(path)? };
    let records: Vec<&Record> = match asked.extent {
        Extent::Next => log.sent.iter().filter_map(|id| log.records.get(id)).collect(),
        Extent::Whole => {
            log.all.iter().filter_map(|id| log.records.get(id)).filter(|r| !r.is_summary).collect()
        }
    };
    let mut unknown = log.unknown.clone();
    let dialect = asked.dialect.unwrap_or(Dialect::Chat);
    let written = turns::write(&records, (asked.extent, dialect), &mut unknown);
    let requests: Vec<Reported> = log
        .spent
        .iter()
        .map(|(id, reported)| Reported { reply: written.replies.get(id).copied(), ..reported.clone() })
        .collect();
    let header = |name: &str| log.header.get(name).and_then(Value::as_str);
    let times = || log.records.values().filter_map(|record| moment(&record.value));
    Ok(Session {
        agent: Agent::Gemini,
        id: header("sessionId").unwrap_or_default().to_owned(),
        project: project(path),
        title: header("summary").map(str::to_owned),
        model: asked
            .model
            .clone()
            .or_else(|| requests.iter().rev().find_map(|request| request.model.clone())),
        dialect,
        system: None,
        tools: None,
        turns: written.turns,
        compactions: log.compactions,
        started: header("startTime").and_then(Moment::parse).or_else(|| times().min()),
        updated: header("lastUpdated").and_then(Moment::parse).into_iter().chain(times()).max(),
        requests,
        unknown,
        damage: log.damage,
    })
}

/// What a file comes to once every record has had its say.
#[derive(Default)]
struct Log {
    header: Map<String, Value>,
    records: HashMap<String, Record>,
    /// Ids of what would be sent, in order,
    sent: Vec<String>,
    /// and of what was ever said and not taken back.
    all: Vec<String>,
    /// What was reported, by the id of the record: once each, whatever became of it.
    spent: Vec<(String, Reported)>,
    compactions: usize,
    unknown: BTreeMap<String, usize>,
    damage: Vec<String>,
}

struct Record {
    id: String,
    origin: Origin,
    value: Value,
    /// As it was before a compression changed it.
    before: Option<Value>,
    /// It came with a compression, in place of what that took away.
    is_summary: bool,
}

impl Log {
    fn of_document(path: &Path) -> Result<Self, Unread> {
        let bytes = lines::whole(path)?;
        let read: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|error| {
            Unread::Wrong(format!("{} is no whole session of gemini: {error}", path.display()))
        })?;
        let mut log = Self { header: read, ..Self::default() };
        let Some(Value::Array(messages)) = log.header.remove("messages") else { return Ok(log) };
        for (at, message) in messages.into_iter().enumerate() {
            let id = message["id"].as_str().map_or_else(|| format!("message {at}"), str::to_owned);
            log.message(Origin::Id(id.clone()), id, message);
        }
        Ok(log)
    }

    fn of_lines(path: &Path) -> Result<Self, Unread> {
        let mut log = Self::default();
        let damage = lines::each(path, |line| -> serde_json::Result<()> {
            log.take(line.at.number, serde_json::from_str(line.text)?);
            Ok(())
        })?;
        log.damage = damage;
        Ok(log)
    }

    fn take(&mut self, line: usize, mut record: Map<String, Value>) {
        if let Some(to) = record.get("$rewindTo").and_then(Value::as_str) {
            self.rewind(to);
        } else if let Some(Value::Object(mut changes)) = record.remove("$set") {
            if let Some(Value::Array(messages)) = changes.remove("messages") {
                self.replace(line, messages);
            }
            self.header.extend(changes);
        } else if let Some(id) = record.get("id").and_then(Value::as_str).map(str::to_owned) {
            self.message(Origin::Line(line), id, Value::Object(record));
        } else if record.contains_key("sessionId") {
            self.header.extend(record);
        } else {
            let kind = record.keys().next().map_or("record", String::as_str);
            *self.unknown.entry(kind.to_owned()).or_default() += 1;
        }
    }

    /// A message, new or in place of the one with its id.
    fn message(&mut self, origin: Origin, id: String, value: Value) {
        self.note(&id, &value);
        let Some(known) = self.records.get_mut(&id) else {
            self.sent.push(id.clone());
            return self.add(Record { id, origin, value, before: None, is_summary: false });
        };
        (known.value, known.origin) = (value, origin);
        if !self.sent.contains(&id) {
            self.sent.push(id);
        }
    }

    fn add(&mut self, record: Record) {
        self.all.push(record.id.clone());
        self.records.insert(record.id.clone(), record);
    }

    /// What the provider reported; a record that is written again reports again.
    fn note(&mut self, id: &str, value: &Value) {
        let Some(usage) = usage(&value["tokens"]) else { return };
        let model = value["model"].as_str().map(str::to_owned);
        let reported = Reported { at: moment(value), model, usage, reply: None, dollars: None };
        let known =
            self.records.contains_key(id).then(|| self.spent.iter_mut().rev().find(|(known, _)| known == id));
        match known.flatten() {
            Some((_, known)) => *known = reported,
            None => self.spent.push((id.to_owned(), reported)),
        }
    }

    /// All messages are others now. Where some are gone it was a compression, and what is new stands for them.
    fn replace(&mut self, line: usize, messages: Vec<Value>) {
        let mut sent = Vec::new();
        let mut fresh = Vec::new();
        for (at, value) in messages.into_iter().enumerate() {
            let id = value["id"].as_str().map_or_else(|| format!("line {line} message {at}"), str::to_owned);
            self.note(&id, &value);
            match self.records.get_mut(&id) {
                Some(known) if known.value != value => {
                    let before = std::mem::replace(&mut known.value, value);
                    known.before.get_or_insert(before);
                }
                Some(_) => {}
                None => fresh.push(Record {
                    id: id.clone(),
                    origin: Origin::Line(line),
                    value,
                    before: None,
                    is_summary: false,
                }),
            }
            sent.push(id);
        }
        let kept: HashSet<&String> = sent.iter().collect();
        let is_compression = self.sent.iter().any(|id| !kept.contains(id));
        self.compactions += usize::from(is_compression);
        for record in fresh {
            self.add(Record { is_summary: is_compression, ..record });
        }
        self.sent = sent;
    }

    /// Takes a message back and all after it; all of them, where it is not known.
    fn rewind(&mut self, to: &str) {
        let at = self.sent.iter().position(|id| id == to).unwrap_or(0);
        let gone: HashSet<String> = self.sent.drain(at..).collect();
        self.all.retain(|id| !gone.contains(id));
        self.records.retain(|id, _| !gone.contains(id));
    }
}

fn moment(value: &Value) -> Option<Moment> {
    value["timestamp"].as_str().and_then(Moment::parse)
}

/// `input` counts what the cache had; thoughts are written by the model too.
fn usage(tokens: &Value) -> Option<Usage> {
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

/// The folder that a session worked in: named beside its chats, or in the list of projects of the agent's home.
fn project(path: &Path) -> Option<String> {
    let kept = path.parent()?.parent()?;
    if let Ok(root) = std::fs::read_to_string(kept.join(".project_root")) {
        return Some(root.trim().to_owned()).filter(|root| !root.is_empty());
    }
    let known = std::fs::read(kept.parent()?.parent()?.join("projects.json")).ok()?;
    let known: Value = serde_json::from_slice(&known).ok()?;
    let short = folder::name(kept);
    known["projects"].as_object()?.iter().find(|(_, name)| *name == short).map(|(root, _)| root.clone())
}
