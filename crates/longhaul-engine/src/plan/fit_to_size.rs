//! Compacts to a given size: a checkpoint for the summarized turns, the newest turns unchanged, and between
//! them as many shortened turns as fit.
//!
//! ```text
//! minimum size │ room ──▶ checkpoint, as long as it needs to be │ shortened turns │ tail, unchanged
//! ```

use std::collections::BTreeSet;

use super::CompactedRequest;
use super::bounds::Bounds;
use super::checkpoint_draft;
use super::draft::{DigestLength, Draft, Replacement};
use super::finalize::finalize;
use super::repair::INVALID_ARGUMENTS_REASON;
use super::survey::{EditableResult, Survey};
use super::workspace::{Workspace, prune};
use crate::block_cache::BlockCache;
use crate::transcript::{BlockPosition, TurnKind};
use crate::{RewriteError, Tokens};

/// If pruning leaves at most this share of the requested size, nothing is summarized. If it leaves more,
/// the short forms would fill the room that the newest messages need in full. Chosen by hand.
const MAX_PRUNED_SHARE: f64 = 0.9;
/// The tokens that the message around a checkpoint may take.
const CHECKPOINT_FRAMING_TOKENS: Tokens = Tokens(8);
/// How often the checkpoint is written again because the result was still too large.
const MAX_CHECKPOINT_ATTEMPTS: usize = 4;

/// Returns the smallest possible result: the system prompt, the tools, the required turns (with the results
/// of the last turn shortened), and the smallest checkpoint.
pub(super) fn minimum_with_checkpoint(survey: &Survey<'_, '_>) -> Tokens {
    survey.tokens_with_only(&survey.required_turns()) - unread_results(survey).map(|(_, could_go)| could_go).sum()
        + checkpoint_draft::MIN_CHECKPOINT_TOKENS
}

/// Returns the results of the last turn, which the model has not read yet, each with the tokens that
/// shortening would save.
fn unread_results<'t, 'b>(survey: &Survey<'t, 'b>) -> impl Iterator<Item = (EditableResult<'t, 'b>, Tokens)> {
    // A caller who chose the first message to keep wants it and all later ones unchanged.
    let last = survey.unread_last_turn().filter(|_| survey.options.keep_from.is_none());
    // Providers take a result without a call for the newest user message, which must not change.
    let results = last
        .into_iter()
        .flat_map(|turn| survey.editable_results(turn))
        .filter(|result| result.tool_call.call.is_some());
    results.map(|result| {
        let tokens = survey.tokens_of_block(result.position);
        (result, tokens - min_digest_tokens(tokens))
    })
}

/// Returns the tokens that the short form of an unread result has at least. Chosen by hand.
fn min_digest_tokens(tokens: Tokens) -> Tokens {
    const MIN_TOKENS: Tokens = Tokens(220);
    const DIVISOR: u64 = 20;
    Tokens(tokens.number() / DIVISOR).max(MIN_TOKENS).min(tokens)
}

/// The size limit of a compaction, with its origin.
#[derive(Debug, Clone, Copy)]
pub(super) enum SizeLimit {
    /// The caller requested this size.
    Requested(Tokens),
    /// The window requires this size, because the budgets of the policy add up to more. The compaction
    /// removes at least what the policy would remove, so that a second one finds nothing to do.
    Window(Tokens),
}

/// Compacts to the size limit, or as close to it as the minimum size allows.
pub(super) fn fit_to_size(
    work: &mut Workspace<'_, '_, '_>,
    limit: SizeLimit,
) -> Result<Option<CompactedRequest>, RewriteError> {
    let (goal, base) = set_goal(work.survey, limit);
    let room = divide_room(work, &goal, &base);
    let (mut pruned, gone) = choose_turns(work, &goal, &room, base.clone());
    if !gone.is_empty() {
        return summarize_to_fit(work, &goal, room.checkpoint, &room.bounds, &base, &gone);
    }
    restore_newest_blocks(&mut pruned, goal.tokens);
    if pruned.is_empty() { Ok(None) } else { finalize(&pruned, work.context, work.block_cache) }
}

/// The size that a compaction has to reach.
struct FitGoal {
    tokens: Tokens,
    /// Whether the caller requested the size, and not the window.
    is_requested: bool,
    /// Whether the limit is below the minimum size. Then the smallest result is made as useful as possible.
    is_below_minimum: bool,
}

