//! The first pass over a session file. It keeps only a few fields of each record, because files can be large
//! and most records are not sent.

use std::borrow::Cow;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::path::Path;

use longhaul_engine::prices::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::file_reader::{self, Line, LinePosition};
use super::super::{RequestUsage, SessionReadError, Timestamp};

/// The hash of a record's, reply's or call's ID, to save memory: sessions have hundreds of thousands of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct HashedId(u64);

impl HashedId {
    pub(super) fn new(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The role of a record in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    User,
    Assistant,
    /// Text that the client adds at this point: files, memories, output of hooks.
    Attachment,
    /// The boundary of a compaction. The summary is its child.
    CompactBoundary,
    /// A record that is not sent and only connects its child to its parent.
    ChainLink,
}

/// One record of the file, without its content.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexedRecord {
    pub(super) position: LinePosition,
    pub(super) kind: RecordKind,
    pub(super) parent: Option<HashedId>,
    /// The reply that an assistant record is a part of.
    pub(super) reply_id: Option<HashedId>,
    pub(super) is_sidechain: bool,
    pub(super) is_summary: bool,
}

/// A compaction, as its boundary record describes it.
#[derive(Debug)]
pub(super) struct CompactBoundary {
    pub(super) line: usize,
    pub(super) id: HashedId,
    /// The last record before the compaction.
    pub(super) previous: Option<HashedId>,
    /// The summary's record, if the boundary names it.
    pub(super) summary_id: Option<HashedId>,
    /// The records that are kept unchanged after the summary, if they are listed.
    pub(super) kept_ids: Vec<HashedId>,
    /// The first and the last record that are kept, if they are given as a range.
    pub(super) kept_segment: Option<(HashedId, HashedId)>,
}

/// The usage that the provider reported for a reply.
struct ReplyUsage {
    reply_id: HashedId,
    time: Option<Timestamp>,
    model: Option<String>,
    usage: Usage,
    dollars: Option<f64>,
}

/// An index of the file: everything that must be known before its messages are read.
#[derive(Default)]
pub(super) struct RecordIndex {
    /// All records in file order.
    pub(super) records: Vec<(HashedId, IndexedRecord)>,
    by_id: HashMap<HashedId, usize>,
    /// The positions of the records with the result of a call, by the call's ID.
    pub(super) results_by_call: HashMap<HashedId, Vec<usize>>,
    /// The positions of the records that a reply is split into, by the reply's ID.
    pub(super) records_by_reply: HashMap<HashedId, Vec<usize>>,
    pub(super) boundaries: Vec<CompactBoundary>,
    reply_usages: Vec<ReplyUsage>,
    usage_positions: HashMap<HashedId, usize>,
    pub(super) id: Option<String>,
    pub(super) project: Option<String>,
    pub(super) title: Option<String>,
    pub(super) model: Option<String>,
    pub(super) started: Option<Timestamp>,
    pub(super) updated: Option<Timestamp>,
    pub(super) unknown_records: BTreeMap<String, usize>,
    pub(super) warnings: Vec<String>,
}

