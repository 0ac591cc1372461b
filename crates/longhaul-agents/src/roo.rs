//! Roo Code: a folder per task like Cline's, with summaries among the messages.
//!
//! A summary is a user message that replaces all messages before it. In older versions it is an assistant
//! message after the first prompt, and the messages that it replaces are tagged or deleted. Messages that are
//! hidden because of a smaller window are tagged too, and stay hidden while their truncation marker is in the
//! file.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use longhaul_engine::ApiFormat;
use serde_json::Value;

use super::session_format::{FileProbe, SessionFormat, SessionLocation, UserEnvironment};
use super::{
    Agent, AgentSession, Extent, Origin, ReadOptions, RecordedMessage, Role, SessionReadError, cline_tasks, folder,
};

pub(super) const FORMAT: SessionFormat = SessionFormat { agent: Agent::Roo, recognizes, default_paths, list, read };

/// Roo Code's ID among the extensions of an editor.
pub(super) const EXTENSION_ID: &str = "rooveterinaryinc.roo-cline";

fn recognizes(probe: &FileProbe<'_>) -> bool {
    cline_tasks::task_folder(probe.path).is_some_and(|task| cline_tasks::detect_agent(&task) == Agent::Roo)
}

fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    cline_tasks::default_paths(environment, EXTENSION_ID)
}

fn list(default_path: &Path) -> Vec<SessionLocation> {
    cline_tasks::list(default_path, Agent::Roo)
}

fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let task = cline_tasks::task_folder(&location.path).unwrap_or_else(|| location.path.clone());
    let history = cline_tasks::read_history(&task)?;
    let mut damage = Vec::new();
    let mut unknown = BTreeMap::new();
    let screen = cline_tasks::read_ui_messages(&task, &mut damage);
    let turns: Vec<RecordedMessage> = sent_positions(&history, options.extent)
        .into_iter()
        .filter_map(|at| cline_tasks::parse_message(&history[at], &Origin::Id(at.to_string()), &mut unknown))
        .collect();
    let turns = merge_user_messages(cline_tasks::pair_results(turns));
    let details = cline_tasks::EnvironmentDetails::parse(&history);
    let model = options.model.clone().or_else(|| details.model.clone());
    let condensed = screen.iter().filter(|message| message["say"] == "condense_context").count();
    let summaries = history.iter().filter(|message| message["isSummary"] == true).count();
    let times = || history.iter().chain(&screen).filter_map(cline_tasks::message_time);
    Ok(AgentSession {
        agent: Agent::Roo,
        id: folder::file_name(&task).to_owned(),
        project: details.project,
        title: None,
        model,
        api_format: options.api_format.unwrap_or(ApiFormat::Messages),
        system_prompt: None,
        tools: None,
        compactions: condensed.max(summaries),
        started: times().min(),
        updated: times().max(),
        requests: cline_tasks::reported_requests(&screen, &turns, details.model.as_deref()),
        messages: turns,
        unknown_records: unknown,
        warnings: damage,
    })
}

/// Returns the positions of the messages that are sent.
fn sent_positions(history: &[Value], extent: Extent) -> Vec<usize> {
    let is_summary = |message: &Value| message["isSummary"] == true;
    let is_marker = |message: &Value| message["isTruncationMarker"] == true;
    if extent == Extent::FullHistory {
        return (0..history.len()).filter(|&at| !is_summary(&history[at]) && !is_marker(&history[at])).collect();
    }
    let start = history.iter().rposition(is_summary).filter(|&at| history[at]["role"] == "user").unwrap_or(0);
    let ids = |is: &dyn Fn(&Value) -> bool, name: &str| -> HashSet<String> {
        history
            .iter()
            .filter(|message| is(message))
            .filter_map(|message| message[name].as_str())
            .map(str::to_owned)
            .collect()
    };
    let (summaries, markers) = (ids(&is_summary, "condenseId"), ids(&is_marker, "truncationId"));
    let is_hidden = |message: &Value| {
        let under = |name: &str, ids: &HashSet<String>| message[name].as_str().is_some_and(|id| ids.contains(id));
        under("condenseParent", &summaries) || under("truncationParent", &markers)
    };
    (start..history.len()).filter(|&at| at == start || !is_hidden(&history[at])).collect()
}

/// Merges neighboring user messages.
fn merge_user_messages(turns: Vec<RecordedMessage>) -> Vec<RecordedMessage> {
    let mut joined: Vec<RecordedMessage> = Vec::new();
    for turn in turns {
        match joined.last_mut() {
            Some(last) if last.role == Role::User && turn.role == Role::User => {
                last.parts.extend(turn.parts);
            }
            _ => joined.push(turn),
        }
    }
    joined
}
