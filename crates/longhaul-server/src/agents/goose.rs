//! Goose: a database of all sessions, and before it one file of JSON lines a session.
//!
//! Both hold the same messages. What a compaction hid stays in its place and is marked as hidden from the model; what it put
//! there instead is marked as hidden from the user. Usage is kept for each request (newer schemas); where there are only sums
//! of a session, they are one report without a reply.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_engine::{Dialect, Tokens, prices::Usage};
use serde_json::{Value, json};

use super::database::{self, Database, Row};
use super::draft::{Drafts, Unanswered, words};
use super::find::bare_name;
use super::folder::entries;
use super::format::Format;
use super::lines;
use super::{
    Agent, Asked, Extent, Glimpse, Machine, Moment, Origin, Piece, Place, Reported, Role, Session, Turn,
    Unread,
};

/// `sessions.db`.
pub(super) const DATABASE: Format =
    Format { agent: Agent::Goose, shows: shows_database, homes, list: list_database, read: read_database };

/// `<date>_<n>.jsonl`, before the database.
pub(super) const LINES: Format =
    Format { agent: Agent::Goose, shows: shows_lines, homes, list: list_lines, read: read_lines };

const SESSION: &[&str] = &[
    "id",
    "name",
    "description",
    "session_type",
    "working_dir",
    "created_at",
    "updated_at",
    "model_config_json",
    "parent_session_id",
    "input_tokens",
    "output_tokens",
    "accumulated_input_tokens",
    "accumulated_output_tokens",
    "accumulated_cache_read_tokens",
    "accumulated_cache_write_tokens",
    "accumulated_cost",
];

const MESSAGE: &[&str] = &["id", "role", "content_json", "created_timestamp", "metadata_json"];

const LEDGER: &[&str] = &[
    "created_timestamp",
    "model",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
    "is_compaction",
];

/// Kinds of content that are for the screen.
const NOT_SENT: [&str; 6] = [
    "systemNotification",
    "actionRequired",
    "toolConfirmationRequest",
    "frontendToolRequest",
    "conversationCompacted",
    "redactedThinking",
];

/// What Goose says in place of a result that says nothing.
const EMPTY_RESULT: &str = "(empty result)";

/// What Goose says in place of a picture in a result, which follows as a message of its own.
const PICTURE_FOLLOWS: &str = "This tool result included an image that is uploaded in the next message.";

fn homes(machine: &Machine) -> Vec<PathBuf> {
    let moved = machine.named_by("GOOSE_PATH_ROOT").map(|root| root.join("data"));
    let windows = machine.named_by("APPDATA").map(|data| data.join("Block").join("goose").join("data"));
    let shared =
        machine.named_by("XDG_DATA_HOME").unwrap_or_else(|| machine.home.join(".local").join("share"));
    let here = moved.or(windows).unwrap_or_else(|| shared.join("goose"));
    vec![here.join("sessions")]
}

fn shows_database(glimpse: &Glimpse<'_>) -> bool {
    let has = |database: &Database| Ok(database.columns("messages")?.contains("content_json"));
    glimpse.is_database() && database::open(glimpse.path).and_then(|database| has(&database)).unwrap_or(false)
}

fn list_database(home: &Path) -> Vec<Place> {
    let path = home.join("sessions.db");
    if !path.is_file() {
        return Vec::new();
    }
    let listed = || sessions(&*database::open(&path)?);
    let place = |row: Row| {
        let touched = row.moment("updated_at");
        Some(Place { agent: Agent::Goose, path: path.clone(), id: Some(row.words("id")?), touched })
    };
    listed().unwrap_or_default().into_iter().filter(|row| !is_subagent(row)).filter_map(place).collect()
}

/// The newest first.
fn sessions(database: &Database) -> Result<Vec<Row>, Unread> {
    database.rows("sessions", SESSION, "ORDER BY updated_at DESC, id DESC", &[])
}

fn is_subagent(row: &Row) -> bool {
    row.words("parent_session_id").is_some()
        || matches!(row.text("session_type"), Some("sub_agent" | "hidden"))
}

