//! `longhaul cache --compare`: the first place where a body parts from the one before it, and what that costs.

use std::process::ExitCode;

use longhaul_engine::cache::{self, Change, Difference, Volatile, Warm, Weights};
use longhaul_engine::json::{Span, pointer};
use longhaul_engine::known::Known;
use longhaul_engine::models::Model;
use longhaul_engine::prices::{self, Dollars};
use longhaul_engine::wire::{self, Part, Reading};
use longhaul_engine::{Tokens, Transcript};
use serde::Serialize;

use super::cache::lost;
use crate::body::{self, Body};
use crate::cli::CacheArgs;
use crate::failure::Failure;
use crate::output::{self, Line, Page, STRONG};

#[derive(Serialize)]
struct Answer {
    warm: bool,
    difference: Option<Shown>,
    tokens: Tokens,
    warm_tokens: Tokens,
    cold_tokens: Tokens,
    lost_tokens: Tokens,
    lost_usd: Option<Dollars>,
    counted_by: String,
    model: String,
}

/// The first difference.
#[derive(Serialize)]
struct Shown {
    what: &'static str,
    part: Part,
    old_at: Option<String>,
    new_at: Option<String>,
    old_text: Option<String>,
    new_text: Option<String>,
    volatile: Option<&'static str>,
}

/// A body with what was read of it.
struct Side<'t, 'b> {
    transcript: &'t Transcript<'b>,
    reading: Reading,
    total: Tokens,
}

impl<'t, 'b> Side<'t, 'b> {
    fn new(transcript: &'t Transcript<'b>, model: &Model, known: &mut Known) -> Self {
        let reading = wire::reading(transcript);
        let sizes = Weights::new(transcript, &reading, model).prefixes(known);
        Self { transcript, reading, total: sizes.last().copied().unwrap_or_default() }
    }

    fn pointer(&self, at: Span) -> Option<String> {
        pointer(self.transcript.body, at)
    }
}

pub(super) fn run(
    args: &CacheArgs,
    old: &Body,
    new: &Body,
    transcript: &Transcript<'_>,
) -> Result<ExitCode, Failure> {
    let (before, _) = old.parse(&args.told)?;
    let model = body::model(&args.told, transcript);
    let known = &mut Known::default();
    let (before, after) = (Side::new(&before, &model, known), Side::new(transcript, &model, known));
    let Warm { difference, tokens: warm } =
        cache::warm(&before.reading, transcript, &after.reading, &model, known);
    let lost_tokens = difference.map_or(Tokens::ZERO, |_| before.total.min(after.total) - warm);
    let answer = Answer {
        warm: difference.is_none(),
        difference: difference.map(|found| shown(&found, &before, &after)),
        tokens: after.total,
        warm_tokens: warm,
        cold_tokens: after.total - warm,
        lost_tokens,
        lost_usd: prices::find(&model.name).map(|prices| lost(lost_tokens, &prices)),
        counted_by: model.counter().name(),
        model: model.name,
    };
    let to = args.answer.to();
    if args.answer.json {
        output::write_json(to, &answer)?;
    } else {
        output::give(to, &page(&answer, &old.shown, &new.shown))?;
    }
    Ok(if answer.warm { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn shown(found: &Difference, before: &Side<'_, '_>, after: &Side<'_, '_>) -> Shown {
    let (what, old) = match found.change {
        Change::Model => ("another model", None),
        Change::ToolChoice => ("another tool_choice", None),
        Change::Thinking => ("other thinking", None),
        Change::Piece { old } => ("another text", Some(old)),
        Change::Removed { old } => ("the end is gone", Some(old)),
    };
    let new = found.at.filter(|_| matches!(found.change, Change::Piece { .. }));
    let texts = old.zip(new).map(|(old, new)| parting(raw(before, old), raw(after, new)));
    let is_there = |v: &&Volatile| v.piece == found.from;
    let volatile = cache::volatile(after.transcript.body, &after.reading);
    Shown {
        what,
        part: found.part,
        old_at: old.and_then(|old| before.pointer(old)),
        new_at: new.and_then(|new| after.pointer(new)),
        old_text: texts.clone().map(|(old, _)| old),
        new_text: texts.map(|(_, new)| new),
        volatile: volatile.iter().find(is_there).filter(|_| old.is_some()).map(|v| v.name),
    }
}

fn raw<'b>(side: &Side<'_, 'b>, at: Span) -> &'b str {
    &side.transcript.body[at.range()]
}

/// Both texts from a little before the place where they part.
fn parting(old: &str, new: &str) -> (String, String) {
    const BEFORE: usize = 20;
    const BEHIND: usize = 40;
    let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    let excerpt = |text: &str| text.chars().skip(same.saturating_sub(BEFORE)).take(BEFORE + BEHIND).collect();
    (excerpt(old), excerpt(new))
}

fn page(answer: &Answer, old: &str, new: &str) -> Page {
    let mut page = Page::default();
    let Some(found) = &answer.difference else {
        page.line(format!("{new} goes on from {old}: {} tokens stay cached", answer.warm_tokens));
        return page;
    };
    let money = answer.lost_usd.map_or(String::new(), |usd| format!(" ({usd})"));
    let part = match found.part {
        Part::Tools => "tools",
        Part::System => "system prompt",
        Part::Messages => "messages",
    };
    let line = Line::from(format!("{new} parts from {old} in the {part}: "));
    page.line(line.styled(STRONG, found.what));
    for (name, at, text) in [("old", &found.old_at, &found.old_text), ("new", &found.new_at, &found.new_text)]
    {
        if let Some(at) = at {
            let text = text.as_ref().map_or(String::new(), |text| format!(": …{text}…"));
            page.line(format!("  {name} {at}{text}"));
        }
    }
    if let Some(name) = found.volatile {
        page.line(format!("  it looks like a {name}, which changes by itself"));
    }
    let Answer { warm_tokens, cold_tokens, lost_tokens, .. } = answer;
    page.line(format!(
        "{warm_tokens} tokens stay cached, {cold_tokens} are uncached; {lost_tokens} of them are re-billed because of the change{money}"
    ));
    page
}
