//! Whether to compact now: a priced decision inside the band between comfortable and necessary.
//!
//! ```text
//! 0 ──────── comfortable ═══════ the band ═══════ threshold ────────▶ tokens
//!   leave              what costs less in the end            compact
//! ```
//!
//! A compaction has a price: what it leaves is written into the cache anew, and some of what it removes is needed and will be
//! fetched again, with a request more for each step of it. It has a yield: every later turn carries less. The price is paid now and
//! the yield comes turn by turn, so what matters is for how many turns it comes. They are counted up to the first of three
//! events: the session ends, the next compaction is due anyway, or the cache lapses, after which compacting would have cost nothing.
//!
//! *The session ends.* A session that has lasted for n turns is expected to last for n more: nothing else is known of it.
//!
//! *The next compaction is due.* If a compaction costs `C`, a turn adds `g` tokens and carrying a token costs `h` a turn, then
//! compacting every n turns costs `C/n + h·g·n/2` a turn. That is least for n = √(2C/hg), and at that n the token that was
//! added last was carried for its whole cycle and the first for none, so a compaction yields for half a cycle.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Tokens;
use crate::cache::{FIVE_MINUTES, ONE_HOUR};
use crate::policy::Policy;
use crate::prices::{Dollars, Price, times};
use crate::wire::Lifetime;

/// A request as it could be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Prospect {
    /// All of it.
    pub tokens: Tokens,
    /// What the cache holds of it when it is sent; nothing once it has lapsed.
    pub warm: Tokens,
}

/// What is known when a request is about to be sent.
#[derive(Debug, Clone, Copy)]
pub struct Outlook<'s> {
    /// The request as it is.
    pub leave: Prospect,
    /// The request after a compaction.
    pub compact: Prospect,
    /// How many requests the session had.
    pub turns: usize,
    /// What a turn adds.
    pub growth: Tokens,
    /// The pauses before its requests, newest last.
    pub pauses: &'s [Duration],
    /// How long a prefix is kept.
    pub lifetime: Lifetime,
    /// What a model's summary would cost; nothing for one made by code.
    pub summary: Dollars,
}

/// Below this share of the window nothing is compacted for money, unless the cache has expired: with gpt-4o, thirteen compactions in
/// 46 requests at 26 to 34 % of the window left six to nine messages each time.
const LOWEST_EARLY_SHARE: f64 = 0.40;

/// A session has to grow by this share of what its last compaction removed before it is compacted for money again.
const REGROWN_SHARE: f64 = 1.0 / 3.0;

/// What the last compaction of a session did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LastCompaction {
    /// The tokens that it left.
    pub left: Tokens,
    /// The tokens that it removed.
    pub removed: Tokens,
}

/// Whether the provider still has anything of a session in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    /// It may have.
    Kept,
    /// What was cached has expired, so that all of the request is billed anew anyway.
    Expired,
}

/// The sizes between which a compaction is a matter of price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// Below it nothing is compacted.
    pub comfortable: Tokens,
    /// From it on everything is: the threshold that the user set.
    pub necessary: Tokens,
}

impl Band {
    /// The band of a session below this threshold. A request is comfortable below the size that a compaction would be content
    /// with, below 40 % of the window unless the cache has expired, and until the session has grown by a third of what its last
    /// compaction removed.
    #[must_use]
    pub fn new(policy: &Policy, threshold: Tokens, cache: CacheState, last: Option<LastCompaction>) -> Self {
        let lowest = match cache {
            CacheState::Kept => policy.window.share(LOWEST_EARLY_SHARE),
            CacheState::Expired => Tokens::ZERO,
        };
        let regrown = last.map_or(Tokens::ZERO, |last| last.left + last.removed.share(REGROWN_SHARE));
        Self { comfortable: policy.goal.max(lowest).max(regrown), necessary: threshold }
    }
}