/// Step 1: sets the size to reach, and shortens the unread results of the last turn if they alone exceed it.
fn set_goal<'s, 't, 'b>(survey: &'s Survey<'t, 'b>, limit: SizeLimit) -> (FitGoal, Draft<'s, 't, 'b>) {
    let (is_requested, wanted) = match limit {
        SizeLimit::Requested(tokens) => (true, tokens),
        SizeLimit::Window(tokens) => (false, tokens),
    };
    let minimum = minimum_with_checkpoint(survey);
    let (is_below_minimum, tokens) = (wanted < minimum, wanted.max(minimum));
    let mut base = Draft::new(survey);
    // The window is a reason to shorten results that the model has not read only if the request would overflow
    // with them.
    let unread_limit = if is_requested { tokens } else { survey.overflow_tokens().max(tokens) };
    let is_shortened = shorten_unread_results(&mut base, unread_limit);
    let with_unread = survey.tokens_with_only(&survey.required_turns()) + checkpoint_draft::MIN_CHECKPOINT_TOKENS;
    let tokens = if is_requested || is_shortened { tokens } else { tokens.max(with_unread) };
    (FitGoal { tokens, is_requested, is_below_minimum }, base)
}

/// The room in a requested size.
struct DividedRoom<'s, 't, 'b> {
    /// The most tokens that the checkpoint may have.
    checkpoint: Tokens,
    /// The bounds if turns are summarized: the checkpoint leaves little for the tail.
    bounds: Bounds<'s, 't, 'b>,
    /// The bounds if results are only shortened: most of the room is the unchanged tail's. With less, nearly
    /// everything would be a short form, and a checkpoint says more.
    pruning_bounds: Bounds<'s, 't, 'b>,
}

/// Step 2: divides the room among the checkpoint, the first prompt, the newest answer and the tail.
fn divide_room<'s, 't, 'b>(
    work: &Workspace<'s, 't, 'b>,
    goal: &FitGoal,
    base: &Draft<'_, '_, '_>,
) -> DividedRoom<'s, 't, 'b> {
    let survey = work.survey;
    // Subtracted are the required turns, less what was saved on their unread results.
    let room = goal.tokens - (survey.tokens_with_only(&survey.required_turns()) + base.total - survey.total);
    let shares = &survey.options.weights().room;
    let of_room = |share: f64| Tokens((room.number() as f64 * share) as u64);
    let checkpoint = if goal.is_below_minimum {
        room
    } else {
        of_room(shares.checkpoint)
            .min(checkpoint_draft::max_checkpoint_tokens(survey.total))
            .max(checkpoint_draft::supplied_summary_tokens(survey).min(of_room(shares.model_summary)))
    };
    let first_prompt = of_room(shares.first_prompt);
    let mut answer = of_room(shares.newest_answer);
    if !goal.is_requested {
        answer = answer.min(Bounds::max_answer_tokens(survey.policy));
    }
    let pinned = [
        survey.first_prompt().map(|turn| survey.message_tokens(turn)).filter(|tokens| *tokens <= first_prompt),
        survey.answer_before_newest_prompt().map(|turn| survey.turn_tokens[turn]).filter(|tokens| *tokens <= answer),
    ];
    let pinned: Tokens = pinned.into_iter().flatten().sum();
    let bounds_without = |taken: Tokens| {
        let mut bounds = Bounds::from_tail_tokens(survey, room - taken - pinned, first_prompt);
        bounds.pin_answer(answer);
        if !goal.is_requested {
            // The tail is no longer than the policy allows.
            bounds.middle.end = bounds.middle.end.max(Bounds::from_policy(survey).middle.end);
        }
        bounds
    };
    let pruning_bounds = bounds_without(of_room(1.0 - shares.pruned_tail).min(checkpoint));
    DividedRoom { checkpoint, bounds: bounds_without(checkpoint), pruning_bounds }
}

