//! The first pass over a rollout file. It collects the steps of the history in order, without those that were
//! rolled back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use longhaul_engine::Tokens;
use longhaul_engine::prices::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::file_reader::{self, Line, LinePosition};
use super::super::{SessionReadError, Timestamp};

/// One step of the history.
#[derive(Debug, Clone, Copy)]
pub(super) enum HistoryStep {
    /// An item that is sent.
    Item(LinePosition, ItemKind),
    /// A compaction replaced the history by the list of items in this line.
    Replaced(LinePosition),
    /// A compaction replaced the history by the user's prompts so far and the summary in this line.
    Summarized(LinePosition),
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    /// A prompt of the user.
    Prompt,
    /// Text that the client writes as the user or as the developer.
    Context,
    /// Output of the model.
    Reply,
    /// Output of a tool.
    Output,
}

/// The usage that the provider reported for a request.
pub(super) struct UsageReport {
    /// The line number of the report.
    pub(super) line: usize,
    pub(super) time: Option<Timestamp>,
    pub(super) model: Option<String>,
    pub(super) usage: Usage,
}

/// An index of the file: everything that must be known before its items are read.
#[derive(Default)]
pub(super) struct Rollout {
    pub(super) steps: Vec<HistoryStep>,
    pub(super) usage_reports: Vec<UsageReport>,
    /// The instructions from the user's files, which only the oldest format stores.
    pub(super) user_instructions: Option<String>,
    pub(super) id: Option<String>,
    pub(super) project: Option<String>,
    pub(super) title: Option<String>,
    pub(super) model: Option<String>,
    pub(super) system_prompt: Option<String>,
    pub(super) compactions: usize,
    pub(super) started: Option<Timestamp>,
    pub(super) updated: Option<Timestamp>,
    pub(super) unknown_records: BTreeMap<String, usize>,
    pub(super) warnings: Vec<String>,
    /// The total tokens of the last report. A report with the same total is a repetition.
    last_total: Option<u64>,
}

/// The beginnings of texts that the client writes as the user. They are not prompts.
const CONTEXT_PREFIXES: [&str; 9] = [
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<skill>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<permissions instructions>",
    "<INSTRUCTIONS>",
];

/// The types of items that are in the file but never sent.
pub(super) const UNSENT_ITEM_TYPES: [&str; 1] = ["ghost_snapshot"];

/// The types of records that contain nothing for a request.
const IGNORED_RECORD_TYPES: [&str; 2] = ["world_state", "inter_agent_communication_metadata"];

#[derive(Deserialize)]
struct RolloutRecord<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Option<Cow<'a, str>>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    #[serde(rename = "record_type", borrow)]
    record_type: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    instructions: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ItemPayload<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TextPart<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct SessionMeta<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    cwd: Option<Cow<'a, str>>,
    #[serde(borrow)]
    model: Option<Cow<'a, str>>,
    base_instructions: Option<BaseInstructions>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum BaseInstructions {
    Text(String),
    Object { text: String },
}

#[derive(Deserialize)]
struct EventPayload<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    info: Option<TokenCountInfo>,
    num_turns: Option<usize>,
    #[serde(borrow)]
    thread_name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct TokenCountInfo {
    total_token_usage: Option<TokenCounts>,
    last_token_usage: Option<TokenCounts>,
}

#[derive(Deserialize)]
struct TokenCounts {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "cached_input_tokens")]
    cached: Option<u64>,
    #[serde(rename = "cache_write_input_tokens")]
    written: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
    #[serde(rename = "total_tokens")]
    total: Option<u64>,
}

#[derive(Deserialize)]
struct CompactedRecord<'a> {
    #[serde(borrow)]
    replacement_history: Option<&'a RawValue>,
}

impl Rollout {
    pub(super) fn scan(path: &Path) -> Result<Self, SessionReadError> {
        let mut rollout = Self::default();
        rollout.warnings = file_reader::for_each_line(path, |line| rollout.add_line(line))?;
        Ok(rollout)
    }

