//! Passes that propose shorter texts for single blocks. Each pass has a file.
//!
//! ```text
//! PassScope (policy, transcript, actions, what may change) ──pass──▶ ProposedChanges ──▶ a ledger, which makes edits
//! ```
//!
//! Every pass reads the whole transcript but proposes changes only where they are allowed; only the limits in
//! bytes may shorten results elsewhere too. A pass skips a result that is already a digest or a pointer to another
//! result. So a second run changes nothing that the first run wrote.
//!
//! This module may use `policy`, `action`, `wire` and the modules below them.

mod arguments;
mod byte_limits;
mod dedupe;
mod digest;
mod images;
mod progress;
mod resolved_failures;
mod superseded_reads;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

use crate::action::{Action, Actions, Outcome, Verb};
use crate::digest::{Focus, ToolOutput, is_digest};
use crate::host_text;
use crate::policy::Policy;
use crate::redact::{RedactionMode, Redactor};
use crate::rewrite::Edit;
use crate::transcript::{
    Block, BlockPosition, BlockRole, JsonSlot, TextEncoding, ToolCall, Transcript, TurnBlock, TurnKind,
};
use crate::truncate::to_one_line;
use crate::wire::{self, Role};

pub use byte_limits::{ByteLimits, shrink_to_byte_limits};

/// The passes in the order in which they run. If several passes would change the same block, the first one
/// decides.
pub const PASSES: &[Pass] = &[
    dedupe::PASS,
    superseded_reads::PASS,
    resolved_failures::PASS,
    progress::PASS,
    digest::PASS,
    arguments::PASS,
    images::PASS,
];

/// A pass: its name, its reason and its function.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// The name of the pass, as in reports.
    pub name: &'static str,
    /// The reason why the removed text is not needed any more, for people.
    pub reason: &'static str,
    /// Whether a later pass may shorten the new text further, if it is still long.
    pub remainder: Remainder,
    /// The function that proposes the changes, at most one for each block.
    pub run: fn(&PassScope<'_, '_>) -> Vec<ProposedChange>,
}

/// Whether a later pass may shorten the text that a pass leaves of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remainder {
    /// The text is as short as any pass can make it.
    Minimal,
    /// The text may still be long enough for a later pass.
    MayShrinkFurther,
}

/// The input of the passes.
#[derive(Clone, Copy)]
pub struct PassScope<'s, 'b> {
    /// The configured limits that apply.
    pub policy: &'s Policy,
    /// The transcript whose blocks are shortened.
    pub transcript: &'s Transcript<'b>,
    /// The actions of the tool calls of the transcript.
    pub actions: &'s Actions,
    /// Whether the turn with this index may be changed.
    pub may_change: &'s dyn Fn(usize) -> bool,
    /// Returns the recall ID for a text, if its original will be stored.
    pub recall_id: &'s dyn Fn(&str) -> Option<String>,
}

/// A new text for one block, proposed by a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedChange {
    /// The position of the block.
    pub at: BlockPosition,
    /// The name of the pass that proposes the change.
    pub pass: &'static str,
    /// The new text.
    pub new_text: NewText,
}

impl ProposedChange {
    /// Returns the reason why the removed text is not needed any more. If no pass of [`PASSES`] has this
    /// name, returns the name.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        PASSES.iter().find(|pass| pass.name == self.pass).map_or(self.pass, |pass| pass.reason)
    }
}

/// The new text of a block. It is stored in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewText {
    /// A text that replaces the text of the block.
    Text(String),
    /// A placeholder: a text block that replaces an image or a document.
    Mark(String),
}

