//! `longhaul cache --compare`: finds the first difference between two requests in prompt order, and its cost.

use std::process::ExitCode;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{self, CachedPrefix, PieceTokens, PrefixChange, PrefixDifference, VolatileText};
use longhaul_engine::json::{Span, find_pointer};
use longhaul_engine::models::Model;
use longhaul_engine::prices::{self, Dollars};
use longhaul_engine::wire::{self, PromptOrder, PromptPart};
use longhaul_engine::{Tokens, Transcript};
use serde::Serialize;

use super::cache::cache_miss_cost;
use crate::cli::CacheArgs;
use crate::failure::Failure;
use crate::output::{self, EMPHASIS_STYLE, Page, StyledLine};
use crate::request_body::{self, RequestBody};

#[derive(Serialize)]
struct CacheCompareOutput {
    #[serde(rename = "warm")]
    is_cached: bool,
    difference: Option<CacheDifference>,
    tokens: Tokens,
    #[serde(rename = "warm_tokens")]
    cached_tokens: Tokens,
    #[serde(rename = "cold_tokens")]
    uncached_tokens: Tokens,
    lost_tokens: Tokens,
    lost_usd: Option<Dollars>,
    counted_by: String,
    model: String,
}

/// The first difference between the two requests.
#[derive(Serialize)]
struct CacheDifference {
    what: &'static str,
    part: PromptPart,
    old_at: Option<String>,
    new_at: Option<String>,
    old_text: Option<String>,
    new_text: Option<String>,
    volatile: Option<&'static str>,
}

/// One of the two requests, with its content in prompt order.
struct ComparedRequest<'t, 'b> {
    transcript: &'t Transcript<'b>,
    prompt_order: PromptOrder,
    total_tokens: Tokens,
}

impl<'t, 'b> ComparedRequest<'t, 'b> {
    fn new(transcript: &'t Transcript<'b>, model: &Model, cache: &mut BlockCache) -> Self {
        let prompt_order = wire::prompt_order(transcript);
        let sizes = PieceTokens::new(transcript, &prompt_order, model).prefix_sums(cache);
        Self { transcript, prompt_order, total_tokens: sizes.last().copied().unwrap_or_default() }
    }

    fn pointer(&self, at: Span) -> Option<String> {
        find_pointer(self.transcript.body, at)
    }
}

pub(super) fn run(
    args: &CacheArgs,
    old: &RequestBody,
    new: &RequestBody,
    transcript: &Transcript<'_>,
) -> Result<ExitCode, Failure> {
    let (before, _) = old.parse(&args.input)?;
    let model = request_body::stated_model(&args.input, transcript);
    let cache = &mut BlockCache::default();
    let (before, after) =
        (ComparedRequest::new(&before, &model, cache), ComparedRequest::new(transcript, &model, cache));
    let CachedPrefix { difference, tokens: cached_tokens } =
        cache::cached_prefix(&before.prompt_order, transcript, &after.prompt_order, &model, cache);
    let lost_tokens = difference.map_or(Tokens::ZERO, |_| before.total_tokens.min(after.total_tokens) - cached_tokens);
    let output = CacheCompareOutput {
        is_cached: difference.is_none(),
        difference: difference.map(|found| describe_difference(&found, &before, &after)),
        tokens: after.total_tokens,
        cached_tokens,
        uncached_tokens: after.total_tokens - cached_tokens,
        lost_tokens,
        lost_usd: prices::find(&model.name).map(|prices| cache_miss_cost(lost_tokens, &prices)),
        counted_by: model.counter().name(),
        model: model.name,
    };
    let to = args.output.file();
    if args.output.json {
        output::write_json(to, &output)?;
    } else {
        output::write_page(to, &page(&output, &old.label, &new.label))?;
    }
    Ok(if output.is_cached { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn describe_difference(
    difference: &PrefixDifference,
    before: &ComparedRequest<'_, '_>,
    after: &ComparedRequest<'_, '_>,
) -> CacheDifference {
    let (what, old) = match difference.change {
        PrefixChange::Model => ("another model", None),
        PrefixChange::ToolChoice => ("another tool_choice", None),
        PrefixChange::Thinking => ("other thinking", None),
        PrefixChange::Piece { old } => ("another text", Some(old)),
        PrefixChange::Removed { old } => ("the end is missing", Some(old)),
    };
    let new = difference.at.filter(|_| matches!(difference.change, PrefixChange::Piece { .. }));
    let texts = old.zip(new).map(|(old, new)| excerpts_at_difference(raw_text(before, old), raw_text(after, new)));
    let is_first_change = |v: &&VolatileText| v.piece == difference.first_piece;
    let volatile = cache::find_volatile_text(after.transcript.body, &after.prompt_order);
    CacheDifference {
        what,
        part: difference.part,
        old_at: old.and_then(|old| before.pointer(old)),
        new_at: new.and_then(|new| after.pointer(new)),
        old_text: texts.clone().map(|(old, _)| old),
        new_text: texts.map(|(_, new)| new),
        volatile: volatile.iter().find(is_first_change).filter(|_| old.is_some()).map(|v| v.name),
    }
}

fn raw_text<'b>(side: &ComparedRequest<'_, 'b>, at: Span) -> &'b str {
    &side.transcript.body[at.range()]
}

/// Returns an excerpt of each text around the first difference. The number of characters is chosen by hand
/// for a terminal.
fn excerpts_at_difference(old: &str, new: &str) -> (String, String) {
    const CHARS_BEFORE: usize = 20;
    const CHARS_AFTER: usize = 40;
    let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    let excerpt =
        |text: &str| text.chars().skip(same.saturating_sub(CHARS_BEFORE)).take(CHARS_BEFORE + CHARS_AFTER).collect();
    (excerpt(old), excerpt(new))
}

fn page(output: &CacheCompareOutput, old: &str, new: &str) -> Page {
    let mut page = Page::default();
    let Some(found) = &output.difference else {
        page.add_line(format!("{new} continues {old}: {} tokens stay cached", output.cached_tokens));
        return page;
    };
    let money = output.lost_usd.map_or(String::new(), |usd| format!(" ({usd})"));
    let part = match found.part {
        PromptPart::Tools => "tools",
        PromptPart::System => "system prompt",
        PromptPart::Messages => "messages",
    };
    let line = StyledLine::from(format!("{new} differs from {old} in the {part}: "));
    page.add_line(line.styled(EMPHASIS_STYLE, found.what));
    for (name, at, text) in [("old", &found.old_at, &found.old_text), ("new", &found.new_at, &found.new_text)] {
        if let Some(at) = at {
            let text = text.as_ref().map_or(String::new(), |text| format!(": …{text}…"));
            page.add_line(format!("  {name} {at}{text}"));
        }
    }
    if let Some(name) = found.volatile {
        page.add_line(format!("  it looks like a {name}, which changes by itself"));
    }
    let CacheCompareOutput { cached_tokens, uncached_tokens, lost_tokens, .. } = output;
    page.add_line(format!(
        "{cached_tokens} tokens stay cached, {uncached_tokens} are uncached; {lost_tokens} of them are written to the cache again because of the change{money}"
    ));
    page
}
