//! Builds messages from the items of a history, copied byte for byte.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::file_reader::{self, LinePosition};
use super::super::{Extent, MessagePart, Origin, RecordedMessage, RequestUsage, Role, SessionReadError, Timestamp};
use super::rollout::{HistoryStep, ItemKind, Rollout, UNSENT_ITEM_TYPES};

/// The messages of a history, and the usage of its requests.
pub(super) struct BuiltMessages {
    pub(super) messages: Vec<RecordedMessage>,
    pub(super) requests: Vec<RequestUsage>,
    /// Notes for the user about items that were left out or added.
    pub(super) warnings: Vec<String>,
}

/// An item of the history and its part in a tool call.
struct HistoryItem {
    message: RecordedMessage,
    call_role: CallRole,
}

/// The part that an item has in a tool call.
enum CallRole {
    /// The call: its ID, and the type of its output item.
    Request(String, &'static str),
    /// The output of the call with this ID.
    Output(String),
    /// The item is neither a call nor an output.
    Neither,
}

#[derive(Deserialize)]
struct ItemRecord {
    timestamp: Option<String>,
    payload: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct CompactedHistory {
    #[serde(default)]
    message: String,
    replacement_history: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
struct ItemFields {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    call_id: Option<String>,
}

/// Builds the messages that are sent, and matches each usage report with its reply.
pub(super) fn build_messages(
    file: &Path,
    rollout: &Rollout,
    extent: Extent,
) -> Result<BuiltMessages, SessionReadError> {
    let steps = &rollout.steps;
    let is_base = |step: &&HistoryStep| !matches!(step, HistoryStep::Item(..));
    let base = match extent {
        Extent::NextRequest => steps.iter().rposition(|step| is_base(&step)),
        Extent::FullHistory => None,
    };
    let mut wanted: Vec<LinePosition> = Vec::new();
    match base.map(|at| (at, steps[at])) {
        Some((at, HistoryStep::Summarized(line))) => {
            // The summary follows all prompts of the session, which are read from their own lines.
            wanted.extend(steps[..at].iter().filter_map(|step| match step {
                HistoryStep::Item(line, ItemKind::Prompt) => Some(*line),
                _ => None,
            }));
            wanted.push(line);
        }
        Some((_, HistoryStep::Replaced(line))) => wanted.push(line),
        _ => {}
    }
    let after = base.map_or(0, |at| at + 1);
    wanted.extend(steps[after..].iter().filter_map(|step| match step {
        HistoryStep::Item(line, _) => Some(*line),
        _ => None,
    }));
    let mut sent: Vec<HistoryItem> = Vec::new();
    if let (Some(text), None) = (&rollout.user_instructions, base) {
        let words = format!("<user_instructions>\n\n{text}\n\n</user_instructions>");
        let turn = RecordedMessage {
            role: Role::User,
            parts: vec![(MessagePart::Text(words), Origin::Line(1))],
            time: rollout.started,
        };
        sent.push(HistoryItem { message: turn, call_role: CallRole::Neither });
    }
    file_reader::reread_lines(file, &mut wanted, |line| {
        let record: ItemRecord = serde_json::from_str(line.text)?;
        let at = record.timestamp.as_deref().and_then(Timestamp::parse);
        let raw = match record.payload {
            Some(payload) => payload,
            None => RawValue::from_string(line.text.to_owned())?,
        };
        let number = line.position.number;
        if is_compaction_line(base.map(|at| &steps[at]), number) {
            sent.extend(replacement_items(raw.get(), number, at)?);
        } else {
            sent.push(HistoryItem::parse(raw, Origin::Line(number), at)?);
        }
        Ok::<(), serde_json::Error>(())
    })?;
    let (turns, notes) = pair_calls(sent);
    let requests = reported_requests(rollout, &turns);
    Ok(BuiltMessages { messages: turns, requests, warnings: notes })
}

fn is_compaction_line(base: Option<&HistoryStep>, number: usize) -> bool {
    matches!(base, Some(HistoryStep::Replaced(line) | HistoryStep::Summarized(line)) if line.number == number)
}

/// Returns the items that replaced the history, or the summary that follows the user's prompts.
fn replacement_items(payload: &str, line: usize, at: Option<Timestamp>) -> Result<Vec<HistoryItem>, serde_json::Error> {
    let compacted: CompactedHistory = serde_json::from_str(payload)?;
    let Some(list) = compacted.replacement_history else {
        let piece = (MessagePart::Text(compacted.message), Origin::Line(line));
        return Ok(vec![HistoryItem {
            message: RecordedMessage { role: Role::User, parts: vec![piece], time: at },
            call_role: CallRole::Neither,
        }]);
    };
    let mut sent = Vec::new();
    for (i, raw) in list.into_iter().enumerate() {
        let fields: ItemFields = serde_json::from_str(raw.get())?;
        if !fields.kind.as_deref().is_some_and(|kind| UNSENT_ITEM_TYPES.contains(&kind)) {
            sent.push(HistoryItem::parse(raw, Origin::ListItem(line, i), at)?);
        }
    }
    Ok(sent)
}

impl HistoryItem {
    fn parse(raw: Box<RawValue>, origin: Origin, at: Option<Timestamp>) -> Result<Self, serde_json::Error> {
        let fields: ItemFields = serde_json::from_str(raw.get())?;
        let kind = fields.kind.as_deref().unwrap_or_default();
        let role = match (kind, fields.role.as_deref()) {
            (_, Some("user")) => Role::User,
            (_, Some("developer")) => Role::Developer,
            (_, Some("system")) => Role::System,
            (kind, _) if kind.ends_with("_output") => Role::Tool,
            _ => Role::Assistant,
        };
        let call = match (fields.call_id, kind) {
            (Some(id), "function_call" | "local_shell_call") => CallRole::Request(id, "function_call_output"),
            (Some(id), "custom_tool_call") => CallRole::Request(id, "custom_tool_call_output"),
            (Some(id), "function_call_output" | "custom_tool_call_output") => CallRole::Output(id),
            _ => CallRole::Neither,
        };
        Ok(Self {
            message: RecordedMessage { role, parts: vec![(MessagePart::Raw(raw), origin)], time: at },
            call_role: call,
        })
    }
}

/// Pairs calls and outputs as Codex does: it adds missing outputs, and leaves out outputs without a call.
/// Returns the messages and the warnings.
fn pair_calls(sent: Vec<HistoryItem>) -> (Vec<RecordedMessage>, Vec<String>) {
    let id = |call: &CallRole| match call {
        CallRole::Request(id, _) => Some(id.clone()),
        _ => None,
    };
    let asked: HashSet<String> = sent.iter().filter_map(|sent| id(&sent.call_role)).collect();
    let answered: HashSet<String> = sent
        .iter()
        .filter_map(|sent| match &sent.call_role {
            CallRole::Output(id) => Some(id.clone()),
            _ => None,
        })
        .collect();
    let (mut orphans, mut aborted) = (0, 0);
    let mut turns = Vec::new();
    for HistoryItem { message: turn, call_role: call } in sent {
        match call {
            CallRole::Output(id) if !asked.contains(&id) => orphans += 1,
            CallRole::Request(id, kind) if !answered.contains(&id) => {
                aborted += 1;
                let at = turn.time;
                turns.push(turn);
                let item = serde_json::json!({"type": kind, "call_id": id, "output": "aborted"});
                if let Ok(raw) = serde_json::value::to_raw_value(&item) {
                    turns.push(RecordedMessage {
                        role: Role::Tool,
                        parts: vec![(MessagePart::Raw(raw), Origin::Synthetic)],
                        time: at,
                    });
                }
            }
            _ => turns.push(turn),
        }
    }
    let mut notes = Vec::new();
    if orphans > 0 {
        notes.push(format!("left out {orphans} outputs without a call"));
    }
    if aborted > 0 {
        notes.push(format!("added the output `aborted` to {aborted} calls without an output, as Codex does"));
    }
    (turns, notes)
}

/// Matches each usage report with its reply. A report follows the items of its reply, or directly precedes
/// them in older files.
fn reported_requests(rollout: &Rollout, turns: &[RecordedMessage]) -> Vec<RequestUsage> {
    let turn_of: HashMap<usize, usize> = turns
        .iter()
        .enumerate()
        .filter_map(|(at, turn)| match turn.parts.first() {
            Some((_, Origin::Line(line))) => Some((*line, at)),
            _ => None,
        })
        .collect();
    let replies = reply_lines(rollout);
    let mut next = 0;
    let mut reported = Vec::new();
    for used in &rollout.usage_reports {
        // The newest reply that began before the report, if no earlier report took it; else the next reply.
        let started = replies.iter().rposition(|line| *line < used.line).filter(|at| *at >= next);
        let at = started.unwrap_or(next);
        next = at + 1;
        let reply = replies.get(at).and_then(|line| turn_of.get(line)).copied();
        reported.push(RequestUsage {
            time: used.time,
            model: used.model.clone(),
            usage: used.usage,
            reply_index: reply,
            dollars: None,
        });
    }
    reported
}

/// Returns the first line of each reply. A reply is a run of items that the model wrote.
fn reply_lines(rollout: &Rollout) -> Vec<usize> {
    let mut before = ItemKind::Prompt;
    let mut replies = Vec::new();
    for step in &rollout.steps {
        let HistoryStep::Item(at, item) = step else { continue };
        if *item == ItemKind::Reply && before != ItemKind::Reply {
            replies.push(at.number);
        }
        before = *item;
    }
    replies
}
