//! What the provider has in its cache of the session, and until when.

use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::cache::{FIVE_MINUTES, ONE_HOUR};
use longhaul_engine::cost::CacheState;
use longhaul_engine::policy::{CachePolicy, CacheTtl, Policy};
use longhaul_engine::wire::Lifetime;
use serde::{Deserialize, Serialize};

use crate::agents::Moment;

/// Older pauses belong to another phase of the work.
const RECENT: usize = 50;

/// What is cached, and the pace at which it is used.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Cached {
    /// When the last request was sent, in milliseconds since 1970,
    sent: Option<i64>,
    /// and what of it the provider keeps,
    tokens: Tokens,
    /// for so many milliseconds. None where nothing is cached.
    lives: Option<i64>,
    /// The pauses between requests, in milliseconds, newest last.
    pauses: Vec<u64>,
    /// By how much the request after each of them was larger than the one before.
    growths: Vec<Tokens>,
    /// How many requests there were.
    turns: usize,
}

impl Cached {
    /// A request of this size was sent.
    pub(super) fn sent(&mut self, tokens: Tokens, policy: &Policy, now: Moment) {
        if let Some(before) = self.sent {
            self.pauses.push(now.0.saturating_sub(before).max(0).cast_unsigned());
            self.growths.push(tokens - self.tokens);
            let surplus = |kept: usize| kept.saturating_sub(RECENT);
            self.pauses.drain(..surplus(self.pauses.len()));
            self.growths.drain(..surplus(self.growths.len()));
        }
        self.turns += 1;
        (self.sent, self.tokens) = (Some(now.0), tokens);
        let lives = lives(policy).map(|lives| i64::try_from(lives.as_millis()).unwrap_or(i64::MAX));
        self.lives = lives.filter(|_| tokens >= policy.model.facts.cache_minimum);
    }

    /// The provider's own count of it.
    pub(super) fn counted(&mut self, tokens: Tokens) {
        self.tokens = tokens;
    }

    /// What of the last request is still in the cache.
    pub(super) fn warm(&self, now: Moment) -> Tokens {
        let lives = self.sent.zip(self.lives).is_some_and(|(sent, lives)| now.0 - sent < lives);
        if lives { self.tokens } else { Tokens::ZERO }
    }

    /// Whether something was cached and is no longer.
    fn lapsed(&self, now: Moment) -> bool {
        self.lives.is_some() && self.warm(now) == Tokens::ZERO
    }

    /// The same as the price of a compaction sees it.
    pub(super) fn state(&self, now: Moment) -> CacheState {
        if self.lapsed(now) { CacheState::Expired } else { CacheState::Kept }
    }

    /// Another model knows nothing of what this one was sent, and counts it in another way.
    pub(super) fn forget(&mut self) {
        (self.sent, self.tokens, self.lives) = (None, Tokens::ZERO, None);
    }

    /// The pauses before the requests, newest last; the one that ends now among them.
    pub(super) fn pauses(&self, now: Moment) -> Vec<Duration> {
        let ends = self.sent.map(|sent| now.0.saturating_sub(sent).max(0).cast_unsigned());
        self.pauses.iter().copied().chain(ends).map(Duration::from_millis).collect()
    }

    /// The pauses between the requests so far.
    pub(super) fn pauses_so_far(&self) -> impl Iterator<Item = Duration> {
        self.pauses.iter().copied().map(Duration::from_millis)
    }

    /// How many requests there were.
    pub(super) fn turns(&self) -> usize {
        self.turns
    }

    /// What a request adds to the one before.
    pub(super) fn growth(&self) -> Tokens {
        self.growths.iter().copied().sum::<Tokens>() / (self.growths.len().max(1) as u64)
    }
}

/// For how long a prefix is kept.
pub(super) fn lifetime(policy: &Policy) -> Lifetime {
    match policy.caching {
        CachePolicy::Marks { ttl: CacheTtl::OneHour, .. } => Lifetime::OneHour,
        _ => Lifetime::FiveMinutes,
    }
}

fn lives(policy: &Policy) -> Option<Duration> {
    match policy.caching {
        CachePolicy::Off(_) => None,
        CachePolicy::Automatic | CachePolicy::Marks { .. } => Some(match lifetime(policy) {
            Lifetime::FiveMinutes => FIVE_MINUTES,
            Lifetime::OneHour => ONE_HOUR,
        }),
    }
}

#[cfg(test)]
mod tests {
    use longhaul_engine::models;
    use longhaul_engine::policy::Config;

    use super::*;

    #[test]
    fn growth_is_that_of_the_recent_requests_of_one_model() {
        let (policy, _) = Policy::new(&Config::default(), &models::find("gpt-5")).unwrap();
        let mut cached = Cached::default();
        for turn in 0..200_u32 {
            cached.sent(Tokens(u64::from(turn) * 100), &policy, Moment(i64::from(turn)));
        }
        assert_eq!(cached.growth(), Tokens(100));
        cached.forget();
        cached.sent(Tokens(90_000), &policy, Moment(1_000));
        assert_eq!(cached.growth(), Tokens(100), "what another model counts is no growth");
    }
}
