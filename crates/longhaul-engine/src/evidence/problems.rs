//! Which problems went away: the same was tried again and went well.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use crate::action::{Action, Outcome, TestCounts, Verb};

use super::Problem;
use super::exchange::same_command;

/// Problems that are still there, by what was tried.
#[derive(Default)]
pub(super) struct Tracker {
    tried: HashMap<(Verb, String), Vec<usize>, BuildHasherDefault<DefaultHasher>>,
    tests: Vec<(usize, TestCounts)>,
}

impl Tracker {
    /// Notes the problem with this number, which came of this action.
    pub(super) fn open(&mut self, problem: usize, action: &Action) {
        for tried in tried(action) {
            self.tried.entry(tried).or_default().push(problem);
        }
        if let Some(tests) = action.tests {
            self.tests.push((problem, tests));
        }
    }

    /// Marks the problems that this action shows to be gone.
    pub(super) fn settle(&mut self, unit: usize, action: &Action, problems: &mut [Problem]) {
        if !matches!(action.outcome, Outcome::Succeeded | Outcome::Unknown) {
            return;
        }
        let gone: Vec<usize> =
            tried(action).filter_map(|tried| self.tried.remove(&tried)).flatten().collect();
        let passes = |now: TestCounts| {
            move |before: &TestCounts| now.failed == 0 && now.passed >= before.passed + before.failed
        };
        let tests = action
            .tests
            .map(|now| self.tests.extract_if(.., |(_, before)| passes(now)(before)).collect::<Vec<_>>());
        for problem in gone.into_iter().chain(tests.into_iter().flatten().map(|(problem, _)| problem)) {
            problems[problem].resolved.get_or_insert(unit);
        }
    }
}

/// What an action tries: a command, or to read or change a file.
fn tried(action: &Action) -> impl Iterator<Item = (Verb, String)> {
    let verb = action.verb;
    let command =
        action.target.as_deref().map(|target| if verb == Verb::Run { same_command(target) } else { target });
    let target = command.filter(|target| !target.is_empty()).map(|target| (verb, target.to_owned()));
    let of_file = matches!(verb, Verb::Read | Verb::Write | Verb::Edit);
    // A file that could not be edited may be written anew.
    let files = action
        .files
        .iter()
        .filter(move |_| of_file)
        .map(move |touch| (if verb == Verb::Write { Verb::Edit } else { verb }, touch.path.clone()));
    target.into_iter().chain(files)
}
