//! The task folders that Cline and its fork Roo Code share: messages in Messages form with a time, and a log
//! of the user interface that contains the usage of requests.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use longhaul_engine::Tokens;
use longhaul_engine::prices::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

use super::session_format::{SessionLocation, UserEnvironment};
use super::{
    Agent, MessagePart, Origin, RecordedMessage, RequestUsage, Role, SessionReadError, Timestamp, file_reader, folder,
};

/// The names of the file with a task's messages: the current one, and the oldest.
pub(super) const HISTORY_FILES: &[&str] = &["api_conversation_history.json", "claude_messages.json"];
/// The name of the file with the messages of the user interface.
pub(super) const UI_MESSAGES_FILE: &str = "ui_messages.json";

/// The names of the folders in which editors store the data of extensions.
const EDITOR_FOLDERS: &[&str] = &["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];
/// The folders in which editors store it when they run on a remote machine.
const REMOTE_EDITOR_FOLDERS: &[&str] = &[".vscode-server/data", ".vscode-server-insiders/data", ".cursor-server/data"];

/// The text of a result that is not in the file. Providers reject a call without a result.
const MISSING_RESULT_TEXT: &str = "no result was recorded";

/// Returns the folders in which an extension stores its tasks.
pub(super) fn default_paths(environment: &UserEnvironment, extension: &str) -> Vec<PathBuf> {
    let linux = environment.path_variable("XDG_CONFIG_HOME").unwrap_or_else(|| environment.home.join(".config"));
    let apple = environment.home.join("Library/Application Support");
    let bases = [Some(linux), Some(apple), environment.path_variable("APPDATA")];
    let local = bases.into_iter().flatten().flat_map(|base| EDITOR_FOLDERS.iter().map(move |editor| base.join(editor)));
    let remote = REMOTE_EDITOR_FOLDERS.iter().map(|remote| environment.home.join(remote));
    local.chain(remote).map(|data| data.join("User/globalStorage").join(extension).join("tasks")).collect()
}

/// Lists the tasks in a folder. It uses the time of the messages file, because a folder's time does not
/// change when a file in it does.
pub(super) fn list(default_path: &Path, agent: Agent) -> Vec<SessionLocation> {
    let location_of = |task: PathBuf| {
        let history = history_file(&task)?;
        let id = Some(folder::file_name(&task).to_owned());
        Some(SessionLocation { path: task, ..SessionLocation::from_path(agent, &history, id) })
    };
    folder::sorted_entries(default_path).into_iter().filter_map(location_of).collect()
}

/// Returns the folder of a task from that folder or from one of its files.
pub(super) fn task_folder(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return history_file(path).map(|_| path.to_owned());
    }
    let name = folder::file_name(path);
    let bare = name.strip_suffix(".gz").unwrap_or(name);
    let is_ours = bare == UI_MESSAGES_FILE || HISTORY_FILES.contains(&bare);
    is_ours.then(|| path.parent().map(Path::to_owned)).flatten().filter(|task| history_file(task).is_some())
}

fn history_file(task: &Path) -> Option<PathBuf> {
    HISTORY_FILES.iter().find_map(|name| find_file(task, name))
}

/// Finds a file of a task, compressed or not.
pub(super) fn find_file(task: &Path, name: &str) -> Option<PathBuf> {
    [task.join(name), task.join(format!("{name}.gz"))].into_iter().find(|path| path.is_file())
}

/// Determines the agent of a task: by the extension's folder in the path, else by fields that only Roo Code
/// writes.
pub(super) fn detect_agent(task: &Path) -> Agent {
    let path = task.to_string_lossy();
    for (extension, agent) in [(super::roo::EXTENSION_ID, Agent::Roo), (super::cline::EXTENSION_ID, Agent::Cline)] {
        if path.contains(extension) {
            return agent;
        }
    }
    let head = |name: &str| {
        find_file(task, name).and_then(|path| file_reader::read_head(&path, 1 << 16).ok()).unwrap_or_default()
    };
    let screen = String::from_utf8_lossy(&head(UI_MESSAGES_FILE)).into_owned();
    let said = String::from_utf8_lossy(&head(HISTORY_FILES[0])).into_owned();
    let is_roo = ["apiProtocol", "contextCondense"].iter().any(|word| screen.contains(word))
        || ["\"isSummary\"", "\"condenseParent\"", "\"truncationParent\""].iter().any(|word| said.contains(word));
    if is_roo { Agent::Roo } else { Agent::Cline }
}

/// Reads the messages of a task as they are in its file.
pub(super) fn read_history(task: &Path) -> Result<Vec<Value>, SessionReadError> {
    let path = history_file(task).ok_or_else(|| {
        SessionReadError::Invalid(format!("{} contains no messages of a task; check the path", task.display()))
    })?;
    read_json(&path)
}

