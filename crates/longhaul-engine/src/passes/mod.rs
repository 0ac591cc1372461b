//! Shorter texts for single blocks, one file a pass.
//!
//! ```text
//! Scope (policy, transcript, what each call did, what may change) ──pass──▶ Changes ──▶ a ledger, which edits
//! ```
//!
//! Every pass looks at the whole transcript and proposes changes only where they are allowed. A result that is a digest or a
//! pointer already is left as it is, so that the passes change nothing in what they made themselves.
//!
//! It may use `policy`, `action`, `wire` and what is below them.

mod arguments;
mod bytes;
mod dedupe;
mod digest;
mod images;
mod progress;
mod replaced;
mod superseded;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};

use crate::action::{Action, Actions, Outcome, Verb};
use crate::clip::on_one_line;
use crate::digest::{Focus, Source, is_digest};
use crate::hosted;
use crate::policy::Policy;
use crate::redact::{Content, Redactor};
use crate::rewrite::Edit;
use crate::transcript::{Block, BlockAt, Exchange, Form, Part, PartKind, Place, Transcript, UnitKind};
use crate::wire::{self, Role};

pub use bytes::{ByteLimits, byte_budget};

/// The passes, in order: for a block that several would change, the first has its way.
pub const PASSES: &[Pass] = &[
    dedupe::PASS,
    superseded::PASS,
    replaced::PASS,
    progress::PASS,
    digest::PASS,
    arguments::PASS,
    images::PASS,
];

/// One pass.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// Its name, in reports.
    pub name: &'static str,
    /// Why what it takes is not missed, for people.
    pub why: &'static str,
    /// How far what it leaves is from the shortest.
    pub leaves: Leaves,
    /// The changes that it proposes, at most one for a block.
    pub run: fn(&Scope<'_, '_>) -> Vec<Change>,
}

/// What a pass leaves of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// The least that can be said of it.
    Least,
    /// A text that may still be long enough for a later pass.
    Text,
}

/// What the passes look at.
#[derive(Clone, Copy)]
pub struct Scope<'s, 'b> {
    /// The numbers in force.
    pub policy: &'s Policy,
    /// The transcript.
    pub transcript: &'s Transcript<'b>,
    /// What each of its calls did.
    pub actions: &'s Actions,
    /// Whether a unit may be changed.
    pub may_change: &'s dyn Fn(usize) -> bool,
    /// The handle that will fetch a text again, where there will be one.
    pub handle: &'s dyn Fn(&str) -> Option<String>,
}

/// A new text for one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which block.
    pub at: BlockAt,
    /// The pass that proposes it.
    pub pass: &'static str,
    /// What it becomes.
    pub to: NewText,
}

impl Change {
    /// Why what it takes is not missed; where no pass of the table proposed it, who did.
    #[must_use]
    pub fn why(&self) -> &'static str {
        PASSES.iter().find(|pass| pass.name == self.pass).map_or(self.pass, |pass| pass.why)
    }
}

/// What becomes of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewText {
    /// Another text in the place of its text.
    Text(String),
    /// A text block in the place of an image or document.
    Mark(String),
}

/// The changes of all passes, at most one for a block, in the order of the transcript.
#[must_use]
pub fn run_all(scope: &Scope<'_, '_>) -> Vec<Change> {
    let mut chosen: BTreeMap<BlockAt, (Leaves, Change)> = BTreeMap::new();
    for pass in PASSES {
        for change in (pass.run)(scope) {
            let long = match &change.to {
                NewText::Text(text) => is_longer(text, scope.policy.prune_characters),
                NewText::Mark(_) => false,
            };
            let leaves = if long { pass.leaves } else { Leaves::Least };
            match chosen.entry(change.at) {
                Entry::Vacant(free) => drop(free.insert((leaves, change))),
                // What would be shortened in the next run is shortened now, or two runs would differ.
                Entry::Occupied(mut taken) if taken.get().0 == Leaves::Text => {
                    drop(taken.insert((leaves, change)));
                }
                Entry::Occupied(_) => {}
            }
        }
    }
    chosen.into_values().map(|(_, change)| change).collect()
}

impl NewText {
    /// The same without secrets. What is JSON stays JSON.
    #[must_use]
    pub(crate) fn redacted(self, redactor: &mut Redactor) -> Self {
        let mut redact = |text: String| match redactor.redact_json(&text) {
            Ok(json) => json.text.into_string(),
            Err(_) => redactor.redact(&text, Content::Text).text.into_string(),
        };
        match self {
            Self::Text(text) => Self::Text(redact(text)),
            Self::Mark(mark) => Self::Mark(redact(mark)),
        }
    }

    /// The edit that puts it in the place of a block; nothing where there is no such block, or its text is damaged.
    #[must_use]
    pub fn edit(&self, transcript: &Transcript<'_>, at: BlockAt) -> Option<Edit> {
        let Part { block, kind, .. } = transcript.parts_of(at.unit).nth(at.block)?;
        match self {
            Self::Text(with) => {
                let text = block.text.filter(|text| text.form != Form::Damaged)?;
                Some(Edit::Text { text, with: with.clone() })
            }
            Self::Mark(mark) => {
                let Place::Element(element) = block.place else { return None };
                let role = match (&transcript.units[at.unit].kind, kind) {
                    (UnitKind::Step { .. }, PartKind::Said) => Role::Assistant,
                    _ => Role::User,
                };
                Some(Edit::Replace { element, json: wire::block(transcript.dialect, role, mark) })
            }
        }
    }
}

