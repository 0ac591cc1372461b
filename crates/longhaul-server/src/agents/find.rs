//! The sessions of the agents on a machine, and the one that a name means.

use std::collections::BTreeSet;
use std::path::Path;

use super::format::FORMATS;
use super::{Agent, Machine, Place, Unread};

/// So many candidates are listed where a name could mean several.
const LISTED: usize = 6;

/// The sessions that are found where agents keep them, the newest first.
#[must_use]
pub fn sessions(machine: &Machine, agent: Option<Agent>) -> Vec<Place> {
    let formats = FORMATS.iter().filter(|format| agent.is_none_or(|agent| format.agent == agent));
    let mut found: Vec<Place> = formats
        .flat_map(|format| (format.homes)(machine).into_iter().map(|home| (format.list)(&home)))
        .flatten()
        // A pipe or a device in an agent's folder would keep whoever opens it waiting.
        .filter(|place| place.path.is_file() || place.path.is_dir())
        .collect();
    found.sort_by(|a, b| {
        b.touched.cmp(&a.touched).then_with(|| a.path.cmp(&b.path)).then_with(|| a.id.cmp(&b.id))
    });
    // Formats of one agent may share a folder.
    found.dedup_by(|a, b| (&a.path, &a.id) == (&b.path, &b.id));
    found
}

/// Whether a text looks like a name: an agent, a colon, and which one.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_word = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    text.split_once(':').is_some_and(|(agent, which)| is_word(agent) && !which.starts_with("//"))
}

/// The session that a name means: `claude:latest`, or `codex:` and its id or the beginning of it.
pub fn named(machine: &Machine, name: &str) -> Result<Place, Unread> {
    let (agent, which) = name.split_once(':').unwrap_or((name, "latest"));
    let agent: Agent = agent.parse().map_err(Unread::Wrong)?;
    let found = sessions(machine, Some(agent));
    if found.is_empty() {
        let homes =
            FORMATS.iter().filter(|format| format.agent == agent).flat_map(|format| (format.homes)(machine));
        // Formats of one agent may share a folder.
        let homes: BTreeSet<String> = homes.map(|home| home.display().to_string()).collect();
        let homes: Vec<String> = homes.into_iter().collect();
        return Err(Unread::Wrong(format!(
            "no sessions of {agent} in {}; name a file instead",
            homes.join(", ")
        )));
    }
    if which.is_empty() || which == "latest" {
        return found.into_iter().next().ok_or_else(|| Unread::Wrong(format!("no sessions of {agent}")));
    }
    let id = |place: &Place| place.id.clone().unwrap_or_default();
    if let Some(place) = found.iter().find(|place| id(place) == which) {
        return Ok(place.clone());
    }
    let mut fits: Vec<Place> = found.into_iter().filter(|place| id(place).starts_with(which)).collect();
    match fits.len() {
        0 => Err(Unread::Wrong(format!(
            "no session of {agent} begins with `{which}`; `longhaul sessions --agent {agent}` lists them"
        ))),
        1 => Ok(fits.remove(0)),
        several => {
            let listed: Vec<String> = fits.iter().take(LISTED).map(id).collect();
            let more = if several > LISTED { ", …" } else { "" };
            let listed = listed.join(", ");
            Err(Unread::Wrong(format!("`{which}` could be {several} sessions of {agent}: {listed}{more}")))
        }
    }
}

/// Whose sessions are kept where this path is, or in it.
#[must_use]
pub fn keeper(machine: &Machine, path: &Path) -> Option<Agent> {
    let keeps = |format: &&super::format::Format| {
        (format.homes)(machine).iter().any(|home| {
            let real = home.canonicalize();
            path.starts_with(home) || real.is_ok_and(|real| path.starts_with(real))
        })
    };
    FORMATS.iter().find(keeps).map(|format| format.agent)
}

/// A file's name without one of these endings, packed or not.
pub(super) fn bare_name<'p>(path: &'p Path, endings: &[&str]) -> Option<&'p str> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    endings.iter().find_map(|ending| name.strip_suffix(ending)).filter(|bare| !bare.is_empty())
}
