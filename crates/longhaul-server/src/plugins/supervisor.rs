//! Supervises a program: one thread, one call at a time. After a crash it pauses, each time longer, and
//! starts the program again at the first call after the pause.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longhaul_engine::redact::Rules;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use super::manifest::Manifest;
use super::process::{Process, ProcessError};
use super::protocol::{Hello, Method, OutgoingMessage, PROTOCOL_VERSION, PluginReply};
use longhaul_engine::Timestamp;

/// The number of calls that may wait for the current one. Chosen by hand, like the numbers below.
const MAX_WAITING_CALLS: usize = 64;
/// The pause after the first crash; each further one is twice as long.
const FIRST_CRASH_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause after a crash.
const MAX_CRASH_PAUSE: Duration = Duration::from_mins(1);

/// The share of a call's maximum time that the program itself may use. The rest is for waiting until other
/// calls end.
const PROGRAM_TIME_SHARE: f64 = 0.75;

/// The environment of a plug-in, which the caller passes in.
#[derive(Clone)]
pub struct PluginContext {
    /// Returns the current time, for the pauses after crashes.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// The environment variables, of which the program gets only a few.
    pub environment: Vec<(String, String)>,
    /// The rules that recognize secrets in the program's log.
    pub rules: Rules,
    /// The maximum time of a call, including waiting for other calls. A manifest can only lower it.
    pub max_call_time: Duration,
}

/// A handle to the thread that supervises a program.
pub(super) struct Supervisor {
    max_call_time: Duration,
    jobs: SyncSender<WorkerJob>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

/// The result of a call; `None` if the program does not support the method. The error continues a sentence that
/// begins with the name of the plug-in.
type CallResult = Result<Option<Value>, String>;

enum WorkerJob {
    Call { method: Method, params: String, give_up_at: Instant, answer: SyncSender<CallResult> },
    Notify { method: Method, params: Value },
    Stop,
}

impl Supervisor {
    pub(super) fn new(manifest: Manifest, context: PluginContext) -> Self {
        let max_call_time = context.max_call_time;
        let limit = manifest.time_limit().min(max_call_time.mul_f64(PROGRAM_TIME_SHARE));
        let (jobs, job_receiver) = sync_channel(MAX_WAITING_CALLS);
        let worker = Worker { manifest, context, call_time_limit: limit, process: None, crashes: 0, crash_pause: None };
        let worker = Mutex::new(Some(thread::spawn(move || worker.run(&job_receiver))));
        Self { max_call_time, jobs, worker }
    }

    /// Calls the program, and waits for the answer until the maximum time of a call.
    pub(super) fn call(&self, method: Method, params: &impl Serialize) -> CallResult {
        let params = serde_json::to_string(params).map_err(|error| error.to_string())?;
        let give_up_at = Instant::now() + self.max_call_time;
        let (answer, answered) = sync_channel(1);
        match self.jobs.try_send(WorkerJob::Call { method, params, give_up_at, answer }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err("is busy with other calls".to_owned()),
            Err(TrySendError::Disconnected(_)) => return Err("was stopped".to_owned()),
        }
        match answered.recv_timeout(self.max_call_time) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err("is busy with other calls".to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err("was stopped".to_owned()),
        }
    }

    /// Sends a notification if the program runs. It does not wait.
    pub(super) fn notify(&self, method: Method, params: Value) {
        let _ = self.jobs.try_send(WorkerJob::Notify { method, params });
    }

