//! Works out what a tool call did, from the tool's name, its arguments and its results. Every module that
//! names a tool call uses this reading of it.
//!
//! ```text
//! bash {"command":"sed -n '10,40p' src/a.rs"} → …     Run `sed -n '10,40p' src/a.rs`; shows src/a.rs, lines 10 to 40
//! Edit {"file_path":"src/a.rs", …}            → …     Edit src/a.rs
//! ```
//!
//! Only both ends of a long result are read.
//!
//! This module may use `digest`, `tools` and the layers below them.

mod edit_arguments;
mod file_change;
mod patch;
mod shell_script;
#[cfg(test)]
mod tests;
pub(crate) mod text_call;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::block_cache::ContentKey;
use crate::digest::{self, CallOutcome};
use crate::texts::ends_with_cut_placeholder;
use crate::tools::{ParsedCall, ToolFamily};
use crate::transcript::{Block, BlockKind, ToolCall, Transcript, TurnKind};
use crate::truncate::to_one_line;

pub use crate::digest::{Outcome, TestCounts};
pub(crate) use edit_arguments::file_changes;
pub use file_change::{ChangedLines, FileChange};
pub(crate) use file_change::{editor_change, line_hash};

/// The action of one tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// The tool's name as the agent writes it, or an empty string if it is unknown.
    pub tool: String,
    /// The kind of action.
    pub verb: Verb,
    /// The target that a reader would name: the path, the command on one line, the query, the address, or
    /// else the arguments. It is `None` if the arguments have none of these.
    pub target: Option<String>,
    /// The hash of the full request, ignoring white space, by which repeated requests are recognized. It is
    /// `None` if there is no request, or if it was cut earlier.
    pub(crate) request_key: Option<ContentKey>,
    /// The files that the call names, in its order. Whether the call worked is in `outcome`.
    pub files: Vec<TouchedFile>,
    /// The file whose text the result is, if the result has nothing else.
    pub shown_file: Option<String>,
    /// The first and last line of that file that were requested, counted from 1; `None` for the whole file.
    pub shown_lines: Option<(usize, usize)>,
    /// Whether the call worked.
    pub outcome: Outcome,
    /// Whether the call only read something or kept notes.
    pub is_read_only: bool,
    /// The commands of a shell script that do more than write or read files; empty if there are none, and
    /// `None` for other tools.
    pub main_commands: Option<String>,
    /// The exit status that the result reports.
    pub exit_status: Option<i64>,
    /// The test counts that the result reports.
    pub test_counts: Option<TestCounts>,
}

/// The kind of action that a tool performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// The tool reads a file.
    Read,
    /// The tool writes a whole file.
    Write,
    /// The tool changes or deletes a file.
    Edit,
    /// The tool searches in files or on the web.
    Search,
    /// The tool lists files or folders.
    List,
    /// The tool runs a command or code.
    Run,
    /// The tool fetches a web page.
    Fetch,
    /// The tool acts in a browser.
    Browse,
    /// The tool gives a task to another agent.
    Delegate,
    /// The tool writes or reads a note or a task list.
    Note,
    /// The tool does something else.
    Other,
}

/// A file that a tool call names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TouchedFile {
    /// The path as the call writes it, joined to the folder that its own script changed to.
    pub path: String,
    /// The operation that the call requests on the file.
    pub operation: FileOperation,
}

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileOperation {
    /// The file's text is read.
    Read,
    /// The whole file is written.
    Created,
    /// The file is changed.
    Edited,
    /// The file is deleted.
    Deleted,
    /// The file is restored to an earlier version.
    Restored,
}

/// The actions of all tool calls of a transcript, by turn.
#[derive(Debug, Clone, Default)]
pub struct Actions {
    by_turn: Vec<Vec<Arc<Action>>>,
}