/// What was decided, and why.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Verdict {
    /// What to do.
    pub decision: Decision,
    /// What the decision rests on.
    pub terms: Terms,
}

/// What to do with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Leave it: it is small.
    Comfortable,
    /// Leave it: compacting costs more than it saves.
    DoesNotPay,
    /// Compact it: that costs less in the end.
    Pays,
    /// Compact it: it has reached the threshold.
    Necessary,
}

impl Decision {
    /// Whether to compact.
    #[must_use]
    pub fn compacts(self) -> bool {
        matches!(self, Self::Pays | Self::Necessary)
    }
}

/// The terms of a decision. All money is what compacting costs more or saves against leaving.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Terms {
    /// Tokens that would be written anew.
    pub cold: Tokens,
    /// What this request would cost more; negative where the cache has lapsed and all of it is written anyway.
    pub now: Dollars,
    /// What the summary would cost.
    pub summary: Dollars,
    /// How many steps will have to be taken again, because what they brought is removed and needed,
    pub forgotten: f64,
    /// and what they would cost, with what else is forgotten.
    pub lost: Dollars,
    /// What each later turn would cost less.
    pub saved_per_turn: Dollars,
    /// For how many turns that counts,
    pub turns: f64,
    /// and which of three events ends them.
    pub until: Until,
    /// The chance that the cache lapses before the next request.
    pub lapse: f64,
    /// What is gained in all.
    pub gain: Dollars,
}

/// What ends the turns over which a compaction yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// The session is expected to end.
    End,
    /// The next compaction is due.
    NextCompaction,
    /// The cache is expected to lapse.
    Lapse,
}

/// After a compaction that removed as many tokens as m turns add, an agent fetches so many times √m steps again before the next:
/// what is needed again is mostly needed soon and from the newest that went, so four times the tokens cost twice the steps. Fitted
/// by `bench/cost/fit.py` on one half of the sessions and judged on the other, as is the next.
const FORGOTTEN: f64 = 0.66;

/// A step that is fetched again brings so many times what a turn adds: what is needed again is larger than most.
const FETCHED: f64 = 1.7;

/// The share of the removed tokens that is charged at the price of writing them anew, beside the steps that are taken again: what
/// an agent knew without quoting it is lost too, and no record of sessions shows that. It is a judgement, not a fit.
const FORGOTTEN_SHARE: f64 = 0.25;

/// Before any pause was seen, the cache is taken to lapse in one of twenty, with the weight of so many pauses.
const LAPSE_AT_FIRST: (f64, f64) = (0.05, 10.0);

/// Older pauses belong to another phase of the work.
const RECENT_PAUSES: usize = 50;

/// Whether to compact now.
#[must_use]
pub fn decide(band: &Band, outlook: &Outlook<'_>, price: &Price) -> Verdict {
    let terms = terms(outlook, price);
    let tokens = outlook.leave.tokens;
    let decision = if tokens >= band.necessary {
        Decision::Necessary
    } else if tokens < band.comfortable {
        Decision::Comfortable
    } else if terms.gain > Dollars::ZERO {
        Decision::Pays
    } else {
        Decision::DoesNotPay
    };
    Verdict { decision, terms }
}

