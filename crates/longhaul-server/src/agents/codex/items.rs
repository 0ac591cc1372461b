//! The items of a history, byte for byte.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::lines::{self, LineAt};
use super::super::{Extent, Moment, Origin, Piece, Reported, Role, Turn, Unread};
use super::rollout::{Item, Rollout, Step, UNSENT};

/// What a history became.
pub(super) struct Made {
    pub(super) turns: Vec<Turn>,
    pub(super) requests: Vec<Reported>,
    /// What was left out or put in, and is worth a word.
    pub(super) notes: Vec<String>,
}

/// An item with what has to be known of it.
struct Sent {
    turn: Turn,
    call: Call,
}

/// How an item takes part in a call.
enum Call {
    /// It asks, and the output is of this kind.
    Asks(String, &'static str),
    /// It answers.
    Answers(String),
    /// It does not.
    No,
}

#[derive(Deserialize)]
struct Record {
    timestamp: Option<String>,
    payload: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Compacted {
    #[serde(default)]
    message: String,
    replacement_history: Option<Vec<Box<RawValue>>>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    call_id: Option<String>,
}

/// The turns that are sent, and which of them each report is about.
pub(super) fn of(file: &Path, rollout: &Rollout, extent: Extent) -> Result<Made, Unread> {
    let steps = &rollout.steps;
    let is_base = |step: &&Step| !matches!(step, Step::Item(..));
    let base = match extent {
        Extent::Next => steps.iter().rposition(|step| is_base(&step)),
        Extent::Whole => None,
    };
    let mut wanted: Vec<LineAt> = Vec::new();
    match base.map(|at| (at, steps[at])) {
        Some((at, Step::Summarised(line))) => {
            // What the user said in all of the session stays, and is read from where it was said.
            wanted.extend(steps[..at].iter().filter_map(|step| match step {
                Step::Item(line, Item::Prompt) => Some(*line),
                _ => None,
            }));
            wanted.push(line);
        }
        Some((_, Step::Compacted(line))) => wanted.push(line),
        _ => {}
    }
    let after = base.map_or(0, |at| at + 1);
    wanted.extend(steps[after..].iter().filter_map(|step| match step {
        Step::Item(line, _) => Some(*line),
        _ => None,
    }));
    let mut sent: Vec<Sent> = Vec::new();
    if let (Some(text), None) = (&rollout.instructions, base) {
        let words = format!("<user_instructions>\n\n{text}\n\n</user_instructions>");
        let turn = Turn {
            role: Role::User,
            pieces: vec![(Piece::Text(words), Origin::Line(1))],
            at: rollout.started,
        };
        sent.push(Sent { turn, call: Call::No });
    }
    lines::again(file, &mut wanted, |line| {
        let record: Record = serde_json::from_str(line.text)?;
        let at = record.timestamp.as_deref().and_then(Moment::parse);
        let raw = match record.payload {
            Some(payload) => payload,
            None => RawValue::from_string(line.text.to_owned())?,
        };
        let number = line.at.number;
        if is_line(base.map(|at| &steps[at]), number) {
            sent.extend(history(raw.get(), number, at)?);
        } else {
            sent.push(Sent::read(raw, Origin::Line(number), at)?);
        }
        Ok::<(), serde_json::Error>(())
    })?;
    let (turns, notes) = paired(sent);
    let requests = reported(rollout, &turns);
    Ok(Made { turns, requests, notes })
}

fn is_line(base: Option<&Step>, number: usize) -> bool {
    matches!(base, Some(Step::Compacted(line) | Step::Summarised(line)) if line.number == number)
}

/// The list that replaced the history, or the summary that follows the user's words.
fn history(payload: &str, line: usize, at: Option<Moment>) -> Result<Vec<Sent>, serde_json::Error> {
    let compacted: Compacted = serde_json::from_str(payload)?;
    let Some(list) = compacted.replacement_history else {
        let piece = (Piece::Text(compacted.message), Origin::Line(line));
        return Ok(vec![Sent { turn: Turn { role: Role::User, pieces: vec![piece], at }, call: Call::No }]);
    };
    let mut sent = Vec::new();
    for (i, raw) in list.into_iter().enumerate() {
        let fields: Fields = serde_json::from_str(raw.get())?;
        if !fields.kind.as_deref().is_some_and(|kind| UNSENT.contains(&kind)) {
            sent.push(Sent::read(raw, Origin::Item(line, i), at)?);
        }
    }
    Ok(sent)
}

impl Sent {
    fn read(raw: Box<RawValue>, origin: Origin, at: Option<Moment>) -> Result<Self, serde_json::Error> {
        let fields: Fields = serde_json::from_str(raw.get())?;
        let kind = fields.kind.as_deref().unwrap_or_default();
        let role = match (kind, fields.role.as_deref()) {
            (_, Some("user")) => Role::User,
            (_, Some("developer")) => Role::Developer,
            (_, Some("system")) => Role::System,
            (kind, _) if kind.ends_with("_output") => Role::Tool,
            _ => Role::Assistant,
        };
        let call = match (fields.call_id, kind) {
            (Some(id), "function_call" | "local_shell_call") => Call::Asks(id, "function_call_output"),
            (Some(id), "custom_tool_call") => Call::Asks(id, "custom_tool_call_output"),
            (Some(id), "function_call_output" | "custom_tool_call_output") => Call::Answers(id),
            _ => Call::No,
        };
        Ok(Self { turn: Turn { role, pieces: vec![(Piece::Wire(raw), origin)], at }, call })
    }
}

/// Codex never sends a call without an output, nor an output without its call.
fn paired(sent: Vec<Sent>) -> (Vec<Turn>, Vec<String>) {
    let id = |call: &Call| match call {
        Call::Asks(id, _) => Some(id.clone()),
        _ => None,
    };
    let asked: HashSet<String> = sent.iter().filter_map(|sent| id(&sent.call)).collect();
    let answered: HashSet<String> = sent
        .iter()
        .filter_map(|sent| match &sent.call {
            Call::Answers(id) => Some(id.clone()),
            _ => None,
        })
        .collect();
    let (mut orphans, mut aborted) = (0, 0);
    let mut turns = Vec::new();
    for Sent { turn, call } in sent {
        match call {
            Call::Answers(id) if !asked.contains(&id) => orphans += 1,
            Call::Asks(id, kind) if !answered.contains(&id) => {
                aborted += 1;
                let at = turn.at;
                turns.push(turn);
                let item = serde_json::json!({"type": kind, "call_id": id, "output": "aborted"});
                if let Ok(raw) = serde_json::value::to_raw_value(&item) {
                    turns.push(Turn {
                        role: Role::Tool,
                        pieces: vec![(Piece::Wire(raw), Origin::Client)],
                        at,
                    });
                }
            }
            _ => turns.push(turn),
        }
    }
    let mut notes = Vec::new();
    if orphans > 0 {
        notes.push(format!("{orphans} outputs without a call are left out"));
    }
    if aborted > 0 {
        notes
            .push(format!("{aborted} calls without an output get the output `aborted`, as Codex gives them"));
    }
    (turns, notes)
}

/// Which reply each report is about. Reports stand behind the items of their reply, or just before them in older files.
fn reported(rollout: &Rollout, turns: &[Turn]) -> Vec<Reported> {
    let turn_of: HashMap<usize, usize> = turns
        .iter()
        .enumerate()
        .filter_map(|(at, turn)| match turn.pieces.first() {
            Some((_, Origin::Line(line))) => Some((*line, at)),
            _ => None,
        })
        .collect();
    let replies = replies(rollout);
    let mut next = 0;
    let mut reported = Vec::new();
    for used in &rollout.used {
        // The oldest reply without a report that began before it; else the next one.
        let started = replies.iter().rposition(|line| *line < used.line).filter(|at| *at >= next);
        let at = started.unwrap_or(next);
        next = at + 1;
        let reply = replies.get(at).and_then(|line| turn_of.get(line)).copied();
        reported.push(Reported {
            at: used.at,
            model: used.model.clone(),
            usage: used.usage,
            reply,
            dollars: None,
        });
    }
    reported
}

/// The first line of each reply: what the model wrote after something that it did not write.
fn replies(rollout: &Rollout) -> Vec<usize> {
    let mut before = Item::Prompt;
    let mut replies = Vec::new();
    for step in &rollout.steps {
        let Step::Item(at, item) = step else { continue };
        if *item == Item::Reply && before != Item::Reply {
            replies.push(at.number);
        }
        before = *item;
    }
    replies
}