impl Actions {
    /// Reads the actions of all tool calls.
    #[must_use]
    pub fn from_transcript(transcript: &Transcript<'_>) -> Self {
        let of_unit = |kind: &TurnKind<'_>| match kind {
            TurnKind::Assistant { reply, tool_calls } => {
                tool_calls.iter().map(|tool_call| Arc::new(Action::from_call(tool_call, reply))).collect()
            }
            _ => Vec::new(),
        };
        Self { by_turn: transcript.turns.iter().map(|turn| of_unit(&turn.kind)).collect() }
    }

    /// Groups actions that were read before, each given with the index of its turn, oldest first.
    pub(crate) fn from_cached(actions: impl Iterator<Item = (usize, Arc<Action>)>) -> Self {
        let mut by_unit: Vec<Vec<Arc<Action>>> = Vec::new();
        for (turn, action) in actions {
            by_unit.resize_with(by_unit.len().max(turn + 1), Vec::new);
            by_unit[turn].push(action);
        }
        Self { by_turn: by_unit }
    }

    /// Returns the actions of a turn, one for each of its tool calls.
    #[must_use]
    pub fn in_turn(&self, turn: usize) -> &[Arc<Action>] {
        self.by_turn.get(turn).map_or(&[], Vec::as_slice)
    }

    /// Returns every action with the index of its turn and its index among the turn's tool calls, oldest
    /// first.
    #[must_use = "an iterator does nothing by itself"]
    pub fn all(&self) -> impl DoubleEndedIterator<Item = (usize, usize, &Action)> {
        let turns = self.by_turn.iter().enumerate();
        turns.flat_map(|(turn, actions)| actions.iter().enumerate().map(move |(at, action)| (turn, at, &**action)))
    }
}

/// The characters of a target that are stored. Chosen by hand.
const MAX_TARGET_CHARS: usize = 200;

/// Returns the arguments of a call: those of the tool call itself, or those of a call that the reply before
/// the results writes as text.
#[must_use]
pub fn call_arguments<'b>(tool_call: &ToolCall<'b>, reply: &[Block<'b>]) -> Option<Cow<'b, str>> {
    tool_call.call.as_ref().map(Block::text).or_else(|| {
        let last = reply.iter().rfind(|block| block.kind == BlockKind::Text)?;
        text_call::parse_call(&tool_call.tool, &last.text()).map(|(_, arguments)| arguments.into())
    })
}

impl Action {
    /// Reads the action of a tool call in the turn with this reply.
    #[must_use]
    pub fn from_call(tool_call: &ToolCall<'_>, reply: &[Block<'_>]) -> Self {
        Self::from_arguments(tool_call, call_arguments(tool_call, reply).as_deref()).0
    }

    /// Reads the action of a tool call with these arguments, and the file changes that its shell script
    /// shows.
    pub(crate) fn from_arguments(tool_call: &ToolCall<'_>, arguments: Option<&str>) -> (Self, Vec<FileChange>) {
        let call = ParsedCall::parse(Some(&*tool_call.tool).filter(|tool| !tool.is_empty()), arguments);
        let ended = outcome_of_call(tool_call, &call);
        let FileEffects {
            touched: files,
            shown_file: shows,
            shown_lines: lines,
            is_read_only: looks,
            main_commands: tries,
            changes,
        } = file_effects(&call, arguments.unwrap_or_default());
        let asked = target_of(&call);
        let key = asked.as_deref().filter(|asked| !ends_with_cut_placeholder(asked)).map(request_key);
        let target = asked.map(|target| to_one_line(&target, MAX_TARGET_CHARS)).filter(|target| !target.is_empty());
        let action = Self {
            tool: tool_call.tool.clone().into_owned(),
            verb: verb_of(&call),
            request_key: key,
            target: target.or_else(|| files.first().map(|touch| touch.path.clone())),
            files,
            shown_file: shows,
            shown_lines: lines,
            is_read_only: looks,
            main_commands: tries,
            outcome: ended.outcome,
            exit_status: ended.exit_status,
            test_counts: ended.test_counts,
        };
        (action, changes)
    }
}