/// Step 3: prunes the middle, and chooses the turns to summarize if that is not enough. A compaction
/// summarizes something new or nothing.
fn choose_turns<'s, 't, 'b>(
    work: &mut Workspace<'s, 't, 'b>,
    goal: &FitGoal,
    room: &DividedRoom<'_, '_, '_>,
    mut draft: Draft<'s, 't, 'b>,
) -> (Draft<'s, 't, 'b>, BTreeSet<usize>) {
    let (survey, bounds) = (work.survey, &room.bounds);
    let has_new = |gone: &BTreeSet<usize>| gone.iter().any(|turn| survey.is_after_checkpoint(*turn));
    prune(&mut draft, work.block_cache, &|turn| room.pruning_bounds.may_shrink(turn));
    let mut gone: BTreeSet<usize> = bounds.free_turns().chain(survey.newest_checkpoint).collect();
    let is_pruned_enough = draft.total.number() as f64 <= goal.tokens.number() as f64 * MAX_PRUNED_SHARE;
    // A topic gets its share of a checkpoint, so there must be one, unless nothing could stand in it.
    let wants_checkpoint = survey.options.focus.is_some() && gone.iter().any(|turn| has_words(survey, *turn));
    let may_prune_only = !wants_checkpoint && !checkpoint_draft::has_usable_summary(work, &gone);
    if goal.is_requested && is_pruned_enough && may_prune_only {
        return (draft, BTreeSet::new());
    }
    if !has_new(&gone) {
        // If the request is still too large, take the oldest turn of the tail.
        let takes_tail = goal.is_requested && draft.total > goal.tokens && !goal.is_below_minimum;
        match bounds.first_after_checkpoint().filter(|_| takes_tail) {
            Some(turn) => gone.extend([turn]),
            None => gone.clear(),
        }
    }
    let gone = bounds.complete(gone);
    (draft, if has_new(&gone) { gone } else { BTreeSet::new() })
}

/// Step 4: replaces the turns by a checkpoint, and writes it shorter until the result fits. Returns the smallest
/// result if none fits.
fn summarize_to_fit(
    work: &mut Workspace<'_, '_, '_>,
    goal: &FitGoal,
    checkpoint_tokens: Tokens,
    bounds: &Bounds<'_, '_, '_>,
    base: &Draft<'_, '_, '_>,
    to_summarize: &BTreeSet<usize>,
) -> Result<Option<CompactedRequest>, RewriteError> {
    // A requested size is kept at all costs. In a window that is too small anyway, the user's rules stay.
    let rules = if goal.is_requested { Tokens::ZERO } else { checkpoint_draft::required_tokens(work, to_summarize) };
    let mut best: Option<CompactedRequest> = None;
    // For a requested size, the first attempt keeps some of the newest turns. Their tokens are an estimate; if it
    // was too low, the second attempt keeps none.
    for keeps_newest in [goal.is_requested && !goal.is_below_minimum, false] {
        let mut gone = to_summarize.clone();
        let mut draft = base.clone();
        for turn in &gone {
            draft.remove_turn(*turn);
        }
        let mut budget = (goal.tokens - draft.total - CHECKPOINT_FRAMING_TOKENS).max(rules);
        let mut checkpoint = checkpoint_draft::write_within(work, &gone, checkpoint_tokens.max(rules).min(budget));
        if keeps_newest {
            let most = goal.tokens - checkpoint.report.tokens - CHECKPOINT_FRAMING_TOKENS;
            keep_newest_turns(work.block_cache, bounds, &mut gone, &mut draft, most);
            // The checkpoint may use the room that is left after that.
            budget = goal.tokens - draft.total - CHECKPOINT_FRAMING_TOKENS;
            checkpoint = checkpoint_draft::write_within(work, &gone, budget);
        }
        for _ in 0..MAX_CHECKPOINT_ATTEMPTS {
            draft.replacement = Replacement::Checkpoint(checkpoint);
            let Some(compacted) = finalize(&draft, work.context, work.block_cache)? else { break };
            let after = compacted.report.tokens.after;
            if best.as_ref().is_none_or(|best| after < best.report.tokens.after) {
                best = Some(compacted);
            }
            if after <= goal.tokens {
                return Ok(best);
            }
            budget = budget - (after - goal.tokens) - CHECKPOINT_FRAMING_TOKENS;
            checkpoint = checkpoint_draft::write_within(work, &gone, budget);
        }
    }
    Ok(best)
}

/// Whether a turn is more than an element that nobody understands: a checkpoint can tell nothing of such an element.
fn has_words(survey: &Survey<'_, '_>, turn: usize) -> bool {
    !matches!(survey.transcript.turns[turn].kind, TurnKind::Opaque(_))
}

