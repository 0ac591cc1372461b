//! Work on all cores, with results in the order of the items.
//!
//! ```text
//! items ──▶ a queue, read under a lock ──▶ one worker per core ──▶ results, put in order ──▶ the caller's thread
//!           ▲ no item is taken while too many results are not delivered
//! ```

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

/// The number of items in memory for each core: one that is worked on, and one that waits for an earlier one.
const ITEMS_PER_CORE: usize = 2;

/// Runs `work` on each item and passes the results to `give` on the caller's thread, in the order of the
/// items. Each worker has its own cache `M`, which must not change the results. If `give` breaks, the
/// remaining items are not taken.
pub(crate) fn map_in_order<I: Send, O: Send, M: Default, B>(
    items: impl Iterator<Item = I> + Send,
    work: impl Fn(&mut M, I) -> O + Sync,
    mut give: impl FnMut(O) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let queue = WorkQueue::new(items, ITEMS_PER_CORE * cores);
    let (sender, results) = mpsc::channel::<(usize, Result<O, Box<dyn Any + Send>>)>();
    thread::scope(|scope| {
        for _ in 0..cores {
            let (sender, queue, work) = (sender.clone(), &queue, &work);
            scope.spawn(move || {
                let mut cache = M::default();
                while let Some((at, item)) = queue.take() {
                    let result = catch_unwind(AssertUnwindSafe(|| work(&mut cache, item)));
                    if sender.send((at, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let _closing = CloseOnDrop(&queue);
        let mut ready = BTreeMap::new();
        let mut next = 0;
        for (at, result) in results {
            ready.insert(at, result);
            while let Some(result) = ready.remove(&next) {
                give(result.unwrap_or_else(|panic| resume_unwind(panic)))?;
                next += 1;
                queue.mark_delivered();
            }
        }
        ControlFlow::Continue(())
    })
}

struct WorkQueue<I> {
    state: Mutex<QueueState<I>>,
    space_freed: Condvar,
    max_undelivered: usize,
}

struct QueueState<I> {
    items: I,
    taken: usize,
    delivered: usize,
    is_closed: bool,
}

impl<I: Iterator> WorkQueue<I> {
    fn new(items: I, max_undelivered: usize) -> Self {
        let state = Mutex::new(QueueState { items, taken: 0, delivered: 0, is_closed: false });
        Self { state, space_freed: Condvar::new(), max_undelivered }
    }

    /// Waits until there is space, and returns the next item with its index.
    fn take(&self) -> Option<(usize, I::Item)> {
        let is_full =
            |state: &mut QueueState<I>| !state.is_closed && state.taken - state.delivered >= self.max_undelivered;
        let waited = self.space_freed.wait_while(self.lock(), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            return None;
        }
        let item = state.items.next()?;
        state.taken += 1;
        Some((state.taken - 1, item))
    }

    fn mark_delivered(&self) {
        self.lock().delivered += 1;
        self.space_freed.notify_all();
    }
}

impl<I> WorkQueue<I> {
    /// Locks the state, even if a worker panicked while it had the lock. That panic is reported when the
    /// threads are joined, and the other workers can end normally.
    fn lock(&self) -> MutexGuard<'_, QueueState<I>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the queue when it is dropped, so that no worker waits for space forever.
struct CloseOnDrop<'q, I>(&'q WorkQueue<I>);

impl<I> Drop for CloseOnDrop<'_, I> {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.space_freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Squares an item. Earlier items take longer.
    fn square_slowly(_: &mut (), item: u64) -> u64 {
        thread::sleep(Duration::from_micros(2_000u64.saturating_sub(item * 20)));
        item * item
    }

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let mut given = Vec::new();
        let end = map_in_order(0..100, square_slowly, |square| {
            given.push(square);
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(end, ControlFlow::Continue(()));
        assert_eq!(given, (0..100).map(|item| item * item).collect::<Vec<_>>());
    }

    #[test]
    fn only_a_few_items_are_taken_before_the_first_is_given() {
        let (taken, given) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let max_undelivered = ITEMS_PER_CORE * thread::available_parallelism().map_or(1, usize::from);
        let items = (0..200).inspect(|_| {
            let ahead = taken.fetch_add(1, Ordering::SeqCst) - given.load(Ordering::SeqCst);
            assert!(ahead < max_undelivered, "{ahead} items were taken and not given");
        });
        let end = map_in_order(items, square_slowly, |_| {
            given.fetch_add(1, Ordering::SeqCst);
            ControlFlow::<()>::Continue(())
        });
        assert_eq!((end, given.into_inner()), (ControlFlow::Continue(()), 200));
    }

    #[test]
    fn a_break_ends_it_and_so_does_a_panic() {
        let mut given = 0;
        let end = map_in_order(0.., square_slowly, |square| {
            given += 1;
            if square == 25 { ControlFlow::Break("enough") } else { ControlFlow::Continue(()) }
        });
        assert_eq!((end, given), (ControlFlow::Break("enough"), 6));
        let fails = |(): &mut (), item: u64| assert_ne!(item, 3, "the fourth");
        let panicked = catch_unwind(|| map_in_order(0.., fails, |()| ControlFlow::<()>::Continue(())));
        assert!(panicked.is_err());
    }
}
