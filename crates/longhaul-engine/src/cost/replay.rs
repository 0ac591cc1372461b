//! Replays a session request by request: what each request would have read, written and cost with compactions
//! on the way.
//!
//! ```text
//! original   [ m0 m1 m2 m3 m4 m5 m6 m7 ]
//! view       [ m0 checkpoint m4 ] m5 m6 m7      the view grows until the next compaction
//! ```
//!
//! Between two compactions the sent request only grows, because a ledger replays the cuts. So a compaction is
//! planned on the last request that was sent, and every other request costs time only for its new messages.
//!
//! Forgetting has a price. If a reply uses a value or a line that its request lacks, the model could not have
//! given it. The agent then fetches the turn with that content again in an additional request, and every
//! later request carries it.
//!
//! ```text
//! view       [ m0 checkpoint m4 ] m5 m6 ( m2 m3 ) m7      m7 uses content of m3
//! ```

use std::time::Duration;

use super::recorded_session::{RecordedRequest, RecordedSession};
use super::request_view::RequestView;
use super::strategy::CostStrategy;
use crate::block_cache::BlockCache;
use crate::cache::{
    self, Breakpoint, BreakpointCarrier, BreakpointOptions, CacheRules, CacheUsage, SessionPace, SimulatedCache,
};
use crate::plan::{CompactOptions, CountFacts, Engine, Plan, PlanInput, StateReport, Trigger, minimum_size};
use crate::policy::{CacheStrategy, CacheTtl, Policy};
use crate::prices::{Bill, Dollars, TokenPrices, Usage};
use crate::schedule::{
    CacheState, LastCompaction, PriceBand, PricedDecision, RequestEstimate, ScheduleInput, decide_compaction,
};
use crate::wire::{self, CacheLifetime};
use crate::{RewriteError, Tokens};

/// A session with the times of its requests and the rules of its provider. Its replay simulates costs; that of a
/// ledger ([`Ledger::replay`](crate::ledger::Ledger::replay)) repeats decisions.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'r, 's, 'b> {
    /// The session to replay.
    pub session: &'r RecordedSession<'s, 'b>,
    /// The requests of the session, in order.
    pub requests: &'r [RecordedRequest],
    /// The pause before each request.
    pub pauses: &'r [Duration],
    /// The caching rules of the provider.
    pub rules: CacheRules,
    /// The prices of the model.
    pub price: &'r TokenPrices,
    /// How cache breakpoints are set; `None` if the provider takes none.
    pub breakpoints: Option<BreakpointPolicy>,
}

/// How cache breakpoints are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakpointPolicy {
    /// The strategy that chooses their positions.
    pub strategy: CacheStrategy,
    /// How long the marked prefixes stay cached.
    pub ttl: CacheTtl,
    /// The part of a Chat Completions request that carries a breakpoint.
    pub carrier: BreakpointCarrier,
}

/// One request of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedRequest {
    /// The time at which it was sent, counted from the first request.
    pub at: Duration,
    /// The tokens of the request.
    pub tokens: Tokens,
    /// The tokens that it read from the cache and wrote to it.
    pub cache_usage: CacheUsage,
    /// The tokens of the reply.
    pub output: Tokens,
    /// The price of this request alone.
    pub bill: Bill,
    /// The compaction directly before it.
    pub compaction: Option<ReplayedCompaction>,
    /// The turns that had to be fetched again before it, each with a request of its own.
    pub refetched: Vec<RefetchedTurn>,
}

impl ReplayedRequest {
    /// Returns the token usage of this request and of the refetches before it.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let own = self.cache_usage.usage(self.output);
        self.refetched.iter().fold(own, |sum, step| sum + step.cache_usage.usage(step.output))
    }

    /// Returns the price of this request and of the refetches before it.
    #[must_use]
    pub fn total_cost(&self) -> Dollars {
        self.refetched.iter().fold(self.bill.total(), |sum, step| sum + step.bill.total())
    }
}

