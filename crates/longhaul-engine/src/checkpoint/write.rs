//! From evidence to a checkpoint within a budget.

use std::collections::HashSet;

use super::brief::{Brief, Written};
use super::fill::{Bought, Offer, fill};
use super::forms::{Candidate, Piece, Writer};
use super::heard::Heard;
use super::render::{Folders, heading};
use super::sketch::{Sketch, What, sketch};
use super::{Checkpoint, Completed, Quoted, Section, Topic};
use crate::redact::{Redacted, Redactor};
use crate::tokens::estimate;

/// The share of a budget for what is on the topic, where there is one; and what people said may take at least.
const ON_TOPIC: f64 = 0.66;
const PEOPLE: f64 = 0.4;

/// A candidate is worth writing only if so many tokens of the budget are there for each.
const LEAST: u64 = 14;

/// Writes the checkpoint of what is folded: never over the budget, but never less than its marker.
pub(crate) fn write(brief: &Brief<'_>, redactor: &mut Redactor) -> Written {
    let mut sketches = sketch(brief);
    let found = sketches.len();
    sketches.sort_by_key(|sketch| sketch.at);
    let last_action = number(brief, &mut sketches);
    // Only what could be bought is written.
    let most = 16 + (brief.budget.number() / LEAST) as usize;
    if brief.focus.is_none() && sketches.len() > most {
        sketches.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        sketches.truncate(most);
    }
    sketches.sort_by_key(|sketch| sketch.at);
    let mut writer = Writer::new(brief, redactor, &sketches);
    let heard = brief.told.map(|told| Heard::of(told, brief));
    let mut candidates: Vec<Candidate> = Vec::with_capacity(sketches.len());
    let mut lost: Vec<bool> = Vec::with_capacity(sketches.len());
    for sketch in &sketches {
        let Some(candidate) = writer.candidate(sketch) else { continue };
        let worth = heard.as_ref().map_or(Some(1.0), |heard| heard.worth(sketch, &candidate));
        let Some(worth) = worth else { continue };
        lost.push(heard.is_some() && !matches!(sketch.what, What::Told(_)));
        candidates.push(candidate.times(worth));
    }
    let offers: Vec<Offer> = candidates.iter().map(Candidate::offer).collect();
    let mut bought = choose(brief, &candidates, &offers);
    // What a model wrote stands as it wrote it.
    let folders = if heard.is_some() { Folders::Each } else { Folders::Once };
    loop {
        let forms = bought.forms(offers.len());
        let mut checkpoint = assemble(&candidates, &forms);
        if heard.is_some() {
            let carries = brief.previous.is_some_and(|before| !before.completed().is_empty());
            checkpoint.number_anew(if carries { 1 } else { brief.before + 1 });
        }
        checkpoint.earlier = brief.earlier.to_vec();
        let text = checkpoint.render_with(brief.marker, folders);
        let tokens = brief.counter.count(&text);
        let over = tokens.number().saturating_sub(brief.budget.number());
        if over == 0 || !bought.give_back(&offers, over) {
            let kept = forms.iter().flatten().count();
            let bought = candidates.iter().zip(&forms).zip(&lost).filter(|(_, lost)| **lost);
            let put_back = bought.filter_map(|((candidate, form), _)| {
                let (piece, _) = &candidate.forms[(*form)?];
                Some((candidate.section, piece.words()))
            });
            let put_back = put_back.collect();
            return Written { checkpoint, text, tokens, found, kept, last: last_action, put_back };
        }
    }
}

/// Numbers what was done and concluded, in order, whether it will be listed or not: a gap says that something is left out. Gives the
/// last number, with one for each action that a model told of.
fn number(brief: &Brief<'_>, sketches: &mut [Sketch<'_>]) -> u32 {
    let mut last = brief.before;
    for sketch in sketches.iter_mut().filter(|sketch| sketch.what.is_action()) {
        last = last.saturating_add(1);
        sketch.number = last;
    }
    let is_action = |sketch: &&Sketch<'_>| matches!(sketch.what, What::Told(statement) if statement.section == Section::CompletedActions);
    last.saturating_add(sketches.iter().filter(is_action).count() as u32)
}

/// What the budget buys; with a topic, first what is on it.
fn choose(brief: &Brief<'_>, candidates: &[Candidate], offers: &[Offer]) -> Bought {
    let least = Checkpoint { earlier: brief.earlier.to_vec(), ..Checkpoint::default() };
    let least = least.tokens(brief.counter, brief.marker);
    let factor = brief.counter.factor;
    let estimated = |text: &str| factor.times(estimate(text)).number();
    let mut openings: Vec<u64> =
        Section::ALL.iter().map(|section| estimated(&heading(*section)) + 1).collect();
    let mut budget = (brief.budget - least).number();
    let Some(topic) = brief.focus.and_then(Topic::on) else {
        return fill(offers, &mut openings, &mut budget, |_| true);
    };
    let on_topic: Vec<bool> = candidates.iter().map(|candidate| candidate.is_on(&topic)).collect();
    let of_all = |share: f64| (brief.budget.number() as f64 * share) as u64;
    // What people said is not the price of a topic, and their rules least of all.
    let is_said = |offer: usize| matches!(candidates[offer].section, Section::Goal | Section::Constraints);
    let mut people = (budget - of_all(ON_TOPIC).min(budget)).max(of_all(PEOPLE)).min(budget);
    budget -= people;
    let said = fill(offers, &mut openings, &mut people, is_said);
    budget += people;
    let mut share = of_all(ON_TOPIC).min(budget);
    budget -= share;
    let first = fill(offers, &mut openings, &mut share, |offer| on_topic[offer] && !is_said(offer));
    budget += share;
    let others = fill(offers, &mut openings, &mut budget, |offer| !on_topic[offer] && !is_said(offer));
    said.then(first).then(others)
}

/// Puts what was bought into its sections, in order of time.
fn assemble(candidates: &[Candidate], forms: &[Option<usize>]) -> Checkpoint {
    let mut checkpoint = Checkpoint::default();
    let bought = candidates.iter().zip(forms).filter(|(_, form)| form.is_some());
    let listed: HashSet<String> = bought.filter_map(|(candidate, _)| candidate.lists()).collect();
    for (candidate, form) in candidates.iter().zip(forms) {
        let Some(form) = form else { continue };
        match candidate.forms[*form].0.clone() {
            Piece::Item(text) => checkpoint.push(candidate.section, text),
            Piece::Entry(number, mut entry) => {
                if let Some(path) = candidate.path.as_ref().filter(|path| !listed.contains(path.as_str())) {
                    entry = entry.about(path);
                }
                let number = number.unwrap_or(candidate.number);
                checkpoint.completed.push(Completed { number, entry });
            }
            Piece::Line(source, line) => match checkpoint.quoted.last_mut() {
                Some(last) if last.source == source => last.lines.push(line),
                _ => checkpoint.quoted.push(Quoted { source, lines: vec![line] }),
            },
        }
    }
    // A rule stands once: not beside the message that says it.
    let bare = |text: &Redacted| text.as_str().split_whitespace().collect::<String>();
    let said: Vec<String> = checkpoint.list(Section::Goal).iter().map(bare).collect();
    let mut told = HashSet::new();
    let mut is_new = |rule: &Redacted| {
        let rule = bare(rule);
        !said.iter().any(|said| said.contains(&rule)) && told.insert(rule)
    };
    checkpoint.lists[Section::Constraints as usize].retain(&mut is_new);
    checkpoint
}
