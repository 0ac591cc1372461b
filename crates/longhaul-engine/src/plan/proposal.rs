//! The door for engines from outside: they propose decisions, never whole messages, and what they propose is judged like our own.
//!
//! ```text
//! transcript ──Shown, redacted──▶ an engine from outside ──Proposal──▶ judged ──▶ Outcome
//!                                          │                            └─ unfit ─┐
//!                                          └─ fails ──────────────────────────────┴▶ the compressor, and a note that says why
//! ```
//!
//! What stays is copied byte for byte, what goes can be recalled, and a ledger replays all of it: whoever proposes sees neither.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;

use super::compressor::{Compressor, checkpoint_budget, newly_broken};
use super::draft::{Draft, InPlace};
use super::engine::{Due, Engine, Source};
use super::fold;
use super::ours::Ours;
use super::settle::{Occasion, finished, settle, unchanged};
use super::shown::{Shown, bundles, is_editable};
use super::survey::Survey;
use super::work::{Past, Work};
use super::{Outcome, Plan, Wish, fit};
use crate::known::Known;
use crate::passes::NewText;
use crate::policy::Policy;
use crate::redact::{Content, Redactor};
use crate::texts::CutMark;
use crate::tokens::grouped;
use crate::transcript::{BlockAt, Transcript};
use crate::{Refused, Tokens};

/// What an engine from outside would do with a request. Places are those of [`Shown`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Proposal {
    /// Messages that go.
    pub remove: Vec<usize>,
    /// Blocks that get a shorter text.
    pub shorten: Vec<Shorter>,
    /// What stands in the place of what goes; without one our own code writes it.
    pub summary: Option<String>,
}

/// A shorter text for a block.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shorter {
    /// The message,
    pub message: usize,
    /// the block in it,
    pub block: usize,
    /// and what stands there instead. How much is missing is said behind it.
    pub text: String,
}

/// Why a proposal is not taken, in words that can follow a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unfit(String);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One compaction by an engine that proposes, if it is due. Where it fails, or its proposal is not fit, the compressor takes its
/// place, and the report says so. An [`Engine`] from outside of this crate does its [`compact`](Engine::compact) by this.
///
/// # Errors
/// Edits that cannot be made, which would be a mistake of ours.
pub fn by_proposal(
    engine: &dyn Engine,
    policy: &Policy,
    wish: &Wish,
    known: &mut Known,
    transcript: &Transcript<'_>,
    propose: &dyn Fn(&Shown) -> Result<Proposal, String>,
) -> Result<Plan, Refused> {
    let ours = Ours::of(policy, wish, transcript);
    let survey = &Survey::new(policy, wish, known, &ours);
    let target = wish.to_tokens.unwrap_or(policy.goal);
    let occasion = |reason: String| {
        let (engine, floor) = (engine.name(), fit::floor(survey));
        Occasion { engine, reason, target, floor, zone: None }
    };
    let occasion = match engine.due(policy, wish, &survey.load()) {
        Due::Now(reason) => occasion(reason),
        Due::NotYet(reason) => return Ok(Plan::Leave(unchanged(survey, &occasion(reason)))),
    };
    let mut redactor = Redactor::with_memory(wish.rules.clone(), wish.keep.key(), known.clean());
    let why = match propose(&Shown::of(survey, target, &mut redactor)) {
        Ok(proposal) => {
            let mut work = Work::new(survey, &occasion, Past::Carried, known, &mut redactor);
            match judge(&mut work, &proposal)? {
                Ok(outcome) => return Ok(Plan::Ready(finished(outcome, survey, known)?)),
                Err(unfit) => unfit.to_string(),
            }
        }
        Err(why) => why,
    };
    let what = match engine.source() {
        Source::Plugin(_) => "plug-in",
        Source::Host | Source::BuiltIn => "engine",
    };
    let mut plan = Compressor.compact(policy, wish, known, transcript)?;
    let (Plan::Leave(report) | Plan::Ready(Outcome { report, .. })) = &mut plan;
    let why = redactor.redact(&why, Content::Text).text.on_one_line(300);
    report.notes.push(format!("{what} {}: {why}; compressor took its place", engine.name()));
    Ok(plan)
}

