//! Shrinks a request to the limits that hosts set in bytes, independent of tokens: the size of the body and
//! of one string.
//!
//! Strings that are too long are shortened first, also in protected turns. If the body is still too large,
//! images are replaced, because they are most of a large body; then the largest results are shortened, those in
//! protected turns last. The messages of the newest prompt are never changed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{NewText, PassScope, ProposedChange, ResultBlock, arguments, images};
use crate::digest::{ToolOutput, default_budget, digest};
use crate::transcript::{Block, BlockPosition, TurnKind};

/// The name under which these changes are reported.
const PASS_NAME: &str = "byte_budget";

/// The limits of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByteLimits {
    /// The maximum size of a request body, in bytes.
    pub body: usize,
    /// The maximum length of one string, in characters. It is compared with bytes, which are never fewer.
    pub string: usize,
}

table! {
    static LIMITS: ByteLimits = "limits.toml";
}

impl Default for ByteLimits {
    /// Returns the lowest limits of the common hosts. `limits.toml` names their sources.
    fn default() -> Self {
        *LIMITS
    }
}

/// Returns the changes that bring a body and its strings under the limits, as far as that is possible.
/// Returns none if they are under the limits already.
#[must_use]
pub fn shrink_to_byte_limits(scope: &PassScope<'_, '_>, limits: ByteLimits) -> Vec<ProposedChange> {
    let mut budget = ByteBudget { body_bytes: scope.transcript.body.len(), changes: BTreeMap::new() };
    let newest_prompt = newest_prompt_messages(scope);
    for found in scope
        .results()
        .filter(|found| found.raw_bytes() > limits.string && !found.is_in_messages(scope, &newest_prompt))
    {
        budget.digest(scope, &found);
    }
    for call in scope.calls().filter(|call| call.block.at.len() > limits.string) {
        budget.add(call.position, call.block, arguments::shrink_arguments(scope, call.block).map(NewText::Text));
    }
    if budget.body_bytes <= limits.body {
        return budget.into_changes();
    }
    let pictures: Vec<_> = images::replaceable_images(scope).collect();
    let newest = pictures.iter().map(|(.., message)| *message).max().flatten();
    // Oldest first. The newest message with images and the protected turns follow, if the others were not
    // enough.
    let rank = |turn: usize, message: Option<usize>| (!(scope.may_change)(turn), message == newest);
    let mut pictures: Vec<_> = pictures
        .into_iter()
        .filter(|(.., message)| !message.is_some_and(|message| newest_prompt.contains(&message)))
        .map(|(at, block, message)| (rank(at.unit, message), at, block))
        .collect();
    pictures.sort_by_key(|(rank, at, _)| (*rank, *at));
    for (_, at, block) in pictures {
        if budget.body_bytes <= limits.body {
            return budget.into_changes();
        }
        budget.add(at, block, Some(images::image_placeholder(scope, block)));
    }
    let mut results: Vec<_> = scope
        .results()
        .filter(|found| scope.is_long(found.block) && !found.is_in_messages(scope, &newest_prompt))
        .collect();
    results.sort_by_key(|found| (!(scope.may_change)(found.at.unit), std::cmp::Reverse(found.raw_bytes()), found.at));
    for found in results {
        if budget.body_bytes <= limits.body {
            break;
        }
        budget.digest(scope, &found);
    }
    budget.into_changes()
}

struct ByteBudget {
    body_bytes: usize,
    changes: BTreeMap<BlockPosition, ProposedChange>,
}

impl ByteBudget {
    fn digest(&mut self, scope: &PassScope<'_, '_>, found: &ResultBlock<'_, '_>) {
        if self.changes.contains_key(&found.at) || found.is_already_shortened() {
            return;
        }
        let short = |source: &ToolOutput<'_>| digest(source, default_budget(source.text)).text;
        self.add(found.at, found.block, found.digest_change(scope, PASS_NAME, short).map(|change| change.new_text));
    }

    fn add(&mut self, at: BlockPosition, block: &Block<'_>, to: Option<NewText>) {
        let Some(to) = to else { return };
        let (NewText::Text(text) | NewText::Mark(text)) = &to;
        self.body_bytes = self.body_bytes.saturating_sub(block.at.len().saturating_sub(text.len()));
        self.changes.entry(at).or_insert(ProposedChange { at, pass: PASS_NAME, new_text: to });
    }

    fn into_changes(self) -> Vec<ProposedChange> {
        self.changes.into_values().collect()
    }
}

impl ResultBlock<'_, '_> {
    fn raw_bytes(&self) -> usize {
        self.block.text.map_or(0, |text| text.at.len())
    }

    /// Whether the result is in one of these messages.
    fn is_in_messages(&self, scope: &PassScope<'_, '_>, messages: &BTreeSet<usize>) -> bool {
        let mut own = self.tool_call.result_elements.iter().filter_map(|id| scope.transcript.message_of(*id));
        own.any(|message| messages.contains(&message))
    }
}

/// Returns the indexes of the messages of the newest prompt.
fn newest_prompt_messages(scope: &PassScope<'_, '_>) -> BTreeSet<usize> {
    let transcript = scope.transcript;
    let newest = transcript.turns.iter().rev().find(|turn| matches!(turn.kind, TurnKind::Prompt { .. }));
    newest.into_iter().flat_map(|turn| &turn.owned_elements).filter_map(|id| transcript.message_of(*id)).collect()
}
