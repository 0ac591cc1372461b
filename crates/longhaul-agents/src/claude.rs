//! Claude Code: one JSON record per line, with messages in Messages form; the records form a tree by
//! `parentUuid`.
//!
//! ```text
//! record_index.rs   first pass over the file: parents, kinds of records, usage
//! branch.rs         chooses the records of the active branch, since the last compaction or all
//! messages.rs       rereads those lines and builds messages: joins replies, puts results after their calls
//! ```

mod branch;
mod messages;
mod record_index;

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_engine::ApiFormat;

use super::session_format::SessionFormat;
use super::{Agent, AgentSession, FileProbe, ReadOptions, SessionLocation, SessionReadError, UserEnvironment};
use record_index::RecordIndex;

pub(super) const FORMAT: SessionFormat = SessionFormat { agent: Agent::Claude, recognizes, default_paths, list, read };

/// Looks for records of the kinds that only Claude Code writes; a session can begin with any of them.
fn recognizes(probe: &FileProbe<'_>) -> bool {
    probe.leading_records().iter().any(|record| {
        let has = |name: &str| record.contains_key(name);
        let is = |kinds: &[&str]| {
            record.get("type").and_then(|kind| kind.as_str()).is_some_and(|kind| kinds.contains(&kind))
        };
        (has("parentUuid") && (has("sessionId") || has("uuid") || has("isSidechain")))
            || (has("sessionId") && has("uuid") && has("isSidechain"))
            || (has("leafUuid") && is(&["summary"]))
            || (has("messageId") && is(&["file-history-snapshot"]))
            || (has("sessionId") && is(&["queue-operation", "last-prompt", "custom-title", "mode", "pr-link"]))
    })
}

fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    let folder = environment.path_variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| environment.home.join(".claude"));
    vec![folder.join("projects")]
}

/// Lists the files in the folders of projects. Leaves out files of subagents, which cannot be resumed.
fn list(projects: &Path) -> Vec<SessionLocation> {
    let inside = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    inside(projects)
        .filter(|project| project.is_dir())
        .flat_map(|project| inside(&project).collect::<Vec<_>>())
        .filter_map(|file| {
            let id = super::discovery::strip_extension(&file, &[".jsonl"])?;
            (!id.starts_with("agent-")).then(|| SessionLocation::from_path(Agent::Claude, &file, Some(id.to_owned())))
        })
        .collect()
}

fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let index = RecordIndex::scan(&location.path)?;
    let Some(leaf) = index.newest_leaf() else {
        return Err(SessionReadError::Invalid(format!("{} has no messages yet", location.path.display())));
    };
    let records = branch::active_records(&index, leaf, options.extent);
    let model = options.model.clone().or_else(|| index.model.clone());
    let made = messages::build_messages(&location.path, &index, &records, model.as_deref())?;
    let requests = index.reported_requests(&made.message_of_reply);
    let mut damage = index.warnings;
    damage.extend(made.warnings);
    Ok(AgentSession {
        agent: Agent::Claude,
        id: index.id.or_else(|| location.id.clone()).unwrap_or_default(),
        project: index.project,
        title: index.title,
        model,
        api_format: ApiFormat::Messages,
        system_prompt: None,
        tools: None,
        messages: made.messages,
        compactions: index.boundaries.len(),
        started: index.started,
        updated: index.updated,
        requests,
        unknown_records: index.unknown_records,
        warnings: damage,
    })
}
