//! Roo Code: Cline's folder a task, with summaries among the turns.
//!
//! A summary at the end is the user's and stands for all before it. An older one is the assistant's, behind the first prompt; what
//! it replaced is tagged, or gone. Turns that a shorter window hides are tagged too, and hidden while the marker is there.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use longhaul_engine::Dialect;
use serde_json::Value;

use super::format::{Format, Glimpse, Machine, Place};
use super::{Agent, Asked, Extent, Origin, Role, Session, Turn, Unread, folder, tasks};

pub(super) const FORMAT: Format = Format { agent: Agent::Roo, shows, homes, list, read };

/// Its name among the extensions of an editor.
pub(super) const EXTENSION: &str = "rooveterinaryinc.roo-cline";

fn shows(glimpse: &Glimpse<'_>) -> bool {
    tasks::task_of(glimpse.path).is_some_and(|task| tasks::owner(&task) == Agent::Roo)
}

fn homes(machine: &Machine) -> Vec<PathBuf> {
    tasks::homes(machine, EXTENSION)
}

fn list(home: &Path) -> Vec<Place> {
    tasks::list(home, Agent::Roo)
}

fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let task = tasks::task_of(&place.path).unwrap_or_else(|| place.path.clone());
    let said = tasks::said(&task)?;
    let mut damage = Vec::new();
    let mut unknown = BTreeMap::new();
    let screen = tasks::screen(&task, &mut damage);
    let turns: Vec<Turn> = sent(&said, asked.extent)
        .into_iter()
        .filter_map(|at| tasks::turn(&said[at], &Origin::Id(at.to_string()), &mut unknown))
        .collect();
    let turns = joined(tasks::settled(turns));
    let details = tasks::Details::of(&said);
    let model = asked.model.clone().or_else(|| details.model.clone());
    let condensed = screen.iter().filter(|message| message["say"] == "condense_context").count();
    let summaries = said.iter().filter(|message| message["isSummary"] == true).count();
    let times = || said.iter().chain(&screen).filter_map(tasks::moment);
    Ok(Session {
        agent: Agent::Roo,
        id: folder::name(&task).to_owned(),
        project: details.project,
        title: None,
        model,
        dialect: asked.dialect.unwrap_or(Dialect::Messages),
        system: None,
        tools: None,
        compactions: condensed.max(summaries),
        started: times().min(),
        updated: times().max(),
        requests: tasks::requests(&screen, &turns, details.model.as_deref()),
        turns,
        unknown,
        damage,
    })
}

/// Which of the turns go out.
fn sent(said: &[Value], extent: Extent) -> Vec<usize> {
    let is_summary = |message: &Value| message["isSummary"] == true;
    let is_marker = |message: &Value| message["isTruncationMarker"] == true;
    if extent == Extent::Whole {
        return (0..said.len()).filter(|&at| !is_summary(&said[at]) && !is_marker(&said[at])).collect();
    }
    let start = said.iter().rposition(is_summary).filter(|&at| said[at]["role"] == "user").unwrap_or(0);
    let ids = |is: &dyn Fn(&Value) -> bool, name: &str| -> HashSet<String> {
        said.iter()
            .filter(|message| is(message))
            .filter_map(|message| message[name].as_str())
            .map(str::to_owned)
            .collect()
    };
    let (summaries, markers) = (ids(&is_summary, "condenseId"), ids(&is_marker, "truncationId"));
    let is_hidden = |message: &Value| {
        let under =
            |name: &str, ids: &HashSet<String>| message[name].as_str().is_some_and(|id| ids.contains(id));
        under("condenseParent", &summaries) || under("truncationParent", &markers)
    };
    (start..said.len()).filter(|&at| at == start || !is_hidden(&said[at])).collect()
}

/// Neighbouring turns of the user are one.
fn joined(turns: Vec<Turn>) -> Vec<Turn> {
    let mut joined: Vec<Turn> = Vec::new();
    for turn in turns {
        match joined.last_mut() {
            Some(last) if last.role == Role::User && turn.role == Role::User => {
                last.pieces.extend(turn.pieces);
            }
            _ => joined.push(turn),
        }
    }
    joined
}
