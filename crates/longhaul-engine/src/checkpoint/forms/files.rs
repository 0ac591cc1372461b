//! Forms of file changes.

use std::collections::HashSet;

use super::tool_uses::describe_outcome;
use super::{CandidateText, FormWriter};
use crate::action::{FileChange, FileOperation, Outcome};
use crate::checkpoint::candidates::ChangeDetail;
use crate::checkpoint::net_changes::NetFileChange;
use crate::checkpoint::paths::common_folder;
use crate::checkpoint::weights::{
    ADDED_LINES, CHANGED_LINE_CHARS, COMMAND_CHARS, FILE_NAMES_CHARS, MAX_COPY_SOURCE_CHARS, MAX_INLINE_LINES,
    MAX_PATH_CHARS, MAX_SCRIPT_CHARS, OUTCOME_CHARS, REMOVED_LINES,
};
use crate::evidence::{EvidenceItem, ToolUse};
use crate::redact::Redacted;
use crate::texts::{ActionEntry, EntryKind, FileNote};

impl FormWriter<'_, '_> {
    /// Words the net change of a file in one turn.
    pub(super) fn file_change_forms(
        &mut self,
        item: &EvidenceItem,
        file: &NetFileChange,
        size: ChangeDetail,
    ) -> Vec<CandidateText> {
        let Some((tool_use, change)) =
            item.tool_use().and_then(|tool_use| Some((tool_use, tool_use.changes.get(file.change_index)?)))
        else {
            return Vec::new();
        };
        let act = match file {
            file if file.deleted => EntryKind::Delete,
            file if file.restored => EntryKind::Restore,
            file if file.created => EntryKind::Create,
            _ => EntryKind::Edit,
        };
        let path = self.display_path(&file.path);
        let from = change
            .copied_from
            .as_ref()
            .map(|from| Redacted::literal("copied from ").append(&self.redact_line(from, MAX_PATH_CHARS)));
        let then = self.follow_up(file, tool_use);
        let [out, into] = file.net_lines();
        let mut forms = Vec::new();
        // One line cannot represent several edits, so the shortest form is skipped.
        let longest = if size == ChangeDetail::Brief { CHANGED_LINE_CHARS.len() - 1 } else { CHANGED_LINE_CHARS.len() };
        for level in usize::from(file.changes > 1)..longest {
            let lines = self.changed_lines(&out, &into, level);
            // No count is needed if all lines are shown.
            let shown = file.changes == 1
                && change.replaced_range.is_none()
                && (file.created || change.operation.is_none())
                && change.removed.line_count <= REMOVED_LINES[level].min(out.len())
                && change.added.line_count <= ADDED_LINES[level].min(into.len());
            // A file that existed before was overwritten, not created.
            let is_anew = change.operation == Some(FileOperation::Created) && !file.created;
            let counted = || match (file.changes, file.created) {
                (1, _) if is_anew => Redacted::literal("written anew, ").append(&count_lines(change)),
                (1, _) => count_lines(change),
                (2, true) => Redacted::literal("then changed"),
                (changes, true) => {
                    Redacted::literal("then changed ").append_number(changes - 1).append_literal(" times")
                }
                (changes, false) => Redacted::literal("").append_number(changes).append_literal(" edits"),
            };
            let mut outcome = match act {
                EntryKind::Delete if file.created => Redacted::literal("created in the same turn"),
                EntryKind::Delete | EntryKind::Restore => Redacted::literal(""),
                _ => match &from {
                    Some(from) => from.clone(),
                    None if shown => Redacted::literal(""),
                    None => counted(),
                },
            };
            if !lines.as_str().is_empty() && act != EntryKind::Delete {
                let between = match (outcome.as_str().is_empty(), lines.as_str().starts_with('\n')) {
                    (true, _) => "",
                    (false, true) => ":",
                    (false, false) => ": ",
                };
                outcome = outcome.append_literal(between).append(&lines);
            }
            outcome = outcome.append(&then);
            forms.push(CandidateText::Action(
                None,
                ActionEntry::new(act, &path, &outcome).with_recall_id(self.recall_id(item)),
            ));
        }
        forms
    }

    /// Words the test run or the failure that followed a change. The change stays, even if the command
    /// failed.
    fn follow_up(&mut self, file: &NetFileChange, tool_use: &ToolUse) -> Redacted {
        let first = |tool_use: &ToolUse| tool_use.key_lines.lines.first().cloned().unwrap_or_default();
        let tests = file.tested_in.and_then(|use_index| self.input.evidence.tool_uses.get(use_index)?.tool_use());
        if let Some(tests) = tests {
            let is_last = file.tested_in == Some(file.last_use);
            let words = if is_last { "; tests then: " } else { "; tests after an earlier edit: " };
            return Redacted::literal(words).append(&self.redact_line(&first(tests), OUTCOME_CHARS[0]));
        }
        if tool_use.action.outcome != Outcome::Failed {
            return Redacted::literal("");
        }
        let verdict = self.redact_line(&first(tool_use), OUTCOME_CHARS[0]);
        Redacted::literal("; then ").append(&describe_outcome(tool_use, &verdict))
    }

