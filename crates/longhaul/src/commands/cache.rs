//! `longhaul cache`: sets cache breakpoints in a request body, or with `--compare` finds the change that
//! broke the cache.

use std::path::PathBuf;
use std::process::ExitCode;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{
    self, Breakpoint, BreakpointCarrier, BreakpointOptions, BreakpointOwner, CacheProvider, CachingMode,
    ChangeFrequency, MAX_BREAKPOINTS, PieceTokens, PrefixChain, Remedy, StablePieces, VolatileText,
};
use longhaul_engine::json::find_pointer;
use longhaul_engine::models::Model;
use longhaul_engine::policy::{CacheTtl, Policy};
use longhaul_engine::prices::{self, Dollars, ModelPrices};
use longhaul_engine::wire::{self, BreakpointTarget, CacheLifetime, ClientBreakpoint, PromptOrder, PromptPart};
use longhaul_engine::{ApiFormat, Edit, Rewrite, Tokens, Transcript};
use serde::Serialize;

use crate::cli::{CacheArgs, caching_config_flags};
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::request_body::{self, RequestBody};
use crate::{output, provider_choice};

#[derive(Serialize)]
struct CacheOutput {
    status: String,
    changed: bool,
    #[serde(rename = "marks")]
    breakpoints: Vec<PlacedBreakpoint>,
    removed: Vec<String>,
    prompt_cache_key: Option<String>,
    tokens: Tokens,
    counted_by: String,
    minimum: Option<Tokens>,
    volatile: Vec<VolatileFinding>,
    model: String,
    dialect: ApiFormat,
    dialect_sure: bool,
    notes: Vec<String>,
}

/// A cache breakpoint, with the size of the prefix that it ends.
#[derive(Serialize)]
struct PlacedBreakpoint {
    at: String,
    by: BreakpointOwner,
    ttl: CacheLifetime,
    prefix_tokens: Tokens,
}

/// A volatile text, with the cost of each change.
#[derive(Serialize)]
struct VolatileFinding {
    name: &'static str,
    text: String,
    part: PromptPart,
    at: String,
    line: usize,
    pace: ChangeFrequency,
    remedy: Remedy,
    tokens_behind: Tokens,
    usd_each_change: Option<Dollars>,
}

