//! `longhaul cost`: replays a session with every strategy and compares the costs.

mod agent_session;
mod html_page;
mod sentences;
mod text_page;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{CacheProvider, CacheRules, CachingMode, FIVE_MINUTES, PrefixEnds};
use longhaul_engine::cost::{
    self, BreakpointPolicy, CostStrategy, RecordedRequest, RecordedSession, Replay, ReplayedRequest,
};
use longhaul_engine::models::Model;
use longhaul_engine::policy::{CacheStrategy, Config, Policy};
use longhaul_engine::prices::{Dollars, ModelPrices};
use longhaul_engine::schedule::PricedDecision;
use longhaul_engine::{ApiFormat, RewriteError, Tokens};
use serde::Serialize;

use crate::cli::{CostArgs, StrategyChoice, caching_config_flags};
use crate::config::{Environment, Settings};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::request_body;
use crate::{input, output, parallel, provider_choice, recorded_cost};
use agent_session::AgentSessionInfo;

#[derive(Serialize)]
struct CostOutput {
    /// The result in sentences.
    summary: Vec<String>,
    /// The facts that the agent recorded, if the input is an agent's session.
    recorded: Option<AgentSessionInfo>,
    requests: usize,
    policies: Vec<CostRow>,
    model: String,
    dialect: ApiFormat,
    dialect_sure: bool,
    status: String,
    window: Tokens,
    threshold: Tokens,
    minutes: f64,
    pauses: PauseSource,
    prices: ModelPrices,
    priced_as: Option<PricedAs>,
    notes: Vec<String>,
}

/// The model whose prices were used, if the requested model has none of its own.
#[derive(Serialize)]
struct PricedAs {
    #[serde(rename = "asked")]
    requested: String,
    row: String,
    #[serde(rename = "why")]
    reason: String,
}

impl PricedAs {
    /// Returns the model whose prices were used, or nothing if the prices are the requested model's own.
    fn new(
        requested: &Model,
        priced_as: &Model,
        provider: Option<CacheProvider>,
        prices: &ModelPrices,
    ) -> Option<Self> {
        let row = prices.row.clone()?;
        let reason = match provider {
            Some(provider) if priced_as.name != requested.name => {
                let (taken, provider) = (&priced_as.name, provider.name());
                format!("the model is unknown; {taken} is the usual one of {provider}")
            }
            _ if prices.nearest => "it has no known price, and this model is the nearest".to_owned(),
            _ => return None,
        };
        Some(Self { requested: requested.name.clone(), row, reason })
    }
}

/// The source of the pauses, and the number of pauses after which a five-minute cache entry has expired.
#[derive(Serialize)]
struct PauseSource {
    #[serde(rename = "by")]
    name: &'static str,
    seed: Option<u64>,
    over_five_minutes: usize,
}

/// The result of replaying the session with one strategy.
#[derive(Serialize)]
struct CostRow {
    name: String,
    #[serde(rename = "strategy")]
    cache_strategy: Option<CacheStrategy>,
    compactions: usize,
    /// The turns that the agent had to repeat, because a compaction removed a result that it needed later.
    forgotten: usize,
    /// The cost of the repeated turns. It is included in `usd`.
    forgotten_usd: Dollars,
    cached: Tokens,
    written: Tokens,
    #[serde(rename = "fresh")]
    uncached: Tokens,
    output: Tokens,
    usd: Dollars,
    /// The share saved compared with `marks` (breakpoints without compaction). It is empty for `marks`
    /// itself.
    saved: Option<f64>,
    hit_rate: Option<f64>,
    largest: Tokens,
    over_window: usize,
    compacted: Vec<CostCompaction>,
    #[serde(skip)]
    cost_strategy: CostStrategy,
    #[serde(skip)]
    replayed: Vec<ReplayedRequest>,
}

#[derive(Serialize)]
struct CostCompaction {
    request: usize,
    minute: f64,
    before: Tokens,
    after: Tokens,
    /// The turns that had to be repeated before the next compaction.
    forgotten: usize,
    /// The tokens that the repeated turns fetched again.
    fetched: Tokens,
    reason: String,
    #[serde(flatten)]
    decision: Option<PricedDecision>,
}

