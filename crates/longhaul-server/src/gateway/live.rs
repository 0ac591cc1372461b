//! The sessions that are held in memory, found by what their newest message is known by.
//!
//! A request finds its session by its own history: the newest of its messages with which a session ended. While a request is on its
//! way its session is taken; another one of the same history (a title, a second try, a subagent that starts from the same words)
//! gets a session of its own out of the store, so that no two requests mix up what was sent and what was counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_engine::Stop;
use longhaul_engine::identity::Identity;
use tokio::sync::{Mutex as Turns, OwnedMutexGuard};

use super::memory::Memory;
use crate::session::Session;

/// All of them. Identities are keyed by tenant, so that nobody finds another's.
pub(super) struct Live {
    slots: Mutex<HashMap<Identity, Arc<Slot>>>,
    uses: AtomicU64,
    most: usize,
}

struct Slot {
    held: Arc<Turns<Held>>,
    /// Whether a request of it is on its way.
    taken: AtomicBool,
    used: AtomicU64,
}

/// A session with what the gateway remembers of it.
pub(super) struct Held {
    pub(super) session: Session,
    pub(super) memory: Memory,
}

/// A session that is taken, until this is dropped.
pub(super) struct Claim {
    slot: Arc<Slot>,
    held: OwnedMutexGuard<Held>,
    /// Whether somebody else may have taken it meanwhile.
    is_free: bool,
    /// Whether a request was begun and is not ended: what is dropped now stands in the middle of something.
    is_midway: bool,
}

impl Live {
    pub(super) fn new(most: usize) -> Self {
        Self { slots: Mutex::default(), uses: AtomicU64::new(0), most }
    }

    /// The session that this history goes on from, if it is held and free; else a new one, as it is made here.
    pub(super) async fn claim(&self, chain: &[Identity], new: impl FnOnce() -> Session) -> Claim {
        let slot = self.take(chain).unwrap_or_else(|| {
            let held = Held { session: new(), memory: Memory::default() };
            Arc::new(Slot {
                held: Arc::new(Turns::new(held)),
                taken: AtomicBool::new(true),
                used: AtomicU64::new(0),
            })
        });
        // Who took it last may still be writing down what it was.
        let held = Arc::clone(&slot.held).lock_owned().await;
        Claim { slot, held, is_free: false, is_midway: false }
    }

    /// The session that this history goes on from, if it is held and free.
    pub(super) async fn claim_held(&self, chain: &[Identity]) -> Option<Claim> {
        let slot = self.take(chain)?;
        let held = Arc::clone(&slot.held).lock_owned().await;
        Some(Claim { slot, held, is_free: false, is_midway: false })
    }

    /// Whether a session is held that this history goes on from.
    pub(super) fn has(&self, chain: &[Identity]) -> bool {
        let slots = self.slots();
        chain.iter().any(|identity| slots.contains_key(identity))
    }

    fn take(&self, chain: &[Identity]) -> Option<Arc<Slot>> {
        let slots = self.slots();
        chain.iter().rev().find_map(|identity| slots.get(identity).filter(|slot| slot.take())).cloned()
    }

    /// From now on a session is found by this message.
    pub(super) fn ends_with(&self, claim: &Claim, tip: Option<&Identity>) {
        let Some(tip) = tip else { return };
        claim.slot.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let mut slots = self.slots();
        if slots.get(tip).is_some_and(|slot| Arc::ptr_eq(slot, &claim.slot)) {
            return;
        }
        slots.retain(|_, slot| !Arc::ptr_eq(slot, &claim.slot));
        if slots.len() >= self.most {
            let oldest = slots.iter().min_by_key(|(_, slot)| slot.used.load(Ordering::Relaxed));
            let oldest = oldest.map(|(tip, _)| *tip);
            oldest.map(|tip| slots.remove(&tip));
        }
        slots.insert(*tip, Arc::clone(&claim.slot));
    }

    /// Asks every session of which no request is on its way, and gives what they say.
    pub(super) fn ask_resting<T>(&self, mut ask: impl FnMut(&mut Held) -> Option<T>) -> Vec<T> {
        let slots: Vec<Arc<Slot>> = self.slots().values().cloned().collect();
        slots.iter().filter_map(|slot| ask(&mut *slot.held.try_lock().ok()?)).collect()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.slots().len()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Identity, Arc<Slot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Claim {
    pub(super) fn session(&mut self) -> &mut Session {
        &mut self.held.session
    }

    pub(super) fn held(&mut self) -> &mut Held {
        &mut self.held
    }

    /// A request begins that may be dropped before it [`ends`](Self::ends), because it took too long or its client left.
    pub(super) fn begins(&mut self, stop: Stop) {
        self.is_midway = true;
        self.held.session.until(stop);
    }

    /// The request was taken up whole.
    pub(super) fn ends(&mut self) {
        self.is_midway = false;
        self.held.session.until(Stop::default());
    }

    /// The request is answered: the next one may line up while this is still written down.
    pub(super) fn free(&mut self) {
        if !std::mem::replace(&mut self.is_free, true) {
            self.slot.taken.store(false, Ordering::Release);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_midway {
            self.held.session = self.held.session.restarted();
        }
        self.free();
    }
}