/// A turn that an agent has to repeat, because a compaction removed its content.
#[derive(Debug, Clone, PartialEq)]
pub struct RefetchedTurn {
    /// The index of the turn in the session.
    pub turn: usize,
    /// The tokens that it adds to every later request.
    pub tokens: Tokens,
    /// The tokens that its request read from the cache and wrote to it.
    pub cache_usage: CacheUsage,
    /// The tokens that the model writes for it.
    pub output: Tokens,
    /// The price of its request.
    pub bill: Bill,
}

/// A compaction of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedCompaction {
    /// The tokens before the compaction.
    pub before: Tokens,
    /// The tokens after the compaction.
    pub after: Tokens,
    /// The reason for the compaction.
    pub reason: String,
    /// The priced decision, if the strategy compacts by price.
    pub decision: Option<PricedDecision>,
}

/// Adds up the token usage and the price of a replayed session.
#[must_use]
pub fn sum_requests(requests: &[ReplayedRequest]) -> (Usage, Dollars) {
    requests.iter().fold((Usage::default(), Dollars::ZERO), |(used, paid), request| {
        (used + request.usage(), paid + request.total_cost())
    })
}

impl Replay<'_, '_, '_> {
    /// Replays the session with one strategy.
    ///
    /// # Errors
    /// The edits of a compaction contradict each other, which would be an internal error.
    pub fn run(
        &self,
        strategy: CostStrategy,
        policy: &Policy,
        cache: &mut BlockCache,
    ) -> Result<Vec<ReplayedRequest>, RewriteError> {
        let mut run = ReplayRun {
            replay: self,
            strategy,
            policy,
            block_cache: cache,
            cache: SimulatedCache::new(self.rules),
            view: RequestView::empty(self.session),
            now: Duration::ZERO,
            ineffective_in_a_row: 0,
            last_compaction: None,
            min_tokens_to_retry: Tokens::ZERO,
        };
        (0..self.requests.len()).map(|index| run.replay_request(index)).collect()
    }

    fn pause(&self, index: usize) -> Duration {
        self.pauses.get(index).copied().unwrap_or_default()
    }
}

/// The state of a replay.
struct ReplayRun<'k, 'r, 's, 'b> {
    replay: &'k Replay<'r, 's, 'b>,
    strategy: CostStrategy,
    policy: &'k Policy,
    block_cache: &'k mut BlockCache,
    cache: SimulatedCache,
    view: RequestView,
    now: Duration,
    /// The number of compactions in a row that saved too little.
    ineffective_in_a_row: u32,
    last_compaction: Option<LastCompaction>,
    /// The size in tokens below which no compaction is tried.
    min_tokens_to_retry: Tokens,
}

/// The planned compaction of one request.
enum PlannedCompaction {
    /// The request is below its threshold, which a large minimum size has raised.
    NotTriggered,
    /// The threshold is reached, but no compaction makes the request smaller.
    NoReduction,
    /// The request after its compaction, and the reason for it.
    Ready(Box<RequestView>, String),
}

impl ReplayRun<'_, '_, '_, '_> {
    fn replay_request(&mut self, index: usize) -> Result<ReplayedRequest, RewriteError> {
        let sent = self.replay.requests[index];
        if index > 0 {
            self.now += self.replay.pause(index);
        }
        if sent.after_user_message {
            // The obstacle may be gone: a tool loop with bound reasoning ends when a person speaks.
            self.min_tokens_to_retry = Tokens::ZERO;
        }
        self.view.extend_to(self.replay.session, sent.pieces);
        let compaction = self.compact(index)?;
        let missing = self.view.turns_to_refetch(self.replay.session, index);
        let refetched = missing.into_iter().map(|turn| self.refetch(index, turn)).collect();
        let cache_usage = self.send(index);
        let bill = cache_usage.usage(sent.output).bill(self.replay.price);
        let tokens = self.view.total_tokens();
        Ok(ReplayedRequest { at: self.now, tokens, cache_usage, output: sent.output, bill, compaction, refetched })
    }

