//! A failed run that the same command later got through: the failure stays as one line with its main error.

use std::collections::HashMap;

use super::{Change, Leaves, Pass, Scope};
use crate::action::{Action, Outcome, Verb};
use crate::digest;
use crate::known::ContentKey;

pub(super) const PASS: Pass =
    Pass { name: "replaced", why: "the same command succeeded later", leaves: Leaves::Least, run };

/// The newest units in which a command got through.
#[derive(Default)]
struct GotThrough {
    /// It says so.
    surely: Option<usize>,
    /// It does not say that it failed, as it would where failures are flagged.
    unflagged: Option<usize>,
}

fn run(scope: &Scope<'_, '_>) -> Vec<Change> {
    let mut later: HashMap<(&str, ContentKey), GotThrough> = HashMap::new();
    for (unit, _, action) in scope.actions.all() {
        let Some(key) = command(action) else { continue };
        let got = later.entry(key).or_default();
        match action.outcome {
            Outcome::Succeeded => got.surely = Some(unit),
            Outcome::Unknown => got.unflagged = Some(unit),
            _ => {}
        }
    }
    let failed = scope.candidates().filter(|found| found.action.outcome == Outcome::Failed);
    failed
        .filter_map(|found| {
            let got = later.get(&command(found.action)?)?;
            let flagged = found.exchange.failed == Some(true);
            let newest = got.surely.max(got.unflagged.filter(|_| flagged))?;
            if newest <= found.at.unit {
                return None;
            }
            found.digested(scope, PASS.name, |source| digest::failure(source, "succeeded later"))
        })
        .collect()
}

/// What tells a command from others.
fn command(action: &Action) -> Option<(&str, ContentKey)> {
    action.key.filter(|_| action.verb == Verb::Run).map(|key| (action.tool.as_str(), key))
}
