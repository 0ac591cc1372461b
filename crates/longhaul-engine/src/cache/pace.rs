//! How long a marked prefix should live, from the pace of the session.

use std::time::Duration;

use crate::Tokens;
use crate::prices::Price;
use crate::wire::Lifetime;

/// What is known of a session's rhythm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rhythm<'s> {
    /// The pauses between its requests, newest last.
    pub pauses: &'s [Duration],
    /// The prefix that is read again with each request.
    pub prefix: Tokens,
    /// What each request adds to it.
    pub added: Tokens,
}

/// A chosen lifetime, with what one request is expected to cost with either.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The cheaper lifetime.
    pub lifetime: Lifetime,
    /// The share of pauses that five minutes do not outlive and an hour does.
    pub between: f64,
    /// Dollars a million requests would cost with five minutes,
    pub five_minutes: f64,
    /// and with an hour.
    pub one_hour: f64,
}

/// Fewer pauses say nothing about the next one.
const ENOUGH: usize = 4;

/// Older pauses belong to another phase of the work.
const RECENT: usize = 50;

/// How long five minutes are.
pub const FIVE_MINUTES: Duration = Duration::from_mins(5);
/// How long an hour is.
pub const ONE_HOUR: Duration = Duration::from_hours(1);

/// The lifetime with which the next request is expected to cost less. Writing for an hour costs more with every request; what
/// lapses in a pause between five minutes and an hour is written anew.
#[must_use]
pub fn lifetime(rhythm: &Rhythm<'_>, price: &Price) -> Choice {
    let recent = &rhythm.pauses[rhythm.pauses.len().saturating_sub(RECENT)..];
    let share = |is: fn(Duration) -> bool| {
        recent.iter().filter(|pause| is(**pause)).count() as f64 / recent.len().max(1) as f64
    };
    let between = share(|pause| pause > FIVE_MINUTES && pause <= ONE_HOUR);
    let beyond = share(|pause| pause > ONE_HOUR);
    let (prefix, added) = (rhythm.prefix.number() as f64, rhythm.added.number() as f64);
    let cost =
        |write: f64, lapsed: f64| added * write + prefix * (lapsed * write + (1.0 - lapsed) * price.read);
    let five_minutes = cost(price.write_5m, between + beyond);
    let one_hour = cost(price.write_1h, beyond);
    let longer = recent.len() >= ENOUGH && one_hour < five_minutes;
    let lifetime = if longer { Lifetime::OneHour } else { Lifetime::FiveMinutes };
    Choice { lifetime, between, five_minutes, one_hour }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_who_think_for_ten_minutes_get_an_hour_and_loops_do_not() {
        let price = crate::prices::find("claude-sonnet-4-5").unwrap().price;
        let minutes = |pauses: &[u64]| pauses.iter().map(|m| Duration::from_mins(*m)).collect::<Vec<_>>();
        let cases: [(&[u64], Lifetime); 6] = [
            (&[], Lifetime::FiveMinutes),
            (&[10, 12, 9], Lifetime::FiveMinutes),
            (&[10, 12, 9, 20], Lifetime::OneHour),
            (&[0, 0, 1, 0, 2, 0, 0, 0], Lifetime::FiveMinutes),
            (&[0, 0, 1, 10, 2, 0, 0, 12], Lifetime::OneHour),
            (&[90, 120, 300, 80], Lifetime::FiveMinutes),
        ];
        for (pauses, wanted) in cases {
            let pauses = minutes(pauses);
            let rhythm = Rhythm { pauses: &pauses, prefix: Tokens(50_000), added: Tokens(1_000) };
            assert_eq!(lifetime(&rhythm, &price).lifetime, wanted, "{pauses:?}");
        }
    }
}
