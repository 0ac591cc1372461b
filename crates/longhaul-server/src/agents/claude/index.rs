//! One pass over the file. What is kept of a record is small, because a file may be large and most of it is not sent.

use std::borrow::Cow;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::path::Path;

use longhaul_engine::prices::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::lines::{self, Line, LineAt};
use super::super::{Moment, Reported, Unread};

/// An id as a number: sessions have hundreds of thousands of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Id(u64);

impl Id {
    pub(super) fn of(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// What a record is to the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    User,
    Assistant,
    /// What the client adds at a place: files, memories, what hooks said.
    Attachment,
    /// Where a compaction was; the summary is its child.
    Boundary,
    /// Only a link in the chain.
    Link,
}

/// A record of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) at: LineAt,
    pub(super) kind: Kind,
    pub(super) parent: Option<Id>,
    /// The reply that it is a part of.
    pub(super) reply: Option<Id>,
    pub(super) sidechain: bool,
    pub(super) summary: bool,
}

/// A compaction.
#[derive(Debug)]
pub(super) struct Boundary {
    pub(super) line: usize,
    pub(super) id: Id,
    /// What came before it.
    pub(super) before: Option<Id>,
    /// The summary, where it is named.
    pub(super) anchor: Option<Id>,
    /// Turns that stay word for word behind the summary: each of them, or
    pub(super) kept: Vec<Id>,
    /// the first and the last.
    pub(super) segment: Option<(Id, Id)>,
}

/// What the provider said about a reply.
struct Used {
    reply: Id,
    at: Option<Moment>,
    model: Option<String>,
    usage: Usage,
    dollars: Option<f64>,
}

/// A file, as far as it has to be known before its messages are read.
#[derive(Default)]
pub(super) struct Index {
    /// In the order of the file.
    pub(super) entries: Vec<(Id, Record)>,
    by_id: HashMap<Id, usize>,
    /// The records that hold the result of a call, by the call's id.
    pub(super) results: HashMap<Id, Vec<usize>>,
    /// The records that a reply is written in, by its id.
    pub(super) parts: HashMap<Id, Vec<usize>>,
    pub(super) boundaries: Vec<Boundary>,
    used: Vec<Used>,
    used_at: HashMap<Id, usize>,
    pub(super) id: Option<String>,
    pub(super) project: Option<String>,
    pub(super) title: Option<String>,
    pub(super) model: Option<String>,
    pub(super) started: Option<Moment>,
    pub(super) updated: Option<Moment>,
    pub(super) unknown: BTreeMap<String, usize>,
    pub(super) damage: Vec<String>,
}

/// Kinds that are never sent.
const SILENT: [&str; 12] = [
    "progress",
    "system",
    "summary",
    "file-history-snapshot",
    "queue-operation",
    "last-prompt",
    "custom-title",
    "ai-title",
    "mode",
    "permission-mode",
    "agent-name",
    "pr-link",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    subtype: Option<Cow<'a, str>>,
    #[serde(borrow)]
    uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    parent_uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    logical_parent_uuid: Option<Cow<'a, str>>,
    #[serde(borrow)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    cwd: Option<Cow<'a, str>>,
    #[serde(borrow)]
    summary: Option<Cow<'a, str>>,
    #[serde(borrow)]
    custom_title: Option<Cow<'a, str>>,
    is_sidechain: Option<bool>,
    is_compact_summary: Option<bool>,
    is_api_error_message: Option<bool>,
    #[serde(rename = "costUSD")]
    cost: Option<f64>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    compact_metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    usage: Option<serde_json::Value>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow)]
    tool_use_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    preserved_messages: Option<Kept>,
    preserved_segment: Option<Segment>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    anchor_uuid: Option<String>,
    #[serde(default)]
    uuids: Vec<String>,
}

#[derive(Deserialize)]
struct Segment {
    #[serde(rename = "headUuid")]
    head: String,
    #[serde(rename = "anchorUuid")]
    anchor: Option<String>,
    #[serde(rename = "tailUuid")]
    tail: String,
}

impl Index {
    pub(super) fn read(path: &Path) -> Result<Self, Unread> {
        let mut index = Self::default();
        index.damage = lines::each(path, |line| index.take(line))?;
        Ok(index)
    }

    pub(super) fn get(&self, id: Id) -> Option<(usize, &Record)> {
        self.by_id.get(&id).map(|at| (*at, &self.entries[*at].1))
    }

    /// The newest record that speaks. Where all of them belong to a subagent, it is that subagent's own file.
    pub(super) fn leaf(&self) -> Option<usize> {
        let speaks = |entry: &Record| matches!(entry.kind, Kind::User | Kind::Assistant);
        let newest = |main: bool| {
            self.entries.iter().rposition(|(_, entry)| speaks(entry) && (entry.sidechain != main))
        };
        newest(true).or_else(|| newest(false))
    }

    /// What was reported, with the turn that each reply became.
    pub(super) fn reported(&self, turns: &HashMap<Id, usize>) -> Vec<Reported> {
        let reported = |used: &Used| Reported {
            at: used.at,
            model: used.model.clone(),
            usage: used.usage,
            reply: turns.get(&used.reply).copied(),
            dollars: used.dollars,
        };
        self.used.iter().map(reported).collect()
    }