    fn send(&mut self, index: usize) -> CacheUsage {
        let breakpoints = self.place_breakpoints(&self.view, index);
        self.cache.send(self.now, &self.view.cache_request(&breakpoints))
    }

    /// Repeats a turn: sends the request as it is, and appends the reply with its call and the result.
    fn refetch(&mut self, index: usize, turn: usize) -> RefetchedTurn {
        let cache_usage = self.send(index);
        let before = self.view.total_tokens();
        let output = self.view.refetch(self.replay.session, turn);
        let bill = cache_usage.usage(output).bill(self.replay.price);
        RefetchedTurn { turn, tokens: self.view.total_tokens() - before, cache_usage, output, bill }
    }

    /// Compacts if the strategy requires it.
    fn compact(&mut self, index: usize) -> Result<Option<ReplayedCompaction>, RewriteError> {
        let before = self.view.total_tokens();
        let Some(engine) = self.strategy.engine() else { return Ok(None) };
        let is_priced = self.strategy == CostStrategy::Scheduler;
        let threshold = if is_priced { self.band(index).comfortable } else { engine.base_threshold(self.policy) };
        if before < threshold.max(self.min_tokens_to_retry) {
            return Ok(None);
        }
        if is_priced && !self.price_decision(index, self.estimate_compacted()).decision.should_compact() {
            return Ok(None);
        }
        let (view, reason) = match self.plan_compaction(engine)? {
            PlannedCompaction::Ready(view, reason) => (view, reason),
            PlannedCompaction::NotTriggered => return Ok(None),
            PlannedCompaction::NoReduction => {
                self.record_attempt(before, before);
                return Ok(None);
            }
        };
        let priced = is_priced.then(|| {
            let after = RequestEstimate { tokens: view.total_tokens(), warm: self.cached_tokens(&view, index) };
            self.price_decision(index, after)
        });
        if priced.is_some_and(|priced| !priced.decision.should_compact()) {
            self.delay_next_attempt(before);
            return Ok(None);
        }
        self.view = *view;
        let after = self.view.total_tokens();
        self.last_compaction = Some(LastCompaction { left: after, removed: before - after });
        self.record_attempt(before, after);
        Ok(Some(ReplayedCompaction { before, after, reason, decision: priced }))
    }

    /// Records an attempt. After two ineffective ones in a row, the next attempt is delayed.
    fn record_attempt(&mut self, before: Tokens, after: Tokens) {
        let saved = 1.0 - after.number() as f64 / before.number().max(1) as f64;
        self.ineffective_in_a_row = StateReport::after(self.ineffective_in_a_row, saved).ineffective_in_a_row;
        if self.ineffective_in_a_row >= 2 {
            self.delay_next_attempt(after);
        }
    }

    /// Delays the next attempt until the request has grown by a twentieth of the window.
    fn delay_next_attempt(&mut self, size: Tokens) {
        self.min_tokens_to_retry = size + self.policy.window / 20;
    }

    /// Plans a compaction of the current request.
    fn plan_compaction(&mut self, engine: &dyn Engine) -> Result<PlannedCompaction, RewriteError> {
        let session = self.replay.session;
        let body = self.view.body(session)?;
        let (transcript, _) = wire::parse(session.transcript.api_format, &body)?;
        let is_priced = self.strategy == CostStrategy::Scheduler;
        let minimum = minimum_size(self.policy, self.block_cache, &transcript);
        let reply = self.policy.reply_reserve(transcript.max_reply_tokens);
        let threshold = self.policy.threshold_for(engine.base_threshold(self.policy), minimum, reply);
        if !is_priced && self.view.total_tokens() < threshold {
            return Ok(PlannedCompaction::NotTriggered);
        }
        let options = CompactOptions {
            trigger: Trigger::Preflight,
            force: is_priced,
            count_facts: CountFacts::No,
            ..CompactOptions::default()
        };
        let early = self.policy.for_early_compaction(self.view.total_tokens());
        let policy = if is_priced { &early } else { self.policy };
        let input = PlanInput { policy, options: &options, cache: self.block_cache, transcript: &transcript };
        let Plan::Ready(outcome) = engine.compact(input)? else { return Ok(PlannedCompaction::NoReduction) };
        let view = self.view.after_compaction(outcome.body, session, &self.policy.model, self.block_cache)?;
        Ok(PlannedCompaction::Ready(Box::new(view), outcome.report.reason))
    }