/// What a proposal comes to, or why it is not taken.
fn judge(work: &mut Work<'_, '_, '_>, proposal: &Proposal) -> Result<Result<Outcome, Unfit>, Refused> {
    let draft = match drafted(work, proposal) {
        Ok(draft) => draft,
        Err(unfit) => return Ok(Err(unfit)),
    };
    let survey = work.survey;
    let Some(outcome) = settle(&draft, work.occasion, work.known)? else {
        return Ok(unfit("what it proposes makes the request no smaller"));
    };
    if let Some(rule) = newly_broken(&outcome, survey.policy, survey.transcript) {
        return Ok(unfit(format!("what it proposes breaks rule {rule}, which the request keeps")));
    }
    if !outcome.report.reached {
        let (after, limit) = (outcome.report.tokens.after, survey.limit());
        let most = survey.wish.to_tokens.map_or(limit, |wanted| wanted.min(limit));
        return Ok(unfit(format!("what it proposes leaves {after} tokens, more than the {most} wanted")));
    }
    Ok(Ok(outcome))
}

fn unfit<T>(why: impl Into<String>) -> Result<T, Unfit> {
    Err(Unfit(why.into()))
}

/// A proposal as decisions about units and blocks.
fn drafted<'s, 't, 'b>(work: &mut Work<'s, 't, 'b>, proposal: &Proposal) -> Result<Draft<'s, 't, 'b>, Unfit> {
    let survey = work.survey;
    let stays = survey.must_stay();
    let gone = gone(survey, &stays, &proposal.remove)?;
    let mut draft = Draft::new(survey);
    for (at, text) in shorter(work, &stays, &proposal.shorten)? {
        let (before, after) = (survey.tokens(at), survey.meter.counter.count(&text));
        if after >= before && !gone.contains(&at.unit) {
            let place = survey.transcript.block(at).map_or(0, |block| survey.message_of(at.unit, block));
            return unfit(format!(
                "a text of message {place} gets no shorter: {after} tokens in place of {before}"
            ));
        }
        draft.change(at, NewText::Text(text), "shortened by an engine from outside");
    }
    let summary = proposal.summary.as_deref().map(str::trim).filter(|summary| !summary.is_empty());
    if gone.is_empty() {
        return match (draft.is_empty(), summary) {
            (true, _) => unfit("it proposes nothing"),
            (false, Some(_)) => unfit("its summary stands in the place of nothing: it removes no message"),
            (false, None) => Ok(draft),
        };
    }
    for unit in &gone {
        draft.take_out(*unit);
    }
    let replaced: Tokens = gone.iter().map(|unit| survey.units[*unit]).sum();
    let folding = if let Some(summary) = summary {
        fold::quoting(work, &gone, summary)
    } else {
        let Some(budget) = checkpoint_budget(work, &gone) else {
            return unfit("what it removes is smaller than what would stand in its place");
        };
        fold::within(work, &gone, budget)
    };
    if folding.report.tokens >= replaced {
        let tokens = folding.report.tokens;
        return unfit(format!("its summary takes {tokens} tokens in place of {replaced}"));
    }
    draft.in_place = InPlace::Checkpoint(folding);
    Ok(draft)
}