pub(crate) fn run(args: &CacheArgs, environment: &Environment) -> Result<ExitCode, Failure> {
    let to = args.output.file();
    let inputs = [Some(&args.body), args.compare.as_ref(), args.input.store_flags.config.as_ref()];
    output::refuse_overwriting_inputs(to, inputs.into_iter().flatten().map(PathBuf::as_path))?;
    let body = RequestBody::read(&args.body, &args.input)?;
    body.print_session_notes(&args.output);
    let (transcript, notes) = body.parse(&args.input)?;
    if let Some(old) = &args.compare {
        return super::cache_compare::run(args, &RequestBody::read(old, &args.input)?, &body, &transcript);
    }
    let mut notes = request_body::parse_note_lines(&transcript, &notes);
    let provider = provider_choice::choose_provider(args.caching.provider, &args.input, &transcript);
    let model = provider_choice::choose_model(&args.input, &transcript, provider, &mut notes);
    let settings = Settings::load(
        args.input.store_flags.config.as_deref(),
        environment,
        caching_config_flags(args.caching.ttl, args.strategy),
    )?;
    let (policy, _) =
        Policy::new(&settings.engine, &model).map_err(|invalid| settings.invalid_value_failure(&invalid))?;
    let mode = CachingMode::new(&policy.caching, &policy.model, provider, transcript.api_format);
    let input =
        CacheInput { transcript: &transcript, prompt_order: wire::prompt_order(&transcript), model: &policy.model };
    let (output, edits) = input.build_output(&mode, provider, notes);
    let rewrite = Rewrite::new(&transcript, edits)
        .map_err(|refused| Failure::System(format!("internal error, {} was not changed: {refused}", body.label)))?;
    if !args.output.json {
        print_output(&output, &body.label);
    }
    if to.is_some() || !args.output.json {
        output::write(to, rewrite.apply(&body.text).as_bytes())?;
    }
    if args.output.json {
        output::write_json(None, &output)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The request that gets breakpoints, and the model that it is for.
struct CacheInput<'t, 'b> {
    transcript: &'t Transcript<'b>,
    prompt_order: PromptOrder,
    model: &'t Model,
}

impl CacheInput<'_, '_> {
    fn build_output(
        &self,
        mode: &CachingMode,
        provider: Option<CacheProvider>,
        mut notes: Vec<String>,
    ) -> (CacheOutput, Vec<Edit>) {
        let cache = &mut BlockCache::default();
        let sizes = PieceTokens::new(self.transcript, &self.prompt_order, self.model).prefix_sums(cache);
        let total = sizes.last().copied().unwrap_or_default();
        let (options, minimum) = self.breakpoint_options(mode, &sizes, &mut notes);
        let breakpoints = match options {
            Some(options) => cache::place_breakpoints(
                &StablePieces::find(self.transcript, &self.prompt_order),
                &self.prompt_order,
                &options,
            ),
            None => self.kept_client_breakpoints().map(Breakpoint::from).collect(),
        };
        let mut edits = cache::breakpoint_edits(self.transcript.body, &self.prompt_order, &breakpoints);
        let key =
            cache::session_cache_key(&PrefixChain::new(&self.prompt_order)).filter(|_| *mode == CachingMode::CacheKey);
        let key_edit = key.as_deref().and_then(|key| cache::set_cache_key_edit(&self.prompt_order, key));
        let prompt_cache_key = key.filter(|_| key_edit.is_some());
        edits.extend(key_edit);
        let prices = prices::find(&self.model.name);
        let output = CacheOutput {
            status: mode.status_line(self.model, provider),
            changed: !edits.is_empty(),
            breakpoints: self.describe_breakpoints(&breakpoints, &sizes, total),
            removed: self.surplus_breakpoints().iter().map(|breakpoint| self.breakpoint_pointer(breakpoint)).collect(),
            prompt_cache_key,
            tokens: total,
            counted_by: self.model.counter().name(),
            minimum,
            volatile: self.find_volatile(&sizes, total, prices.as_ref()),
            model: self.model.name.clone(),
            dialect: self.transcript.api_format,
            dialect_sure: self.transcript.is_api_format_certain,
            notes,
        };
        (output, edits)
    }

    fn breakpoint_options(
        &self,
        mode: &CachingMode,
        sizes: &[Tokens],
        notes: &mut Vec<String>,
    ) -> (Option<BreakpointOptions>, Option<Tokens>) {
        let CachingMode::Breakpoints { carrier, strategy, ttl, minimum } = *mode else {
            return (None, None);
        };
        let lifetime = match ttl {
            CacheTtl::FiveMinutes => CacheLifetime::FiveMinutes,
            CacheTtl::OneHour => CacheLifetime::OneHour,
            CacheTtl::Auto => {
                notes.push("one request does not show how fast the session moves; the breakpoints use 5m".to_owned());
                CacheLifetime::FiveMinutes
            }
        };
        let first = sizes.iter().position(|size| *size >= minimum);
        if first.is_none() {
            notes.push(format!(
                "the model caches prefixes of {minimum} tokens or more; this request is shorter, so no breakpoint is set"
            ));
        }
        // If the API format is uncertain, write only the form that both candidates understand.
        let carrier = if self.transcript.is_api_format_certain { carrier } else { BreakpointCarrier::Content };
        (Some(BreakpointOptions { strategy, lifetime, carrier, first_cacheable: first }), Some(minimum))
    }

    /// Lists the client's breakpoints beyond the provider's limit.
    fn surplus_breakpoints(&self) -> Vec<ClientBreakpoint> {
        cache::surplus_breakpoints(&self.prompt_order)
    }

    /// Iterates over the client's breakpoints that are kept.
    fn kept_client_breakpoints(&self) -> impl Iterator<Item = &ClientBreakpoint> {
        let surplus = self.surplus_breakpoints();
        self.prompt_order.breakpoints.iter().filter(move |breakpoint| !surplus.contains(breakpoint))
    }

    fn breakpoint_pointer(&self, breakpoint: &ClientBreakpoint) -> String {
        find_pointer(self.transcript.body, breakpoint.object).unwrap_or_default()
    }

    /// Describes the breakpoints. Both lists are in prompt order, so the client's breakpoints are matched one
    /// after another.
    fn describe_breakpoints(
        &self,
        breakpoints: &[Breakpoint],
        sizes: &[Tokens],
        total: Tokens,
    ) -> Vec<PlacedBreakpoint> {
        let body = self.transcript.body;
        let mut clients = self.kept_client_breakpoints();
        let placed = breakpoints.iter().map(|breakpoint| {
            let at = match (
                breakpoint.owner,
                breakpoint.piece.map(|piece| self.prompt_order.pieces[piece].breakpoint_target),
            ) {
                (BreakpointOwner::Client, _) => clients.next().map(|client| self.breakpoint_pointer(client)),
                (BreakpointOwner::Longhaul, Some(BreakpointTarget::Block(at) | BreakpointTarget::Message(at))) => {
                    find_pointer(body, at)
                }
                (BreakpointOwner::Longhaul, Some(BreakpointTarget::String(at))) => {
                    find_pointer(body, at).map(|at| at + "/0")
                }
                (BreakpointOwner::Longhaul, _) => None,
            };
            let prefix_tokens = breakpoint.piece.map_or(total, |piece| sizes[piece]);
            PlacedBreakpoint {
                at: at.unwrap_or_default(),
                by: breakpoint.owner,
                ttl: breakpoint.lifetime,
                prefix_tokens,
            }
        });
        placed.collect()
    }

    fn find_volatile(&self, sizes: &[Tokens], total: Tokens, prices: Option<&ModelPrices>) -> Vec<VolatileFinding> {
        let found = |VolatileText { name, frequency: pace, part, piece, line, text, remedy }: VolatileText| {
            let tokens_before = piece.checked_sub(1).map_or(Tokens::ZERO, |previous| sizes[previous]);
            let tokens_behind = total - tokens_before;
            let at = find_pointer(self.transcript.body, self.prompt_order.pieces[piece].at).unwrap_or_default();
            let usd_each_change = prices.map(|prices| cache_miss_cost(tokens_behind, prices));
            VolatileFinding { name, text, part, at, line, pace, remedy, tokens_behind, usd_each_change }
        };
        cache::find_volatile_text(self.transcript.body, &self.prompt_order).into_iter().map(found).collect()
    }
}

/// Returns the extra cost if the provider writes tokens to its cache instead of reading them from it.
pub(super) fn cache_miss_cost(tokens: Tokens, prices: &ModelPrices) -> Dollars {
    Dollars(tokens.number() as f64 * (prices.price.write_5m - prices.price.read) / 1e6)
}

fn print_output(output: &CacheOutput, shown: &str) {
    output::print_message(&output.status);
    for PlacedBreakpoint { at, by, ttl, prefix_tokens } in &output.breakpoints {
        let (by, ttl) = match (by, ttl) {
            (BreakpointOwner::Client, CacheLifetime::FiveMinutes) => (" (the client's)", "5m"),
            (BreakpointOwner::Client, CacheLifetime::OneHour) => (" (the client's)", "1h"),
            (BreakpointOwner::Longhaul, CacheLifetime::FiveMinutes) => ("", "5m"),
            (BreakpointOwner::Longhaul, CacheLifetime::OneHour) => ("", "1h"),
        };
        let at = if at.is_empty() { "/" } else { at };
        output::print_message(&format!("breakpoint on {at}, {ttl}, after {prefix_tokens} tokens{by}"));
    }
    for at in &output.removed {
        let at = if at.is_empty() { "/" } else { at };
        output::print_message(&format!("breakpoint on {at} removed: the provider allows {MAX_BREAKPOINTS}"));
    }
    if let Some(key) = &output.prompt_cache_key {
        output::print_message(&format!("prompt_cache_key {key}"));
    }
    output.volatile.iter().for_each(|found| output::print_message(&volatile_advice(found)));
    output.notes.iter().for_each(|note| output::print_message(&format!("{shown}: {note}")));
}

/// Describes a volatile text, its cost, and a remedy.
fn volatile_advice(found: &VolatileFinding) -> String {
    let VolatileFinding { name, text, at, line, tokens_behind, .. } = found;
    let pace = match found.pace {
        ChangeFrequency::Request => "may change with every request",
        ChangeFrequency::Day => "changes every day",
        ChangeFrequency::Session => "is different in each session",
    };
    let money = found.usd_each_change.map_or(String::new(), |usd| format!(", {usd}"));
    let remedy = match found.remedy {
        Remedy::SplitOff => "put it in its own block after the rest, so that only it is uncached",
        Remedy::MoveToEnd => {
            "put it at the end of the system prompt or in the newest message, so that only it is uncached"
        }
    };
    format!(
        "{name} `{}` in line {line} of {at} {pace}; then {tokens_behind} tokens are uncached and written to the cache again{money}; {remedy}",
        text.trim()
    )
}
