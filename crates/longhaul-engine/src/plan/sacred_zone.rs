//! The sacred zone: only tool outputs shrink, the largest first, and only outside a zone that is never touched.
//!
//! ```text
//! system │ first exchange │ ········ outputs here may shrink ········ │ the newest tokens
//! ```
//!
//! How much of the end is protected follows the session: more where recent calls refer far back, where a turn takes many
//! calls, or where the newest failure is still open.

use std::collections::HashSet;

use super::draft::{Draft, InPlace, Length};
use super::engine::{Due, Engine, Load, Source};
use super::ours::Ours;
use super::report::{Restart, ZoneReport};
use super::settle::{Occasion, finished, settle, unchanged};
use super::survey::{ResultAt, Survey};
use super::{Plan, Wish, ladder};
use crate::config::EngineName;
use crate::digest::is_digest;
use crate::facts::{FactKind, Facts};
use crate::hosted;
use crate::known::Known;
use crate::ledger::Placed;
use crate::policy::{Policy, SacredBudget};
use crate::texts::{CHECKPOINT_OPENING, END_OPENING, signed};
use crate::transcript::{Speaker, Transcript, UnitKind};
use crate::{Refused, Tokens};

/// How many of the newest steps say what the session is like.
const RECENT_STEPS: usize = 12;
/// A turn with this many calls is as busy as it counts.
const BUSY_TURN: f64 = 20.0;
/// How much of a text is searched for values.
const LOOKED_AT: usize = 64 * 1024;
/// Values shorter than this are in every text by chance.
const SHORTEST_VALUE: usize = 5;

/// The engine that shortens tool outputs alone, with the ladder if that is not enough.
#[derive(Debug, Clone, Copy)]
pub struct SacredZone;

impl Engine for SacredZone {
    fn name(&self) -> EngineName {
        EngineName::SACRED_ZONE
    }

    fn about(&self) -> &'static str {
        "digests old tool outputs only, the largest first; nothing is folded"
    }

    fn source(&self) -> Source {
        Source::BuiltIn
    }

    fn starts_at(&self, policy: &Policy) -> Tokens {
        policy.sacred.trigger
    }

    fn due(&self, policy: &Policy, wish: &Wish, load: &Load) -> Due {
        let now = load.share_of(policy.window);
        let trigger = load.threshold(self.starts_at(policy), policy);
        let overflows = load.overflows(policy);
        if load.tokens < trigger && !wish.is_asked() && overflows.is_none() {
            return Due::NotYet(format!("below the trigger of {trigger}: {now}"));
        }
        if let Some(wanted) = wish.to_tokens.filter(|wanted| load.tokens <= *wanted) {
            return Due::NotYet(format!("already at or under the {wanted} tokens asked for: {now}"));
        }
        if let Some(later) = load.waits(policy) {
            return later;
        }
        Due::Now(match overflows {
            Some(reason) => reason,
            None if load.tokens < trigger => format!("asked for at {now}"),
            None => format!("{now} reach the trigger of {trigger}"),
        })
    }

    fn compact(
        &self,
        policy: &Policy,
        wish: &Wish,
        known: &mut Known,
        transcript: &Transcript<'_>,
    ) -> Result<Plan, Refused> {
        let ours = Ours::of(policy, wish, transcript);
        let mut survey = Survey::new(policy, wish, known, &ours);
        survey.about.extend(wish.focus.clone());
        let target = wish.to_tokens.unwrap_or(policy.sacred.target.min(survey.limit()));
        let survey = &survey;
        let occasion = |reason: String, zone: Option<ZoneReport>| {
            let (engine, floor) = (self.name(), ladder::floor(survey));
            Occasion { engine, reason, target, floor, zone }
        };
        let leave = |occasion: Occasion| Ok(Plan::Leave(unchanged(survey, &occasion)));
        let reason = match self.due(policy, wish, &survey.load()) {
            Due::Now(reason) => reason,
            Due::NotYet(reason) => return leave(occasion(reason, None)),
        };
        let zone = zone(survey);
        let occasion = |reason: String| occasion(reason, Some(zone));
        // Who insists gets all that may be had, so that there is nothing left to insist on.
        let shrink_to = if wish.force && wish.to_tokens.is_none() { Tokens::ZERO } else { target };
        let protected = protected(survey, zone.recent);
        let mut draft = Draft::new(survey);
        shrink(&mut draft, shrink_to, &protected);
        ladder::climb(&mut draft, target, &protected);
        if draft.is_empty() {
            return leave(occasion(nothing_to_shrink(survey, zone.recent)));
        }
        mark_what_is_gone(&mut draft);
        if let Some(outcome) = settle(&draft, &occasion(reason), known)? {
            return Ok(Plan::Ready(finished(outcome, survey, known)?));
        }
        let reason = "what could be removed is smaller than what would stand in its place";
        leave(occasion(reason.to_owned()))
    }
}