/// A result whose text may be read and replaced, beside what it is the result of.
#[derive(Clone, Copy)]
struct Found<'s, 'b> {
    at: BlockAt,
    /// The place of the exchange among those of the unit.
    place: usize,
    exchange: &'s Exchange<'b>,
    action: &'s Action,
    block: &'s Block<'b>,
}

impl<'s, 'b> Scope<'s, 'b> {
    /// Every result with words, oldest first.
    fn results(&self) -> impl DoubleEndedIterator<Item = Found<'s, 'b>> + use<'s, 'b> {
        let found = |Part { at, block, kind }: Part<'s, 'b>| {
            let PartKind::Result { place, exchange } = kind else { return None };
            let action = self.actions.of_unit(at.unit).get(place)?;
            block.is_editable_text().then_some(Found { at, place, exchange, action, block })
        };
        let results: Vec<Found<'s, 'b>> = self.transcript.parts().filter_map(found).collect();
        results.into_iter()
    }

    /// Every call that stands in the body.
    fn calls(&self) -> impl Iterator<Item = Part<'s, 'b>> + use<'s, 'b> {
        self.transcript.parts().filter(|part| matches!(part.kind, PartKind::Call(_)))
    }

    /// The results that a pass may shorten: long, allowed, and not shortened already.
    fn candidates(&self) -> impl DoubleEndedIterator<Item = Found<'s, 'b>> + use<'_, 's, 'b> {
        self.results()
            .filter(|found| (self.may_change)(found.at.unit) && self.is_long(found.block) && !found.is_ours())
    }

    /// Whether a text has more characters than are left alone.
    fn is_long(&self, block: &Block<'_>) -> bool {
        let most = self.policy.prune_characters;
        // No character takes more than twelve bytes of a body.
        let raw = block.text.map_or(0, |text| text.at.len());
        raw > most && (raw > 12 * most || is_longer(&block.text(), most))
    }

    /// What to say behind a line where the original can be fetched again.
    fn recall(&self, text: &str) -> String {
        (self.handle)(text).map_or_else(String::new, |handle| format!(" (recall {handle})"))
    }
}

fn is_longer(text: &str, most: usize) -> bool {
    text.len() > most && text.chars().nth(most).is_some()
}

/// How much of a target a line says.
const TARGET_WIDTH: usize = 120;

impl Found<'_, '_> {
    fn tool(&self) -> &str {
        if self.action.tool.is_empty() { "tool" } else { &self.action.tool }
    }

    /// Whether the text is a digest or a pointer that an earlier run left.
    fn is_ours(&self) -> bool {
        self.block.opening(1).starts_with('[')
            && is_digest(hosted::output(&self.block.text()), &self.action.tool)
    }

    /// What was done, as lines begin: ``[bash] ran `make` ``.
    fn opening(&self) -> String {
        let target = self.action.target.as_deref().map(|target| on_one_line(target, TARGET_WIDTH));
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

    /// The outcome as it stands first behind the arrow of a line.
    fn outcome(&self) -> String {
        let exit = self.action.exit.map(|status| format!("exit {status}, ")).unwrap_or_default();
        let failed = self.action.outcome == Outcome::Failed;
        format!("{exit}{}", if failed { "failed, " } else { "" })
    }

    /// The tool and what it was asked for, as others name it.
    fn name(&self) -> String {
        match &self.action.target {
            Some(target) => format!("{} (`{}`)", self.tool(), on_one_line(target, TARGET_WIDTH)),
            None => self.tool().to_owned(),
        }
    }

    /// A change to what `short` makes of the text as the source of a digest.
    fn digested(
        &self,
        scope: &Scope<'_, '_>,
        pass: &'static str,
        short: impl Fn(&Source<'_>) -> String,
    ) -> Option<Change> {
        let (whole, focus) = (self.block.text(), Focus::none());
        let handle = (scope.handle)(&whole);
        let text = hosted::output(&whole);
        let with = |arguments: Option<&str>| {
            let line = short(&Source {
                text,
                bytes: None,
                tool: Some(self.tool()),
                arguments,
                kind: None,
                failed: self.exchange.failed,
                focus: &focus,
                handle: handle.as_deref(),
            });
            self.shortened(pass, text, line)
        };
        let call = self.exchange.call.as_ref();
        // Arguments that are cut in this run say less in the next one; what is short only then is made short now.
        with(call.map(Block::text).as_deref()).or_else(|| with(Some(&arguments::shrunk(scope, call?)?)))
    }

    /// A change to this text, if that saves half of what is there: less is not worth what is lost.
    fn shortened(&self, pass: &'static str, before: &str, to: String) -> Option<Change> {
        (to.len() * 2 <= before.len()).then_some(Change { at: self.at, pass, to: NewText::Text(to) })
    }
}
