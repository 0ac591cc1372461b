//! `longhaul cache`: a body with its cache marks, or what broke the cache between two bodies.

use std::path::PathBuf;
use std::process::ExitCode;

use longhaul_engine::cache::{
    self, By, Carrier, Chain, Landmarks, MOST_MARKS, Mark, Marking, Pace, Provider, Remedy, Route, Volatile,
    Weights,
};
use longhaul_engine::json::pointer;
use longhaul_engine::known::Known;
use longhaul_engine::models::Model;
use longhaul_engine::policy::{CacheTtl, Policy};
use longhaul_engine::prices::{self, Dollars, Prices};
use longhaul_engine::wire::{self, ClientMark, Lifetime, Part, Reading, Seat};
use longhaul_engine::{Dialect, Edit, Rewrite, Tokens, Transcript};
use serde::Serialize;

use crate::body::{self, Body};
use crate::cli::{CacheArgs, caching_flags};
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::{output, route};

#[derive(Serialize)]
struct Answer {
    status: String,
    changed: bool,
    marks: Vec<Placed>,
    removed: Vec<String>,
    prompt_cache_key: Option<String>,
    tokens: Tokens,
    counted_by: String,
    minimum: Option<Tokens>,
    volatile: Vec<Found>,
    model: String,
    dialect: Dialect,
    dialect_sure: bool,
    notes: Vec<String>,
}

/// A mark, and the prefix that it ends.
#[derive(Serialize)]
struct Placed {
    at: String,
    by: By,
    ttl: Lifetime,
    prefix_tokens: Tokens,
}

/// Volatile text, and what it costs.
#[derive(Serialize)]
struct Found {
    name: &'static str,
    text: String,
    part: Part,
    at: String,
    line: usize,
    pace: Pace,
    remedy: Remedy,
    tokens_behind: Tokens,
    usd_each_change: Option<Dollars>,
}

