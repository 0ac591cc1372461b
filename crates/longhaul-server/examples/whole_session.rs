//! A whole session with a real model: an agent whose transcript outgrows its window several times over. What its calls and their results
//! are is scripted; what the model says, what it counts and what it had cached is its own. `bench/model/session` runs it:
//!
//!     cargo run -p longhaul-server --example whole_session -- http://127.0.0.1:8080 smollm2-135m-instruct 8192 25 0
//!
//! The arguments are a server that speaks Chat Completions, the model's name, what it takes in one request, the number of turns, and how
//! many seconds a turn may wait for a summary.
//! It fails if a request is refused, or if on a turn without a compaction less was cached than all of the prompt before.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a person")]

use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longhaul_engine::Timestamp;
use longhaul_engine::config::{Config, ModelOverride};
use longhaul_engine::models;
use longhaul_engine::plan::WrittenBy;
use longhaul_engine::policy::Policy;
use longhaul_engine::prices::Usage;
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::session::{
    CalibrationErrors, LiveSession, PreparedRequest, RequestAction, SessionSettings, Summarizer, SummaryModels,
    SummaryWriter,
};
use longhaul_server::upstream::{
    Client, ClientOptions, ModelClient, Payer, Provider, ProxyMode, SummaryRequest, SummaryRequestBody, Timeouts,
    Upstream,
};
use serde_json::{Value, json};

/// The window that the session keeps to: small, so that a few turns fill it.
const WINDOW: Tokens = Tokens(4_096);
/// The longest reply.
const REPLY: u64 = 40;
/// A server may count the opening of the reply anew; everything before it has the same bytes.
const SLACK: u64 = 8;
/// A small model on a busy machine takes its time.
const PATIENCE: Duration = Duration::from_mins(10);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(account) => account.conclude(),
        Err(reason) => {
            eprintln!("whole_session: {reason}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<Account, String> {
    let typed = Typed::read(std::env::args().skip(1))?;
    let provider = Provider::named("compatible").ok_or("there is no such provider")?;
    let upstream = Arc::new(Upstream::new(provider, Some(&format!("{}/v1", typed.address)), None)?);
    let (proxies, dice) = (ProxyMode::Direct, Arc::new(|| u32::MAX / 2));
    let network = ClientOptions { proxies, connect_timeout: Duration::from_secs(10), random_bits: dice };
    let client = Arc::new(Client::new(network)?);
    let now = || Timestamp::from(SystemTime::now());

    let models = Arc::<Client>::clone(&client);
    let mut session = LiveSession::new(typed.settings(&upstream)?).with_models(models);
    let (mut agent, mut account) = (Agent::new(), Account::default());
    println!("{:>4} {:>7} {:>9} {:>7}  action", "turn", "prompt", "unchanged", "cached");
    for number in 1..=typed.turns {
        let body = agent.body(&typed.model);
        let turn = session.prepare_request(&body, now()).await;
        turn.notices.iter().for_each(|line| eprintln!("· {line}"));
        let done = Done::of(&turn);
        let asked = SummaryRequestBody::Raw { api_format: ApiFormat::Chat, body: turn.body.into_owned() };
        let question = SummaryRequest::new(Arc::clone(&upstream), asked, Timeouts::with_total(PATIENCE));
        let answer = client.ask(question).await;
        let reply = answer.map_err(|error| format!("turn {number} was refused: {error}"))?;
        let usage = reply.usage.ok_or("the server does not say what a request came to")?;
        account.enter(number, done, &usage);
        account.errors = session.record_reply(&usage).await.errors;
        agent.step(&reply.text);
    }
    Ok(account)
}

/// What was typed.
struct Typed {
    address: String,
    model: String,
    takes: Tokens,
    turns: usize,
    wait: Duration,
}

impl Typed {
    fn read(mut typed: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut next = |what: &str| typed.next().ok_or(format!("{what} is missing"));
        let (address, model) = (next("the address of a server")?, next("the name of a model")?);
        let takes = Tokens(number(&next("what the model takes")?)?);
        let turns = number(&next("the number of turns")?)?;
        let wait = Duration::from_secs(number(&next("how long a turn may wait")?)?);
        Ok(Self { address, model, takes, turns, wait })
    }

    /// The session's own window is smaller than what the same model takes when it is asked for a summary.
    fn settings(&self, upstream: &Arc<Upstream>) -> Result<SessionSettings, String> {
        let whole = self.stated(self.takes);
        let (policy, _) = Policy::new(&whole, &models::find(&self.model)).map_err(|invalid| invalid.to_string())?;
        let timeouts = Timeouts::with_total(PATIENCE);
        let (upstream, payer) = (Arc::clone(upstream), Payer::Upstream);
        let writer = SummaryWriter { model: policy.model, price: None, upstream, payer, timeouts };
        let summarizer = Summarizer::Model(SummaryModels::auxiliary(writer));
        let (config, model) = (self.stated(WINDOW), self.model.clone());
        Ok(SessionSettings { config, model, summarizer, max_summary_wait: self.wait, ..SessionSettings::default() })
    }

    /// A configuration in which the model has this window.
    fn stated(&self, window: Tokens) -> Config {
        let mut config = Config::default();
        let stated = ModelOverride { context_length: Some(window), ..ModelOverride::default() };
        config.models.insert(self.model.clone(), stated);
        config
    }
}

fn number<N: FromStr>(typed: &str) -> Result<N, String> {
    typed.parse().map_err(|_| format!("{typed} is no number"))
}

/// What the session did with a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Nothing,
    Replayed,
    /// Compacted; by whom the checkpoint is, where one was needed.
    Compacted(Option<WrittenBy>),
}

