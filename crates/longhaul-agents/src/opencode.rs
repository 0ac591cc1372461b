//! opencode: a database of all sessions, before it a tree of JSON files, and the output of `opencode export`.
//!
//! ```text
//! saved_session.rs   reads the three formats into one type: a session, its messages, their parts
//! messages.rs        chooses the messages that are sent, and converts their parts
//! usage.rs           the usage that providers reported for each step of a reply
//! ```

mod messages;
mod saved_session;
mod usage;

use std::path::{Path, PathBuf};

use longhaul_engine::ApiFormat;
use serde_json::Value;

use super::database_copy::{self, DatabaseCopy};
use super::message_drafts::MessageDrafts;
use super::session_format::SessionFormat;
use super::{
    Agent, AgentSession, FileProbe, ReadOptions, SessionLocation, SessionReadError, Timestamp, UserEnvironment,
};
use messages::MessageBuilder;
use saved_session::{SavedMessage, SavedSession};

/// The format of `opencode.db`.
pub(super) const DATABASE_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::Opencode,
    recognizes: recognizes_database,
    default_paths,
    list: saved_session::list_databases,
    read: read_database,
};

/// The format of `storage/{session,message,part}/…json`, which was used before the database.
pub(super) const TREE_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::Opencode,
    recognizes: recognizes_tree,
    default_paths,
    list: saved_session::list_tree,
    read: read_tree,
};

/// The format of the output of `opencode export`.
pub(super) const EXPORT_FORMAT: SessionFormat = SessionFormat {
    agent: Agent::Opencode,
    recognizes: recognizes_export,
    default_paths: |_| Vec::new(),
    list: |_| Vec::new(),
    read: read_export,
};

/// Returns opencode's data folder, which is the same on every system, and the database that `OPENCODE_DB`
/// names.
fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    let shared =
        environment.path_variable("XDG_DATA_HOME").unwrap_or_else(|| environment.home.join(".local").join("share"));
    let folder = shared.join("opencode");
    let renamed = environment.path_variable("OPENCODE_DB").map(|name| folder.join(name));
    std::iter::once(folder).chain(renamed).collect()
}

/// Returns whether the file is a database of opencode. Also claims a database that cannot be opened:
/// opencode's is the first database format in the table, and reading it then reports the error.
fn recognizes_database(probe: &FileProbe<'_>) -> bool {
    let has = |database: &DatabaseCopy| {
        let tables =
            ["session", "message", "part"].map(|table| database.columns(table).map(|columns| !columns.is_empty()));
        tables.into_iter().try_fold(true, |all, there| Ok(all && there?))
    };
    probe.is_sqlite() && database_copy::open_copy(probe.path).and_then(|database| has(&database)).unwrap_or(true)
}

fn recognizes_tree(probe: &FileProbe<'_>) -> bool {
    saved_session::tree_root(probe.path).is_some()
}

fn recognizes_export(probe: &FileProbe<'_>) -> bool {
    let first = probe.first_record();
    let is_session = |info: &Value| info["id"].is_string() && info["time"].is_object();
    first.contains_key("messages") && first.get("info").is_some_and(is_session)
}

fn read_database(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    Ok(build_session(SavedSession::from_database(&location.path, location.id.as_deref())?, options))
}

fn read_tree(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    Ok(build_session(SavedSession::from_tree(&location.path, location.id.as_deref())?, options))
}

fn read_export(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    Ok(build_session(SavedSession::from_export(&location.path)?, options))
}

fn build_session(stored: SavedSession, options: &ReadOptions) -> AgentSession {
    let SavedSession { info, messages, unknown_records: unknown, warnings: damage } = stored;
    let target = TargetModel::choose(&messages, options);
    let moment = |value: &Value| value.as_i64().map(Timestamp);
    let newest = messages.iter().filter_map(|message| moment(&message.info["time"]["created"])).max();
    let folder = messages.iter().find_map(|message| nonempty_text(&message.info["path"]["cwd"]));
    let compactions = messages::finished_compactions(&messages).len();
    let (mut requests, steps) = usage::reported_requests(&messages);
    let mut maker = MessageBuilder {
        target: &target,
        extent: options.extent,
        step_requests: steps,
        unknown_records: unknown,
        drafts: MessageDrafts::default(),
    };
    for message in messages::sent_messages(messages, &info["revert"], options.extent) {
        maker.add_message(&message);
    }
    let MessageBuilder { unknown_records: unknown, drafts, .. } = maker;
    AgentSession {
        agent: Agent::Opencode,
        id: nonempty_text(&info["id"]).unwrap_or_default(),
        project: nonempty_text(&info["directory"]).or(folder),
        title: nonempty_text(&info["title"]),
        messages: drafts.finish(target.api_format, &mut requests),
        model: target.model,
        api_format: target.api_format,
        system_prompt: None,
        tools: None,
        compactions,
        started: moment(&info["time"]["created"]),
        updated: moment(&info["time"]["updated"]).max(newest),
        requests,
        unknown_records: unknown,
        warnings: damage,
    }
}

/// The model that the next request is for.
struct TargetModel {
    provider: Option<String>,
    model: Option<String>,
    api_format: ApiFormat,
}

impl TargetModel {
    /// Chooses the requested model (`model` or `provider/model`), else the model of the newest reply or
    /// prompt that names one.
    fn choose(messages: &[SavedMessage], options: &ReadOptions) -> Self {
        let (provider, model) = messages.iter().rev().find_map(|message| provider_and_model(&message.info)).unzip();
        let named = options.model.as_deref().and_then(|model| model.split_once('/'));
        let speaker = named.map(|(provider, _)| provider).or(provider.as_deref()).unwrap_or_default();
        let api_format =
            if uses_messages_api(speaker, model.as_deref()) { ApiFormat::Messages } else { ApiFormat::Chat };
        let api_format = options.api_format.unwrap_or(api_format);
        match &options.model {
            Some(model) => Self { provider: None, model: Some(model.clone()), api_format },
            None => Self { provider, model, api_format },
        }
    }

    /// Returns whether this model wrote the reply. Thinking of another model is sent as text.
    fn is_author_of(&self, info: &Value) -> bool {
        let Some((provider, model)) = provider_and_model(info) else { return false };
        let Some(wanted) = &self.model else { return false };
        match &self.provider {
            Some(own) => *own == provider && *wanted == model,
            None => *wanted == model || *wanted == format!("{provider}/{model}"),
        }
    }
}

/// Returns the provider and the model of a message: the author of a reply, or the addressee of a prompt.
fn provider_and_model(info: &Value) -> Option<(String, String)> {
    let of = |value: &Value| Some((nonempty_text(&value["providerID"])?, nonempty_text(&value["modelID"])?));
    of(info).or_else(|| of(&info["model"]))
}

/// Returns whether opencode uses the Messages API for a provider. Its own gateway uses it for Claude models.
fn uses_messages_api(provider: &str, model: Option<&str>) -> bool {
    match provider {
        "anthropic" | "google-vertex-anthropic" => true,
        "opencode" => model.is_some_and(|model| model.starts_with("claude")),
        _ => false,
    }
}

fn nonempty_text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Returns a file's name without `.json`.
fn json_file_stem(path: &Path) -> Option<String> {
    super::discovery::strip_extension(path, &[".json"]).map(str::to_owned)
}
