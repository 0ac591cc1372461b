//! A compaction to a size that was asked for: filled by value per token with verbatim tail, digested middle and checkpoint
//! lines, so that it is at most that size and wastes none of it.
//!
//! ```text
//! floor │ room ──▶ tail, verbatim │ what stays in place, digested │ the checkpoint's sections │ lines by worth
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use super::Outcome;
use super::bounds::Bounds;
use super::compressor::{Work, prune};
use super::draft::Draft;
use super::fold::{self, Fold};
use super::pick::{PickedLines, Pool, Stand};
use super::settle::Settled;
use super::survey::Survey;
use crate::digest::{self, Focus, Source};
use crate::passes::{BlockAt, NewText};
use crate::transcript::Block;
use crate::{Refused, Tokens};

/// Shares of the room between the floor and the size asked for.
struct Shares {
    /// For the newest units, verbatim.
    tail: f64,
    /// What was said first stays in place if it is no larger.
    first: f64,
    /// For digested units that stay in place.
    in_place: f64,
    /// For the checkpoint, quoted lines apart.
    sections: f64,
}

const SHARES: Shares = Shares { tail: 0.50, first: 0.2, in_place: 0.05, sections: 0.12 };
/// Where pruning leaves no more than this share of the size asked for, nothing is folded; where it leaves more, digests of
/// everything would take the place of what is worth more.
const PRUNED_IS_ENOUGH: f64 = 0.6;
/// Sections get up to this share of a small room, for the rules and open tasks that must not be lost.
const LEAST_SECTIONS: f64 = 0.4;
/// How often the budget for lines is corrected by what came out.
const ATTEMPTS: usize = 5;
/// What is too large by a token is cut by this many more, for lines are longer than that.
const LEAST_CUT: f64 = 12.0;
/// A result of this share of the size asked for is full.
const FULL: f64 = 0.975;

/// What no step can take away: the preamble, what must stay, and the least that a checkpoint can be.
pub(super) fn floor(survey: &Survey<'_, '_>) -> Tokens {
    survey.with_only(&survey.must_stay()) + fold::smallest(survey)
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
pub(super) fn fit(
    work: &mut Work<'_, '_, '_>,
    settled: &Settled<'_>,
    aim: Aim,
) -> Result<Option<Outcome>, Refused> {
    let (Aim::Size(wanted) | Aim::Window(wanted)) = aim;
    let survey = work.survey;
    let pool = Pool::new(work.known, survey, work.looked_through(wanted));
    let room = wanted.number().saturating_sub(floor(survey).number()) as f64;
    let of_room = |share: f64| Tokens((room * share) as u64);
    let mut bounds = Bounds::by_tokens(survey, of_room(SHARES.tail), of_room(SHARES.first));
    let in_place = match aim {
        Aim::Size(_) => of_room(SHARES.in_place),
        Aim::Window(_) => {
            bounds.end_with(&Bounds::by_policy(work.policy, survey));
            Tokens::ZERO
        }
    };
    let mut draft = Draft::new(survey, &work.wish.keep);
    prune(work, &mut draft, &|unit| bounds.may_shrink(unit));
    let enough = draft.total.number() as f64 <= wanted.number() as f64 * PRUNED_IS_ENOUGH;
    let mut gone = match aim {
        Aim::Size(_) if enough => BTreeSet::new(),
        _ => to_fold(&draft, &bounds, in_place),
    };
    // A compaction folds something new or nothing; what is too large all the same gives up the oldest of its tail.
    let is_new = |unit: &usize| bounds.is_new(*unit);
    if !gone.iter().any(is_new) {
        let too_large = matches!(aim, Aim::Size(_)) && draft.total > wanted;
        match bounds.first_new(survey.units.len()).filter(|_| too_large) {
            Some(unit) => gone.extend([unit]),
            None => gone.clear(),
        }
    }
    bounds.add_orphans(survey, &mut gone);
    for unit in &gone {
        draft.take_out(*unit);
    }
    // Rules and open tasks need room of their own, however small the whole is.
    let least = Tokens(work.policy.checkpoint.least as u64 / 2).min(of_room(LEAST_SECTIONS));
    let sections = of_room(SHARES.sections).max(least) + fold::smallest(survey);
    // A size that was asked for is kept to; in a window that is too small all the same, the rules stay.
    let rules = match aim {
        Aim::Size(_) => Tokens::ZERO,
        Aim::Window(_) => fold::needed(work, &gone),
    };
    let sections = sections.max(rules);
    let folded = Folded::new(survey, &gone, sections);
    let mut fitting = Fitting { work, pool: &pool, gone: &gone, wanted, sections, folded, best: None };
    let used = draft.total + if fitting.gone.is_empty() { Tokens::ZERO } else { sections };
    let mut lines = (wanted - used).number() as f64;
    for _ in 0..ATTEMPTS {
        let Some((after, exhausted)) = fitting.attempt(settled, &draft, Tokens(lines.max(0.0) as u64))?
        else {
            break;
        };
        let (got, most) = (after.number() as f64, wanted.number() as f64);
        if got <= most && (got >= FULL * most || exhausted) {
            break;
        }
        lines += if got > most { (most - got) * 1.05 - LEAST_CUT } else { (most - got) * 0.97 };
        if lines < 0.0 && got > most {
            // No line is left to give up, so the sections must.
            fitting.sections = (fitting.sections - Tokens(lines.abs() as u64 + 1)).max(rules);
            fitting.folded = Folded::new(survey, &gone, fitting.sections);
            lines = 0.0;
        }
    }
    // Lines are of very different lengths: where small corrections did not do, half of them go, and half again.
    while fitting.is_too_large() && lines > 0.0 {
        lines = (lines / 2.0 - LEAST_CUT).max(0.0);
        fitting.attempt(settled, &draft, Tokens(lines as u64))?;
    }
    Ok(fitting.best)
}

/// The oldest units that may go, as many as needed: what stays in place digested may take its share and no more.
fn to_fold(draft: &Draft<'_, '_, '_>, bounds: &Bounds, in_place: Tokens) -> BTreeSet<usize> {
    let mut gone: BTreeSet<usize> = bounds.checkpoint.into_iter().collect();
    let mut in_place = in_place.number();
    let mut full = false;
    let free: Vec<usize> = bounds.free().collect();
    for unit in free.into_iter().rev() {
        let cost = draft.unit(unit).number();
        full |= cost > in_place;
        if full {
            gone.insert(unit);
        } else {
            in_place -= cost;
        }
    }
    gone
}

struct Fitting<'f, 'w, 't, 'b> {
    work: &'f mut Work<'w, 't, 'b>,
    pool: &'f Pool,
    gone: &'f BTreeSet<usize>,
    wanted: Tokens,
    sections: Tokens,
    folded: Option<Folded<'f>>,
    best: Option<Outcome>,
}

/// What goes, with its checkpoint as it is without quotes; it is the same for every attempt with the same sections.
struct Folded<'f> {
    fold: Fold<'f>,
    bare: Option<String>,
}