impl Done {
    fn of(turn: &PreparedRequest<'_>) -> Self {
        let checkpoint = turn.report.as_ref().and_then(|report| report.checkpoint);
        match turn.action {
            RequestAction::Unchanged => Self::Nothing,
            RequestAction::Replayed => Self::Replayed,
            RequestAction::Compacted => Self::Compacted(checkpoint.map(|made| made.by)),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Replayed => "replayed",
            Self::Compacted(Some(WrittenBy::Model)) => "compacted: a checkpoint by the model",
            Self::Compacted(Some(WrittenBy::Code | WrittenBy::Plugin | WrittenBy::Fallback)) => {
                "compacted: a checkpoint by code"
            }
            Self::Compacted(None) => "compacted: shorter tool outputs",
        }
    }
}

/// What all turns came to, by the server's own counts.
#[derive(Default)]
struct Account {
    compactions: Vec<Done>,
    /// The turns without a compaction: their prompts, what of that was cached,
    prompts: u64,
    cached: u64,
    /// how many of them had a prompt before them, and how many of those prompts were cached to their end.
    prefixes: usize,
    kept: usize,
    /// The prompt before.
    before: Option<u64>,
    errors: Option<CalibrationErrors>,
}

impl Account {
    fn enter(&mut self, number: usize, done: Done, usage: &Usage) {
        let [prompt, cached] = [usage.input, usage.read].map(|tokens| tokens.unwrap_or_default().number());
        let is_compacted = matches!(done, Done::Compacted(_));
        let unchanged = self.before.filter(|_| !is_compacted);
        if is_compacted {
            self.compactions.push(done);
        } else {
            (self.prompts, self.cached) = (self.prompts + prompt, self.cached + cached);
        }
        if let Some(unchanged) = unchanged {
            self.prefixes += 1;
            self.kept += usize::from(cached + SLACK >= unchanged);
        }
        let shown = unchanged.map_or("-".to_owned(), |tokens| tokens.to_string());
        println!("{number:>4} {prompt:>7} {shown:>9} {cached:>7}  {}", done.words());
        self.before = Some(prompt);
    }

