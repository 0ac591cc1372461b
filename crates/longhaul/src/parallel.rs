//! Work on all cores whose results come in the order of the items.
//!
//! ```text
//! items ──▶ a queue, read under a lock ──▶ a worker a core ──▶ results, put in order ──▶ the caller's thread
//!           ▲ nobody takes an item while too many are not given yet
//! ```

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

/// So many items for each core are in memory at once: one that is worked on, and one that waits for an earlier one.
const ITEMS_A_CORE: usize = 2;

/// Does the work on each item and gives the results on the caller's thread, in order. Each worker has a memory of its own,
/// which must not change what comes out. Where `give` breaks, what is left is not taken.
pub(crate) fn in_order<I: Send, O: Send, M: Default, B>(
    items: impl Iterator<Item = I> + Send,
    work: impl Fn(&mut M, I) -> O + Sync,
    mut give: impl FnMut(O) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let queue = Queue::new(items, ITEMS_A_CORE * cores);
    let (sender, results) = mpsc::channel::<(usize, Result<O, Box<dyn Any + Send>>)>();
    thread::scope(|scope| {
        for _ in 0..cores {
            let (sender, queue, work) = (sender.clone(), &queue, &work);
            scope.spawn(move || {
                let mut memory = M::default();
                while let Some((at, item)) = queue.take() {
                    let result = catch_unwind(AssertUnwindSafe(|| work(&mut memory, item)));
                    if sender.send((at, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let _closing = Closing(&queue);
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        for (at, result) in results {
            waiting.insert(at, result);
            while let Some(result) = waiting.remove(&next) {
                give(result.unwrap_or_else(|panic| resume_unwind(panic)))?;
                next += 1;
                queue.given();
            }
        }
        ControlFlow::Continue(())
    })
}

struct Queue<I> {
    state: Mutex<State<I>>,
    freed: Condvar,
    room: usize,
}

struct State<I> {
    items: I,
    taken: usize,
    given: usize,
    closed: bool,
}

impl<I: Iterator> Queue<I> {
    fn new(items: I, room: usize) -> Self {
        let state = Mutex::new(State { items, taken: 0, given: 0, closed: false });
        Self { state, freed: Condvar::new(), room }
    }

    /// The next item with its place, once there is room for it.
    fn take(&self) -> Option<(usize, I::Item)> {
        let is_full = |state: &mut State<I>| !state.closed && state.taken - state.given >= self.room;
        let waited = self.freed.wait_while(self.lock(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        let item = state.items.next()?;
        state.taken += 1;
        Some((state.taken - 1, item))
    }

    fn given(&self) {
        self.lock().given += 1;
        self.freed.notify_all();
    }
}

impl<I> Queue<I> {
    /// A worker that panicked holding the lock is reported when the threads are joined; the others may end in peace.
    fn lock(&self) -> MutexGuard<'_, State<I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However the giving ends, no worker goes on waiting for room.
struct Closing<'q, I>(&'q Queue<I>);

impl<I> Drop for Closing<'_, I> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// The earlier an item, the longer it takes.
    fn slowly(_: &mut (), item: u64) -> u64 {
        thread::sleep(Duration::from_micros(2_000u64.saturating_sub(item * 20)));
        item * item
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let mut given = Vec::new();
        let end = in_order(0..100, slowly, |square| {
            given.push(square);
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(end, ControlFlow::Continue(()));
        assert_eq!(given, (0..100).map(|item| item * item).collect::<Vec<_>>());
    }

    #[test]
    fn only_a_few_items_are_taken_before_the_first_is_given() {
        let (taken, given) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let room = ITEMS_A_CORE * thread::available_parallelism().map_or(1, usize::from);
        let items = (0..200).inspect(|_| {
            let ahead = taken.fetch_add(1, Ordering::SeqCst) - given.load(Ordering::SeqCst);
            assert!(ahead < room, "{ahead} items were taken and not given");
        });
        let end = in_order(items, slowly, |_| {
            given.fetch_add(1, Ordering::SeqCst);
            ControlFlow::<()>::Continue(())
        });
        assert_eq!((end, given.into_inner()), (ControlFlow::Continue(()), 200));
    }

    #[test]
    fn a_break_ends_it_and_so_does_a_panic() {
        let mut given = 0;
        let end = in_order(0.., slowly, |square| {
            given += 1;
            if square == 25 { ControlFlow::Break("enough") } else { ControlFlow::Continue(()) }
        });
        assert_eq!((end, given), (ControlFlow::Break("enough"), 6));
        let fails = |(): &mut (), item: u64| assert_ne!(item, 3, "the fourth");
        let panicked = catch_unwind(|| in_order(0.., fails, |()| ControlFlow::<()>::Continue(())));
        assert!(panicked.is_err());
    }
}
