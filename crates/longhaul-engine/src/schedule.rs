//! Decides by price whether to compact now, for sizes at which a compaction is useful but not yet necessary.
//!
//! ```text
//! 0 ──────── comfortable ═══════ the band ═══════ threshold ────────▶ tokens
//!   leave                 the cheaper option            compact
//! ```
//!
//! A compaction has a price: its result has to be written to the cache, and some of the removed content will
//! be fetched again, with an additional request for each turn. It also has a yield: every later request is
//! smaller. The price is paid now and the yield comes request by request, so the number of requests matters.
//! They are counted until the first of three events: the session ends, the next compaction would come anyway,
//! or the cache expires, after which compacting would have cost nothing.
//!
//! The session ends: a session that has lasted for n requests is expected to last for n more; nothing else is
//! known about it.
//!
//! The next compaction starts: if a compaction costs `C`, a request adds `g` tokens, and carrying a token
//! costs `h` per request, then compacting every n requests costs `C/n + h·g·n/2` per request. The minimum is
//! at n = √(2C/hg). In such a cycle the first token that is added is carried to the end of the cycle and the
//! last one hardly at all, so a compaction yields for half a cycle.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Tokens;
use crate::cache::{FIVE_MINUTES, ONE_HOUR, recent_pauses};
use crate::policy::Policy;
use crate::prices::{Dollars, TokenPrices, cost_of};
use crate::wire::CacheLifetime;

/// The share of the window below which no compaction is made to save money, unless the cache has expired.
/// With gpt-4o, thirteen compactions in 46 requests at 26 to 34 % of the window left only six to nine
/// messages each time.
const MIN_EARLY_WINDOW_SHARE: f64 = 0.40;
/// The share of the last compaction's removed tokens by which a session has to grow before it is compacted to
/// save money again. Chosen by hand.
const MIN_REGROWTH_SHARE: f64 = 1.0 / 3.0;
/// The number of turns that an agent fetches again after a compaction, divided by √m, where m is the number
/// of requests that add as many tokens as the compaction removed. Most content that is needed again is needed
/// soon and is among the newest that was removed, so four times the tokens cost twice the turns. Fitted by
/// `bench/cost/fit.py` on one half of the sessions and tested on the other, like [`REFETCH_SIZE_FACTOR`].
const REFETCHES_PER_SQRT_TURN: f64 = 0.66;
/// The tokens of a turn that is fetched again, divided by the average growth per request: such turns are
/// larger than most. Fitted by `bench/cost/fit.py`.
const REFETCH_SIZE_FACTOR: f64 = 1.7;
/// The share of the removed tokens that is charged at the price of a cache write, in addition to the turns
/// that are fetched again. It covers knowledge that an agent used without quoting it, which no recorded
/// session shows. Chosen by hand, not fitted.
const LOST_KNOWLEDGE_SHARE: f64 = 0.25;
/// The probability that the cache expires in a pause before any pause was seen, and the number of pauses that
/// this assumption counts for. Chosen by hand.
const EXPIRY_PRIOR: (f64, f64) = (0.05, 10.0);

/// The size of a request that could be sent, and how much of it is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RequestEstimate {
    /// The tokens of the whole request.
    pub tokens: Tokens,
    /// The tokens of it that are cached when it is sent; zero once the cache has expired.
    pub warm: Tokens,
}

/// The facts from which the decision about a request is made.
#[derive(Debug, Clone, Copy)]
pub struct ScheduleInput<'s> {
    /// The request without a compaction.
    pub unchanged: RequestEstimate,
    /// The request after a compaction.
    pub compacted: RequestEstimate,
    /// The number of requests of the session so far.
    pub request_count: usize,
    /// The average number of tokens that a request adds.
    pub growth: Tokens,
    /// The pauses before the session's requests, newest last.
    pub pauses: &'s [Duration],
    /// How long a prefix stays cached.
    pub lifetime: CacheLifetime,
    /// The price of a summary by a model; zero for one that code writes.
    pub summary: Dollars,
}

/// The sizes of a session's last compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LastCompaction {
    /// The tokens after the compaction.
    pub left: Tokens,
    /// The tokens that the compaction removed.
    pub removed: Tokens,
}

