//! opencode: a database of all sessions, before it a tree of JSON files, and what `opencode export` prints.
//!
//! ```text
//! store.rs   the three, read into one shape: a session, its messages, their parts
//! turns.rs   which messages are sent, and what each part becomes
//! usage.rs   what providers reported, for each step of a reply
//! ```

mod store;
mod turns;
mod usage;

use std::path::{Path, PathBuf};

use longhaul_engine::Dialect;
use serde_json::Value;

use super::database::{self, Database};
use super::draft::Drafts;
use super::format::Format;
use super::{Agent, Asked, Glimpse, Machine, Moment, Place, Session, Unread};
use store::{Message, Stored};
use turns::Maker;

/// `opencode.db`.
pub(super) const DATABASE: Format = Format {
    agent: Agent::Opencode,
    shows: shows_database,
    homes,
    list: store::list_databases,
    read: read_database,
};

/// `storage/{session,message,part}/…json`, before the database.
pub(super) const TREE: Format =
    Format { agent: Agent::Opencode, shows: shows_tree, homes, list: store::list_tree, read: read_tree };

/// What `opencode export` prints.
pub(super) const EXPORT: Format = Format {
    agent: Agent::Opencode,
    shows: shows_export,
    homes: |_| Vec::new(),
    list: |_| Vec::new(),
    read: read_export,
};

/// The same under the home on every system. `OPENCODE_DB` names another database, there or anywhere.
fn homes(machine: &Machine) -> Vec<PathBuf> {
    let shared =
        machine.named_by("XDG_DATA_HOME").unwrap_or_else(|| machine.home.join(".local").join("share"));
    let folder = shared.join("opencode");
    let renamed = machine.named_by("OPENCODE_DB").map(|name| folder.join(name));
    std::iter::once(folder).chain(renamed).collect()
}

/// A database that cannot be opened is claimed too: this is the first of the formats that are one, and reading it says what
/// is wrong.
fn shows_database(glimpse: &Glimpse<'_>) -> bool {
    let has = |database: &Database| {
        let tables = ["session", "message", "part"]
            .map(|table| database.columns(table).map(|columns| !columns.is_empty()));
        tables.into_iter().try_fold(true, |all, there| Ok(all && there?))
    };
    glimpse.is_database() && database::open(glimpse.path).and_then(|database| has(&database)).unwrap_or(true)
}

fn shows_tree(glimpse: &Glimpse<'_>) -> bool {
    store::root(glimpse.path).is_some()
}

fn shows_export(glimpse: &Glimpse<'_>) -> bool {
    let first = glimpse.first();
    let is_session = |info: &Value| info["id"].is_string() && info["time"].is_object();
    first.contains_key("messages") && first.get("info").is_some_and(is_session)
}

fn read_database(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    Ok(session(Stored::of_database(&place.path, place.id.as_deref())?, asked))
}

fn read_tree(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    Ok(session(Stored::of_tree(&place.path, place.id.as_deref())?, asked))
}

fn read_export(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    Ok(session(Stored::of_export(&place.path)?, asked))
}

fn session(stored: Stored, asked: &Asked) -> Session {
    let Stored { info, messages, unknown, damage } = stored;
    let target = Target::of(&messages, asked);
    let moment = |value: &Value| value.as_i64().map(Moment);
    let newest = messages.iter().filter_map(|message| moment(&message.info["time"]["created"])).max();
    let folder = messages.iter().find_map(|message| text(&message.info["path"]["cwd"]));
    let compactions = turns::compactions(&messages).len();
    let (mut requests, steps) = usage::reported(&messages);
    let mut maker =
        Maker { target: &target, extent: asked.extent, steps, unknown, drafts: Drafts::default() };
    for message in turns::chosen(messages, &info["revert"], asked.extent) {
        maker.push(&message);
    }
    let Maker { unknown, drafts, .. } = maker;
    Session {
        agent: Agent::Opencode,
        id: text(&info["id"]).unwrap_or_default(),
        project: text(&info["directory"]).or(folder),
        title: text(&info["title"]),
        turns: drafts.settle(target.dialect, &mut requests),
        model: target.model,
        dialect: target.dialect,
        system: None,
        tools: None,
        compactions,
        started: moment(&info["time"]["created"]),
        updated: moment(&info["time"]["updated"]).max(newest),
        requests,
        unknown,
        damage,
    }
}

/// Who the next request goes to.
struct Target {
    provider: Option<String>,
    model: Option<String>,
    dialect: Dialect,
}

impl Target {
    /// The model of the newest reply or prompt that names one, or the one that was asked for, as `model` or `provider/model`.
    fn of(messages: &[Message], asked: &Asked) -> Self {
        let (provider, model) = messages.iter().rev().find_map(|message| named(&message.info)).unzip();
        let named = asked.model.as_deref().and_then(|model| model.split_once('/'));
        let speaker = named.map(|(provider, _)| provider).or(provider.as_deref()).unwrap_or_default();
        let dialect = if is_anthropic(speaker, model.as_deref()) { Dialect::Messages } else { Dialect::Chat };
        let dialect = asked.dialect.unwrap_or(dialect);
        match &asked.model {
            Some(model) => Self { provider: None, model: Some(model.clone()), dialect },
            None => Self { provider, model, dialect },
        }
    }

    /// Whether a reply came from here: thoughts of another model are sent as text.
    fn wrote(&self, info: &Value) -> bool {
        let Some((provider, model)) = named(info) else { return false };
        let Some(wanted) = &self.model else { return false };
        match &self.provider {
            Some(own) => *own == provider && *wanted == model,
            None => *wanted == model || *wanted == format!("{provider}/{model}"),
        }
    }
}

/// Provider and model of a message: a reply names them itself, a prompt says whom it is for.
fn named(info: &Value) -> Option<(String, String)> {
    let of = |value: &Value| Some((text(&value["providerID"])?, text(&value["modelID"])?));
    of(info).or_else(|| of(&info["model"]))
}

/// Whether opencode speaks Messages to a provider; its own gateway does for Claude.
fn is_anthropic(provider: &str, model: Option<&str>) -> bool {
    match provider {
        "anthropic" | "google-vertex-anthropic" => true,
        "opencode" => model.is_some_and(|model| model.starts_with("claude")),
        _ => false,
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A path's name without `.json`.
fn name_of(path: &Path) -> Option<String> {
    super::find::bare_name(path, &[".json"]).map(str::to_owned)
}
