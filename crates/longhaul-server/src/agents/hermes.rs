//! Hermes: a database of all sessions; before it, and beside it, files of JSON lines (the gateway's) and snapshots of whole
//! sessions.
//!
//! All of them hold messages in Chat form. A compaction writes the new list (head, summary, tail) behind the old one, in the
//! same session or in a child of it; a snapshot and the gateway's lines hold the new list only. Usage is kept as sums of a
//! session, at best for each model: they are reports without a reply.

mod state;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use longhaul_engine::Dialect;
use serde_json::Value;

use super::draft::{self, Drafts, Unanswered};
use super::find::bare_name;
use super::folder::entries;
use super::format::Format;
use super::lines;
use super::{
    Agent, Asked, Extent, Glimpse, Machine, Moment, Origin, Piece, Place, Reported, Role, Session, Turn,
    Unread,
};

/// `state.db`.
pub(super) const DATABASE: Format =
    Format { agent: Agent::Hermes, shows: state::shows, homes, list: state::list, read: state::read };

/// `sessions/<id>.jsonl`, the gateway's.
pub(super) const LINES: Format =
    Format { agent: Agent::Hermes, shows: shows_lines, homes, list: list_lines, read: read_lines };

/// `sessions/session_<id>.json`, a whole session with its prompt and its tools.
pub(super) const SNAPSHOT: Format =
    Format { agent: Agent::Hermes, shows: shows_snapshot, homes, list: list_snapshots, read: read_snapshot };

/// How a summary begins, as a prompt or as a reply.
const SUMMARY: &str = "[CONTEXT COMPACTION";

/// What Hermes puts behind a call that nothing came back for.
const NO_RESULT: &str = "[Result unavailable — see context summary above]";

fn homes(machine: &Machine) -> Vec<PathBuf> {
    let windows = machine.named_by("LOCALAPPDATA").map(|data| data.join("hermes"));
    vec![machine.named_by("HERMES_HOME").or(windows).unwrap_or_else(|| machine.home.join(".hermes"))]
}

fn list_files(home: &Path, id: fn(&Path) -> Option<&str>) -> Vec<Place> {
    let files = entries(&home.join("sessions")).into_iter().filter(|path| id(path).is_some());
    let files: Vec<PathBuf> = files.collect();
    if files.is_empty() {
        return Vec::new();
    }
    let known = state::ids(home);
    let place = |path: &PathBuf| Some(Place::of_file(Agent::Hermes, path, Some(id(path)?.to_owned())));
    files
        .iter()
        .filter_map(place)
        .filter(|place| !place.id.as_ref().is_some_and(|id| known.contains(id)))
        .collect()
}

fn list_lines(home: &Path) -> Vec<Place> {
    list_files(home, |path| bare_name(path, &[".jsonl"]))
}

fn list_snapshots(home: &Path) -> Vec<Place> {
    list_files(home, snapshot_id)
}

fn snapshot_id(path: &Path) -> Option<&str> {
    bare_name(path, &[".json"])?.strip_prefix("session_")
}

fn shows_lines(glimpse: &Glimpse<'_>) -> bool {
    let first = glimpse.first();
    let is_said = first.contains_key("content") && first.get("timestamp").is_some_and(Value::is_string);
    let role = first.get("role").and_then(Value::as_str);
    role == Some("session_meta") || (role.is_some() && is_said && !first.contains_key("type"))
}

fn shows_snapshot(glimpse: &Glimpse<'_>) -> bool {
    let first = glimpse.first();
    ["session_id", "session_start", "platform"].iter().all(|name| first.contains_key(*name))
}

/// The times of these lines are of a turn, not of a message.
fn read_lines(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let mut reader = Reader::new(asked);
    let (mut model, mut tools) = (None, None);
    let damage = lines::each(&place.path, |line| {
        let record: Value = serde_json::from_str(line.text)?;
        if record["role"] == "session_meta" {
            model = text(&record["model"]).or(model.take());
            tools = record["tools"].is_array().then(|| record["tools"].clone()).or(tools.take());
        } else {
            reader.message(&record, Origin::Line(line.at.number));
        }
        Ok::<_, serde_json::Error>(())
    })?;
    let name = bare_name(&place.path, &[".jsonl"]).unwrap_or_default();
    let mut session = reader.session(place.id.clone().unwrap_or_else(|| name.to_owned()));
    session.model = session.model.or(model);
    session.tools = tools;
    session.damage = damage;
    Ok(session)
}

fn read_snapshot(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let bytes = lines::whole(&place.path)?;
    let whole: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Unread::Wrong(format!("{} is damaged: {error}", place.path.display())))?;
    let mut reader = Reader::new(asked);
    for (at, message) in whole["messages"].as_array().into_iter().flatten().enumerate() {
        reader.message(message, Origin::Id(format!("messages/{at}")));
    }
    let moment = |name: &str| whole[name].as_str().and_then(Moment::parse);
    let id = text(&whole["session_id"]).or(place.id.clone());
    let mut session = reader.session(id.unwrap_or_default());
    session.model = session.model.or(text(&whole["model"]));
    session.system = text(&whole["system_prompt"]);
    session.tools =
        whole["tools"].as_array().filter(|tools| !tools.is_empty()).map(|_| whole["tools"].clone());
    session.started = moment("session_start");
    session.updated = moment("last_updated");
    Ok(session)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A message as it is kept.
