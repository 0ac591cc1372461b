//! What the provider has cached of a session's prompt, how long it stays cached, and the pauses between
//! requests.

use std::time::Duration;

use longhaul_engine::Tokens;
use longhaul_engine::cache::{FIVE_MINUTES, ONE_HOUR};
use longhaul_engine::policy::{CachePolicy, CacheTtl, Policy};
use longhaul_engine::schedule::CacheState;
use longhaul_engine::wire::CacheLifetime;
use serde::{Deserialize, Serialize};

use longhaul_engine::Timestamp;

/// The number of newest pauses to keep. Chosen by hand: older ones belong to another phase of the work.
const MAX_PAUSES: usize = 50;

/// The cached prompt of a session, and the timing of its requests.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PromptCache {
    /// The time of the last request, in milliseconds since 1970.
    #[serde(rename = "sent")]
    sent_at: Option<i64>,
    /// The tokens of the last request, which the provider caches.
    tokens: Tokens,
    /// The time for which they stay cached, in milliseconds; `None` if nothing is cached.
    #[serde(rename = "lives")]
    lifetime_ms: Option<i64>,
    /// The pauses between requests, in milliseconds, newest last.
    pauses: Vec<u64>,
    /// The growth of the request after each pause, in tokens.
    growths: Vec<Tokens>,
    /// The number of requests so far.
    #[serde(rename = "turns")]
    request_count: usize,
}

impl PromptCache {
    /// Records that a request of this size was prepared and is about to be sent.
    pub(super) fn record_prepared(&mut self, tokens: Tokens, policy: &Policy, now: Timestamp) {
        if let Some(sent_before) = self.sent_at {
            self.pauses.push(now.0.saturating_sub(sent_before).max(0).cast_unsigned());
            self.growths.push(tokens - self.tokens);
            let surplus = |count: usize| count.saturating_sub(MAX_PAUSES);
            self.pauses.drain(..surplus(self.pauses.len()));
            self.growths.drain(..surplus(self.growths.len()));
        }
        self.request_count += 1;
        (self.sent_at, self.tokens) = (Some(now.0), tokens);
        let lifetime_ms =
            cache_duration(policy).map(|lifetime| i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX));
        self.lifetime_ms = lifetime_ms.filter(|_| tokens >= policy.model.facts.cache_minimum);
    }

    /// Replaces the size of the last request by the provider's own count.
    pub(super) fn correct_size(&mut self, tokens: Tokens) {
        self.tokens = tokens;
    }

    /// Returns how many tokens of the last request are still cached.
    pub(super) fn cached_tokens(&self, now: Timestamp) -> Tokens {
        let is_cached =
            self.sent_at.zip(self.lifetime_ms).is_some_and(|(sent_at, lifetime)| now.0 - sent_at < lifetime);
        if is_cached { self.tokens } else { Tokens::ZERO }
    }

    /// Whether something was cached and has expired.
    fn has_expired(&self, now: Timestamp) -> bool {
        self.lifetime_ms.is_some() && self.cached_tokens(now) == Tokens::ZERO
    }

    /// Returns the state of the cache as the price calculation expects it.
    pub(super) fn cache_state(&self, now: Timestamp) -> CacheState {
        if self.has_expired(now) { CacheState::Expired } else { CacheState::MayBeCached }
    }

    /// Forgets the cached prompt, because another model has its own cache and its own token counts.
    pub(super) fn forget(&mut self) {
        (self.sent_at, self.tokens, self.lifetime_ms) = (None, Tokens::ZERO, None);
    }

    /// Returns the pauses between requests, newest last, including the one that ends now.
    pub(super) fn pauses(&self, now: Timestamp) -> Vec<Duration> {
        let current_pause = self.sent_at.map(|sent_at| now.0.saturating_sub(sent_at).max(0).cast_unsigned());
        self.pauses.iter().copied().chain(current_pause).map(Duration::from_millis).collect()
    }

    /// Returns the pauses between the requests so far.
    pub(super) fn past_pauses(&self) -> impl Iterator<Item = Duration> {
        self.pauses.iter().copied().map(Duration::from_millis)
    }

    /// Returns the number of requests so far.
    pub(super) fn request_count(&self) -> usize {
        self.request_count
    }

    /// Returns the mean growth from one request to the next.
    pub(super) fn average_growth(&self) -> Tokens {
        self.growths.iter().copied().sum::<Tokens>() / (self.growths.len().max(1) as u64)
    }
}

/// Returns the lifetime with which the policy caches a prompt.
pub(super) fn cache_lifetime(policy: &Policy) -> CacheLifetime {
    match policy.caching {
        CachePolicy::Breakpoints { ttl: CacheTtl::OneHour, .. } => CacheLifetime::OneHour,
        _ => CacheLifetime::FiveMinutes,
    }
}

fn cache_duration(policy: &Policy) -> Option<Duration> {
    match policy.caching {
        CachePolicy::Off(_) => None,
        CachePolicy::Automatic | CachePolicy::Breakpoints { .. } => Some(match cache_lifetime(policy) {
            CacheLifetime::FiveMinutes => FIVE_MINUTES,
            CacheLifetime::OneHour => ONE_HOUR,
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
        let mut prompt_cache = PromptCache::default();
        for n in 0..200_u32 {
            prompt_cache.record_prepared(Tokens(u64::from(n) * 100), &policy, Timestamp(i64::from(n)));
        }
        assert_eq!(prompt_cache.average_growth(), Tokens(100));
        prompt_cache.forget();
        prompt_cache.record_prepared(Tokens(90_000), &policy, Timestamp(1_000));
        assert_eq!(prompt_cache.average_growth(), Tokens(100), "what another model counts is no growth");
    }
}