/// Whether a part of a session may still be in the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    /// A part of it may be cached.
    MayBeCached,
    /// The cache has expired, so the whole request has to be written to it again anyway.
    Expired,
}

/// The range of sizes in which the price decides about a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriceBand {
    /// The size below which nothing is compacted.
    pub comfortable: Tokens,
    /// The size from which on every request is compacted: the user's threshold.
    pub necessary: Tokens,
}

impl PriceBand {
    /// Returns the range for a session with this threshold. A request counts as comfortable below the size
    /// that a compaction aims at, below 40 % of the window unless the cache has expired, and until the
    /// session has grown by a third of what its last compaction removed.
    #[must_use]
    pub fn new(policy: &Policy, threshold: Tokens, cache: CacheState, last: Option<LastCompaction>) -> Self {
        let lowest = match cache {
            CacheState::MayBeCached => policy.window.share(MIN_EARLY_WINDOW_SHARE),
            CacheState::Expired => Tokens::ZERO,
        };
        let regrown = last.map_or(Tokens::ZERO, |last| last.left + last.removed.share(MIN_REGROWTH_SHARE));
        Self { comfortable: policy.prune_goal.max(lowest).max(regrown), necessary: threshold }
    }
}

/// A decision with the figures that led to it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PricedDecision {
    /// The decision.
    pub decision: Decision,
    /// The figures that the decision is based on.
    pub terms: CostTerms,
}

/// The decision about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Do not compact: the request is small.
    Comfortable,
    /// Do not compact: it would cost more than it saves.
    DoesNotPay,
    /// Compact: it saves more than it costs.
    Pays,
    /// Compact: the request has reached the threshold.
    Necessary,
}

impl Decision {
    /// Whether the decision is to compact.
    #[must_use]
    pub fn should_compact(self) -> bool {
        matches!(self, Self::Pays | Self::Necessary)
    }
}

/// The figures of a decision. All prices compare compacting with not compacting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostTerms {
    /// The tokens that would have to be written to the cache.
    pub cold: Tokens,
    /// The additional price of this request; negative if the cache has expired and everything is written
    /// anyway.
    pub now: Dollars,
    /// The price of the summary.
    pub summary: Dollars,
    /// The expected number of turns that have to be fetched again, because their content is removed but
    /// needed.
    pub forgotten: f64,
    /// The price of those turns, and of other knowledge that is lost.
    pub lost: Dollars,
    /// The savings of each later request.
    pub saved_per_turn: Dollars,
    /// The number of later requests that the savings are counted for.
    pub turns: f64,
    /// The event that ends those requests.
    pub until: PayoffEnd,
    /// The probability that the cache expires before the next request.
    pub lapse: f64,
    /// The total gain: all savings minus all prices.
    pub gain: Dollars,
}

/// The event that ends the savings of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PayoffEnd {
    /// The session is expected to end.
    End,
    /// The next compaction is expected.
    NextCompaction,
    /// The cache is expected to expire.
    Lapse,
}

/// Decides whether to compact now.
#[must_use]
pub fn decide_compaction(band: &PriceBand, input: &ScheduleInput<'_>, price: &TokenPrices) -> PricedDecision {
    let terms = compute_terms(input, price);
    let tokens = input.unchanged.tokens;
    let decision = if tokens >= band.necessary {
        Decision::Necessary
    } else if tokens < band.comfortable {
        Decision::Comfortable
    } else if terms.gain > Dollars::ZERO {
        Decision::Pays
    } else {
        Decision::DoesNotPay
    };
    PricedDecision { decision, terms }
}

