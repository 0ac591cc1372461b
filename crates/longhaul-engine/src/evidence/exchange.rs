//! What an exchange shows: its action, what went wrong in its own words, and what it tells about where the work stands.

use std::sync::Arc;

use memchr::memmem;

use crate::action::{Action, Outcome, Verb};
use crate::facts::{FactKind, Facts};
use crate::lines::clip;
use crate::transcript::{Block, BlockKind, Exchange};

use super::names::{self, is_unspaced};
use super::phrases::TABLE;
use super::state::{self, Sign};
use super::todo::{self, Item};

/// Error lines that are quoted, and how much of each.
const MOST_LINES: usize = 6;
const LINE_WIDTH: usize = 300;

/// Where no line says that it is an error, the last ones may.
const LAST_LINES: usize = 6;

/// How much of a result says that nothing was done.
const REFUSAL: usize = 200;

/// How much of a call says what it names.
const CALL_GLANCE: usize = 2_000;

/// An exchange, read.
#[derive(Debug)]
pub(crate) struct Did {
    pub(super) action: Arc<Action>,
    /// What went wrong: lines of the result, as they stand there.
    pub(super) errors: Vec<String>,
    /// Whether the tool says first of all that it did not do it.
    pub(super) is_refused: bool,
    /// What those lines name.
    pub(super) error_names: Vec<u64>,
    pub(super) signs: Vec<Sign>,
    pub(super) todo: Vec<Item>,
    pub(super) names: Vec<u64>,
    pub(super) ending: Ending,
}

/// What a call does to the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// The turn goes on.
    None,
    /// The work is reported as finished.
    Finishes,
    /// The user is asked.
    Asks(String),
}

impl Did {
    pub(super) fn of(exchange: &Exchange<'_>) -> Self {
        let action = Action::of(exchange);
        let call = exchange.call.as_ref().map(|call| call.opening(CALL_GLANCE)).unwrap_or_default();
        // The text of a file may speak of errors without being one.
        let is_text =
            action.shows.is_some() && action.exit.unwrap_or(0) == 0 && exchange.failed != Some(true);
        let failed = action.outcome == Outcome::Failed && !(is_text && action.verb == Verb::Run);
        let errors = if failed { errors(exchange) } else { Vec::new() };
        let arguments = || exchange.call.as_ref().map(Block::text).unwrap_or_default();
        let todo = if action.verb == Verb::Note { todo::items(&arguments()) } else { Vec::new() };
        Self {
            is_refused: is_refused(exchange, &action),
            signs: state::signs(exchange, &action),
            ending: ending(&action, exchange),
            names: names::names(&call),
            error_names: names::names(&errors.join("\n")),
            action: Arc::new(action),
            errors,
            todo,
        }
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        let files: usize = self.action.files.iter().map(|touch| touch.path.len() + 32).sum();
        let target = self.action.target.as_ref().map_or(0, String::len);
        let lines: usize = self.errors.iter().map(String::len).sum();
        let todo: usize = self.todo.iter().map(|item| item.text.len()).sum();
        200 + files + target + lines + todo + self.names.len() * 8
    }
}

/// A tool that changed a file and then shows that the tests fail did change it; one that could not says so at once.
fn is_refused(exchange: &Exchange<'_>, action: &Action) -> bool {
    const WORDS: [&str; 12] = [
        "error",
        "fail",
        "could not",
        "cannot",
        "can't",
        "no such",
        "not found",
        "did not",
        "invalid",
        "denied",
        "no changes",
        "no match",
    ];
    let first = exchange.results.iter().find(|block| block.kind == BlockKind::Text);
    let opening =
        || first.map(|block| clip(&block.opening(REFUSAL), REFUSAL).to_lowercase()).unwrap_or_default();
    let says_so =
        || opening().lines().next().is_some_and(|line| WORDS.iter().any(|word| line.contains(word)));
    action.outcome == Outcome::Failed && (exchange.failed == Some(true) || says_so())
}

fn ending(action: &Action, exchange: &Exchange<'_>) -> Ending {
    let name = action.tool.rsplit("__").next().unwrap_or(&action.tool).to_lowercase();
    let is_one_of = |names: &[String]| names.contains(&name);
    if is_one_of(&TABLE.asking_tools) {
        let arguments = exchange.call.as_ref().map(|call| call.opening(CALL_GLANCE)).unwrap_or_default();
        return Ending::Asks(question(&arguments));
    }
    let target = action.target.as_deref().unwrap_or_default();
    let finishes = TABLE.finishing_commands.iter().any(|command| target.contains(command.as_str()));
    if is_one_of(&TABLE.finishing_tools) || finishes { Ending::Finishes } else { Ending::None }
}

/// The question in the arguments of a tool that asks.
fn question(arguments: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(arguments).unwrap_or_default();
    let at = |value: &serde_json::Value| {
        ["question", "prompt", "message", "text"]
            .iter()
            .find_map(|key| value[*key].as_str().map(str::to_owned))
    };
    at(&value).or_else(|| at(&value["questions"][0])).unwrap_or_default()
}

/// The lines of a failed exchange's results that say what went wrong; none where nothing does, as when a search finds nothing.
fn errors(exchange: &Exchange<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut push = |line: &str| {
        let line = clip(line.trim(), LINE_WIDTH);
        if lines.len() < MOST_LINES && !lines.iter().any(|other| other == line) {
            lines.push(line.to_owned());
        }
    };
    for block in exchange.results.iter().filter(|block| block.kind == BlockKind::Text) {
        let text = block.text();
        let facts = Facts::of(&text);
        let specific =
            || facts.of_kind(FactKind::Error).filter(|fact| fact.is_specific() && !is_opening(&fact.text));
        specific().chain(facts.of_kind(FactKind::Failing)).for_each(|fact| push(&fact.text));
        if specific().next().is_none() {
            let is_status = |line: &str| {
                ["exit code", "exited with", "exit status"].iter().any(|status| line.contains(status))
            };
            let says =
                |line: &&str| !line.starts_with(['<', '(', '[']) && is_telling(line) && !is_status(line);
            let last: Vec<&str> =
                text.lines().rev().take(LAST_LINES).map(str::trim).filter(says).take(2).collect();
            last.into_iter().rev().for_each(&mut push);
        }
    }
    lines
}

/// Whether a line has enough in it to tell something: three words, or as much in a script that puts no spaces between them.
fn is_telling(line: &str) -> bool {
    const LETTERS: usize = 4;
    line.split_whitespace().nth(2).is_some()
        || line.chars().filter(|c| is_unspaced(*c)).nth(LETTERS).is_some()
}

/// What opens a stack trace or a list says nothing of what is below.
fn is_opening(line: &str) -> bool {
    let line = line.trim();
    let is_heading = line.ends_with(':') && line.split_whitespace().nth(2).is_none();
    is_heading || line.starts_with("Traceback (most recent call last)")
}

/// A command without what does not matter to what it does: the folder it goes to first, what its output is cut to.
pub(super) fn same_command(command: &str) -> &str {
    let mut command = command.trim();
    while command.starts_with("cd ") {
        let Some((_, rest)) = command.split_once("&&").or_else(|| command.split_once(';')) else { break };
        command = rest.trim_start();
    }
    let end = memmem::find(command.as_bytes(), b" 2>&1")
        .into_iter()
        .chain(memmem::find(command.as_bytes(), b" | tail"));
    let end = end.chain(memmem::find(command.as_bytes(), b" | head")).min().unwrap_or(command.len());
    command[..end].trim_end()
}
