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
    /// Failed test runs with their commands, the newest last.
    tests: Vec<(usize, TestCounts, String)>,
}

impl Tracker {
    /// Notes the problem with this number, which came of this action.
    pub(super) fn open(&mut self, problem: usize, action: &Action) {
        for tried in tried(action) {
            self.tried.entry(tried).or_default().push(problem);
        }
        if let Some(tests) = action.tests {
            self.tests.push((problem, tests, command(action).to_owned()));
        }
    }

    /// Marks the problems that this action shows to be gone.
    pub(super) fn settle(&mut self, unit: usize, action: &Action, problems: &mut [Problem]) {
        if !matches!(action.outcome, Outcome::Succeeded | Outcome::Unknown) {
            return;
        }
        let gone: Vec<usize> =
            tried(action).filter_map(|tried| self.tried.remove(&tried)).flatten().collect();
        let now = action.tests.filter(|tests| tests.failed == 0);
        let passing = now.map(|now| {
            self.tests
                .extract_if(.., |(_, before, tried)| passes(now, action, *before, tried))
                .collect::<Vec<_>>()
        });
        let passing = passing.into_iter().flatten().map(|(problem, ..)| problem);
        for problem in gone.into_iter().chain(passing) {
            problems[problem].resolved.get_or_insert(unit);
        }
    }
}

/// Whether a run shows that what failed in an earlier one passes: it runs the same or more, and no fewer tests passed.
fn passes(now: TestCounts, action: &Action, before: TestCounts, tried: &str) -> bool {
    let rest = tried.strip_prefix(command(action));
    now.passed >= before.passed + before.failed
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// The command that an action ran, or else what it was about.
fn command(action: &Action) -> &str {
    same_command(action.target.as_deref().unwrap_or_default())
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
