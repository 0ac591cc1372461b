//! A plug-in made for a test, and a session that it is to compact.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_engine::check::{Target, check};
use longhaul_engine::config::{Config, ModelOverride};
use longhaul_engine::plan::{Engine, EngineRegistry};
use longhaul_engine::redact::{Rules, SessionKey};
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::plugins::{Manifest, Plugin, PluginContext};
use longhaul_server::session::SessionSettings;
use serde_json::{Value, json};

pub(crate) const NOON: Timestamp = Timestamp(1_780_000_000_000);
pub(crate) const MODEL: &str = "house-model";
/// Looks like a key and opens nothing.
pub(crate) const SECRET: &str = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";

/// What each program begins with: it says hello, and answers all else as the test wants.
const OPENING: &str = r#"
import json, os, sys, time
def say(id, **words):
    print(json.dumps({"id": id, **words}), flush=True)
def hello(id, **other):
    say(id, result={"name": "made", "protocol": 1, "capabilities": ["compress"], **other})
def middle(ask):
    last = len(ask["params"]["messages"]) - 2
    return [m["index"] for m in ask["params"]["messages"] if not m["protected"] and m["index"] < last]
"#;

/// A folder with a plug-in in it, removed at the end.
pub(crate) struct Made {
    pub(crate) folder: PathBuf,
    pub(crate) clock: Arc<AtomicI64>,
    /// More lines of its manifest.
    pub(crate) manifest: String,
    pub(crate) environment: Vec<(String, String)>,
}

impl Made {
    /// One that greets with some lines of Python, and answers with others; `ask` is what it was asked.
    pub(crate) fn new(greets: &str, answers: &str) -> Self {
        let indented = |code: &str| format!("        {}\n", code.replace('\n', "\n        "));
        Self::of_program(&format!(
            "{OPENING}\nfor line in sys.stdin:\n    ask = json.loads(line)\n    if ask[\"method\"] == \"hello\":\n{}    else:\n{}",
            indented(greets),
            indented(answers)
        ))
    }

    pub(crate) fn of_program(program: &str) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let parent = std::env::temp_dir().join(format!("longhaul-plugin-{}-{number}", std::process::id()));
        let folder = parent.join("made");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("engine.py"), program).unwrap();
        let environment = std::env::var("PATH").map(|path| ("PATH".to_owned(), path)).into_iter().collect();
        let manifest = "time_limit_ms = 20000".to_owned();
        Self { folder, clock: Arc::new(AtomicI64::new(NOON.0)), manifest, environment }
    }

    pub(crate) fn plugin(&self) -> Plugin {
        let manifest = format!(
            "name = \"made\"\nabout = \"made for a test\"\nprotocol = 1\ncommand = [\"python3\", \"engine.py\"]\n{}\n",
            self.manifest
        );
        std::fs::write(self.folder.join("plugin.toml"), manifest).unwrap();
        let clock = Arc::clone(&self.clock);
        let world = PluginContext {
            clock: Arc::new(move || Timestamp(clock.load(Ordering::Relaxed))),
            environment: self.environment.clone(),
            rules: Rules::default(),
            max_call_time: Duration::from_mins(1),
        };
        Plugin::new(Manifest::read(&self.folder).unwrap(), world)
    }

    /// What the program wrote into a file of its folder.
    pub(crate) fn written(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.join(file)).unwrap_or_default()
    }

    pub(crate) fn later(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1_000, Ordering::Relaxed);
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.folder.parent().unwrap());
    }
}

/// Settings in which this engine compacts; without one, the compressor.
pub(crate) fn settings(engine: Option<Arc<dyn Engine>>) -> SessionSettings {
    let mut config = Config::default();
    let stated = ModelOverride { context_length: Some(Tokens(20_000)), ..ModelOverride::default() };
    config.models.insert(MODEL.to_owned(), stated);
    let mut engines = EngineRegistry::default();
    if let Some(engine) = engine {
        config.context.engine = engine.name();
        engines = engines.with(engine);
    }
    SessionSettings { config, engines, key: Some(SessionKey::new([7; 32])), ..SessionSettings::default() }
}

/// A session of so many steps, the third of which shows a secret.
pub(crate) fn session(steps: usize) -> Vec<Value> {
    let mut messages = vec![
        json!({"role": "system", "content": "You are careful."}),
        json!({"role": "user", "content": "Make the build green. Never touch the tests."}),
    ];
    for step in 0..steps {
        let id = format!("call{step}");
        let function =
            json!({"name": "bash", "arguments": json!({"command": format!("make target{step}")}).to_string()});
        let call = json!({"id": id, "type": "function", "function": function});
        let secret = if step == 2 { SECRET } else { "none" };
        let output = format!("{}token={secret}\n", format!("compiling a unit of target{step}\n").repeat(60));
        messages.push(json!({"role": "assistant", "content": format!("Now target {step}."), "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }
    messages.push(json!({"role": "assistant", "content": "All targets are built."}));
    messages.push(json!({"role": "user", "content": "And the docs?"}));
    messages
}

pub(crate) fn body(messages: &[Value]) -> String {
    json!({"model": MODEL, "messages": messages}).to_string()
}

/// A body that a provider takes.
#[track_caller]
pub(crate) fn valid(body: &str) {
    assert_eq!(check(body, ApiFormat::Chat, &Target::default_for(ApiFormat::Chat)), []);
}
