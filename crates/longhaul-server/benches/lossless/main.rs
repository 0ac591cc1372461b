//! Whether a session as long as many stays small, keeps what is needed, and costs no more the longer it is.
//!
//!     bench/lossless/session.py FOLDER
//!     cargo bench -p longhaul-server --bench lossless -- FOLDER --engine compressor --client whole
//!
//! The session is sent request by request to one with a store in a file, in a window of 64,000 tokens. `--client view` goes on from
//! what was sent in place of its request, `--client whole` sends all of its own history each time. `--tokens` ends it earlier, and
//! `--without-values` asks nothing. What it gave, and what the words mean, is in `bench/lossless/README.md`.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "a measurement, run by hand")]

#[path = "../held/mod.rs"]
mod held;
mod replay;
mod tenths;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::config::{Config, ModelOverride};
use longhaul_engine::keyed_hash::HashChainCache;
use longhaul_engine::prices::Usage;
use longhaul_engine::{Tokens, wire};
use longhaul_server::recall::RecallScope;
use longhaul_server::session::{IncomingRequest, LiveSession, RequestAction, SessionSettings};
use longhaul_server::store::{Durability, Store, StoreLocation, Tenant};
use parking_lot::Mutex;
use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};

use replay::{Client, DIALECT, Replay};
use tenths::Turned;
use values::{Answered, Tally};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// From one request to the next.
const PACE: i64 = 20_000;
/// Where it is looked, beside the compactions, what all the rest of the session needs.
const CUTS: [f64; 3] = [0.40, 0.60, 0.75];

struct Arguments {
    folder: PathBuf,
    engine: String,
    client: Client,
    tokens: u64,
    window: u64,
    asks: bool,
}

impl Arguments {
    fn read() -> Option<Self> {
        let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
        let after = |name: &str| words.iter().skip_while(|word| *word != name).nth(1).cloned();
        let number = |name: &str| after(name).and_then(|number| number.parse().ok());
        Some(Self {
            folder: words.first().filter(|word| !word.starts_with("--"))?.into(),
            engine: after("--engine").unwrap_or_else(|| "compressor".to_owned()),
            client: Client::named(after("--client").as_deref().unwrap_or("whole"))?,
            tokens: number("--tokens").unwrap_or(900_000),
            window: number("--window").unwrap_or(64_000),
            asks: !words.iter().any(|word| word == "--without-values"),
        })
    }
}

fn main() {
    let Some(arguments) = Arguments::read() else {
        println!("no session was given: see the first lines of this file");
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(measure(&arguments));
}

/// The time that all threads of this process took so far.
fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap()
}

async fn measure(arguments: &Arguments) {
    let replay = Replay::read(&arguments.folder.join("session.json"), arguments.tokens);
    let needs = values::read(&arguments.folder.join("needs.jsonl"));
    let file = std::env::temp_dir().join(format!("longhaul-lossless-{}.db", std::process::id()));
    let store = Store::open(&StoreLocation::File(file.clone()), Durability::Normal).await.unwrap();
    let tenant = store.get_or_create_tenant("bench").await.unwrap();
    let session = LiveSession::new(settings(arguments, &replay)).with_store(store.clone(), tenant.clone());
    let mut run = Run {
        known: BlockCache::with_capacity(4_000),
        arguments,
        replay: &replay,
        needs: &needs,
        session,
        store,
        tenant,
        seen: [Mutex::new(HashChainCache::default())],
        turns: Vec::new(),
        faults: Vec::new(),
        open: Vec::new(),
        at_compactions: Tally::default(),
        at_cuts: Vec::new(),
    };
    run.go().await;
    run.tell();
    let bytes = std::fs::metadata(&file).unwrap().len();
    println!("the file of the store has {:.1} MB", bytes as f64 / 1e6);
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}

fn settings(arguments: &Arguments, replay: &Replay) -> SessionSettings {
    let mut config = Config::default();
    config.context.engine = serde_json::from_value(arguments.engine.clone().into()).unwrap();
    let stated = ModelOverride { context_length: Some(Tokens(arguments.window)), ..ModelOverride::default() };
    config.models.insert(replay.model.name.clone(), stated);
    SessionSettings { config, ..SessionSettings::default() }
}

/// All that a body says.
fn said(body: &str) -> String {
    held::said(&wire::parse(DIALECT, body).unwrap().0)
}

/// What the checkpoint in it says of all earlier work.
fn tree(said: &str) -> &str {
    let section = said.split_once("\n## Earlier Work\n").map_or("", |(_, rest)| rest);
    section.split("\n## ").next().unwrap_or_default()
}

struct Run<'r> {
    arguments: &'r Arguments,
    replay: &'r Replay,
    needs: &'r [values::Need],
    session: LiveSession,
    store: Store,
    tenant: Tenant,
    seen: [Mutex<HashChainCache>; 1],
    known: BlockCache,
    turns: Vec<Turned>,
    /// What was too large, or broke a rule.
    faults: Vec<String>,
    /// Values that may be needed before the next compaction.
    open: Vec<Answered>,
    at_compactions: Tally,
    at_cuts: Vec<(f64, Tally)>,
}