/// The types of records that are never sent.
const UNSENT_RECORD_TYPES: [&str; 12] = [
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
struct RawRecord<'a> {
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
struct RawMessage<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    usage: Option<serde_json::Value>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResultBlock<'a> {
    #[serde(borrow)]
    tool_use_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CompactMetadata {
    preserved_messages: Option<PreservedMessages>,
    preserved_segment: Option<PreservedSegment>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreservedMessages {
    anchor_uuid: Option<String>,
    #[serde(default)]
    uuids: Vec<String>,
}

#[derive(Deserialize)]
struct PreservedSegment {
    #[serde(rename = "headUuid")]
    head: String,
    #[serde(rename = "anchorUuid")]
    anchor: Option<String>,
    #[serde(rename = "tailUuid")]
    tail: String,
}

impl RecordIndex {
    pub(super) fn scan(path: &Path) -> Result<Self, SessionReadError> {
        let mut index = Self::default();
        index.warnings = file_reader::for_each_line(path, |line| index.add_line(line))?;
        Ok(index)
    }

    pub(super) fn get(&self, id: HashedId) -> Option<(usize, &IndexedRecord)> {
        self.by_id.get(&id).map(|at| (*at, &self.records[*at].1))
    }

    /// Returns the position of the newest user or assistant record. Records of subagents count only if there
    /// are no others, since the file is then a subagent's own.
    pub(super) fn newest_leaf(&self) -> Option<usize> {
        let speaks = |entry: &IndexedRecord| matches!(entry.kind, RecordKind::User | RecordKind::Assistant);
        let newest =
            |main: bool| self.records.iter().rposition(|(_, entry)| speaks(entry) && (entry.is_sidechain != main));
        newest(true).or_else(|| newest(false))
    }

    /// Returns the reported requests. `turns` maps replies to the positions of their messages.
    pub(super) fn reported_requests(&self, turns: &HashMap<HashedId, usize>) -> Vec<RequestUsage> {
        let reported = |used: &ReplyUsage| RequestUsage {
            time: used.time,
            model: used.model.clone(),
            usage: used.usage,
            reply_index: turns.get(&used.reply_id).copied(),
            dollars: used.dollars,
        };
        self.reply_usages.iter().map(reported).collect()
    }

    fn add_line(&mut self, line: Line<'_>) -> Result<(), serde_json::Error> {
        let record: RawRecord<'_> = serde_json::from_str(line.text)?;
        let kind = record.kind.as_deref().unwrap_or("record without a type");
        let message: Option<RawMessage<'_>> = match (kind, record.message) {
            ("user" | "assistant", Some(raw)) => Some(serde_json::from_str(raw.get())?),
            _ => None,
        };
        self.update_session_facts(&record, kind);
        let Some(id) = record.uuid.as_deref().map(HashedId::new) else { return Ok(()) };
        let kind = match (kind, &message, record.subtype.as_deref()) {
            ("user", Some(_), _) => RecordKind::User,
            ("assistant", Some(_), _) if record.is_api_error_message != Some(true) => RecordKind::Assistant,
            ("attachment", ..) => RecordKind::Attachment,
            ("system", _, Some("compact_boundary")) => RecordKind::CompactBoundary,
            _ => RecordKind::ChainLink,
        };
        let at = self.records.len();
        let entry = IndexedRecord {
            position: line.position,
            kind,
            parent: record.parent_uuid.as_deref().map(HashedId::new),
            reply_id: message.as_ref().filter(|_| kind == RecordKind::Assistant).map(|message| {
                // A record without a message ID is a reply by itself.
                message.id.as_deref().map_or(id, HashedId::new)
            }),
            is_sidechain: record.is_sidechain == Some(true),
            is_summary: record.is_compact_summary == Some(true),
        };
        match self.by_id.entry(id) {
            // If a record is written twice, the first one is used.
            Entry::Occupied(_) => return Ok(()),
            Entry::Vacant(free) => free.insert(at),
        };
        self.records.push((id, entry));
        if kind == RecordKind::CompactBoundary {
            self.boundaries.push(CompactBoundary::parse(line.position.number, id, &record));
        }
        if let Some(message) = &message {
            self.index_message(at, &entry, message, &record);
        }
        Ok(())
    }

    /// Updates the facts about the session as a whole: times, ID, project, title, and counts of unknown
    /// records.
    fn update_session_facts(&mut self, record: &RawRecord<'_>, kind: &str) {
        let time = record.timestamp.as_deref().and_then(Timestamp::parse);
        self.started = [self.started, time].into_iter().flatten().min();
        self.updated = self.updated.max(time);
        let owned = |text: &Option<Cow<'_, str>>| text.as_deref().map(str::to_owned);
        // A session that was resumed under a new ID begins with copies of the old session's records.
        if record.session_id.is_some() && record.session_id.as_deref() != self.id.as_deref() {
            self.id = owned(&record.session_id);
        }
        if self.project.is_none() {
            self.project = owned(&record.cwd);
        }
        if let Some(title) = owned(&record.custom_title).or_else(|| owned(&record.summary)) {
            self.title = Some(title);
        }
        if !UNSENT_RECORD_TYPES.contains(&kind) && !["user", "assistant", "attachment"].contains(&kind) {
            *self.unknown_records.entry(kind.to_owned()).or_default() += 1;
        }
    }

    /// Indexes a message: the calls whose results it contains, the reply that it is a part of, and the
    /// reply's usage.
    fn index_message(&mut self, at: usize, entry: &IndexedRecord, message: &RawMessage<'_>, record: &RawRecord<'_>) {
        if let Some(content) = message.content
            && let Ok(blocks) = serde_json::from_str::<Vec<ResultBlock<'_>>>(content.get())
            && entry.kind == RecordKind::User
        {
            for answered in blocks.iter().filter_map(|block| block.tool_use_id.as_deref()) {
                self.results_by_call.entry(HashedId::new(answered)).or_default().push(at);
            }
        }
        let Some(reply) = entry.reply_id else { return };
        self.records_by_reply.entry(reply).or_default().push(at);
        let model = message.model.as_deref().filter(|model| *model != "<synthetic>");
        if let Some(model) = model.filter(|_| !entry.is_sidechain || self.model.is_none()) {
            self.model = Some(model.to_owned());
        }
        let usage = message.usage.as_ref().and_then(Usage::parse).filter(|_| model.is_some());
        let Some(usage) = usage else { return };
        let used = ReplyUsage {
            reply_id: reply,
            time: record.timestamp.as_deref().and_then(Timestamp::parse),
            model: model.map(str::to_owned),
            usage,
            dollars: record.cost,
        };
        // Every record of a reply repeats the usage; only the last one is complete.
        match self.usage_positions.entry(reply) {
            Entry::Occupied(position) => self.reply_usages[*position.get()] = used,
            Entry::Vacant(free) => {
                free.insert(self.reply_usages.len());
                self.reply_usages.push(used);
            }
        }
    }
}

impl CompactBoundary {
    fn parse(line: usize, id: HashedId, record: &RawRecord<'_>) -> Self {
        let metadata = record.compact_metadata.and_then(|raw| serde_json::from_str::<CompactMetadata>(raw.get()).ok());
        let (kept, segment) = metadata.map_or((None, None), |m| (m.preserved_messages, m.preserved_segment));
        let anchor = kept.as_ref().and_then(|kept| kept.anchor_uuid.clone());
        let anchor = anchor.or_else(|| segment.as_ref().and_then(|segment| segment.anchor.clone()));
        Self {
            line,
            id,
            previous: record.logical_parent_uuid.as_deref().map(HashedId::new),
            summary_id: anchor.as_deref().map(HashedId::new),
            kept_ids: kept.iter().flat_map(|kept| &kept.uuids).map(|uuid| HashedId::new(uuid)).collect(),
            kept_segment: segment.map(|segment| (HashedId::new(&segment.head), HashedId::new(&segment.tail))),
        }
    }
}