fn read_database(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let database = database::open(&place.path)?;
    let rows = sessions(&database)?;
    let chosen = match &place.id {
        Some(id) => rows.iter().find(|row| row.text("id") == Some(id)),
        None => rows.iter().find(|row| !is_subagent(row)).or(rows.first()),
    };
    let row = chosen.ok_or_else(|| database.lacks(place.id.as_deref()))?;
    let id = row.words("id").unwrap_or_default();
    let of_session = "WHERE session_id = ?1 ORDER BY created_timestamp, id";
    let messages = database.rows("messages", MESSAGE, of_session, &[&id])?;
    let ledger = database.rows("usage_ledger", LEDGER, of_session, &[&id])?;

    let mut reader = Reader::new(asked);
    reader.requests = ledger.iter().map(reported).collect();
    reader.unplaced = (0..ledger.len()).filter(|at| ledger[*at].whole("is_compaction") != Some(1)).collect();
    for message in &messages {
        let kept = Kept {
            role: message.text("role").unwrap_or_default(),
            content: message.json("content_json").unwrap_or_default(),
            metadata: message.json("metadata_json").unwrap_or_default(),
            origin: Origin::Row(message.whole("id").unwrap_or_default()),
            at: message.moment("created_timestamp"),
        };
        reader.take(&kept);
    }
    if reader.requests.is_empty() {
        reader.requests.extend(sums(row));
    }
    let config = row.json("model_config_json").unwrap_or_default();
    let mut session = reader.session(id);
    session.project = row.words("working_dir");
    session.title = row.words("name").or(row.words("description"));
    session.model = session.model.or(text(&config, "model_name"));
    session.started = row.moment("created_at");
    session.updated = row.moment("updated_at").max(session.updated);
    Ok(session)
}

/// One line of the ledger. Goose counts what was cached as part of the input.
fn reported(row: &Row) -> Reported {
    let tokens = |name| row.whole(name).and_then(count);
    Reported {
        at: row.moment("created_timestamp"),
        model: row.words("model"),
        usage: Usage {
            input: tokens("input_tokens"),
            read: tokens("cache_read_tokens"),
            written: tokens("cache_write_tokens"),
            written_1h: None,
            output: tokens("output_tokens"),
        },
        reply: None,
        dollars: row.number("cost"),
    }
}

/// The sums of a session, as one report: nothing finer is kept by older schemas.
fn sums(row: &Row) -> Option<Reported> {
    let tokens = |name| row.whole(name).and_then(count);
    let input = tokens("accumulated_input_tokens").or(tokens("input_tokens"))?;
    let usage = Usage {
        input: Some(input),
        read: tokens("accumulated_cache_read_tokens"),
        written: tokens("accumulated_cache_write_tokens"),
        written_1h: None,
        output: tokens("accumulated_output_tokens").or(tokens("output_tokens")),
    };
    let dollars = row.number("accumulated_cost");
    Some(Reported { at: row.moment("updated_at"), model: None, usage, reply: None, dollars })
}

fn shows_lines(glimpse: &Glimpse<'_>) -> bool {
    let is_message = |record: &serde_json::Map<String, Value>| {
        record.contains_key("role")
            && record.contains_key("content")
            && record.get("created").is_some_and(Value::is_number)
    };
    !glimpse.is_database() && glimpse.records().iter().take(3).any(is_message)
}

fn list_lines(home: &Path) -> Vec<Place> {
    entries(home)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .map(|path| Place::of_file(Agent::Goose, &path, Some(name_of(&path))))
        .collect()
}

fn name_of(path: &Path) -> String {
    bare_name(path, &[".jsonl"]).unwrap_or_default().to_owned()
}

fn read_lines(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let mut reader = Reader::new(asked);
    let mut header = Value::Null;
    let damage = lines::each(&place.path, |line| {
        let record: Value = serde_json::from_str(line.text)?;
        match record["role"].as_str() {
            Some(role) => reader.take(&Kept {
                role,
                content: record["content"].clone(),
                metadata: record["metadata"].clone(),
                origin: Origin::Line(line.at.number),
                at: record["created"].as_f64().map(Moment::of_seconds),
            }),
            None if header.is_null() => header = record,
            None => reader.skip("line without a role"),
        }
        Ok::<_, serde_json::Error>(())
    })?;
    let number = |name: &str| header[name].as_i64().and_then(count);
    let either = |sum: &str, last: &str| number(sum).or(number(last));
    if let Some(input) = either("accumulated_input_tokens", "input_tokens") {
        let output = either("accumulated_output_tokens", "output_tokens");
        let usage = Usage { input: Some(input), output, ..Usage::default() };
        reader.requests.push(Reported { at: None, model: None, usage, reply: None, dollars: None });
    }
    let mut session = reader.session(place.id.clone().unwrap_or_else(|| name_of(&place.path)));
    session.project = text(&header, "working_dir");
    session.title = text(&header, "description");
    session.damage = damage;
    Ok(session)
}

