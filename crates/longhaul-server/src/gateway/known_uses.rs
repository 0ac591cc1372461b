//! The tokens that keys used today, as far as this process knows, so that daily limits hold while the store does not answer.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_engine::Tokens;

use crate::store::{Day, KeyId};

/// The newest total of each key, reservations included. There are no more entries than keys in the store.
#[derive(Default)]
pub(super) struct KnownUses(Mutex<HashMap<KeyId, (Day, Tokens)>>);

impl KnownUses {
    fn totals(&self) -> MutexGuard<'_, HashMap<KeyId, (Day, Tokens)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tokens that a key used on a day.
    pub(super) fn used(&self, key: KeyId, day: Day) -> Tokens {
        self.totals().get(&key).filter(|(known, _)| *known == day).map_or(Tokens::ZERO, |(_, total)| *total)
    }

    /// Sets the total that the store reported.
    pub(super) fn set(&self, key: KeyId, day: Day, total: Tokens) {
        self.totals().insert(key, (day, total));
    }

    /// Replaces reserved tokens by spent ones.
    pub(super) fn replace(&self, key: KeyId, day: Day, reserved: Tokens, spent: Tokens) {
        let mut totals = self.totals();
        let known = totals.entry(key).or_insert((day, Tokens::ZERO));
        let before = if known.0 == day { known.1 } else { Tokens::ZERO };
        *known = (day, before + spent - reserved);
    }
}
