//! Lists the sessions of all agents on a machine, and finds a session by its name (`claude:latest`).

use std::collections::BTreeSet;
use std::path::Path;

use super::session_format::FORMATS;
use super::{Agent, SessionLocation, SessionReadError, UserEnvironment};

/// The number of candidates that an error message lists if a name fits several sessions. Chosen by hand: they
/// fit on one line.
const MAX_LISTED_CANDIDATES: usize = 6;

/// Lists the sessions in the default paths of all agents, or of one agent, newest first.
#[must_use]
pub fn list_sessions(environment: &UserEnvironment, agent: Option<Agent>) -> Vec<SessionLocation> {
    let formats = FORMATS.iter().filter(|format| agent.is_none_or(|agent| format.agent == agent));
    let mut found: Vec<SessionLocation> = formats
        .flat_map(|format| {
            (format.default_paths)(environment).into_iter().map(|default_path| (format.list)(&default_path))
        })
        .flatten()
        // Opening a pipe or a device in an agent's folder would block.
        .filter(|place| place.path.is_file() || place.path.is_dir())
        .collect();
    found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)).then_with(|| a.id.cmp(&b.id)));
    // Formats of one agent can share a folder.
    found.dedup_by(|a, b| (&a.path, &a.id) == (&b.path, &b.id));
    found
}

/// Returns whether a text has the form of a session name: an agent, a colon, and an ID or `latest`.
#[must_use]
pub fn is_session_name(text: &str) -> bool {
    let is_word = |word: &str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    text.split_once(':').is_some_and(|(agent, which)| is_word(agent) && !which.starts_with("//"))
}

/// Finds the session with this name: `claude:latest`, or an agent and the session's ID or the beginning of
/// the ID.
pub fn find_session(environment: &UserEnvironment, name: &str) -> Result<SessionLocation, SessionReadError> {
    let (agent, which) = name.split_once(':').unwrap_or((name, "latest"));
    let agent: Agent = agent.parse().map_err(SessionReadError::Invalid)?;
    let found = list_sessions(environment, Some(agent));
    if found.is_empty() {
        let homes = FORMATS
            .iter()
            .filter(|format| format.agent == agent)
            .flat_map(|format| (format.default_paths)(environment));
        // Formats of one agent can share a folder.
        let homes: BTreeSet<String> = homes.map(|default_path| default_path.display().to_string()).collect();
        let homes: Vec<String> = homes.into_iter().collect();
        return Err(SessionReadError::Invalid(format!(
            "no sessions of {agent} found in {}; give the path of a session file instead",
            homes.join(", ")
        )));
    }
    if which.is_empty() || which == "latest" {
        return found.into_iter().next().ok_or_else(|| SessionReadError::Invalid(format!("no sessions of {agent}")));
    }
    let id = |location: &SessionLocation| location.id.clone().unwrap_or_default();
    if let Some(location) = found.iter().find(|place| id(place) == which) {
        return Ok(location.clone());
    }
    let mut fits: Vec<SessionLocation> = found.into_iter().filter(|location| id(location).starts_with(which)).collect();
    match fits.len() {
        0 => Err(SessionReadError::Invalid(format!(
            "no session ID of {agent} starts with `{which}`; `longhaul sessions --agent {agent}` lists them"
        ))),
        1 => Ok(fits.remove(0)),
        several => {
            let listed: Vec<String> = fits.iter().take(MAX_LISTED_CANDIDATES).map(id).collect();
            let more = if several > MAX_LISTED_CANDIDATES { ", …" } else { "" };
            let listed = listed.join(", ");
            Err(SessionReadError::Invalid(format!(
                "`{which}` matches {several} sessions of {agent}: {listed}{more}; give more of the ID"
            )))
        }
    }
}

/// Returns the agent that stores its sessions in a folder that contains `path`.
#[must_use]
pub fn agent_storing_at(environment: &UserEnvironment, path: &Path) -> Option<Agent> {
    let keeps = |format: &&super::session_format::SessionFormat| {
        (format.default_paths)(environment).iter().any(|default_path| {
            let real = default_path.canonicalize();
            path.starts_with(default_path) || real.is_ok_and(|real| path.starts_with(real))
        })
    };
    FORMATS.iter().find(keeps).map(|format| format.agent)
}

/// Returns a file's name without one of these suffixes, and without `.gz` or `.zst`. Returns `None` if none
/// of them matches.
pub(super) fn strip_extension<'p>(path: &'p Path, endings: &[&str]) -> Option<&'p str> {
    let name = path.file_name()?.to_str()?;
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    endings.iter().find_map(|ending| name.strip_suffix(ending)).filter(|bare| !bare.is_empty())
}