/// Why nothing shrinks: what protects the large outputs, or that there are none.
fn nothing_to_shrink(survey: &Survey<'_, '_>, recent: Tokens) -> String {
    let least = survey.policy.sacred.min;
    let results = (0..survey.units.len()).flat_map(|unit| survey.results(unit));
    let is_whole =
        |result: &ResultAt<'_, '_>| !is_digest(hosted::output(&result.block.text()), &result.exchange.tool);
    let large = results.filter(|result| survey.tokens(result.at) > least && is_whole(result)).count();
    if large == 0 {
        return format!("nothing to shrink: no output has more than {least} tokens (sacred_zone.min_tokens)");
    }
    format!(
        "nothing to shrink: the {large} outputs over {least} tokens stand in the first exchange or the newest {recent} tokens, \
         which are protected (sacred_zone.recent_tokens)"
    )
}

/// Says where units went without a summary, and how many messages with them.
fn mark_what_is_gone(draft: &mut Draft<'_, '_, '_>) {
    let Some(first) = draft.gone.first() else { return };
    let text = marker(draft.gone_messages(), draft.restart().as_ref());
    let text = draft.survey.wish.key.as_ref().map_or_else(|| text.clone(), |key| signed(&text, key));
    draft.in_place = InPlace::Count(Placed { before: *first, text, takes: draft.survey.takes() });
}

/// What stands in the place of messages that went without a summary.
fn marker(messages: usize, restart: Option<&Restart>) -> String {
    let from = match restart.map(|restart| restart.parent.as_deref()) {
        Some(Some(session)) => format!(" of session {session}, which is archived,"),
        Some(None) => " of the session before, which is archived,".to_owned(),
        None => String::new(),
    };
    let (noun, verb) = if messages == 1 { ("message", "was") } else { ("messages", "were") };
    format!(
        "{CHECKPOINT_OPENING}: {messages} earlier {noun}{from} {verb} removed from here on without a summary, because the context \
         window was full. For reference only; go on from the recent messages below.]\n\n{END_OPENING}.]"
    )
}

/// Shrinks results in the draft until the target is reached or none is left.
fn shrink(draft: &mut Draft<'_, '_, '_>, target: Tokens, protected: &dyn Fn(usize) -> bool) {
    let survey = draft.survey;
    let budget = &survey.policy.sacred;
    let units = (0..survey.units.len()).filter(|unit| !protected(*unit));
    let results = units.flat_map(|unit| survey.results(unit));
    let mut candidates: Vec<_> = results
        .map(|result| (survey.tokens(result.at), result))
        .filter(|(tokens, _)| *tokens > budget.min)
        .collect();
    candidates.sort_by_key(|(tokens, result)| (std::cmp::Reverse(*tokens), result.at));
    for (tokens, result) in candidates {
        if draft.total <= target {
            break;
        }
        draft.shrink(result, Length::Budget(digest_budget(budget, tokens)));
    }
}

fn digest_budget(budget: &SacredBudget, tokens: Tokens) -> Tokens {
    Tokens((tokens.number() as f64 * budget.digest_share) as u64).max(budget.digest)
}

