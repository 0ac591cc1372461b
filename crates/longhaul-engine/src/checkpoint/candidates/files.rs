//! Candidates for file changes, turn by turn, and for the net effect on each file.

use std::collections::{HashMap, HashSet};

use super::{CandidateCollector, CandidateSource, ChangeDetail, POSITIONS_PER_BLOCK, Section};
use crate::action::{FileChange, FileOperation, Outcome, Verb};
use crate::checkpoint::net_changes::{NetFileChange, NetFileChanges};
use crate::checkpoint::paths::{file_name, is_same_file, path_of_note, short_path};
use crate::checkpoint::weights::{LogWeights, MAX_READ_FILES, MAX_SCRATCH_CHANGES, MAX_SEPARATE_CHANGES};
use crate::evidence::{EvidenceItem, ToolUse};
use crate::redact::Redacted;

/// The changes of files in the summarized turns.
#[derive(Default)]
pub(super) struct FileHistory<'d> {
    /// The net changes over all turns.
    pub(super) all: NetFileChanges,
    /// The net changes in each turn, and between commits and runs with a new outcome.
    turns: Vec<NetFileChanges>,
    /// The calls that changed many files at once.
    bulk: Vec<&'d EvidenceItem>,
    /// The indices of the runs that wrote files by a script.
    pub(super) writer_runs: HashSet<usize>,
}

