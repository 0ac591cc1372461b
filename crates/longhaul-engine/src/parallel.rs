//! Applies a function to many items, on as many threads as the caller allows.
//!
//! This module uses no other module of the engine.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Returns the results of `work` in the order of the items. If the system refuses a thread, the others do its
/// share. A panic in `work` becomes a panic of the caller.
pub(crate) fn map<T: Sync, R: Send>(threads: NonZeroUsize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // Threads take the items one by one: sizes differ so much that equal shares would leave threads idle.
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut done = thread::scope(|scope| {
        let others = (1..threads.get().min(items.len()))
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, take).ok())
            .collect::<Vec<_>>();
        let mut done = take();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::map;

    #[test]
    fn any_number_of_threads_gives_the_same_in_the_same_order() {
        for items in [0, 1, 2, 3, 1_000] {
            let items: Vec<usize> = (0..items).collect();
            for threads in [1, 2, 3, 64].map(|n| NonZeroUsize::new(n).unwrap()) {
                let squares: Vec<usize> = items.iter().map(|n| n * n).collect();
                assert_eq!(map(threads, &items, |n| n * n), squares);
            }
        }
    }

    #[test]
    #[should_panic(expected = "seven")]
    fn a_panic_on_a_thread_is_the_callers() {
        map(NonZeroUsize::new(4).unwrap(), &[1, 7, 3], |n| assert!(*n != 7, "seven"));
    }
}
