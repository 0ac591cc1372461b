//! What an exchange did: read once from its tool's name, its arguments and its results, for all who name it.
//!
//! ```text
//! bash {"command":"sed -n '10,40p' src/a.rs"} → …     Run `sed -n '10,40p' src/a.rs`; shows src/a.rs, lines 10 to 40
//! Edit {"file_path":"src/a.rs", …}            → …     Edit src/a.rs
//! ```
//!
//! A long result is only looked at where it opens and where it ends.
//!
//! It may use `digest`, `tools` and what is below them.

mod change;
mod edits;
mod patch;
mod script;
pub(crate) mod spoken;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::clip::on_one_line;
use crate::digest::{self, Ended};
use crate::known::ContentKey;
use crate::texts::is_cut;
use crate::tools::{Call, Family};
use crate::transcript::{Block, BlockKind, Exchange, Transcript, UnitKind};

pub use crate::digest::{Outcome, TestCounts};
pub use change::{Change, Side};
pub(crate) use change::{into_open_file, mark};
pub(crate) use edits::changes;

/// What an exchange did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// The tool's name as the agent writes it; empty where none is known.
    pub tool: String,
    /// What it does.
    pub verb: Verb,
    /// What a reader would name: the path, the command on one line, the query, the address, else the arguments. None where the call is only words
    /// inside the reply.
    pub target: Option<String>,
    /// What tells the call from others: the same for the same thing asked, white space apart.
    pub(crate) key: Option<ContentKey>,
    /// The files that the call names, in its order; whether it got through is said by the outcome.
    pub files: Vec<Touch>,
    /// The one file whose text the result is, where it is nothing else.
    pub shows: Option<String>,
    /// The lines of it that were asked for, from 1; none: all of them.
    pub lines: Option<(usize, usize)>,
    /// Whether it worked.
    pub outcome: Outcome,
    /// Whether it only looked at something.
    pub looks: bool,
    /// What a script does besides writing files and looking at things.
    pub tries: Option<String>,
    /// The exit status of what was run.
    pub exit: Option<i64>,
    /// The counts of a test run.
    pub tests: Option<TestCounts>,
}

/// What a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads a file.
    Read,
    /// Writes a whole file.
    Write,
    /// Changes a file, or takes it away.
    Edit,
    /// Looks for something, in files or on the web.
    Search,
    /// Lists names.
    List,
    /// Runs a command or code.
    Run,
    /// Fetches a page.
    Fetch,
    /// Acts in a browser.
    Browse,
    /// Has somebody else do something.
    Delegate,
    /// Notes something, or looks up what was noted.
    Note,
    /// Anything else.
    Other,
}

/// A file that a call names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Touch {
    /// As the call writes it, below the folder that its own script changed to.
    pub path: String,
    /// What it does to it.
    pub how: Touched,
}

/// What is done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Touched {
    /// Its text is read.
    Read,
    /// It is written from its beginning.
    Created,
    /// It is changed.
    Edited,
    /// It is taken away.
    Deleted,
    /// It is put back as it was.
    Restored,
}

/// The actions of a transcript, beside its units.
#[derive(Debug, Clone, Default)]
pub struct Actions {
    by_unit: Vec<Vec<Arc<Action>>>,
}

impl Actions {
    /// Reads every exchange.
    #[must_use]
    pub fn of(transcript: &Transcript<'_>) -> Self {
        let of_unit = |kind: &UnitKind<'_>| match kind {
            UnitKind::Step { reply, exchanges } => {
                exchanges.iter().map(|exchange| Arc::new(Action::of(exchange, reply))).collect()
            }
            _ => Vec::new(),
        };
        Self { by_unit: transcript.units.iter().map(|unit| of_unit(&unit.kind)).collect() }
    }

    /// Those of somebody who read them before: each with its unit, oldest first.
    pub(crate) fn read_before(actions: impl Iterator<Item = (usize, Arc<Action>)>) -> Self {
        let mut by_unit: Vec<Vec<Arc<Action>>> = Vec::new();
        for (unit, action) in actions {
            by_unit.resize_with(by_unit.len().max(unit + 1), Vec::new);
            by_unit[unit].push(action);
        }
        Self { by_unit }
    }

    /// The actions of a unit, one for each of its exchanges.
    #[must_use]
    pub fn of_unit(&self, unit: usize) -> &[Arc<Action>] {
        self.by_unit.get(unit).map_or(&[], Vec::as_slice)
    }

    /// Every action with its unit and its place among the unit's exchanges, oldest first.
    #[must_use = "an iterator does nothing by itself"]
    pub fn all(&self) -> impl DoubleEndedIterator<Item = (usize, usize, &Action)> {
        let units = self.by_unit.iter().enumerate();
        units.flat_map(|(unit, actions)| {
            actions.iter().enumerate().map(move |(at, action)| (unit, at, &**action))
        })
    }
}