pub(crate) fn run(args: &CacheArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let to = args.answer.to();
    let inputs = [Some(&args.body), args.compare.as_ref(), args.told.place.config.as_ref()];
    output::refuse_inputs(to, inputs.into_iter().flatten().map(PathBuf::as_path))?;
    let body = Body::read(&args.body, &args.told)?;
    body.say_session(&args.answer);
    let (transcript, notes) = body.parse(&args.told)?;
    if let Some(old) = &args.compare {
        return super::cache_compare::run(args, &Body::read(old, &args.told)?, &body, &transcript);
    }
    let mut notes = body::note_lines(&transcript, &notes);
    let provider = route::provider(args.cached.provider, &args.told, &transcript);
    let model = route::model(&args.told, &transcript, provider, &mut notes);
    let settings = Settings::load(
        args.told.place.config.as_deref(),
        environment,
        caching_flags(args.cached.ttl, args.strategy),
    )?;
    let (policy, _) = Policy::new(&settings.engine, &model).map_err(|invalid| settings.refused(&invalid))?;
    let route = Route::new(&policy.caching, &policy.model, provider, transcript.dialect);
    let asked = Asked { transcript: &transcript, reading: wire::reading(&transcript), model: &policy.model };
    let (answer, edits) = asked.answer(&route, provider, notes);
    let rewrite = Rewrite::new(&transcript, edits).map_err(|refused| {
        Failure::World(format!("a mistake of ours kept {} as it is: {refused}", body.shown))
    })?;
    if !args.answer.json {
        say(&answer, &body.shown);
    }
    if to.is_some() || !args.answer.json {
        output::write(to, rewrite.apply(&body.text).as_bytes())?;
    }
    if args.answer.json {
        output::write_json(None, &answer)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A body that is to be marked for a model.
struct Asked<'t, 'b> {
    transcript: &'t Transcript<'b>,
    reading: Reading,
    model: &'t Model,
}

impl Asked<'_, '_> {
    fn answer(
        &self,
        route: &Route,
        provider: Option<Provider>,
        mut notes: Vec<String>,
    ) -> (Answer, Vec<Edit>) {
        let known = &mut Known::default();
        let sizes = Weights::new(self.transcript, &self.reading, self.model).prefixes(known);
        let total = sizes.last().copied().unwrap_or_default();
        let (marking, minimum) = self.marking(route, &sizes, &mut notes);
        let marks = match marking {
            Some(marking) => {
                cache::marks(&Landmarks::of(self.transcript, &self.reading), &self.reading, &marking)
            }
            None => self.clients().map(Mark::from).collect(),
        };
        let mut edits = cache::edits(self.transcript.body, &self.reading, &marks);
        let key = cache::session_key(&Chain::of(&self.reading)).filter(|_| *route == Route::Key);
        let key_edit = key.as_deref().and_then(|key| cache::cache_key(&self.reading, key));
        let prompt_cache_key = key.filter(|_| key_edit.is_some());
        edits.extend(key_edit);
        let prices = prices::find(&self.model.name);
        let answer = Answer {
            status: route.status(self.model, provider),
            changed: !edits.is_empty(),
            marks: self.placed(&marks, &sizes, total),
            removed: self.too_many().iter().map(|mark| self.place(mark)).collect(),
            prompt_cache_key,
            tokens: total,
            counted_by: self.model.counter().name(),
            minimum,
            volatile: self.volatile(&sizes, total, prices.as_ref()),
            model: self.model.name.clone(),
            dialect: self.transcript.dialect,
            dialect_sure: self.transcript.dialect_sure,
            notes,
        };
        (answer, edits)
    }

    fn marking(
        &self,
        route: &Route,
        sizes: &[Tokens],
        notes: &mut Vec<String>,
    ) -> (Option<Marking>, Option<Tokens>) {
        let Route::Marks { carrier, strategy, ttl, minimum } = *route else { return (None, None) };
        let lifetime = match ttl {
            CacheTtl::FiveMinutes => Lifetime::FiveMinutes,
            CacheTtl::OneHour => Lifetime::OneHour,
            CacheTtl::Auto => {
                notes.push("one body does not show the session's pace; breakpoints are for 5m".to_owned());
                Lifetime::FiveMinutes
            }
        };
        let first = sizes.iter().position(|size| *size >= minimum);
        if first.is_none() {
            notes.push(format!(
                "the model caches prefixes from {minimum} tokens on; this body is shorter, so no breakpoint is set"
            ));
        }
        // Only what both dialects understand is written where it is not known which of the two it is.
        let carrier = if self.transcript.dialect_sure { carrier } else { Carrier::Content };
        (Some(Marking { strategy, lifetime, carrier, first }), Some(minimum))
    }

    /// The client's marks that are more than a provider takes.
    fn too_many(&self) -> Vec<ClientMark> {
        cache::surplus(&self.reading)
    }

    /// The client's marks that stay.
    fn clients(&self) -> impl Iterator<Item = &ClientMark> {
        let gone = self.too_many();
        self.reading.marks.iter().filter(move |mark| !gone.contains(mark))
    }

    fn place(&self, mark: &ClientMark) -> String {
        pointer(self.transcript.body, mark.holder).unwrap_or_default()
    }

    /// Where the marks are. Both lists are in the order of reading, so the client's come up in their own order.
    fn placed(&self, marks: &[Mark], sizes: &[Tokens], total: Tokens) -> Vec<Placed> {
        let body = self.transcript.body;
        let mut clients = self.clients();
        let placed = marks.iter().map(|mark| {
            let at = match (mark.by, mark.piece.map(|piece| self.reading.pieces[piece].seat)) {
                (By::Client, _) => clients.next().map(|client| self.place(client)),
                (By::Longhaul, Some(Seat::Block(at) | Seat::Message(at))) => pointer(body, at),
                (By::Longhaul, Some(Seat::String(at))) => pointer(body, at).map(|at| at + "/0"),
                (By::Longhaul, _) => None,
            };
            let prefix_tokens = mark.piece.map_or(total, |piece| sizes[piece]);
            Placed { at: at.unwrap_or_default(), by: mark.by, ttl: mark.lifetime, prefix_tokens }
        });
        placed.collect()
    }

    fn volatile(&self, sizes: &[Tokens], total: Tokens, prices: Option<&Prices>) -> Vec<Found> {
        let found = |Volatile { name, pace, part, piece, line, text, remedy }: Volatile| {
            let before = piece.checked_sub(1).map_or(Tokens::ZERO, |before| sizes[before]);
            let tokens_behind = total - before;
            let at = pointer(self.transcript.body, self.reading.pieces[piece].at).unwrap_or_default();
            let usd_each_change = prices.map(|prices| lost(tokens_behind, prices));
            Found { name, text, part, at, line, pace, remedy, tokens_behind, usd_each_change }
        };
        cache::volatile(self.transcript.body, &self.reading).into_iter().map(found).collect()
    }
}

/// What it costs that so many tokens are written again, and not read.
pub(super) fn lost(tokens: Tokens, prices: &Prices) -> Dollars {
    Dollars(tokens.number() as f64 * (prices.price.write_5m - prices.price.read) / 1e6)
}

fn say(answer: &Answer, shown: &str) {
    output::say(&answer.status);
    for Placed { at, by, ttl, prefix_tokens } in &answer.marks {
        let (by, ttl) = match (by, ttl) {
            (By::Client, Lifetime::FiveMinutes) => (" (the client's)", "5m"),
            (By::Client, Lifetime::OneHour) => (" (the client's)", "1h"),
            (By::Longhaul, Lifetime::FiveMinutes) => ("", "5m"),
            (By::Longhaul, Lifetime::OneHour) => ("", "1h"),
        };
        let at = if at.is_empty() { "/" } else { at };
        output::say(&format!("breakpoint on {at}, {ttl}, after {prefix_tokens} tokens{by}"));
    }
    for at in &answer.removed {
        let at = if at.is_empty() { "/" } else { at };
        output::say(&format!("breakpoint on {at} removed: a provider takes {MOST_MARKS}"));
    }
    if let Some(key) = &answer.prompt_cache_key {
        output::say(&format!("prompt_cache_key {key}"));
    }
    answer.volatile.iter().for_each(|found| output::say(&advice(found)));
    answer.notes.iter().for_each(|note| output::say(&format!("{shown}: {note}")));
}

/// What changes, what it costs, and what could be done about it.
fn advice(found: &Found) -> String {
    let Found { name, text, at, line, tokens_behind, .. } = found;
    let pace = match found.pace {
        Pace::Request => "may change with every request",
        Pace::Day => "changes every day",
        Pace::Session => "is another one in each session",
    };
    let money = found.usd_each_change.map_or(String::new(), |usd| format!(", {usd}"));
    let remedy = match found.remedy {
        Remedy::SplitOff => "as a block of its own behind the rest it would cost itself only",
        Remedy::MoveToEnd => {
            "at the end of the system prompt, or in the newest message, it would cost itself only"
        }
    };
    format!(
        "{name} `{}` in line {line} of {at} {pace}; then {tokens_behind} tokens are uncached and re-billed{money}; {remedy}",
        text.trim()
    )
}
