//! Forms of the lines of the state.

use std::collections::HashSet;

use super::tool_uses::describe_outcome;
use super::{CandidateText, FormWriter};
use crate::action::Verb;
use crate::checkpoint::Section;
use crate::checkpoint::net_changes::NetFileChange;
use crate::checkpoint::paths::common_folder;
use crate::checkpoint::state::{Check, Repetition, StateLabel, StateLine, path_of_line};
use crate::checkpoint::weights::{
    CHECK_CHARS, MAX_PATH_CHARS, MAX_SCRIPT_CHARS, STATE_CALL_CHARS, STATE_CALLS, STATE_CODE_CHARS, STATE_FILE_LINES,
    STATE_REQUEST_BYTES, STATE_TASK_CHARS, STATE_TASKS, STATE_VALUES, STATE_WORDS_CHARS,
};
use crate::evidence::{EvidenceItem, Task, TaskState, score_user_text};
use crate::redact::Redacted;

impl FormWriter<'_, '_> {
    /// Words a line of the state in forms from short to long.
    pub(super) fn state_forms(&mut self, line: &StateLine<'_>) -> Vec<CandidateText> {
        let label = Redacted::literal(StateLabel::of_line(line).words());
        let bodies = match line {
            StateLine::Request(item) => return self.request_line_forms(item, &label),
            StateLine::File(file, check) => self.file_line_forms(file, check.as_ref()),
            StateLine::FileChangedBelow(path) => {
                vec![self.code(path, MAX_PATH_CHARS).append_literal(": changed again in the messages below")]
            }
            StateLine::Checks(_, checks) => self.check_forms(checks),
            StateLine::Called(calls) => self.call_line_forms(calls),
            StateLine::RefusedEdit(item) => self.refused_line_forms(item),
            StateLine::Tasks(tasks) => self.task_forms(tasks),
            StateLine::Values(values) => self.value_forms(values),
            StateLine::Repetition(repetition) => vec![self.repetition_form(repetition)],
            StateLine::HelperFiles(paths) => self.helper_forms(paths),
            StateLine::Installed(commands) => self.installed_forms(commands),
            StateLine::Finding(item, sentence) => {
                let text = item.assistant_text().and_then(|text| text.key_sentences.get(*sentence));
                text.map(|sentence| self.quoted(&sentence.text, STATE_WORDS_CHARS)).into_iter().collect()
            }
            StateLine::LastWords(item) => {
                let last = crate::evidence::last_sentences(item.text(), STATE_WORDS_CHARS);
                vec![self.quoted(last, STATE_WORDS_CHARS)]
            }
        };
        let bodies = bodies.into_iter().filter(|body| !body.as_str().is_empty());
        bodies.map(|body| CandidateText::Item(label.clone().append(&body))).collect()
    }

    fn quoted(&mut self, text: &str, most: usize) -> Redacted {
        Redacted::literal("“").append(&self.redact_line(text, most)).append_literal("”")
    }

    fn code(&mut self, text: &str, most: usize) -> Redacted {
        Redacted::literal("`").append(&self.redact_line(text, most).replace_with_literal("`", "'")).append_literal("`")
    }

    fn request_line_forms(&mut self, item: &EvidenceItem, label: &Redacted) -> Vec<CandidateText> {
        let recall_id = self.recall_id(item);
        let whole = self.redact(item.text());
        let rarity = self.rarity;
        let excerpts = super::ExcerptBuilder::new(&whole, |piece: &str| score_user_text(piece) + rarity.density(piece));
        let form = |most: usize| {
            let short = excerpts.shorten_to(most).collapse_blank_lines();
            let cut = short != whole.collapse_blank_lines();
            let words = label.clone().append_literal("“").append(&short).append_literal("”");
            CandidateText::Item(words.append_recall_id(recall_id.as_deref().filter(|_| cut)))
        };
        STATE_REQUEST_BYTES.map(form).into()
    }

