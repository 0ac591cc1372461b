//! A bounded number of threads for work that takes processor time: parsing, planning, unpacking, drawing pages.
//!
//! A job is a future. A thread of the pool polls it, and does its heavy parts there. Wherever the job waits (for the store, for a
//! model, for a lock) the thread goes on with another job, so that nothing holds a place here while it waits for something else, and
//! no job can wait for itself. The threads of the runtime only wait for sockets.
//!
//! Owners (tenants) take turns. One owner never has all threads, nor all places in the queue, however much it sends. A job for which
//! there is no place is refused at once, and one that gets no turn soon. A job that nobody waits for any more is dropped.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Instrument as _;

/// Jobs that are under way or wait at once. With some milliseconds a job, a full queue is about the time that a request may take.
const MAX_JOBS: usize = 2048;

/// So long a job waits for its first turn before it is refused, too: whoever asked has time left to do without.
const MAX_QUEUE_WAIT: Duration = Duration::from_millis(1500);

/// Whose turn it is: jobs of one owner never keep those of another waiting for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub i64);

impl Owner {
    /// Whoever looks at the whole store, and requests of which the tenant is not known.
    pub const EVERYBODY: Self = Self(0);

    /// The owner of work on a request of so many bytes. Large requests of a tenant take turns of their own, so that its small ones do
    /// not wait behind them: in a gateway without keys all clients are one tenant.
    #[must_use]
    pub(crate) fn of_bytes(self, bytes: usize) -> Self {
        const LARGE_REQUEST_BYTES: usize = 512 << 10;
        // Numbers of tenants are positive, so the complement is nobody else's.
        if bytes < LARGE_REQUEST_BYTES { self } else { Self(!self.0) }
    }
}

/// Why a job was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotDone {
    /// The queue has no place for this owner, or none of its jobs ended in time for another.
    Busy,
    /// The job panicked.
    Failed,
}

impl NotDone {
    /// The reason as headers and logs name it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Failed => "engine",
        }
    }
}

/// The threads and their queue. They end when this is dropped.
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    max_jobs: usize,
    max_threads_per_owner: usize,
}

#[derive(Default)]
struct Queue {
    owners: HashMap<Owner, Share>,
    /// Owners with jobs that could run, in the order of their turns.
    turns: VecDeque<Owner>,
    /// Jobs of all owners, waiting ones among them.
    jobs: usize,
    is_closed: bool,
}

/// One owner's share of the pool.
#[derive(Default)]
struct Share {
    ready: VecDeque<Arc<Task>>,
    jobs: usize,
    running: usize,
}

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    owner: Owner,
    shared: Arc<Shared>,
    state: Mutex<State>,
    is_begun: AtomicBool,
    is_cancelled: AtomicBool,
}

enum State {
    /// It waits for something outside of the pool.
    Waiting(Job),
    /// It stands in the queue.
    Queued(Job),
    Running {
        is_woken: bool,
    },
    Over,
}

/// What came of a job's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It waits, or stands in the queue again.
    GoesOn,
    Over,
    /// It had been taken out meanwhile.
    Gone,
}

/// Drops a job, if it is running at its next stop.
struct CancelOnDrop(Arc<Task>);