    fn take(&mut self, line: Line<'_>) -> Result<(), serde_json::Error> {
        let record: Written<'_> = serde_json::from_str(line.text)?;
        let kind = record.kind.as_deref().unwrap_or("nothing");
        let message: Option<Message<'_>> = match (kind, record.message) {
            ("user" | "assistant", Some(raw)) => Some(serde_json::from_str(raw.get())?),
            _ => None,
        };
        self.tell(&record, kind);
        let Some(id) = record.uuid.as_deref().map(Id::of) else { return Ok(()) };
        let kind = match (kind, &message, record.subtype.as_deref()) {
            ("user", Some(_), _) => Kind::User,
            ("assistant", Some(_), _) if record.is_api_error_message != Some(true) => Kind::Assistant,
            ("attachment", ..) => Kind::Attachment,
            ("system", _, Some("compact_boundary")) => Kind::Boundary,
            _ => Kind::Link,
        };
        let at = self.entries.len();
        let entry = Record {
            at: line.at,
            kind,
            parent: record.parent_uuid.as_deref().map(Id::of),
            reply: message.as_ref().filter(|_| kind == Kind::Assistant).map(|message| {
                // Without an id of its own, a record is a reply by itself.
                message.id.as_deref().map_or(id, Id::of)
            }),
            sidechain: record.is_sidechain == Some(true),
            summary: record.is_compact_summary == Some(true),
        };
        match self.by_id.entry(id) {
            // A record that is written twice is the first of the two.
            Entry::Occupied(_) => return Ok(()),
            Entry::Vacant(free) => free.insert(at),
        };
        self.entries.push((id, entry));
        if kind == Kind::Boundary {
            self.boundaries.push(Boundary::read(line.at.number, id, &record));
        }
        if let Some(message) = &message {
            self.note(at, &entry, message, &record);
        }
        Ok(())
    }

    /// What is said about the session as a whole.
    fn tell(&mut self, record: &Written<'_>, kind: &str) {
        let moment = record.timestamp.as_deref().and_then(Moment::parse);
        self.started = [self.started, moment].into_iter().flatten().min();
        self.updated = self.updated.max(moment);
        let owned = |text: &Option<Cow<'_, str>>| text.as_deref().map(str::to_owned);
        // A session that was taken up under a new id begins with the old one's records.
        if record.session_id.is_some() && record.session_id.as_deref() != self.id.as_deref() {
            self.id = owned(&record.session_id);
        }
        if self.project.is_none() {
            self.project = owned(&record.cwd);
        }
        if let Some(title) = owned(&record.custom_title).or_else(|| owned(&record.summary)) {
            self.title = Some(title);
        }
        if !SILENT.contains(&kind) && !["user", "assistant", "attachment"].contains(&kind) {
            *self.unknown.entry(kind.to_owned()).or_default() += 1;
        }
    }

    /// What a message says about others: the calls that it answers, the reply that it is a part of, what that used.
    fn note(&mut self, at: usize, entry: &Record, message: &Message<'_>, record: &Written<'_>) {
        if let Some(content) = message.content
            && let Ok(blocks) = serde_json::from_str::<Vec<Block<'_>>>(content.get())
            && entry.kind == Kind::User
        {
            for answered in blocks.iter().filter_map(|block| block.tool_use_id.as_deref()) {
                self.results.entry(Id::of(answered)).or_default().push(at);
            }
        }
        let Some(reply) = entry.reply else { return };
        self.parts.entry(reply).or_default().push(at);
        let model = message.model.as_deref().filter(|model| *model != "<synthetic>");
        if let Some(model) = model.filter(|_| !entry.sidechain || self.model.is_none()) {
            self.model = Some(model.to_owned());
        }
        let usage = message.usage.as_ref().and_then(Usage::read).filter(|_| model.is_some());
        let Some(usage) = usage else { return };
        let used = Used {
            reply,
            at: record.timestamp.as_deref().and_then(Moment::parse),
            model: model.map(str::to_owned),
            usage,
            dollars: record.cost,
        };
        // Every record of a reply repeats its usage; the last one is complete.
        match self.used_at.entry(reply) {
            Entry::Occupied(known) => self.used[*known.get()] = used,
            Entry::Vacant(free) => {
                free.insert(self.used.len());
                self.used.push(used);
            }
        }
    }
}

impl Boundary {
    fn read(line: usize, id: Id, record: &Written<'_>) -> Self {
        let metadata =
            record.compact_metadata.and_then(|raw| serde_json::from_str::<Metadata>(raw.get()).ok());
        let (kept, segment) = metadata.map_or((None, None), |m| (m.preserved_messages, m.preserved_segment));
        let anchor = kept.as_ref().and_then(|kept| kept.anchor_uuid.clone());
        let anchor = anchor.or_else(|| segment.as_ref().and_then(|segment| segment.anchor.clone()));
        Self {
            line,
            id,
            before: record.logical_parent_uuid.as_deref().map(Id::of),
            anchor: anchor.as_deref().map(Id::of),
            kept: kept.iter().flat_map(|kept| &kept.uuids).map(|uuid| Id::of(uuid)).collect(),
            segment: segment.map(|segment| (Id::of(&segment.head), Id::of(&segment.tail))),
        }
    }
}
