//! Evidence of one tool call: its action, the key lines of its result, and its changes to files.

use std::sync::Arc;

use crate::action::{self, Action, ChangedLines, FileChange, FileOperation, Outcome, Verb};
use crate::block_cache::Cacheable;
use crate::digest::{self, OutputKind};
use crate::shell::{self, Command};
use crate::tools::{self, ParsedCall};
use crate::transcript::{BlockKind, ToolCall};
use crate::truncate::first_bytes;

use super::key_lines::KeyLines;
use super::named_values::{self, NamedValue};
use super::tasks::{self, Task};
use super::weights::{MAX_COMMAND_BYTES, RESULT_EDGE_BYTES};
use super::words::{EVIDENCE_WORDS, contains_any};

/// The action of a tool call, with the file changes that its shell script shows.
#[derive(Debug)]
pub(crate) struct ActionWithChanges {
    pub(crate) action: Arc<Action>,
    changes: Vec<FileChange>,
}

impl ActionWithChanges {
    pub(super) fn new(tool_call: &ToolCall<'_>, arguments: Option<&str>) -> Self {
        let (action, changes) = Action::from_arguments(tool_call, arguments);
        Self { action: Arc::new(action), changes }
    }
}

impl Cacheable for ActionWithChanges {
    fn size_bytes(&self) -> usize {
        let files: usize = self.action.files.iter().map(|touch| touch.path.len() + 32).sum();
        200 + files + changes_size(&self.changes)
    }
}

/// Returns the memory of some changes, in bytes.
fn changes_size(changes: &[FileChange]) -> usize {
    let side = |side: &ChangedLines| {
        side.sampled.iter().map(|(_, line)| line.len()).sum::<usize>() + side.hashes.len() * size_of::<u32>()
    };
    changes.iter().map(|change| change.path.len() + side(&change.removed) + side(&change.added) + 96).sum()
}

/// The evidence of one tool call.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own about one call")]
pub(crate) struct ToolUse {
    pub(crate) action: Arc<Action>,
    /// The request in full: the command, path, query or arguments, cut at [`MAX_COMMAND_BYTES`].
    pub(crate) request: String,
    /// The command without its first `cd`, its comments and the redirection or cut of its output. Two runs
    /// with the same value count as the same command.
    pub(crate) normalized_command: String,
    /// The lines of the result that show how the call ended.
    pub(crate) key_lines: KeyLines,
    /// The changes that the call requests; see [`ToolUse::applied_changes`] for those that were made.
    pub(crate) changes: Vec<FileChange>,
    /// Whether the call edits files and does nothing else.
    pub(crate) is_edit: bool,
    /// Whether the tool reports that it did not apply the edit.
    pub(crate) is_refused: bool,
    /// The question that the call asks the user, with the answer from its result.
    pub(crate) question: Option<(String, Option<String>)>,
    /// Whether the agent submits its finished work with this call.
    pub(crate) submits_work: bool,
    /// Whether the call runs tests, a build or another check of the work.
    pub(crate) is_check: bool,
    /// The scripts that the call runs, as it writes their paths.
    pub(crate) ran_scripts: Vec<String>,
    /// The values in the arguments that identify something.
    pub(crate) values: Vec<NamedValue>,
    pub(super) tasks: Vec<Task>,
}