    /// Words what a changed file contains now.
    fn file_line_forms(&mut self, file: &NetFileChange, check: Option<&Check<'_>>) -> Vec<Redacted> {
        let path = self.code(&file.path, MAX_PATH_CHARS);
        let mut how = match file {
            file if file.deleted => Redacted::literal(" (deleted)"),
            file if file.restored => Redacted::literal(" (put back as it was)"),
            file if file.created && file.changes == 1 => Redacted::literal(" (new)"),
            file if file.created => Redacted::literal(" (new, then ")
                .append_number(file.changes - 1)
                .append_literal(if file.changes == 2 { " edit)" } else { " edits)" }),
            file if file.changes == 1 => Redacted::literal(" (1 edit)"),
            file => Redacted::literal(" (").append_number(file.changes).append_literal(" edits)"),
        };
        if let Some(from) = &file.copied_from {
            how = how.append_literal(", last copied from ").append(&self.code(from, MAX_PATH_CHARS));
        }
        if let Some(script) = &file.written_by {
            how = how.append_literal(", last by the script ").append(&self.redact_line(&script.name, MAX_SCRIPT_CHARS));
        }
        let opening = path.append(&how);
        let earlier = self.earlier_lines(&file.path);
        let [removed, added] = file.net_lines();
        let by_script = file.written_by.as_ref().map(|script| script.lines.clone());
        let check = check.map(|check| self.check_form(check, CHECK_CHARS[0]));
        STATE_FILE_LINES
            .into_iter()
            .map(|(added_lines, removed_lines)| {
                let mut text = opening.clone();
                let mut now = self.code_list(&added, added_lines);
                if let Some(earlier) = earlier.as_ref().filter(|_| added_lines > 1) {
                    now = if now.as_str().is_empty() {
                        earlier.clone()
                    } else {
                        now.append_literal(", ").append(earlier)
                    };
                }
                let gone = self.code_list(&removed, removed_lines);
                if !now.as_str().is_empty() {
                    text = text.append_literal(": now has ").append(&now);
                }
                if let Some(lines) = &by_script {
                    let lines = self.code_list(lines, added_lines);
                    if !lines.as_str().is_empty() {
                        text = text.append_literal(", which has ").append(&lines);
                    }
                }
                if !gone.as_str().is_empty() {
                    let between = if now.as_str().is_empty() { ": " } else { "; " };
                    text = text.append_literal(between).append_literal("no longer ").append(&gone);
                }
                match &check {
                    Some(check) => text.append_literal("; checked since: ").append(check),
                    None => text,
                }
            })
            .collect()
    }

    /// Returns the lines that an earlier state told of a file, as far as they are still there.
    fn earlier_lines(&mut self, path: &str) -> Option<Redacted> {
        let before = self.input.previous?.list(Section::State);
        let line = before.iter().find(|line| path_of_line(line.as_str()) == Some(path))?.as_str();
        let told = line.split_once(": now has ")?.1;
        let told = told.split("; no longer ").next()?.split("; checked since").next()?;
        Some(Redacted::assume_redacted(told.to_owned()))
    }

    /// Returns the most informative lines of a change in the order of the file.
    fn code_list(&mut self, lines: &[(usize, String)], most: usize) -> Redacted {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut chosen: Vec<&(usize, String)> =
            lines.iter().filter(|(_, line)| seen.insert(line.trim())).take(most).collect();
        chosen.sort_by_key(|(at, _)| *at);
        let mut all = Redacted::literal("");
        for (_, line) in chosen {
            let between = if all.as_str().is_empty() { "" } else { ", " };
            all = all.append_literal(between).append(&self.code(line, STATE_CODE_CHARS));
        }
        all
    }