    /// Words the changes of many files in one call: their number, their paths, and some lines of the first.
    pub(super) fn bulk_change_forms(&mut self, item: &EvidenceItem) -> Vec<CandidateText> {
        let Some(tool_use) = item.tool_use() else { return Vec::new() };
        let changes = tool_use.applied_changes();
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        let folder = common_folder(&paths);
        let names: Vec<&str> = paths.iter().map(|path| &path[folder.len()..]).collect();
        let first = changes.iter().find(|change| !change.added.sampled.is_empty()).unwrap_or(&changes[0]);
        let mut forms = Vec::new();
        for (level, most) in FILE_NAMES_CHARS.into_iter().enumerate() {
            let target = Redacted::literal("").append_number(paths.len()).append_literal(" files");
            let target = match folder {
                "" => target,
                folder => target.append_literal(" in ").append(&self.redact_line(folder, MAX_PATH_CHARS)),
            };
            let target = target.append_literal(": ").append(&self.redact_line(&names.join(", "), most));
            let lines = self.changed_lines(&first.removed.sampled, &first.added.sampled, level);
            let copied = first.copied_from.as_ref().map(|from| {
                Redacted::literal("the first from ").append(&self.redact_line(from, MAX_COPY_SOURCE_CHARS))
            });
            let outcome = copied.unwrap_or_else(|| Redacted::literal("such as ").append(&lines));
            let outcome = if outcome.as_str() == "such as " { Redacted::literal("") } else { outcome };
            forms.push(CandidateText::Action(
                None,
                ActionEntry::new(EntryKind::Edit, &target, &outcome).with_recall_id(self.recall_id(item)),
            ));
        }
        forms
    }

    /// Returns the most informative lines of a change in file order, each with a minus or plus sign. More than two have a
    /// line of their own each.
    fn changed_lines(&mut self, removed: &[(usize, String)], added: &[(usize, String)], level: usize) -> Redacted {
        let (mut signed, mut seen) = (Vec::new(), HashSet::new());
        for (sign, lines, most) in [("−", removed, REMOVED_LINES[level]), ("+", added, ADDED_LINES[level])] {
            let is_new = |(_, line): &&(usize, String)| seen.insert((sign, line.trim().to_owned()));
            let mut chosen: Vec<&(usize, String)> = lines.iter().filter(is_new).take(most).collect();
            chosen.sort_by_key(|(at, _)| *at);
            signed.extend(chosen.into_iter().map(|(_, line)| (sign, line)));
        }
        let is_list = signed.len() > MAX_INLINE_LINES;
        let mut all = Redacted::literal("");
        for (sign, line) in signed {
            let line = self.redact_line(line, CHANGED_LINE_CHARS[level]);
            all = if is_list {
                all.append_literal("\n").append_literal(sign).append_literal(" ").append(&line)
            } else {
                let blank = if all.as_str().is_empty() { "" } else { " " };
                let line = line.replace_with_literal("`", "'");
                all.append_literal(blank).append_literal(sign).append_literal("`").append(&line).append_literal("`")
            };
        }
        all
    }

    pub(super) fn refused_edit_forms(&mut self, item: &EvidenceItem) -> Vec<CandidateText> {
        let Some(tool_use) = item.tool_use() else { return Vec::new() };
        let target = match tool_use.changes.first() {
            Some(change) => self.display_path(&change.path),
            None => self.redact_line(&tool_use.request, COMMAND_CHARS[0]),
        };
        let why = self.redact(&tool_use.key_lines.joined());
        let form = |most: usize| {
            let outcome = Redacted::literal("not applied: ").append(&why.one_line(most));
            CandidateText::Action(
                None,
                ActionEntry::new(EntryKind::Edit, &target, &outcome).with_recall_id(self.recall_id(item)),
            )
        };
        OUTCOME_CHARS.map(form).into()
    }

    pub(super) fn file_summary_forms(&mut self, file: &NetFileChange, before: Option<&Redacted>) -> Vec<CandidateText> {
        let was: Option<FileNote> = before.and_then(|note| note.as_str().parse().ok());
        let was_created = was.as_ref().is_some_and(|note| note.status().starts_with("created"));
        if let (false, Some(_)) = (file.is_changed(), &was) {
            return Vec::new();
        }
        let path = self.redact_line(&file.path, MAX_PATH_CHARS);
        let named = |words: &'static str, name: &Redacted| Redacted::literal(words).append(name);
        let mut what = match file {
            file if !file.is_changed() => Redacted::literal("read"),
            file if file.deleted && (file.created || was_created) => Redacted::literal("created and deleted again"),
            file if file.deleted => Redacted::literal("deleted"),
            file if file.restored => Redacted::literal("put back as it was"),
            NetFileChange { written_by: Some(script), .. } => {
                named("written by ", &self.redact_line(&script.name, MAX_SCRIPT_CHARS))
            }
            NetFileChange { copied_from: Some(from), .. } => {
                named("a copy of ", &self.redact_line(from, MAX_PATH_CHARS))
            }
            file if file.created || was_created => Redacted::literal("created"),
            _ => Redacted::literal("edited"),
        };
        let times = file.changes - usize::from(file.created);
        if times > 1 && matches!(what.as_str(), "created" | "edited") {
            let edited = if file.created { ", changed " } else { " " };
            what = what.append_literal(edited).append_number(times).append_literal(" times");
        }
        vec![CandidateText::Item(FileNote::new(&path, what).to_line())]
    }
}

/// Words the number of removed and added lines.
fn count_lines(change: &FileChange) -> Redacted {
    let (out, into) = (change.removed.line_count, change.added.line_count);
    if let Some((from, to)) = change.replaced_range {
        let range = Redacted::literal("lines ").append_number(from).append_literal(" to ").append_number(to);
        return range.append_literal(" became ").append_number(into);
    }
    match (change.operation, out, into) {
        (_, 0, 0) => Redacted::literal(""),
        (Some(FileOperation::Created), _, lines) => Redacted::literal("").append_number(lines).append_literal(" lines"),
        (_, 0, into) => Redacted::literal("+").append_number(into).append_literal(" lines"),
        (_, out, 0) => Redacted::literal("−").append_number(out).append_literal(" lines"),
        (_, out, into) => {
            Redacted::literal("−").append_number(out).append_literal(" +").append_number(into).append_literal(" lines")
        }
    }
}
