//! A bounded number of threads for work that needs the processor: parsing, planning, decompressing, rendering
//! pages.
//!
//! A job is a future. A thread of the pool polls it, and runs its heavy parts. Whenever the job waits (for
//! the store, for a model, for a lock), the thread continues with another job. So no job occupies a thread
//! while it waits, and no job can wait for itself. The threads of the runtime only wait for sockets.
//!
//! Owners (tenants) take turns. No owner ever has all threads, or all places in the queue, however much it
//! sends. A job without a place is refused at once, and a job that gets no turn after `MAX_QUEUE_WAIT`. A job
//! that nobody waits for any more is dropped.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::Instrument as _;

/// The maximum number of jobs that run or wait. Chosen by hand: with a few milliseconds for each job, a full
/// queue takes about as long as a request may wait.
const MAX_JOBS: usize = 2048;

/// The longest time that a job waits for its first turn before it is refused. Chosen by hand: the caller then
/// still has time to continue without it.
const MAX_QUEUE_WAIT: Duration = Duration::from_millis(1500);

/// The owner of a job, by the tenant's number. Jobs of one owner never delay those of another for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(pub i64);

impl Owner {
    /// The owner of work on the whole store, and of requests whose tenant is not known.
    pub const NO_TENANT: Self = Self(0);

    /// Returns the owner for work on a request of this size. A tenant's large requests count as another
    /// owner's, so that its small ones do not wait for them: in a gateway without keys all clients are one
    /// tenant.
    #[must_use]
    pub(crate) fn for_request_size(self, bytes: usize) -> Self {
        const LARGE_REQUEST_BYTES: usize = 512 << 10;
        // The numbers of stored tenants are positive, so the complement is negative and belongs to none of them.
        // A temporary tenant's number comes from a hash; that it is the same one is as good as impossible.
        if bytes < LARGE_REQUEST_BYTES { self } else { Self(!self.0) }
    }
}

/// The reason why a job has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobError {
    /// The queue has no place for this owner, or the job got no turn in time.
    Busy,
    /// The job panicked.
    Panicked,
}

impl JobError {
    /// Returns the reason's name in headers and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Panicked => "engine",
        }
    }
}

/// The threads and their queue. The threads end when this is dropped.
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Wakes a thread: there is a job, an owner may use another thread, or the pool is closed.
    changed: Condvar,
    max_jobs: usize,
    max_threads_per_owner: usize,
}

#[derive(Default)]
struct Queue {
    owners: HashMap<Owner, OwnerShare>,
    /// The owners with jobs that could run, in the order of their turns.
    turns: VecDeque<Owner>,
    /// The number of jobs of all owners, including waiting ones.
    jobs: usize,
    is_closed: bool,
}

/// One owner's share of the pool.
#[derive(Default)]
struct OwnerShare {
    ready: VecDeque<Arc<Task>>,
    jobs: usize,
    running: usize,
}

type BoxedJob = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    owner: Owner,
    shared: Arc<Shared>,
    state: Mutex<TaskState>,
    is_begun: AtomicBool,
    is_cancelled: AtomicBool,
}

enum TaskState {
    /// The job waits for something outside of the pool.
    Waiting(BoxedJob),
    /// The job is in the queue.
    Queued(BoxedJob),
    Running {
        is_woken: bool,
    },
    Finished,
}

/// The result of polling a job once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PollResult {
    /// The job waits, or is in the queue again.
    Unfinished,
    Finished,
    /// The job was removed meanwhile.
    Removed,
}

/// Cancels a task when the caller stops waiting for it; a running one ends when it yields next.
struct CancelOnDrop(Arc<Task>);

impl Pool {
    /// Creates a pool for this machine: two threads for each core, of which one owner uses at most half. The
    /// system shares the cores among the threads, so that an owner with long jobs leaves room for others.
    #[must_use]
    pub fn for_this_machine() -> Self {
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::new(2 * cores, MAX_JOBS)
    }

