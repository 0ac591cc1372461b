//! Goose: a database of all sessions; older versions wrote one JSON Lines file per session.
//!
//! Both contain the same messages. Messages that a compaction replaced stay in their places, marked as
//! invisible to the model; the messages that replace them are marked as invisible to the user. Newer schemas
//! store the usage of each request. If there are only totals of a session, they become one `RequestUsage`
//! without `reply_index`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_engine::{ApiFormat, Tokens, prices::Usage};
use serde_json::{Value, json};

use super::database_copy::{self, DatabaseCopy, Row};
use super::discovery::strip_extension;
use super::file_reader;
use super::folder::sorted_entries;
use super::message_drafts::{MessageDrafts, UnansweredCalls, text_part};
use super::session_format::SessionFormat;
use super::{
    Agent, AgentSession, Extent, FileProbe, MessagePart, Origin, ReadOptions, RecordedMessage, RequestUsage, Role,
    SessionLocation, SessionReadError, Timestamp, UserEnvironment,
};

/// The format of `sessions.db`.
pub(super) const DATABASE_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::Goose,
    recognizes: recognizes_database,
    default_paths,
    list: list_database,
    read: read_database,
};

/// The format of `<date>_<n>.jsonl`, which was used before the database.
pub(super) const JSONL_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::Goose,
    recognizes: recognizes_jsonl,
    default_paths,
    list: list_jsonl,
    read: read_jsonl,
};

const SESSION_COLUMNS: &[&str] = &[
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

const MESSAGE_COLUMNS: &[&str] = &["id", "role", "content_json", "created_timestamp", "metadata_json"];

/// The columns of the table that Goose calls `usage_ledger`.
const USAGE_COLUMNS: &[&str] = &[
    "created_timestamp",
    "model",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
    "is_compaction",
];

/// The types of content that are only displayed, never sent.
const UNSENT_CONTENT_TYPES: [&str; 6] = [
    "systemNotification",
    "actionRequired",
    "toolConfirmationRequest",
    "frontendToolRequest",
    "conversationCompacted",
    "redactedThinking",
];

/// The text that Goose sends in place of an empty result.
const EMPTY_RESULT_TEXT: &str = "(empty result)";

/// The text that Goose sends in place of an image in a result. The image follows as a message of its own.
const IMAGE_FOLLOWS_TEXT: &str = "This tool result included an image that is uploaded in the next message.";

fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    let moved = environment.path_variable("GOOSE_PATH_ROOT").map(|root| root.join("data"));
    let windows = environment.path_variable("APPDATA").map(|data| data.join("Block").join("goose").join("data"));
    let shared =
        environment.path_variable("XDG_DATA_HOME").unwrap_or_else(|| environment.home.join(".local").join("share"));
    let here = moved.or(windows).unwrap_or_else(|| shared.join("goose"));
    vec![here.join("sessions")]
}

fn recognizes_database(probe: &FileProbe<'_>) -> bool {
    let has = |database: &DatabaseCopy| Ok(database.columns("messages")?.contains("content_json"));
    probe.is_sqlite() && database_copy::open_copy(probe.path).and_then(|database| has(&database)).unwrap_or(false)
}

fn list_database(default_path: &Path) -> Vec<SessionLocation> {
    let path = default_path.join("sessions.db");
    if !path.is_file() {
        return Vec::new();
    }
    let listed = || session_rows(&*database_copy::open_copy(&path)?);
    let location_of = |row: Row| {
        let touched = row.timestamp("updated_at");
        Some(SessionLocation {
            agent: Agent::Goose,
            path: path.clone(),
            id: Some(row.nonempty_text("id")?),
            modified: touched,
        })
    };
    listed().unwrap_or_default().into_iter().filter(|row| !is_subagent(row)).filter_map(location_of).collect()
}

