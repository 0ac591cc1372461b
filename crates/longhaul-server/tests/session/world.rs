//! An agent in a small window, and a clock that only moves when it is told to.

use longhaul_engine::Timestamp;
use longhaul_engine::check::{Target, check};
use longhaul_engine::config::{Config, ModelOverride};
use longhaul_engine::plan::WrittenBy;
use longhaul_engine::prices::Usage;
use longhaul_engine::redact::SessionKey;
use longhaul_engine::{ApiFormat, Tokens};
use longhaul_server::session::{LiveSession, PreparedRequest, RequestAction, SessionSettings};
use serde_json::{Value, json};

/// Some time of day.
pub(crate) const NOON: Timestamp = Timestamp(1_780_000_000_000);

/// So many seconds after noon.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp(NOON.0 + seconds * 1_000)
}

/// The model that the tests are about: nobody has a row or a price for it.
pub(crate) const MODEL: &str = "house-model";

/// Settings for a model with this window.
pub(crate) fn settings(window: u64) -> SessionSettings {
    let mut config = Config::default();
    let stated = ModelOverride { context_length: Some(Tokens(window)), ..ModelOverride::default() };
    config.models.insert(MODEL.to_owned(), stated);
    SessionSettings { config, key: Some(SessionKey::new([7; 32])), ..SessionSettings::default() }
}

/// The same with a threshold in tokens, which does not give way to a large system prompt.
pub(crate) fn fixed(mut settings: SessionSettings, threshold: u64) -> SessionSettings {
    settings.config.compression.threshold_tokens = Some(Tokens(threshold));
    settings
}

/// An agent that works on one task, and sends all of its history with every request.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) model: &'static str,
    pub(crate) messages: Vec<Value>,
    steps: usize,
}

impl Agent {
    pub(crate) fn new() -> Self {
        let system = json!({"role": "system", "content": "You are careful."});
        let task = json!({"role": "user", "content": "Make the build green. Never touch the tests."});
        Self { model: MODEL, messages: vec![system, task], steps: 0 }
    }

    /// One call with an output of so many lines.
    pub(crate) fn step(&mut self, lines: usize) {
        let n = self.steps;
        self.steps += 1;
        let id = format!("call_{n}");
        let arguments = json!({"command": format!("make target{n}")}).to_string();
        let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}});
        let noise: String = (0..lines).map(|line| format!("compiling unit {n}_{line} of the project\n")).collect();
        let output = format!("{noise}src/file{n}.rs:17: error: mismatched types in step {n}\nexit code: {}\n", n % 2);
        let thoughts = format!(
            "Target {n} does not build yet. I changed src/file{n}.rs so that the parser of module{n} takes {} fields, and I will see \
             whether line {} still has the wrong type. The helper in lib{n}.rs stays as it is, because {} other places use it.",
            n + 3,
            n * 7 + 17,
            n % 5 + 2
        );
        self.messages.push(json!({"role": "assistant", "content": thoughts, "tool_calls": [call]}));
        self.messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
    }

    pub(crate) fn says(&mut self, role: &str, text: &str) {
        self.messages.push(json!({"role": role, "content": text}));
    }

    pub(crate) fn body(&self) -> String {
        json!({"model": self.model, "messages": self.messages}).to_string()
    }

    /// Works until a request has at least so many tokens, by about four characters each.
    pub(crate) fn fill(&mut self, tokens: usize) {
        while self.body().len() / 4 < tokens {
            self.step(20);
        }
    }

    /// Takes over what was sent as its own history.
    pub(crate) fn adopt(&mut self, body: &str) {
        let body: Value = serde_json::from_str(body).unwrap();
        self.messages.clone_from(body["messages"].as_array().unwrap());
    }
}

/// Sends a request, and takes a reply whose usage is what the turn was measured to have.
pub(crate) async fn request<'b>(session: &mut LiveSession, body: &'b str, now: Timestamp) -> PreparedRequest<'b> {
    let turn = session.prepare_request(body, now).await;
    valid(&turn.body);
    turn
}

/// What a provider would report of a body: about a token for four characters.
pub(crate) fn usage(body: &str) -> Usage {
    Usage { input: Some(Tokens(body.len() as u64 / 4)), output: Some(Tokens(20)), ..Usage::default() }
}

/// A body that a provider takes.
#[track_caller]
pub(crate) fn valid(body: &str) {
    let found = check(body, ApiFormat::Chat, &Target::default_for(ApiFormat::Chat));
    assert!(found.is_empty(), "{found:?}");
}

/// How many checkpoints stand in a body.
pub(crate) fn checkpoints(body: &str) -> usize {
    body.matches("[Longhaul checkpoint").count()
}

/// Whether one of the lines holds these words.
pub(crate) fn says(turn: &PreparedRequest<'_>, words: &str) -> bool {
    turn.notices.iter().any(|line| line.contains(words))
}

/// That a turn was compacted.
#[track_caller]
pub(crate) fn compacted(turn: &PreparedRequest<'_>) {
    assert_eq!(turn.action, RequestAction::Compacted, "{}: {:?}", turn.reason, turn.notices);
}

/// The same, and by whom its checkpoint was written.
#[track_caller]
pub(crate) fn compacted_by(turn: &PreparedRequest<'_>) -> WrittenBy {
    assert_eq!(turn.action, RequestAction::Compacted, "{}: {:?}", turn.reason, turn.notices);
    turn.report.as_ref().unwrap().checkpoint.as_ref().unwrap().by
}