impl<'f> Folded<'f> {
    /// Of these units, if there are any.
    fn new(survey: &Survey<'_, '_>, gone: &'f BTreeSet<usize>, sections: Tokens) -> Option<Self> {
        (!gone.is_empty()).then(|| Self { fold: Fold::new(survey, gone, sections), bare: None })
    }
}

impl Fitting<'_, '_, '_, '_> {
    /// Whether the best so far is more than was asked for.
    fn is_too_large(&self) -> bool {
        self.best.as_ref().is_some_and(|best| best.report.tokens.after > self.wanted)
    }

    /// Tries a budget for lines: the size that came of it, and whether there was nothing more to pick.
    fn attempt(
        &mut self,
        settled: &Settled<'_>,
        draft: &Draft<'_, '_, '_>,
        lines: Tokens,
    ) -> Result<Option<(Tokens, bool)>, Refused> {
        let survey = self.work.survey;
        if let Some(Folded { fold, bare: bare @ None }) = &mut self.folded {
            *bare = Some(fold.write(self.work, self.sections, &[]).placed.text);
        }
        let also: Vec<&str> = self.folded.iter().filter_map(|folded| folded.bare.as_deref()).collect();
        let topic = self.work.topic();
        let stand = |at: BlockAt| match draft.changed.get(&at) {
            _ if self.gone.contains(&at.unit) => Stand::Goes,
            None => Stand::Stays,
            Some(_) if is_result(survey, at) => Stand::Goes,
            Some(changed) if matches!(changed.to, NewText::Text(_)) => Stand::Whole,
            Some(_) => Stand::Ignored,
        };
        let picked = self.pool.pick(lines, &stand, &also, &topic);
        drop(topic);
        let mut draft = draft.clone();
        let mut settled = settled.clone();
        picked.whole.iter().for_each(|at| draft.restore(*at));
        let (quoted, in_place): (PickedLines, PickedLines) =
            picked.lines.into_iter().partition(|(at, _)| self.gone.contains(&at.unit));
        for (at, (_, lines)) in &in_place {
            excerpt(self.work, &mut draft, *at, lines);
        }
        let worth_quoting = fold::quotes(survey, self.work.evidence, &quoted, |rate| 1_000.0 + rate);
        if let Some(Folded { fold, .. }) = &mut self.folded {
            settled.take(fold.write(self.work, self.sections + lines, &worth_quoting));
        }
        if draft.changed.is_empty() && draft.gone.is_empty() {
            return Ok(None);
        }
        let Some(outcome) = settled.outcome(self.work.known, &draft)? else { return Ok(None) };
        let after = outcome.report.tokens.after;
        let better = |best: &Outcome| {
            let was = best.report.tokens.after;
            if was <= self.wanted { after <= self.wanted && after > was } else { after < was }
        };
        if self.best.as_ref().is_none_or(better) {
            self.best = Some(outcome);
        }
        Ok(Some((after, picked.everything)))
    }
}

/// Whether a block is the text of a result, of which lines can be quoted where it stands.
fn is_result(survey: &Survey<'_, '_>, at: BlockAt) -> bool {
    survey.results(at.unit).iter().any(|result| result.at == at)
}

/// Puts picked lines in the place of a result.
fn excerpt(work: &mut Work<'_, '_, '_>, draft: &mut Draft<'_, '_, '_>, at: BlockAt, lines: &[Range<usize>]) {
    let survey = work.survey;
    let Some(result) = survey.results(at.unit).into_iter().find(|result| result.at == at) else { return };
    let text = result.block.text();
    let arguments = result.exchange.call.as_ref().map(Block::text);
    let handle = work.wish.keep.handle(&text);
    let focus = Focus::none();
    let source = Source {
        text: &text,
        tool: Some(&*result.exchange.tool).filter(|name| !name.is_empty()),
        arguments: arguments.as_deref(),
        kind: None,
        failed: result.exchange.failed,
        focus: &focus,
        handle: handle.as_deref(),
    };
    let short = digest::excerpt(&source, lines);
    if short.len() >= text.len() {
        return draft.restore(at);
    }
    let before = survey.meter.block(work.known, result.block);
    draft.change(at, NewText::Text(short), "the lines of it that are worth their tokens", before);
}