/// Selects all sessions, newest first.
fn session_rows(database: &DatabaseCopy) -> Result<Vec<Row>, SessionReadError> {
    database.select("sessions", SESSION_COLUMNS, "ORDER BY updated_at DESC, id DESC", &[])
}

fn is_subagent(row: &Row) -> bool {
    row.nonempty_text("parent_session_id").is_some() || matches!(row.text("session_type"), Some("sub_agent" | "hidden"))
}

fn read_database(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let database = database_copy::open_copy(&location.path)?;
    let rows = session_rows(&database)?;
    let chosen = match &location.id {
        Some(id) => rows.iter().find(|row| row.text("id") == Some(id)),
        None => rows.iter().find(|row| !is_subagent(row)).or(rows.first()),
    };
    let row = chosen.ok_or_else(|| database.missing_session(location.id.as_deref()))?;
    let id = row.nonempty_text("id").unwrap_or_default();
    let of_session = "WHERE session_id = ?1 ORDER BY created_timestamp, id";
    let messages = database.select("messages", MESSAGE_COLUMNS, of_session, &[&id])?;
    let ledger = database.select("usage_ledger", USAGE_COLUMNS, of_session, &[&id])?;

    let mut reader = SessionBuilder::new(options);
    reader.requests = ledger.iter().map(parse_ledger_row).collect();
    reader.unmatched_requests =
        (0..ledger.len()).filter(|at| ledger[*at].integer("is_compaction") != Some(1)).collect();
    for message in &messages {
        let stored = StoredMessage {
            role: message.text("role").unwrap_or_default(),
            content: message.json("content_json").unwrap_or_default(),
            metadata: message.json("metadata_json").unwrap_or_default(),
            origin: Origin::Row(message.integer("id").unwrap_or_default()),
            time: message.timestamp("created_timestamp"),
        };
        reader.add_message(&stored);
    }
    if reader.requests.is_empty() {
        reader.requests.extend(session_totals(row));
    }
    let config = row.json("model_config_json").unwrap_or_default();
    let mut session = reader.finish(id);
    session.project = row.nonempty_text("working_dir");
    session.title = row.nonempty_text("name").or(row.nonempty_text("description"));
    session.model = session.model.or(text_field(&config, "model_name"));
    session.started = row.timestamp("created_at");
    session.updated = row.timestamp("updated_at").max(session.updated);
    Ok(session)
}

/// Parses one row of the usage ledger. Goose includes cached tokens in the input.
fn parse_ledger_row(row: &Row) -> RequestUsage {
    let tokens = |name| row.integer(name).and_then(to_tokens);
    RequestUsage {
        time: row.timestamp("created_timestamp"),
        model: row.nonempty_text("model"),
        usage: Usage {
            input: tokens("input_tokens"),
            read: tokens("cache_read_tokens"),
            written: tokens("cache_write_tokens"),
            written_1h: None,
            output: tokens("output_tokens"),
        },
        reply_index: None,
        dollars: row.float("cost"),
    }
}

/// Returns the totals of a session as one report, since older schemas store nothing finer.
fn session_totals(row: &Row) -> Option<RequestUsage> {
    let tokens = |name| row.integer(name).and_then(to_tokens);
    let input = tokens("accumulated_input_tokens").or(tokens("input_tokens"))?;
    let usage = Usage {
        input: Some(input),
        read: tokens("accumulated_cache_read_tokens"),
        written: tokens("accumulated_cache_write_tokens"),
        written_1h: None,
        output: tokens("accumulated_output_tokens").or(tokens("output_tokens")),
    };
    let dollars = row.float("accumulated_cost");
    Some(RequestUsage { time: row.timestamp("updated_at"), model: None, usage, reply_index: None, dollars })
}

fn recognizes_jsonl(probe: &FileProbe<'_>) -> bool {
    let is_message = |record: &serde_json::Map<String, Value>| {
        record.contains_key("role")
            && record.contains_key("content")
            && record.get("created").is_some_and(Value::is_number)
    };
    !probe.is_sqlite() && probe.leading_records().iter().take(3).any(is_message)
}

