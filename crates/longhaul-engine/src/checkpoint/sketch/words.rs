//! What people said, and what the agent told.

use std::collections::HashMap;

use super::{Sketch, Sketches, Stands, WORTH, What};
use crate::evidence::{Evidence, Read, Sense, asks, denies, weigh_said};

/// A message of more bytes may be cut.
const LONG_MESSAGE: usize = 160;

/// Words of a person shorter than this, without a word that makes them a rule, are small talk.
const SMALL_TALK: usize = 40;

/// What was said again among so many newer sentences is said once, in its newest words.
const RECENT: usize = 40;

impl<'d> Sketches<'_, 'd> {
    pub(super) fn said(&mut self) {
        let all = &self.brief.evidence.said;
        let last: HashMap<&str, usize> = all.iter().map(|said| (said.words(), said.at.unit)).collect();
        for said in self.folded(all) {
            let words = said.words();
            let rate = match () {
                // What is said again is said once.
                () if words.is_empty() || last.get(words) != Some(&said.at.unit) => continue,
                () if !said.by_user && said.is_relayed() => WORTH.said,
                () if !said.by_user => WORTH.heard,
                () if words.chars().count() < SMALL_TALK && weigh_said(words) < 2.0 => WORTH.small_talk,
                () => WORTH.said,
            };
            let rules = if said.by_user { said.rules() } else { Vec::new() };
            let is_rule = words.len() <= LONG_MESSAGE && !rules.is_empty();
            let stands = match said.by_user {
                true if self.is_handed_in(said.at.unit) => Stands::HandedIn,
                // What is meant to hold has no end.
                true if !is_rule && self.is_answered(said.at.unit) => Stands::Answered,
                _ => Stands::Open,
            };
            let handed_in = stands == Stands::HandedIn;
            let rate = if handed_in { WORTH.small_talk } else { rate };
            let what = match said.by_user {
                true => What::Said(said, stands),
                false if said.is_relayed() => What::Relayed(said),
                false => What::Heard(said),
            };
            // A rule is as good as on the day it was given.
            let holds =
                |what, place| Sketch { what, at: (said.at.unit + 1, place), number: 0, rate: WORTH.rule };
            if is_rule && !handed_in {
                self.list.push(holds(what, said.at.block));
                continue;
            }
            self.add(what, (said.at.unit, said.at.block), rate);
            if handed_in {
                continue;
            }
            // Of a long message, the rules stand for themselves, so that they stay where it is cut.
            self.list
                .extend(rules.into_iter().enumerate().map(|(place, rule)| holds(What::Rule(rule), place)));
        }
    }

    /// Whether the work that a message asked for was handed in, before anybody said something else.
    fn is_handed_in(&self, unit: usize) -> bool {
        let evidence = self.brief.evidence;
        let next = evidence.said.get(evidence.said.partition_point(|said| said.at.unit <= unit));
        let Some(end) = next.map(|next| next.at.unit) else { return false };
        let until = |list: &'d [Read]| {
            let first = list.partition_point(|read| read.at.unit <= unit);
            list[first..].iter().take_while(move |read| read.at.unit < end)
        };
        until(&evidence.deeds).any(|read| read.did().is_some_and(|did| did.finishes))
            || until(&evidence.told).any(|read| read.told().is_some_and(|told| told.hands_in))
    }

    /// Whether the turn of a message ended with closing words before the next one.
    fn is_answered(&self, unit: usize) -> bool {
        let Evidence { said, told, .. } = self.brief.evidence;
        let next = said.get(said.partition_point(|said| said.at.unit <= unit)).map(|next| next.at.unit);
        let closing = told[..told.partition_point(|told| next.is_none_or(|next| told.at.unit < next))].last();
        next.is_some() && closing.is_some_and(|told| told.at.unit > unit && told.closes)
    }

    /// The last unit of the tasks that were handed in before somebody said something else: of these, what was changed and
    /// answered is enough.
    pub(super) fn handed_in(&self) -> usize {
        let said = self.brief.evidence.said.iter().filter(|said| said.by_user);
        let ended = said.clone().zip(said.skip(1)).filter(|(said, _)| self.is_handed_in(said.at.unit));
        ended.last().map_or(0, |(_, next)| next.at.unit)
    }

    /// Closing words whole, of all else the sentences that tell; of two that say the same, the newer one.
    pub(super) fn told(&mut self) {
        let told = &self.brief.evidence.told;
        let mut newer: Vec<&Sense> = Vec::new();
        let handed_in = self.handed_in();
        for read in self.folded(told).rev() {
            let Some(said) = read.told() else { continue };
            let people = &self.brief.evidence.said;
            let next = people.partition_point(|said| said.at.unit < read.at.unit);
            let request = next.checked_sub(1).map(|at| &people[at]);
            let is_first =
                request.is_some_and(|request| request.at.unit + 1 == read.at.unit && asks(request.words()));
            if read.visible && (read.closes || is_first && !said.notes.is_empty()) && !said.text.is_empty() {
                let denied = people.get(next).is_some_and(|said| denies(said.words()));
                let rate = match denied {
                    // What is being replied to is told like what people say.
                    _ if self.brief.answer == Some(read.at.unit) => WORTH.said,
                    true => WORTH.denied,
                    false => WORTH.answer,
                };
                self.add(What::Answer(read, request), (read.at.unit, read.at.block), rate);
                continue;
            }
            if read.at.unit < handed_in {
                continue;
            }
            let mut places = Vec::new();
            for (place, note) in said.notes.iter().enumerate().rev() {
                let recent = newer.len().saturating_sub(RECENT);
                if !note.claims_success && !newer[recent..].iter().any(|other| note.sense.is_in(other)) {
                    newer.push(&note.sense);
                    places.push(place);
                }
            }
            places.sort_by(|a, b| said.notes[*b].weight.total_cmp(&said.notes[*a].weight));
            if let Some(best) = places.first() {
                let rate = WORTH.note * f64::from(said.notes[*best].weight.min(3.0));
                self.add(What::Notes(read, places), (read.at.unit, read.at.block), rate);
            }
        }
    }
}
