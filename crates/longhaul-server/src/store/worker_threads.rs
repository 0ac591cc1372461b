//! The threads that run database work. Each has its own connection and takes jobs from a bounded queue.
//!
//! Nothing else runs on these threads, and jobs wait only for the database, so a job can never wait for
//! itself. A job that panics is rolled back and its caller gets an error; the thread continues.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::error::{Result, StoreError};

/// The jobs that may wait in the queue. Further callers wait until there is room. Chosen by hand.
const MAX_QUEUED_JOBS: usize = 1024;

type Job<C> = Box<dyn FnOnce(&mut C) + Send>;

/// A group of threads with one queue. Each thread has its own `C`, such as a database connection.
pub(super) struct WorkerThreads<C> {
    jobs: Option<mpsc::Sender<Job<C>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<C: Send + 'static> WorkerThreads<C> {
    /// Starts one thread for each element of `connections`. After a job that panicked, the thread calls `repair`
    /// on its element.
    pub(super) fn start(name: &str, connections: Vec<C>, repair: fn(&mut C)) -> Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job<C>>(MAX_QUEUED_JOBS);
        let queue = Arc::new(Mutex::new(queue));
        let mut threads = Vec::new();
        for mut connection in connections {
            let queue = Arc::clone(&queue);
            let next = move || queue.lock().blocking_recv();
            let run = move || {
                while let Some(job) = next() {
                    if catch_unwind(AssertUnwindSafe(|| job(&mut connection))).is_err() {
                        repair(&mut connection);
                    }
                }
            };
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(run)
                .map_err(|error| StoreError::Failed(format!("a thread for the store cannot be started: {error}")))?;
            threads.push(thread);
        }
        Ok(Self { jobs: Some(jobs), threads })
    }

    /// Runs a job on one of the threads. If nobody waits for the job any more when its turn comes, it is
    /// skipped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut C) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let job = move |connection: &mut C| {
            if !reply.is_closed() {
                let _ = reply.send(job(connection));
            }
        };
        let internal_error = || StoreError::Failed("an internal error interrupted work on the store".to_owned());
        let jobs = self.jobs.as_ref().ok_or_else(internal_error)?;
        jobs.send(Box::new(job)).await.map_err(|_| internal_error())?;
        answer.await.unwrap_or_else(|_| Err(internal_error()))
    }
}

/// Waits until all jobs have finished and the connections are closed.
impl<C> Drop for WorkerThreads<C> {
    fn drop(&mut self) {
        drop(self.jobs.take());
        let this_thread = thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != this_thread) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn after_a_job_that_panics_the_connection_is_repaired_and_the_next_job_is_done() {
        let threads = WorkerThreads::start("test", vec![0_u32], |number| *number = 40).unwrap();
        let result = threads
            .run(|number| {
                *number = 9;
                assert!(std::hint::black_box(false), "on purpose");
                Ok(())
            })
            .await;
        assert!(matches!(result, Err(StoreError::Failed(_))), "{result:?}");
        assert_eq!(threads.run(|number| Ok(*number + 2)).await.unwrap(), 42);
    }
}