fn list_jsonl(default_path: &Path) -> Vec<SessionLocation> {
    sorted_entries(default_path)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .map(|path| SessionLocation::from_path(Agent::Goose, &path, Some(session_id(&path))))
        .collect()
}

fn session_id(path: &Path) -> String {
    strip_extension(path, &[".jsonl"]).unwrap_or_default().to_owned()
}

fn read_jsonl(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let mut reader = SessionBuilder::new(options);
    let mut header = Value::Null;
    let damage = file_reader::for_each_line(&location.path, |line| {
        let record: Value = serde_json::from_str(line.text)?;
        match record["role"].as_str() {
            Some(role) => reader.add_message(&StoredMessage {
                role,
                content: record["content"].clone(),
                metadata: record["metadata"].clone(),
                origin: Origin::Line(line.position.number),
                time: record["created"].as_f64().map(Timestamp::from_seconds),
            }),
            None if header.is_null() => header = record,
            None => reader.count_unknown("line without a role"),
        }
        Ok::<_, serde_json::Error>(())
    })?;
    let number = |name: &str| header[name].as_i64().and_then(to_tokens);
    let either = |sum: &str, last: &str| number(sum).or(number(last));
    if let Some(input) = either("accumulated_input_tokens", "input_tokens") {
        let output = either("accumulated_output_tokens", "output_tokens");
        let usage = Usage { input: Some(input), output, ..Usage::default() };
        reader.requests.push(RequestUsage { time: None, model: None, usage, reply_index: None, dollars: None });
    }
    let mut session = reader.finish(location.id.clone().unwrap_or_else(|| session_id(&location.path)));
    session.project = text_field(&header, "working_dir");
    session.title = text_field(&header, "description");
    session.warnings = damage;
    Ok(session)
}

/// A message as Goose stores it.
struct StoredMessage<'k> {
    role: &'k str,
    content: Value,
    metadata: Value,
    origin: Origin,
    time: Option<Timestamp>,
}

/// Builds a session from stored messages.
struct SessionBuilder<'r> {
    options: &'r ReadOptions,
    api_format: ApiFormat,
    drafts: MessageDrafts,
    requests: Vec<RequestUsage>,
    /// The indices of the ledger's requests whose replies have not been found yet.
    unmatched_requests: Vec<usize>,
    model: Option<String>,
    compactions: usize,
    /// `Some` while reading the messages that a compaction added; the value tells whether that compaction has
    /// been counted.
    in_compaction: Option<bool>,
    first_time: Option<Timestamp>,
    last_time: Option<Timestamp>,
    unknown_records: BTreeMap<String, usize>,
}

impl<'r> SessionBuilder<'r> {
    fn new(options: &'r ReadOptions) -> Self {
        Self {
            options,
            api_format: options.api_format.unwrap_or(ApiFormat::Chat),
            drafts: MessageDrafts::default(),
            requests: Vec::new(),
            unmatched_requests: Vec::new(),
            model: None,
            compactions: 0,
            in_compaction: None,
            first_time: None,
            last_time: None,
            unknown_records: BTreeMap::new(),
        }
    }

    fn count_unknown(&mut self, kind: &str) {
        *self.unknown_records.entry(kind.to_owned()).or_default() += 1;
    }

    fn add_message(&mut self, stored: &StoredMessage<'_>) {
        let visible = |to: &str| stored.metadata[to].as_bool().unwrap_or(true);
        self.first_time = self.first_time.or(stored.time);
        self.last_time = self.last_time.max(stored.time);
        self.count_compaction(stored.role, visible("userVisible"));
        let sent = match self.options.extent {
            Extent::NextRequest => visible("agentVisible"),
            // Messages that a compaction added are invisible to the user; those that it replaced are visible.
            Extent::FullHistory => visible("userVisible"),
        };
        let answers = self.match_request(stored);
        if let Some(model) = text_field(&stored.metadata["inference"], "requestedModel") {
            self.model = Some(model);
        }
        match (sent, stored.role) {
            (false, _) => {}
            (true, "assistant") => self.add_assistant_message(stored, answers),
            (true, "user") => self.add_user_message(stored),
            (true, role) => self.count_unknown(&format!("role {role}")),
        }
    }