impl Pool {
    /// A pool for this machine: twice as many threads as cores, of which one owner uses half. The system shares the cores out among
    /// the threads, so that an owner with long jobs leaves room for others.
    #[must_use]
    pub fn for_this_machine() -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::new(2 * cores, MAX_JOBS)
    }

    /// A pool of so many threads and places. A thread that the system refuses is done without.
    #[must_use]
    pub fn new(threads: usize, max_jobs: usize) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            max_jobs,
            max_threads_per_owner: (threads / 2).max(1),
        });
        for n in 0..threads.max(1) {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name(format!("longhaul-work-{n}"));
            if let Err(error) = thread.spawn(move || shared.work()) {
                tracing::warn!("a thread for work could not be started: {error}");
            }
        }
        Self { shared }
    }

    /// Does a job for an owner, and gives its result. Dropping the returned future ends the job at its next stop.
    ///
    /// # Errors
    /// There is no place for it, or it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        owner: Owner,
        job: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, NotDone> {
        let (done, mut result) = oneshot::channel();
        let job = AssertUnwindSafe(job).catch_unwind();
        let job = InRuntime { runtime: Handle::current(), inner: Box::pin(job) };
        let job = async move {
            let _ = done.send(job.await);
        };
        let task = self.shared.admit(owner, Box::pin(job.in_current_span()))?;
        let _cancel = CancelOnDrop(Arc::clone(&task));
        let result = match timeout(MAX_QUEUE_WAIT, &mut result).await {
            Ok(result) => result,
            Err(_) if !task.is_begun.load(Ordering::Acquire) => return Err(NotDone::Busy),
            Err(_) => result.await,
        };
        match result {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) | Err(_) => Err(NotDone::Failed),
        }
    }

    /// The same for work that never waits.
    ///
    /// # Errors
    /// There is no place for it, or it panicked.
    pub async fn compute<T: Send + 'static>(
        &self,
        owner: Owner,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NotDone> {
        self.run(owner, async move { work() }).await
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        let dropped: Vec<Arc<Task>> =
            queue.owners.values_mut().flat_map(|share| share.ready.drain(..)).collect();
        drop(queue);
        self.shared.filled.notify_all();
        for task in dropped {
            task.end();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a job in, if its owner holds no more places than are still free: one owner alone gets half of them, and there is always
    /// room for somebody new.
    fn admit(self: &Arc<Self>, owner: Owner, job: Job) -> Result<Arc<Task>, NotDone> {
        let mut queue = self.queue();
        let free = self.max_jobs.saturating_sub(queue.jobs);
        let share = queue.owners.entry(owner).or_default();
        if share.jobs >= free {
            let is_new = share.jobs == 0;
            if is_new {
                queue.owners.remove(&owner);
            }
            return Err(NotDone::Busy);
        }
        share.jobs += 1;
        queue.jobs += 1;
        let task = Arc::new(Task {
            owner,
            shared: Arc::clone(self),
            state: Mutex::new(State::Queued(job)),
            is_begun: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        });
        queue.push(Arc::clone(&task));
        drop(queue);
        self.filled.notify_one();
        Ok(task)
    }

    fn enqueue(&self, task: Arc<Task>) {
        let mut queue = self.queue();
        if queue.is_closed {
            drop(queue);
            task.end();
            return;
        }
        queue.push(task);
        drop(queue);
        self.filled.notify_one();
    }

    /// What a thread does until the pool is gone.
    fn work(&self) {
        let mut queue = self.queue();
        loop {
            if queue.is_closed {
                return;
            }
            let Some(task) = queue.next(self.max_threads_per_owner) else {
                queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let turn = task.poll();
            queue = self.queue();
            queue.stopped(task.owner, turn);
            // The owner may have more, which had to wait for this thread.
            self.filled.notify_one();
        }
    }
}

impl Queue {
    fn push(&mut self, task: Arc<Task>) {
        let owner = task.owner;
        let share = self.owners.entry(owner).or_default();
        if share.ready.is_empty() {
            self.turns.push_back(owner);
        }
        share.ready.push_back(task);
    }

    /// The next job of the next owner who may have another thread.
    fn next(&mut self, max_threads: usize) -> Option<Arc<Task>> {
        for _ in 0..self.turns.len() {
            let owner = self.turns.pop_front()?;
            let Some(share) = self.owners.get_mut(&owner) else { continue };
            if share.running >= max_threads {
                self.turns.push_back(owner);
                continue;
            }
            let task = share.ready.pop_front();
            if !share.ready.is_empty() {
                self.turns.push_back(owner);
            }
            if task.is_some() {
                share.running += 1;
                return task;
            }
        }
        None
    }

    /// A thread is done with a job, or with a part of it.
    fn stopped(&mut self, owner: Owner, turn: Turn) {
        if let Some(share) = self.owners.get_mut(&owner) {
            share.running = share.running.saturating_sub(1);
        }
        if turn == Turn::Over {
            self.left(owner);
        } else {
            self.forget(owner);
        }
    }

    /// A job has left the pool.
    fn left(&mut self, owner: Owner) {
        if let Some(share) = self.owners.get_mut(&owner) {
            share.jobs = share.jobs.saturating_sub(1);
            self.jobs = self.jobs.saturating_sub(1);
        }
        self.forget(owner);
    }

    /// Takes a job out that nobody waits for.
    fn take_out(&mut self, task: &Arc<Task>) {
        if let Some(share) = self.owners.get_mut(&task.owner) {
            share.ready.retain(|ready| !Arc::ptr_eq(ready, task));
            if share.ready.is_empty() {
                self.turns.retain(|owner| *owner != task.owner);
            }
        }
        self.left(task.owner);
    }

    /// An owner without jobs has no share.
    fn forget(&mut self, owner: Owner) {
        if self.owners.get(&owner).is_some_and(|share| share.jobs == 0 && share.running == 0) {
            self.owners.remove(&owner);
        }
    }
}

impl Task {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the job as far as it goes.
    fn poll(self: &Arc<Self>) -> Turn {
        let job = std::mem::replace(&mut *self.state(), State::Running { is_woken: false });
        let State::Queued(mut job) = job else {
            *self.state() = State::Over;
            return Turn::Gone;
        };
        self.is_begun.store(true, Ordering::Release);
        let waker = Waker::from(Arc::clone(self));
        let is_ready = job.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = self.state();
        if is_ready || self.is_cancelled.load(Ordering::Acquire) {
            *state = State::Over;
            drop(state);
            return Turn::Over;
        }
        if matches!(*state, State::Running { is_woken: true }) {
            *state = State::Queued(job);
            drop(state);
            self.shared.enqueue(Arc::clone(self));
        } else {
            *state = State::Waiting(job);
        }
        Turn::GoesOn
    }

    /// Nobody waits for it any more: it ends where it stands, or at its next stop where it runs.
    fn cancel(self: &Arc<Self>) {
        self.is_cancelled.store(true, Ordering::Release);
        let mut state = self.state();
        let ended = match std::mem::replace(&mut *state, State::Over) {
            running @ State::Running { .. } => {
                *state = running;
                return;
            }
            State::Over => return,
            State::Waiting(job) | State::Queued(job) => job,
        };
        drop(state);
        self.shared.queue().take_out(self);
        drop(ended);
    }

    /// It is dropped where it stands.
    fn end(&self) {
        let ended = std::mem::replace(&mut *self.state(), State::Over);
        drop(ended);
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Over) {
            State::Waiting(job) => {
                *state = State::Queued(job);
                drop(state);
                let shared = Arc::clone(&self.shared);
                shared.enqueue(self);
            }
            State::Running { .. } => *state = State::Running { is_woken: true },
            same @ (State::Queued(_) | State::Over) => *state = same,
        }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Polls within a runtime, so that timers and connections work on any thread.
struct InRuntime<F> {
    runtime: Handle,
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for InRuntime<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let _entered = this.runtime.enter();
        this.inner.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc;

    use tokio::sync::Notify;

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn jobs_that_wait_hold_no_thread() {
        let (pool, open) = (Arc::new(Pool::new(1, 1000)), Arc::new(Notify::new()));
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let (pool, open) = (Arc::clone(&pool), Arc::clone(&open));
                tokio::spawn(async move {
                    let job = async move {
                        open.notified().await;
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        7
                    };
                    pool.run(Owner(1), job).await
                })
            })
            .collect();
        while pool.shared.queue().jobs < 100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.compute(Owner(1), || 3).await, Ok(3), "the one thread is free");
        for job in waiting {
            while !job.is_finished() {
                open.notify_waiters();
                tokio::task::yield_now().await;
            }
            assert_eq!(job.await.unwrap(), Ok(7));
        }
        assert_eq!(pool.shared.queue().jobs, 0);
    }

    #[tokio::test]
    async fn one_owner_leaves_threads_and_places_to_others() {
        let pool = Arc::new(Pool::new(2, 8));
        let (finish, finished) = mpsc::channel::<()>();
        let finished = Arc::new(Mutex::new(finished));
        let hogs: Vec<_> = (0..4)
            .map(|_| {
                let (pool, finished) = (Arc::clone(&pool), Arc::clone(&finished));
                tokio::spawn(async move {
                    pool.compute(Owner(1), move || finished.lock().unwrap().recv().is_ok()).await
                })
            })
            .collect();
        while pool.shared.queue().jobs < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.compute(Owner(1), || 5).await, Err(NotDone::Busy), "at once");
        let other = tokio::time::timeout(LONG, pool.compute(Owner(2), || 5)).await;
        assert_eq!(other.expect("another owner does not wait"), Ok(5));
        // One of them has the thread that its owner may have; the others get no turn, and are told soon.
        while pool.shared.queue().jobs > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(finish);
        let mut busy = 0;
        for hog in hogs {
            busy += usize::from(hog.await.unwrap() == Err(NotDone::Busy));
        }
        assert_eq!(busy, 3);
    }

    #[tokio::test]
    async fn small_requests_do_not_wait_behind_large_ones_of_the_same_owner() {
        let pool = Arc::new(Pool::new(2, 64));
        let (finish, finished) = mpsc::channel::<()>();
        let finished = Arc::new(Mutex::new(finished));
        for _ in 0..4 {
            let (pool, finished) = (Arc::clone(&pool), Arc::clone(&finished));
            let hog = move || finished.lock().unwrap().recv().is_ok();
            tokio::spawn(async move { pool.compute(Owner(1).of_bytes(4 << 20), hog).await });
        }
        while pool.shared.queue().jobs < 4 {
            tokio::task::yield_now().await;
        }
        let small = tokio::time::timeout(LONG, pool.compute(Owner(1).of_bytes(4 << 10), || 5)).await;
        assert_eq!(small.expect("it has turns of its own"), Ok(5));
        drop(finish);
    }

    #[tokio::test]
    async fn a_panic_ends_its_job_and_nothing_else() {
        let pool = Pool::new(1, 8);
        let failed = pool.compute(Owner(1), || assert!(std::hint::black_box(false), "on purpose")).await;
        assert_eq!(failed, Err(NotDone::Failed));
        assert_eq!(pool.compute(Owner(1), || 5).await, Ok(5));
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_dropped() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let (pool, dropped) = (Pool::new(1, 8), Arc::new(AtomicUsize::new(0)));
        let counted = Counted(Arc::clone(&dropped));
        let endless = async move {
            let _counted = counted;
            std::future::pending::<()>().await;
        };
        let ended = tokio::time::timeout(Duration::from_millis(1), pool.run(Owner(1), endless)).await;
        assert!(ended.is_err());
        while pool.shared.queue().jobs > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }
}
