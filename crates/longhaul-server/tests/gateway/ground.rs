//! A gateway on a socket, before a simulator of the providers, with a clock that only moves when it is told to.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_engine::Tokens;
use longhaul_engine::config::{Config, ModelOverride};
use longhaul_server::gateway::{
    ClientAccess, Gateway, GatewayEnvironment, GatewayLimits, GatewaySettings, Switch, Upstreams,
};
use longhaul_server::session::{self, DefaultHost, Host};
use longhaul_server::store::{Durability, Store, StoreLocation};
use longhaul_server::upstream::{Client, ClientOptions, Provider, ProxyMode, Upstream};
use reqwest::Response;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::simulator::Simulator;

/// Noon of some day.
const NOON: i64 = 1_780_000_000_000;

/// A running gateway.
pub(crate) struct Ground {
    pub(crate) url: String,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) store: Store,
    pub(crate) http: reqwest::Client,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<tokio::task::JoinHandle<()>>,
}

/// Settings for an upstream at this address.
pub(crate) fn settings(upstream: &str) -> GatewaySettings {
    let at =
        |provider: &str| Arc::new(Upstream::new(Provider::named(provider).unwrap(), Some(upstream), None).unwrap());
    GatewaySettings {
        session: session::SessionSettings::default(),
        compression: Switch::On,
        commands: Switch::On,
        recall: longhaul_server::gateway::RecallMode::Auto,
        upstreams: Upstreams { chat: at("openai"), messages: at("anthropic"), responses: at("openai") },
        access: ClientAccess::Open,
        hosts: Vec::new(),
        limits: GatewayLimits::default(),
        keep_alive: None,
    }
}

/// The same, with a window for a model.
pub(crate) fn with_window(mut settings: GatewaySettings, model: &str, window: u64) -> GatewaySettings {
    let stated = ModelOverride { context_length: Some(Tokens(window)), ..ModelOverride::default() };
    let config: &mut Config = &mut settings.session.config;
    config.models.insert(model.to_owned(), stated);
    settings
}

/// A client for upstreams.
pub(crate) fn client() -> Client {
    let network = ClientOptions {
        proxies: ProxyMode::Direct,
        connect_timeout: Duration::from_secs(5),
        random_bits: Arc::new(|| 1 << 31),
    };
    Client::new(network).unwrap()
}

impl Ground {
    /// Begins, with a store in memory and a clock that is the simulator's.
    pub(crate) async fn start(settings: GatewaySettings, simulator: &Simulator) -> Self {
        let store = Store::open(&StoreLocation::Memory, Durability::Normal).await.unwrap();
        Self::with_store(settings, store, simulator.clock()).await
    }

    pub(crate) async fn with_store(settings: GatewaySettings, store: Store, clock: Arc<AtomicI64>) -> Self {
        Self::with_host(settings, store, clock, Arc::new(DefaultHost)).await
    }

    pub(crate) async fn with_host(
        settings: GatewaySettings,
        store: Store,
        clock: Arc<AtomicI64>,
        host: Arc<dyn Host>,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let clock: Arc<dyn Fn() -> Timestamp + Send + std::marker::Sync> =
            Arc::new(move || Timestamp(NOON + clock.load(Ordering::SeqCst)));
        let world = GatewayEnvironment { clock, host };
        let gateway = Gateway::new(settings, store.clone(), client(), world);
        let (cancel, stopped) = oneshot::channel::<()>();
        let served = Arc::clone(&gateway);
        let serving = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            served.serve(listener, stopped).await.unwrap();
        });
        // Who is first settles it for all.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url, gateway, store, http, stop: Some(cancel), serving: Some(serving) }
    }

    /// Sends a body to a path.
    pub(crate) async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        self.request(path, body).send().await.unwrap()
    }

    /// The same, before it is sent.
    pub(crate) fn request(&self, path: &str, body: impl Into<reqwest::Body>) -> reqwest::RequestBuilder {
        let request = self.http.post(format!("{}{path}", self.url)).header("content-type", "application/json");
        let request = request.header("anthropic-version", "2023-06-01");
        request.header("x-api-key", "sk-client-of-the-test").body(body)
    }

    pub(crate) async fn post_json(&self, path: &str, body: &Value) -> Response {
        self.post(path, body.to_string()).await
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) async fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            serving.await.unwrap();
        }
    }
}

/// A folder that is gone when the test is.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    /// Takes all tables out of the store that is here, as a foolish hand would.
    pub(crate) fn break_store(&self) {
        let database = rusqlite::Connection::open(self.path().join("store.db")).unwrap();
        database.busy_timeout(Duration::from_secs(20)).unwrap();
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
        let tables: Vec<String> = {
            let mut tables = database.prepare(tables).unwrap();
            tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        database.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        for table in tables {
            database.execute_batch(&format!("DROP TABLE IF EXISTS \"{table}\"")).unwrap();
        }
    }
}

/// An answer as JSON.
pub(crate) async fn answer(response: Response) -> Value {
    serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
}

/// A header of an answer.
pub(crate) fn header(response: &Response, name: &str) -> String {
    response.headers().get(name).map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
}

/// The shared data; says so plainly where it is not there.
pub(crate) fn shared() -> Option<PathBuf> {
    let shared = std::env::var_os("LONGHAUL_SHARED").map(PathBuf::from);
    if shared.is_none() {
        eprintln!("LONGHAUL_SHARED is not set: real sessions are not replayed");
    }
    shared
}

/// An agent that works on one task in the Messages dialect, and sends all of its history with every request.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) model: &'static str,
    pub(crate) messages: Vec<Value>,
    steps: usize,
}

impl Agent {
    pub(crate) fn new(model: &'static str) -> Self {
        let task = json!({"role": "user", "content": "Make the build green. Never touch the tests."});
        Self { model, messages: vec![task], steps: 0 }
    }

    /// One call with an output of so many lines.
    pub(crate) fn step(&mut self, lines: usize) {
        let n = self.steps;
        self.steps += 1;
        let id = format!("toolu_{n}");
        let noise: String = (0..lines).map(|line| format!("compiling unit {n}_{line} of the project\n")).collect();
        let output = format!("{noise}src/file{n}.rs:17: error: mismatched types in step {n}\n");
        let thoughts = format!("Target {n} does not build yet; I will look at src/file{n}.rs.");
        let call =
            json!({"type": "tool_use", "id": id, "name": "bash", "input": {"command": format!("make target{n}")}});
        let reply = json!({"role": "assistant", "content": [{"type": "text", "text": thoughts}, call]});
        let result =
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": output}]});
        self.messages.extend([reply, result]);
    }

    pub(crate) fn says(&mut self, text: &str) {
        self.messages.push(json!({"role": "assistant", "content": "Done so far."}));
        self.messages.push(json!({"role": "user", "content": text}));
    }

    pub(crate) fn body(&self) -> Value {
        let tool = json!({"name": "bash", "description": "Runs a command.", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}});
        json!({
            "model": self.model, "max_tokens": 1000, "system": "You are careful.", "tools": [tool],
            "messages": self.messages,
        })
    }
}
