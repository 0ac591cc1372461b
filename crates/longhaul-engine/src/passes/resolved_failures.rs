//! Shortens a failed run if the same command succeeded later: one line with the main error remains.

use std::collections::HashMap;

use super::{Pass, PassScope, ProposedChange, Remainder};
use crate::action::{Action, Outcome, Verb};
use crate::block_cache::ContentKey;
use crate::digest;

pub(super) const PASS: Pass =
    Pass { name: "replaced", reason: "the same command succeeded later", remainder: Remainder::Minimal, run };

/// The newest turns in which a command succeeded.
#[derive(Default)]
struct LatestSuccess {
    /// The newest turn whose result says that the command succeeded.
    confirmed: Option<usize>,
    /// The newest turn whose result does not say that the command failed. It counts as a success only if the
    /// tool flags its failures.
    unflagged: Option<usize>,
}

fn run(scope: &PassScope<'_, '_>) -> Vec<ProposedChange> {
    let mut successes_by_command: HashMap<(&str, ContentKey), LatestSuccess> = HashMap::new();
    for (turn, _, action) in scope.actions.all() {
        let Some(key) = command_key(action) else { continue };
        let successes = successes_by_command.entry(key).or_default();
        match action.outcome {
            Outcome::Succeeded => successes.confirmed = Some(turn),
            Outcome::Unknown => successes.unflagged = Some(turn),
            _ => {}
        }
    }
    let failed = scope.candidates().filter(|found| found.action.outcome == Outcome::Failed);
    failed
        .filter_map(|found| {
            let successes = successes_by_command.get(&command_key(found.action)?)?;
            let flagged = found.tool_call.failed == Some(true);
            let newest = successes.confirmed.max(successes.unflagged.filter(|_| flagged))?;
            if newest <= found.at.unit {
                return None;
            }
            found.digest_change(scope, PASS.name, |source| digest::failure_line(source, "succeeded later"))
        })
        .collect()
}

/// Returns the key that identifies a command: the tool and a hash of the request. Returns `None` if the
/// action is no command.
fn command_key(action: &Action) -> Option<(&str, ContentKey)> {
    action.request_key.filter(|_| action.verb == Verb::Run).map(|key| (action.tool.as_str(), key))
}
