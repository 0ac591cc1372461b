//! The interface for engines from outside this crate: they propose decisions, never whole messages, and we
//! check their proposals like our own drafts.
//!
//! ```text
//! transcript ──ProposalInput, redacted──▶ engine ──Proposal──▶ evaluate ──▶ CompactedRequest
//!                                           │                     └─ rejected ─┐
//!                                           └─ fails ──────────────────────────┴▶ compressor, with a note
//! ```
//!
//! Unchanged blocks are copied byte for byte, removed ones can be recalled, and a ledger replays the result.
//! An engine from outside has no part in that.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::begin::compact_if_triggered;
use super::checkpoint_draft;
use super::compressor::{Compressor, checkpoint_budget, newly_broken_rule, plan_context};
use super::draft::{Draft, Replacement};
use super::engine::{Engine, EngineSource};
use super::finalize::{complete_report, finalize};
use super::proposal_input::{ProposalInput, is_editable, message_groups};
use super::survey::Survey;
use super::workspace::{EarlierActions, Workspace};
use super::{CompactedRequest, Plan, PlanInput};
use crate::passes::NewText;
use crate::redact::RedactionMode;
use crate::texts::CutPlaceholder;
use crate::tokens::group_digits;
use crate::transcript::BlockPosition;
use crate::{RewriteError, Tokens};

/// The compaction that an engine from outside proposes. Indices are those of [`ProposalInput`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Proposal {
    /// The indices of the messages to remove.
    pub remove: Vec<usize>,
    /// The blocks that get a shorter text.
    pub shorten: Vec<ShorterText>,
    /// The summary in place of the removed messages; without one, our own code writes the checkpoint.
    pub summary: Option<String>,
}

/// A shorter text for one block.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShorterText {
    /// The index of the message.
    pub message: usize,
    /// The index of the block in that message.
    pub block: usize,
    /// The new text. A placeholder after it will tell how much is missing.
    pub text: String,
}

/// The reason why a proposal is rejected, worded to follow a colon.
type Rejection = String;

/// Compacts by the proposal of an engine, if the trigger applies. If the engine fails or its proposal is
/// rejected, the compressor compacts instead, and the report has a note. An [`Engine`] outside this crate
/// implements its [`compact`](Engine::compact) with this function.
///
/// # Errors
/// The edits contradict each other, which would be an internal error, or the plan was cancelled.
pub fn compact_by_proposal(
    engine: &dyn Engine,
    input: PlanInput<'_, '_>,
    propose: &dyn Fn(&ProposalInput) -> Result<Proposal, String>,
) -> Result<Plan, RewriteError> {
    let PlanInput { policy, options, transcript, .. } = input;
    compact_if_triggered(engine, input, plan_context, |survey, context, cache| {
        let survey = &survey;
        let mut work = Workspace::new(survey, &context, EarlierActions::Repeated, cache);
        let why = match propose(&ProposalInput::new(survey, context.target, &mut work.redactor)) {
            Ok(proposal) => match evaluate(&mut work, &proposal)? {
                Ok(outcome) => return Ok(Plan::Ready(complete_report(outcome, survey, cache)?)),
                Err(unfit) => unfit,
            },
            Err(why) => why,
        };
        let why = work.redactor.redact(&why, RedactionMode::Text).text.one_line(300);
        let what = match engine.source() {
            EngineSource::Plugin(_) => "plug-in",
            EngineSource::Host | EngineSource::BuiltIn => "engine",
        };
        let mut plan = Compressor.compact(PlanInput { policy, options, cache, transcript })?;
        plan.report_mut().notes.push(format!("{what} {}: {why}; compressor took its place", engine.name()));
        Ok(plan)
    })
}

/// Returns the compacted request, or the reason why the proposal is rejected.
fn evaluate(
    work: &mut Workspace<'_, '_, '_>,
    proposal: &Proposal,
) -> Result<Result<CompactedRequest, Rejection>, RewriteError> {
    let draft = match draft_from_proposal(work, proposal) {
        Ok(draft) => draft,
        Err(unfit) => return Ok(Err(unfit)),
    };
    let survey = work.survey;
    let Some(outcome) = finalize(&draft, work.context, work.block_cache)? else {
        return Ok(reject("what it proposes makes the request no smaller"));
    };
    if let Some(rule) = newly_broken_rule(&outcome, survey) {
        return Ok(reject(format!("what it proposes breaks rule {rule}, which the request keeps")));
    }
    if !outcome.report.reached {
        let (after, limit) = (outcome.report.tokens.after, survey.max_request_tokens());
        let most = survey.options.to_tokens.map_or(limit, |wanted| wanted.min(limit));
        return Ok(reject(format!("what it proposes leaves {after} tokens, more than the {most} wanted")));
    }
    Ok(Ok(outcome))
}

fn reject<T>(why: impl Into<String>) -> Result<T, Rejection> {
    Err(why.into())
}

