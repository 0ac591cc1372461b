//! The tokens that keys used today, as far as this process knows, so that daily limits apply while the store
//! is down.

use std::collections::HashMap;

use longhaul_engine::Tokens;
use parking_lot::{Mutex, MutexGuard};

use crate::store::{KeyId, UtcDay};

/// The newest total of each key, including reservations. It has at most as many entries as the store has
/// keys.
#[derive(Default)]
pub(super) struct KeyUsage(Mutex<HashMap<KeyId, (UtcDay, Tokens)>>);

impl KeyUsage {
    fn totals(&self) -> MutexGuard<'_, HashMap<KeyId, (UtcDay, Tokens)>> {
        self.0.lock()
    }

    /// Returns the tokens that a key used on a day.
    pub(super) fn used(&self, key: KeyId, day: UtcDay) -> Tokens {
        self.totals().get(&key).filter(|(counted_day, _)| *counted_day == day).map_or(Tokens::ZERO, |(_, total)| *total)
    }

    /// Sets the total of a day: the one that the store reported or, after the store refused a reservation, the
    /// key's daily limit.
    pub(super) fn set(&self, key: KeyId, day: UtcDay, total: Tokens) {
        self.totals().insert(key, (day, total));
    }

    /// Replaces reserved tokens by the tokens that were spent.
    pub(super) fn replace_reserved(&self, key: KeyId, day: UtcDay, reserved: Tokens, spent: Tokens) {
        let mut totals = self.totals();
        let entry = totals.entry(key).or_insert((day, Tokens::ZERO));
        let before = if entry.0 == day { entry.1 } else { Tokens::ZERO };
        *entry = (day, before + spent - reserved);
    }
}
