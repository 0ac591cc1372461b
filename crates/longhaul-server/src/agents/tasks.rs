//! What Cline and its fork share: a folder a task, turns in Messages form with a time, and a screen that says what requests took.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use longhaul_engine::Tokens;
use longhaul_engine::prices::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

use super::format::{Machine, Place};
use super::{Agent, Moment, Origin, Piece, Reported, Role, Turn, Unread, folder, lines};

/// The turns of a task: by its name now, and by its oldest.
pub(super) const HISTORIES: &[&str] = &["api_conversation_history.json", "claude_messages.json"];
/// What stood on the screen.
pub(super) const SCREEN: &str = "ui_messages.json";

/// Editors that keep what extensions write in a folder of their name.
const EDITORS: &[&str] = &["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];
/// Where editors keep it when they run on another machine's behalf.
const REMOTES: &[&str] = &[".vscode-server/data", ".vscode-server-insiders/data", ".cursor-server/data"];

/// In place of a result that never came: a provider takes no call without one.
const NO_RESULT: &str = "no result was recorded";

/// Where an extension keeps its tasks.
pub(super) fn homes(machine: &Machine, extension: &str) -> Vec<PathBuf> {
    let linux = machine.named_by("XDG_CONFIG_HOME").unwrap_or_else(|| machine.home.join(".config"));
    let apple = machine.home.join("Library/Application Support");
    let bases = [Some(linux), Some(apple), machine.named_by("APPDATA")];
    let local =
        bases.into_iter().flatten().flat_map(|base| EDITORS.iter().map(move |editor| base.join(editor)));
    let remote = REMOTES.iter().map(|remote| machine.home.join(remote));
    local.chain(remote).map(|data| data.join("User/globalStorage").join(extension).join("tasks")).collect()
}

/// The tasks in such a place. A folder's own time does not change when a file in it does.
pub(super) fn list(home: &Path, agent: Agent) -> Vec<Place> {
    let place = |task: PathBuf| {
        let history = history(&task)?;
        let id = Some(folder::name(&task).to_owned());
        Some(Place { path: task, ..Place::of_file(agent, &history, id) })
    };
    folder::entries(home).into_iter().filter_map(place).collect()
}

/// The folder of a task, where it or one of its files is named.
pub(super) fn task_of(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        return history(path).map(|_| path.to_owned());
    }
    let name = folder::name(path);
    let bare = name.strip_suffix(".gz").unwrap_or(name);
    let is_ours = bare == SCREEN || HISTORIES.contains(&bare);
    is_ours.then(|| path.parent().map(Path::to_owned)).flatten().filter(|task| history(task).is_some())
}

fn history(task: &Path) -> Option<PathBuf> {
    HISTORIES.iter().find_map(|name| file(task, name))
}

/// A file of a task, packed or not.
pub(super) fn file(task: &Path, name: &str) -> Option<PathBuf> {
    [task.join(name), task.join(format!("{name}.gz"))].into_iter().find(|path| path.is_file())
}

/// Whose task it is: by the extension's folder that it lies in, or by what only one of them writes.
pub(super) fn owner(task: &Path) -> Agent {
    let path = task.to_string_lossy();
    for (extension, agent) in [(super::roo::EXTENSION, Agent::Roo), (super::cline::EXTENSION, Agent::Cline)] {
        if path.contains(extension) {
            return agent;
        }
    }
    let head =
        |name: &str| file(task, name).and_then(|path| lines::head(&path, 1 << 16).ok()).unwrap_or_default();
    let screen = String::from_utf8_lossy(&head(SCREEN)).into_owned();
    let said = String::from_utf8_lossy(&head(HISTORIES[0])).into_owned();
    let is_roo = ["apiProtocol", "contextCondense"].iter().any(|word| screen.contains(word))
        || ["\"isSummary\"", "\"condenseParent\"", "\"truncationParent\""]
            .iter()
            .any(|word| said.contains(word));
    if is_roo { Agent::Roo } else { Agent::Cline }
}

/// The turns of a task as they stand in its file.
pub(super) fn said(task: &Path) -> Result<Vec<Value>, Unread> {
    let path = history(task).ok_or_else(|| {
        Unread::Wrong(format!("{} holds no turns of a task; check the path", task.display()))
    })?;
    document(&path)
}