    /// Counts compactions. A compaction is a run of messages that only the model sees, with an assistant
    /// message among them: the summary, the instruction to continue, and a copy of the newest prompt.
    fn count_compaction(&mut self, role: &str, seen: bool) {
        if seen {
            self.in_compaction = None;
            return;
        }
        let counted = self.in_compaction.unwrap_or(false);
        if role == "assistant" && !counted {
            self.compactions += 1;
        }
        self.in_compaction = Some(counted || role == "assistant");
    }

    /// Returns the index of the request that a reply answers: a request of the ledger with the same usage,
    /// else a new one from the message's own usage.
    fn match_request(&mut self, stored: &StoredMessage<'_>) -> Option<usize> {
        let usage = &stored.metadata["usage"];
        let tokens = |name: &str| usage[name].as_i64().and_then(to_tokens);
        let (input, output) = (tokens("inputTokens")?, tokens("outputTokens"));
        let same = |number: &usize| {
            let reported = self.requests[*number].usage;
            reported.input == Some(input) && reported.output == output
        };
        if let Some(at) = self.unmatched_requests.iter().position(same) {
            return Some(self.unmatched_requests.remove(at));
        }
        let usage = Usage {
            input: Some(input),
            read: tokens("cacheReadTokens"),
            written: tokens("cacheWriteTokens"),
            written_1h: None,
            output,
        };
        let model = text_field(&stored.metadata["inference"], "requestedModel");
        let dollars = stored.metadata["usage"]["cost"].as_f64();
        self.requests.push(RequestUsage { time: stored.time, model, usage, reply_index: None, dollars });
        Some(self.requests.len() - 1)
    }

    fn add_assistant_message(&mut self, stored: &StoredMessage<'_>, answers: Option<usize>) {
        let mut pieces: Vec<(MessagePart, Origin)> = Vec::new();
        for item in stored.content.as_array().into_iter().flatten() {
            let piece = match item["type"].as_str().unwrap_or_default() {
                "text" => {
                    let said = item["text"].as_str().unwrap_or_default();
                    match pieces.last_mut() {
                        // Neighboring texts are merged.
                        Some((MessagePart::Text(before), _)) => {
                            before.push_str(said);
                            None
                        }
                        _ => text_part(said),
                    }
                }
                "thinking" => parse_thinking(item),
                "toolRequest" => parse_call(item),
                kind if UNSENT_CONTENT_TYPES.contains(&kind) => None,
                kind => {
                    self.count_unknown(&format!("content {kind}"));
                    None
                }
            };
            pieces.extend(piece.map(|piece| (piece, stored.origin.clone())));
        }
        pieces.retain_mut(|(piece, _)| match piece {
            MessagePart::Text(text) => {
                text.truncate(text.trim_end().len());
                !text.is_empty()
            }
            _ => true,
        });
        self.drafts.push(RecordedMessage { role: Role::Assistant, parts: pieces, time: stored.time }, answers);
    }

    fn add_user_message(&mut self, stored: &StoredMessage<'_>) {
        let mut said = Vec::new();
        let mut pictures = Vec::new();
        for item in stored.content.as_array().into_iter().flatten() {
            match item["type"].as_str().unwrap_or_default() {
                "text" => said.extend(text_part(item["text"].as_str().unwrap_or_default())),
                "image" => said.extend(parse_image(item)),
                "toolResponse" => {
                    let (result, shown) = parse_result(item);
                    pictures.extend(shown);
                    let pieces = result.into_iter().map(|piece| (piece, stored.origin.clone())).collect();
                    self.drafts.push(RecordedMessage { role: Role::Tool, parts: pieces, time: stored.time }, None);
                }
                kind if UNSENT_CONTENT_TYPES.contains(&kind) || kind == "thinking" => {}
                kind => self.count_unknown(&format!("content {kind}")),
            }
        }
        let pieces = pictures.into_iter().chain(said).map(|piece| (piece, stored.origin.clone())).collect();
        self.drafts.push(RecordedMessage { role: Role::User, parts: pieces, time: stored.time }, None);
    }

