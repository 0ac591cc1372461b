//! Of identical results the newest stays; each older one says which that is.

use std::collections::HashMap;

use super::{Change, Found, Leaves, Pass, Scope};
use crate::known::ContentKey;

pub(super) const PASS: Pass =
    Pass { name: "dedupe", why: "the same text stands in a later result", leaves: Leaves::Least, run };

fn run(scope: &Scope<'_, '_>) -> Vec<Change> {
    let mut newest: HashMap<ContentKey, Found<'_, '_>> = HashMap::new();
    let mut changes = Vec::new();
    for found in scope.results().rev().filter(|found| scope.is_long(found.block) && !found.is_ours()) {
        let key = ContentKey::of(0, found.block.raw().as_bytes());
        let Some(newer) = newest.get(&key) else {
            newest.insert(key, found);
            continue;
        };
        if (scope.may_change)(found.at.unit) {
            let text = found.block.text();
            let pointer = format!(
                "{} → {}same text as the later result of {}{}",
                found.opening(),
                found.outcome(),
                newer.name(),
                scope.recall(&text)
            );
            changes.extend(found.shortened(PASS.name, &text, pointer));
        }
    }
    changes.reverse();
    changes
}