/// The units that go with these messages: whole ones, none that has to stay, at least one that is new.
fn gone(
    survey: &Survey<'_, '_>,
    stays: &BTreeSet<usize>,
    messages: &[usize],
) -> Result<BTreeSet<usize>, Unfit> {
    let transcript = survey.transcript;
    let removed: BTreeSet<usize> = messages.iter().copied().collect();
    let count = transcript.message_count();
    if let Some(missing) = removed.iter().find(|message| **message >= count) {
        return unfit(format!("it removes message {missing}, but there are only {count}"));
    }
    let bundles = bundles(transcript);
    let wanted: BTreeSet<usize> = removed.iter().map(|message| bundles[*message]).collect();
    let left = (0..count).find(|message| wanted.contains(&bundles[*message]) && !removed.contains(message));
    if let Some(left) = left {
        let with = removed.iter().find(|message| bundles[**message] == bundles[left]).copied();
        let with = with.unwrap_or_default();
        return unfit(format!("it removes message {with} without message {left}, which belongs to it"));
    }
    let mut units = vec![BTreeSet::new(); count];
    for (at, unit) in transcript.units.iter().enumerate() {
        unit.owns.iter().filter_map(|id| transcript.message_of(*id)).for_each(|message| {
            units[message].insert(at);
        });
    }
    let mut gone = BTreeSet::new();
    for message in removed {
        if units[message].is_empty() {
            return unfit(format!("it removes message {message}, which is of the system prompt"));
        }
        if let Some(unit) = units[message].iter().find(|unit| stays.contains(unit)) {
            return unfit(format!("it removes message {message}, {}", protected(survey, *unit)));
        }
        gone.extend(&units[message]);
    }
    let checkpoint = survey.checkpoint();
    if let Some(left) = checkpoint.filter(|at| !gone.is_empty() && !gone.contains(at)) {
        let block = transcript.units[left].blocks().next();
        let message = block.map_or(0, |block| survey.message_of(left, block));
        return unfit(format!(
            "it removes messages and leaves the checkpoint in message {message}, whose place the new one takes"
        ));
    }
    let is_new = |unit: &usize| checkpoint.is_none_or(|checkpoint| *unit > checkpoint);
    if !gone.is_empty() && !gone.iter().any(is_new) {
        return unfit("it folds nothing that is new since the checkpoint");
    }
    Ok(gone)
}

/// Why a unit stays, in words that can follow a comma.
fn protected(survey: &Survey<'_, '_>, unit: usize) -> &'static str {
    let is_last = unit + 1 == survey.units.len() || survey.last_step() == Some(unit);
    if survey.newest_prompt() == Some(unit) {
        "which holds the newest user message"
    } else if survey.kept.contains(unit) {
        "which the user wants to keep"
    } else if is_last {
        "which is of the last step, that nobody has read yet"
    } else {
        "which holds instructions, or part of the newest message"
    }
}

/// The new texts, each with a mark behind it that says how much is missing, and what fetches it.
fn shorter(
    work: &mut Work<'_, '_, '_>,
    stays: &BTreeSet<usize>,
    wanted: &[Shorter],
) -> Result<BTreeMap<BlockAt, String>, Unfit> {
    let survey = work.survey;
    let parts = survey.transcript.parts_by_message(0..survey.transcript.message_count());
    let mut texts = BTreeMap::new();
    for Shorter { message, block, text } in wanted {
        let Some(part) = parts.get(*message).and_then(|parts| parts.get(*block)) else {
            return unfit(format!("it shortens block {block} of message {message}, which is not there"));
        };
        let unit = part.at.unit;
        if stays.contains(&unit) {
            let why = protected(survey, unit);
            return unfit(format!("it shortens block {block} of message {message}, {why}"));
        }
        if !is_editable(survey, stays, *part) {
            return unfit(format!(
                "it shortens block {block} of message {message}, which is not words of the model or of a tool"
            ));
        }
        let (before, after) = (part.block.text(), work.redactor.redact(text.trim_end(), Content::Text).text);
        let missing = before.chars().count().saturating_sub(after.as_str().chars().count());
        let mark = CutMark { characters: grouped(missing as u64), handle: survey.wish.keep.handle(&before) };
        if texts.insert(part.at, format!("{after}\n{mark}")).is_some() {
            return unfit(format!("it shortens block {block} of message {message} twice"));
        }
    }
    Ok(texts)
}