impl Run<'_> {
    async fn go(&mut self) {
        let (mut body, mut length) = (self.replay.begin(), 0);
        for (turn, place) in (0i64..).zip(self.replay.replies()) {
            self.replay.add(&mut body, length..place);
            length = place;
            let now = Timestamp(1_780_000_000_000 + turn * PACE);
            let (sent, turned) = self.turn(&body, now).await;
            if self.arguments.asks {
                self.ask(place, &sent, turned.compacted).await;
            }
            self.turns.push(turned);
            if self.arguments.client == Client::View {
                body = sent;
            }
        }
        self.at_compactions.extend(std::mem::take(&mut self.open));
    }

    /// One request, as the gateway takes it.
    async fn turn(&mut self, body: &str, now: Timestamp) -> (String, Turned) {
        HEAP.reset_peak_usage();
        let start = cpu();
        let incoming = IncomingRequest::parse_within(DIALECT, body, (&self.tenant, b""), &self.seen).unwrap();
        let read = cpu();
        let turn = self.session.prepare_parsed(&incoming, now, &mut |_, _, _| None).await;
        let decided = cpu();
        let mut lines = turn.notices.clone();
        lines.extend(self.session.save_pending().await);
        let written = cpu();
        drop(incoming);
        let peak = HEAP.peak_usage();
        let compacted = turn.action == RequestAction::Compacted;
        let checkpoint = turn.report.as_ref().and_then(|report| report.checkpoint.as_ref());
        let checkpoint = checkpoint.map_or(0, |checkpoint| checkpoint.tokens.number());
        let sent = turn.body.into_owned();
        let tokens = self.replay.count(&mut self.known, &sent);
        let usage = Usage { input: Some(Tokens(tokens)), output: Some(Tokens(100)), ..Usage::default() };
        self.session.record_reply(&usage).await;
        let broken = self.replay.broken(&sent);
        if tokens > self.arguments.window || !broken.is_empty() {
            self.faults.push(format!("turn {}: {tokens} tokens {broken:?} {lines:?}", self.turns.len()));
        }
        let turned = Turned {
            read: read.saturating_sub(start),
            decided: decided.saturating_sub(read),
            written: written.saturating_sub(decided),
            compacted,
            came: body.len(),
            tokens,
            checkpoint,
            tree: if compacted { self.replay.words(tree(&said(&sent))) } else { 0 },
            live: HEAP.current_usage() - body.len() - sent.len(),
            peak,
            resident: tenths::resident(),
            ledger: serde_json::to_string(self.session.ledger()).unwrap().len(),
            state: serde_json::to_string(self.session.state()).unwrap().len(),
        };
        (sent, turned)
    }

    /// Asks for what the rest needs, where that is looked at.
    async fn ask(&mut self, place: usize, sent: &str, compacted: bool) {
        let whole = *self.replay.tokens.last().unwrap();
        let share = self.replay.tokens[place] as f64 / whole as f64;
        let is_cut = CUTS.get(self.at_cuts.len()).is_some_and(|cut| share >= *cut);
        if !compacted && !is_cut {
            return;
        }
        let name = self.session.name().unwrap();
        let session = self.store.session_by_name(&self.tenant, &name).await.unwrap();
        let reach = RecallScope { store: self.store.clone(), tenant: self.tenant.clone(), session };
        let said = said(sent);
        if is_cut {
            let needs = values::across(self.needs, place, self.replay.len());
            let answers = values::ask(&reach, &said, needs).await;
            let mut metrics = Tally::default();
            metrics.extend(answers);
            self.at_cuts.push((CUTS[self.at_cuts.len()], metrics));
        }
        if compacted {
            let before = std::mem::take(&mut self.open).into_iter().filter(|answer| answer.at < place);
            self.at_compactions.extend(before);
            // No window of messages passes without another compaction.
            let tokens = &self.replay.tokens;
            let until = tokens.partition_point(|so_far| *so_far < tokens[place] + self.arguments.window);
            let needs = values::across(self.needs, place, until.min(self.replay.len()));
            self.open = values::ask(&reach, &said, needs).await;
        }
    }

    fn tell(&self) {
        let mut whole = self.replay.begin();
        self.replay.add(&mut whole, 0..self.replay.replies().last().copied().unwrap_or(0));
        let (tokens, bytes) = (self.replay.count(&mut BlockCache::default(), &whole), whole.len());
        let compactions: Vec<&Turned> = self.turns.iter().filter(|turn| turn.compacted).collect();
        println!(
            "engine {}, {}; the last of {} requests has {tokens} tokens, {bytes} bytes and breaks {:?}",
            self.arguments.engine,
            self.arguments.client.words(),
            self.turns.len(),
            self.replay.broken(&whole),
        );
        println!(
            "largest body sent {} of {} tokens; {} compactions; {} faults",
            self.turns.iter().map(|turn| turn.tokens).max().unwrap_or(0),
            self.arguments.window,
            compactions.len(),
            self.faults.len()
        );
        self.faults.iter().take(20).for_each(|fault| println!("  {fault}"));
        if self.arguments.asks {
            println!("at each compaction, up to the next  {}", self.at_compactions.line());
            for (cut, metrics) in &self.at_cuts {
                println!("at {:2.0} % of it, over all the rest    {}", 100.0 * cut, metrics.line());
            }
        }
        tenths::tell(&self.turns);
    }
}