/// A message as it is kept.
struct Kept<'k> {
    role: &'k str,
    content: Value,
    metadata: Value,
    origin: Origin,
    at: Option<Moment>,
}

/// Makes turns of messages.
struct Reader<'r> {
    asked: &'r Asked,
    dialect: Dialect,
    drafts: Drafts,
    requests: Vec<Reported>,
    /// Numbers of requests of the ledger whose replies were not met yet.
    unplaced: Vec<usize>,
    model: Option<String>,
    compactions: usize,
    /// Whether the messages before this one are a compaction's, and whether it was counted.
    inside: Option<bool>,
    first: Option<Moment>,
    last: Option<Moment>,
    unknown: BTreeMap<String, usize>,
}

impl<'r> Reader<'r> {
    fn new(asked: &'r Asked) -> Self {
        Self {
            asked,
            dialect: asked.dialect.unwrap_or(Dialect::Chat),
            drafts: Drafts::default(),
            requests: Vec::new(),
            unplaced: Vec::new(),
            model: None,
            compactions: 0,
            inside: None,
            first: None,
            last: None,
            unknown: BTreeMap::new(),
        }
    }

    fn skip(&mut self, kind: &str) {
        *self.unknown.entry(kind.to_owned()).or_default() += 1;
    }

    fn take(&mut self, kept: &Kept<'_>) {
        let visible = |to: &str| kept.metadata[to].as_bool().unwrap_or(true);
        self.first = self.first.or(kept.at);
        self.last = self.last.max(kept.at);
        self.count_compaction(kept.role, visible("userVisible"));
        let sent = match self.asked.extent {
            Extent::Next => visible("agentVisible"),
            // What a compaction put there is hidden from the user; what it hid is not.
            Extent::Whole => visible("userVisible"),
        };
        let answers = self.usage(kept);
        if let Some(model) = text(&kept.metadata["inference"], "requestedModel") {
            self.model = Some(model);
        }
        match (sent, kept.role) {
            (false, _) => {}
            (true, "assistant") => self.assistant(kept, answers),
            (true, "user") => self.user(kept),
            (true, role) => self.skip(&format!("role {role}")),
        }
    }

    /// A compaction is a run of messages that only the model sees, a reply among them: the summary, the words to go on, and
    /// the newest prompt once more.
    fn count_compaction(&mut self, role: &str, seen: bool) {
        if seen {
            self.inside = None;
            return;
        }
        let counted = self.inside.unwrap_or(false);
        if role == "assistant" && !counted {
            self.compactions += 1;
        }
        self.inside = Some(counted || role == "assistant");
    }

    /// The number of the request that a reply answers: in the ledger, where there is one, else of the message's own usage.
    fn usage(&mut self, kept: &Kept<'_>) -> Option<usize> {
        let usage = &kept.metadata["usage"];
        let tokens = |name: &str| usage[name].as_i64().and_then(count);
        let (input, output) = (tokens("inputTokens")?, tokens("outputTokens"));
        let same = |number: &usize| {
            let known = self.requests[*number].usage;
            known.input == Some(input) && known.output == output
        };
        if let Some(at) = self.unplaced.iter().position(same) {
            return Some(self.unplaced.remove(at));
        }
        let usage = Usage {
            input: Some(input),
            read: tokens("cacheReadTokens"),
            written: tokens("cacheWriteTokens"),
            written_1h: None,
            output,
        };
        let model = text(&kept.metadata["inference"], "requestedModel");
        let dollars = kept.metadata["usage"]["cost"].as_f64();
        self.requests.push(Reported { at: kept.at, model, usage, reply: None, dollars });
        Some(self.requests.len() - 1)
    }

    fn assistant(&mut self, kept: &Kept<'_>, answers: Option<usize>) {
        let mut pieces: Vec<(Piece, Origin)> = Vec::new();
        for item in kept.content.as_array().into_iter().flatten() {
            let piece = match item["type"].as_str().unwrap_or_default() {
                "text" => {
                    let said = item["text"].as_str().unwrap_or_default();
                    match pieces.last_mut() {
                        // Texts side by side are one.
                        Some((Piece::Text(before), _)) => {
                            before.push_str(said);
                            None
                        }
                        _ => words(said),
                    }
                }
                "thinking" => thinking(item),
                "toolRequest" => call(item),
                kind if NOT_SENT.contains(&kind) => None,
                kind => {
                    self.skip(&format!("content {kind}"));
                    None
                }
            };
            pieces.extend(piece.map(|piece| (piece, kept.origin.clone())));
        }
        pieces.retain_mut(|(piece, _)| match piece {
            Piece::Text(text) => {
                text.truncate(text.trim_end().len());
                !text.is_empty()
            }
            _ => true,
        });
        self.drafts.push(Turn { role: Role::Assistant, pieces, at: kept.at }, answers);
    }

