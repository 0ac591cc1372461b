//! Candidates from the previous checkpoint that nothing newer replaces, and the lines that somebody else wants quoted.

use super::{CandidateCollector, CandidateSource, Section};
use crate::checkpoint::QuotedLines;
use crate::checkpoint::exchanges::Exchange;
use crate::checkpoint::state::{StateLabel, StateLine, path_of_line};
use crate::checkpoint::weights;
use crate::evidence::has_rule;
use crate::redact::Redacted;
use crate::texts::EntryKind;

impl CandidateCollector<'_, '_> {
    /// Adds the content of the previous checkpoint that nothing newer replaces. It is older than all else,
    /// and loses value each time.
    pub(super) fn add_carried_items(&mut self, exchanges: &[Exchange<'_>]) {
        let Some(before) = self.input.previous else { return };
        // A message on a recall page needs no second copy, unless it states a rule.
        let has_pages = !self.input.earlier_work.is_empty();
        let since = self.input.previous_turn.unwrap_or(0);
        let requests = exchanges.iter().filter_map(|exchange| exchange.request);
        let has_newer_request = requests.into_iter().any(|request| request.at.unit > since);
        for section in Section::ALL {
            let value_per_token = match section {
                Section::State => self.input.weights.state.carried,
                Section::ActiveTask | Section::Goal | Section::Constraints => {
                    self.input.weights.log.request * self.input.weights.carried.factor
                }
                Section::RelevantFiles => self.input.weights.log.changed_file * self.input.weights.carried.factor,
                _ => self.input.weights.carried.item,
            };
            let is_read = |item: &&Redacted| section == Section::RelevantFiles && item.as_str().ends_with("— read");
            let is_replaced = |item: &&Redacted| section == Section::State && self.replaces_state(item.as_str());
            let items = before.list(section);
            for (place, item) in
                items.iter().enumerate().filter(|(_, item)| !is_read(item) && !is_replaced(item)).collect::<Vec<_>>()
            {
                // Of equal items keep the last.
                if has_pages && items[place + 1..].contains(item) {
                    continue;
                }
                // If there is a newer request, the earlier one is listed among the actions.
                if section == Section::State
                    && StateLabel::of_text(item.as_str()) == Some(StateLabel::Request)
                    && has_newer_request
                {
                    self.push(
                        CandidateSource::CarriedRequest(item),
                        None,
                        (1, place),
                        self.input.weights.log.request * self.input.weights.carried.factor,
                    );
                    continue;
                }
                let is_paged = section == Section::Goal && has_pages && !has_rule(item.as_str());
                let value = if is_paged { self.input.weights.carried.paged_message } else { value_per_token };
                self.push(CandidateSource::CarriedItem(section, item), None, (0, place), value);
            }
        }
        for (place, completed) in before.completed().iter().enumerate() {
            let age = weights::age_factor(self.input.weights.age.carried_action, place, before.completed().len());
            let entry = &completed.entry;
            let value = match entry.kind() {
                EntryKind::UserRequest if has_rule(entry.outcome().as_str()) => self.input.weights.log.rule,
                EntryKind::UserRequest => self.input.weights.log.request * self.input.weights.carried.factor * age,
                _ => self.input.weights.carried.item * age,
            };
            self.push(CandidateSource::CarriedAction(completed), None, (0, place), value);
        }
    }

    /// Returns whether a line of an earlier state is over, or a new line takes its place.
    fn replaces_state(&self, earlier: &str) -> bool {
        let new_lines = || {
            self.candidates.iter().filter_map(|draft| match &draft.source {
                CandidateSource::State(line) => Some(line),
                _ => None,
            })
        };
        let has_new = |wanted: StateLabel| new_lines().any(|line| StateLabel::of_line(line) == wanted);
        let has_file = |path: &str| {
            new_lines().any(|line| match line {
                StateLine::File(file, _) => file.path == path,
                StateLine::FileChangedBelow(changed) => changed == path,
                _ => false,
            })
        };
        let Some(label) = StateLabel::of_text(earlier) else { return false };
        match label {
            // What was being tried is over, and after a change the checks before it prove nothing.
            StateLabel::LastWords | StateLabel::Repetition => true,
            StateLabel::Passed | StateLabel::Failed | StateLabel::LastChecks => {
                [StateLabel::File, StateLabel::Passed, StateLabel::Failed, StateLabel::LastChecks]
                    .into_iter()
                    .any(has_new)
            }
            StateLabel::File => path_of_line(earlier).is_some_and(has_file),
            StateLabel::Called | StateLabel::Helpers | StateLabel::Installed | StateLabel::Request => false,
            StateLabel::Finding | StateLabel::RefusedEdit | StateLabel::Tasks | StateLabel::Values => has_new(label),
        }
    }

    pub(super) fn add_quotes(&mut self) {
        if let Some(kept) = self.input.host_note {
            for line in 0..kept.lines.len() {
                let source = CandidateSource::QuotedLine(kept, line);
                self.push(source, None, (usize::MAX, line), self.input.weights.log.rule);
            }
        }
        // New notes of the host replace its earlier ones.
        let is_older = |quoted: &&QuotedLines| self.input.host_note.is_some_and(|kept| kept.source == quoted.source);
        let before = self.input.previous.map_or(&[][..], |before| before.quoted());
        let before = before.iter().filter(|quoted| !is_older(quoted));
        for (source, quoted) in before.chain(self.input.topic_quotes).enumerate() {
            for line in 0..quoted.lines.len() {
                let value = self.input.weights.log.quoted_line * (1.0 + source as f64 / weights::SOURCE_ORDER_DIVISOR);
                self.push(CandidateSource::QuotedLine(quoted, line), None, (source, line), value);
            }
        }
    }
}