    fn band(&self, index: usize) -> PriceBand {
        let is_cached = self.cached_tokens(&self.view, index) > Tokens::ZERO;
        let cache = if is_cached || index == 0 { CacheState::MayBeCached } else { CacheState::Expired };
        PriceBand::new(self.policy, self.policy.threshold, cache, self.last_compaction)
    }

    fn price_decision(&self, index: usize, compacted: RequestEstimate) -> PricedDecision {
        let unchanged =
            RequestEstimate { tokens: self.view.total_tokens(), warm: self.cached_tokens(&self.view, index) };
        let session = self.replay.session;
        let sent = self.replay.requests[index].pieces;
        let since = self.replay.requests[index.saturating_sub(GROWTH_REQUESTS)].pieces;
        let growth = (session.tokens_of_first(sent) - session.tokens_of_first(since)).number()
            / index.clamp(1, GROWTH_REQUESTS) as u64;
        let input = ScheduleInput {
            unchanged,
            compacted,
            request_count: index,
            growth: Tokens(growth),
            pauses: self.replay.pauses.get(1..=index).unwrap_or_default(),
            lifetime: self.lifetime(index),
            summary: Dollars::ZERO,
        };
        decide_compaction(&self.band(index), &input, self.replay.price)
    }

    /// Estimates the result of a compaction before it is planned: the tools and the system prompt, the tail
    /// and a checkpoint.
    fn estimate_compacted(&self) -> RequestEstimate {
        let head = self.view.preamble_tokens();
        let rest = self.view.total_tokens() - head;
        let tail = self.policy.for_early_compaction(self.view.total_tokens()).tail.min(rest);
        let checkpoint = self.policy.checkpoint.for_replaced(rest - tail);
        let warm = if self.cache.has_live_entry(self.now, &self.view.chain) { head } else { Tokens::ZERO };
        RequestEstimate { tokens: head + tail + checkpoint, warm }
    }

    fn cached_tokens(&self, view: &RequestView, index: usize) -> Tokens {
        self.cache.cached_tokens(self.now, &view.cache_request(&self.place_breakpoints(view, index)))
    }

    fn place_breakpoints(&self, view: &RequestView, index: usize) -> Vec<Breakpoint> {
        let Some(BreakpointPolicy { strategy, carrier, .. }) =
            self.replay.breakpoints.filter(|_| self.strategy != CostStrategy::Passthrough)
        else {
            return Vec::new();
        };
        let first = view.prefix_tokens.iter().position(|size| *size >= self.replay.rules.min_prefix);
        let options = BreakpointOptions { strategy, lifetime: self.lifetime(index), carrier, first_cacheable: first };
        cache::place_breakpoints(&view.stable_pieces, &view.prompt_order, &options)
    }

    fn lifetime(&self, index: usize) -> CacheLifetime {
        match self.replay.breakpoints.map(|policy| policy.ttl) {
            None | Some(CacheTtl::FiveMinutes) => CacheLifetime::FiveMinutes,
            Some(CacheTtl::OneHour) => CacheLifetime::OneHour,
            Some(CacheTtl::Auto) => {
                let pauses = self.replay.pauses.get(1..index).unwrap_or_default();
                let prefix = self.view.total_tokens();
                let added = Tokens(prefix.number() / (index as u64 + 1));
                cache::choose_lifetime(&SessionPace { pauses, prefix, added_per_request: added }, self.replay.price)
                    .lifetime
            }
        }
    }
}

/// The number of requests over which the growth per request is averaged. Chosen by hand.
const GROWTH_REQUESTS: usize = 20;
