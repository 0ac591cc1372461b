//! Cline's tasks before 2026. All turns stay in the file; those of a range that the list of tasks names are not sent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_engine::Dialect;
use serde_json::Value;

use super::super::format::{Format, Glimpse, Machine, Place};
use super::super::{Agent, Asked, Extent, Origin, Session, Turn, Unread, folder, tasks};
use super::EXTENSION;

pub(super) const FORMAT: Format = Format { agent: Agent::Cline, shows, homes, list, read };

fn shows(glimpse: &Glimpse<'_>) -> bool {
    tasks::task_of(glimpse.path).is_some_and(|task| tasks::owner(&task) == Agent::Cline)
}

fn homes(machine: &Machine) -> Vec<PathBuf> {
    tasks::homes(machine, EXTENSION)
}

fn list(home: &Path) -> Vec<Place> {
    tasks::list(home, Agent::Cline)
}

fn read(place: &Place, asked: &Asked) -> Result<Session, Unread> {
    let task = tasks::task_of(&place.path).unwrap_or_else(|| place.path.clone());
    let said = tasks::said(&task)?;
    let mut damage = Vec::new();
    let mut unknown = BTreeMap::new();
    let screen = tasks::screen(&task, &mut damage);
    let listed = listed(&task);
    let hidden = hidden(&listed, said.len());
    let turns: Vec<Turn> = (0..said.len())
        .filter(|at| {
            asked.extent == Extent::Whole || hidden.is_none_or(|(first, last)| *at < first || *at > last)
        })
        .filter_map(|at| tasks::turn(&said[at], &Origin::Id(at.to_string()), &mut unknown))
        .collect();
    let turns = tasks::settled(turns);
    let details = tasks::Details::of(&said);
    let text = |name: &str| listed[name].as_str().map(str::to_owned);
    let own =
        said.iter().rev().find_map(|message| message["modelInfo"]["modelId"].as_str()).map(str::to_owned);
    let shown = || {
        screen.iter().rev().find_map(|message| message["modelInfo"]["modelId"].as_str()).map(str::to_owned)
    };
    let model = own.or_else(shown).or_else(|| text("modelId")).or(details.model);
    let times = || said.iter().chain(&screen).filter_map(tasks::moment);
    Ok(Session {
        agent: Agent::Cline,
        id: folder::name(&task).to_owned(),
        project: text("cwdOnTaskInitialization").or(details.project),
        title: text("task"),
        dialect: asked.dialect.unwrap_or(Dialect::Messages),
        system: None,
        tools: None,
        compactions: usize::from(hidden.is_some()),
        started: times().min(),
        updated: times().max(),
        requests: tasks::requests(&screen, &turns, model.as_deref()),
        model: asked.model.clone().or(model),
        turns,
        unknown,
        damage,
    })
}

/// The task's row in the list of all tasks, where there is one.
fn listed(task: &Path) -> Value {
    let list = task.parent().and_then(Path::parent).map(|storage| storage.join("state/taskHistory.json"));
    let rows: Vec<Value> = list.and_then(|list| tasks::document(&list).ok()).unwrap_or_default();
    rows.into_iter().find(|row| row["id"] == folder::name(task)).unwrap_or_default()
}

/// The turns that are not sent, first and last: all behind the first prompt and its reply, up to the end of the range.
fn hidden(listed: &Value, turns: usize) -> Option<(usize, usize)> {
    let last = usize::try_from(listed["conversationHistoryDeletedRange"][1].as_u64()?).ok()?;
    (last >= 2 && last + 1 < turns).then_some((2, last))
}