    /// Creates a pool with this number of threads and places. If the system refuses a thread, the pool
    /// continues with fewer.
    #[must_use]
    pub fn new(threads: usize, max_jobs: usize) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            changed: Condvar::new(),
            max_jobs,
            max_threads_per_owner: (threads / 2).max(1),
        });
        for n in 0..threads.max(1) {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name(format!("longhaul-work-{n}"));
            if let Err(error) = thread.spawn(move || shared.run_thread()) {
                tracing::warn!("a worker thread could not be started: {error}");
            }
        }
        Self { shared }
    }

    /// Runs a job for an owner and returns its result. Dropping the returned future ends the job when it
    /// yields next.
    ///
    /// # Errors
    /// There is no place for the job, it got no turn in time, or it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        owner: Owner,
        job: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, JobError> {
        let (sender, mut result) = oneshot::channel();
        let job = AssertUnwindSafe(job).catch_unwind();
        let job = InRuntime { runtime: Handle::current(), inner: Box::pin(job) };
        let job = async move {
            let _ = sender.send(job.await);
        };
        let task = self.shared.admit(owner, Box::pin(job.in_current_span()))?;
        let _cancel = CancelOnDrop(Arc::clone(&task));
        let result = match timeout(MAX_QUEUE_WAIT, &mut result).await {
            Ok(result) => result,
            Err(_) if !task.is_begun.load(Ordering::Acquire) => return Err(JobError::Busy),
            Err(_) => result.await,
        };
        match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(_)) | Err(_) => Err(JobError::Panicked),
        }
    }

    /// Runs a function that never waits, like [`run`](Self::run).
    ///
    /// # Errors
    /// There is no place for the job, it got no turn in time, or it panicked.
    pub async fn compute<T: Send + 'static>(
        &self,
        owner: Owner,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JobError> {
        self.run(owner, async move { work() }).await
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut queue = self.shared.queue();
        queue.is_closed = true;
        let discarded_tasks: Vec<Arc<Task>> =
            queue.owners.values_mut().flat_map(|share| share.ready.drain(..)).collect();
        drop(queue);
        self.shared.changed.notify_all();
        for task in discarded_tasks {
            task.discard();
        }
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    /// Adds a job, if its owner has fewer jobs than there are free places. So one owner alone gets at most half of
    /// the places, the next one at most half of the rest, and a new owner is refused only if no place is free: if
    /// about twelve others have as many jobs as they can.
    fn admit(self: &Arc<Self>, owner: Owner, job: BoxedJob) -> Result<Arc<Task>, JobError> {
        let mut queue = self.queue();
        let free = self.max_jobs.saturating_sub(queue.jobs);
        let share = queue.owners.entry(owner).or_default();
        if share.jobs >= free {
            let is_new = share.jobs == 0;
            if is_new {
                queue.owners.remove(&owner);
            }
            return Err(JobError::Busy);
        }
        share.jobs += 1;
        queue.jobs += 1;
        let task = Arc::new(Task {
            owner,
            shared: Arc::clone(self),
            state: Mutex::new(TaskState::Queued(job)),
            is_begun: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        });
        queue.push(Arc::clone(&task));
        drop(queue);
        self.changed.notify_one();
        Ok(task)
    }

    fn enqueue(&self, task: Arc<Task>) {
        let mut queue = self.queue();
        if queue.is_closed {
            drop(queue);
            task.discard();
            return;
        }
        queue.push(task);
        drop(queue);
        self.changed.notify_one();
    }

    /// Runs jobs on one thread until the pool is closed.
    fn run_thread(&self) {
        let mut queue = self.queue();
        loop {
            if queue.is_closed {
                return;
            }
            let Some(task) = queue.next(self.max_threads_per_owner) else {
                self.changed.wait(&mut queue);
                continue;
            };
            drop(queue);
            let poll_result = task.poll();
            queue = self.queue();
            queue.end_turn(task.owner, poll_result);
            // The owner may have another job, which was waiting for this thread.
            self.changed.notify_one();
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

    /// Returns the next job of the next owner that may use another thread.
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

    /// Records that a thread has polled a job.
    fn end_turn(&mut self, owner: Owner, poll_result: PollResult) {
        if let Some(share) = self.owners.get_mut(&owner) {
            share.running = share.running.saturating_sub(1);
        }
        if poll_result == PollResult::Finished {
            self.remove_job(owner);
        } else {
            self.forget_idle_owner(owner);
        }
    }

    /// Removes a job from the counts.
    fn remove_job(&mut self, owner: Owner) {
        if let Some(share) = self.owners.get_mut(&owner) {
            share.jobs = share.jobs.saturating_sub(1);
            self.jobs = self.jobs.saturating_sub(1);
        }
        self.forget_idle_owner(owner);
    }

    /// Removes a job that nobody waits for.
    fn remove_cancelled(&mut self, task: &Arc<Task>) {
        if let Some(share) = self.owners.get_mut(&task.owner) {
            share.ready.retain(|ready| !Arc::ptr_eq(ready, task));
            if share.ready.is_empty() {
                self.turns.retain(|owner| *owner != task.owner);
            }
        }
        self.remove_job(task.owner);
    }

    /// Removes the share of an owner without jobs.
    fn forget_idle_owner(&mut self, owner: Owner) {
        if self.owners.get(&owner).is_some_and(|share| share.jobs == 0 && share.running == 0) {
            self.owners.remove(&owner);
        }
    }
}

impl Task {
    fn state(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock()
    }

    /// Polls the job once.
    fn poll(self: &Arc<Self>) -> PollResult {
        let job = std::mem::replace(&mut *self.state(), TaskState::Running { is_woken: false });
        let TaskState::Queued(mut job) = job else {
            *self.state() = TaskState::Finished;
            return PollResult::Removed;
        };
        self.is_begun.store(true, Ordering::Release);
        let waker = Waker::from(Arc::clone(self));
        let is_ready = job.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut state = self.state();
        if is_ready || self.is_cancelled.load(Ordering::Acquire) {
            *state = TaskState::Finished;
            drop(state);
            return PollResult::Finished;
        }
        if matches!(*state, TaskState::Running { is_woken: true }) {
            *state = TaskState::Queued(job);
            drop(state);
            self.shared.enqueue(Arc::clone(self));
        } else {
            *state = TaskState::Waiting(job);
        }
        PollResult::Unfinished
    }

    /// Cancels the job: it is dropped now, or when it yields next if it is running.
    fn cancel(self: &Arc<Self>) {
        self.is_cancelled.store(true, Ordering::Release);
        let mut state = self.state();
        let ended = match std::mem::replace(&mut *state, TaskState::Finished) {
            running @ TaskState::Running { .. } => {
                *state = running;
                return;
            }
            TaskState::Finished => return,
            TaskState::Waiting(job) | TaskState::Queued(job) => job,
        };
        drop(state);
        self.shared.queue().remove_cancelled(self);
        drop(ended);
    }

    /// Drops the job when the pool is closed.
    fn discard(&self) {
        let ended = std::mem::replace(&mut *self.state(), TaskState::Finished);
        drop(ended);
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut state = self.state();
        match std::mem::replace(&mut *state, TaskState::Finished) {
            TaskState::Waiting(job) => {
                *state = TaskState::Queued(job);
                drop(state);
                let shared = Arc::clone(&self.shared);
                shared.enqueue(self);
            }
            TaskState::Running { .. } => *state = TaskState::Running { is_woken: true },
            same @ (TaskState::Queued(_) | TaskState::Finished) => *state = same,
        }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Polls a future inside a runtime, so that timers and connections work on any thread.
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
                tokio::spawn(async move { pool.compute(Owner(1), move || finished.lock().recv().is_ok()).await })
            })
            .collect();
        while pool.shared.queue().jobs < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.compute(Owner(1), || 5).await, Err(JobError::Busy), "at once");
        let other = tokio::time::timeout(LONG, pool.compute(Owner(2), || 5)).await;
        assert_eq!(other.expect("another owner does not wait"), Ok(5));
        // One of them has the only thread that its owner may use; the others get no turn, and are refused
        // soon.
        while pool.shared.queue().jobs > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(finish);
        let mut busy = 0;
        for hog in hogs {
            busy += usize::from(hog.await.unwrap() == Err(JobError::Busy));
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
            let hog = move || finished.lock().recv().is_ok();
            tokio::spawn(async move { pool.compute(Owner(1).for_request_size(4 << 20), hog).await });
        }
        while pool.shared.queue().jobs < 4 {
            tokio::task::yield_now().await;
        }
        let small = tokio::time::timeout(LONG, pool.compute(Owner(1).for_request_size(4 << 10), || 5)).await;
        assert_eq!(small.expect("it has turns of its own"), Ok(5));
        drop(finish);
    }

    #[tokio::test]
    async fn a_panic_ends_its_job_and_nothing_else() {
        let pool = Pool::new(1, 8);
        let failed = pool.compute(Owner(1), || assert!(std::hint::black_box(false), "on purpose")).await;
        assert_eq!(failed, Err(JobError::Panicked));
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