impl<'d> CandidateCollector<'_, 'd> {
    /// Follows the changes of the summarized turns, oldest first.
    pub(super) fn follow_file_changes(&self) -> FileHistory<'d> {
        let mut people = self.input.evidence.user_messages.iter().filter(|message| message.by_user).peekable();
        let mut history = FileHistory::default();
        let mut turn = NetFileChanges::default();
        let mut outcomes: HashMap<&str, &Vec<String>> = HashMap::new();
        for (use_index, item) in self.input.evidence.tool_uses.iter().enumerate() {
            let Some(tool_use) = item.tool_use().filter(|_| (self.input.is_summarized)(item.at.unit)) else { continue };
            let mut is_new_turn = false;
            while people.next_if(|message| message.at.unit < item.at.unit).is_some() {
                is_new_turn = true;
            }
            // Changes before a run with a new outcome become candidates of their own, so that they precede
            // the run.
            let previous_lines = outcomes.insert(&tool_use.normalized_command, &tool_use.key_lines.lines);
            let differs = previous_lines.is_some_and(|before| *before != tool_use.key_lines.lines);
            let has_new_outcome =
                tool_use.action.verb == Verb::Run && (differs || tool_use.action.test_counts.is_some());
            if is_new_turn || has_new_outcome {
                history.turns.push(std::mem::take(&mut turn));
            }
            tool_use.read_paths().for_each(|path| history.all.record_read(use_index, path));
            let together = tool_use.applied_changes().len() > MAX_SEPARATE_CHANGES;
            if together {
                history.bulk.push(item);
            }
            for (place, change) in tool_use.applied_changes().iter().enumerate() {
                let existed = history.all.contains(&change.path);
                history.all.apply((use_index, place), change, existed);
                if !together && !is_covered_by_run(change, tool_use) {
                    turn.apply((use_index, place), change, existed);
                    let says_so = || {
                        let mut lines = tool_use.key_lines.lines.first().into_iter().flat_map(|line| line.split(" | "));
                        lines.any(|line| line.contains(" passed") && !is_numbered_line(line))
                    };
                    if tool_use.action.test_counts.is_some() || says_so() {
                        turn.record_test(use_index, &change.path);
                        history.all.record_test(use_index, &change.path);
                    }
                }
            }
            let has_run = tool_use.action.verb == Verb::Run && tool_use.action.outcome != Outcome::Failed;
            if has_run && history.all.record_run(use_index, &tool_use.ran_scripts) {
                history.writer_runs.insert(use_index);
            }
            if tool_use.normalized_command.contains("git commit") {
                history.turns.push(std::mem::take(&mut turn));
            }
        }
        history.turns.push(turn);
        history
    }

    /// Adds one candidate for each file and turn. A turn is split before each commit and before each run with
    /// a new outcome.
    pub(super) fn add_file_changes(&mut self, history: &FileHistory<'d>, first_open: usize) {
        let fates = FileFates::new(&self.input.evidence.tool_uses);
        for item in &history.bulk {
            let at = (item.at.unit, item.at.block * POSITIONS_PER_BLOCK);
            self.add(CandidateSource::BulkChange(item), at, self.input.weights.log.file_change);
        }
        for file in history.turns.iter().flat_map(NetFileChanges::iter) {
            let item = &self.input.evidence.tool_uses[file.last_use];
            let Some(change) = item.tool_use().and_then(|tool_use| tool_use.changes.get(file.change_index)) else {
                continue;
            };
            if item.at.unit < first_open && self.is_settled(file, first_open) {
                continue;
            }
            let is_undone = file.created && file.deleted;
            // The runs of a helper script tell what it is for.
            let is_helper = self.told_helpers.iter().any(|path| is_same_file(path, &file.path));
            let is_told = self.told_paths.iter().any(|path| is_same_file(path, &file.path));
            if is_helper || is_told {
                continue;
            }
            let (size, value) = if is_undone {
                (ChangeDetail::Brief, self.input.weights.log.undone_change)
            } else {
                fates.value_of_change(change, file.last_use, &self.input.weights.log)
            };
            let at = (item.at.unit, item.at.block * POSITIONS_PER_BLOCK + file.change_index);
            self.add(CandidateSource::FileChange(item, file.clone(), size), at, value);
        }
        // Of a file in the state, the log has what all its changes come to.
        let told: Vec<&NetFileChange> =
            history.all.iter().filter(|file| self.told_paths.contains(&file.path)).collect();
        for file in told {
            let item = &self.input.evidence.tool_uses[file.last_change];
            let at = (item.at.unit, item.at.block * POSITIONS_PER_BLOCK + file.change_index);
            let value = self.input.weights.log.told_change;
            self.add(CandidateSource::FileChange(item, file.clone(), ChangeDetail::Full), at, value);
        }
    }

    /// Returns whether a file belongs to submitted work alone: no call from turn `first_open` on changed or read a file in
    /// the same top folder. A host's demonstration with files of its own is such work.
    fn is_settled(&self, file: &NetFileChange, first_open: usize) -> bool {
        let tool_uses = &self.input.evidence.tool_uses;
        let top = |path: &str| path.strip_prefix('/').map(|path| path.split('/').next().unwrap_or(path).to_owned());
        let own = top(&file.path);
        let is_near = |path: &str| match &own {
            Some(own) => top(path).as_ref() == Some(own),
            None => is_same_file(path, &file.path),
        };
        let later = tool_uses.iter().filter(|item| item.at.unit >= first_open).filter_map(EvidenceItem::tool_use);
        let mut touched = later.flat_map(|tool_use| {
            tool_use.read_paths().chain(tool_use.changes.iter().map(|change| change.path.as_str()))
        });
        first_open > 0 && !touched.any(is_near)
    }

    /// Adds the net effect on each file, in this order: existing files, new files, removed files, files that
    /// were only read.
    pub(super) fn add_file_summaries(&mut self, files: NetFileChanges, first_open: usize) {
        let tool_uses = &self.input.evidence.tool_uses;
        let before = self.input.previous.map_or(&[][..], |before| before.list(Section::RelevantFiles));
        let noted: HashMap<String, &Redacted> = before.iter().map(|note| (path_of_note(note), note)).collect();
        // Keep only the newest of the files that were only read.
        let mut list = files.into_list();
        list.retain(|file| !self.is_settled(file, first_open));
        list.sort_by_key(|file| (file.is_changed(), file.last_use));
        let only_read = list.iter().filter(|file| !file.is_changed()).count();
        list.drain(..only_read.saturating_sub(MAX_READ_FILES));
        let is_told = |file: &NetFileChange| {
            self.told_paths.contains(&file.path)
                || self.told_helpers.contains(&file.path)
                || file.created && file.deleted
        };
        for file in list.into_iter().filter(|file| !is_told(file)).collect::<Vec<_>>() {
            let (class, value_per_token) = match &file {
                file if !file.is_changed() && file.reads > 1 => (3, self.input.weights.log.scratch_file),
                file if !file.is_changed() => (3, self.input.weights.log.read_file),
                file if file.deleted || file.restored => (2, self.input.weights.log.scratch_file),
                file if file.created && file.changes <= MAX_SCRATCH_CHANGES => (1, self.input.weights.log.scratch_file),
                file if file.created => (1, self.input.weights.log.changed_file),
                // An entry already describes this change with the whole path.
                file if file.changes == 1 && short_path(&file.path) == file.path => {
                    (0, self.input.weights.log.scratch_file)
                }
                _ => (0, self.input.weights.log.changed_file),
            };
            let before = noted.get(&file.path).copied();
            let age = self.age_factor(tool_uses[file.last_use].at.unit);
            let position = (class, file.last_use);
            let turn = tool_uses[file.last_use].at.unit;
            self.push(CandidateSource::FileSummary(file, before), Some(turn), position, value_per_token * age);
        }
    }
}