/// A list, or whatever else a document is.
pub(super) fn document<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Unread> {
    let bytes = lines::whole(path)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Unread::Wrong(format!("{} is cut short or damaged: {error}", path.display())))
}

/// What stood on the screen; it is no reason to give up if that cannot be read.
pub(super) fn screen(task: &Path, damage: &mut Vec<String>) -> Vec<Value> {
    match file(task, SCREEN).map(|path| document(&path)) {
        Some(Ok(messages)) => messages,
        Some(Err(unread)) => {
            damage.push(unread.to_string());
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// The screen's requests with what they took, each with the first reply after it. `model` answers where the screen does not say.
pub(super) fn requests(screen: &[Value], turns: &[Turn], model: Option<&str>) -> Vec<Reported> {
    let started: Vec<(Option<Moment>, &Value, Value)> = screen
        .iter()
        .filter(|message| message["say"] == "api_req_started")
        .filter_map(|message| {
            Some((moment(message), message, serde_json::from_str(message["text"].as_str()?).ok()?))
        })
        .collect();
    let mut requests = Vec::new();
    for (at, (begun, message, took)) in started.iter().enumerate() {
        let Some(usage) = usage(took) else { continue };
        let next = started.get(at + 1).and_then(|(begun, ..)| *begun);
        let is_its = |turn: &Turn| {
            turn.role == Role::Assistant && turn.at >= *begun && next.is_none_or(|next| turn.at < Some(next))
        };
        let reply = begun.and_then(|_| turns.iter().position(is_its));
        let said = message["modelInfo"]["modelId"].as_str().or(model);
        requests.push(Reported {
            at: reply.and_then(|reply| turns[reply].at).or(*begun),
            model: said.map(str::to_owned),
            usage,
            reply,
            dollars: took["cost"].as_f64(),
        });
    }
    requests
}

/// `tokensIn` is without the cache, unless the provider speaks as `OpenAI` does.
fn usage(took: &Value) -> Option<Usage> {
    let count = |name: &str| took[name].as_u64().map(Tokens);
    let (read, written) = (count("cacheReads"), count("cacheWrites"));
    let input = count("tokensIn")?;
    let whole = input + read.unwrap_or_default() + written.unwrap_or_default();
    let input = if took["apiProtocol"] == "openai" { input } else { whole };
    Some(Usage { input: Some(input), read, written, written_1h: None, output: count("tokensOut") })
}

pub(super) fn moment(message: &Value) -> Option<Moment> {
    message["ts"].as_i64().map(Moment)
}

/// What both put at the end of a prompt: details of the environment, as words.
pub(super) struct Details {
    /// The model that is asked.
    pub(super) model: Option<String>,
    /// The folder of the project.
    pub(super) project: Option<String>,
}

impl Details {
    pub(super) fn of(said: &[Value]) -> Self {
        let mut details = Self { model: None, project: None };
        for message in said.iter().filter(|message| message["role"] == "user") {
            for text in
                message["content"].as_array().into_iter().flatten().filter_map(|block| block["text"].as_str())
            {
                if !text.trim_start().starts_with("<environment_details>") {
                    continue;
                }
                details.model = between(text, "<model>", "</model>").or(details.model);
                let named = ["# Current Workspace Directory (", "# Current Working Directory ("];
                let project = named.iter().find_map(|start| between(text, start, ") Files"));
                details.project = project.or(details.project);
            }
        }
        details
    }
}

fn between(text: &str, start: &str, end: &str) -> Option<String> {
    let (_, rest) = text.split_once(start)?;
    let (found, _) = rest.split_once(end)?;
    (!found.contains('\n')).then(|| found.to_owned())
}

/// A message of the file as a turn; nothing, where it says nothing.
pub(super) fn turn(message: &Value, origin: &Origin, unknown: &mut BTreeMap<String, usize>) -> Option<Turn> {
    let role = match message["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        other => {
            *unknown.entry(format!("message of {}", other.unwrap_or("nobody"))).or_default() += 1;
            return None;
        }
    };
    let pieces: Vec<(Piece, Origin)> = match &message["content"] {
        Value::String(words) => words_piece(words).into_iter().collect(),
        Value::Array(blocks) => blocks.iter().filter_map(|each| block(each, unknown)).collect(),
        _ => Vec::new(),
    }
    .into_iter()
    .map(|piece: Piece| (piece, origin.clone()))
    .collect();
    (!pieces.is_empty()).then(|| Turn { role, pieces, at: moment(message) })
}

/// A provider takes no blank words.
fn words_piece(words: &str) -> Option<Piece> {
    (!words.trim().is_empty()).then(|| Piece::Text(words.to_owned()))
}

fn block(block: &Value, unknown: &mut BTreeMap<String, usize>) -> Option<Piece> {
    let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str().unwrap_or_default() {
        "text" => words_piece(&text("text")),
        "tool_use" => {
            Some(Piece::Call { id: text("id"), name: text("name"), arguments: block["input"].clone() })
        }
        "tool_result" => Some(Piece::Result {
            id: text("tool_use_id"),
            content: outcome(&block["content"]),
            failed: block["is_error"] == true,
        }),
        "image" => image(block),
        "thinking" => {
            let signature =
                block["signature"].as_str().filter(|signature| !signature.is_empty()).map(str::to_owned);
            words_piece(&text("thinking")).map(|_| Piece::Thinking { text: text("thinking"), signature })
        }
        "redacted_thinking" | "document" => RawValue::from_string(block.to_string()).ok().map(Piece::Wire),
        "file" => Some(Piece::Text(format!(
            "<file_content path=\"{}\">\n{}\n</file_content>",
            text("path"),
            text("content")
        ))),
        // What another provider's model thought; in this dialect there is no place for it.
        "reasoning" => None,
        kind => {
            *unknown.entry(format!("block of {kind}")).or_default() += 1;
            None
        }
    }
}

/// In the form of the dialect, or in the agent's own.
fn image(block: &Value) -> Option<Piece> {
    let source = if block["source"].is_object() { &block["source"] } else { block };
    let media = source["media_type"].as_str().or_else(|| source["mediaType"].as_str())?.to_owned();
    Some(Piece::Image { media, data: source["data"].as_str()?.to_owned() })
}

/// Words and pictures of a result. Whatever else it is goes out as JSON.
fn outcome(content: &Value) -> Vec<Piece> {
    let own = |block: &Value| match block["type"].as_str() {
        Some("text") => Some(Piece::Text(block["text"].as_str()?.to_owned())),
        Some("image") => image(block),
        _ => None,
    };
    match content {
        Value::Null => vec![Piece::Text(String::new())],
        Value::String(words) => vec![Piece::Text(words.clone())],
        Value::Array(blocks) => {
            let known: Option<Vec<Piece>> = blocks.iter().map(own).collect();
            known.unwrap_or_else(|| vec![Piece::Text(content.to_string())])
        }
        other => vec![Piece::Text(other.to_string())],
    }
}

/// Turns as a provider takes them: no result without its call right before it, and no call without a result right after it.
pub(super) fn settled(turns: Vec<Turn>) -> Vec<Turn> {
    let mut settled: Vec<Turn> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for mut turn in turns {
        let wanted: HashSet<String> = open.iter().cloned().collect();
        turn.pieces.retain(|(piece, _)| match piece {
            Piece::Result { id, .. } => turn.role == Role::User && wanted.contains(id),
            _ => true,
        });
        let there: HashSet<&String> = turn.pieces.iter().filter_map(|(piece, _)| result_id(piece)).collect();
        open.retain(|id| !there.contains(id));
        let stubs: Vec<(Piece, Origin)> = open.drain(..).map(stub).collect();
        if turn.role == Role::User {
            turn.pieces.splice(0..0, stubs);
        } else if !stubs.is_empty() {
            settled.push(Turn { role: Role::User, pieces: stubs, at: None });
        }
        open = turn.pieces.iter().filter_map(|(piece, _)| call_id(piece)).cloned().collect();
        if !turn.pieces.is_empty() {
            settled.push(turn);
        }
    }
    if !open.is_empty() {
        settled.push(Turn { role: Role::User, pieces: open.into_iter().map(stub).collect(), at: None });
    }
    settled
}

fn stub(id: String) -> (Piece, Origin) {
    (Piece::Result { id, content: vec![Piece::Text(NO_RESULT.to_owned())], failed: true }, Origin::Client)
}

fn result_id(piece: &Piece) -> Option<&String> {
    if let Piece::Result { id, .. } = piece { Some(id) } else { None }
}

fn call_id(piece: &Piece) -> Option<&String> {
    if let Piece::Call { id, .. } = piece { Some(id) } else { None }
}