fn terms(outlook: &Outlook<'_>, price: &Price) -> Terms {
    let Outlook { leave, compact, lifetime, summary, .. } = *outlook;
    let lapse = chance_of_lapse(outlook.pauses, lifetime);
    let once = |sent: Prospect| {
        let price = price.at(sent.tokens);
        times(sent.warm, price.read) + times(sent.tokens - sent.warm, price.write(lifetime))
    };
    let carried = |tokens: Tokens| {
        let price = price.at(tokens);
        times(tokens, (1.0 - lapse) * price.read + lapse * price.write(lifetime))
    };
    let now = once(compact) - once(leave);
    let forgotten = forgotten(leave.tokens - compact.tokens, outlook.growth);
    // Each is a request more, which reads what the compaction left and writes what it brings.
    let brings = times(outlook.growth, FETCHED * price.write(lifetime));
    let step = times(compact.tokens, price.at(compact.tokens).read) + brings;
    let unseen = times(leave.tokens - compact.tokens, FORGOTTEN_SHARE * price.write(lifetime));
    let lost = Dollars(forgotten * step.0) + unseen;
    let saved_per_turn = carried(leave.tokens) - carried(compact.tokens);
    // What the next compaction will cost, while the cache is warm: all but what is warm now is written anew.
    let cold = compact.tokens - compact.warm;
    let price_of_next = Dollars(times(cold, price.write(lifetime) - price.read).0.max(0.0)) + summary + lost;
    let added_per_turn = carried(outlook.growth).0.max(f64::MIN_POSITIVE);
    let half_a_cycle = (2.0 * price_of_next.0 / added_per_turn).sqrt() / 2.0;
    let events = [
        (outlook.turns as f64, Until::End),
        (half_a_cycle, Until::NextCompaction),
        (1.0 / lapse, Until::Lapse),
    ];
    let (turns, until) = events
        .into_iter()
        .fold((f64::INFINITY, Until::End), |first, event| if event.0 < first.0 { event } else { first });
    let gain = Dollars(saved_per_turn.0 * turns) - now - summary - lost;
    Terms { cold, now, summary, forgotten, lost, saved_per_turn, turns, until, lapse, gain }
}

/// How many steps will be fetched again, if so many tokens are removed from a session that grows by so many a turn.
fn forgotten(removed: Tokens, growth: Tokens) -> f64 {
    FORGOTTEN * (removed.number() as f64 / growth.number().max(1) as f64).sqrt()
}

