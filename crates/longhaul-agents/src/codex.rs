//! Codex CLI: a rollout file with one record per line, whose items are in Responses form already.
//!
//! ```text
//! rollout.rs   first pass over the file: which lines are items, what was rolled back, where the last compaction was
//! items.rs     rereads those lines byte for byte, and adds the outputs that Codex gives to calls without one
//! ```

mod items;
mod rollout;

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_engine::ApiFormat;

use super::session_format::SessionFormat;
use super::{Agent, AgentSession, FileProbe, ReadOptions, SessionLocation, SessionReadError, UserEnvironment};
use rollout::Rollout;

pub(super) const FORMAT: SessionFormat = SessionFormat { agent: Agent::Codex, recognizes, default_paths, list, read };

/// Looks for a record with a payload of a type that only Codex writes, or for the first line of the oldest
/// format, which had no types.
fn recognizes(probe: &FileProbe<'_>) -> bool {
    let first = probe.first_record();
    let kind = first.get("type").and_then(|kind| kind.as_str());
    let kinds = ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"];
    let new = kind.is_some_and(|kind| kinds.contains(&kind)) && first.contains_key("payload");
    let old = ["id", "timestamp", "instructions"].iter().all(|name| first.contains_key(*name)) && kind.is_none();
    new || old
}

fn default_paths(environment: &UserEnvironment) -> Vec<PathBuf> {
    let folder = environment.path_variable("CODEX_HOME").unwrap_or_else(|| environment.home.join(".codex"));
    vec![folder.join("sessions"), folder.join("archived_sessions")]
}

/// Lists the rollouts, which are in folders by year, month and day. Archived ones are all in one folder.
fn list(folder: &Path) -> Vec<SessionLocation> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if let Some(id) = session_id(&path) {
                found.push(SessionLocation::from_path(Agent::Codex, &path, Some(id)));
            } else if depth < 3 && path.is_dir() {
                folders.push((path, depth + 1));
            }
        }
    }
    found
}

/// Returns the session's ID from a file name: `rollout-2026-05-04T23-19-37-<id>`, where a revert appends its
/// own ID after a `_`.
fn session_id(path: &Path) -> Option<String> {
    let name = super::discovery::strip_extension(path, &[".jsonl"])?.strip_prefix("rollout-")?;
    let id = name.get("2026-05-04T23-19-37-".len()..).unwrap_or(name);
    Some(id.to_owned())
}

fn read(location: &SessionLocation, options: &ReadOptions) -> Result<AgentSession, SessionReadError> {
    let rollout = Rollout::scan(&location.path)?;
    let made = items::build_messages(&location.path, &rollout, options.extent)?;
    if made.messages.is_empty() {
        return Err(SessionReadError::Invalid(format!("{} has no messages yet", location.path.display())));
    }
    let mut damage = rollout.warnings;
    damage.extend(made.warnings);
    Ok(AgentSession {
        agent: Agent::Codex,
        id: rollout.id.or_else(|| location.id.clone()).unwrap_or_default(),
        project: rollout.project,
        title: rollout.title,
        model: options.model.clone().or(rollout.model),
        api_format: ApiFormat::Responses,
        system_prompt: rollout.system_prompt,
        tools: None,
        messages: made.messages,
        compactions: rollout.compactions,
        started: rollout.started,
        updated: rollout.updated,
        requests: made.requests,
        unknown_records: rollout.unknown_records,
        warnings: damage,
    })
}