impl ToolUse {
    pub(super) fn new(tool_call: &ToolCall<'_>, arguments: Option<&str>, acted: &ActionWithChanges) -> Self {
        let action = Arc::clone(&acted.action);
        let call = ParsedCall::parse(Some(&*tool_call.tool).filter(|tool| !tool.is_empty()), arguments);
        let mut changes = action::file_changes(&call, arguments.unwrap_or_default(), acted.changes.clone());
        let result = tool_call.results.iter().find(|block| block.kind == BlockKind::Text);
        let opening = result.map(|block| block.opening(RESULT_EDGE_BYTES)).unwrap_or_default();
        let ending = result.map(|block| block.ending(RESULT_EDGE_BYTES)).unwrap_or_default();
        let command = call.command().filter(|_| action.verb == Verb::Run);
        let asked = command.clone().or_else(|| action.target.clone()).unwrap_or_default();
        let into_open_file = command.as_deref().and_then(|command| action::editor_change(command, &opening));
        let is_edit = into_open_file.is_some() || matches!(action.verb, Verb::Edit | Verb::Write);
        changes.extend(into_open_file);
        changes.retain(|change| !change.path.is_empty());
        let is_refused = is_edit && is_refused(&action, &opening, &ending, tool_call);
        let name = action.tool.rsplit("__").next().unwrap_or(&action.tool).to_lowercase();
        let asks = EVIDENCE_WORDS.asking_tools.contains(&name);
        let answer = result.filter(|_| asks).map(|block| block.text().into_owned());
        let tried = action.main_commands.as_deref().filter(|tries| !tries.is_empty()).unwrap_or(&asked);
        let is_known_check = matches!(digest::expected_kind(&call), Some(OutputKind::Tests | OutputKind::Build));
        let (same, asked) = (normalize_command(tried), if action.verb == Verb::Run { tried } else { &asked });
        Self {
            is_refused,
            is_edit,
            key_lines: KeyLines::extract(tool_call, &call.arguments, &action, is_refused),
            question: asks.then(|| (question_text(&call), answer)),
            is_check: action.verb == Verb::Run && (action.test_counts.is_some() || is_known_check),
            ran_scripts: command.as_deref().map(ran_scripts).unwrap_or_default(),
            values: if call.family.is_none() { named_values::values_of_arguments(&call.arguments) } else { Vec::new() },
            submits_work: EVIDENCE_WORDS.finishing_tools.contains(&name)
                || EVIDENCE_WORDS.finishing_tools.iter().any(|tool| asked.trim() == tool),
            tasks: if action.verb == Verb::Note {
                tasks::parse_tasks(arguments.unwrap_or_default())
            } else {
                Vec::new()
            },
            normalized_command: first_bytes(&same, MAX_COMMAND_BYTES).to_owned(),
            request: first_bytes(asked, MAX_COMMAND_BYTES).to_owned(),
            changes,
            action,
        }
    }

    /// Returns the file changes that were made. A script that fails at its end may have written files before,
    /// so its changes count; those of a refused edit do not.
    pub(crate) fn applied_changes(&self) -> &[FileChange] {
        if self.is_refused || self.action.outcome == Outcome::Unanswered { &[] } else { &self.changes }
    }

    /// Returns whether the call changed something that is no file, such as an order, and did not fail.
    pub(crate) fn changes_records(&self) -> bool {
        self.action.verb == Verb::Other
            && self.action.outcome != Outcome::Failed
            && self.action.outcome != Outcome::Unanswered
            && !tools::is_lookup_tool(&self.action.tool)
            && !self.action.is_read_only
            && !self.submits_work
            && !self.request.is_empty()
            && self.question.is_none()
    }

    /// Returns the approximate memory of the evidence, in bytes.
    pub(super) fn size(&self) -> usize {
        let todo: usize = self.tasks.iter().map(|item| item.text.len()).sum();
        let changes = changes_size(&self.changes);
        let scripts: usize = self.ran_scripts.iter().map(|path| path.len() + 24).sum();
        let values: usize = self.values.iter().map(|named| named.name.len() + named.value.len() + 48).sum();
        200 + changes
            + self.key_lines.size()
            + todo
            + scripts
            + values
            + self.request.len()
            + self.normalized_command.len()
    }

    /// Returns the paths that the call only read.
    pub(crate) fn read_paths(&self) -> impl Iterator<Item = &str> {
        let read = self.action.files.iter().filter(|touch| touch.operation == FileOperation::Read);
        let worked = self.action.outcome != Outcome::Failed;
        read.map(|touch| touch.path.as_str()).filter(move |path| worked && !path.is_empty())
    }
}