    /// Stops the program and everything that it started.
    pub(super) fn stop(&self) {
        let worker = self.worker.lock().take();
        if let Some(worker) = worker {
            let _ = self.jobs.send(WorkerJob::Stop);
            let _ = worker.join();
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The state of the supervising thread.
struct Worker {
    manifest: Manifest,
    context: PluginContext,
    call_time_limit: Duration,
    process: Option<RunningProcess>,
    crashes: u32,
    crash_pause: Option<CrashPause>,
}

/// A pause after a crash.
struct CrashPause {
    until: Timestamp,
    /// The reason of the crash.
    reason: String,
}

/// A process that has answered the first call.
struct RunningProcess {
    process: Process,
    hello: Hello,
    call_count: u64,
}

/// The reason why a call has no result.
enum CallError {
    /// The program, or the supervisor in its place, reports an error.
    Reported(String),
    /// The process no longer works, and must be stopped.
    Broken(ProcessError),
}

impl From<ProcessError> for CallError {
    fn from(reason: ProcessError) -> Self {
        Self::Broken(reason)
    }
}

impl Worker {
    fn run(mut self, jobs: &Receiver<WorkerJob>) {
        while let Ok(job) = jobs.recv() {
            match job {
                WorkerJob::Call { method, params, give_up_at, answer } => {
                    // The caller may have stopped waiting.
                    let _ = answer.send(self.answer_call(method, &params, give_up_at));
                }
                WorkerJob::Notify { method, params } => self.notify(method, &params),
                WorkerJob::Stop => return,
            }
        }
    }

    fn answer_call(&mut self, method: Method, params: &str, give_up_at: Instant) -> CallResult {
        let deadline = Instant::now() + self.call_time_limit;
        // The program is not to blame for the time that other calls took.
        if deadline > give_up_at {
            return Err("is busy with other calls".to_owned());
        }
        let answered = self.running_process(deadline).and_then(|running| match method {
            Method::Hello => Ok(Some(Value::Null)),
            _ if !running.hello.supports(method) => Ok(None),
            _ => running.call(method, params, deadline)?.map(Some).map_err(CallError::Reported),
        });
        match answered {
            Ok(answer) => {
                if method == Method::Compress {
                    self.crashes = 0;
                }
                Ok(answer)
            }
            Err(CallError::Reported(reason)) => Err(reason),
            Err(CallError::Broken(reason)) => {
                let reason = self.describe_error(reason);
                self.handle_crash(&reason);
                Err(reason)
            }
        }
    }

    /// Returns the running process; starts one if there is none and no pause is on.
    fn running_process(&mut self, deadline: Instant) -> Result<&mut RunningProcess, CallError> {
        if let Some(running) = self.process.take() {
            return Ok(self.process.insert(running));
        }
        if let (Some(remaining), Some(pause)) = (self.remaining_pause(), &self.crash_pause) {
            let (remaining, reason) = (remaining.as_secs_f64().ceil(), &pause.reason);
            return Err(CallError::Reported(format!("{reason}; paused for {remaining} s more")));
        }
        let running = RunningProcess::start(&self.manifest, &self.context, deadline)?;
        Ok(self.process.insert(running))
    }

    /// Returns the remaining pause.
    fn remaining_pause(&self) -> Option<Duration> {
        let remaining = self.crash_pause.as_ref()?.until.0 - (self.context.clock)().0;
        u64::try_from(remaining).ok().filter(|remaining| *remaining > 0).map(Duration::from_millis)
    }

    fn describe_error(&self, reason: ProcessError) -> String {
        match reason {
            ProcessError::TimedOut => {
                format!("did not reply within {} ms and was stopped", self.call_time_limit.as_millis())
            }
            ProcessError::Failed(reason) => reason,
        }
    }

    /// Stops the process and starts a pause.
    fn handle_crash(&mut self, reason: &str) {
        self.process = None;
        let pause = FIRST_CRASH_PAUSE.saturating_mul(1 << self.crashes.min(16)).min(MAX_CRASH_PAUSE);
        self.crashes += 1;
        let until = (self.context.clock)().0.saturating_add(pause.as_millis() as i64);
        self.crash_pause = Some(CrashPause { until: Timestamp(until), reason: reason.to_owned() });
        let (plugin, seconds) = (&self.manifest.name, pause.as_secs());
        tracing::warn!("plug-in {plugin}: {reason}; paused for {seconds} s");
    }

    fn notify(&mut self, method: Method, params: &Value) {
        let Some(running) = self.process.as_ref().filter(|running| running.hello.supports(method)) else {
            return;
        };
        if let Ok(line) = serde_json::to_string(&OutgoingMessage { id: None, method, params }) {
            // A notification that cannot be sent now is dropped.
            let _ = running.process.send_line(line + "\n");
        }
    }
}

impl RunningProcess {
    /// Starts a process, makes the first call, and checks the answer.
    fn start(manifest: &Manifest, context: &PluginContext, deadline: Instant) -> Result<Self, ProcessError> {
        let process = Process::start(manifest, &context.environment, &context.rules).map_err(ProcessError::Failed)?;
        let hello = Hello { name: String::new(), protocol: 0, version: String::new(), capabilities: Vec::new() };
        let mut running = Self { process, hello, call_count: 0 };
        let own_hello = json!({"protocol": PROTOCOL_VERSION, "longhaul": env!("CARGO_PKG_VERSION")}).to_string();
        let reply = running.call(Method::Hello, &own_hello, deadline)?;
        let reply = reply.map_err(|error| ProcessError::Failed(format!("failed the hello call: {error}")))?;
        let hello: Hello = serde_json::from_value(reply)
            .map_err(|error| ProcessError::Failed(format!("sent an invalid reply to hello: {error}")))?;
        if hello.protocol != PROTOCOL_VERSION {
            let version = hello.protocol;
            return Err(ProcessError::Failed(format!(
                "supports protocol {version}, but Longhaul needs {PROTOCOL_VERSION}"
            )));
        }
        if hello.name != manifest.name {
            return Err(ProcessError::Failed(format!("reports the name '{}'", hello.name)));
        }
        tracing::info!(plugin = hello.name, version = hello.version, "plug-in started");
        Ok(Self { hello, ..running })
    }

    /// Makes one call. The inner error is one that the program reports.
    fn call(&mut self, method: Method, params: &str, deadline: Instant) -> Result<Result<Value, String>, ProcessError> {
        self.call_count += 1;
        let invalid = |error: serde_json::Error| ProcessError::Failed(format!("sent an invalid reply: {error}"));
        let params: &serde_json::value::RawValue = serde_json::from_str(params).map_err(invalid)?;
        let line = OutgoingMessage { id: Some(self.call_count), method, params: &params };
        let line = serde_json::to_string(&line).map_err(invalid)?;
        self.process.send_line(line + "\n").map_err(ProcessError::Failed)?;
        let reply: PluginReply = serde_json::from_str(&self.process.receive_line(deadline)?).map_err(invalid)?;
        if reply.id != self.call_count {
            let (theirs, ours) = (reply.id, self.call_count);
            return Err(ProcessError::Failed(format!("replied to call {theirs} instead of {ours}")));
        }
        Ok(match reply {
            PluginReply { error: Some(message), .. } => Err(message),
            PluginReply { result: Some(result), .. } => Ok(result),
            _ => return Err(ProcessError::Failed("replied with neither a result nor an error".to_owned())),
        })
    }
}