fn compute_terms(input: &ScheduleInput<'_>, price: &TokenPrices) -> CostTerms {
    let ScheduleInput { unchanged: leave, compacted: compact, lifetime, summary, .. } = *input;
    let lapse = expiry_probability(input.pauses, lifetime);
    let once = |sent: RequestEstimate| {
        let price = price.for_request(sent.tokens);
        cost_of(sent.warm, price.read) + cost_of(sent.tokens - sent.warm, price.cache_write(lifetime))
    };
    let carried = |tokens: Tokens| {
        let price = price.for_request(tokens);
        cost_of(tokens, (1.0 - lapse) * price.read + lapse * price.cache_write(lifetime))
    };
    let now = once(compact) - once(leave);
    let forgotten = expected_refetches(leave.tokens - compact.tokens, input.growth);
    // Each refetch is an additional request, which reads the compacted history and writes the content that it
    // fetches.
    let brings = cost_of(input.growth, REFETCH_SIZE_FACTOR * price.cache_write(lifetime));
    let step = cost_of(compact.tokens, price.for_request(compact.tokens).read) + brings;
    let unseen = cost_of(leave.tokens - compact.tokens, LOST_KNOWLEDGE_SHARE * price.cache_write(lifetime));
    let lost = Dollars(forgotten * step.0) + unseen;
    let saved_per_turn = carried(leave.tokens) - carried(compact.tokens);
    // The price of the next compaction with a valid cache: everything that is not cached now has to be
    // written.
    let cold = compact.tokens - compact.warm;
    let price_of_next = Dollars(cost_of(cold, price.cache_write(lifetime) - price.read).0.max(0.0)) + summary + lost;
    let added_per_turn = carried(input.growth).0.max(f64::MIN_POSITIVE);
    let half_a_cycle = (2.0 * price_of_next.0 / added_per_turn).sqrt() / 2.0;
    let events = [
        (input.request_count as f64, PayoffEnd::End),
        (half_a_cycle, PayoffEnd::NextCompaction),
        (1.0 / lapse, PayoffEnd::Lapse),
    ];
    let (turns, until) = events
        .into_iter()
        .fold((f64::INFINITY, PayoffEnd::End), |first, event| if event.0 < first.0 { event } else { first });
    let gain = Dollars(saved_per_turn.0 * turns) - now - summary - lost;
    CostTerms { cold, now, summary, forgotten, lost, saved_per_turn, turns, until, lapse, gain }
}

/// Returns the expected number of turns that are fetched again after a removal, in a session that grows by
/// `growth` tokens per request.
fn expected_refetches(removed: Tokens, growth: Tokens) -> f64 {
    REFETCHES_PER_SQRT_TURN * (removed.number() as f64 / growth.number().max(1) as f64).sqrt()
}

