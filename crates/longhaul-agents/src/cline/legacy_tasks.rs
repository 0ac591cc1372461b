//! Cline's tasks before 2026. All messages stay in the file; a range in the list of all tasks says which of
//! them are not sent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_engine::ApiFormat;
use serde_json::Value;

use super::super::session_format::{FileProbe, SessionFormat, SessionLocation, UserEnvironment};
use super::super::{
    Agent, AgentSession, Extent, Origin, ReadOptions, RecordedMessage, SessionReadError, cline_tasks, folder,
};
use super::EXTENSION_ID;

pub(super) const FORMAT: SessionFormat = SessionFormat { agent: Agent::Cline, recognizes, default_paths, list, read };

fn recognizes(probe: &FileProbe<'_>) -> bool {
    cline_tasks::task_folder(probe.path).is_some_and(|task| cline_tasks::detect_agent(&task) == Agent::Cline)
}

fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    cline_tasks::default_paths(environment, EXTENSION_ID)
}

fn list(default_path: &Path) -> Vec<SessionLocation> {
    cline_tasks::list(default_path, Agent::Cline)
}

fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let task = cline_tasks::task_folder(&location.path).unwrap_or_else(|| location.path.clone());
    let history = cline_tasks::read_history(&task)?;
    let mut damage = Vec::new();
    let mut unknown = BTreeMap::new();
    let screen = cline_tasks::read_ui_messages(&task, &mut damage);
    let listed = task_history_row(&task);
    let hidden = unsent_range(&listed, history.len());
    let turns: Vec<RecordedMessage> = (0..history.len())
        .filter(|at| {
            options.extent == Extent::FullHistory || hidden.is_none_or(|(first, last)| *at < first || *at > last)
        })
        .filter_map(|at| cline_tasks::parse_message(&history[at], &Origin::Id(at.to_string()), &mut unknown))
        .collect();
    let turns = cline_tasks::pair_results(turns);
    let details = cline_tasks::EnvironmentDetails::parse(&history);
    let text = |name: &str| listed[name].as_str().map(str::to_owned);
    let own = history.iter().rev().find_map(|message| message["modelInfo"]["modelId"].as_str()).map(str::to_owned);
    let shown = || screen.iter().rev().find_map(|message| message["modelInfo"]["modelId"].as_str()).map(str::to_owned);
    let model = own.or_else(shown).or_else(|| text("modelId")).or(details.model);
    let times = || history.iter().chain(&screen).filter_map(cline_tasks::message_time);
    Ok(AgentSession {
        agent: Agent::Cline,
        id: folder::file_name(&task).to_owned(),
        project: text("cwdOnTaskInitialization").or(details.project),
        title: text("task"),
        api_format: options.api_format.unwrap_or(ApiFormat::Messages),
        system_prompt: None,
        tools: None,
        compactions: usize::from(hidden.is_some()),
        started: times().min(),
        updated: times().max(),
        requests: cline_tasks::reported_requests(&screen, &turns, model.as_deref()),
        model: options.model.clone().or(model),
        messages: turns,
        unknown_records: unknown,
        warnings: damage,
    })
}

/// Returns the task's row in the list of all tasks, or null if there is none.
fn task_history_row(task: &Path) -> Value {
    let list = task.parent().and_then(Path::parent).map(|storage| storage.join("state/taskHistory.json"));
    let rows: Vec<Value> = list.and_then(|list| cline_tasks::read_json(&list).ok()).unwrap_or_default();
    rows.into_iter().find(|row| row["id"] == folder::file_name(task)).unwrap_or_default()
}

/// Returns the first and the last position of the messages that are not sent: those after the first prompt
/// and its reply, up to the end of the stored range.
fn unsent_range(listed: &Value, turns: usize) -> Option<(usize, usize)> {
    let last = usize::try_from(listed["conversationHistoryDeletedRange"][1].as_u64()?).ok()?;
    (last >= 2 && last + 1 < turns).then_some((2, last))
}