/// How much of a target is said.
const TARGET_WIDTH: usize = 200;

/// The arguments of a call: those of the tool channel, or those that the reply before the results writes in words.
#[must_use]
pub fn arguments<'b>(exchange: &Exchange<'b>, reply: &[Block<'b>]) -> Option<Cow<'b, str>> {
    exchange.call.as_ref().map(Block::text).or_else(|| {
        let last = reply.iter().rfind(|block| block.kind == BlockKind::Text)?;
        spoken::call(&exchange.tool, &last.text()).map(|(_, arguments)| arguments.into())
    })
}

impl Action {
    /// Reads an exchange behind the reply that it belongs to.
    #[must_use]
    pub fn of(exchange: &Exchange<'_>, reply: &[Block<'_>]) -> Self {
        Self::with(exchange, arguments(exchange, reply).as_deref()).0
    }

    /// Reads an exchange with these arguments, and what its script does to the lines of files.
    pub(crate) fn with(exchange: &Exchange<'_>, arguments: Option<&str>) -> (Self, Vec<Change>) {
        let call = Call::of(Some(&*exchange.tool).filter(|tool| !tool.is_empty()), arguments);
        let ended = ended(exchange, &call);
        let Files { touched: files, shows, lines, looks, tries, changes } =
            files(&call, arguments.unwrap_or_default());
        let asked = target(&call);
        let key = asked.as_deref().filter(|asked| !is_cut(asked)).map(key);
        let target =
            asked.map(|target| on_one_line(&target, TARGET_WIDTH)).filter(|target| !target.is_empty());
        let action = Self {
            tool: exchange.tool.clone().into_owned(),
            verb: verb(&call),
            key,
            target: target.or_else(|| files.first().map(|touch| touch.path.clone())),
            files,
            shows,
            lines,
            looks,
            tries,
            outcome: ended.outcome,
            exit: ended.exit,
            tests: ended.tests,
        };
        (action, changes)
    }
}

fn key(asked: &str) -> ContentKey {
    let words: String = asked.split_whitespace().flat_map(|word| [word, " "]).collect();
    ContentKey::of(0, words.as_bytes())
}

fn verb(call: &Call) -> Verb {
    match call.family {
        Some(Family::Read) => Verb::Read,
        Some(Family::Write) => Verb::Write,
        Some(Family::Edit) => Verb::Edit,
        Some(Family::Search | Family::WebSearch) => Verb::Search,
        Some(Family::List) => Verb::List,
        Some(Family::Run | Family::Code) => Verb::Run,
        Some(Family::Fetch) => Verb::Fetch,
        Some(Family::Browser) => Verb::Browse,
        Some(Family::Delegate) => Verb::Delegate,
        Some(Family::Todo | Family::Memory) => Verb::Note,
        None if call.deletes() => Verb::Edit,
        None => Verb::Other,
    }
}

fn target(call: &Call) -> Option<String> {
    match call.family {
        Some(Family::Read | Family::Write | Family::Edit | Family::List) => call.path(),
        Some(Family::Search) => call.pattern().or_else(|| call.path()),
        Some(Family::WebSearch) => call.web_query(),
        Some(Family::Run | Family::Code) => call.command(),
        Some(Family::Fetch | Family::Browser) => call.address(),
        Some(Family::Delegate) => call.task(),
        Some(Family::Memory) => call.note(),
        Some(Family::Todo) => None,
        None => {
            let named = call.path().or_else(|| call.pattern()).or_else(|| call.address());
            named.or_else(|| Some(call.named_arguments()))
        }
    }
}

/// What a call has to do with files.
#[derive(Default)]
struct Files {
    touched: Vec<Touch>,
    /// The one that its result shows, and the lines of it.
    shows: Option<String>,
    lines: Option<(usize, usize)>,
    looks: bool,
    tries: Option<String>,
    /// What a script does to their lines.
    changes: Vec<Change>,
}