/// The later history of files.
struct FileFates<'d> {
    /// For each path that was deleted or restored, the index of the last tool use that did so.
    last_removals: HashMap<&'d str, usize>,
    /// The files that were read or edited, which makes them part of the actual work. Others are scratch.
    worked_on: HashSet<&'d str>,
}

impl<'d> FileFates<'d> {
    fn new(tool_uses: &'d [EvidenceItem]) -> Self {
        let edited = |did: &'d ToolUse| {
            did.changes.iter().filter(|change| change.operation.is_none()).map(|change| change.path.as_str())
        };
        let touched =
            tool_uses.iter().filter_map(EvidenceItem::tool_use).flat_map(|did| did.read_paths().chain(edited(did)));
        Self { last_removals: find_last_removals(tool_uses), worked_on: touched.collect() }
    }

    /// Returns the detail and the value of a change by the tool use with this index.
    fn value_of_change(&self, change: &FileChange, index: usize, weights: &LogWeights) -> (ChangeDetail, f64) {
        let is_gone = |path: &str| self.last_removals.get(path).is_some_and(|last| *last > index);
        let folders = change.path.match_indices('/').map(|(at, _)| &change.path[..at]);
        let gone = is_gone(&change.path) || is_gone(".") || folders.into_iter().any(is_gone);
        let is_scratch = change.script_writes.is_empty()
            && change.copied_from.is_none()
            && !self.worked_on.contains(change.path.as_str());
        match change.operation {
            _ if gone => (ChangeDetail::Brief, weights.undone_change),
            Some(FileOperation::Created) if is_scratch => (ChangeDetail::Brief, weights.scratch_file_created),
            Some(FileOperation::Deleted) => (ChangeDetail::Brief, weights.undone_change),
            _ => (ChangeDetail::Full, weights.file_change),
        }
    }
}

/// Returns whether a script is written and run in one call. The run then describes it, unless the script
/// changes other files.
fn is_covered_by_run(change: &FileChange, tool_use: &ToolUse) -> bool {
    let name = file_name(&change.path);
    let is_run = |at: usize| {
        tool_use.normalized_command[..at].ends_with(['/', ' '])
            && tool_use.normalized_command[at + name.len()..].trim_start_matches([';', ' ']).is_empty()
    };
    change.operation == Some(FileOperation::Created)
        && change.script_writes.is_empty()
        && tool_use.normalized_command.find(name).is_some_and(is_run)
}

/// Returns for each path that was deleted or restored the index of the last tool use that did so.
fn find_last_removals(tool_uses: &[EvidenceItem]) -> HashMap<&str, usize> {
    let mut last = HashMap::new();
    for (index, tool_use) in tool_uses.iter().enumerate().filter_map(|(index, item)| Some((index, item.tool_use()?))) {
        let gone = tool_use
            .applied_changes()
            .iter()
            .filter(|c| matches!(c.operation, Some(FileOperation::Deleted | FileOperation::Restored)));
        last.extend(gone.map(|change| (change.path.as_str(), index)));
    }
    last
}

/// Returns whether a line is part of a file listing with line numbers. Such a line was not printed by a run.
fn is_numbered_line(line: &str) -> bool {
    let line = line.trim_start();
    let behind = line.trim_start_matches(|c: char| c.is_ascii_digit());
    behind.len() < line.len() && behind.starts_with([':', '|', '→', '\t'])
}