fn request_key(asked: &str) -> ContentKey {
    let words: String = asked.split_whitespace().flat_map(|word| [word, " "]).collect();
    ContentKey::new(0, words.as_bytes())
}

fn verb_of(call: &ParsedCall) -> Verb {
    match call.family {
        Some(ToolFamily::Read) => Verb::Read,
        Some(ToolFamily::Write) => Verb::Write,
        Some(ToolFamily::Edit) => Verb::Edit,
        Some(ToolFamily::Search | ToolFamily::WebSearch) => Verb::Search,
        Some(ToolFamily::List) => Verb::List,
        Some(ToolFamily::Run | ToolFamily::Code) => Verb::Run,
        Some(ToolFamily::Fetch) => Verb::Fetch,
        Some(ToolFamily::Browser) => Verb::Browse,
        Some(ToolFamily::Delegate) => Verb::Delegate,
        Some(ToolFamily::Todo | ToolFamily::Memory) => Verb::Note,
        None if call.deletes_files() => Verb::Edit,
        None => Verb::Other,
    }
}

fn target_of(call: &ParsedCall) -> Option<String> {
    match call.family {
        Some(ToolFamily::Read | ToolFamily::Write | ToolFamily::Edit | ToolFamily::List) => call.path(),
        Some(ToolFamily::Search) => call.pattern().or_else(|| call.path()),
        Some(ToolFamily::WebSearch) => call.web_query(),
        Some(ToolFamily::Run | ToolFamily::Code) => call.command(),
        Some(ToolFamily::Fetch | ToolFamily::Browser) => call.web_target(),
        Some(ToolFamily::Delegate) => call.task(),
        Some(ToolFamily::Memory) => call.memory_note(),
        Some(ToolFamily::Todo) => None,
        None => {
            let named = call.path().or_else(|| call.pattern()).or_else(|| call.web_target());
            named.or_else(|| Some(call.named_arguments()))
        }
    }
}

/// The effects of a call on files.
#[derive(Default)]
struct FileEffects {
    touched: Vec<TouchedFile>,
    /// The file whose text the result shows.
    shown_file: Option<String>,
    shown_lines: Option<(usize, usize)>,
    is_read_only: bool,
    main_commands: Option<String>,
    /// The changes that a shell script makes.
    changes: Vec<FileChange>,
}

fn file_effects(call: &ParsedCall, arguments: &str) -> FileEffects {
    let each = |how: FileOperation| {
        let plain = |path: String| path.strip_prefix("./").map(str::to_owned).unwrap_or(path);
        call.paths().into_iter().map(|path| TouchedFile { path: plain(path), operation: how }).collect::<Vec<_>>()
    };
    let touching = |touched| FileEffects { touched, ..FileEffects::default() };
    match call.family {
        Some(ToolFamily::Run) => {
            let script = call.command().map(|command| shell_script::analyze_script(&command)).unwrap_or_default();
            let (shows, lines) = script.shown_file.unzip();
            FileEffects {
                touched: script.touched,
                shown_file: shows,
                shown_lines: lines.flatten(),
                is_read_only: script.is_read_only,
                main_commands: Some(script.main_commands),
                changes: script.changes,
            }
        }
        Some(ToolFamily::Read) => {
            let files = each(FileOperation::Read);
            let shows = match files.as_slice() {
                [one] => Some(one.path.clone()),
                _ => None,
            };
            FileEffects {
                touched: files,
                shown_file: shows,
                shown_lines: call.line_range(),
                is_read_only: true,
                ..FileEffects::default()
            }
        }
        Some(ToolFamily::Search | ToolFamily::List | ToolFamily::WebSearch | ToolFamily::Todo | ToolFamily::Memory) => {
            FileEffects { is_read_only: true, ..FileEffects::default() }
        }
        Some(ToolFamily::Write) => touching(each(FileOperation::Created)),
        Some(ToolFamily::Edit) => {
            let files = each(FileOperation::Edited);
            touching(if files.is_empty() { patched_files(call, arguments) } else { files })
        }
        None if call.deletes_files() => touching(each(FileOperation::Deleted)),
        _ => FileEffects::default(),
    }
}