/// Returns whether the tool refused an edit. A tool may apply an edit and then report failing tests; one that
/// could not apply it reports that at either end of its result.
fn is_refused(action: &Action, opening: &str, ending: &str, tool_call: &ToolCall<'_>) -> bool {
    let opening = opening.to_lowercase();
    let first = opening.lines().take(2).collect::<Vec<_>>().join(" ");
    let says_so = || contains_any(&first, &EVIDENCE_WORDS.complaints);
    let ending = ending.to_lowercase();
    let mut surely = EVIDENCE_WORDS.refusals.iter().chain(&EVIDENCE_WORDS.undone).map(|words| words.to_lowercase());
    let surely = surely.any(|words| opening.contains(&words) || ending.contains(&words));
    let failed = action.outcome == Outcome::Failed && (tool_call.failed == Some(true) || says_so());
    surely || failed
}

/// Returns the scripts that a command runs: `python3 fix.py`, `bash ./setup.sh`, `./run`.
fn ran_scripts(command: &str) -> Vec<String> {
    let script = |part: &Command| {
        let name = part.words.first().map_or("", |word| word.text.as_str());
        let is_path =
            name.starts_with("./") || name.contains('/') && !name.starts_with("/usr/") && !name.starts_with("/bin/");
        if is_path {
            return Some(name.to_owned());
        }
        let runs_file = EVIDENCE_WORDS.interpreters.iter().any(|interpreter| part.name() == interpreter);
        let file = part.operands().find(|word| word.text.contains('.') && !word.text.contains(char::is_whitespace));
        file.filter(|_| runs_file).map(|word| word.text.clone())
    };
    shell::parse_commands(command).iter().filter_map(script).collect()
}

/// Returns the question in the arguments of a tool that asks the user.
fn question_text(call: &ParsedCall) -> String {
    call.argument(&["question", "prompt", "message", "text", "questions"]).unwrap_or_default()
}

/// Removes the parts of a command that do not affect its work: comments, an initial `cd`, and the redirection
/// or cut of its output.
fn normalize_command(command: &str) -> String {
    const SILENT: [&str; 2] = ["2>&1", "> /dev/null"];
    let lines = command.lines().filter(|line| !line.trim_start().starts_with('#'));
    let uncommented = lines.collect::<Vec<_>>().join("\n");
    let command = uncommented.trim();
    let commands = shell::parse_commands(command);
    let goes_away = |part: &Command| {
        part.name() == "cd" && part.operands().next().is_some_and(|to| to.text.starts_with(['/', '~']))
    };
    let first = commands.iter().position(|part| !goes_away(part)).unwrap_or_default();
    let start = commands[..first].last().map_or(0, |part| part.at.end);
    let silenced = commands
        .iter()
        .flat_map(|part| &part.redirect_offsets)
        .copied()
        .find(|at| SILENT.iter().any(|silent| command[*at..].starts_with(silent)));
    let cut = commands.windows(2).find(|pair| pair[0].is_piped && matches!(pair[1].name(), "head" | "tail"));
    let end = silenced.into_iter().chain(cut.map(|pair| pair[0].at.end)).min().unwrap_or(command.len());
    command[start..end.max(start)].trim_start_matches(['&', ';', '\n', ' ']).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_are_run_are_told_from_those_that_are_only_named() {
        assert_eq!(ran_scripts("cd /app && python3 fix.py --all"), ["fix.py"]);
        assert_eq!(ran_scripts("./run.sh; node --inspect lib/a.mjs | tail -3"), ["./run.sh", "lib/a.mjs"]);
        for command in
            ["cat fix.py", "rm fix.py", "git add fix.py", "python3 -c 'import a.b'", "python3 -m pytest tests"]
        {
            assert_eq!(ran_scripts(command), Vec::<String>::new(), "{command}");
        }
    }

    #[test]
    fn the_same_command_is_known_in_another_folder_and_with_its_output_cut() {
        for command in ["cd /a && npm test", "# Test it\ncd /a\nnpm test", "npm test 2>&1 | tail -5", "npm test"] {
            assert_eq!(normalize_command(command), "npm test");
        }
    }
}