/// Keeps the newest of the turns to be summarized, unchanged or else shortened, while there is room.
fn keep_newest_turns(
    cache: &mut BlockCache,
    bounds: &Bounds<'_, '_, '_>,
    gone: &mut BTreeSet<usize>,
    draft: &mut Draft<'_, '_, '_>,
    most: Tokens,
) {
    let newest: Vec<usize> = gone.iter().rev().copied().filter(|turn| bounds.may_shrink(*turn)).collect();
    let survey = draft.survey;
    let counts = |turn: usize| survey.is_after_checkpoint(turn) && has_words(survey, turn);
    let mut new_turns_left = gone.iter().filter(|turn| counts(**turn)).count();
    for turn in newest {
        // At least one new turn has to be summarized, or this would be no compaction.
        if new_turns_left <= 1 {
            break;
        }
        if draft.total + draft.turn_tokens(turn) <= most {
            draft.restore_turn(turn);
        } else {
            let mut kept = draft.clone();
            kept.restore_turn(turn);
            if !shorten_turn(&mut kept, cache, turn, most) {
                break;
            }
            *draft = kept;
        }
        gone.remove(&turn);
        new_turns_left -= usize::from(counts(turn));
    }
}

/// Shortens a turn in place, its arguments and its results, until the request fits. Returns whether that was
/// enough.
fn shorten_turn(draft: &mut Draft<'_, '_, '_>, cache: &mut BlockCache, turn: usize, most: Tokens) -> bool {
    /// The budget in tokens below which the short form of a result is not worth its place. Chosen by hand.
    const MIN_RESULT_TOKENS: u64 = 60;
    let survey = draft.survey;
    let results = survey.editable_results(turn);
    let is_result = |at: &BlockPosition| results.iter().any(|result| result.position == *at);
    prune(draft, cache, &|other| other == turn);
    let digested: Vec<BlockPosition> =
        draft.changes.keys().filter(|at| at.unit == turn && is_result(at)).copied().collect();
    for at in digested {
        draft.restore_block(at);
    }
    let texts: Tokens = results.iter().map(|result| survey.tokens_of_block(result.position)).sum();
    let left = most.number().saturating_sub((draft.total - texts).number());
    // The budget of a short form is kept by estimate, so leave a tenth as a reserve.
    let each = left * 9 / 10 / results.len().max(1) as u64;
    if each < MIN_RESULT_TOKENS {
        return false;
    }
    for result in results {
        if survey.tokens_of_block(result.position).number() > each {
            draft.shorten_result(result, DigestLength::Budget(Tokens(each)));
        }
    }
    draft.total <= most
}

/// Restores the newest of the shortened blocks, while there is room.
fn restore_newest_blocks(draft: &mut Draft<'_, '_, '_>, wanted: Tokens) {
    let could_stay = draft.changes.iter().rev().filter(|(_, changed)| changed.reason != INVALID_ARGUMENTS_REASON);
    let newest: Vec<_> = could_stay.map(|(at, changed)| (*at, changed.before - changed.after)).collect();
    for (at, more) in newest {
        if draft.total + more > wanted {
            break;
        }
        draft.restore_block(at);
    }
}

/// Shortens the largest results of the last turn in place, if they alone make the request too large. Adds a
/// note, and returns whether it was necessary.
fn shorten_unread_results(draft: &mut Draft<'_, '_, '_>, wanted: Tokens) -> bool {
    let survey = draft.survey;
    let fixed = survey.tokens_with_only(&survey.required_turns()) + checkpoint_draft::MIN_CHECKPOINT_TOKENS;
    let results: Vec<EditableResult<'_, '_>> = unread_results(survey).map(|(result, _)| result).collect();
    if fixed <= wanted || results.is_empty() {
        return false;
    }
    let tokens = |result: &EditableResult<'_, '_>| survey.tokens_of_block(result.position);
    let all: Tokens = results.iter().map(tokens).sum();
    let room = wanted - (fixed - all);
    let allowed = (room.number() as f64 * survey.options.weights().room.unread_results) as u64;
    let level = max_tokens_each(results.iter().map(|result| tokens(result).number()).collect(), allowed);
    let mut count = 0;
    for result in results {
        let before = tokens(&result);
        if before.number() > level {
            draft.shorten_result(result, DigestLength::Budget(Tokens(level).max(min_digest_tokens(before))));
            count += usize::from(draft.changes.contains_key(&result.position));
        }
    }
    let plural = if count == 1 { "result" } else { "results" };
    draft.notes.extend(
        (count > 0).then(|| format!("{count} unread {plural} of the last turn did not fit and were shortened")),
    );
    true
}

/// Returns the largest size for each item such that all together have at most `allowed`; smaller items keep
/// their size.
fn max_tokens_each(mut sizes: Vec<u64>, allowed: u64) -> u64 {
    sizes.sort_unstable();
    let mut left = allowed;
    for (at, size) in sizes.iter().enumerate() {
        let each = left / (sizes.len() - at) as u64;
        if *size > each {
            return each;
        }
        left -= size;
    }
    u64::MAX
}
