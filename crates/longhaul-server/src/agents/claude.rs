//! Claude Code: one JSON record a line, messages in Messages form, a tree by `parentUuid`.
//!
//! ```text
//! index.rs   one pass over the file: who hangs on whom, which lines speak, what was used
//! path.rs    the records of the active branch, after the last compaction or whole
//! turns.rs   those lines again, as messages: replies joined, results put behind their calls
//! ```

mod index;
mod path;
mod turns;

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_engine::Dialect;

use super::format::Format;
use super::{Agent, Asked, Glimpse, Machine, Place, Session, Unread};
use index::Index;

pub(super) const FORMAT: Format = Format { agent: Agent::Claude, shows, homes, list, read };

/// Records of the kinds that only Claude Code writes; a session may begin with any of them.
fn shows(glimpse: &Glimpse<'_>) -> bool {
    glimpse.records().iter().any(|record| {
        let has = |name: &str| record.contains_key(name);
        let is = |kinds: &[&str]| {
            record.get("type").and_then(|kind| kind.as_str()).is_some_and(|kind| kinds.contains(&kind))
        };
        (has("parentUuid") && (has("sessionId") || has("uuid") || has("isSidechain")))
            || (has("sessionId") && has("uuid") && has("isSidechain"))
            || (has("leafUuid") && is(&["summary"]))
            || (has("messageId") && is(&["file-history-snapshot"]))
            || (has("sessionId")
                && is(&["queue-operation", "last-prompt", "custom-title", "mode", "pr-link"]))
    })
}

fn homes(machine: &Machine) -> Vec<PathBuf> {
    let folder = machine.named_by("CLAUDE_CONFIG_DIR").unwrap_or_else(|| machine.home.join(".claude"));
    vec![folder.join("projects")]
}

/// A session is a file in a project's folder; what subagents did is no session that is gone on with.
fn list(projects: &Path) -> Vec<Place> {
    let inside =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    inside(projects)
        .filter(|project| project.is_dir())
        .flat_map(|project| inside(&project).collect::<Vec<_>>())
        .filter_map(|file| {
            let id = super::find::bare_name(&file, &[".jsonl"])?;
            (!id.starts_with("agent-")).then(|| Place::of_file(Agent::Claude, &file, Some(id.to_owned())))
        })
        .collect()
}

fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let index = Index::read(&place.path)?;
    let Some(leaf) = index.leaf() else {
        return Err(Unread::Wrong(format!("{} has no messages yet", place.path.display())));
    };
    let records = path::active(&index, leaf, asked.extent);
    let model = asked.model.clone().or_else(|| index.model.clone());
    let made = turns::of(&place.path, &index, &records, model.as_deref())?;
    let requests = index.reported(&made.replies);
    let mut damage = index.damage;
    damage.extend(made.notes);
    Ok(Session {
        agent: Agent::Claude,
        id: index.id.or_else(|| place.id.clone()).unwrap_or_default(),
        project: index.project,
        title: index.title,
        model,
        dialect: Dialect::Messages,
        system: None,
        tools: None,
        turns: made.turns,
        compactions: index.boundaries.len(),
        started: index.started,
        updated: index.updated,
        requests,
        unknown: index.unknown,
        damage,
    })
}