fn files(call: &Call, arguments: &str) -> Files {
    let each = |how: Touched| {
        let plain = |path: String| path.strip_prefix("./").map(str::to_owned).unwrap_or(path);
        call.paths().into_iter().map(|path| Touch { path: plain(path), how }).collect::<Vec<_>>()
    };
    let touching = |touched| Files { touched, ..Files::default() };
    match call.family {
        Some(Family::Run) => {
            let script = call.command().map(|command| script::read(&command)).unwrap_or_default();
            let (shows, lines) = script.shows.unzip();
            Files {
                touched: script.files,
                shows,
                lines: lines.flatten(),
                looks: script.looks,
                tries: Some(script.tries),
                changes: script.changes,
            }
        }
        Some(Family::Read) => {
            let files = each(Touched::Read);
            let shows = match files.as_slice() {
                [one] => Some(one.path.clone()),
                _ => None,
            };
            Files { touched: files, shows, lines: call.lines(), looks: true, ..Files::default() }
        }
        Some(Family::Search | Family::List | Family::WebSearch | Family::Todo | Family::Memory) => {
            Files { looks: true, ..Files::default() }
        }
        Some(Family::Write) => touching(each(Touched::Created)),
        Some(Family::Edit) => {
            let files = each(Touched::Edited);
            touching(if files.is_empty() { patched(call, arguments) } else { files })
        }
        None if call.deletes() => touching(each(Touched::Deleted)),
        _ => Files::default(),
    }
}

/// The files of an edit that is a patch: in an argument, in the bare input, or by path in an object.
fn patched(call: &Call, arguments: &str) -> Vec<Touch> {
    if let Some(Value::Object(changes)) = call.arguments.get("changes") {
        let how = |change: &Value| match change {
            Value::Object(kind) if kind.contains_key("add") => Touched::Created,
            Value::Object(kind) if kind.contains_key("delete") => Touched::Deleted,
            _ => Touched::Edited,
        };
        return changes.iter().map(|(path, change)| Touch { path: path.clone(), how: how(change) }).collect();
    }
    let patch = call.argument(&["input", "patch", "diff", "patch_text", "command"]);
    patch::touches(patch.as_deref().unwrap_or(arguments))
}

/// How much of a long result is looked at: a run says at its end how it went, a read that failed says so at once.
const RUN_GLANCE: (usize, usize) = (2_000, 6_000);
const READ_GLANCE: (usize, usize) = (1_000, 500);

fn ended(exchange: &Exchange<'_>, call: &Call) -> Ended {
    if exchange.answers.is_empty() && exchange.results.is_empty() {
        return Ended::UNANSWERED;
    }
    let glance = match call.family {
        Some(Family::Read | Family::Search | Family::List | Family::WebSearch | Family::Fetch) => READ_GLANCE,
        _ => RUN_GLANCE,
    };
    let words: Vec<&Block<'_>> =
        exchange.results.iter().filter(|block| block.kind == BlockKind::Text).collect();
    let said = exchange.failed;
    // What was shortened before tells its outcome block by block.
    if words.len() > 1 && words.iter().any(|block| block.opening(1).starts_with('[')) {
        let each = words.iter().map(|block| digest::ended(call, &looked_at(block, block, glance), said));
        return each.reduce(Ended::and).unwrap_or(Ended::UNANSWERED);
    }
    let text = match words.as_slice() {
        [] => Cow::Borrowed(""),
        [first, ..] => looked_at(first, words.last().unwrap_or(first), glance),
    };
    let ended = digest::ended(call, &text, said);
    // Runs of many binaries have a summary for each, all over their output.
    let whole = ended
        .tests
        .and_then(|_| words.iter().filter_map(|block| TestCounts::of_cargo(block.raw())).next_back());
    Ended { tests: whole.or(ended.tests), ..ended }
}

/// The opening of one block and the ending of another, or all of a short one.
fn looked_at<'b>(first: &Block<'b>, last: &Block<'b>, (start, end): (usize, usize)) -> Cow<'b, str> {
    let is_short = std::ptr::eq(first, last) && first.text.is_none_or(|text| text.at.len() <= start + end);
    if is_short {
        return first.text();
    }
    let (opening, ending) = (first.opening(start), last.ending(end));
    let opening = opening.rsplit_once('\n').map_or(&*opening, |(whole, _)| whole);
    let ending = ending.split_once('\n').map_or(&*ending, |(_, whole)| whole);
    Cow::Owned(format!("{opening}\n{ending}"))
}
