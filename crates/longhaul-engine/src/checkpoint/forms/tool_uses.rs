//! Forms of commands and tool calls.

use super::{CandidateText, FormWriter};
use crate::action::{Outcome, Verb};
use crate::checkpoint::weights::{
    COMMAND_CHARS, COMMIT_MESSAGE_BYTES, DATA_CHARS, EARLIER_OUTCOME_CHARS, MAX_SHORT_FIELD_BYTES, OUTCOME_CHARS,
};
use crate::evidence::{EvidenceItem, KeyLines, ToolUse};
use crate::redact::Redacted;
use crate::texts::{ActionEntry, EntryKind};
use crate::truncate::first_bytes;

impl FormWriter<'_, '_> {
    pub(super) fn command_forms(
        &mut self,
        item: &EvidenceItem,
        times: usize,
        earlier: &[&EvidenceItem],
    ) -> Vec<CandidateText> {
        let Some(tool_use) = item.tool_use() else { return Vec::new() };
        let verdict = tool_use.key_lines.joined();
        let (command, verdict) =
            (self.redact(strip_commit_message(&tool_use.normalized_command, &verdict)), self.redact(&verdict));
        let earlier = self.earlier_outcomes(earlier);
        let form = |(command_most, most, has_earlier): (usize, usize, bool)| {
            let mut outcome = describe_outcome(tool_use, &verdict.one_line(most));
            if times > 1 && !outcome.as_str().is_empty() {
                outcome = outcome.append_literal(" (").append_number(times).append_literal(" times the same)");
            }
            if let Some(earlier) = earlier.as_ref().filter(|_| has_earlier) {
                outcome = outcome.append_literal("; before that: ").append(earlier);
            }
            let entry = ActionEntry::new(EntryKind::Run, &command.one_line(command_most), &outcome);
            CandidateText::Action(None, entry.with_recall_id(self.recall_id(item)))
        };
        [
            (COMMAND_CHARS[0], OUTCOME_CHARS[0], false),
            (COMMAND_CHARS[0], OUTCOME_CHARS[0], true),
            (COMMAND_CHARS[1], OUTCOME_CHARS[1], true),
        ]
        .map(form)
        .into()
    }

    /// Words the outcomes of earlier runs, oldest first; `None` if there are none.
    fn earlier_outcomes(&mut self, earlier: &[&EvidenceItem]) -> Option<Redacted> {
        let runs = earlier.iter().filter_map(|item| item.tool_use());
        let outcomes: Vec<Redacted> = runs
            .map(|run| {
                let verdict = self.redact_line(&run.key_lines.joined(), EARLIER_OUTCOME_CHARS);
                describe_outcome(run, &verdict)
            })
            .collect();
        outcomes
            .into_iter()
            .filter(|outcome| !outcome.as_str().is_empty())
            .reduce(|all, outcome| all.append_literal("; then: ").append(&outcome))
    }

    pub(super) fn call_forms(&mut self, items: &[&EvidenceItem]) -> Vec<CandidateText> {
        let Some((item, tool_use)) = items.last().and_then(|item| Some((item, item.tool_use()?))) else {
            return Vec::new();
        };
        let act = match tool_use.action.verb {
            Verb::Fetch | Verb::Browse => EntryKind::Fetch,
            Verb::Delegate => EntryKind::Delegate,
            _ => EntryKind::ToolCall,
        };
        let asked: Vec<&str> = items.iter().filter_map(|item| Some(item.tool_use()?.request.as_str())).collect();
        // The tool identifies a call; a page or a task is clear without it.
        let tool = if act == EntryKind::ToolCall { tool_use.action.tool.as_str() } else { "" };
        let asked = format!("{tool} {}", asked.join("; "));
        let (asked, verdict) = (self.redact(&asked), self.new_fields_first(&tool_use.key_lines));
        let form = |(asked_most, most): (usize, usize)| {
            let entry = ActionEntry::new(
                act,
                &asked.one_line(asked_most),
                &describe_outcome(tool_use, &verdict.one_line(most)),
            );
            CandidateText::Action(None, entry.with_recall_id(self.recall_id(item)))
        };
        let least = if tool_use.key_lines.is_data { DATA_CHARS } else { OUTCOME_CHARS[0] };
        [(COMMAND_CHARS[0], least), (COMMAND_CHARS[1], OUTCOME_CHARS[1]), (COMMAND_CHARS[1] * 3, OUTCOME_CHARS[1] * 2)]
            .map(form)
            .into()
    }

    /// Words the result of a call. Fields that no earlier call returned come first.
    fn new_fields_first(&mut self, verdict: &KeyLines) -> Redacted {
        if !verdict.is_data {
            return self.redact(&verdict.joined());
        }
        let is_new = |field: &&str| field.len() <= MAX_SHORT_FIELD_BYTES || !self.seen_fields.contains(*field);
        let rows = |field: &'_ String| self.name_uses.reorder_rows(field).unwrap_or_else(|| field.clone());
        let told: Vec<String> = verdict.lines.iter().map(rows).collect();
        let (mut new, old): (Vec<&str>, Vec<&str>) = told.iter().map(String::as_str).partition(is_new);
        self.seen_fields.extend(new.iter().map(|field| (*field).to_owned()));
        new.extend(old);
        self.redact(&new.join(", "))
    }
}

/// Returns a commit command without its message, if the output repeats the message.
fn strip_commit_message<'c>(command: &'c str, printed: &str) -> &'c str {
    let message = command.find("git commit").and_then(|at| Some(at + command[at..].find(" -m ")?));
    match message.map(|at| (at, command[at + 4..].trim_start_matches(['"', '\'']))) {
        Some((at, words)) if printed.contains(first_bytes(words, COMMIT_MESSAGE_BYTES)) => &command[..at],
        _ => command,
    }
}

/// Words an outcome: the test counts, the exit status or `failed`, then the lines that explain it.
pub(super) fn describe_outcome(tool_use: &ToolUse, verdict: &Redacted) -> Redacted {
    let action = &tool_use.action;
    let failed = action.outcome == Outcome::Failed;
    let mut words = Redacted::literal("");
    if let Some(tests) = action.test_counts.filter(|_| !verdict.as_str().contains(" passed")) {
        words = words
            .append_number(tests.passed)
            .append_literal(" passed, ")
            .append_number(tests.failed)
            .append_literal(" failed");
    } else if let Some(status) = action.exit_status.filter(|status| *status != 0) {
        let exit = if status < 0 { "exit -" } else { "exit " };
        words = Redacted::literal(exit).append_number(status.unsigned_abs() as usize);
    } else if failed {
        words = Redacted::literal("failed");
    } else if action.outcome == Outcome::Unanswered {
        words = Redacted::literal("no result");
    }
    match (words.as_str().is_empty(), verdict.as_str().is_empty()) {
        (true, true) if action.exit_status == Some(0) => Redacted::literal("exit 0"),
        (true, true) => Redacted::literal(""),
        // What a program prints of itself is not the outcome.
        (true, false) if action.verb == Verb::Run => Redacted::literal("printed “").append(verdict).append_literal("”"),
        (true, false) => verdict.clone(),
        (false, true) => words,
        (false, false) => words.append_literal(": ").append(verdict),
    }
}