/// Returns the files of a patch. The patch is an argument, the bare input, or an object with paths as keys.
fn patched_files(call: &ParsedCall, arguments: &str) -> Vec<TouchedFile> {
    if let Some(Value::Object(changes)) = call.arguments.get("changes") {
        let how = |change: &Value| match change {
            Value::Object(kind) if kind.contains_key("add") => FileOperation::Created,
            Value::Object(kind) if kind.contains_key("delete") => FileOperation::Deleted,
            _ => FileOperation::Edited,
        };
        return changes
            .iter()
            .map(|(path, change)| TouchedFile { path: path.clone(), operation: how(change) })
            .collect();
    }
    let patch = call.argument(&["input", "patch", "diff", "patch_text", "command"]);
    patch::touched_files(patch.as_deref().unwrap_or(arguments))
}

/// The bytes at the start and at the end of a long result that are read, except after a read or search. A run
/// reports its outcome at its end. Chosen by hand.
const RUN_EDGE_BYTES: (usize, usize) = (2_000, 6_000);
/// The bytes at the start and at the end of a long result that are read after a read or search, which reports
/// a failure at its start. Chosen by hand.
const READ_EDGE_BYTES: (usize, usize) = (1_000, 500);

fn outcome_of_call(tool_call: &ToolCall<'_>, call: &ParsedCall) -> CallOutcome {
    if tool_call.result_elements.is_empty() && tool_call.results.is_empty() {
        return CallOutcome::UNANSWERED;
    }
    let glance = match call.family {
        Some(ToolFamily::Read | ToolFamily::Search | ToolFamily::List | ToolFamily::WebSearch | ToolFamily::Fetch) => {
            READ_EDGE_BYTES
        }
        _ => RUN_EDGE_BYTES,
    };
    let words: Vec<&Block<'_>> = tool_call.results.iter().filter(|block| block.kind == BlockKind::Text).collect();
    let said = tool_call.failed;
    // In a result that was shortened earlier, each block reports an outcome of its own.
    if words.len() > 1 && words.iter().any(|block| block.opening(1).starts_with('[')) {
        let each = words.iter().map(|block| digest::call_outcome(call, &edges_of_text(block, block, glance), said));
        return each.reduce(CallOutcome::combine).unwrap_or(CallOutcome::UNANSWERED);
    }
    let text = match words.as_slice() {
        [] => Cow::Borrowed(""),
        [first, ..] => edges_of_text(first, words.last().unwrap_or(first), glance),
    };
    let ended = digest::call_outcome(call, &text, said);
    // A run of several test binaries prints one summary for each, anywhere in its output.
    let whole = ended
        .test_counts
        .and_then(|_| words.iter().filter_map(|block| TestCounts::sum_cargo_summaries(block.raw())).next_back());
    CallOutcome { test_counts: whole.or(ended.test_counts), ..ended }
}

/// Joins the start of one block and the end of another, in whole lines. Returns all of a short block.
fn edges_of_text<'b>(first: &Block<'b>, last: &Block<'b>, (start, end): (usize, usize)) -> Cow<'b, str> {
    let is_short = std::ptr::eq(first, last) && first.text.is_none_or(|text| text.at.len() <= start + end);
    if is_short {
        return first.text();
    }
    let (opening, ending) = (first.opening(start), last.ending(end));
    let opening = opening.rsplit_once('\n').map_or(&*opening, |(whole, _)| whole);
    let ending = ending.split_once('\n').map_or(&*ending, |(_, whole)| whole);
    Cow::Owned(format!("{opening}\n{ending}"))
}
