//! What a host takes in bytes, however few tokens it is: a body of so many, a string of so many.
//!
//! Images go first, for they are most of such bodies; then the largest results are digested. What is protected is touched last,
//! and never what was said under the user's name.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Change, Found, NewText, Scope, arguments, images};
use crate::digest::{Source, default_budget, digest};
use crate::transcript::{Block, BlockAt, UnitKind};

/// The name under which these changes are reported.
const NAME: &str = "byte_budget";

/// What a host takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteLimits {
    /// Bytes of a body.
    pub body: usize,
    /// Characters of one string.
    pub string: usize,
}

table! {
    static LIMITS: ByteLimits = "limits.toml";
}

impl Default for ByteLimits {
    /// The lowest that the common hosts have.
    fn default() -> Self {
        *LIMITS
    }
}

/// The changes that bring a body and its strings under the limits, as far as that is possible; none where they are.
#[must_use]
pub fn byte_budget(scope: &Scope<'_, '_>, limits: ByteLimits) -> Vec<Change> {
    let mut budget = Budget { size: scope.transcript.body.len(), changes: BTreeMap::new() };
    let said = newest_said(scope);
    for found in scope.results().filter(|found| found.bytes() > limits.string && !found.is_in(scope, &said)) {
        budget.digest(scope, &found);
    }
    for call in scope.calls().filter(|call| call.block.at.len() > limits.string) {
        budget.add(call.at, call.block, arguments::shrunk(scope, call.block).map(NewText::Text));
    }
    if budget.size <= limits.body {
        return budget.into_changes();
    }
    let pictures: Vec<_> = images::all(scope).collect();
    let newest = pictures.iter().map(|(.., message)| *message).max().flatten();
    // Oldest first; the newest message with images, and what is protected, only if the others were not enough.
    let rank = |unit: usize, message: Option<usize>| (!(scope.may_change)(unit), message == newest);
    let mut pictures: Vec<_> = pictures
        .into_iter()
        .filter(|(.., message)| !message.is_some_and(|message| said.contains(&message)))
        .map(|(at, block, message)| (rank(at.unit, message), at, block))
        .collect();
    pictures.sort_by_key(|(rank, at, _)| (*rank, *at));
    for (_, at, block) in pictures {
        if budget.size <= limits.body {
            return budget.into_changes();
        }
        budget.add(at, block, Some(images::mark(scope, block)));
    }
    let mut results: Vec<_> =
        scope.results().filter(|found| scope.is_long(found.block) && !found.is_in(scope, &said)).collect();
    results.sort_by_key(|found| {
        (!(scope.may_change)(found.at.unit), std::cmp::Reverse(found.bytes()), found.at)
    });
    for found in results {
        if budget.size <= limits.body {
            break;
        }
        budget.digest(scope, &found);
    }
    budget.into_changes()
}

struct Budget {
    size: usize,
    changes: BTreeMap<BlockAt, Change>,
}

impl Budget {
    fn digest(&mut self, scope: &Scope<'_, '_>, found: &Found<'_, '_>) {
        if self.changes.contains_key(&found.at) || found.is_ours() {
            return;
        }
        let whole = |source: &Source<'_>| digest(source, default_budget(source.text)).text;
        self.add(found.at, found.block, found.digested(scope, NAME, whole).map(|change| change.to));
    }

    fn add(&mut self, at: BlockAt, block: &Block<'_>, to: Option<NewText>) {
        let Some(to) = to else { return };
        let (NewText::Text(text) | NewText::Mark(text)) = &to;
        self.size = self.size.saturating_sub(block.at.len().saturating_sub(text.len()));
        self.changes.entry(at).or_insert(Change { at, pass: NAME, to });
    }

    fn into_changes(self) -> Vec<Change> {
        self.changes.into_values().collect()
    }
}

impl Found<'_, '_> {
    fn bytes(&self) -> usize {
        self.block.text.map_or(0, |text| text.at.len())
    }

    /// Whether it stands in one of these messages.
    fn is_in(&self, scope: &Scope<'_, '_>, messages: &BTreeSet<usize>) -> bool {
        let mut own = self.exchange.answers.iter().filter_map(|id| scope.transcript.message_of(*id));
        own.any(|message| messages.contains(&message))
    }
}

/// The messages of the newest prompt.
fn newest_said(scope: &Scope<'_, '_>) -> BTreeSet<usize> {
    let transcript = scope.transcript;
    let newest = transcript.units.iter().rev().find(|unit| matches!(unit.kind, UnitKind::Prompt { .. }));
    newest.into_iter().flat_map(|unit| &unit.owns).filter_map(|id| transcript.message_of(*id)).collect()
}
