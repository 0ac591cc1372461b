//! Reads the database: its sessions, which session continues which, and their usage totals.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use longhaul_engine::{Tokens, prices::Usage};
use serde_json::Value;

use super::super::database_copy::{self, DatabaseCopy, Row};
use super::super::{
    Agent, AgentSession, Extent, FileProbe, Origin, ReadOptions, RequestUsage, SessionLocation, SessionReadError,
    Timestamp,
};
use super::{SessionBuilder, StoredMessage};

const SESSION_COLUMNS: &[&str] = &[
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

const MESSAGE_COLUMNS: &[&str] = &[
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

/// The columns of usage totals. The table of sessions and the table of models have the same names for them.
const TOTALS_COLUMNS: &[&str] = &[
    "model",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "estimated_cost_usd",
    "actual_cost_usd",
    "last_seen",
];

/// The prefix of a text column whose content is a list of parts in JSON.
const JSON_CONTENT_PREFIX: &str = "\0json:";

pub(super) fn recognizes(probe: &FileProbe<'_>) -> bool {
    let has = |database: &DatabaseCopy| {
        let columns = database.columns("messages")?;
        Ok(["role", "tool_calls", "tool_call_id"].iter().all(|name| columns.contains(*name)))
    };
    probe.is_sqlite() && database_copy::open_copy(probe.path).and_then(|database| has(&database)).unwrap_or(false)
}

/// The sessions of a database, the most recently written first.
struct SessionTable {
    rows: Vec<Row>,
    last_message_times: BTreeMap<String, Option<Timestamp>>,
}

impl SessionTable {
    fn load(database: &DatabaseCopy) -> Result<Self, SessionReadError> {
        let newest = "WHERE id IN (SELECT max(id) FROM messages GROUP BY session_id) ORDER BY id DESC";
        let last = database.select("messages", &["session_id", "timestamp"], newest, &[])?;
        let written: Vec<&str> = last.iter().filter_map(|row| row.text("session_id")).collect();
        let mut rows = database.select("sessions", SESSION_COLUMNS, "ORDER BY started_at DESC", &[])?;
        let place = |row: &Row| written.iter().position(|id| row.text("id") == Some(id)).unwrap_or(usize::MAX);
        rows.sort_by_cached_key(place);
        let touched = last
            .iter()
            .filter_map(|row| Some((row.nonempty_text("session_id")?, row.timestamp("timestamp"))))
            .collect();
        Ok(Self { rows, last_message_times: touched })
    }

    fn find(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.text("id") == Some(id))
    }

    fn parent_of(&self, row: &Row) -> Option<&Row> {
        self.find(row.text("parent_session_id")?)
    }

    /// Returns whether the session can be resumed. A delegated session cannot: it is the child of a session
    /// that did not end in a compaction or a branch. A compacted session cannot either, because it continues
    /// in its child.
    fn is_resumable(&self, row: &Row) -> bool {
        let continues = |parent: &Row| matches!(parent.text("end_reason"), Some("compression" | "branched"));
        let has_child = || self.rows.iter().any(|child| child.text("parent_session_id") == row.text("id"));
        let replaced = row.text("end_reason") == Some("compression") && has_child();
        self.parent_of(row).is_none_or(continues) && !replaced
    }

    /// Returns the session and the sessions that it continues after compactions, oldest first.
    fn compaction_chain<'s>(&'s self, row: &'s Row) -> Vec<&'s Row> {
        let mut chain = vec![row];
        let mut seen = BTreeSet::from([row.text("id")]);
        let mut parent = self.parent_of(row);
        while let Some(row) = parent.filter(|row| row.text("end_reason") == Some("compression")) {
            if !seen.insert(row.text("id")) {
                break;
            }
            chain.push(row);
            parent = self.parent_of(row);
        }
        chain.reverse();
        chain
    }
}

pub(super) fn list(default_path: &Path) -> Vec<SessionLocation> {
    let path = default_path.join("state.db");
    let listed = || SessionTable::load(&*database_copy::open_copy(&path)?);
    let Some(sessions) = path.is_file().then(listed).and_then(Result::ok) else { return Vec::new() };
    let location_of = |row: &Row| {
        let id = row.nonempty_text("id")?;
        let touched = sessions.last_message_times.get(&id).copied().flatten().or(row.timestamp("started_at"));
        Some(SessionLocation { agent: Agent::Hermes, path: path.clone(), id: Some(id), modified: touched })
    };
    sessions.rows.iter().filter(|row| sessions.is_resumable(row)).filter_map(location_of).collect()
}

pub(super) fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let database = database_copy::open_copy(&location.path)?;
    let sessions = SessionTable::load(&database)?;
    let chosen = match &location.id {
        Some(id) => sessions.find(id),
        None => sessions.rows.iter().find(|row| sessions.is_resumable(row)).or(sessions.rows.first()),
    };
    let row = chosen.ok_or_else(|| database.missing_session(location.id.as_deref()))?;
    let chain = sessions.compaction_chain(row);
    let mut reader = SessionBuilder::new(options);
    reader.compactions = chain.len() - 1;
    for part in &chain {
        let is_last = part.text("id") == row.text("id");
        reader.requests.extend(usage_totals(&database, part)?);
        for message in
            database.select("messages", MESSAGE_COLUMNS, "WHERE session_id = ?1 ORDER BY id", &[&part.text("id")])?
        {
            add_row(&mut reader, &message, is_last);
        }
    }
    let prompt = |hash: &str| database.select("system_prompts", &["prompt"], "WHERE hash = ?1", &[&hash]);
    let by_hash = match row.text("system_prompt_hash") {
        Some(hash) => prompt(hash)?.first().and_then(|row| row.nonempty_text("prompt")),
        None => None,
    };
    let mut session = reader.finish(row.nonempty_text("id").unwrap_or_default());
    session.project = row.nonempty_text("cwd");
    session.title = row.nonempty_text("title").or(row.nonempty_text("display_name"));
    session.model = session.model.or(row.nonempty_text("model"));
    session.system_prompt = row.nonempty_text("system_prompt").or(by_hash);
    session.started = chain.first().and_then(|row| row.timestamp("started_at"));
    session.updated = session.updated.max(row.timestamp("ended_at"));
    Ok(session)
}