/// Which units are never touched: the first exchange, what was said last and the newest tokens.
fn protected(survey: &Survey<'_, '_>, recent: Tokens) -> impl Fn(usize) -> bool + use<> {
    let (first, newest, pinned) = (survey.first_exchange(), survey.newest(recent), survey.pinned());
    move |unit: usize| first.contains(&unit) || newest.contains(&unit) || pinned.contains(&unit)
}

/// Sizes the recent zone by what the session is like.
fn zone(survey: &Survey<'_, '_>) -> ZoneReport {
    let SacredBudget { recent, recent_least, recent_most, .. } = survey.policy.sacred;
    let units = &survey.transcript.units;
    let steps: Vec<usize> =
        (0..units.len()).filter(|at| matches!(units[*at].kind, UnitKind::Step { .. })).collect();
    let newest = &steps[steps.len().saturating_sub(RECENT_STEPS)..];
    let refers_back = refers_back(survey, newest);
    let calls_a_turn = calls_a_turn(survey, newest);
    let open_error = newest.iter().rev().find_map(|at| failed(survey, *at)).unwrap_or(false);
    let busy = 0.25 * (calls_a_turn / BUSY_TURN).min(1.0) + if open_error { 0.25 } else { 0.0 };
    let wanted = Tokens((recent.number() as f64 * (0.5 + refers_back + busy)) as u64);
    // What the session is like changes with what is made shorter of it. Who insists twice gets the same zone twice.
    let wanted = if survey.wish.force { recent } else { wanted };
    let recent = wanted.clamp(recent_least, recent_most.max(recent_least));
    ZoneReport { recent, refers_back, calls_a_turn, open_error }
}

/// The share of recent calls that name a value which only results before the last three steps showed.
fn refers_back(survey: &Survey<'_, '_>, newest: &[usize]) -> f64 {
    let shown: Vec<HashSet<String>> = newest.iter().map(|at| values_shown(survey, *at)).collect();
    let names = |steps: &[HashSet<String>], value: &str| steps.iter().any(|values| values.contains(value));
    let (mut calls, mut back) = (0usize, 0usize);
    for (position, unit) in newest.iter().enumerate().skip(4) {
        let (far, near) = (&shown[..position - 3], &shown[position - 3..position]);
        for call in survey.transcript.units[*unit].exchanges().iter().filter_map(|e| e.call.as_ref()) {
            calls += 1;
            let arguments = call.opening(LOOKED_AT);
            back += usize::from(values(&arguments).any(|v| names(far, v) && !names(near, v)));
        }
    }
    if calls == 0 { 0.0 } else { back as f64 / calls as f64 }
}

/// Words that are exact enough to be a reference: paths, names with inner structure, long numbers.
fn values(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-')));
    words.filter(|word| {
        word.len() >= SHORTEST_VALUE && word.contains(['_', '/', '.'])
            || word.bytes().filter(u8::is_ascii_digit).count() >= 4
    })
}

fn values_shown(survey: &Survey<'_, '_>, unit: usize) -> HashSet<String> {
    let results = survey.transcript.units[unit].exchanges().iter().flat_map(|e| &e.results);
    results
        .flat_map(|block| values(&block.opening(LOOKED_AT)).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Calls for each thing that a person said, over the newest steps.
fn calls_a_turn(survey: &Survey<'_, '_>, newest: &[usize]) -> f64 {
    let calls: usize = newest.iter().map(|at| survey.transcript.units[*at].exchanges().len()).sum();
    let from = newest.first().copied().unwrap_or(0);
    let prompts = survey.transcript.units[from..]
        .iter()
        .filter(|unit| matches!(unit.kind, UnitKind::Prompt { by: Speaker::User, .. }))
        .count();
    calls as f64 / prompts.max(1) as f64
}

/// Whether a step's results failed; nothing where they do not say.
fn failed(survey: &Survey<'_, '_>, unit: usize) -> Option<bool> {
    let exchange = survey.transcript.units[unit].exchanges().last()?;
    if exchange.failed.is_some() {
        return exchange.failed;
    }
    let text = exchange.results.last()?.text();
    let facts = Facts::of(&text);
    let failing = facts.of_kind(FactKind::Failing).next().map(|_| true);
    facts.exit.map(|code| code != 0).or(failing)
}