    fn check_forms(&mut self, checks: &[Check<'_>]) -> Vec<Redacted> {
        let mut forms = Vec::new();
        for (count, most) in [(1, CHECK_CHARS[0]), (2, CHECK_CHARS[0]), (checks.len(), CHECK_CHARS[1])] {
            let mut all = Redacted::literal("");
            for check in &checks[..count.min(checks.len())] {
                let between = if all.as_str().is_empty() { "" } else { "; " };
                all = all.append_literal(between).append(&self.check_form(check, most));
            }
            forms.push(all);
        }
        forms
    }

    /// Words a check with its outcome.
    fn check_form(&mut self, check: &Check<'_>, most: usize) -> Redacted {
        let lines = self.redact(&check.tool_use.key_lines.joined());
        let outcome = describe_outcome(check.tool_use, &lines.one_line(2 * most));
        // An edit that ran the tests is no command.
        let command = match check.tool_use.action.verb {
            Verb::Run => self.code(&check.tool_use.normalized_command, most),
            _ => Redacted::literal("tests with the edit"),
        };
        match outcome.as_str() {
            "" => command,
            _ => command.append_literal(" → ").append(&outcome),
        }
    }

    /// Words the newest calls that changed something outside the files, oldest first.
    fn call_line_forms(&mut self, calls: &[Check<'_>]) -> Vec<Redacted> {
        let mut texts: Vec<Redacted> = Vec::new();
        for Check { tool_use, .. } in calls {
            let call = self.redact_line(&format!("{} {}", tool_use.action.tool, tool_use.request), STATE_CALL_CHARS[0]);
            let result = self.redact(&tool_use.key_lines.joined());
            let outcome = describe_outcome(tool_use, &result.one_line(STATE_CALL_CHARS[1]));
            texts.push(match outcome.as_str() {
                "" => call,
                _ => call.append_literal(" → ").append(&outcome),
            });
        }
        let shown = |most: usize| &texts[texts.len() - most.min(texts.len())..];
        let join = |texts: &[Redacted]| {
            texts.iter().enumerate().fold(Redacted::literal(""), |all, (at, text)| {
                all.append_literal(if at == 0 { "" } else { "; " }).append(text)
            })
        };
        STATE_CALLS.map(|most| join(shown(most))).into()
    }

    fn refused_line_forms(&mut self, item: &EvidenceItem) -> Vec<Redacted> {
        let Some(tool_use) = item.tool_use() else { return Vec::new() };
        let path = tool_use.changes.first().map_or(tool_use.request.as_str(), |change| change.path.as_str()).to_owned();
        let path = self.code(&path, MAX_PATH_CHARS);
        let why = self.redact(&tool_use.key_lines.joined());
        CHECK_CHARS.map(|most| path.clone().append_literal(" — ").append(&why.one_line(2 * most))).into()
    }

    fn task_forms(&mut self, tasks: &[Task]) -> Vec<Redacted> {
        let of = |state: TaskState| tasks.iter().filter(|task| task.state == state).collect::<Vec<_>>();
        let (done, doing, open) = (of(TaskState::Done), of(TaskState::InProgress), of(TaskState::Open));
        let mut forms = Vec::new();
        for most in STATE_TASKS {
            let mut all = Redacted::literal("").append_number(done.len()).append_literal(" of ");
            all = all.append_number(tasks.len()).append_literal(" done");
            for (words, list) in [("; in progress: ", &doing), ("; open: ", &open)] {
                let mut between = words;
                for task in list.iter().take(most) {
                    all = all.append_literal(between).append(&self.redact_line(&task.text, STATE_TASK_CHARS));
                    between = " / ";
                }
                if list.len() > most {
                    all = all.append_literal(" / and ").append_number(list.len() - most).append_literal(" more");
                }
            }
            if open.is_empty() && doing.is_empty() && most > 1 {
                let last = done.iter().rev().take(most).rev();
                let mut between = ": ";
                for task in last {
                    all = all.append_literal(between).append(&self.redact_line(&task.text, STATE_TASK_CHARS));
                    between = " / ";
                }
            }
            forms.push(all);
        }
        forms
    }

    fn value_forms(&mut self, values: &[(&str, Vec<&str>)]) -> Vec<Redacted> {
        let mut forms = Vec::new();
        for (names, each) in STATE_VALUES {
            let mut all = Redacted::literal("");
            for (name, values) in values.iter().take(names) {
                let between = if all.as_str().is_empty() { "" } else { "; " };
                let values = values.iter().take(each).copied().collect::<Vec<_>>().join(", ");
                all = all.append_literal(between).append(&self.redact_line(&format!("{name} {values}"), usize::MAX));
            }
            forms.push(all);
        }
        forms
    }

    fn repetition_form(&mut self, repetition: &Repetition<'_>) -> Redacted {
        let (what, times, words) = match repetition {
            Repetition::Reads(path, times) => (*path, *times, " was read "),
            Repetition::RefusedEdits(path, times) => (*path, *times, " refused edits for the same reason "),
            Repetition::Runs(command, times) => (*command, *times, " failed in the same way "),
            Repetition::EmptySearches(searches) => {
                let words =
                    Redacted::literal("").append_number(searches.len()).append_literal(" searches found nothing: ");
                let shown = searches.iter().rev().take(STATE_TASKS[1]).rev();
                let listed = shown.map(|search| self.code(search, CHECK_CHARS[0]));
                let listed: Vec<Redacted> = listed.collect();
                return listed.iter().enumerate().fold(words, |all, (at, search)| {
                    all.append_literal(if at == 0 { "" } else { ", " }).append(search)
                });
            }
        };
        self.code(what, CHECK_CHARS[1]).append_literal(words).append_number(times).append_literal(" times")
    }

    fn installed_forms(&mut self, commands: &[&str]) -> Vec<Redacted> {
        STATE_TASKS
            .map(|most| {
                let shown = commands.len().min(2 * most);
                self.redact_line(&commands[commands.len() - shown..].join("; "), STATE_WORDS_CHARS)
            })
            .into()
    }

    fn helper_forms(&mut self, paths: &[String]) -> Vec<Redacted> {
        let all: Vec<&str> = paths.iter().map(String::as_str).collect();
        let folder = common_folder(&all);
        let names: Vec<&str> = all.iter().map(|path| &path[folder.len()..]).collect();
        let place = match folder {
            "" => Redacted::literal(""),
            folder => Redacted::literal(" in ").append(&self.redact_line(folder, MAX_PATH_CHARS)),
        };
        STATE_TASKS
            .map(|most| {
                let shown = names.len().min(2 * most);
                let listed = self.redact_line(&names[names.len() - shown..].join(", "), usize::MAX).append(&place);
                match names.len() - shown {
                    0 => listed,
                    others => listed.append_literal(" and ").append_number(others).append_literal(" more"),
                }
            })
            .into()
    }
}
