//! A gateway in another process: this program run again, so that it can be killed at a moment of the test's choosing.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use longhaul_engine::Timestamp;
use longhaul_server::gateway::{Gateway, GatewayEnvironment};
use longhaul_server::session::{CompactionEvent, DefaultHost, Host, PendingRemoval};
use longhaul_server::store::{Durability, Store, StoreLocation};
use reqwest::Response;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::ground::{Agent, client, settings, with_window};
use crate::simulator::Simulator;

const TASK: &str = "LONGHAUL_GATEWAY_TASK";
const STORE: &str = "LONGHAUL_GATEWAY_STORE";
const UPSTREAM: &str = "LONGHAUL_GATEWAY_UPSTREAM";
/// The model and the window that all of these tests use.
pub(crate) const MODEL: &str = "claude-sonnet-4-5";
pub(crate) const WINDOW: u64 = 16_000;

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// It answers until it is killed.
    Serve,
    /// It stands still between the plan of a compaction and its commit.
    StopBefore,
    /// It stands still between the commit and the request to the provider.
    StopBehind,
}

impl Task {
    const ALL: [(&str, Self); 3] = [("serve", Self::Serve), ("before", Self::StopBefore), ("behind", Self::StopBehind)];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, task)| *task == self).unwrap().0
    }
}

/// A worker, until it is dropped or killed.
pub(crate) struct Worker {
    child: Child,
    lines: UnboundedReceiver<String>,
    url: String,
    http: reqwest::Client,
}

impl Worker {
    /// Starts one that has nothing in its environment but what it needs.
    pub(crate) async fn start(task: Task, store: &str, simulator: &Simulator) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "worker::as_another_process", "--nocapture", "--test-threads=1"]).env_clear();
        command.env("PATH", "").env(TASK, task.word()).env(STORE, store).env(UPSTREAM, simulator.origin());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = unbounded_channel();
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| said.send(line)));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut worker = Self { child, lines, url: String::new(), http };
        worker.url = worker.hear("at ").await;
        worker
    }

    /// Waits until it says something with this in it, and gives the rest of the line.
    pub(crate) async fn hear(&mut self, words: &str) -> String {
        while let Some(line) = self.lines.recv().await {
            if let Some((_, rest)) = line.split_once(words) {
                return rest.to_owned();
            }
        }
        panic!("the worker ended before it said {words:?}")
    }

    /// Sends what an agent has.
    pub(crate) fn post(&self, agent: &Agent) -> impl Future<Output = reqwest::Result<Response>> + use<> {
        let request = self.http.post(format!("{}/v1/messages", self.url)).body(agent.body().to_string());
        let request = request.header("content-type", "application/json").header("anthropic-version", "2023-06-01");
        request.header("x-api-key", "sk-client-of-the-test").send()
    }

    /// Ends it at once: nothing of it runs any more.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// How many processes it has or had: those that run, and whether it ever waited for one.
    pub(crate) fn children(&self) -> usize {
        let process = format!("/proc/{}", self.child.id());
        let mut running = 0;
        for thread in std::fs::read_dir(format!("{process}/task")).unwrap() {
            let children = std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap_or_default();
            running += children.split_whitespace().count();
        }
        // Behind the name in brackets the ninth number is the page faults of children that ended.
        let stat = std::fs::read_to_string(format!("{process}/stat")).unwrap();
        let faults = stat.rsplit(')').next().unwrap().split_whitespace().nth(8).unwrap();
        running + usize::from(faults != "0")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A host that says where it is, and stays there where it is told to.
struct Halting(Task);

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

impl Halting {
    fn halt(&self, at: Task) {
        if self.0 == at {
            say("halted: here");
            loop {
                std::thread::park();
            }
        }
    }
}

impl Host for Halting {
    fn random_tag(&self) -> Option<String> {
        DefaultHost.random_tag()
    }

    fn before_removal(&self, _: &PendingRemoval<'_>) -> Option<String> {
        self.halt(Task::StopBefore);
        None
    }

    fn after_compaction(&self, _: &CompactionEvent) {
        self.halt(Task::StopBehind);
    }
}

/// Not a test, but what a worker runs: without its environment there is nothing to do.
#[test]
fn as_another_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let (_, task) = Task::ALL.into_iter().find(|(word, _)| *word == task).unwrap();
    let place: StoreLocation = std::env::var(STORE).unwrap().parse().unwrap();
    let settings = with_window(settings(&std::env::var(UPSTREAM).unwrap()), MODEL, WINDOW);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&place, Durability::Normal).await.unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        say(&format!("at http://{}", listener.local_addr().unwrap()));
        let seconds = AtomicI64::new(1_780_000_000_000);
        let clock = Arc::new(move || Timestamp(seconds.fetch_add(1000, Ordering::SeqCst)));
        let gateway =
            Gateway::new(settings, store, client(), GatewayEnvironment { clock, host: Arc::new(Halting(task)) });
        gateway.serve(listener, std::future::pending()).await.unwrap();
    });
}
