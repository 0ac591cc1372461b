//! A compaction to a size that was asked for: a handover of what is folded, the newest units word for word, and between them
//! what room is left for, digested.
//!
//! ```text
//! floor │ room ──▶ checkpoint, as much as it has to say │ digested │ tail, verbatim
//! ```

use std::collections::BTreeSet;

use super::Outcome;
use super::bounds::Bounds;
use super::draft::{Draft, InPlace, Length};
use super::fold;
use super::repair::NO_JSON;
use super::settle::settle;
use super::survey::{ResultAt, Survey};
use super::work::{Work, prune};
use crate::transcript::BlockAt;
use crate::{Refused, Tokens};

/// Shares of the room between the floor and the size asked for.
struct Shares {
    /// For the checkpoint: what it does not need goes to the tail.
    checkpoint: f64,
    /// The same in a small room.
    least: f64,
    /// What was said first stays in place if it is no larger.
    first: f64,
    /// The answer that the newest message replies to stays in place if it is no larger.
    answer: f64,
    /// Where the last step's results must be shortened, they get this much.
    results: f64,
}

const SHARES: Shares = Shares { checkpoint: 0.27, least: 0.5, first: 0.2, answer: 0.25, results: 0.5 };
/// In a small room a handover may take its larger share up to this much: it is worth more than the third-newest result.
const LEAST: Tokens = Tokens(1_200);
/// Where pruning leaves no more than this share of the size asked for, nothing is folded; where it leaves more, digests of
/// everything would take the place of the newest messages word for word.
const PRUNED_IS_ENOUGH: f64 = 0.9;
/// What a message around the checkpoint may cost,
const FRAMING: Tokens = Tokens(8);
/// and how often the checkpoint is written again because the whole came out too large all the same.
const ATTEMPTS: usize = 4;

/// What no step can take away: the preamble, what must stay (of the last step's results what a digest keeps), and the least
/// that a checkpoint can be.
pub(super) fn floor(survey: &Survey<'_, '_>) -> Tokens {
    survey.with_only(&survey.must_stay()) - unread(survey).map(|(_, could_go)| could_go).sum()
        + fold::SMALLEST
}

/// The results of the last step, which the model has not read yet, with the tokens that a digest would take off each.
fn unread<'t, 'b>(survey: &Survey<'t, 'b>) -> impl Iterator<Item = (ResultAt<'t, 'b>, Tokens)> {
    // What the user chose to keep is kept as it is.
    let last = survey.last_step().filter(|_| survey.wish.keep_from.is_none());
    // A result in words is what providers take for the newest message of the user, which nobody edits.
    let results = last
        .into_iter()
        .flat_map(|unit| survey.results(unit))
        .filter(|result| result.exchange.call.is_some());
    results.map(|result| {
        let tokens = survey.tokens(result.at);
        (result, tokens - least(tokens))
    })
}

/// What a digest of an unread result keeps at least.
fn least(tokens: Tokens) -> Tokens {
    const DIGEST: Tokens = Tokens(220);
    const SHARE: u64 = 20;
    Tokens(tokens.number() / SHARE).max(DIGEST).min(tokens)
}

/// Which size is aimed at, and why.
#[derive(Debug, Clone, Copy)]
pub(super) enum Aim {
    /// Somebody asked for it.
    Size(Tokens),
    /// The policy's own budgets come to more than the window holds. Nothing is left that they would fold, so that a second
    /// compaction finds nothing to do.
    Window(Tokens),
}

