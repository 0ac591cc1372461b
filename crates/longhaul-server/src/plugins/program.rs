//! A program from start to end, over as many processes as it takes: one thread, one call at a time. After a crash it rests, each time
//! longer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use longhaul_engine::redact::Rules;
use serde::Serialize;
use serde_json::{Value, json};

use super::manifest::Manifest;
use super::process::{Process, Silence};
use super::protocol::{Hello, Line, Method, Reply, VERSION};
use crate::agents::Moment;

/// Calls that may wait for one that is under way.
const WAITING: usize = 64;
/// How long it rests after a first crash; then twice as long each time,
const FIRST_REST: Duration = Duration::from_secs(1);
/// up to this.
const LONGEST_REST: Duration = Duration::from_mins(1);

/// The share of what a call may take, waiting for others included, that the program itself may take of it.
const OF_ITS_OWN: f64 = 0.75;

/// What the world around a plug-in is like.
#[derive(Clone)]
pub struct World {
    /// What time it is: how long it still rests goes by it.
    pub clock: Arc<dyn Fn() -> Moment + Send + Sync>,
    /// The variables of which it may see a few.
    pub environment: Vec<(String, String)>,
    /// What counts as a secret in what it says to its log.
    pub rules: Rules,
    /// The longest that a call may take, whatever its manifest says, and waiting for others included.
    pub longest: Duration,
}

/// A program.
pub(super) struct Program {
    longest: Duration,
    jobs: SyncSender<Job>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

/// The answer to a call; nothing where a program cannot do what is asked.
type Answer = Result<Option<Value>, String>;

enum Job {
    Call { method: Method, params: String, latest: Instant, answer: SyncSender<Answer> },
    Tell { method: Method, params: Value },
    End,
}

impl Program {
    pub(super) fn new(manifest: Manifest, world: World) -> Self {
        let longest = world.longest;
        let limit = manifest.time_limit().min(longest.mul_f64(OF_ITS_OWN));
        let (jobs, waiting) = sync_channel(WAITING);
        let worker = Worker { manifest, world, limit, running: None, crashes: 0, rests: None };
        let worker = Mutex::new(Some(thread::spawn(move || worker.work(&waiting))));
        Self { longest, jobs, worker }
    }

    /// Asks it something, and waits for the answer as long as a call may take.
    pub(super) fn call(&self, method: Method, params: &impl Serialize) -> Answer {
        let params = serde_json::to_string(params).map_err(|error| error.to_string())?;
        let latest = Instant::now() + self.longest;
        let (answer, answered) = sync_channel(1);
        match self.jobs.try_send(Job::Call { method, params, latest, answer }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err("is busy with others".to_owned()),
            Err(TrySendError::Disconnected(_)) => return Err("has been ended".to_owned()),
        }
        match answered.recv_timeout(self.longest) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err("is busy with others".to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err("has been ended".to_owned()),
        }
    }

    /// Tells it something, if it runs and listens. Nobody waits.
    pub(super) fn tell(&self, method: Method, params: Value) {
        let _ = self.jobs.try_send(Job::Tell { method, params });
    }

    /// Ends it, and all that it started.
    pub(super) fn end(&self) {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker {
            let _ = self.jobs.send(Job::End);
            let _ = worker.join();
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.end();
    }
}

/// Who speaks with it.
struct Worker {
    manifest: Manifest,
    world: World,
    limit: Duration,
    running: Option<Running>,
    crashes: u32,
    rests: Option<Rest>,
}

/// A rest after a crash.
struct Rest {
    until: Moment,
    /// What it rests from.
    why: String,
}

/// A process that said hello.
struct Running {
    process: Process,
    hello: Hello,
    calls: u64,
}

/// Why a call has no result.
enum Failed {
    /// It says so itself.
    Told(String),
    /// It cannot be spoken with any more.
    Broken(Silence),
}

impl From<Silence> for Failed {
    fn from(why: Silence) -> Self {
        Self::Broken(why)
    }
}

impl Worker {
    fn work(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Call { method, params, latest, answer } => {
                    // Whoever asked may have gone.
                    let _ = answer.send(self.answer(method, &params, latest));
                }
                Job::Tell { method, params } => self.tell(method, &params),
                Job::End => return,
            }
        }
    }

    fn answer(&mut self, method: Method, params: &str, latest: Instant) -> Answer {
        let deadline = Instant::now() + self.limit;
        // It is not to blame for the time that others took.
        if deadline > latest {
            return Err("is busy with others".to_owned());
        }
        let answered = self.running(deadline).and_then(|running| match method {
            Method::Hello => Ok(Some(Value::Null)),
            _ if !running.hello.can(method) => Ok(None),
            _ => running.ask(method, params, deadline)?.map(Some).map_err(Failed::Told),
        });
        match answered {
            Ok(answer) => {
                if method == Method::Compress {
                    self.crashes = 0;
                }
                Ok(answer)
            }
            Err(Failed::Told(why)) => Err(why),
            Err(Failed::Broken(why)) => {
                let why = self.in_words(why);
                self.broke(&why);
                Err(why)
            }
        }
    }

