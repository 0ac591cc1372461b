//! The money that Longhaul may spend on its own requests in a day, such as summaries.

use longhaul_engine::Timestamp;
use longhaul_engine::prices::Dollars;
use parking_lot::Mutex;

use crate::store::UtcDay;

/// A limit on the money that is spent in a day (UTC), shared by all sessions of a program. It is counted in this
/// process; [`record`](Self::record) adds what an earlier process spent today.
#[derive(Debug)]
pub struct DailyBudget {
    limit: Dollars,
    spent: Mutex<Option<(UtcDay, Dollars)>>,
}

impl DailyBudget {
    /// Creates a budget of which nothing is spent.
    #[must_use]
    pub fn new(limit: Dollars) -> Self {
        Self { limit, spent: Mutex::default() }
    }

    /// Returns the most that may be spent in a day.
    #[must_use]
    pub fn limit(&self) -> Dollars {
        self.limit
    }

    /// Returns the money that is spent or reserved today.
    #[must_use]
    pub fn spent(&self, now: Timestamp) -> Dollars {
        let today = UtcDay::containing(now);
        self.spent.lock().filter(|(day, _)| *day == today).map_or(Dollars::ZERO, |(_, spent)| spent)
    }

    /// Reserves the expected cost of a request. Returns false, and reserves nothing, if it exceeds what is left.
    #[must_use]
    pub fn try_reserve(&self, cost: Dollars, now: Timestamp) -> bool {
        let today = UtcDay::containing(now);
        let mut spent = self.spent.lock();
        let before = spent.filter(|(day, _)| *day == today).map_or(Dollars::ZERO, |(_, spent)| spent);
        let fits = before + cost <= self.limit;
        if fits {
            *spent = Some((today, before + cost));
        }
        fits
    }

    /// Replaces a reservation by what the request really cost. A request that ends on the next day counts there.
    pub fn settle(&self, reserved: Dollars, cost: Dollars, now: Timestamp) {
        self.add(cost - reserved, now);
    }

    /// Adds money that was spent without a reservation, for example before a restart.
    pub fn record(&self, cost: Dollars, now: Timestamp) {
        self.add(cost, now);
    }

    fn add(&self, more: Dollars, now: Timestamp) {
        let today = UtcDay::containing(now);
        let mut spent = self.spent.lock();
        let before = spent.filter(|(day, _)| *day == today).map_or(0.0, |(_, spent)| spent.0);
        *spent = Some((today, Dollars((before + more.0).max(0.0))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_counts_at_once_and_a_new_day_begins_with_nothing() {
        const DAY_MS: i64 = 86_400_000;
        let budget = DailyBudget::new(Dollars(1.0));
        assert!(budget.try_reserve(Dollars(0.8), Timestamp(1_000)));
        assert!(!budget.try_reserve(Dollars(0.3), Timestamp(2_000)), "only 0.20 are left");
        budget.settle(Dollars(0.8), Dollars(0.1), Timestamp(3_000));
        assert!((budget.spent(Timestamp(4_000)).0 - 0.1).abs() < 1e-9);
        assert!(budget.try_reserve(Dollars(0.3), Timestamp(5_000)));
        assert_eq!(budget.spent(Timestamp(DAY_MS)), Dollars::ZERO);
        budget.settle(Dollars(0.3), Dollars(0.2), Timestamp(DAY_MS));
        assert_eq!(budget.spent(Timestamp(DAY_MS)), Dollars::ZERO, "no credit is carried over");
        budget.record(Dollars(0.9), Timestamp(DAY_MS));
        assert!(!budget.try_reserve(Dollars(0.2), Timestamp(DAY_MS)));
    }
}