pub(crate) fn run(args: &CostArgs, environment: &Environment) -> Result<(), Failure> {
    if args.policy.engine.is_some() {
        return Err(Failure::InvalidInput("cost compares the engines with each other; leave --engine out".to_owned()));
    }
    let inputs = [Some(&args.body), args.pauses.as_ref(), args.input.store_flags.config.as_ref()];
    output::refuse_overwriting_inputs(args.output.file(), inputs.into_iter().flatten().map(PathBuf::as_path))?;
    let mut body = agent_session::read_request(args)?;
    let model = request_body::stated_model(&args.input, &body.parse(&args.input)?.0);
    let unseen = agent_session::add_unseen_text(&mut body, &model);
    let (transcript, notes) = body.parse(&args.input)?;
    let mut notes = request_body::parse_note_lines(&transcript, &notes);
    let asked_model = request_body::stated_model(&args.input, &transcript);
    let is_known = asked_model.row.is_some();
    let chosen_provider = provider_choice::choose_provider(args.caching.provider, &args.input, &transcript);
    let provider =
        chosen_provider.or_else(|| provider_choice::default_provider(transcript.api_format).filter(|_| !is_known));
    let model = provider_choice::choose_model(&args.input, &transcript, provider, &mut notes);
    let mut flags = args.policy.config_flags(&model.name);
    flags.extend(caching_config_flags(
        args.caching.ttl.or_else(|| agent_session::recorded_ttl(&body)),
        args.strategy.and_then(StrategyChoice::single),
    ));
    let settings = Settings::load(args.input.store_flags.config.as_deref(), environment, flags)?;
    let (policy, warnings) =
        Policy::new(&settings.engine, &model).map_err(|invalid| settings.invalid_value_failure(&invalid))?;
    notes.extend(settings.note_lines(&warnings));
    let Some(prices) = &policy.prices else {
        let name = &model.name;
        let cost = body
            .agent_session
            .as_ref()
            .and_then(|read| recorded_cost::sum_recorded_cost(&read.session, &settings.engine));
        let cost = cost.map_or(String::new(), |cost| format!("the session cost {}, as recorded; ", cost.usd));
        return Err(Failure::InvalidInput(format!(
            "{cost}no prices are known for {name}; name a model with --model, or state models.{name}.prices in the configuration"
        )));
    };
    let priced_as = PricedAs::new(&asked_model, &model, provider, prices);
    notes.extend(priced_as.iter().map(|p| format!("{} is priced as {}: {}", p.requested, p.row, p.reason)));
    let mode = CachingMode::new(&policy.caching, &policy.model, provider, transcript.api_format);
    let session = RecordedSession::new(&transcript, &policy.model, &mut BlockCache::default());
    let mut requests = session.requests();
    let agent_session = body.agent_session.as_ref().map(|read| &read.session);
    requests.truncate(agent_session.map_or(usize::MAX, agent_session::count_answered_requests));
    requests.truncate(args.requests.map_or(usize::MAX, |max| max as usize));
    if requests.is_empty() {
        return Err(Failure::InvalidInput(format!("{} contains no request that a model could answer", body.label)));
    }
    let (pauses, pause_source) = resolve_pauses(args, &requests, agent_session)?;
    let recorded =
        agent_session.map(|session| AgentSessionInfo { unseen, ..AgentSessionInfo::new(session, &settings.engine) });
    notes.extend(body.session_notes());
    let input = CostInput {
        config: &settings.engine,
        policy: &policy,
        replay: Replay {
            session: &session,
            requests: &requests,
            pauses: &pauses,
            rules: cache_rules(&mode, &policy),
            price: &prices.price,
            breakpoints: breakpoint_policy(&mode),
        },
    };
    let several = args.strategy == Some(StrategyChoice::All);
    let mut policies = input.replay_strategies(if several { &CacheStrategy::ALL } else { &[] })?;
    text_page::set_savings(&mut policies);
    let mut output = CostOutput {
        summary: Vec::new(),
        recorded,
        requests: requests.len(),
        policies,
        model: model.name.clone(),
        dialect: transcript.api_format,
        dialect_sure: transcript.is_api_format_certain,
        status: mode.status_line(&policy.model, provider),
        window: policy.window,
        threshold: policy.threshold,
        minutes: pauses.iter().skip(1).sum::<Duration>().as_secs_f64() / 60.0,
        pauses: pause_source,
        prices: prices.clone(),
        priced_as,
        notes: [notes, input.notes(&mode)].concat(),
    };
    output.summary = sentences::summary_sentences(&output);
    write_output(args, &output, &body.label)
}

/// Returns the cache rules. If caching is off, no prefix is ever cached.
fn cache_rules(mode: &CachingMode, policy: &Policy) -> CacheRules {
    match mode {
        CachingMode::Off(_) => CacheRules { ends: PrefixEnds::Nowhere, ..CacheRules::for_model(&policy.model) },
        _ => CacheRules::for_model(&policy.model),
    }
}