    /// The process that runs, or a new one if it may.
    fn running(&mut self, deadline: Instant) -> Result<&mut Running, Failed> {
        if let Some(running) = self.running.take() {
            return Ok(self.running.insert(running));
        }
        if let (Some(left), Some(rest)) = (self.rest(), &self.rests) {
            let (left, why) = (left.as_secs_f64().ceil(), &rest.why);
            return Err(Failed::Told(format!("{why}, and rests for {left} s more")));
        }
        let running = Running::start(&self.manifest, &self.world, deadline)?;
        Ok(self.running.insert(running))
    }

    /// How long it still rests.
    fn rest(&self) -> Option<Duration> {
        let left = self.rests.as_ref()?.until.0 - (self.world.clock)().0;
        u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_millis)
    }

    fn in_words(&self, why: Silence) -> String {
        match why {
            Silence::TimeOut => format!("gave no answer within {} ms and was ended", self.limit.as_millis()),
            Silence::Wrong(why) => why,
        }
    }

    /// It is ended, and rests.
    fn broke(&mut self, why: &str) {
        self.running = None;
        let rest = FIRST_REST.saturating_mul(1 << self.crashes.min(16)).min(LONGEST_REST);
        self.crashes += 1;
        let until = (self.world.clock)().0.saturating_add(rest.as_millis() as i64);
        self.rests = Some(Rest { until: Moment(until), why: why.to_owned() });
        let (plugin, seconds) = (&self.manifest.name, rest.as_secs());
        tracing::warn!("plug-in {plugin}: {why}; it rests for {seconds} s");
    }

    fn tell(&mut self, method: Method, params: &Value) {
        let Some(running) = self.running.as_ref().filter(|running| running.hello.can(method)) else { return };
        if let Ok(line) = serde_json::to_string(&Line { id: None, method, params }) {
            // What it does not read now it need not know.
            let _ = running.process.tell(line + "\n");
        }
    }
}

impl Running {
    /// Starts a process, and hears who it is.
    fn start(manifest: &Manifest, world: &World, deadline: Instant) -> Result<Self, Silence> {
        let process = Process::start(manifest, &world.environment, &world.rules).map_err(Silence::Wrong)?;
        let hello =
            Hello { name: String::new(), protocol: 0, version: String::new(), capabilities: Vec::new() };
        let mut running = Self { process, hello, calls: 0 };
        let ours = json!({"protocol": VERSION, "longhaul": env!("CARGO_PKG_VERSION")}).to_string();
        let said = running.ask(Method::Hello, &ours, deadline)?;
        let said = said.map_err(|told| Silence::Wrong(format!("did not say hello: {told}")))?;
        let hello: Hello = serde_json::from_value(said)
            .map_err(|error| Silence::Wrong(format!("did not say hello as it should: {error}")))?;
        if hello.protocol != VERSION {
            let theirs = hello.protocol;
            return Err(Silence::Wrong(format!("speaks protocol {theirs}, and this program {VERSION}")));
        }
        if hello.name != manifest.name {
            return Err(Silence::Wrong(format!("says that it is '{}'", hello.name)));
        }
        tracing::info!(plugin = hello.name, version = hello.version, "it was started");
        Ok(Self { hello, ..running })
    }

    /// One question and its answer, or what the program says is wrong.
    fn ask(
        &mut self,
        method: Method,
        params: &str,
        deadline: Instant,
    ) -> Result<Result<Value, String>, Silence> {
        self.calls += 1;
        let wrong = |error: serde_json::Error| Silence::Wrong(format!("answered with no reply: {error}"));
        let params: &serde_json::value::RawValue = serde_json::from_str(params).map_err(wrong)?;
        let line = Line { id: Some(self.calls), method, params: &params };
        let line = serde_json::to_string(&line).map_err(wrong)?;
        self.process.tell(line + "\n").map_err(Silence::Wrong)?;
        let reply: Reply = serde_json::from_str(&self.process.hear(deadline)?).map_err(wrong)?;
        if reply.id != self.calls {
            let (theirs, ours) = (reply.id, self.calls);
            return Err(Silence::Wrong(format!("answered call {theirs} where {ours} was asked")));
        }
        Ok(match reply {
            Reply { error: Some(told), .. } => Err(told),
            Reply { result: Some(result), .. } => Ok(result),
            _ => return Err(Silence::Wrong("answered with neither a result nor an error".to_owned())),
        })
    }
}