/// Compacts to at most the size aimed at, if the floor is not above it.
pub(super) fn fit(work: &mut Work<'_, '_, '_>, aim: Aim) -> Result<Option<Outcome>, Refused> {
    let (Aim::Size(wanted) | Aim::Window(wanted)) = aim;
    let survey = work.survey;
    // Below the floor there is nothing to be had: what comes nearest is as useful as it can be.
    let is_below = wanted < floor(survey);
    let wanted = wanted.max(floor(survey));
    // What the model has not read yet is made shorter only where the request would not fit its window otherwise.
    let (unread_within, least) = match aim {
        Aim::Size(_) => (wanted, Tokens::ZERO),
        Aim::Window(_) => {
            (survey.does_not_fit().max(wanted), survey.with_only(&survey.must_stay()) + fold::SMALLEST)
        }
    };
    let mut draft = Draft::new(survey);
    let is_shortened = shorten_unread(&mut draft, unread_within);
    let wanted = if is_shortened { wanted } else { wanted.max(least) };
    let short = draft.clone();
    let fixed = survey.with_only(&survey.must_stay()) + draft.total - survey.total;
    let room = wanted - fixed;
    let of_room = |share: f64| Tokens((room.number() as f64 * share) as u64);
    let most = of_room(SHARES.checkpoint)
        .max(of_room(SHARES.least).min(LEAST))
        .min(fold::largest(work.past, survey.total));
    // Below the floor all of the room is the handover's.
    let most = if is_below { room } else { most };
    let answer = match aim {
        Aim::Size(_) => of_room(SHARES.answer),
        Aim::Window(_) => of_room(SHARES.answer).min(Bounds::answer_by(survey.policy)),
    };
    let small = |unit: Option<usize>, most: Tokens| {
        unit.map(|unit| survey.units[unit]).filter(|tokens| *tokens <= most)
    };
    let first = survey.first_prompt().map(|unit| survey.with_its_message(unit));
    let pinned = [first.filter(|tokens| *tokens <= of_room(SHARES.first)), small(survey.answer(), answer)];
    let tail = room - most - pinned.into_iter().flatten().sum();
    let mut bounds = Bounds::by_tokens(survey, tail, of_room(SHARES.first));
    bounds.pin_answer(survey, answer);
    if matches!(aim, Aim::Window(_)) {
        bounds.end_with(&Bounds::by_policy(survey));
    }
    prune(work, &mut draft, &|unit| bounds.may_shrink(unit));
    let enough = draft.total.number() as f64 <= wanted.number() as f64 * PRUNED_IS_ENOUGH
        && matches!(aim, Aim::Size(_));
    let mut gone: BTreeSet<usize> =
        if enough { BTreeSet::new() } else { bounds.free().chain(bounds.checkpoint).collect() };
    // A compaction folds something new or nothing; what is too large all the same gives up the oldest of its tail.
    if !enough && !gone.iter().any(|unit| bounds.is_new(*unit)) {
        let too_large = matches!(aim, Aim::Size(_)) && draft.total > wanted && !is_below;
        match bounds.first_new(survey.units.len()).filter(|_| too_large) {
            Some(unit) => gone.extend([unit]),
            None => gone.clear(),
        }
    }
    bounds.add_orphans(survey, &mut gone);
    survey.keep_messages_whole(&mut gone);
    if !gone.iter().any(|unit| bounds.is_new(*unit)) {
        gone.clear();
    }
    if gone.is_empty() {
        restore_newest(&mut draft, wanted);
        return if draft.is_empty() { Ok(None) } else { settle(&draft, work.occasion, work.known) };
    }
    // A size that was asked for is kept to; in a window that is too small all the same, the rules stay.
    let rules = match aim {
        Aim::Size(_) => Tokens::ZERO,
        Aim::Window(_) => fold::needed(work, &gone),
    };
    let stays = |gone: &BTreeSet<usize>| {
        let gone: Tokens = gone.iter().map(|unit| survey.units[*unit]).sum();
        short.total - gone
    };
    let mut best: Option<Outcome> = None;
    let all = gone;
    // What stays beside a handover is estimated; where that was too much, nothing does.
    for keeps in [matches!(aim, Aim::Size(_)) && !is_below, false] {
        let mut gone = all.clone();
        let mut budget = (wanted - stays(&gone) - FRAMING).max(rules);
        let mut folding = fold::within(work, &gone, most.max(rules).min(budget));
        let mut draft = short.clone();
        for unit in &gone {
            draft.take_out(*unit);
        }
        if keeps {
            let most = wanted - folding.report.tokens - FRAMING;
            keep_newest(work, &bounds, &mut gone, &mut draft, most);
            // What is left then, the handover may use.
            budget = wanted - draft.total - FRAMING;
            folding = fold::within(work, &gone, budget);
        }
        for _ in 0..ATTEMPTS {
            draft.in_place = InPlace::Checkpoint(folding);
            let Some(outcome) = settle(&draft, work.occasion, work.known)? else { break };
            let after = outcome.report.tokens.after;
            if best.as_ref().is_none_or(|best| after < best.report.tokens.after) {
                best = Some(outcome);
            }
            if after <= wanted {
                return Ok(best);
            }
            budget = budget - (after - wanted) - FRAMING;
            folding = fold::within(work, &gone, budget);
        }
    }
    Ok(best)
}

