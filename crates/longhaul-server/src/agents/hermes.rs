//! Hermes: a database of all sessions; before it, and beside it, files of JSON lines (the gateway's) and snapshots of whole
//! sessions.
//!
//! All of them hold messages in Chat form. A compaction writes the new list (head, summary, tail) behind the old one, in the
//! same session or in a child of it; a snapshot and the gateway's lines hold the new list only. Usage is kept as sums of a
//! session, at best for each model: they are reports without a reply.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use longhaul_engine::{Dialect, Tokens, prices::Usage};
use serde_json::Value;

use super::database::{self, Database, Row};
use super::draft::{self, Drafts, Unanswered};
use super::find::bare_name;
use super::format::Format;
use super::lines;
use super::{
    Agent, Asked, Extent, Glimpse, Machine, Moment, Origin, Piece, Place, Reported, Role, Session, Turn,
    Unread,
};

/// `state.db`.
pub(super) const DATABASE: Format =
    Format { agent: Agent::Hermes, shows: shows_database, homes, list: list_database, read: read_database };

/// `sessions/<id>.jsonl`, the gateway's.
pub(super) const LINES: Format =
    Format { agent: Agent::Hermes, shows: shows_lines, homes, list: list_lines, read: read_lines };

/// `sessions/session_<id>.json`, a whole session with its prompt and its tools.
pub(super) const SNAPSHOT: Format =
    Format { agent: Agent::Hermes, shows: shows_snapshot, homes, list: list_snapshots, read: read_snapshot };

const SESSION: &[&str] = &[
    "id",
    "model",
    "system_prompt",
    "system_prompt_hash",
    "parent_session_id",
    "started_at",
    "ended_at",
    "end_reason",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cwd",
    "estimated_cost_usd",
    "actual_cost_usd",
    "title",
    "display_name",
];

const MESSAGE: &[&str] = &[
    "id",
    "role",
    "content",
    "api_content",
    "tool_call_id",
    "tool_calls",
    "timestamp",
    "reasoning",
    "reasoning_content",
    "active",
    "compacted",
];

/// The same names in both tables of sums.
const SUMS: &[&str] = &[
    "model",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "estimated_cost_usd",
    "actual_cost_usd",
    "last_seen",
];

/// How a summary begins, as a prompt or as a reply.
const SUMMARY: &str = "[CONTEXT COMPACTION";

/// What Hermes puts behind a call that nothing came back for.
const NO_RESULT: &str = "[Result unavailable — see context summary above]";

/// How a content begins that is a list of parts in a column of text.
const AS_JSON: &str = "\0json:";

fn homes(machine: &Machine) -> Vec<PathBuf> {
    let windows = machine.named_by("LOCALAPPDATA").map(|data| data.join("hermes"));
    vec![machine.named_by("HERMES_HOME").or(windows).unwrap_or_else(|| machine.home.join(".hermes"))]
}

fn shows_database(glimpse: &Glimpse<'_>) -> bool {
    let has = |database: &Database| {
        let columns = database.columns("messages")?;
        Ok(["role", "tool_calls", "tool_call_id"].iter().all(|name| columns.contains(*name)))
    };
    glimpse.is_database() && database::open(glimpse.path).and_then(|database| has(&database)).unwrap_or(false)
}

/// The sessions of a database, the one that was written to last first.
struct Sessions {
    rows: Vec<Row>,
    touched: BTreeMap<String, Option<Moment>>,
}

impl Sessions {
    fn of(database: &Database) -> Result<Self, Unread> {
        let newest = "WHERE id IN (SELECT max(id) FROM messages GROUP BY session_id) ORDER BY id DESC";
        let last = database.rows("messages", &["session_id", "timestamp"], newest, &[])?;
        let written: Vec<&str> = last.iter().filter_map(|row| row.text("session_id")).collect();
        let mut rows = database.rows("sessions", SESSION, "ORDER BY started_at DESC", &[])?;
        let place =
            |row: &Row| written.iter().position(|id| row.text("id") == Some(id)).unwrap_or(usize::MAX);
        rows.sort_by_cached_key(place);
        let touched =
            last.iter().filter_map(|row| Some((row.words("session_id")?, row.moment("timestamp")))).collect();
        Ok(Self { rows, touched })
    }

    fn named(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.text("id") == Some(id))
    }

    fn parent(&self, row: &Row) -> Option<&Row> {
        self.named(row.text("parent_session_id")?)
    }

    /// Whether it is gone on with: what was delegated is a child of a session that did not end for it, and what was compacted
    /// goes on in its child.
    fn goes_on(&self, row: &Row) -> bool {
        let continues = |parent: &Row| matches!(parent.text("end_reason"), Some("compression" | "branched"));
        let has_child = || self.rows.iter().any(|child| child.text("parent_session_id") == row.text("id"));
        let replaced = row.text("end_reason") == Some("compression") && has_child();
        self.parent(row).is_none_or(continues) && !replaced
    }

    /// The session and those that it continues after a compaction, oldest first.
    fn chain<'s>(&'s self, row: &'s Row) -> Vec<&'s Row> {
        let mut chain = vec![row];
        let mut seen = BTreeSet::from([row.text("id")]);
        let mut parent = self.parent(row);
        while let Some(row) = parent.filter(|row| row.text("end_reason") == Some("compression")) {
            if !seen.insert(row.text("id")) {
                break;
            }
            chain.push(row);
            parent = self.parent(row);
        }
        chain.reverse();
        chain
    }
}

