//! Codex CLI: a rollout of one record a line, whose items are those of the Responses dialect already.
//!
//! ```text
//! rollout.rs   one pass over the file: which lines are items, what was rolled back, where the last compaction was
//! items.rs     those lines again, byte for byte, with what Codex puts where a call has no output
//! ```

mod items;
mod rollout;

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_engine::Dialect;

use super::format::Format;
use super::{Agent, Asked, Glimpse, Machine, Place, Session, Unread};
use rollout::Rollout;

pub(super) const FORMAT: Format = Format { agent: Agent::Codex, shows, homes, list, read };

/// A record with a payload of a kind that only Codex writes, or the first line that it wrote before it had kinds.
fn shows(glimpse: &Glimpse<'_>) -> bool {
    let first = glimpse.first();
    let kind = first.get("type").and_then(|kind| kind.as_str());
    let kinds = ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"];
    let new = kind.is_some_and(|kind| kinds.contains(&kind)) && first.contains_key("payload");
    let old =
        ["id", "timestamp", "instructions"].iter().all(|name| first.contains_key(*name)) && kind.is_none();
    new || old
}

fn homes(machine: &Machine) -> Vec<PathBuf> {
    let folder = machine.named_by("CODEX_HOME").unwrap_or_else(|| machine.home.join(".codex"));
    vec![folder.join("sessions"), folder.join("archived_sessions")]
}

/// Rollouts lie in folders of years, months and days, archived ones beside each other.
fn list(folder: &Path) -> Vec<Place> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if let Some(id) = id(&path) {
                found.push(Place::of_file(Agent::Codex, &path, Some(id)));
            } else if depth < 3 && path.is_dir() {
                folders.push((path, depth + 1));
            }
        }
    }
    found
}

/// `rollout-2026-05-04T23-19-37-<id>`, where a revert adds its own id behind a `_`.
fn id(path: &Path) -> Option<String> {
    let name = super::find::bare_name(path, &[".jsonl"])?.strip_prefix("rollout-")?;
    let id = name.get("2026-05-04T23-19-37-".len()..).unwrap_or(name);
    Some(id.to_owned())
}

fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let rollout = Rollout::read(&place.path)?;
    let made = items::of(&place.path, &rollout, asked.extent)?;
    if made.turns.is_empty() {
        return Err(Unread::Wrong(format!("{} has no messages yet", place.path.display())));
    }
    let mut damage = rollout.damage;
    damage.extend(made.notes);
    Ok(Session {
        agent: Agent::Codex,
        id: rollout.id.or_else(|| place.id.clone()).unwrap_or_default(),
        project: rollout.project,
        title: rollout.title,
        model: asked.model.clone().or(rollout.model),
        dialect: Dialect::Responses,
        system: rollout.system,
        tools: None,
        turns: made.turns,
        compactions: rollout.compactions,
        started: rollout.started,
        updated: rollout.updated,
        requests: made.requests,
        unknown: rollout.unknown,
        damage,
    })
}
