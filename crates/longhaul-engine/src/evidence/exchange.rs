//! What an exchange shows: its action, the lines that decided how it ended, and what it did to the lines of files.

use std::sync::Arc;

use crate::action::{self, Action, Change, Outcome, Side, Touched, Verb};
use crate::clip::start_within;
use crate::known::Remembered;
use crate::shell::{self, Command};
use crate::tools::Call;
use crate::transcript::{BlockKind, Exchange};

use super::todo::{self, Item};
use super::verdict::Verdict;
use super::words::{TABLE, has_any};

/// How much of a command is kept; less of it is shown.
const COMMAND: usize = 2_000;
/// How much of a result says that nothing was done, and shows which file is open.
const OPENING: usize = 600;

/// What an exchange did, with what its script does to the lines of files.
#[derive(Debug)]
pub(crate) struct Acted {
    pub(crate) action: Arc<Action>,
    changes: Vec<Change>,
}

impl Acted {
    pub(super) fn of(exchange: &Exchange<'_>, arguments: Option<&str>) -> Self {
        let (action, changes) = Action::with(exchange, arguments);
        Self { action: Arc::new(action), changes }
    }
}

impl Remembered for Acted {
    fn size(&self) -> usize {
        let files: usize = self.action.files.iter().map(|touch| touch.path.len() + 32).sum();
        200 + files + size_of_changes(&self.changes)
    }
}

/// The bytes that changes take.
fn size_of_changes(changes: &[Change]) -> usize {
    let side = |side: &Side| {
        side.telling.iter().map(|(_, line)| line.len()).sum::<usize>() + side.marks.len() * size_of::<u32>()
    };
    changes.iter().map(|change| change.path.len() + side(&change.out) + side(&change.into) + 96).sum()
}

/// An exchange, read.
#[derive(Debug)]
pub(crate) struct Did {
    pub(crate) action: Arc<Action>,
    /// What was asked for: the command, the path, the query, the arguments.
    pub(crate) asked: String,
    /// What tells the command from others, whatever folder it goes to first and however its output is cut.
    pub(crate) same: String,
    /// What decided how it ended.
    pub(crate) verdict: Verdict,
    /// What it did to files, if it did it.
    pub(crate) changes: Vec<Change>,
    /// Whether it edits files and does nothing else,
    pub(crate) is_edit: bool,
    /// and whether the tool says that it did not do it.
    pub(crate) is_refused: bool,
    /// A question that it put to the user, and the answer in its result.
    pub(crate) question: Option<(String, Option<String>)>,
    /// Whether the work is handed in by it.
    pub(crate) finishes: bool,
    pub(super) todo: Vec<Item>,
}

impl Did {
    pub(super) fn of(exchange: &Exchange<'_>, arguments: Option<&str>, acted: &Acted) -> Self {
        let action = Arc::clone(&acted.action);
        let call = Call::of(Some(&*exchange.tool).filter(|tool| !tool.is_empty()), arguments);
        let mut changes = action::changes(&call, arguments.unwrap_or_default(), acted.changes.clone());
        let result = exchange.results.iter().find(|block| block.kind == BlockKind::Text);
        let opening = result.map(|block| block.opening(OPENING)).unwrap_or_default();
        let ending = result.map(|block| block.ending(OPENING)).unwrap_or_default();
        let command = call.command().filter(|_| action.verb == Verb::Run);
        let asked = command.clone().or_else(|| action.target.clone()).unwrap_or_default();
        let into_open_file = command.as_deref().and_then(|command| action::into_open_file(command, &opening));
        let is_edit = into_open_file.is_some() || matches!(action.verb, Verb::Edit | Verb::Write);
        changes.extend(into_open_file);
        changes.retain(|change| !change.path.is_empty());
        let is_refused = is_edit && is_refused(&action, &opening, &ending, exchange);
        let name = action.tool.rsplit("__").next().unwrap_or(&action.tool).to_lowercase();
        let asks = TABLE.asking_tools.contains(&name);
        let answer = result.filter(|_| asks).map(|block| block.text().into_owned());
        let tried = action.tries.as_deref().filter(|tries| !tries.is_empty()).unwrap_or(&asked);
        let (same, asked) = (same_command(tried), if action.verb == Verb::Run { tried } else { &asked });
        Self {
            is_refused,
            is_edit,
            verdict: Verdict::of(exchange, &call.arguments, &action, is_refused),
            question: asks.then(|| (question(&call), answer)),
            finishes: TABLE.finishing_tools.contains(&name)
                || TABLE.finishing_tools.iter().any(|tool| asked.trim() == tool),
            todo: if action.verb == Verb::Note {
                todo::items(arguments.unwrap_or_default())
            } else {
                Vec::new()
            },
            same: start_within(&same, COMMAND).to_owned(),
            asked: start_within(asked, COMMAND).to_owned(),
            changes,
            action,
        }
    }

