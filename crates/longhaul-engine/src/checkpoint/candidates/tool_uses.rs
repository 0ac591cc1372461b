//! Candidates for commands and tool calls: the last outcome of each command, and earlier outcomes that
//! differ.

use std::collections::{HashMap, HashSet};

use super::{CandidateCollector, CandidateSource, POSITIONS_PER_BLOCK};
use crate::action::{Outcome, Verb};
use crate::checkpoint::exchanges::{Exchange, first_open_turn};
use crate::checkpoint::weights::{LogWeights, MAX_EARLIER_RUNS, MAX_GROUPED_LOOKUPS, MAX_SHORT_ANSWER_BYTES};
use crate::evidence::{EvidenceItem, ToolUse};
use crate::tools::{changes_environment, is_lookup_tool};

impl<'d> CandidateCollector<'_, 'd> {
    pub(super) fn add_tool_uses(&mut self, exchanges: &[Exchange<'d>]) {
        let tool_uses = &self.input.evidence.tool_uses;
        let mut seen = NewerCalls::default();
        let first_open = first_open_turn(exchanges);
        for (index, item) in tool_uses.iter().enumerate().rev() {
            let Some(tool_use) = item.tool_use() else { continue };
            let runs = seen.record_run(tool_use);
            seen.changed_paths.extend(tool_use.applied_changes().iter().map(|change| change.path.as_str()));
            if !(self.input.is_summarized)(item.at.unit) {
                continue;
            }
            let first = (item.at.unit, item.at.block * POSITIONS_PER_BLOCK);
            match () {
                () if tool_use.question.is_some() => {
                    self.add(CandidateSource::Question(item), first, self.input.weights.log.question);
                }
                // The exchange has the answer with which the work was submitted.
                () if tool_use.submits_work || item.at.unit < first_open => {}
                () if self.told_uses.contains(&index) => {}
                () if tool_use.is_refused => {
                    if let Some(value_per_token) = seen.value_of_refused(tool_use, &self.input.weights.log) {
                        self.add(CandidateSource::RefusedEdit(item), first, value_per_token);
                    }
                }
                () => self.add_call(item, tool_use, runs, &mut seen),
            }
        }
    }

    /// Adds a command or call that was neither a question, a submission nor a refused edit.
    fn add_call(
        &mut self,
        item: &'d EvidenceItem,
        tool_use: &'d ToolUse,
        runs: NewerRuns<'d>,
        seen: &mut NewerCalls<'d>,
    ) {
        let action = &tool_use.action;
        let wrote = !tool_use.applied_changes().is_empty();
        let last = (item.at.unit, item.at.block * POSITIONS_PER_BLOCK + POSITIONS_PER_BLOCK - 1);
        match action.verb {
            _ if tool_use.is_edit && wrote => {}
            _ if action.is_read_only || tool_use.request.is_empty() && tool_use.key_lines.lines.is_empty() => {}
            // Files that a command only writes are described by their own candidates.
            Verb::Run if wrote && action.main_commands.as_deref().is_none_or(str::is_empty) => {}
            Verb::Run if tool_use.key_lines.lines.is_empty() && tool_use.normalized_command.starts_with("mkdir ") => {}
            Verb::Run => {
                let told = seen.candidate_of_command.get(tool_use.normalized_command.as_str());
                let newest = told.map(|told| &mut self.candidates[*told].source);
                let value = runs.value(tool_use, &self.input.weights.log);
                if let Some(CandidateSource::Command(newest, times, earlier)) = newest {
                    let newest_key = newest.tool_use().map(|newest| &newest.key_lines.results_key);
                    if value.is_some() && earlier.len() < MAX_EARLIER_RUNS {
                        earlier.insert(0, item);
                    } else if newest_key == Some(&tool_use.key_lines.results_key) {
                        *times += 1;
                    }
                } else if let Some(value_per_token) = value {
                    seen.candidate_of_command.insert(&tool_use.normalized_command, self.candidates.len());
                    self.add(CandidateSource::Command(item, 1, Vec::new()), last, value_per_token);
                }
            }
            _ if !is_lookup_tool(&action.tool) => {
                self.add(CandidateSource::OtherCalls(vec![item]), last, self.input.weights.log.file_change);
            }
            // The same look-up was repeated later.
            _ if !seen.lookups.insert((&action.tool, &tool_use.request)) => {}
            _ => {
                // Group many look-ups with the same short answer.
                if let Some(place) = seen.find_or_record_similar(tool_use, self.candidates.len())
                    && let CandidateSource::OtherCalls(items) = &mut self.candidates[place].source
                {
                    if items.len() < MAX_GROUPED_LOOKUPS {
                        items.insert(0, item);
                    }
                    return;
                }
                let value_per_token = self.input.weights.log.lookup / seen.count_call(tool_use).sqrt();
                self.add(CandidateSource::OtherCalls(vec![item]), last, value_per_token);
            }
        }
    }
}

