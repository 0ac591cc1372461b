//! Keeps the newest of identical results. Each older one becomes a pointer to it.

use std::collections::HashMap;

use super::{Pass, PassScope, ProposedChange, Remainder, ResultBlock};
use crate::block_cache::ContentKey;

pub(super) const PASS: Pass =
    Pass { name: "dedupe", reason: "a later result has the same text", remainder: Remainder::Minimal, run };

fn run(scope: &PassScope<'_, '_>) -> Vec<ProposedChange> {
    let mut newest: HashMap<ContentKey, ResultBlock<'_, '_>> = HashMap::new();
    let mut changes = Vec::new();
    for found in scope.results().rev().filter(|found| scope.is_long(found.block) && !found.is_already_shortened()) {
        let key = ContentKey::new(0, found.block.raw().as_bytes());
        let Some(newer) = newest.get(&key) else {
            newest.insert(key, found);
            continue;
        };
        if (scope.may_change)(found.at.unit) {
            let text = found.block.text();
            let pointer = format!(
                "{} → {}same text as the later result of {}{}",
                found.describe_call(),
                found.outcome_prefix(),
                newer.name_with_target(),
                scope.recall_note(&text)
            );
            changes.extend(found.shorten_to(PASS.name, &text, pointer));
        }
    }
    changes.reverse();
    changes
}