fn breakpoint_policy(mode: &CachingMode) -> Option<BreakpointPolicy> {
    match *mode {
        CachingMode::Breakpoints { carrier, strategy, ttl, .. } => Some(BreakpointPolicy { strategy, ttl, carrier }),
        _ => None,
    }
}

/// The longest pause that is accepted. After a year it is another session, and the limit keeps sums of pauses
/// from overflowing.
const MAX_PAUSE: Duration = Duration::from_hours(24 * 366);

/// Returns the pause before each request, and the source of the pauses.
fn resolve_pauses(
    args: &CostArgs,
    requests: &[RecordedRequest],
    session: Option<&longhaul_agents::AgentSession>,
) -> Result<(Vec<Duration>, PauseSource), Failure> {
    let recorded = session.and_then(|session| agent_session::recorded_pauses(session, requests.len()));
    let seconds = |typed: f64, place: &str| {
        let pause = Duration::try_from_secs_f64(typed).ok().filter(|pause| *pause <= MAX_PAUSE);
        let wrong = || format!("{place} is {typed}; a pause is a number of seconds, from 0 to a year");
        pause.ok_or_else(|| Failure::InvalidInput(wrong()))
    };
    let (pauses, name, seed) = match (&args.pauses, args.pause, recorded) {
        (Some(path), ..) => (read_pause_file(path, requests.len(), seconds)?, "recorded", None),
        (None, Some(typed), _) => (vec![seconds(typed, "--pause")?; requests.len()], "constant", None),
        (None, None, Some(recorded)) => (recorded, "recorded", None),
        (None, None, None) => (cost::simulate_pauses(requests, args.seed), "drawn", Some(args.seed)),
    };
    let over_five_minutes = pauses.iter().skip(1).filter(|pause| **pause > FIVE_MINUTES).count();
    Ok((pauses, PauseSource { name, seed, over_five_minutes }))
}

/// Reads a file of pauses in seconds, one per line, for every request but the first.
fn read_pause_file(
    path: &Path,
    requests: usize,
    seconds: impl Fn(f64, &str) -> Result<Duration, Failure>,
) -> Result<Vec<Duration>, Failure> {
    let shown = input::label(path);
    let text = input::read_text(path)?;
    let mut pauses = vec![Duration::ZERO];
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("line {} of {shown}", at + 1);
        let typed = line.trim().parse().map_err(|_| {
            Failure::InvalidInput(format!(
                "{place} is not a number; give the seconds before each request but the first"
            ))
        })?;
        pauses.push(seconds(typed, &place)?);
    }
    if pauses.len() < requests {
        let (there, wanted) = (pauses.len() - 1, requests - 1);
        return Err(Failure::InvalidInput(format!(
            "{shown} has {there} pauses, but {wanted} are needed: one before each request but the first"
        )));
    }
    pauses.truncate(requests);
    Ok(pauses)
}

/// A session to replay with every strategy.
struct CostInput<'a> {
    config: &'a Config,
    policy: &'a Policy,
    replay: Replay<'a, 'a, 'a>,
}

impl CostInput<'_> {
    /// Replays the session with every compaction strategy, each with all of the given cache strategies. If
    /// none is given, the configured one is used.
    fn replay_strategies(&self, cache_strategies: &[CacheStrategy]) -> Result<Vec<CostRow>, Failure> {
        let with_each_strategy = |breakpoints: BreakpointPolicy| {
            let policies =
                cache_strategies.iter().map(move |strategy| BreakpointPolicy { strategy: *strategy, ..breakpoints });
            policies.map(|policy| Replay { breakpoints: Some(policy), ..self.replay }).collect()
        };
        let mut replays: Vec<Replay<'_, '_, '_>> = self.replay.breakpoints.map_or_else(Vec::new, with_each_strategy);
        if replays.is_empty() {
            replays.push(self.replay);
        }
        let mut items = Vec::new();
        for (at, replay) in replays.iter().enumerate() {
            // Passthrough sets no breakpoints, so the cache strategies do not differ.
            let strategies = CostStrategy::ALL
                .into_iter()
                .filter(|cost_strategy| at == 0 || *cost_strategy != CostStrategy::Passthrough);
            for cost_strategy in strategies {
                let policy = cost_strategy
                    .policy(self.config, &self.policy.model)
                    .map_err(|invalid| Failure::InvalidInput(invalid.to_string()))?;
                items.push((replay, cost_strategy, policy));
            }
        }
        let mut progress = Progress::new(Some(items.len()), "policies");
        let mut rows = Vec::new();
        let work = |cache: &mut BlockCache,
                    (replay, cost_strategy, policy): (&Replay<'_, '_, '_>, CostStrategy, Policy)| {
            Ok(cost_row(cost_strategy, replay.breakpoints, &policy, replay.run(cost_strategy, &policy, cache)?))
        };
        let broken = parallel::map_in_order(items.into_iter(), work, |row: Result<CostRow, RewriteError>| {
            progress.step();
            match row {
                Ok(row) => rows.push(row),
                Err(refused) => return ControlFlow::Break(refused),
            }
            ControlFlow::Continue(())
        });
        match broken {
            ControlFlow::Break(refused) => {
                Err(Failure::System(format!("internal error, the session could not be replayed: {refused}")))
            }
            ControlFlow::Continue(()) => Ok(rows),
        }
    }

    /// Returns notes about assumptions behind the figures.
    fn notes(&self, mode: &CachingMode) -> Vec<String> {
        let mut notes = Vec::new();
        match mode {
            CachingMode::Off(reason) => {
                notes.push(format!("without a cache every policy pays for every token: {reason}"));
            }
            CachingMode::CacheKey | CachingMode::Automatic => {
                notes.push("the provider caches by itself, so breakpoints change nothing".to_owned());
            }
            CachingMode::Breakpoints { .. } => {}
        }
        if let Some(prices) = self.policy.prices.as_ref().filter(|prices| !prices.assumed.is_empty()) {
            let assumed: Vec<&str> = prices.assumed.iter().map(String::as_str).collect();
            notes.push(format!("some prices are assumed: {}", assumed.join(", ")));
        }
        if self.policy.model.is_assumed("window") {
            let window = self.policy.window;
            notes.push(format!("the window of {} is assumed to be {window} tokens", self.policy.model.name));
        }
        notes
    }
}