/// Returns the usage totals of a session, for each model if the database has that table, else for the whole
/// session.
fn usage_totals(database: &DatabaseCopy, session: &Row) -> Result<Vec<RequestUsage>, SessionReadError> {
    let id = session.text("id");
    let of_models = database.select(
        "session_model_usage",
        TOTALS_COLUMNS,
        "WHERE session_id = ?1 ORDER BY last_seen, model",
        &[&id],
    )?;
    let found: Vec<RequestUsage> = of_models.iter().filter_map(|row| parse_totals(row, "last_seen")).collect();
    Ok(if found.is_empty() { parse_totals(session, "ended_at").into_iter().collect() } else { found })
}

/// Parses the totals of a row. Hermes does not include cached tokens in the input.
fn parse_totals(row: &Row, at: &str) -> Option<RequestUsage> {
    let tokens = |name| row.integer(name).and_then(|number| u64::try_from(number).ok()).unwrap_or(0);
    let (fresh, output) = (tokens("input_tokens"), tokens("output_tokens"));
    let (read, written) = (tokens("cache_read_tokens"), tokens("cache_write_tokens"));
    let input = fresh + read + written;
    let dollars = ["actual_cost_usd", "estimated_cost_usd"].map(|name| row.float(name).filter(|cost| *cost > 0.0));
    let usage = Usage {
        input: Some(Tokens(input)),
        read: Some(Tokens(read)),
        written: Some(Tokens(written)),
        written_1h: None,
        output: Some(Tokens(output)),
    };
    let [actual, estimated] = dollars;
    let reported = RequestUsage {
        time: row.timestamp(at),
        model: row.nonempty_text("model"),
        usage,
        reply_index: None,
        dollars: actual.or(estimated),
    };
    (input + output > 0).then_some(reported)
}

/// Returns the IDs of the sessions in the database. The files of these sessions are older copies.
pub(super) fn session_ids(default_path: &Path) -> BTreeSet<String> {
    let path = default_path.join("state.db");
    let read = || database_copy::open_copy(&path)?.select("sessions", &["id"], "", &[]);
    let rows = if path.is_file() { read().unwrap_or_default() } else { Vec::new() };
    rows.iter().filter_map(|row| row.nonempty_text("id")).collect()
}

/// Adds a row. `is_last` tells whether it belongs to the session that is read, and not to an earlier one that
/// it continues.
fn add_row(reader: &mut SessionBuilder<'_>, row: &Row, is_last: bool) {
    let is_active = row.integer("active").unwrap_or(1) == 1;
    let is_compacted = row.integer("compacted").unwrap_or(0) == 1;
    let parsed = |text: &str| match text.strip_prefix(JSON_CONTENT_PREFIX) {
        Some(json) => serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned())),
        None => Value::String(text.to_owned()),
    };
    let message = StoredMessage {
        role: row.nonempty_text("role").unwrap_or_default(),
        content: row.text("api_content").or(row.text("content")).map(parsed).unwrap_or_default(),
        reasoning: row.nonempty_text("reasoning_content").or(row.nonempty_text("reasoning")),
        tool_calls: row.json("tool_calls").unwrap_or_default(),
        tool_call_id: row.nonempty_text("tool_call_id"),
        origin: Origin::Row(row.integer("id").unwrap_or_default()),
        time: row.timestamp("timestamp"),
    };
    // A row that is neither active nor compacted was undone.
    let wanted = match reader.options.extent {
        Extent::NextRequest => is_last && is_active,
        Extent::FullHistory => is_active || is_compacted,
    };
    reader.add_message(message, wanted);
}