    fn finish(mut self, id: String) -> AgentSession {
        self.drafts.pair_results(UnansweredCalls::Drop);
        self.drafts.merge_same_role();
        self.drafts.drop_leading_replies();
        let turns = self.drafts.finish(self.api_format, &mut self.requests);
        self.requests.sort_by_key(|request| request.time);
        let newest = self.requests.iter().rev().find_map(|request| request.model.clone());
        AgentSession {
            agent: Agent::Goose,
            id,
            project: None,
            title: None,
            model: self.options.model.clone().or(self.model).or(newest),
            api_format: self.api_format,
            system_prompt: None,
            tools: None,
            messages: turns,
            compactions: self.compactions,
            started: self.first_time,
            updated: self.last_time,
            requests: self.requests,
            unknown_records: self.unknown_records,
            warnings: Vec::new(),
        }
    }
}

fn text_field(value: &Value, field: &str) -> Option<String> {
    value[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn to_tokens(number: i64) -> Option<Tokens> {
    u64::try_from(number).ok().map(Tokens)
}

fn parse_thinking(item: &Value) -> Option<MessagePart> {
    let text = text_field(item, "thinking")?;
    let signature = item["signature"].as_str().filter(|signature| !signature.is_empty()).map(str::to_owned);
    Some(MessagePart::Thinking { text, signature })
}

fn parse_image(item: &Value) -> Option<MessagePart> {
    Some(MessagePart::Image { media: text_field(item, "mimeType")?, data: text_field(item, "data")? })
}

/// Parses a tool call. A call that Goose itself could not parse is not sent, and its result is removed later.
fn parse_call(item: &Value) -> Option<MessagePart> {
    let value = &item["toolCall"]["value"];
    let valid = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let name = value["name"].as_str()?.chars().map(valid).collect();
    let arguments = if value["arguments"].is_object() { value["arguments"].clone() } else { json!({}) };
    Some(MessagePart::ToolCall { id: text_field(item, "id")?, name, arguments })
}

/// Parses a result, and returns the images that follow it separately. Older versions store the content list
/// itself as the value.
fn parse_result(item: &Value) -> (Option<MessagePart>, Vec<MessagePart>) {
    let Some(id) = text_field(item, "id") else { return (None, Vec::new()) };
    let outcome = &item["toolResult"];
    if let Some(error) = outcome["error"].as_str() {
        let text = format!("The tool call returned the following error:\n{error}");
        return (
            Some(MessagePart::ToolResult { id, content: vec![MessagePart::Text(text)], failed: true }),
            Vec::new(),
        );
    }
    let value = &outcome["value"];
    let list = value.as_array().or(value["content"].as_array());
    let mut said: Vec<&str> = Vec::new();
    let mut pictures = Vec::new();
    for part in list.into_iter().flatten() {
        match part["type"].as_str() {
            Some("image") => {
                pictures.extend(parse_image(part));
                said.push(IMAGE_FOLLOWS_TEXT);
            }
            Some("resource") => said.extend(part["resource"]["text"].as_str()),
            _ => said.extend(part["text"].as_str()),
        }
    }
    let mut said = said.join(" ");
    if said.is_empty() {
        EMPTY_RESULT_TEXT.clone_into(&mut said);
    }
    let failed = value["isError"].as_bool().unwrap_or(false);
    (Some(MessagePart::ToolResult { id, content: vec![MessagePart::Text(said)], failed }), pictures)
}