/// Keeps the newest of what would be folded, word for word or else shortened, as far as there is room for it.
fn keep_newest(
    work: &mut Work<'_, '_, '_>,
    bounds: &Bounds,
    gone: &mut BTreeSet<usize>,
    draft: &mut Draft<'_, '_, '_>,
    most: Tokens,
) {
    let newest: Vec<usize> = gone.iter().rev().copied().filter(|unit| bounds.may_shrink(*unit)).collect();
    let mut new = gone.iter().filter(|unit| bounds.is_new(**unit)).count();
    for unit in newest {
        // Something new is folded, or it is no compaction.
        if new <= 1 {
            break;
        }
        if draft.total + draft.unit(unit) <= most {
            draft.put_back(unit);
        } else {
            let mut kept = draft.clone();
            kept.put_back(unit);
            if !shorten(work, &mut kept, unit, most) {
                break;
            }
            *draft = kept;
        }
        gone.remove(&unit);
        new -= 1;
    }
}

/// Makes a unit fit where it stands: its arguments cut, its results digested. Says whether that was enough.
fn shorten(work: &mut Work<'_, '_, '_>, draft: &mut Draft<'_, '_, '_>, unit: usize, most: Tokens) -> bool {
    /// In less, a digest of a result says too little to be worth its place.
    const WORTH_IT: u64 = 60;
    let survey = draft.survey;
    let results = survey.results(unit);
    let is_result = |at: &BlockAt| results.iter().any(|result| result.at == *at);
    prune(work, draft, &|other| other == unit);
    let digested: Vec<BlockAt> =
        draft.changed.keys().filter(|at| at.unit == unit && is_result(at)).copied().collect();
    for at in digested {
        draft.restore(at);
    }
    let texts: Tokens = results.iter().map(|result| survey.tokens(result.at)).sum();
    let left = most.number().saturating_sub((draft.total - texts).number());
    // A digest keeps to its budget by an estimate.
    let each = left * 9 / 10 / results.len().max(1) as u64;
    if each < WORTH_IT {
        return false;
    }
    for result in results {
        if survey.tokens(result.at).number() > each {
            draft.shrink(result, Length::Budget(Tokens(each)));
        }
    }
    draft.total <= most
}

/// Leaves as they were the newest of what would be shortened, as far as there is room for it.
fn restore_newest(draft: &mut Draft<'_, '_, '_>, wanted: Tokens) {
    let could_stay = draft.changed.iter().rev().filter(|(_, changed)| changed.why != NO_JSON);
    let newest: Vec<_> = could_stay.map(|(at, changed)| (*at, changed.before - changed.after)).collect();
    for (at, more) in newest {
        if draft.total + more > wanted {
            break;
        }
        draft.restore(at);
    }
}

/// Shortens the largest results of the last step where they stand, if they alone keep the request from its size; notes it, and
/// tells whether it had to.
fn shorten_unread(draft: &mut Draft<'_, '_, '_>, wanted: Tokens) -> bool {
    let survey = draft.survey;
    let fixed = survey.with_only(&survey.must_stay()) + fold::SMALLEST;
    let results: Vec<ResultAt<'_, '_>> = unread(survey).map(|(result, _)| result).collect();
    if fixed <= wanted || results.is_empty() {
        return false;
    }
    let tokens = |result: &ResultAt<'_, '_>| survey.tokens(result.at);
    let all: Tokens = results.iter().map(tokens).sum();
    let room = wanted - (fixed - all);
    let allowed = (room.number() as f64 * SHARES.results) as u64;
    let level = level(results.iter().map(|result| tokens(result).number()).collect(), allowed);
    let mut count = 0;
    for result in results {
        let before = tokens(&result);
        if before.number() > level {
            draft.shrink(result, Length::Budget(Tokens(level).max(least(before))));
            count += usize::from(draft.changed.contains_key(&result.at));
        }
    }
    let plural = if count == 1 { "result" } else { "results" };
    draft.notes.extend((count > 0).then(|| {
        format!("{count} unread {plural} of the last step did not fit and stand shortened in their place")
    }));
    true
}

/// How high each may be, so that all together are no more than allowed.
fn level(mut sizes: Vec<u64>, allowed: u64) -> u64 {
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