/// Runs all passes. Returns at most one change for each block, in the order of the transcript.
#[must_use]
pub fn run_all(scope: &PassScope<'_, '_>) -> Vec<ProposedChange> {
    let mut chosen: BTreeMap<BlockPosition, (Remainder, ProposedChange)> = BTreeMap::new();
    for pass in PASSES {
        for change in (pass.run)(scope) {
            let long = match &change.new_text {
                NewText::Text(text) => is_longer(text, scope.policy.prune_above_chars),
                NewText::Mark(_) => false,
            };
            let leaves = if long { pass.remainder } else { Remainder::Minimal };
            match chosen.entry(change.at) {
                Entry::Vacant(free) => drop(free.insert((leaves, change))),
                // A text that the next run would shorten again is shortened now. Otherwise two runs would
                // differ from one.
                Entry::Occupied(mut taken) if taken.get().0 == Remainder::MayShrinkFurther => {
                    drop(taken.insert((leaves, change)));
                }
                Entry::Occupied(_) => {}
            }
        }
    }
    chosen.into_values().map(|(_, change)| change).collect()
}

impl NewText {
    /// Returns this text without secrets. If it is JSON, it stays JSON.
    #[must_use]
    pub(crate) fn redacted(self, redactor: &mut Redactor) -> Self {
        let mut redact = |text: String| match redactor.redact_json(&text) {
            Ok(json) => json.text.into_string(),
            Err(_) => redactor.redact(&text, RedactionMode::Text).text.into_string(),
        };
        match self {
            Self::Text(text) => Self::Text(redact(text)),
            Self::Mark(mark) => Self::Mark(redact(mark)),
        }
    }

    /// Returns the edit that replaces the block at this position. Returns `None` if there is no such block or
    /// its text is damaged.
    #[must_use]
    pub fn to_edit(&self, transcript: &Transcript<'_>, at: BlockPosition) -> Option<Edit> {
        let TurnBlock { block, role, .. } = transcript.blocks_of_turn(at.unit).nth(at.block)?;
        match self {
            Self::Text(with) => {
                let text = block.text.filter(|text| text.encoding != TextEncoding::Damaged)?;
                Some(Edit::Text { text, with: with.clone() })
            }
            Self::Mark(mark) => {
                let JsonSlot::Element(element) = block.slot else { return None };
                let message_role = match (&transcript.turns[at.unit].kind, role) {
                    (TurnKind::Assistant { .. }, BlockRole::Content) => Role::Assistant,
                    _ => Role::User,
                };
                Some(Edit::Replace { element, json: wire::text_block_json(transcript.api_format, message_role, mark) })
            }
        }
    }
}

/// A block of a tool result whose text may be read and replaced, with the tool call that it belongs to.
#[derive(Clone, Copy)]
struct ResultBlock<'s, 'b> {
    at: BlockPosition,
    /// The index of the tool call among those of the turn.
    call_index: usize,
    tool_call: &'s ToolCall<'b>,
    action: &'s Action,
    block: &'s Block<'b>,
}

impl<'s, 'b> PassScope<'s, 'b> {
    /// Returns the results that have editable text, oldest first.
    fn results(&self) -> impl DoubleEndedIterator<Item = ResultBlock<'s, 'b>> + use<'s, 'b> {
        let found = |TurnBlock { position: at, block, role }: TurnBlock<'s, 'b>| {
            let BlockRole::Result { call_index, tool_call } = role else { return None };
            let action = self.actions.in_turn(at.unit).get(call_index)?;
            block.is_editable_text().then_some(ResultBlock { at, call_index, tool_call, action, block })
        };
        let results: Vec<ResultBlock<'s, 'b>> = self.transcript.turn_blocks().filter_map(found).collect();
        results.into_iter()
    }

    /// Returns the tool calls of the transcript.
    fn calls(&self) -> impl Iterator<Item = TurnBlock<'s, 'b>> + use<'s, 'b> {
        self.transcript.turn_blocks().filter(|part| matches!(part.role, BlockRole::Call(_)))
    }

    /// Returns the results that a pass may shorten: they are long, may be changed, and were not shortened
    /// before.
    fn candidates(&self) -> impl DoubleEndedIterator<Item = ResultBlock<'s, 'b>> + use<'_, 's, 'b> {
        self.results().filter(|found| {
            (self.may_change)(found.at.unit) && self.is_long(found.block) && !found.is_already_shortened()
        })
    }

    /// Whether the text of a block has more characters than the policy leaves alone.
    fn is_long(&self, block: &Block<'_>) -> bool {
        let most = self.policy.prune_above_chars;
        // A character takes at most twelve bytes of a request body, as two `\uXXXX` escapes.
        let raw = block.text.map_or(0, |text| text.at.len());
        raw > most && (raw > 12 * most || is_longer(&block.text(), most))
    }

    /// Returns the note that is appended to a short form if the original can be recalled.
    fn recall_note(&self, text: &str) -> String {
        (self.recall_id)(text).map_or_else(String::new, |recall_id| format!(" (recall {recall_id})"))
    }
}

