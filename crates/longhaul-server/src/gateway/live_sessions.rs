//! The sessions in memory, indexed by the hash of their newest message.
//!
//! A request belongs to the session of the newest of its messages that is indexed and whose session is free.
//! A session is taken while it has a request in flight. Another request with the same history (a title, a
//! retry, a subagent that starts from the same messages) gets the free session of an older message. If there
//! is none, it gets a new `LiveSession`, which finds its messages in the store when it records the request. So
//! no two requests mix up what was sent and counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use longhaul_engine::CancelFlag;
use longhaul_engine::keyed_hash::KeyedHash;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::session_memory::SessionMemory;
use crate::session::LiveSession;

/// All sessions in memory. Their hashes are keyed by tenant, so no tenant can find another's session.
pub(super) struct LiveSessions {
    slots: Mutex<HashMap<KeyedHash, Arc<SessionSlot>>>,
    use_counter: AtomicU64,
    max_sessions: usize,
}

struct SessionSlot {
    entry: Arc<AsyncMutex<LiveEntry>>,
    /// Whether the session has a request in flight.
    is_taken: AtomicBool,
    last_use: AtomicU64,
}

/// A session with what the gateway remembers about it.
pub(super) struct LiveEntry {
    pub(super) session: LiveSession,
    pub(super) memory: SessionMemory,
}

/// A session that one request has taken, until the claim is dropped.
pub(super) struct SessionClaim {
    slot: Arc<SessionSlot>,
    entry: OwnedMutexGuard<LiveEntry>,
    /// Whether the session was released, so that another request may have taken it.
    is_released: bool,
    /// Whether a request is being prepared, which changes the session step by step. If the claim is dropped
    /// then, the session is in an unfinished state and starts again from the store.
    is_preparing: bool,
}

impl LiveSessions {
    pub(super) fn new(max_sessions: usize) -> Self {
        Self { slots: Mutex::default(), use_counter: AtomicU64::new(0), max_sessions }
    }

    /// Claims the session that this history continues, if it is in memory and free; otherwise a new one.
    pub(super) async fn claim_or_create(&self, chain: &[KeyedHash], new: impl FnOnce() -> LiveSession) -> SessionClaim {
        let slot = self.take_free_slot(chain).unwrap_or_else(|| {
            let entry = LiveEntry { session: new(), memory: SessionMemory::default() };
            Arc::new(SessionSlot {
                entry: Arc::new(AsyncMutex::new(entry)),
                is_taken: AtomicBool::new(true),
                last_use: AtomicU64::new(0),
            })
        });
        // The previous owner may still be writing its records.
        let entry = Arc::clone(&slot.entry).lock_owned().await;
        SessionClaim { slot, entry, is_released: false, is_preparing: false }
    }

    /// Claims the session that this history continues, if it is in memory and free.
    pub(super) async fn claim_existing(&self, chain: &[KeyedHash]) -> Option<SessionClaim> {
        let slot = self.take_free_slot(chain)?;
        let entry = Arc::clone(&slot.entry).lock_owned().await;
        Some(SessionClaim { slot, entry, is_released: false, is_preparing: false })
    }

    /// Returns whether this history continues a session in memory, free or taken.
    pub(super) fn contains(&self, chain: &[KeyedHash]) -> bool {
        let slots = self.slots();
        chain.iter().any(|message_hash| slots.contains_key(message_hash))
    }

    fn take_free_slot(&self, chain: &[KeyedHash]) -> Option<Arc<SessionSlot>> {
        let slots = self.slots();
        chain.iter().rev().find_map(|message_hash| slots.get(message_hash).filter(|slot| slot.try_take())).cloned()
    }

    /// Indexes a session by its newest message from now on. If the limit is reached, the least recently used
    /// one is dropped from memory.
    pub(super) fn index_by_newest_message(&self, claim: &SessionClaim, newest_message: Option<&KeyedHash>) {
        let Some(newest_message) = newest_message else { return };
        claim.slot.last_use.store(self.use_counter.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let mut slots = self.slots();
        if slots.get(newest_message).is_some_and(|slot| Arc::ptr_eq(slot, &claim.slot)) {
            return;
        }
        slots.retain(|_, slot| !Arc::ptr_eq(slot, &claim.slot));
        if slots.len() >= self.max_sessions {
            let oldest = slots.iter().min_by_key(|(_, slot)| slot.last_use.load(Ordering::Relaxed));
            let oldest = oldest.map(|(newest_message, _)| *newest_message);
            oldest.map(|newest_message| slots.remove(&newest_message));
        }
        slots.insert(*newest_message, Arc::clone(&claim.slot));
    }

    /// Calls a function with every session whose lock is free, and collects the results.
    pub(super) fn filter_map_idle<T>(&self, mut select: impl FnMut(&mut LiveEntry) -> Option<T>) -> Vec<T> {
        let slots: Vec<Arc<SessionSlot>> = self.slots().values().cloned().collect();
        slots.iter().filter_map(|slot| select(&mut *slot.entry.try_lock().ok()?)).collect()
    }

    /// Returns the number of sessions in memory.
    pub(super) fn count(&self) -> usize {
        self.slots().len()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<KeyedHash, Arc<SessionSlot>>> {
        self.slots.lock()
    }
}

impl SessionSlot {
    fn try_take(&self) -> bool {
        self.is_taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl SessionClaim {
    pub(super) fn session(&mut self) -> &mut LiveSession {
        &mut self.entry.session
    }

    pub(super) fn entry(&mut self) -> &mut LiveEntry {
        &mut self.entry
    }

    /// Begins the preparation of a request, which may be dropped before
    /// [`end_preparation`](Self::end_preparation), because it takes too long or its client leaves.
    pub(super) fn begin_preparation(&mut self, cancel: CancelFlag) {
        self.is_preparing = true;
        self.entry.session.cancel_with(cancel);
    }

    /// Ends the preparation of a request: its changes to the session are complete. The request itself goes on
    /// until the session is released.
    pub(super) fn end_preparation(&mut self) {
        self.is_preparing = false;
        // A default flag cannot be cancelled.
        self.entry.session.cancel_with(CancelFlag::default());
    }

    /// Releases the session, so that its next request can wait for it while this one is still being written.
    pub(super) fn release(&mut self) {
        if !std::mem::replace(&mut self.is_released, true) {
            self.slot.is_taken.store(false, Ordering::Release);
        }
    }
}

impl Drop for SessionClaim {
    fn drop(&mut self) {
        if self.is_preparing {
            self.entry.session = self.entry.session.restarted();
        }
        // The request has ended, and with it the use of its client's credential.
        self.entry.session.use_models(None);
        self.entry.session.drop_planned_summary();
        self.release();
    }
}