/// Reads a JSON document.
pub(super) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, SessionReadError> {
    let bytes = file_reader::read_all(path)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| SessionReadError::Invalid(format!("{} is truncated or damaged: {error}", path.display())))
}

/// Reads the messages of the user interface. If that fails, it adds a warning and returns none.
pub(super) fn read_ui_messages(task: &Path, damage: &mut Vec<String>) -> Vec<Value> {
    match find_file(task, UI_MESSAGES_FILE).map(|path| read_json(&path)) {
        Some(Ok(messages)) => messages,
        Some(Err(unread)) => {
            damage.push(unread.to_string());
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// Returns the usage of the requests in the user interface's log, each with the first reply after it. `model`
/// is used if the log names no model.
pub(super) fn reported_requests(screen: &[Value], turns: &[RecordedMessage], model: Option<&str>) -> Vec<RequestUsage> {
    let started: Vec<(Option<Timestamp>, &Value, Value)> = screen
        .iter()
        .filter(|message| message["say"] == "api_req_started")
        .filter_map(|message| {
            Some((message_time(message), message, serde_json::from_str(message["text"].as_str()?).ok()?))
        })
        .collect();
    let mut requests = Vec::new();
    for (at, (begun, message, took)) in started.iter().enumerate() {
        let Some(usage) = parse_usage(took) else { continue };
        let next = started.get(at + 1).and_then(|(begun, ..)| *begun);
        let is_its = |turn: &RecordedMessage| {
            turn.role == Role::Assistant && turn.time >= *begun && next.is_none_or(|next| turn.time < Some(next))
        };
        let reply = begun.and_then(|_| turns.iter().position(is_its));
        let said = message["modelInfo"]["modelId"].as_str().or(model);
        requests.push(RequestUsage {
            time: reply.and_then(|reply| turns[reply].time).or(*begun),
            model: said.map(str::to_owned),
            usage,
            reply_index: reply,
            dollars: took["cost"].as_f64(),
        });
    }
    requests
}

/// Parses the usage of a request. `tokensIn` excludes cached tokens, unless the provider uses the `OpenAI`
/// protocol.
fn parse_usage(took: &Value) -> Option<Usage> {
    let count = |name: &str| took[name].as_u64().map(Tokens);
    let (read, written) = (count("cacheReads"), count("cacheWrites"));
    let input = count("tokensIn")?;
    let whole = input + read.unwrap_or_default() + written.unwrap_or_default();
    let input = if took["apiProtocol"] == "openai" { input } else { whole };
    Some(Usage { input: Some(input), read, written, written_1h: None, output: count("tokensOut") })
}

pub(super) fn message_time(message: &Value) -> Option<Timestamp> {
    message["ts"].as_i64().map(Timestamp)
}

/// Facts from the environment details that both agents add at the end of a prompt.
pub(super) struct EnvironmentDetails {
    /// The model in use.
    pub(super) model: Option<String>,
    /// The project's folder.
    pub(super) project: Option<String>,
}

impl EnvironmentDetails {
    pub(super) fn parse(history: &[Value]) -> Self {
        let mut details = Self { model: None, project: None };
        for message in history.iter().filter(|message| message["role"] == "user") {
            for text in message["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()) {
                if !text.trim_start().starts_with("<environment_details>") {
                    continue;
                }
                details.model = text_between(text, "<model>", "</model>").or(details.model);
                let named = ["# Current Workspace Directory (", "# Current Working Directory ("];
                let project = named.iter().find_map(|start| text_between(text, start, ") Files"));
                details.project = project.or(details.project);
            }
        }
        details
    }
}

fn text_between(text: &str, start: &str, end: &str) -> Option<String> {
    let (_, rest) = text.split_once(start)?;
    let (found, _) = rest.split_once(end)?;
    (!found.contains('\n')).then(|| found.to_owned())
}

/// Converts a stored message, or returns `None` if it has no content.
pub(super) fn parse_message(
    message: &Value,
    origin: &Origin,
    unknown: &mut BTreeMap<String, usize>,
) -> Option<RecordedMessage> {
    let role =
        match message["role"].as_str() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            other => {
                *unknown
                    .entry(other.map_or_else(
                        || "message without a role".to_owned(),
                        |role| format!("message with role {role}"),
                    ))
                    .or_default() += 1;
                return None;
            }
        };
    let pieces: Vec<(MessagePart, Origin)> = match &message["content"] {
        Value::String(words) => text_part(words).into_iter().collect(),
        Value::Array(blocks) => blocks.iter().filter_map(|each| parse_block(each, unknown)).collect(),
        _ => Vec::new(),
    }
    .into_iter()
    .map(|piece: MessagePart| (piece, origin.clone()))
    .collect();
    (!pieces.is_empty()).then(|| RecordedMessage { role, parts: pieces, time: message_time(message) })
}

/// Returns a text part, or `None` for a blank text, which providers reject.
fn text_part(words: &str) -> Option<MessagePart> {
    (!words.trim().is_empty()).then(|| MessagePart::Text(words.to_owned()))
}

fn parse_block(block: &Value, unknown: &mut BTreeMap<String, usize>) -> Option<MessagePart> {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str().unwrap_or_default() {
        "text" => text_part(&text("text")),
        "tool_use" => {
            Some(MessagePart::ToolCall { id: text("id"), name: text("name"), arguments: block["input"].clone() })
        }
        "tool_result" => Some(MessagePart::ToolResult {
            id: text("tool_use_id"),
            content: parse_result_content(&block["content"]),
            failed: block["is_error"] == true,
        }),
        "image" => parse_image(block),
        "thinking" => {
            let signature = block["signature"].as_str().filter(|signature| !signature.is_empty()).map(str::to_owned);
            text_part(&text("thinking")).map(|_| MessagePart::Thinking { text: text("thinking"), signature })
        }
        "redacted_thinking" | "document" => RawValue::from_string(block.to_string()).ok().map(MessagePart::Raw),
        "file" => Some(MessagePart::Text(format!(
            "<file_content path=\"{}\">\n{}\n</file_content>",
            text("path"),
            text("content")
        ))),
        // Thinking of another provider's model, for which Messages has no block.
        "reasoning" => None,
        kind => {
            *unknown.entry(format!("block {kind}")).or_default() += 1;
            None
        }
    }
}

/// Parses an image in Messages form or in the agent's own form.
fn parse_image(block: &Value) -> Option<MessagePart> {
    let source = if block["source"].is_object() { &block["source"] } else { block };
    let media = source["media_type"].as_str().or_else(|| source["mediaType"].as_str())?.to_owned();
    Some(MessagePart::Image { media, data: source["data"].as_str()?.to_owned() })
}

/// Returns the texts and images of a result. A result with other content becomes JSON text.
fn parse_result_content(content: &Value) -> Vec<MessagePart> {
    let own = |block: &Value| match block["type"].as_str() {
        Some("text") => Some(MessagePart::Text(block["text"].as_str()?.to_owned())),
        Some("image") => parse_image(block),
        _ => None,
    };
    match content {
        Value::Null => vec![MessagePart::Text(String::new())],
        Value::String(words) => vec![MessagePart::Text(words.clone())],
        Value::Array(blocks) => {
            let parts: Option<Vec<MessagePart>> = blocks.iter().map(own).collect();
            parts.unwrap_or_else(|| vec![MessagePart::Text(content.to_string())])
        }
        other => vec![MessagePart::Text(other.to_string())],
    }
}

/// Repairs the messages so that providers accept them: every result directly follows its call, and every call
/// directly precedes its result. Removes other results, and adds missing ones.
pub(super) fn pair_results(turns: Vec<RecordedMessage>) -> Vec<RecordedMessage> {
    let mut settled: Vec<RecordedMessage> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for mut turn in turns {
        let wanted: HashSet<String> = open.iter().cloned().collect();
        turn.parts.retain(|(piece, _)| match piece {
            MessagePart::ToolResult { id, .. } => turn.role == Role::User && wanted.contains(id),
            _ => true,
        });
        let there: HashSet<&String> = turn.parts.iter().filter_map(|(piece, _)| result_id(piece)).collect();
        open.retain(|id| !there.contains(id));
        let stubs: Vec<(MessagePart, Origin)> = open.drain(..).map(missing_result).collect();
        if turn.role == Role::User {
            turn.parts.splice(0..0, stubs);
        } else if !stubs.is_empty() {
            settled.push(RecordedMessage { role: Role::User, parts: stubs, time: None });
        }
        open = turn.parts.iter().filter_map(|(piece, _)| call_id(piece)).cloned().collect();
        if !turn.parts.is_empty() {
            settled.push(turn);
        }
    }
    if !open.is_empty() {
        settled.push(RecordedMessage {
            role: Role::User,
            parts: open.into_iter().map(missing_result).collect(),
            time: None,
        });
    }
    settled
}

fn missing_result(id: String) -> (MessagePart, Origin) {
    (
        MessagePart::ToolResult { id, content: vec![MessagePart::Text(MISSING_RESULT_TEXT.to_owned())], failed: true },
        Origin::Synthetic,
    )
}

fn result_id(piece: &MessagePart) -> Option<&String> {
    if let MessagePart::ToolResult { id, .. } = piece { Some(id) } else { None }
}

fn call_id(piece: &MessagePart) -> Option<&String> {
    if let MessagePart::ToolCall { id, .. } = piece { Some(id) } else { None }
}