/// Returns the share of recent pauses that are longer than the cache lifetime.
fn expiry_probability(pauses: &[Duration], lifetime: CacheLifetime) -> f64 {
    let lives = match lifetime {
        CacheLifetime::FiveMinutes => FIVE_MINUTES,
        CacheLifetime::OneHour => ONE_HOUR,
    };
    let recent = recent_pauses(pauses);
    let lapsed = recent.iter().filter(|pause| **pause > lives).count() as f64;
    let (chance, weight) = EXPIRY_PRIOR;
    (lapsed + chance * weight) / (recent.len() as f64 + weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAND: PriceBand = PriceBand { comfortable: Tokens(25_000), necessary: Tokens(50_000) };

    const QUICK: [Duration; 100] = [Duration::from_secs(8); 100];

    /// Returns a session in a tool loop with a valid cache, halfway through the range in which the price
    /// decides.
    fn input() -> ScheduleInput<'static> {
        ScheduleInput {
            unchanged: RequestEstimate { tokens: Tokens(40_000), warm: Tokens(39_000) },
            compacted: RequestEstimate { tokens: Tokens(15_000), warm: Tokens(5_000) },
            request_count: 100,
            growth: Tokens(500),
            pauses: &QUICK,
            lifetime: CacheLifetime::FiveMinutes,
            summary: Dollars::ZERO,
        }
    }

    fn decide_for(input: ScheduleInput<'_>) -> PricedDecision {
        let price = crate::prices::find("claude-sonnet-4-5").unwrap().price;
        decide_compaction(&BAND, &input, &price)
    }

    #[test]
    fn the_band_has_a_lower_end_and_the_threshold_is_a_hard_rule() {
        let at = |tokens| RequestEstimate { tokens: Tokens(tokens), warm: Tokens::ZERO };
        assert_eq!(decide_for(ScheduleInput { unchanged: at(24_999), ..input() }).decision, Decision::Comfortable);
        let dear = ScheduleInput { unchanged: at(50_000), summary: Dollars(10.0), ..input() };
        let decision = decide_for(dear);
        assert_eq!((decision.decision, decision.terms.gain < Dollars::ZERO), (Decision::Necessary, true));
    }

    #[test]
    fn nothing_is_compacted_for_money_below_two_fifths_of_the_window_or_before_it_has_regrown() {
        let policy = Policy::new(&crate::policy::Config::default(), &crate::models::find("gpt-4o")).unwrap().0;
        let lowest = |cache, last| PriceBand::new(&policy, policy.threshold, cache, last).comfortable;
        assert_eq!(policy.window, Tokens(128_000));
        assert_eq!(lowest(CacheState::MayBeCached, None), Tokens(51_200));
        assert_eq!(lowest(CacheState::Expired, None), policy.prune_goal);
        let last = LastCompaction { left: Tokens(40_000), removed: Tokens(60_000) };
        assert_eq!(lowest(CacheState::MayBeCached, Some(last)), Tokens(60_000));
        assert_eq!(lowest(CacheState::Expired, Some(last)), Tokens(60_000));
    }

    #[test]
    fn inside_the_band_the_price_decides() {
        let cold = |prospect: RequestEstimate| RequestEstimate { warm: Tokens::ZERO, ..prospect };
        let usual = input();
        let lapsed = ScheduleInput { unchanged: cold(usual.unchanged), compacted: cold(usual.compacted), ..usual };
        let little = RequestEstimate { tokens: Tokens(38_000), warm: Tokens(5_000) };
        let cases = [
            ("half of it can go, and many turns are to come", usual, Decision::Pays),
            ("the session has hardly begun", ScheduleInput { request_count: 3, ..usual }, Decision::DoesNotPay),
            (
                "but the cache has lapsed: all is written anew anyway",
                ScheduleInput { request_count: 0, ..lapsed },
                Decision::Pays,
            ),
            ("hardly anything can go", ScheduleInput { compacted: little, ..usual }, Decision::DoesNotPay),
            (
                "a model's summary costs more than it saves",
                ScheduleInput { summary: Dollars(0.5), ..usual },
                Decision::DoesNotPay,
            ),
        ];
        for (case, input, wanted) in cases {
            let decision = decide_for(input);
            assert_eq!(decision.decision, wanted, "{case}: {:?}", decision.terms);
        }
        let free = decide_for(lapsed).terms;
        assert!(free.now < Dollars::ZERO, "a lapsed cache makes compacting cheaper than leaving");
    }

    #[test]
    fn an_expected_expiry_ends_the_turns_that_count() {
        let mut pauses = [Duration::from_secs(30); 40];
        pauses.iter_mut().step_by(4).for_each(|pause| *pause = Duration::from_mins(20));
        let terms = decide_for(ScheduleInput { pauses: &pauses, ..input() }).terms;
        assert_eq!(terms.until, PayoffEnd::Lapse);
        assert!(terms.turns < 6.0, "one pause in four outlasts the cache: {terms:?}");
        let hour = decide_for(ScheduleInput { pauses: &pauses, lifetime: CacheLifetime::OneHour, ..input() }).terms;
        assert!(hour.lapse < 0.02, "an hour outlasts them all: {hour:?}");
    }

    #[test]
    fn refetches_grow_slower_than_removed_tokens_and_are_part_of_the_price() {
        let steps = |removed| expected_refetches(Tokens(removed), Tokens(500));
        assert!((steps(40_000) - 2.0 * steps(10_000)).abs() < 1e-12);
        assert!(steps(0) < 1e-12 && expected_refetches(Tokens(9), Tokens::ZERO).is_finite());
        let CostTerms { forgotten, lost, .. } = decide_for(input()).terms;
        // 15,000 tokens read and 850 written for each, and a quarter of 25,000, at 0.30 and 3.75 dollars a million.
        let wanted = forgotten * (0.0045 + 0.003_187_5) + 0.25 * 0.025 * 3.75;
        assert!((lost.0 - wanted).abs() < 1e-9, "{lost:?} for {forgotten}");
    }

    #[test]
    fn a_terms_sum_is_its_gain() {
        let CostTerms { now, summary, lost, saved_per_turn, turns, gain, .. } = decide_for(input()).terms;
        let sum = saved_per_turn.0 * turns - now.0 - summary.0 - lost.0;
        assert!((sum - gain.0).abs() < 1e-12);
    }
}
