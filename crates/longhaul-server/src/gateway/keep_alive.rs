//! Keeping what a provider has cached warm while nobody asks: only where that is expected to cost less than to write it anew.
//!
//! A session that rests is read once more, with an answer of one token, shortly before its cache lapses. That is paid with the gateway's
//! own key, or not done: nobody's key is kept for it. It is off unless it is switched on, and a day has its limit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use longhaul_engine::cache::FIVE_MINUTES;
use longhaul_engine::prices::{Dollars, Price, Usage};
use longhaul_engine::wire::{self, Lifetime};
use longhaul_engine::{Dialect, Edit, Rewrite};

use super::Gateway;
use super::live::Held;
use crate::agents::Moment;
use crate::pool::Owner;
use crate::store::Day;
use crate::upstream::{Letter, Reading};

/// How often is looked whether something is about to lapse.
pub(super) const BEAT: Duration = Duration::from_secs(10);
/// From this share of its life on a prefix is about to lapse.
const LATE: f64 = 0.8;

/// A request that could be made again.
#[derive(Clone)]
pub(super) struct Warm {
    pub(super) dialect: Dialect,
    pub(super) target: String,
    /// The head, without anybody's key.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// When it was sent last.
    pub(super) at: Moment,
}

impl Warm {
    /// Whether it is this very request, and not one like it.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.body.as_ptr() == other.body.as_ptr() && self.body.len() == other.body.len()
    }
}

/// What was spent on a day.
#[derive(Default)]
pub(super) struct Purse(Mutex<Option<(Day, Dollars)>>);

impl Purse {
    fn spent(&self, day: Day) -> Dollars {
        let purse = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        purse.filter(|(on, _)| *on == day).map_or(Dollars::ZERO, |(_, spent)| spent)
    }

    fn spend(&self, day: Day, more: Dollars) {
        let before = self.spent(day);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((day, Dollars(before.0 + more.0)));
    }
}

impl Gateway {
    /// Reads again what is about to lapse, wherever that pays. How often it did.
    pub async fn keep_warm(self: &Arc<Self>) -> usize {
        let Some(settings) = self.settings.keep_alive else { return 0 };
        let (now, mut kept) = (self.now(), 0);
        for warm in self.live.ask_resting(|held| due(held, now)) {
            let day = Day::of(now);
            if self.purse.spent(day).0 >= settings.a_day.0 {
                break;
            }
            let Some((usage, price)) = self.read_again(&warm).await else { continue };
            let cost = usage.bill(&price).total();
            self.purse.spend(day, cost);
            tracing::info!(
                usd = cost.0,
                read = usage.read.unwrap_or_default().number(),
                "a cache was kept warm"
            );
            self.tally.kept_warm();
            self.live.ask_resting(|held| {
                held.memory.kept_warm(&warm, now);
                None::<()>
            });
            kept += 1;
        }
        kept
    }

    async fn read_again(&self, warm: &Warm) -> Option<(Usage, Price)> {
        let (dialect, body) = (warm.dialect, warm.body.clone());
        let shorten = move || {
            let text = std::str::from_utf8(&body).ok()?;
            let model = wire::parse(dialect, text).ok()?.0.model?.into_owned();
            let price = longhaul_engine::prices::find(&model)?.price;
            Some((price, shortest(dialect, text)?))
        };
        let (price, body) = self.pool.compute(Owner::EVERYBODY, shorten).await.ok().flatten()?;
        let upstream = self.settings.upstreams.of(warm.dialect);
        let mut headers = warm.headers.clone();
        headers.extend(upstream.own_key());
        let letter = Letter { method: Method::POST, target: warm.target.clone(), headers, body: body.into() };
        let mut answer = self.client.forward(upstream, letter, &self.patience()).await.ok()?;
        if answer.trouble.is_some() {
            return None;
        }
        let mut reading = Reading::new(Arc::clone(upstream), warm.dialect);
        while let Some(piece) = answer.body.next().await.ok()? {
            reading.feed(&piece).ok()?;
        }
        Some((reading.finish().ok()?.usage?, price))
    }
}

/// Whether a session's prefix is about to lapse, and is worth more than it costs to be read.
fn due(held: &Held, now: Moment) -> Option<Warm> {
    let warm = held.memory.warm()?;
    let price = held.session.policy()?.prices?.price;
    let (_, _, caching) = held.memory.caching.as_ref()?;
    if caching.lifetime(held.session.lifetime(Some(&price), now)) != Lifetime::FiveMinutes {
        return None;
    }
    let rested = Duration::from_millis(now.0.saturating_sub(warm.at.0).max(0).cast_unsigned());
    let is_late = rested >= FIVE_MINUTES.mul_f64(LATE) && rested < FIVE_MINUTES;
    (is_late && pays(held.session.returns(rested, FIVE_MINUTES)?, &price)).then(|| warm.clone())
}

/// Whether reading now is cheaper than writing later, where a session comes back in time with this probability.
fn pays(comes_back: f64, price: &Price) -> bool {
    comes_back * (price.write_5m - price.read) > price.read
}

/// The same request, for an answer of one token, all at once. None where the answer must be longer than its thinking.
fn shortest(dialect: Dialect, text: &str) -> Option<String> {
    let (transcript, _) = wire::parse(dialect, text).ok()?;
    let opening: serde_json::Value = serde_json::from_str(text).ok()?;
    if dialect != Dialect::Messages || opening["thinking"]["type"] == "enabled" {
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
        assert!(pays(0.5, &price) && !pays(0.05, &price));
    }

    #[test]
    fn a_request_is_made_again_for_one_token() {
        let body =
            r#"{"model":"m","max_tokens":900,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
        let short = shortest(Dialect::Messages, body).unwrap();
        assert!(short.contains(r#""max_tokens":1,"#) && short.contains(r#""stream":false"#), "{short}");
        assert!(shortest(Dialect::Chat, body).is_none());
    }
}