    fn user(&mut self, kept: &Kept<'_>) {
        let mut said = Vec::new();
        let mut pictures = Vec::new();
        for item in kept.content.as_array().into_iter().flatten() {
            match item["type"].as_str().unwrap_or_default() {
                "text" => said.extend(words(item["text"].as_str().unwrap_or_default())),
                "image" => said.extend(image(item)),
                "toolResponse" => {
                    let (result, shown) = result(item);
                    pictures.extend(shown);
                    let pieces = result.into_iter().map(|piece| (piece, kept.origin.clone())).collect();
                    self.drafts.push(Turn { role: Role::Tool, pieces, at: kept.at }, None);
                }
                kind if NOT_SENT.contains(&kind) || kind == "thinking" => {}
                kind => self.skip(&format!("content {kind}")),
            }
        }
        let pieces = pictures.into_iter().chain(said).map(|piece| (piece, kept.origin.clone())).collect();
        self.drafts.push(Turn { role: Role::User, pieces, at: kept.at }, None);
    }

    fn session(mut self, id: String) -> Session {
        self.drafts.pair(Unanswered::Dropped);
        self.drafts.merge();
        self.drafts.begin_with_user();
        let turns = self.drafts.settle(self.dialect, &mut self.requests);
        self.requests.sort_by_key(|request| request.at);
        let newest = self.requests.iter().rev().find_map(|request| request.model.clone());
        Session {
            agent: Agent::Goose,
            id,
            project: None,
            title: None,
            model: self.asked.model.clone().or(self.model).or(newest),
            dialect: self.dialect,
            system: None,
            tools: None,
            turns,
            compactions: self.compactions,
            started: self.first,
            updated: self.last,
            requests: self.requests,
            unknown: self.unknown,
            damage: Vec::new(),
        }
    }
}

fn text(value: &Value, field: &str) -> Option<String> {
    value[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn count(number: i64) -> Option<Tokens> {
    u64::try_from(number).ok().map(Tokens)
}

fn thinking(item: &Value) -> Option<Piece> {
    let text = text(item, "thinking")?;
    let signature = item["signature"].as_str().filter(|signature| !signature.is_empty()).map(str::to_owned);
    Some(Piece::Thinking { text, signature })
}

fn image(item: &Value) -> Option<Piece> {
    Some(Piece::Image { media: text(item, "mimeType")?, data: text(item, "data")? })
}

/// A call. One that Goose could not read itself is not sent, and its result goes with it.
fn call(item: &Value) -> Option<Piece> {
    let value = &item["toolCall"]["value"];
    let valid = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name = value["name"].as_str()?.chars().map(valid).collect();
    let arguments = if value["arguments"].is_object() { value["arguments"].clone() } else { json!({}) };
    Some(Piece::Call { id: text(item, "id")?, name, arguments })
}

/// A result, and the pictures that follow it. Older versions keep the content itself as the value.
fn result(item: &Value) -> (Option<Piece>, Vec<Piece>) {
    let Some(id) = text(item, "id") else { return (None, Vec::new()) };
    let outcome = &item["toolResult"];
    if let Some(error) = outcome["error"].as_str() {
        let said = format!("The tool call returned the following error:\n{error}");
        return (Some(Piece::Result { id, content: vec![Piece::Text(said)], failed: true }), Vec::new());
    }
    let value = &outcome["value"];
    let list = value.as_array().or(value["content"].as_array());
    let mut said: Vec<&str> = Vec::new();
    let mut pictures = Vec::new();
    for part in list.into_iter().flatten() {
        match part["type"].as_str() {
            Some("image") => {
                pictures.extend(image(part));
                said.push(PICTURE_FOLLOWS);
            }
            Some("resource") => said.extend(part["resource"]["text"].as_str()),
            _ => said.extend(part["text"].as_str()),
        }
    }
    let mut said = said.join(" ");
    if said.is_empty() {
        EMPTY_RESULT.clone_into(&mut said);
    }
    let failed = value["isError"].as_bool().unwrap_or(false);
    (Some(Piece::Result { id, content: vec![Piece::Text(said)], failed }), pictures)
}
