//! Replays the session that ends with the given request, request by request: with cache breakpoints alone,
//! and with the active engine.

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{CacheRules, CachingMode, PrefixEnds};
use longhaul_engine::cost::{self, BreakpointPolicy, CostStrategy, RecordedSession, Replay};
use longhaul_server::pages::report::{SessionReplay, StrategyReplay};

use super::ReportInput;
use crate::provider_choice;

/// The largest session that is replayed for a page, in tokens. Chosen by hand: replaying a larger one would
/// take longer than the rest of the page.
const MAX_REPLAY_TOKENS: u64 = 2_000_000;

/// The seed of the simulated pauses. It is the default of `longhaul cost`, so that both commands replay the
/// same session.
const PAUSE_SEED: u64 = 1;

/// Replays the session for the chart, or returns the reason why there is no chart.
pub(super) fn replay_session(input: &ReportInput<'_>, cache: &mut BlockCache) -> Result<SessionReplay, String> {
    let (policy, transcript) = (input.policy, input.transcript);
    let Some(prices) = &policy.prices else {
        let name = &policy.model.name;
        return Err(format!(
            "No prices are known for {name}, so there is no chart; name a model with prices by --model."
        ));
    };
    let session = RecordedSession::new(transcript, &policy.model, cache);
    let requests = session.requests();
    let tokens = session.prefix_tokens.last().copied().unwrap_or_default();
    if tokens.number() > MAX_REPLAY_TOKENS {
        return Err(
            "The session is too long to be replayed for a page; longhaul cost -o cost.html replays it.".to_owned()
        );
    }
    if requests.len() < 2 {
        return Err("There is only one request, so there is no chart.".to_owned());
    }
    let provider = provider_choice::choose_provider(None, &input.args.input, transcript);
    let mode = CachingMode::new(&policy.caching, &policy.model, provider, transcript.api_format);
    let (rules, breakpoints) = match mode {
        CachingMode::Breakpoints { carrier, strategy, ttl, .. } => {
            (CacheRules::for_model(&policy.model), Some(BreakpointPolicy { strategy, ttl, carrier }))
        }
        CachingMode::Off(_) => (CacheRules { ends: PrefixEnds::Nowhere, ..CacheRules::for_model(&policy.model) }, None),
        CachingMode::CacheKey | CachingMode::Automatic => (CacheRules::for_model(&policy.model), None),
    };
    let pauses = cost::simulate_pauses(&requests, PAUSE_SEED);
    let replay =
        Replay { session: &session, requests: &requests, pauses: &pauses, rules, price: &prices.price, breakpoints };
    let share = policy.threshold.number() as f64 / policy.window.number().max(1) as f64;
    let engine = CostStrategy::for_engine(&policy.engine, share)
        .ok_or_else(|| format!("{} cannot be replayed, so there is no chart.", policy.engine))?;
    let mut strategies = Vec::new();
    for (cost_strategy, name) in
        [(CostStrategy::BreakpointsOnly, "without compaction".to_owned()), (engine, format!("with {engine}"))]
    {
        let strategy_policy = cost_strategy
            .policy(&input.settings.engine, &policy.model)
            .map_err(|invalid| format!("There is no chart: {invalid}."))?;
        let turns = replay
            .run(cost_strategy, &strategy_policy, cache)
            .map_err(|error| format!("There is no chart: {error}."))?;
        strategies.push(StrategyReplay { name, requests: turns });
    }
    let caption = "The session replayed request by request through a model of the provider's cache; the pauses between requests are simulated. \
                longhaul cost compares more policies.";
    Ok(SessionReplay { strategies, window: policy.window, threshold: policy.threshold, caption: caption.to_owned() })
}
