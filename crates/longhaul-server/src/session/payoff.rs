//! Decides whether a compaction that no trigger requires would pay.

use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::CompactionReport;
use longhaul_engine::prices::Dollars;
use longhaul_engine::schedule::{PriceBand, RequestEstimate, ScheduleInput, decide_compaction};

use super::LiveSession;
use super::prepare_summary::MIN_SUMMARY_TOKENS;
use super::prompt_cache::cache_lifetime;
use super::request_context::RequestContext;
use longhaul_engine::Timestamp;

/// The share of a request that a compaction must save if prices are not known. Chosen by hand.
const MIN_SAVING_WITHOUT_PRICES: f64 = 0.10;

impl LiveSession {
    /// Whether a compaction could pay, by the size that it is expected to leave: the fixed head, the tail and
    /// a checkpoint. It is much cheaper than a plan.
    pub(super) fn could_pay(&mut self, context: RequestContext<'_, '_>) -> bool {
        let (policy, tokens) = (&context.request.policy, context.size.count.tokens);
        let parts = Meter::for_model(&policy.model).breakdown(&mut self.block_cache, context.view);
        let fixed = parts.system + parts.tools;
        let rest = tokens - fixed;
        let tail = policy.for_early_compaction(tokens).tail.min(rest);
        let left_tokens = fixed + tail + policy.checkpoint.for_replaced(rest - tail);
        self.is_worth(context, RequestEstimate { tokens: left_tokens, warm: self.cached_part_of(fixed, context.now) })
    }

    /// Whether the compaction in this report pays.
    pub(super) fn pays(&self, context: RequestContext<'_, '_>, report: &CompactionReport) -> bool {
        let warm = self.cached_part_of(report.tokens.warm, context.now);
        self.is_worth(context, RequestEstimate { tokens: report.tokens.after, warm })
    }

    /// Estimates what the next compaction would save in the requests after it, at the size that triggers it. Returns
    /// `None` if prices are not known.
    pub(super) fn expected_saving(&self, context: RequestContext<'_, '_>) -> Option<Dollars> {
        let RequestContext { request, size, threshold, now, .. } = context;
        let prices = request.policy.prices.as_ref()?;
        let tokens = size.count.tokens.max(threshold);
        let rest = tokens - context.request_size.minimum_size.min(tokens);
        let tail = request.policy.tail.min(rest);
        // If money is short, the shortest summary is requested.
        let summary = request.policy.checkpoint.for_replaced(rest - tail).min(MIN_SUMMARY_TOKENS);
        let left = (tokens - rest) + tail + summary;
        let unchanged = RequestEstimate { tokens, warm: tokens };
        let pauses = self.state.prompt_cache.pauses(now);
        let input =
            self.schedule_input(context, unchanged, RequestEstimate { tokens: left, warm: Tokens::ZERO }, &pauses);
        let terms = decide_compaction(&self.price_band(context), &input, &prices.price).terms;
        Some(Dollars((terms.saved_per_turn.0 * terms.turns).max(0.0)))
    }

    /// Postpones the next calculation until the request has grown by a twentieth of the window. Returns the
    /// reason for the notice.
    pub(super) fn postpone_payoff_check(&mut self, context: RequestContext<'_, '_>) -> String {
        let tokens = context.size.measured.tokens;
        self.last_request.next_payoff_check = tokens + context.request.policy.window / 20;
        format!("a compaction at {tokens} tokens would not pay")
    }

    fn cached_part_of(&self, tokens: Tokens, now: Timestamp) -> Tokens {
        tokens.min(self.state.prompt_cache.cached_tokens(now))
    }

    fn is_worth(&self, context: RequestContext<'_, '_>, compacted: RequestEstimate) -> bool {
        let RequestContext { request, size, now, .. } = context;
        let tokens = size.count.tokens;
        let Some(prices) = &request.policy.prices else {
            return compacted.tokens <= tokens.share(1.0 - MIN_SAVING_WITHOUT_PRICES);
        };
        let unchanged = RequestEstimate { tokens, warm: self.cached_part_of(tokens, now) };
        let pauses = self.state.prompt_cache.pauses(now);
        let input = self.schedule_input(context, unchanged, compacted, &pauses);
        decide_compaction(&self.price_band(context), &input, &prices.price).decision.should_compact()
    }

    fn schedule_input<'p>(
        &self,
        context: RequestContext<'_, '_>,
        unchanged: RequestEstimate,
        compacted: RequestEstimate,
        pauses: &'p [Duration],
    ) -> ScheduleInput<'p> {
        let prompt_cache = &self.state.prompt_cache;
        ScheduleInput {
            unchanged,
            compacted,
            request_count: prompt_cache.request_count(),
            growth: prompt_cache.average_growth(),
            pauses,
            lifetime: cache_lifetime(&context.request.policy),
            summary: Dollars::ZERO,
        }
    }

    pub(super) fn price_band(&self, context: RequestContext<'_, '_>) -> PriceBand {
        let RequestContext { request, threshold, now, .. } = context;
        let cache_state = self.state.prompt_cache.cache_state(now);
        PriceBand::new(&request.policy, threshold, cache_state, self.state.last_compaction)
    }
}