struct Kept {
    role: String,
    content: Value,
    reasoning: Option<String>,
    tool_calls: Value,
    tool_call_id: Option<String>,
    origin: Origin,
    at: Option<Moment>,
}

impl Kept {
    fn is_summary(&self) -> bool {
        let begins = |text: &Value| text.as_str().is_some_and(|text| text.starts_with(SUMMARY));
        begins(&self.content) || begins(&self.content[0]["text"])
    }

    fn says_the_same(&self, other: &Self) -> bool {
        self.role == other.role
            && self.content == other.content
            && self.tool_calls == other.tool_calls
            && self.tool_call_id == other.tool_call_id
    }
}

/// Makes turns of messages.
struct Reader<'r> {
    asked: &'r Asked,
    dialect: Dialect,
    kept: Vec<Kept>,
    /// Of sessions that go on in a child.
    compactions: usize,
    summaries: BTreeSet<String>,
    requests: Vec<Reported>,
    first: Option<Moment>,
    last: Option<Moment>,
    unknown: BTreeMap<String, usize>,
}

impl<'r> Reader<'r> {
    fn new(asked: &'r Asked) -> Self {
        Self {
            asked,
            dialect: asked.dialect.unwrap_or(Dialect::Chat),
            kept: Vec::new(),
            compactions: 0,
            summaries: BTreeSet::new(),
            requests: Vec::new(),
            first: None,
            last: None,
            unknown: BTreeMap::new(),
        }
    }

    fn message(&mut self, message: &Value, origin: Origin) {
        let at = match &message["timestamp"] {
            Value::String(text) => Moment::parse(text),
            other => other.as_f64().map(Moment::of_seconds),
        };
        let kept = Kept {
            role: text(&message["role"]).unwrap_or_default(),
            content: [&message["api_content"], &message["content"]]
                .into_iter()
                .find(|c| !c.is_null())
                .cloned()
                .unwrap_or_default(),
            reasoning: text(&message["reasoning_content"]).or(text(&message["reasoning"])),
            tool_calls: message["tool_calls"].clone(),
            tool_call_id: text(&message["tool_call_id"]),
            origin,
            at,
        };
        self.take(kept, true);
    }

    fn take(&mut self, kept: Kept, wanted: bool) {
        self.first = self.first.or(kept.at);
        self.last = self.last.max(kept.at);
        if kept.is_summary() {
            self.summaries.insert(kept.content.to_string());
        }
        if wanted && kept.role != "session_meta" {
            self.kept.push(kept);
        }
    }

    fn session(mut self, id: String) -> Session {
        let mut kept = std::mem::take(&mut self.kept);
        if self.asked.extent == Extent::Whole {
            kept = unfold(kept);
        }
        let mut drafts = Drafts::default();
        for kept in kept {
            if let Some(turn) = self.turn(kept) {
                drafts.push(turn, None);
            }
        }
        drafts.pair(Unanswered::Stubbed(NO_RESULT));
        Session {
            agent: Agent::Hermes,
            id,
            project: None,
            title: None,
            model: self.asked.model.clone(),
            dialect: self.dialect,
            system: None,
            tools: None,
            turns: drafts.settle(self.dialect, &mut self.requests),
            compactions: self.compactions.max(self.summaries.len()),
            started: self.first,
            updated: self.last,
            requests: self.requests,
            unknown: self.unknown,
            damage: Vec::new(),
        }
    }

    fn turn(&mut self, kept: Kept) -> Option<Turn> {
        let Kept { role, content, reasoning, tool_calls, tool_call_id, origin, at } = kept;
        let said = draft::parts(&content, self.dialect);
        let (role, pieces) = match role.as_str() {
            "user" => (Role::User, said),
            "system" => (Role::System, said),
            "assistant" => {
                let thought = reasoning.map(|text| Piece::Thinking { text, signature: None });
                (Role::Assistant, thought.into_iter().chain(said).chain(draft::calls(&tool_calls)).collect())
            }
            "tool" => (Role::Tool, vec![Piece::Result { id: tool_call_id?, content: said, failed: false }]),
            other => {
                *self.unknown.entry(format!("role {other}")).or_default() += 1;
                return None;
            }
        };
        Some(Turn { role, pieces: pieces.into_iter().map(|piece| (piece, origin.clone())).collect(), at })
    }
}

/// The messages as if nothing had been compacted. A compaction repeats the first messages, says its summary, and repeats the
/// last ones; what it repeats stands before it already.
fn unfold(kept: Vec<Kept>) -> Vec<Kept> {
    let same =
        |one: &[Kept], other: &[Kept]| one.iter().zip(other).all(|(one, other)| one.says_the_same(other));
    let mut out: Vec<Kept> = Vec::with_capacity(kept.len());
    let mut rest = VecDeque::from(kept);
    while let Some(next) = rest.pop_front() {
        if !next.is_summary() {
            out.push(next);
            continue;
        }
        let length = out.len();
        let head =
            (1..=length / 2).rev().find(|head| same(&out[..*head], &out[length - head..])).unwrap_or(0);
        out.truncate(length - head);
        let behind = rest.make_contiguous();
        let most = out.len().min(behind.len());
        let tail =
            (1..=most).rev().find(|tail| same(&out[out.len() - tail..], &behind[..*tail])).unwrap_or(0);
        rest.drain(..tail);
    }
    out
}