/// The newer calls, while the list of tool uses is read from the newest to the oldest.
#[derive(Default)]
struct NewerCalls<'d> {
    /// For each command, the outcome of the oldest later run, and the number of distinct outcomes.
    outcomes: HashMap<&'d str, (&'d [String], usize)>,
    /// For each command, the index of the candidate for its newest run.
    candidate_of_command: HashMap<&'d str, usize>,
    /// The paths that were changed later.
    changed_paths: HashSet<&'d str>,
    /// The refused edits, each with its path and the reason.
    refusals: HashSet<(&'d str, &'d str)>,
    /// The look-ups, each with its tool and its arguments.
    lookups: HashSet<(&'d str, &'d str)>,
    /// The number of calls of each tool.
    calls_by_tool: HashMap<&'d str, usize>,
    /// For each tool and short answer, the index of the candidate that groups the look-ups.
    similar_lookups: HashMap<(&'d str, &'d str), usize>,
}

/// The outcomes of newer runs of the same command.
#[derive(Clone, Copy)]
struct NewerRuns<'d> {
    newer_lines: Option<&'d [String]>,
    distinct_outcomes: usize,
}

impl NewerRuns<'_> {
    /// Returns the value of a run; `None` if the next run had the same outcome.
    fn value(self, tool_use: &ToolUse, weights: &LogWeights) -> Option<f64> {
        let failed = tool_use.action.outcome == Outcome::Failed;
        match self.newer_lines {
            Some(newer) if *newer == *tool_use.key_lines.lines => None,
            Some(_) => Some(
                weights.earlier_run
                    * if failed { weights.earlier_failure_factor } else { weights.earlier_success_factor }
                    / (self.distinct_outcomes as f64).sqrt(),
            ),
            None if failed || tool_use.action.test_counts.is_some() => Some(weights.failed_command),
            None if changes_environment(&tool_use.normalized_command) => Some(weights.file_change),
            None => Some(weights.command),
        }
    }
}

impl<'d> NewerCalls<'d> {
    /// Returns the outcomes of newer runs of a command, and records this run.
    fn record_run(&mut self, tool_use: &'d ToolUse) -> NewerRuns<'d> {
        if tool_use.action.verb != Verb::Run {
            return NewerRuns { newer_lines: None, distinct_outcomes: 0 };
        }
        let newer = self.outcomes.get(tool_use.normalized_command.as_str()).copied();
        let outcomes = newer.map_or(0, |(_, outcomes)| outcomes);
        let is_other = newer.is_none_or(|(verdict, _)| *verdict != *tool_use.key_lines.lines);
        self.outcomes
            .insert(&tool_use.normalized_command, (&tool_use.key_lines.lines, outcomes + usize::from(is_other)));
        NewerRuns { newer_lines: newer.map(|(verdict, _)| verdict), distinct_outcomes: outcomes }
    }

    /// Returns the value of a refused edit: half if the file was edited later, `None` if a later edit was
    /// refused for the same reason.
    fn value_of_refused(&mut self, tool_use: &'d ToolUse, weights: &LogWeights) -> Option<f64> {
        let path = tool_use.changes.first().map_or("", |change| change.path.as_str());
        let why = tool_use.key_lines.lines.first().map_or("", String::as_str);
        let is_new = self.refusals.insert((path, why));
        is_new.then_some(if self.changed_paths.contains(path) {
            weights.refused_edit * weights.refused_then_edited_factor
        } else {
            weights.refused_edit
        })
    }

    /// Returns the index of the candidate with the same tool and short answer. If there is none, records that
    /// `next` will be it.
    fn find_or_record_similar(&mut self, tool_use: &'d ToolUse, next: usize) -> Option<usize> {
        let answer = match tool_use.key_lines.lines.as_slice() {
            [] => "",
            [answer] if answer.len() <= MAX_SHORT_ANSWER_BYTES => answer,
            _ => return None,
        };
        let key = (tool_use.action.tool.as_str(), answer);
        let told = self.similar_lookups.get(&key).copied();
        self.similar_lookups.entry(key).or_insert(next);
        told
    }

    fn count_call(&mut self, tool_use: &'d ToolUse) -> f64 {
        let times = self.calls_by_tool.entry(&tool_use.action.tool).or_default();
        *times += 1;
        *times as f64
    }
}