fn is_longer(text: &str, most: usize) -> bool {
    text.len() > most && text.chars().nth(most).is_some()
}

/// The maximum number of characters of a target in a short form. Chosen by hand.
const MAX_TARGET_CHARS: usize = 120;

impl ResultBlock<'_, '_> {
    fn tool(&self) -> &str {
        if self.action.tool.is_empty() { "tool" } else { &self.action.tool }
    }

    /// Whether the text is a digest or a pointer from an earlier run.
    fn is_already_shortened(&self) -> bool {
        self.block.opening(1).starts_with('[')
            && is_digest(host_text::without_trailing(&self.block.text()), &self.action.tool)
    }

    /// Describes the tool call, as at the beginning of a short form: ``[bash] ran `make` ``.
    fn describe_call(&self) -> String {
        let target = self.action.target.as_deref().map(|target| to_one_line(target, MAX_TARGET_CHARS));
        let target = target.as_deref();
        let said = match (self.action.verb, target) {
            (Verb::Run, target) => format!("ran `{}`", target.unwrap_or("a command")),
            (Verb::Write, target) => format!("wrote {}", target.unwrap_or("a file")),
            (Verb::Edit, target) => format!("edited {}", target.unwrap_or("a file")),
            (Verb::Read, target) => target.unwrap_or("a file").to_owned(),
            (Verb::Search, Some(target)) => format!("'{target}'"),
            (Verb::Delegate, Some(target)) => format!("delegated '{target}'"),
            (_, target) => target.unwrap_or("call").to_owned(),
        };
        format!("[{}] {said}", self.tool())
    }

    /// Returns the outcome, as after the arrow of a short form: `exit 1, failed, `.
    fn outcome_prefix(&self) -> String {
        let exit = self.action.exit_status.map(|status| format!("exit {status}, ")).unwrap_or_default();
        let failed = self.action.outcome == Outcome::Failed;
        format!("{exit}{}", if failed { "failed, " } else { "" })
    }

    /// Returns the tool and its target, for the short form of another result that refers to this one.
    fn name_with_target(&self) -> String {
        match &self.action.target {
            Some(target) => format!("{} (`{}`)", self.tool(), to_one_line(target, MAX_TARGET_CHARS)),
            None => self.tool().to_owned(),
        }
    }

    /// Returns a change to the text that `short` makes of this result.
    fn digest_change(
        &self,
        scope: &PassScope<'_, '_>,
        pass: &'static str,
        short: impl Fn(&ToolOutput<'_>) -> String,
    ) -> Option<ProposedChange> {
        let (whole, focus) = (self.block.text(), Focus::none());
        let recall_id = (scope.recall_id)(&whole);
        let text = host_text::without_trailing(&whole);
        let with = |arguments: Option<&str>| {
            let line = short(&ToolOutput {
                text,
                original_bytes: None,
                tool: Some(self.tool()),
                arguments,
                kind: None,
                failed: self.tool_call.failed,
                focus: &focus,
                recall_id: recall_id.as_deref(),
            });
            self.shorten_to(pass, text, line)
        };
        let call = self.tool_call.call.as_ref();
        // Arguments that are cut in this run say less in the next one. A text that would be short enough only
        // then is shortened now.
        with(call.map(Block::text).as_deref()).or_else(|| with(Some(&arguments::shrink_arguments(scope, call?)?)))
    }

    /// Returns a change to this text if it saves at least half of the text before it. A smaller saving is not
    /// worth the loss.
    fn shorten_to(&self, pass: &'static str, before: &str, to: String) -> Option<ProposedChange> {
        (to.len() * 2 <= before.len()).then_some(ProposedChange { at: self.at, pass, new_text: NewText::Text(to) })
    }
}
