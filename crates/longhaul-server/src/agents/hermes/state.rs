//! The database: sessions, what each continues, and their sums.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use longhaul_engine::{Tokens, prices::Usage};
use serde_json::Value;

use super::super::database::{self, Database, Row};
use super::super::{Agent, Asked, Extent, Glimpse, Moment, Origin, Place, Reported, Session, Unread};
use super::{Kept, Reader};

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

/// How a content begins that is a list of parts in a column of text.
const AS_JSON: &str = "\0json:";

pub(super) fn shows(glimpse: &Glimpse<'_>) -> bool {
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

pub(super) fn list(home: &Path) -> Vec<Place> {
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

pub(super) fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
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
            take(&mut reader, &message, is_last);
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
pub(super) fn ids(home: &Path) -> BTreeSet<String> {
    let path = home.join("state.db");
    let read = || database::open(&path)?.rows("sessions", &["id"], "", &[]);
    let rows = if path.is_file() { read().unwrap_or_default() } else { Vec::new() };
    rows.iter().filter_map(|row| row.words("id")).collect()
}

/// Takes a row; `is_last` of the session that is read, which those before it lead to.
fn take(reader: &mut Reader<'_>, row: &Row, is_last: bool) {
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
    let wanted = match reader.asked.extent {
        Extent::Next => is_last && is_active,
        Extent::Whole => is_active || is_compacted,
    };
    reader.take(kept, wanted);
}
