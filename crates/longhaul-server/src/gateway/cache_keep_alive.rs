//! Keeps a provider's cache from expiring while a session is idle, if that is expected to cost less than
//! writing it again.
//!
//! Shortly before the cache of an idle session expires, the gateway repeats its newest request with an output
//! limit of one token. The gateway's own key pays for it; no client's key is ever kept. It is off by default
//! and has a daily limit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use longhaul_engine::cache::FIVE_MINUTES;
use longhaul_engine::prices::{TokenPrices, Usage};
use longhaul_engine::wire::{self, CacheLifetime};
use longhaul_engine::{ApiFormat, Edit, Rewrite};

use super::Gateway;
use super::live_sessions::LiveEntry;
use crate::pool::Owner;
use crate::upstream::{OutboundRequest, ReplyReader};
use longhaul_engine::Timestamp;

/// The time between two searches for caches that are about to expire.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The share of a cache's lifetime after which it is refreshed. Chosen by hand.
const MIN_AGE_SHARE: f64 = 0.8;

/// The newest request of a session, which can be sent again to refresh the cache.
#[derive(Clone)]
pub(super) struct RepeatableRequest {
    pub(super) api_format: ApiFormat,
    pub(super) target: String,
    /// The request headers, without any key.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The time when the request was last sent.
    pub(super) sent_at: Timestamp,
}

impl RepeatableRequest {
    /// Returns whether both are the same request, not merely equal ones.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.body.as_ptr() == other.body.as_ptr() && self.body.len() == other.body.len()
    }
}

impl Gateway {
    /// Refreshes the caches that are about to expire, where that pays. Returns the number of refreshes.
    pub async fn refresh_expiring_caches(self: &Arc<Self>) -> usize {
        let Some(budget) = &self.keep_alive_budget else { return 0 };
        let (now, mut refreshed_count) = (self.now(), 0);
        for request in self.live_sessions.filter_map_idle(|entry| find_expiring(entry, now)) {
            if budget.spent(now) >= budget.limit() {
                break;
            }
            let Some((usage, price)) = self.refresh_cache(&request).await else { continue };
            let cost = usage.bill(&price).total();
            budget.record(cost, now);
            tracing::info!(
                usd = cost.0,
                read = usage.read.unwrap_or_default().number(),
                "refreshed a provider's cache"
            );
            self.metrics.count_cache_refresh();
            self.live_sessions.filter_map_idle(|entry| {
                entry.memory.record_refresh(&request, now);
                None::<()>
            });
            refreshed_count += 1;
        }
        refreshed_count
    }

    async fn refresh_cache(&self, request: &RepeatableRequest) -> Option<(Usage, TokenPrices)> {
        let (api_format, body) = (request.api_format, request.body.clone());
        let shorten = move || {
            let text = std::str::from_utf8(&body).ok()?;
            let model = wire::parse(api_format, text).ok()?.0.model?.into_owned();
            let price = longhaul_engine::prices::find(&model)?.price;
            Some((price, one_token_request(api_format, text)?))
        };
        let (price, body) = self.pool.compute(Owner::NO_TENANT, shorten).await.ok().flatten()?;
        let upstream = self.settings.upstreams.for_api_format(request.api_format);
        let mut headers = request.headers.clone();
        headers.extend(upstream.key_header());
        let outbound = OutboundRequest {
            method: Method::POST,
            path_and_query: request.target.clone(),
            headers,
            body: body.into(),
        };
        let mut answer = self.client.forward(upstream, outbound, &self.upstream_timeouts()).await.ok()?;
        if answer.error.is_some() {
            return None;
        }
        let mut reader = ReplyReader::new(Arc::clone(upstream), request.api_format);
        while let Some(piece) = answer.body.next().await.ok()? {
            reader.feed(&piece).ok()?;
        }
        Some((reader.finish().ok()?.usage?, price))
    }
}

/// Returns the request that refreshes a session's cache, if the cache is about to expire and a refresh pays.
fn find_expiring(entry: &LiveEntry, now: Timestamp) -> Option<RepeatableRequest> {
    let request = entry.memory.repeatable()?;
    let price = entry.session.policy()?.prices?.price;
    let (_, _, caching) = entry.memory.caching.as_ref()?;
    if caching.lifetime(entry.session.cache_lifetime(Some(&price), now)) != CacheLifetime::FiveMinutes {
        return None;
    }
    let idle_time = Duration::from_millis(now.0.saturating_sub(request.sent_at.0).max(0).cast_unsigned());
    let is_late = idle_time >= FIVE_MINUTES.mul_f64(MIN_AGE_SHARE) && idle_time < FIVE_MINUTES;
    (is_late && is_worthwhile(entry.session.return_probability(idle_time, FIVE_MINUTES)?, &price))
        .then(|| request.clone())
}

/// Returns whether a refresh now is expected to cost less than a cache write later, if the session continues
/// in time with this probability.
fn is_worthwhile(return_probability: f64, price: &TokenPrices) -> bool {
    return_probability * (price.write_5m - price.read) > price.read
}

/// Returns the same request with an output limit of one token and without streaming; none for other API
/// formats than Messages, or if thinking requires a longer output.
fn one_token_request(api_format: ApiFormat, text: &str) -> Option<String> {
    let (transcript, _) = wire::parse(api_format, text).ok()?;
    let opening: serde_json::Value = serde_json::from_str(text).ok()?;
    if api_format != ApiFormat::Messages || opening["thinking"]["type"] == "enabled" {
        return None;
    }
    let object = transcript.root();
    let set = |key: &'static str, json: &str| Edit::Set { object, key, json: json.to_owned() };
    let edits = vec![set("max_tokens", "1"), set("stream", "false")];
    Some(Rewrite::new(&transcript, edits).ok()?.apply(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pays_where_a_session_is_likely_enough_to_come_back() {
        let price = longhaul_engine::prices::find("claude-sonnet-4-5").unwrap().price;
        assert!(is_worthwhile(0.5, &price) && !is_worthwhile(0.05, &price));
    }

    #[test]
    fn a_request_is_made_again_for_one_token() {
        let body = r#"{"model":"m","max_tokens":900,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
        let short = one_token_request(ApiFormat::Messages, body).unwrap();
        assert!(short.contains(r#""max_tokens":1,"#) && short.contains(r#""stream":false"#), "{short}");
        assert!(one_token_request(ApiFormat::Chat, body).is_none());
    }
}