/// Turns a proposal into decisions about turns and blocks.
fn draft_from_proposal<'s, 't, 'b>(
    work: &mut Workspace<'s, 't, 'b>,
    proposal: &Proposal,
) -> Result<Draft<'s, 't, 'b>, Rejection> {
    let survey = work.survey;
    let stays = survey.required_turns();
    let gone = turns_to_remove(survey, &stays, &proposal.remove)?;
    let mut draft = Draft::new(survey);
    for (at, text) in shortened_texts(work, &stays, &proposal.shorten)? {
        let (before, after) = (survey.tokens_of_block(at), survey.meter.counter.count(&text));
        if after >= before && !gone.contains(&at.unit) {
            let place = survey.transcript.block(at).map_or(0, |block| survey.message_of_block(at.unit, block));
            return reject(format!("a text of message {place} gets no shorter: {after} tokens in place of {before}"));
        }
        draft.replace_text(at, NewText::Text(text), "shortened by an engine from outside");
    }
    let summary = proposal.summary.as_deref().map(str::trim).filter(|summary| !summary.is_empty());
    if gone.is_empty() {
        return match (draft.is_empty(), summary) {
            (true, _) => reject("it proposes nothing"),
            (false, Some(_)) => reject("it has a summary but removes no message"),
            (false, None) => Ok(draft),
        };
    }
    for turn in &gone {
        draft.remove_turn(*turn);
    }
    let replaced: Tokens = gone.iter().map(|turn| survey.turn_tokens[*turn]).sum();
    let checkpoint = if let Some(summary) = summary {
        checkpoint_draft::write_quoting(work, &gone, summary)
    } else {
        let Some(budget) = checkpoint_budget(work, &gone) else {
            return reject("what it removes is smaller than the text that would replace it");
        };
        checkpoint_draft::write_within(work, &gone, budget)
    };
    if checkpoint.report.tokens >= replaced {
        let tokens = checkpoint.report.tokens;
        return reject(format!("its summary takes {tokens} tokens in place of {replaced}"));
    }
    draft.replacement = Replacement::Checkpoint(checkpoint);
    Ok(draft)
}

/// Returns the turns of these messages. Rejects messages that cover only a part of a group, required turns,
/// and removals without anything new.
fn turns_to_remove(
    survey: &Survey<'_, '_>,
    stays: &BTreeSet<usize>,
    messages: &[usize],
) -> Result<BTreeSet<usize>, Rejection> {
    let transcript = survey.transcript;
    let removed: BTreeSet<usize> = messages.iter().copied().collect();
    let count = transcript.message_count();
    if let Some(missing) = removed.iter().find(|message| **message >= count) {
        return reject(format!("it removes message {missing}, but there are only {count}"));
    }
    let groups = message_groups(transcript);
    let wanted: BTreeSet<usize> = removed.iter().map(|message| groups[*message]).collect();
    let left = (0..count).find(|message| wanted.contains(&groups[*message]) && !removed.contains(message));
    if let Some(left) = left {
        let with = removed.iter().find(|message| groups[**message] == groups[left]).copied();
        let with = with.unwrap_or_default();
        return reject(format!("it removes message {with} without message {left}, which belongs to it"));
    }
    let mut turns = vec![BTreeSet::new(); count];
    for (at, turn) in transcript.turns.iter().enumerate() {
        turn.owned_elements.iter().filter_map(|id| transcript.message_of(*id)).for_each(|message| {
            turns[message].insert(at);
        });
    }
    let mut gone = BTreeSet::new();
    for message in removed {
        if turns[message].is_empty() {
            return reject(format!("it removes message {message}, which belongs to the system prompt"));
        }
        if let Some(turn) = turns[message].iter().find(|turn| stays.contains(turn)) {
            return reject(format!("it removes message {message}, {}", protection_reason(survey, *turn)));
        }
        gone.extend(&turns[message]);
    }
    if let Some(left) = survey.newest_checkpoint.filter(|at| !gone.is_empty() && !gone.contains(at)) {
        let block = transcript.turns[left].blocks().next();
        let message = block.map_or(0, |block| survey.message_of_block(left, block));
        return reject(format!(
            "it removes messages and leaves the checkpoint in message {message}, although the new checkpoint replaces it"
        ));
    }
    if !gone.is_empty() && !gone.iter().any(|turn| survey.is_after_checkpoint(*turn)) {
        return reject("it removes nothing newer than the checkpoint");
    }
    Ok(gone)
}

/// Returns the reason why a turn stays, worded to follow a comma.
fn protection_reason(survey: &Survey<'_, '_>, turn: usize) -> &'static str {
    let is_last = turn + 1 == survey.turn_tokens.len() || survey.unread_last_turn() == Some(turn);
    if survey.newest_prompt() == Some(turn) {
        "which holds the newest user message"
    } else if survey.user_protected.contains(turn) {
        "which the user wants to keep"
    } else if is_last {
        "which belongs to the last turn, which the model has not read yet"
    } else {
        "which holds instructions, or part of the newest message"
    }
}

/// Returns the new texts, each followed by a placeholder with the number of missing characters and the recall
/// ID.
fn shortened_texts(
    work: &mut Workspace<'_, '_, '_>,
    stays: &BTreeSet<usize>,
    wanted: &[ShorterText],
) -> Result<BTreeMap<BlockPosition, String>, Rejection> {
    let survey = work.survey;
    let parts = survey.transcript.blocks_by_message(0..survey.transcript.message_count());
    let mut texts = BTreeMap::new();
    for ShorterText { message, block, text } in wanted {
        let Some(part) = parts.get(*message).and_then(|parts| parts.get(*block)) else {
            return reject(format!("it shortens block {block} of message {message}, which is not there"));
        };
        let turn = part.position.unit;
        if stays.contains(&turn) {
            let why = protection_reason(survey, turn);
            return reject(format!("it shortens block {block} of message {message}, {why}"));
        }
        if !is_editable(survey, stays, *part) {
            return reject(format!(
                "it shortens block {block} of message {message}, which is not words of the model or of a tool"
            ));
        }
        let (before, after) = (part.block.text(), work.redactor.redact(text.trim_end(), RedactionMode::Text).text);
        let missing = before.chars().count().saturating_sub(after.as_str().chars().count());
        let mark = CutPlaceholder {
            omitted_chars: group_digits(missing as u64),
            recall_id: survey.options.originals.recall_id(&before),
        };
        if texts.insert(part.position, format!("{after}\n{mark}")).is_some() {
            return reject(format!("it shortens block {block} of message {message} twice"));
        }
    }
    Ok(texts)
}
