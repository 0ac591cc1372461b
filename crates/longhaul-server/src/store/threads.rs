//! The threads on which a database is worked with: each has a connection of its own, and takes jobs from a bounded queue.
//!
//! Nothing else runs on these threads, and jobs wait for nothing but the database, so that who waits for a job never waits for
//! itself. A job that panics is undone and costs its caller an error; the thread goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, oneshot};

use super::error::{Result, StoreError};

/// Jobs that wait at once; whoever has one more waits until there is room.
const MAX_WAITING: usize = 1024;

type Job<C> = Box<dyn FnOnce(&mut C) + Send>;

/// A group of threads with one queue. `C` is what each thread works with.
pub(super) struct Threads<C> {
    jobs: Option<mpsc::Sender<Job<C>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<C: Send + 'static> Threads<C> {
    /// One thread for each of what is worked with. After a job that panicked, `mend` puts things right.
    pub(super) fn start(name: &str, desks: Vec<C>, mend: fn(&mut C)) -> Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job<C>>(MAX_WAITING);
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for mut desk in desks {
            let queue = Arc::clone(&queue);
            let next = move || queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
            let run = move || {
                while let Some(job) = next() {
                    if catch_unwind(AssertUnwindSafe(|| job(&mut desk))).is_err() {
                        mend(&mut desk);
                    }
                }
            };
            let thread = thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|error| {
                StoreError::Failed(format!("a thread for the store cannot be started: {error}"))
            })?;
            threads.push(thread);
        }
        Ok(Self { jobs: Some(jobs), threads })
    }

    /// Does a job on one of the threads. A job that nobody waits for any more when its turn comes is left undone.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut C) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let job = move |desk: &mut C| {
            if !reply.is_closed() {
                let _ = reply.send(job(desk));
            }
        };
        let broken = || StoreError::Failed("an internal error broke off work on the store".to_owned());
        let jobs = self.jobs.as_ref().ok_or_else(broken)?;
        jobs.send(Box::new(job)).await.map_err(|_| broken())?;
        answer.await.unwrap_or_else(|_| Err(broken()))
    }
}

/// Waits until what was begun is done and the connections are closed.
impl<C> Drop for Threads<C> {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let own = thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != own) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_that_panics_is_mended_and_the_next_is_done() {
        let threads = Threads::start("test", vec![0_u32], |number| *number = 40).unwrap();
        let broken = threads
            .run(|number| {
                *number = 9;
                assert!(std::hint::black_box(false), "on purpose");
                Ok(())
            })
            .await;
        assert!(matches!(broken, Err(StoreError::Failed(_))), "{broken:?}");
        assert_eq!(threads.run(|number| Ok(*number + 2)).await.unwrap(), 42);
    }
}