fn cost_row(
    cost_strategy: CostStrategy,
    breakpoints: Option<BreakpointPolicy>,
    policy: &Policy,
    turns: Vec<ReplayedRequest>,
) -> CostRow {
    let (usage, usd) = cost::sum_requests(&turns);
    let forgotten = || turns.iter().flat_map(|turn| &turn.refetched);
    let compacted = list_compactions(&turns);
    let window = policy.window;
    CostRow {
        name: cost_strategy.to_string(),
        cache_strategy: breakpoints
            .map(|breakpoints| breakpoints.strategy)
            .filter(|_| cost_strategy != CostStrategy::Passthrough),
        compactions: compacted.len(),
        forgotten: forgotten().count(),
        forgotten_usd: forgotten().fold(Dollars::ZERO, |sum, step| sum + step.bill.total()),
        cached: usage.read.unwrap_or_default(),
        written: usage.written.unwrap_or_default(),
        uncached: usage.uncached(),
        output: usage.output.unwrap_or_default(),
        usd,
        saved: None,
        hit_rate: usage.hit_rate(),
        largest: turns.iter().map(|turn| turn.tokens).max().unwrap_or_default(),
        over_window: turns.iter().filter(|turn| turn.tokens > window).count(),
        compacted,
        cost_strategy,
        replayed: turns,
    }
}

/// Lists the compactions of a replay, each with the turns that were repeated before the next one.
fn list_compactions(turns: &[ReplayedRequest]) -> Vec<CostCompaction> {
    let mut compactions: Vec<CostCompaction> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        compactions.extend(turn.compaction.as_ref().map(|done| CostCompaction {
            request: at + 1,
            minute: turn.at.as_secs_f64() / 60.0,
            before: done.before,
            after: done.after,
            forgotten: 0,
            fetched: Tokens::ZERO,
            reason: done.reason.clone(),
            decision: done.decision,
        }));
        if let Some(last) = compactions.last_mut() {
            last.forgotten += turn.refetched.len();
            last.fetched += turn.refetched.iter().map(|step| step.tokens).sum::<Tokens>();
        }
    }
    compactions
}

fn write_output(args: &CostArgs, output: &CostOutput, shown: &str) -> Result<(), Failure> {
    let is_page = |path: &&Path| path.extension().is_some_and(|e| e == "html" || e == "htm");
    let to = args.output.file();
    let page = to.filter(is_page);
    if let Some(path) = page {
        output::write(Some(path), html_page::render_html(output, &file_name(shown)).as_bytes())?;
    }
    let to = to.filter(|_| page.is_none());
    if args.output.json {
        return output::write_json(to, output);
    }
    output.notes.iter().for_each(|note| output::print_message(&format!("{shown}: {note}")));
    output::write_page(to, &text_page::page(output))
}

/// Returns the name of a request's file without its folders.
fn file_name(shown: &str) -> String {
    Path::new(shown).file_name().map_or_else(|| shown.to_owned(), |name| name.to_string_lossy().into_owned())
}
