//! Chooses how long a cached prefix should live, from the pauses of the session.

use std::time::Duration;

use crate::Tokens;
use crate::prices::TokenPrices;
use crate::wire::CacheLifetime;

/// The pauses and sizes of a session, from which a lifetime is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SessionPace<'s> {
    /// The pauses between its requests, newest last.
    pub pauses: &'s [Duration],
    /// The tokens of the prefix that each request reads again.
    pub prefix: Tokens,
    /// The tokens that each request adds to the prefix.
    pub added_per_request: Tokens,
}

/// The chosen lifetime, with the expected price of a request for both lifetimes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LifetimeChoice {
    /// The cheaper lifetime.
    pub lifetime: CacheLifetime,
    /// The share of pauses that are longer than five minutes but not longer than an hour.
    pub between_share: f64,
    /// The price of a million requests with five minutes, in dollars.
    pub cost_five_minutes: f64,
    /// The price of a million requests with an hour, in dollars.
    pub cost_one_hour: f64,
}

/// The number of pauses below which nothing can be predicted. Chosen by hand.
const MIN_PAUSES: usize = 4;

/// Returns the newest pauses, from which the next ones are predicted; older ones belong to another phase of the
/// work. The number is chosen by hand.
pub(crate) fn recent_pauses(pauses: &[Duration]) -> &[Duration] {
    &pauses[pauses.len().saturating_sub(50)..]
}

/// The short cache lifetime.
pub const FIVE_MINUTES: Duration = Duration::from_mins(5);
/// The long cache lifetime.
pub const ONE_HOUR: Duration = Duration::from_hours(1);

/// Chooses the lifetime with which the next request is expected to cost less. A lifetime of an hour makes
/// every cache write more expensive; with five minutes, a prefix that expires in a pause of up to an hour has
/// to be written again.
#[must_use]
pub fn choose_lifetime(pace: &SessionPace<'_>, price: &TokenPrices) -> LifetimeChoice {
    let recent = recent_pauses(pace.pauses);
    let share = |is: fn(Duration) -> bool| {
        recent.iter().filter(|pause| is(**pause)).count() as f64 / recent.len().max(1) as f64
    };
    let between = share(|pause| pause > FIVE_MINUTES && pause <= ONE_HOUR);
    let beyond = share(|pause| pause > ONE_HOUR);
    let (prefix, added) = (pace.prefix.number() as f64, pace.added_per_request.number() as f64);
    let cost = |write: f64, expired_share: f64| {
        added * write + prefix * (expired_share * write + (1.0 - expired_share) * price.read)
    };
    let five_minutes = cost(price.write_5m, between + beyond);
    let one_hour = cost(price.write_1h, beyond);
    let longer = recent.len() >= MIN_PAUSES && one_hour < five_minutes;
    let lifetime = if longer { CacheLifetime::OneHour } else { CacheLifetime::FiveMinutes };
    LifetimeChoice { lifetime, between_share: between, cost_five_minutes: five_minutes, cost_one_hour: one_hour }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_who_think_for_ten_minutes_get_an_hour_and_loops_do_not() {
        let price = crate::prices::find("claude-sonnet-4-5").unwrap().price;
        let minutes = |pauses: &[u64]| pauses.iter().map(|m| Duration::from_mins(*m)).collect::<Vec<_>>();
        let cases: [(&[u64], CacheLifetime); 6] = [
            (&[], CacheLifetime::FiveMinutes),
            (&[10, 12, 9], CacheLifetime::FiveMinutes),
            (&[10, 12, 9, 20], CacheLifetime::OneHour),
            (&[0, 0, 1, 0, 2, 0, 0, 0], CacheLifetime::FiveMinutes),
            (&[0, 0, 1, 10, 2, 0, 0, 12], CacheLifetime::OneHour),
            (&[90, 120, 300, 80], CacheLifetime::FiveMinutes),
        ];
        for (pauses, wanted) in cases {
            let pauses = minutes(pauses);
            let pace = SessionPace { pauses: &pauses, prefix: Tokens(50_000), added_per_request: Tokens(1_000) };
            assert_eq!(choose_lifetime(&pace, &price).lifetime, wanted, "{pauses:?}");
        }
    }
}
