//! The state of the work at the last summarized turn: what is asked for, what each changed file contains now, what was
//! checked since and how that ended, what is open, the values that later calls need, and what went round in circles.
//!
//! The lines state the present. They are computed from the calls and their outcomes, never from what somebody says of
//! them: a script's own message is not its result, and a change counts as checked only by a check that came later.

use std::collections::{HashMap, HashSet};

use super::exchanges::{Exchange, first_open_turn};
use super::input::CheckpointInput;
use super::net_changes::{NetFileChange, NetFileChanges};
use super::paths::is_same_file;
use super::weights::{
    FINDING_AGE_LOSS, MAX_CHECKS, MAX_STATE_CALLS, MAX_STATE_FILES, MAX_VALUE_NAMES, MAX_VALUES_PER_NAME, MIN_REPEATS,
    MIN_SENTENCE_FINDING_SCORE, RESTATED_SHARE, ROOT_SCORE, StateWeights,
};
use crate::action::{Outcome, Verb};
use crate::evidence::{EvidenceItem, KeySentence, Task, ToolUse, WordBag, printed_text};
use crate::shell;
use crate::tools::installs_something;

/// One line of the state.
pub(super) enum StateLine<'d> {
    /// The request that is being worked on, if its message does not stay in the request.
    Request(&'d EvidenceItem),
    /// A changed file with what it contains now, and the last check since the change.
    File(NetFileChange, Option<Check<'d>>),
    /// A changed file that the messages below change again, so that its content here would be out of date.
    FileChangedBelow(String),
    /// The checks since the last change, the newest first: those that passed, or those that did not.
    Checks(CheckGroup, Vec<Check<'d>>),
    /// The calls that changed something outside the files and did not fail, oldest first.
    Called(Vec<Check<'d>>),
    /// An edit that was refused, and that no later edit of the file replaced.
    RefusedEdit(&'d EvidenceItem),
    /// The task list of the agent.
    Tasks(&'d [Task]),
    /// The values of one name, the newest first.
    Values(Vec<(&'d str, Vec<&'d str>)>),
    /// What was done again and again.
    Repetition(Repetition<'d>),
    /// The paths of new files that only helped: scripts that were run, copies.
    HelperFiles(Vec<String>),
    /// The commands that installed something, oldest first.
    Installed(Vec<&'d str>),
    /// The last finding of the agent, by the index of the sentence.
    Finding(&'d EvidenceItem, usize),
    /// The last words of the agent before the cut.
    LastWords(&'d EvidenceItem),
}

/// The first words of a line, by which it is recognized in an earlier checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateLabel {
    Request,
    File,
    Passed,
    Failed,
    LastChecks,
    Called,
    RefusedEdit,
    Tasks,
    Values,
    Repetition,
    Helpers,
    Installed,
    Finding,
    LastWords,
}

impl StateLabel {
    const TABLE: [(Self, &'static str); 14] = [
        (Self::Request, "Request: "),
        (Self::File, "Changed "),
        (Self::Passed, "Passed since the last change: "),
        (Self::Failed, "Failing: "),
        (Self::LastChecks, "Last checks: "),
        (Self::Called, "Called: "),
        (Self::RefusedEdit, "Refused edit: "),
        (Self::Tasks, "Task list: "),
        (Self::Values, "Values: "),
        (Self::Repetition, "Repeated: "),
        (Self::Helpers, "Helper files: "),
        (Self::Installed, "Installed: "),
        (Self::Finding, "Finding: "),
        (Self::LastWords, "Last words of the agent: "),
    ];

    /// Returns the words that a line begins with.
    pub(super) fn words(self) -> &'static str {
        Self::TABLE.iter().find(|(label, _)| *label == self).map_or("", |(_, words)| words)
    }

    /// Returns the label of a line in a checkpoint; `None` if somebody else wrote it.
    pub(super) fn of_text(line: &str) -> Option<Self> {
        Self::TABLE.iter().find(|(_, words)| line.starts_with(words)).map(|(label, _)| *label)
    }

    pub(super) fn of_line(line: &StateLine<'_>) -> Self {
        match line {
            StateLine::Request(_) => Self::Request,
            StateLine::File(..) | StateLine::FileChangedBelow(_) => Self::File,
            StateLine::Checks(CheckGroup::Passed, _) => Self::Passed,
            StateLine::Checks(CheckGroup::Failed, _) => Self::Failed,
            StateLine::Checks(CheckGroup::WithoutChange, _) => Self::LastChecks,
            StateLine::Called(_) => Self::Called,
            StateLine::RefusedEdit(_) => Self::RefusedEdit,
            StateLine::Tasks(_) => Self::Tasks,
            StateLine::Values(_) => Self::Values,
            StateLine::Repetition(_) => Self::Repetition,
            StateLine::HelperFiles(_) => Self::Helpers,
            StateLine::Installed(_) => Self::Installed,
            StateLine::Finding(..) => Self::Finding,
            StateLine::LastWords(_) => Self::LastWords,
        }
    }
}

impl StateWeights {
    /// Returns the value of a line.
    pub(super) fn of(&self, line: &StateLine<'_>) -> f64 {
        match StateLabel::of_line(line) {
            StateLabel::Request => self.request,
            StateLabel::Passed | StateLabel::Failed | StateLabel::LastChecks => self.checks,
            StateLabel::Tasks => self.tasks,
            StateLabel::File => self.file,
            StateLabel::Called => self.called,
            StateLabel::RefusedEdit => self.refused_edit,
            StateLabel::Values => self.values,
            StateLabel::Finding => self.finding,
            StateLabel::Repetition => self.repetition,
            StateLabel::LastWords => self.last_words,
            StateLabel::Helpers => self.helper_files,
            StateLabel::Installed => self.installed,
        }
    }
}

/// A check, with the call that ran it last.
#[derive(Clone, Copy)]
pub(super) struct Check<'d> {
    pub(super) tool_use: &'d ToolUse,
    /// The index among all tool uses.
    pub(super) index: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckGroup {
    Passed,
    Failed,
    /// The last checks, because nothing was changed.
    WithoutChange,
}

/// Something that was done several times with the same result.
pub(super) enum Repetition<'d> {
    /// A file that was read this many times.
    Reads(&'d str, usize),
    /// An edit of a file that was refused this many times for the same reason.
    RefusedEdits(&'d str, usize),
    /// A command that failed this many times in the same way, with no change in between.
    Runs(&'d str, usize),
    /// The searches that found nothing, oldest first.
    EmptySearches(Vec<&'d str>),
}

/// The state, with what it already tells, so that the log does not repeat it.
pub(super) struct State<'d> {
    pub(super) lines: Vec<StateLine<'d>>,
    /// The indices of the tool uses whose outcome a line tells.
    pub(super) told_uses: Vec<usize>,
    /// The paths of the files whose content a line tells.
    pub(super) told_paths: Vec<String>,
    /// The paths of the helper files that a line lists.
    pub(super) told_helpers: Vec<String>,
}

/// The arguments with which a program prints its usage or its version and does nothing else.
const HELP_FLAGS: [&str; 4] = ["--help", "-h", "--version", "help"];

/// Computes the state of the summarized turns. `files` are the net changes over the whole session.
pub(super) fn compute<'d>(
    input: &CheckpointInput<'d>,
    exchanges: &[Exchange<'d>],
    files: &NetFileChanges,
    writer_runs: &HashSet<usize>,
    tasks: Option<&'d [Task]>,
) -> State<'d> {
    let mut state =
        State { lines: Vec::new(), told_uses: Vec::new(), told_paths: Vec::new(), told_helpers: Vec::new() };
    let active = exchanges.last().and_then(|exchange| exchange.request);
    let hidden = active.filter(|request| (input.is_summarized)(request.at.unit));
    state.lines.extend(hidden.map(StateLine::Request));
    let uses = SummarizedUses::new(input);
    let scripts = uses.ran_scripts();
    // What was submitted is the log's; the state is about the work after it.
    let first_open = first_open_turn(exchanges);
    let is_open = |file: &&NetFileChange| input.evidence.tool_uses[file.last_change].at.unit >= first_open;
    let changed = files.iter().filter(|file| file.is_changed() && uses.first_change(file).is_some()).filter(is_open);
    let (helpers, mut work): (Vec<&NetFileChange>, Vec<&NetFileChange>) =
        changed.partition(|file| is_helper(file, &scripts));
    // If only helpers were made, they are the work.
    let helpers = if work.is_empty() {
        work = helpers;
        Vec::new()
    } else {
        helpers
    };
    work.retain(|file| !(file.created && file.deleted));
    let checks = uses.checks(writer_runs);
    let last_change = work.iter().map(|file| file.last_change).max();
    work.sort_by_key(|file| std::cmp::Reverse(file.last_change));
    work.truncate(MAX_STATE_FILES);
    work.sort_by_key(|file| file.first_change);
    // What a file contains after all changes is wrong where some of them stand below: the log tells those before.
    let (below, work): (Vec<&NetFileChange>, Vec<&NetFileChange>) =
        work.into_iter().partition(|file| uses.is_changed_later(&file.path));
    state.lines.extend(below.into_iter().map(|file| StateLine::FileChangedBelow(file.path.clone())));
    state.told_paths = work.iter().map(|file| file.path.clone()).collect();
    state.told_helpers = helpers.iter().map(|file| file.path.clone()).collect();
    let several = work.len() > 1;
    let mut told_checks: HashSet<usize> = HashSet::new();
    for file in work {
        // Some tools run the tests with each edit.
        let own = uses
            .list
            .iter()
            .find(|(index, ..)| file.tested_in == Some(*index) && file.tested_in == Some(file.last_change));
        let own = own.map(|(index, _, tool_use)| Check { tool_use, index: *index });
        // A check after all changes has its own line.
        let is_told = |check: &Check<'_>| last_change.is_none_or(|change| check.index > change);
        let newest = checks.iter().find(|check| check.index > file.last_change && several);
        let since = newest.filter(|check| !is_told(check) && told_checks.insert(check.index)).copied();
        state.lines.push(StateLine::File(file.clone(), since.or(own)));
    }
    state.add_checks(&checks, last_change);
    state.add_called(&uses);
    state.add_refused_edit(&uses);
    state.lines.extend(tasks.filter(|tasks| !tasks.is_empty()).map(StateLine::Tasks));
    let values = uses.values();
    if !values.is_empty() {
        state.lines.push(StateLine::Values(values));
    }
    state.lines.extend(uses.repetitions().into_iter().map(StateLine::Repetition));
    let empty = uses.empty_searches(input);
    if empty.len() >= MIN_REPEATS {
        state.lines.push(StateLine::Repetition(Repetition::EmptySearches(empty)));
    }
    if !helpers.is_empty() {
        state.lines.push(StateLine::HelperFiles(helpers.iter().map(|file| file.path.clone()).collect()));
    }
    let installed: Vec<(usize, &str)> = uses.installs().collect();
    if !installed.is_empty() {
        state.told_uses.extend(installed.iter().map(|(index, _)| *index));
        state.lines.push(StateLine::Installed(installed.into_iter().map(|(_, command)| command).collect()));
    }
    state.add_words(input, exchanges);
    state
}

/// Returns whether a file only helped: it was made in this session, and run as a script or copied from another file.
fn is_helper(file: &NetFileChange, scripts: &[&str]) -> bool {
    let is_run = scripts.iter().any(|script| is_same_file(script.trim_start_matches("./"), &file.path));
    file.created && (is_run || file.copied_from.is_some())
}

impl<'d> State<'d> {
    fn add_checks(&mut self, checks: &[Check<'d>], last_change: Option<usize>) {
        let since: Vec<Check<'d>> =
            checks.iter().filter(|check| last_change.is_none_or(|change| check.index > change)).copied().collect();
        self.told_uses.extend(since.iter().take(2 * MAX_CHECKS).map(|check| check.index));
        let (failed, passed): (Vec<_>, Vec<_>) = since.into_iter().partition(Check::has_failed);
        let groups = match last_change {
            Some(_) => [(CheckGroup::Failed, failed), (CheckGroup::Passed, passed)],
            None => [(CheckGroup::Failed, failed), (CheckGroup::WithoutChange, passed)],
        };
        for (group, mut checks) in groups.into_iter().filter(|(_, checks)| !checks.is_empty()) {
            checks.truncate(MAX_CHECKS);
            self.lines.push(StateLine::Checks(group, checks));
        }
    }

    fn add_called(&mut self, uses: &SummarizedUses<'d>) {
        let done = uses.list.iter().filter(|(.., tool_use)| tool_use.changes_records());
        let mut done: Vec<Check<'d>> = done.map(|(index, _, tool_use)| Check { tool_use, index: *index }).collect();
        done.drain(..done.len().saturating_sub(MAX_STATE_CALLS));
        if !done.is_empty() {
            self.told_uses.extend(done.iter().map(|call| call.index));
            self.lines.push(StateLine::Called(done));
        }
    }

    fn add_refused_edit(&mut self, uses: &SummarizedUses<'d>) {
        let refused = uses.list.iter().rev().find(|(_, _, tool_use)| tool_use.is_refused);
        let Some((index, item, tool_use)) = refused else { return };
        let path = tool_use.changes.first().map_or("", |change| change.path.as_str());
        let is_redone = uses.list.iter().any(|(later, _, other)| {
            later > index && other.applied_changes().iter().any(|change| is_same_file(&change.path, path))
        });
        if !is_redone {
            self.told_uses.push(*index);
            self.lines.push(StateLine::RefusedEdit(item));
        }
    }

    /// Adds the last finding and the last words of the agent, unless an answer followed them.
    fn add_words(&mut self, input: &CheckpointInput<'d>, exchanges: &[Exchange<'d>]) {
        let texts = input.evidence.assistant_texts.iter().rev().filter(|text| (input.is_summarized)(text.at.unit));
        let answered = exchanges.iter().filter_map(|exchange| exchange.answer).map(|answer| answer.at.unit).max();
        let open: Vec<&'d EvidenceItem> =
            texts.take_while(|text| answered.is_none_or(|answered| text.at.unit > answered)).collect();
        let count = open.len().max(1) as f32;
        let mut said_by_people = WordBag::default();
        for message in &input.evidence.user_messages {
            said_by_people.merge(&WordBag::new(message.text()));
        }
        // Who repeats the request in other words has found nothing yet.
        let restates_request =
            |note: &KeySentence| WordBag::new(note.text.as_ref()).share_in(&said_by_people) >= RESTATED_SHARE;
        let findings = open.iter().enumerate().flat_map(|(age, item)| {
            let notes = item.assistant_text().map_or(&[][..], |text| &text.key_sentences);
            let recency = 1.0 - FINDING_AGE_LOSS * age as f32 / count;
            let states_finding = |note: &KeySentence| note.states_finding && !note.claims_success;
            let findings = notes.iter().enumerate().filter(move |(_, note)| states_finding(note));
            findings.map(move |(place, note)| {
                let score = note.score + if note.names_root { ROOT_SCORE } else { 0.0 };
                (*item, place, score * recency)
            })
        });
        let tells = |item: &EvidenceItem, place: usize| {
            let note = item.assistant_text().and_then(|text| text.key_sentences.get(place));
            note.is_some_and(|note| !restates_request(note))
        };
        let best = findings.filter(|(item, place, score)| *score >= MIN_SENTENCE_FINDING_SCORE && tells(item, *place));
        let best = best.max_by(|(.., one), (.., other)| one.total_cmp(other));
        self.lines.extend(best.map(|(item, sentence, _)| StateLine::Finding(item, sentence)));
        // If newer words stay in the request, these are not the last.
        let says_something = |item: &&EvidenceItem| item.visible && !item.text().trim().is_empty();
        let last = input.evidence.assistant_texts.iter().rfind(says_something);
        let last = last.filter(|item| open.iter().any(|open| open.at == item.at));
        self.lines.extend(last.map(StateLine::LastWords));
    }
}

impl Check<'_> {
    pub(super) fn has_failed(&self) -> bool {
        let action = &self.tool_use.action;
        action.outcome == Outcome::Failed
            || action.exit_status.is_some_and(|status| status != 0)
            || action.test_counts.is_some_and(|tests| tests.failed > 0)
    }
}

/// The summarized tool uses with their indices among all, oldest first.
struct SummarizedUses<'d> {
    list: Vec<(usize, &'d EvidenceItem, &'d ToolUse)>,
    /// The tool uses behind them, in turns that stay in the request.
    later: Vec<&'d ToolUse>,
}

impl<'d> SummarizedUses<'d> {
    fn new(input: &CheckpointInput<'d>) -> Self {
        let all = input.evidence.tool_uses.iter().enumerate();
        let summarized = all.filter(|(_, item)| (input.is_summarized)(item.at.unit));
        let list: Vec<_> = summarized.filter_map(|(index, item)| Some((index, item, item.tool_use()?))).collect();
        let behind = list.last().map_or(usize::MAX, |(index, ..)| index + 1);
        let later = input.evidence.tool_uses.iter().skip(behind).filter_map(EvidenceItem::tool_use).collect();
        Self { list, later }
    }

    /// Whether a turn that stays in the request changes a file again.
    fn is_changed_later(&self, path: &str) -> bool {
        let mut changes = self.later.iter().flat_map(|tool_use| tool_use.applied_changes());
        changes.any(|change| is_same_file(&change.path, path))
    }

    /// Whether a turn that stays in the request runs a command again.
    fn is_run_later(&self, command: &str) -> bool {
        self.later.iter().any(|tool_use| tool_use.normalized_command == command)
    }

    fn ran_scripts(&self) -> Vec<&'d str> {
        self.list.iter().flat_map(|(_, _, tool_use)| tool_use.ran_scripts.iter().map(String::as_str)).collect()
    }

    /// Returns the commands that installed something, with their indices.
    fn installs(&self) -> impl Iterator<Item = (usize, &'d str)> {
        let worked = self.list.iter().filter(|(_, _, tool_use)| tool_use.action.outcome != Outcome::Failed);
        let installs = worked.filter(|(_, _, tool_use)| installs_something(&tool_use.normalized_command));
        installs.map(|(index, _, tool_use)| (*index, tool_use.normalized_command.as_str()))
    }

    fn first_change(&self, file: &NetFileChange) -> Option<usize> {
        self.list
            .iter()
            .find(|(index, ..)| (file.first_change..=file.last_change).contains(index))
            .map(|(index, ..)| *index)
    }

    /// Returns the last run of each check, the newest first. A script that writes files is a change and no check.
    fn checks(&self, writer_runs: &HashSet<usize>) -> Vec<Check<'d>> {
        let mut seen: Vec<&str> = Vec::new();
        let mut found = Vec::new();
        for (index, _, tool_use) in self.list.iter().rev() {
            let asks_for_help = tool_use.normalized_command.split_whitespace().any(|word| HELP_FLAGS.contains(&word));
            let runs_script = !tool_use.ran_scripts.is_empty() && !writer_runs.contains(index) && !asks_for_help;
            let is_check = tool_use.is_check || tool_use.action.verb == Verb::Run && runs_script;
            if is_check
                && tool_use.action.outcome != Outcome::Unanswered
                && !self.is_run_later(&tool_use.normalized_command)
                && !seen.contains(&tool_use.normalized_command.as_str())
            {
                seen.push(&tool_use.normalized_command);
                found.push(Check { tool_use, index: *index });
            }
        }
        found
    }

    /// Returns the values that calls were made with, and the identities in results, by name: names that calls used last
    /// come first.
    fn values(&self) -> Vec<(&'d str, Vec<&'d str>)> {
        let mut names: Vec<(&str, Vec<&str>)> = Vec::new();
        let mut add = |name: &'d str, value: &'d str| {
            if !names.iter().any(|(known, _)| *known == name) && names.len() < MAX_VALUE_NAMES {
                names.push((name, Vec::new()));
            }
            let Some(entry) = names.iter_mut().find(|(known, _)| *known == name) else { return };
            if entry.1.len() < MAX_VALUES_PER_NAME && !entry.1.contains(&value) {
                entry.1.push(value);
            }
        };
        for (_, _, tool_use) in self.list.iter().rev() {
            tool_use.values.iter().for_each(|named| add(&named.name, &named.value));
        }
        names
    }

    /// Returns the searches that found nothing.
    fn empty_searches(&self, input: &CheckpointInput<'_>) -> Vec<&'d str> {
        const SEARCH_COMMANDS: [&str; 6] = ["rg", "grep", "egrep", "ag", "find", "fd"];
        let is_search = |tool_use: &ToolUse| match tool_use.action.verb {
            Verb::Search => true,
            Verb::Run if tool_use.action.is_read_only => shell::parse_commands(&tool_use.request)
                .iter()
                .find(|command| command.name() != "cd")
                .is_some_and(|command| SEARCH_COMMANDS.contains(&command.name())),
            _ => false,
        };
        let searches = self.list.iter().filter(|(.., tool_use)| is_search(tool_use));
        let empty = searches.filter(|(_, item, _)| found_nothing(&printed_text(&(input.result_text)(item.at))));
        empty.map(|(.., tool_use)| tool_use.request.as_str()).collect()
    }

    /// Returns what was done at least [`MIN_REPEATS`] times with the same result.
    fn repetitions(&self) -> Vec<Repetition<'d>> {
        let (mut reads, mut refused, mut runs) = (Counts::default(), Counts::default(), Counts::default());
        for (_, _, tool_use) in &self.list {
            if tool_use.is_refused {
                let path = tool_use.changes.first().map_or("", |change| change.path.as_str());
                let why = tool_use.key_lines.lines.first().map_or("", String::as_str);
                refused.add(path, why);
            } else if tool_use.action.verb == Verb::Run && !tool_use.action.is_read_only {
                if !tool_use.applied_changes().is_empty() {
                    runs = Counts::default();
                }
                if tool_use.action.outcome == Outcome::Failed {
                    let why = tool_use.key_lines.lines.first().map_or("", String::as_str);
                    runs.add(&tool_use.normalized_command, why);
                }
            }
            if let Some(path) = tool_use.action.shown_file.as_ref().filter(|_| tool_use.action.shown_lines.is_none()) {
                reads.add(path, "");
            }
        }
        let reads = reads.most().map(|(path, count)| Repetition::Reads(path, count));
        let refused = refused.most().map(|(path, count)| Repetition::RefusedEdits(path, count));
        let runs = runs.most().map(|(command, count)| Repetition::Runs(command, count));
        reads.into_iter().chain(refused).chain(runs).collect()
    }
}

/// Returns whether a search printed nothing, or that there is nothing.
fn found_nothing(printed: &str) -> bool {
    const NOTHING: [&str; 4] = ["no matches", "no files", "no results", "found 0"];
    let printed = printed.trim();
    NOTHING.iter().any(|words| printed.get(..words.len()).is_some_and(|start| start.eq_ignore_ascii_case(words)))
        || printed.is_empty()
}

/// How often each thing was done with each result.
#[derive(Default)]
struct Counts<'d>(HashMap<(&'d str, &'d str), usize>);

impl<'d> Counts<'d> {
    fn add(&mut self, what: &'d str, result: &'d str) {
        *self.0.entry((what, result)).or_default() += 1;
    }

    /// Returns what was done most often; of equal counts, the first by name.
    fn most(self) -> Option<(&'d str, usize)> {
        let enough = self.0.into_iter().filter(|((what, _), count)| *count >= MIN_REPEATS && !what.is_empty());
        enough
            .max_by(|one, other| one.1.cmp(&other.1).then(other.0.cmp(&one.0)))
            .map(|((what, _), count)| (what, count))
    }
}

/// Returns the path in a line of an earlier state about a changed file.
pub(super) fn path_of_line(line: &str) -> Option<&str> {
    line.strip_prefix(StateLabel::File.words())?.strip_prefix('`')?.split_once('`').map(|(path, _)| path)
}
