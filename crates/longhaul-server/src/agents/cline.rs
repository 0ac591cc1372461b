//! Cline. As an extension it kept a folder a task (`classic.rs`); since 2026 the extension and the command line keep a folder a
//! session: `<id>.json` about it, `<id>.messages.json` with its turns and, once it was compacted, `<id>.compaction.json` with
//! those that stand for the first of them.

mod classic;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_engine::prices::Usage;
use longhaul_engine::{Dialect, Tokens};
use serde_json::Value;

use super::format::{Format, Glimpse, Machine, Place};
use super::{Agent, Asked, Extent, Moment, Origin, Reported, Role, Session, Turn, Unread, folder, tasks};

pub(super) const FORMAT: Format = Format { agent: Agent::Cline, shows, homes, list, read };
pub(super) const CLASSIC: Format = classic::FORMAT;

/// Its name among the extensions of an editor.
pub(super) const EXTENSION: &str = "saoudrizwan.claude-dev";

const MESSAGES: &str = ".messages.json";
const COMPACTION: &str = ".compaction.json";

fn shows(glimpse: &Glimpse<'_>) -> bool {
    if glimpse.path.is_dir() {
        return Files::of(glimpse.path).is_some_and(|files| files.messages.is_some());
    }
    let first = glimpse.first();
    let has = |names: &[&str]| names.iter().all(|name| first.contains_key(*name));
    let name = folder::name(glimpse.path);
    let is_turns = [MESSAGES, COMPACTION].iter().any(|ending| name.trim_end_matches(".gz").ends_with(ending));
    is_turns && has(&["version", "messages"]) || has(&["version", "session_id", "messages_path"])
}

fn homes(machine: &Machine) -> Vec<PathBuf> {
    let named = machine.named_by("CLINE_SESSION_DATA_DIR");
    let data = || machine.named_by("CLINE_DATA_DIR").map(|data| data.join("sessions"));
    let cline = || machine.named_by("CLINE_DIR").unwrap_or_else(|| machine.home.join(".cline"));
    vec![named.or_else(data).unwrap_or_else(|| cline().join("data/sessions"))]
}

/// A folder a session; its subagents lie beside it in there, and are left out.
fn list(home: &Path) -> Vec<Place> {
    let place = |session: PathBuf| {
        let turns = Files::of(&session)?.messages?;
        let id = Some(folder::name(&session).to_owned());
        Some(Place { path: session, ..Place::of_file(Agent::Cline, &turns, id) })
    };
    folder::entries(home).into_iter().filter(|path| path.is_dir()).filter_map(place).collect()
}

/// The files of a session, as far as they are there.
struct Files {
    id: String,
    about: Option<PathBuf>,
    messages: Option<PathBuf>,
    compaction: Option<PathBuf>,
}

impl Files {
    /// Of a folder, or of one of the files. In a folder the turns that are named like it are the session's, others a subagent's.
    fn of(path: &Path) -> Option<Self> {
        let stem = |path: &Path| {
            let name = folder::name(path).trim_end_matches(".gz").to_owned();
            [MESSAGES, COMPACTION, ".json"]
                .iter()
                .find_map(|ending| name.strip_suffix(ending).map(str::to_owned))
        };
        let (session, id) = if path.is_dir() {
            let own = folder::name(path).to_owned();
            let has_turns = |id: &str| tasks::file(path, &format!("{id}{MESSAGES}")).is_some();
            let others = || {
                let named: Vec<String> = folder::entries(path).iter().filter_map(|file| stem(file)).collect();
                // The session's own turns have a file about them.
                let about =
                    named.iter().find(|id| has_turns(id) && path.join(format!("{id}.json")).is_file());
                about.or_else(|| named.iter().find(|id| has_turns(id))).cloned()
            };
            (path.to_owned(), if has_turns(&own) { own } else { others()? })
        } else {
            (path.parent()?.to_owned(), stem(path)?)
        };
        let file = |ending: &str| tasks::file(&session, &format!("{id}{ending}"));
        let (about, messages, compaction) = (file(".json"), file(MESSAGES), file(COMPACTION));
        Some(Self { id, about, messages, compaction })
    }
}

fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let wrong =
        || Unread::Wrong(format!("{} holds no session of cline; check the path", place.path.display()));
    let files = Files::of(&place.path).ok_or_else(wrong)?;
    let load = |path: &Option<PathBuf>| path.as_deref().map(tasks::document::<Value>).transpose();
    let (about, compaction) = (load(&files.about)?.unwrap_or_default(), load(&files.compaction)?);
    let log = match load(&files.messages)? {
        Some(log) => log,
        None => compaction.clone().ok_or_else(wrong)?,
    };
    let said = log["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut damage = Vec::new();
    let mut unknown = BTreeMap::new();
    let sent = match (asked.extent, compaction.as_ref().filter(|_| files.messages.is_some())) {
        (Extent::Next, Some(compaction)) => compacted(compaction, said, &mut damage),
        (Extent::Next, None) => said.iter().collect(),
        (Extent::Whole, _) => {
            said.iter().filter(|message| message["metadata"]["kind"] != "compaction_summary").collect()
        }
    };
    let turns: Vec<Turn> = sent
        .iter()
        .enumerate()
        .filter_map(|(at, message)| {
            let id = message["id"].as_str().map_or_else(|| at.to_string(), str::to_owned);
            tasks::turn(message, &Origin::Id(id), &mut unknown)
        })
        .collect();
    let turns = tasks::settled(turns);
    let requests = requests(said, &turns);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let time = |name: &str| about[name].as_str().and_then(Moment::parse);
    let times = || said.iter().filter_map(tasks::moment);
    let newest = requests.iter().rev().find_map(|request| request.model.clone());
    Ok(Session {
        agent: Agent::Cline,
        id: text(&about["session_id"]).or_else(|| text(&log["sessionId"])).unwrap_or(files.id),
        project: text(&about["cwd"]).or_else(|| text(&about["workspace_root"])),
        title: text(&about["metadata"]["title"]),
        model: asked.model.clone().or(newest).or_else(|| text(&about["model"])),
        dialect: asked.dialect.unwrap_or(Dialect::Messages),
        system: text(&log["system_prompt"]),
        tools: None,
        turns,
        compactions: usize::from(compaction.is_some()),
        started: times().chain(time("started_at")).min(),
        updated: times()
            .chain(log["updated_at"].as_str().and_then(Moment::parse))
            .chain(time("ended_at"))
            .max(),
        requests,
        unknown,
        damage,
    })
}

/// The turns of the compaction, and those that came after what it stands for; all turns, where that is not known.
fn compacted<'v>(compaction: &'v Value, said: &'v [Value], damage: &mut Vec<String>) -> Vec<&'v Value> {
    let Some(after) = reach(compaction, said) else {
        damage.push("its compaction is of other turns than those that are there; read without it".to_owned());
        return said.iter().collect();
    };
    compaction["messages"].as_array().into_iter().flatten().chain(&said[after..]).collect()
}

/// How many of the first turns a compaction stands for.
///
/// Cline itself compares a hash over all of them, made of how it shows each on the screen; here it is enough that there are so
/// many and, where the compaction names no hash, that the last of them is the one that it names. A compaction that says nothing
/// of the kind ends with turns that it kept: those are found by their ids.
fn reach(compaction: &Value, said: &[Value]) -> Option<usize> {
    let Some(count) = compaction["source_message_count"].as_u64() else {
        let kept = compaction["messages"].as_array()?.last()?["id"].as_str()?;
        return said.iter().rposition(|message| message["id"] == kept).map(|at| at + 1);
    };
    let count = usize::try_from(count).ok().filter(|count| *count <= said.len())?;
    if compaction["source_prefix_hash"].is_string() {
        return Some(count);
    }
    let last = said.get(count.checked_sub(1)?)?;
    let role = last["role"].as_str().unwrap_or_default();
    let key = match (last["id"].as_str(), last["ts"].as_i64()) {
        (Some(id), _) => format!("id:{id}"),
        (None, Some(time)) => format!("ts:{role}:{time}"),
        (None, None) => format!("content:{role}:{}", last["content"]),
    };
    (compaction["source_last_message_key"] == key.as_str()).then_some(count)
}

fn requests(said: &[Value], turns: &[Turn]) -> Vec<Reported> {
    let reported = |message: &Value| {
        let origin = Origin::Id(message["id"].as_str()?.to_owned());
        let is_its =
            |turn: &Turn| turn.role == Role::Assistant && turn.pieces.iter().any(|(_, at)| *at == origin);
        Some(Reported {
            at: tasks::moment(message),
            model: message["modelInfo"]["id"].as_str().map(str::to_owned),
            usage: usage(&message["metrics"])?,
            reply: turns.iter().position(is_its),
            dollars: message["metrics"]["cost"].as_f64(),
        })
    };
    said.iter().filter_map(reported).collect()
}

/// `inputTokens` counts what the cache had and took.
fn usage(metrics: &Value) -> Option<Usage> {
    let count = |name: &str| metrics[name].as_u64().map(Tokens);
    Some(Usage {
        input: Some(count("inputTokens")?),
        read: count("cacheReadTokens"),
        written: count("cacheWriteTokens"),
        written_1h: None,
        output: count("outputTokens"),
    })
}