    /// The files that it changed. A script that fails at its end may have written before; a tool for files that fails has not.
    pub(crate) fn changed(&self) -> &[Change] {
        if self.is_refused || self.action.outcome == Outcome::Unanswered { &[] } else { &self.changes }
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        let todo: usize = self.todo.iter().map(|item| item.text.len()).sum();
        let changes = size_of_changes(&self.changes);
        200 + changes + self.verdict.size() + todo + self.asked.len() + self.same.len()
    }

    /// The paths that it only read.
    pub(crate) fn read(&self) -> impl Iterator<Item = &str> {
        let read = self.action.files.iter().filter(|touch| touch.how == Touched::Read);
        let worked = self.action.outcome != Outcome::Failed;
        read.map(|touch| touch.path.as_str()).filter(move |path| worked && !path.is_empty())
    }
}

/// A tool that changed a file and then shows that the tests fail did change it; one that could not says so at once.
fn is_refused(action: &Action, opening: &str, ending: &str, exchange: &Exchange<'_>) -> bool {
    let opening = opening.to_lowercase();
    let first = opening.lines().take(2).collect::<Vec<_>>().join(" ");
    let says_so = || has_any(&first, &TABLE.complaints);
    let ending = ending.to_lowercase();
    let mut surely = TABLE.refusals.iter().chain(&TABLE.undone).map(|words| words.to_lowercase());
    let surely = surely.any(|words| opening.contains(&words) || ending.contains(&words));
    let failed = action.outcome == Outcome::Failed && (exchange.failed == Some(true) || says_so());
    surely || failed
}

/// The question in the arguments of a tool that asks.
fn question(call: &Call) -> String {
    call.argument(&["question", "prompt", "message", "text", "questions"]).unwrap_or_default()
}

/// A command without what does not matter to what it does: comments, the folder it goes to first, what its output is cut to.
fn same_command(command: &str) -> String {
    const SILENT: [&str; 2] = ["2>&1", "> /dev/null"];
    let lines = command.lines().filter(|line| !line.trim_start().starts_with('#'));
    let uncommented = lines.collect::<Vec<_>>().join("\n");
    let command = uncommented.trim();
    let commands = shell::commands(command);
    let goes_away = |part: &Command| {
        part.name() == "cd" && part.operands().next().is_some_and(|to| to.text.starts_with(['/', '~']))
    };
    let first = commands.iter().position(|part| !goes_away(part)).unwrap_or_default();
    let start = commands[..first].last().map_or(0, |part| part.at.end);
    let silenced = commands
        .iter()
        .flat_map(|part| &part.redirected)
        .copied()
        .find(|at| SILENT.iter().any(|silent| command[*at..].starts_with(silent)));
    let cut = commands.windows(2).find(|pair| pair[0].piped && matches!(pair[1].name(), "head" | "tail"));
    let end = silenced.into_iter().chain(cut.map(|pair| pair[0].at.end)).min().unwrap_or(command.len());
    command[start..end.max(start)].trim_start_matches(['&', ';', '\n', ' ']).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_command_is_known_in_another_folder_and_with_its_output_cut() {
        for command in
            ["cd /a && npm test", "# Test it\ncd /a\nnpm test", "npm test 2>&1 | tail -5", "npm test"]
        {
            assert_eq!(same_command(command), "npm test");
        }
    }
}