    fn conclude(&self) -> ExitCode {
        let Self { compactions, prompts, cached, prefixes, kept, .. } = self;
        println!("\ncompactions: {}", compactions.len());
        let mut left = compactions.clone();
        while let Some(kind) = left.first().copied() {
            let all = left.len();
            left.retain(|other| *other != kind);
            println!("  {}: {}", kind.words(), all - left.len());
        }
        let share = 100 * cached / prompts.max(&1);
        println!("prompt tokens on turns without a compaction: {prompts}, of which cached: {cached}, {share} %");
        println!("unchanged prefixes that stayed cached: {kept} of {prefixes}");
        if let Some(CalibrationErrors { before, after, .. }) = self.errors {
            let [before, after] = [before, after].map(|share| 100.0 * share);
            println!("our counts are off by {before:.1} %, corrected by the server's reports by {after:.1} %");
        }
        if kept == prefixes { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// An agent at work on a small program for a lending library. It says what the model says, and does what stands here.
struct Agent {
    messages: Vec<Value>,
    steps: usize,
}

/// The parts of the program.
const PARTS: [&str; 7] = ["loans", "shelves", "readers", "fines", "search", "import", "reports"];

/// What the user wants, one thing after the other.
const WISHES: [&str; 4] = [
    "Fines must be counted in whole cents. Never change a file under migrations/. Find out where the rounding goes wrong.",
    "Good. Now a reader who has moved must keep the loans; look at how readers are merged, and say what is missing.",
    "The report of last month shows 17 loans too many. Look for the query, and run its tests before you change anything.",
    "The import breaks on an empty line. Make it skip those, and tell me which tests you ran.",
];

/// So many steps after a wish there is an answer, and the next wish.
const STEPS: usize = 6;

impl Agent {
    fn new() -> Self {
        let system = "You are an agent that works on a program for a lending library. Say in one or two sentences what you do next.";
        let messages =
            vec![json!({"role": "system", "content": system}), json!({"role": "user", "content": WISHES[0]})];
        Self { messages, steps: 0 }
    }

    fn body(&self, model: &str) -> String {
        json!({"model": model, "messages": self.messages, "max_tokens": REPLY, "temperature": 0}).to_string()
    }

    /// What follows upon a reply: the call that goes with it and its result, or the user's next wish.
    fn step(&mut self, reply: &str) {
        self.steps += 1;
        let n = self.steps;
        if n.is_multiple_of(STEPS) {
            let said = if reply.trim().is_empty() { "Done." } else { reply };
            self.messages.push(json!({"role": "assistant", "content": said}));
            self.messages.push(json!({"role": "user", "content": WISHES[n / STEPS % WISHES.len()]}));
            return;
        }
        let part = PARTS[n % PARTS.len()];
        let (tool, arguments, result) = match n % 3 {
            0 => ("run_tests", json!({"filter": part}), tests(part, n)),
            1 => ("read_file", json!({"path": format!("src/{part}.rs"), "from": n * 20}), source(part, n)),
            _ => ("grep", json!({"pattern": format!("{part}_of")}), places(part, n)),
        };
        let id = format!("call_{n}");
        let function = json!({"name": tool, "arguments": arguments.to_string()});
        let call = json!({"id": id, "type": "function", "function": function});
        self.messages.push(json!({"role": "assistant", "content": reply, "tool_calls": [call]}));
        self.messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
    }
}

fn source(part: &str, n: usize) -> String {
    let line = |k: usize| match k % 4 {
        0 => format!("pub fn {part}_of(reader: u32, day: u32) -> u64 {{"),
        1 => format!("    let base = table.get(reader + {}).copied().unwrap_or({});", k * 3 + n, n * 7),
        2 => format!("    base * {} + u64::from(day) / {}", k + 2, n + 5),
        _ => "}".to_owned(),
    };
    lines((0..16).map(|k| format!("{:>4}  {}", n * 20 + k, line(k))))
}

fn tests(part: &str, n: usize) -> String {
    let result = |k: usize| if k == n % 8 { "FAILED" } else { "ok" };
    let each = (0..12).map(|k| format!("test {part}::case_{:02} ... {}", k + n, result(k)));
    let end = format!("{part}::case_{:02}: expected {} cents, found {}\nexit code: 101", n % 8 + n, n * 31, n * 31 + 1);
    lines(each) + &end
}

fn places(part: &str, n: usize) -> String {
    let place = |k: usize| {
        let file = PARTS[(n + k) % PARTS.len()];
        format!("src/{file}.rs:{}: let due = {part}_of(reader, day + {k});", n * 13 + k * 29)
    };
    lines((0..12).map(place))
}

fn lines(each: impl Iterator<Item = String>) -> String {
    each.map(|line| line + "\n").collect()
}