    fn add_line(&mut self, line: Line<'_>) -> Result<(), serde_json::Error> {
        let record: RolloutRecord<'_> = serde_json::from_str(line.text)?;
        let time = record.timestamp.as_deref().and_then(Timestamp::parse);
        self.started = [self.started, time].into_iter().flatten().min();
        self.updated = self.updated.max(time);
        let Some(payload) = record.payload else { return self.add_bare_line(line, &record) };
        match record.kind.as_deref().unwrap_or("record without a type") {
            "response_item" => self.add_item(line.position, &serde_json::from_str(payload.get())?),
            "session_meta" => self.set_session_meta(serde_json::from_str(payload.get())?),
            "turn_context" => {
                let context: SessionMeta<'_> = serde_json::from_str(payload.get())?;
                if let Some(model) = context.model {
                    self.model = Some(model.into_owned());
                }
            }
            "event_msg" => self.apply_event(line.position, time, serde_json::from_str(payload.get())?),
            "compacted" => {
                let compacted: CompactedRecord<'_> = serde_json::from_str(payload.get())?;
                let listed = compacted.replacement_history.is_some_and(|list| list.get().starts_with('['));
                self.compactions += 1;
                self.steps.push(if listed {
                    HistoryStep::Replaced(line.position)
                } else {
                    HistoryStep::Summarized(line.position)
                });
            }
            kind if IGNORED_RECORD_TYPES.contains(&kind) => {}
            kind => *self.unknown_records.entry(kind.to_owned()).or_default() += 1,
        }
        Ok(())
    }

    /// Adds a line of the oldest format, in which items have no record with a payload around them.
    fn add_bare_line(&mut self, line: Line<'_>, record: &RolloutRecord<'_>) -> Result<(), serde_json::Error> {
        if record.kind.is_some() {
            self.add_item(line.position, &serde_json::from_str(line.text)?);
        } else if record.record_type.is_none() && self.id.is_none() {
            self.id = record.id.as_deref().map(str::to_owned);
            self.user_instructions = record.instructions.as_deref().map(str::to_owned);
        }
        Ok(())
    }

    fn set_session_meta(&mut self, meta: SessionMeta<'_>) {
        // A fork repeats its parent's metadata; the first record is its own.
        if self.id.is_some() {
            return;
        }
        self.id = meta.id.map(Cow::into_owned);
        self.project = meta.cwd.map(Cow::into_owned);
        self.system_prompt = meta.base_instructions.map(|instructions| match instructions {
            BaseInstructions::Text(text) | BaseInstructions::Object { text } => text,
        });
    }

    fn add_item(&mut self, at: LinePosition, written: &ItemPayload<'_>) {
        let kind = written.kind.as_deref().unwrap_or_default();
        if UNSENT_ITEM_TYPES.contains(&kind) {
            return;
        }
        let item = match (kind, written.role.as_deref()) {
            ("message", Some("user")) if !written.is_context() => ItemKind::Prompt,
            ("message", Some("user" | "developer" | "system")) => ItemKind::Context,
            (kind, _) if kind.ends_with("_output") => ItemKind::Output,
            _ => ItemKind::Reply,
        };
        self.steps.push(HistoryStep::Item(at, item));
    }

    fn apply_event(&mut self, at: LinePosition, time: Option<Timestamp>, event: EventPayload<'_>) {
        match event.kind.as_deref() {
            Some("thread_rolled_back") => self.roll_back(event.num_turns.unwrap_or(0)),
            Some("thread_name_updated") => self.title = event.thread_name.map(Cow::into_owned),
            Some("token_count") => {
                let Some(TokenCountInfo { total_token_usage: total, last_token_usage: Some(last) }) = event.info else {
                    return;
                };
                let total = total.and_then(|total| total.total);
                if total.is_some() && total == self.last_total {
                    return;
                }
                self.last_total = total;
                let usage = Usage {
                    input: last.input.map(Tokens),
                    read: last.cached.map(Tokens),
                    written: last.written.map(Tokens),
                    written_1h: None,
                    output: last.output.map(Tokens),
                };
                self.usage_reports.push(UsageReport { line: at.number, time, model: self.model.clone(), usage });
            }
            _ => {}
        }
    }

    /// Removes the newest prompts and everything after them, with the compactions in between.
    fn roll_back(&mut self, turns: usize) {
        let prompts: Vec<usize> = self
            .steps
            .iter()
            .enumerate()
            .filter(|(_, step)| matches!(step, HistoryStep::Item(_, ItemKind::Prompt)))
            .map(|(at, _)| at)
            .collect();
        if turns > 0 && !prompts.is_empty() {
            self.steps.truncate(prompts[prompts.len().saturating_sub(turns)]);
        }
    }
}

impl ItemPayload<'_> {
    /// Returns whether the client wrote this text as the user.
    fn is_context(&self) -> bool {
        let parts =
            self.content.and_then(|raw| serde_json::from_str::<Vec<TextPart<'_>>>(raw.get()).ok()).unwrap_or_default();
        let mut texts = parts.iter().filter_map(|part| part.text.as_deref()).map(str::trim_start).peekable();
        texts.peek().is_some() && texts.all(|text| CONTEXT_PREFIXES.iter().any(|start| text.starts_with(start)))
    }
}