fn list_database(home: &Path) -> Vec<Place> {
    let path = home.join("state.db");
    let listed = || Sessions::of(&*database::open(&path)?);
    let Some(sessions) = path.is_file().then(listed).and_then(Result::ok) else { return Vec::new() };
    let place = |row: &Row| {
        let id = row.words("id")?;
        let touched = sessions.touched.get(&id).copied().flatten().or(row.moment("started_at"));
        Some(Place { agent: Agent::Hermes, path: path.clone(), id: Some(id), touched })
    };
    sessions.rows.iter().filter(|row| sessions.goes_on(row)).filter_map(place).collect()
}

fn read_database(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let database = database::open(&place.path)?;
    let sessions = Sessions::of(&database)?;
    let chosen = match &place.id {
        Some(id) => sessions.named(id),
        None => sessions.rows.iter().find(|row| sessions.goes_on(row)).or(sessions.rows.first()),
    };
    let row = chosen.ok_or_else(|| database.lacks(place.id.as_deref()))?;
    let chain = sessions.chain(row);
    let mut reader = Reader::new(asked);
    reader.compactions = chain.len() - 1;
    for part in &chain {
        let is_last = part.text("id") == row.text("id");
        reader.requests.extend(sums(&database, part)?);
        for message in
            database.rows("messages", MESSAGE, "WHERE session_id = ?1 ORDER BY id", &[&part.text("id")])?
        {
            reader.row(&message, is_last);
        }
    }
    let prompt = |hash: &str| database.rows("system_prompts", &["prompt"], "WHERE hash = ?1", &[&hash]);
    let by_hash = match row.text("system_prompt_hash") {
        Some(hash) => prompt(hash)?.first().and_then(|row| row.words("prompt")),
        None => None,
    };
    let mut session = reader.session(row.words("id").unwrap_or_default());
    session.project = row.words("cwd");
    session.title = row.words("title").or(row.words("display_name"));
    session.model = session.model.or(row.words("model"));
    session.system = row.words("system_prompt").or(by_hash);
    session.started = chain.first().and_then(|row| row.moment("started_at"));
    session.updated = session.updated.max(row.moment("ended_at"));
    Ok(session)
}

/// The sums of a session: for each model where there is such a table, else of all.
fn sums(database: &Database, session: &Row) -> Result<Vec<Reported>, Unread> {
    let id = session.text("id");
    let of_models = database.rows(
        "session_model_usage",
        SUMS,
        "WHERE session_id = ?1 ORDER BY last_seen, model",
        &[&id],
    )?;
    let found: Vec<Reported> = of_models.iter().filter_map(|row| sum(row, "last_seen")).collect();
    Ok(if found.is_empty() { sum(session, "ended_at").into_iter().collect() } else { found })
}

/// Hermes counts what was cached apart from the input.
fn sum(row: &Row, at: &str) -> Option<Reported> {
    let tokens = |name| row.whole(name).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let (fresh, output) = (tokens("input_tokens"), tokens("output_tokens"));
    let (read, written) = (tokens("cache_read_tokens"), tokens("cache_write_tokens"));
    let input = fresh + read + written;
    let dollars =
        ["actual_cost_usd", "estimated_cost_usd"].map(|name| row.number(name).filter(|cost| *cost > 0.0));
    let usage = Usage {
        input: Some(Tokens(input)),
        read: Some(Tokens(read)),
        written: Some(Tokens(written)),
        written_1h: None,
        output: Some(Tokens(output)),
    };
    let [actual, estimated] = dollars;
    let reported = Reported {
        at: row.moment(at),
        model: row.words("model"),
        usage,
        reply: None,
        dollars: actual.or(estimated),
    };
    (input + output > 0).then_some(reported)
}

/// Ids of the sessions that the database beside has; their files are older copies.
fn in_database(home: &Path) -> BTreeSet<String> {
    let path = home.join("state.db");
    let read = || database::open(&path)?.rows("sessions", &["id"], "", &[]);
    let rows = if path.is_file() { read().unwrap_or_default() } else { Vec::new() };
    rows.iter().filter_map(|row| row.words("id")).collect()
}

fn list_files(home: &Path, id: fn(&Path) -> Option<&str>) -> Vec<Place> {
    let entries = std::fs::read_dir(home.join("sessions")).into_iter().flatten().flatten();
    let files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| id(path).is_some()).collect();
    if files.is_empty() {
        return Vec::new();
    }
    let known = in_database(home);
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

    /// A row of the database; `is_last` of the session that is read, which those before it lead to.
    fn row(&mut self, row: &Row, is_last: bool) {
        let is_active = row.whole("active").unwrap_or(1) == 1;
        let is_compacted = row.whole("compacted").unwrap_or(0) == 1;
        let parsed = |text: &str| match text.strip_prefix(AS_JSON) {
            Some(json) => serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned())),
            None => Value::String(text.to_owned()),
        };
        let kept = Kept {
            role: row.words("role").unwrap_or_default(),
            content: row.text("api_content").or(row.text("content")).map(parsed).unwrap_or_default(),
            reasoning: row.words("reasoning_content").or(row.words("reasoning")),
            tool_calls: row.json("tool_calls").unwrap_or_default(),
            tool_call_id: row.words("tool_call_id"),
            origin: Origin::Row(row.whole("id").unwrap_or_default()),
            at: row.moment("timestamp"),
        };
        // What is neither active nor compacted was taken back.
        let wanted = match self.asked.extent {
            Extent::Next => is_last && is_active,
            Extent::Whole => is_active || is_compacted,
        };
        self.take(kept, wanted);
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
