//! Cline. Before 2026 the editor extension stored a folder per task (`legacy_tasks.rs`). Since then the
//! extension and the command line store a folder per session: `<id>.json` with facts about it,
//! `<id>.messages.json` with its messages and, after a compaction, `<id>.compaction.json` with the messages
//! that replace the first of them.

mod legacy_tasks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_engine::prices::Usage;
use longhaul_engine::{ApiFormat, Tokens};
use serde_json::Value;

use super::session_format::{FileProbe, SessionFormat, SessionLocation, UserEnvironment};
use super::{
    Agent, AgentSession, Extent, Origin, ReadOptions, RecordedMessage, RequestUsage, Role, SessionReadError, Timestamp,
    cline_tasks, folder,
};

pub(super) const FORMAT: SessionFormat = SessionFormat { agent: Agent::Cline, recognizes, default_paths, list, read };
pub(super) const LEGACY_FORMAT: SessionFormat = legacy_tasks::FORMAT;

/// Cline's ID among the extensions of an editor.
pub(super) const EXTENSION_ID: &str = "saoudrizwan.claude-dev";

const MESSAGES_SUFFIX: &str = ".messages.json";
const COMPACTION_SUFFIX: &str = ".compaction.json";

fn recognizes(probe: &FileProbe<'_>) -> bool {
    if probe.path.is_dir() {
        return SessionFiles::find(probe.path).is_some_and(|files| files.messages.is_some());
    }
    let first = probe.first_record();
    let has = |names: &[&str]| names.iter().all(|name| first.contains_key(*name));
    let name = folder::file_name(probe.path);
    let is_turns =
        [MESSAGES_SUFFIX, COMPACTION_SUFFIX].iter().any(|ending| name.trim_end_matches(".gz").ends_with(ending));
    is_turns && has(&["version", "messages"]) || has(&["version", "session_id", "messages_path"])
}

fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    let named = environment.path_variable("CLINE_SESSION_DATA_DIR");
    let data = || environment.path_variable("CLINE_DATA_DIR").map(|data| data.join("sessions"));
    let cline = || environment.path_variable("CLINE_DIR").unwrap_or_else(|| environment.home.join(".cline"));
    vec![named.or_else(data).unwrap_or_else(|| cline().join("data/sessions"))]
}

/// Lists the folders of sessions. The files of subagents are beside a session's own and are left out.
fn list(default_path: &Path) -> Vec<SessionLocation> {
    let location_of = |session: PathBuf| {
        let turns = SessionFiles::find(&session)?.messages?;
        let id = Some(folder::file_name(&session).to_owned());
        Some(SessionLocation { path: session, ..SessionLocation::from_path(Agent::Cline, &turns, id) })
    };
    folder::sorted_entries(default_path).into_iter().filter(|path| path.is_dir()).filter_map(location_of).collect()
}

/// The files of a session that exist.
struct SessionFiles {
    id: String,
    info: Option<PathBuf>,
    messages: Option<PathBuf>,
    compaction: Option<PathBuf>,
}

impl SessionFiles {
    /// Finds the files of a session from its folder or from one of the files. In a folder, the messages file
    /// named like the folder is the session's; others are subagents'.
    fn find(path: &Path) -> Option<Self> {
        let stem = |path: &Path| {
            let name = folder::file_name(path).trim_end_matches(".gz").to_owned();
            [MESSAGES_SUFFIX, COMPACTION_SUFFIX, ".json"]
                .iter()
                .find_map(|ending| name.strip_suffix(ending).map(str::to_owned))
        };
        let (session, id) = if path.is_dir() {
            let own = folder::file_name(path).to_owned();
            let has_turns = |id: &str| cline_tasks::find_file(path, &format!("{id}{MESSAGES_SUFFIX}")).is_some();
            let others = || {
                let named: Vec<String> = folder::sorted_entries(path).iter().filter_map(|file| stem(file)).collect();
                // The session's own messages have a file with facts beside them.
                let about = named.iter().find(|id| has_turns(id) && path.join(format!("{id}.json")).is_file());
                about.or_else(|| named.iter().find(|id| has_turns(id))).cloned()
            };
            (path.to_owned(), if has_turns(&own) { own } else { others()? })
        } else {
            (path.parent()?.to_owned(), stem(path)?)
        };
        let file = |ending: &str| cline_tasks::find_file(&session, &format!("{id}{ending}"));
        let (about, messages, compaction) = (file(".json"), file(MESSAGES_SUFFIX), file(COMPACTION_SUFFIX));
        Some(Self { id, info: about, messages, compaction })
    }
}

fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let wrong =
        || SessionReadError::Invalid(format!("{} is not a session of cline; check the path", location.path.display()));
    let files = SessionFiles::find(&location.path).ok_or_else(wrong)?;
    let load = |path: &Option<PathBuf>| path.as_deref().map(cline_tasks::read_json::<Value>).transpose();
    let (about, compaction) = (load(&files.info)?.unwrap_or_default(), load(&files.compaction)?);
    let log = match load(&files.messages)? {
        Some(log) => log,
        None => compaction.clone().ok_or_else(wrong)?,
    };
    let messages = log["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut damage = Vec::new();
    let mut unknown = BTreeMap::new();
    let sent = match (options.extent, compaction.as_ref().filter(|_| files.messages.is_some())) {
        (Extent::NextRequest, Some(compaction)) => messages_after_compaction(compaction, messages, &mut damage),
        (Extent::NextRequest, None) => messages.iter().collect(),
        (Extent::FullHistory, _) => {
            messages.iter().filter(|message| message["metadata"]["kind"] != "compaction_summary").collect()
        }
    };
    let turns: Vec<RecordedMessage> = sent
        .iter()
        .enumerate()
        .filter_map(|(at, message)| {
            let id = message["id"].as_str().map_or_else(|| at.to_string(), str::to_owned);
            cline_tasks::parse_message(message, &Origin::Id(id), &mut unknown)
        })
        .collect();
    let turns = cline_tasks::pair_results(turns);
    let requests = reported_requests(messages, &turns);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let time = |name: &str| about[name].as_str().and_then(Timestamp::parse);
    let times = || messages.iter().filter_map(cline_tasks::message_time);
    let newest = requests.iter().rev().find_map(|request| request.model.clone());
    Ok(AgentSession {
        agent: Agent::Cline,
        id: text(&about["session_id"]).or_else(|| text(&log["sessionId"])).unwrap_or(files.id),
        project: text(&about["cwd"]).or_else(|| text(&about["workspace_root"])),
        title: text(&about["metadata"]["title"]),
        model: options.model.clone().or(newest).or_else(|| text(&about["model"])),
        api_format: options.api_format.unwrap_or(ApiFormat::Messages),
        system_prompt: text(&log["system_prompt"]),
        tools: None,
        messages: turns,
        compactions: usize::from(compaction.is_some()),
        started: times().chain(time("started_at")).min(),
        updated: times().chain(log["updated_at"].as_str().and_then(Timestamp::parse)).chain(time("ended_at")).max(),
        requests,
        unknown_records: unknown,
        warnings: damage,
    })
}

/// Returns the messages of the compaction and those after the ones that it replaces; all messages if it does
/// not match them.
fn messages_after_compaction<'v>(
    compaction: &'v Value,
    messages: &'v [Value],
    damage: &mut Vec<String>,
) -> Vec<&'v Value> {
    let Some(after) = compacted_message_count(compaction, messages) else {
        damage.push("ignored its compaction, which does not match the stored messages".to_owned());
        return messages.iter().collect();
    };
    compaction["messages"].as_array().into_iter().flatten().chain(&messages[after..]).collect()
}

/// Returns how many of the first messages a compaction replaces, or `None` if the compaction does not match
/// the messages.
///
/// Cline itself compares a hash over these messages, computed from how it displays them. Here it is enough
/// that the stated number of messages exists and, if the compaction has no hash, that the last of them is the
/// one that it names. A compaction without a number ends with messages that it kept, which are found by their
/// IDs.
fn compacted_message_count(compaction: &Value, messages: &[Value]) -> Option<usize> {
    let Some(count) = compaction["source_message_count"].as_u64() else {
        let kept = compaction["messages"].as_array()?.last()?["id"].as_str()?;
        return messages.iter().rposition(|message| message["id"] == kept).map(|at| at + 1);
    };
    let count = usize::try_from(count).ok().filter(|count| *count <= messages.len())?;
    if compaction["source_prefix_hash"].is_string() {
        return Some(count);
    }
    let last = messages.get(count.checked_sub(1)?)?;
    let role = last["role"].as_str().unwrap_or_default();
    let key = match (last["id"].as_str(), last["ts"].as_i64()) {
        (Some(id), _) => format!("id:{id}"),
        (None, Some(time)) => format!("ts:{role}:{time}"),
        (None, None) => format!("content:{role}:{}", last["content"]),
    };
    (compaction["source_last_message_key"] == key.as_str()).then_some(count)
}

fn reported_requests(messages: &[Value], turns: &[RecordedMessage]) -> Vec<RequestUsage> {
    let reported = |message: &Value| {
        let origin = Origin::Id(message["id"].as_str()?.to_owned());
        let is_its =
            |turn: &RecordedMessage| turn.role == Role::Assistant && turn.parts.iter().any(|(_, at)| *at == origin);
        Some(RequestUsage {
            time: cline_tasks::message_time(message),
            model: message["modelInfo"]["id"].as_str().map(str::to_owned),
            usage: parse_usage(&message["metrics"])?,
            reply_index: turns.iter().position(is_its),
            dollars: message["metrics"]["cost"].as_f64(),
        })
    };
    messages.iter().filter_map(reported).collect()
}

/// Parses the usage of a reply. `inputTokens` includes cache reads and cache writes.
fn parse_usage(metrics: &Value) -> Option<Usage> {
    let count = |name: &str| metrics[name].as_u64().map(Tokens);
    Some(Usage {
        input: Some(count("inputTokens")?),
        read: count("cacheReadTokens"),
        written: count("cacheWriteTokens"),
        written_1h: None,
        output: count("outputTokens"),
    })
}