/// The share of recent pauses that outlast the cache.
fn chance_of_lapse(pauses: &[Duration], lifetime: Lifetime) -> f64 {
    let lives = match lifetime {
        Lifetime::FiveMinutes => FIVE_MINUTES,
        Lifetime::OneHour => ONE_HOUR,
    };
    let recent = &pauses[pauses.len().saturating_sub(RECENT_PAUSES)..];
    let lapsed = recent.iter().filter(|pause| **pause > lives).count() as f64;
    let (chance, weight) = LAPSE_AT_FIRST;
    (lapsed + chance * weight) / (recent.len() as f64 + weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAND: Band = Band { comfortable: Tokens(25_000), necessary: Tokens(50_000) };

    const QUICK: [Duration; 100] = [Duration::from_secs(8); 100];

    /// A session in a tool loop, half-way through its band, with a warm cache.
    fn outlook() -> Outlook<'static> {
        Outlook {
            leave: Prospect { tokens: Tokens(40_000), warm: Tokens(39_000) },
            compact: Prospect { tokens: Tokens(15_000), warm: Tokens(5_000) },
            turns: 100,
            growth: Tokens(500),
            pauses: &QUICK,
            lifetime: Lifetime::FiveMinutes,
            summary: Dollars::ZERO,
        }
    }

    fn decided(outlook: Outlook<'_>) -> Verdict {
        let price = crate::prices::find("claude-sonnet-4-5").unwrap().price;
        decide(&BAND, &outlook, &price)
    }

    #[test]
    fn the_band_has_a_lower_end_and_the_threshold_is_a_hard_rule() {
        let at = |tokens| Prospect { tokens: Tokens(tokens), warm: Tokens::ZERO };
        assert_eq!(decided(Outlook { leave: at(24_999), ..outlook() }).decision, Decision::Comfortable);
        let dear = Outlook { leave: at(50_000), summary: Dollars(10.0), ..outlook() };
        let verdict = decided(dear);
        assert_eq!((verdict.decision, verdict.terms.gain < Dollars::ZERO), (Decision::Necessary, true));
    }

    #[test]
    fn nothing_is_compacted_for_money_below_two_fifths_of_the_window_or_before_it_has_regrown() {
        let policy =
            Policy::new(&crate::policy::Config::default(), &crate::models::find("gpt-4o")).unwrap().0;
        let lowest = |cache, last| Band::new(&policy, policy.threshold, cache, last).comfortable;
        assert_eq!(policy.window, Tokens(128_000));
        assert_eq!(lowest(CacheState::Kept, None), Tokens(51_200));
        assert_eq!(lowest(CacheState::Expired, None), policy.goal);
        let last = LastCompaction { left: Tokens(40_000), removed: Tokens(60_000) };
        assert_eq!(lowest(CacheState::Kept, Some(last)), Tokens(60_000));
        assert_eq!(lowest(CacheState::Expired, Some(last)), Tokens(60_000));
    }

    #[test]
    fn inside_the_band_the_price_decides() {
        let cold = |prospect: Prospect| Prospect { warm: Tokens::ZERO, ..prospect };
        let usual = outlook();
        let lapsed = Outlook { leave: cold(usual.leave), compact: cold(usual.compact), ..usual };
        let little = Prospect { tokens: Tokens(38_000), warm: Tokens(5_000) };
        let cases = [
            ("half of it can go, and many turns are to come", usual, Decision::Pays),
            ("the session has hardly begun", Outlook { turns: 3, ..usual }, Decision::DoesNotPay),
            (
                "but the cache has lapsed: all is written anew anyway",
                Outlook { turns: 0, ..lapsed },
                Decision::Pays,
            ),
            ("hardly anything can go", Outlook { compact: little, ..usual }, Decision::DoesNotPay),
            (
                "a model's summary costs more than it saves",
                Outlook { summary: Dollars(0.5), ..usual },
                Decision::DoesNotPay,
            ),
        ];
        for (case, outlook, wanted) in cases {
            let verdict = decided(outlook);
            assert_eq!(verdict.decision, wanted, "{case}: {:?}", verdict.terms);
        }
        let free = decided(lapsed).terms;
        assert!(free.now < Dollars::ZERO, "a lapsed cache makes compacting cheaper than leaving");
    }

    #[test]
    fn who_may_wait_for_a_lapse_counts_no_further() {
        let mut pauses = [Duration::from_secs(30); 40];
        pauses.iter_mut().step_by(4).for_each(|pause| *pause = Duration::from_mins(20));
        let terms = decided(Outlook { pauses: &pauses, ..outlook() }).terms;
        assert_eq!(terms.until, Until::Lapse);
        assert!(terms.turns < 6.0, "one pause in four outlasts the cache: {terms:?}");
        let hour = decided(Outlook { pauses: &pauses, lifetime: Lifetime::OneHour, ..outlook() }).terms;
        assert!(hour.lapse < 0.02, "an hour outlasts them all: {hour:?}");
    }

    #[test]
    fn what_is_forgotten_grows_slower_than_what_is_removed_and_is_part_of_the_price() {
        let steps = |removed| forgotten(Tokens(removed), Tokens(500));
        assert!((steps(40_000) - 2.0 * steps(10_000)).abs() < 1e-12);
        assert!(steps(0) < 1e-12 && forgotten(Tokens(9), Tokens::ZERO).is_finite());
        let Terms { forgotten, lost, .. } = decided(outlook()).terms;
        // 15,000 tokens read and 850 written for each, and a quarter of 25,000, at 0.30 and 3.75 dollars a million.
        let wanted = forgotten * (0.0045 + 0.003_187_5) + 0.25 * 0.025 * 3.75;
        assert!((lost.0 - wanted).abs() < 1e-9, "{lost:?} for {forgotten}");
    }

    #[test]
    fn a_terms_sum_is_its_gain() {
        let Terms { now, summary, lost, saved_per_turn, turns, gain, .. } = decided(outlook()).terms;
        let sum = saved_per_turn.0 * turns - now.0 - summary.0 - lost.0;
        assert!((sum - gain.0).abs() < 1e-12);
    }
}
