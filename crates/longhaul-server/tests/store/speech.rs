//! Sessions as tests say them: turns that are written in any dialect, recorded and compacted in a line.

use longhaul_engine::Timestamp;
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::models;
use longhaul_engine::plan::{
    CompactOptions, CompactedRequest, Compressor, Engine, Lossless, Originals, Plan, PlanInput, RecallIds, SacredZone,
};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::redact::Rules;
use longhaul_engine::{ApiFormat, Tokens, Transcript, wire};
use longhaul_server::store::{CommitOptions, CommitOutcome, Result, SessionMatch, Store, StoredSession, Tenant};
use serde_json::{Value, json};

pub(crate) const DIALECTS: [ApiFormat; 3] = [ApiFormat::Chat, ApiFormat::Messages, ApiFormat::Responses];

/// Some time of day.
pub(crate) const NOON: Timestamp = Timestamp(1_780_000_000_000);

/// One thing that is said or done.
#[derive(Debug, Clone)]
pub(crate) enum Turn {
    User(String),
    Reply(String),
    /// Reasoning in the clear, which goes with the call or the reply behind it.
    Thought(String),
    /// A tool is called: arguments, then what it gave.
    Call(Value, String),
}

pub(crate) fn user(text: &str) -> Turn {
    Turn::User(text.to_owned())
}

pub(crate) fn reply(text: &str) -> Turn {
    Turn::Reply(text.to_owned())
}

pub(crate) fn bash(command: &str, output: &str) -> Turn {
    Turn::Call(json!({"command": command}), output.to_owned())
}

/// A body of these turns.
pub(crate) fn body(api_format: ApiFormat, turns: &[Turn]) -> String {
    around(api_format, "You are careful.", "Runs a command.", turns).to_string()
}

/// The same with a system prompt and a tool of other words.
pub(crate) fn around(api_format: ApiFormat, system: &str, tool: &str, turns: &[Turn]) -> Value {
    let mut list: Vec<Value> = Vec::new();
    let mut thought: Option<&str> = None;
    for (at, turn) in turns.iter().enumerate() {
        let id = format!("call_{at}");
        match (api_format, turn) {
            (ApiFormat::Responses, Turn::User(text)) => {
                list.push(
                    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
                );
            }
            (_, Turn::User(text)) => list.push(json!({"role": "user", "content": text})),
            (ApiFormat::Responses, Turn::Thought(text)) => {
                list.push(json!({"type": "reasoning", "id": format!("rs_{at}"), "summary": [{"type": "summary_text", "text": text}]}));
            }
            (_, Turn::Thought(text)) => thought = Some(text),
            (ApiFormat::Responses, Turn::Reply(text)) => {
                list.push(
                    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}),
                );
            }
            (ApiFormat::Chat, Turn::Reply(text)) => {
                let mut message = json!({"role": "assistant", "content": text});
                if let Some(thought) = thought.take() {
                    message["reasoning_content"] = thought.into();
                }
                list.push(message);
            }
            (ApiFormat::Messages, Turn::Reply(text)) => {
                let mut blocks: Vec<Value> = thought.take().map(thinking).into_iter().collect();
                blocks.push(json!({"type": "text", "text": text}));
                list.push(json!({"role": "assistant", "content": blocks}));
            }
            (ApiFormat::Chat, Turn::Call(arguments, output)) => {
                let call = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments.to_string()}});
                let mut message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
                if let Some(thought) = thought.take() {
                    message["reasoning_content"] = thought.into();
                }
                list.push(message);
                list.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
            }
            (ApiFormat::Messages, Turn::Call(arguments, output)) => {
                let mut blocks: Vec<Value> = thought.take().map(thinking).into_iter().collect();
                blocks.push(json!({"type": "tool_use", "id": id, "name": "bash", "input": arguments}));
                list.push(json!({"role": "assistant", "content": blocks}));
                list.push(
                    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": output}]}),
                );
            }
            (ApiFormat::Responses, Turn::Call(arguments, output)) => {
                list.push(
                    json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": arguments.to_string()}),
                );
                list.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
            }
        }
    }
    let parameters = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    match api_format {
        ApiFormat::Chat => {
            list.insert(0, json!({"role": "system", "content": system}));
            let tool = json!({"type": "function", "function": {"name": "bash", "description": tool, "parameters": parameters}});
            json!({"model": "gpt-5", "tools": [tool], "messages": list})
        }
        ApiFormat::Messages => {
            let tool = json!({"name": "bash", "description": tool, "input_schema": parameters});
            json!({"model": "claude-sonnet-4-5", "max_tokens": 1000, "system": system, "tools": [tool], "messages": list})
        }
        ApiFormat::Responses => {
            let tool = json!({"type": "function", "name": "bash", "description": tool, "parameters": parameters});
            json!({"model": "gpt-5", "instructions": system, "tools": [tool], "input": list})
        }
    }
}

fn thinking(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": "c2lnbmVk"})
}

/// A session of so many steps, each with an output of so many lines, from the step `first` on.
pub(crate) fn steps(first: usize, count: usize, lines: usize) -> Vec<Turn> {
    let step = |n: usize| {
        let noise: String = (0..lines).map(|line| format!("compiling unit {n}_{line} of the project\n")).collect();
        let output = format!("{noise}src/file{n}.rs:17: error: mismatched types in step {n}\nexit code: {}\n", n % 2);
        bash(&format!("make target{n}"), &output)
    };
    (first..first + count).map(step).collect()
}

/// A session that is long enough to be compacted.
pub(crate) fn long_session() -> Vec<Turn> {
    let mut turns = vec![user("Make the build green. Never touch the tests.")];
    turns.extend(steps(0, 12, 40));
    turns.extend([reply("The build is green."), user("Go on with the next one.")]);
    turns
}

/// How many messages of a body are no system prompt.
pub(crate) fn said(body: &str) -> usize {
    let transcript = parsed(body);
    transcript.message_count() - transcript.system_message_count()
}

pub(crate) fn parsed(body: &str) -> Transcript<'_> {
    wire::parse(None, body).unwrap().0
}

/// Records a body.
pub(crate) async fn record(store: &Store, tenant: &Tenant, body: &str) -> SessionMatch {
    recorded(store, tenant, body, NOON).await.unwrap()
}

pub(crate) async fn recorded(store: &Store, tenant: &Tenant, body: &str, at: Timestamp) -> Result<SessionMatch> {
    store.record(tenant, &parsed(body), &Rules::default(), at).await
}

pub(crate) fn policy(transcript: &Transcript<'_>, window: u64) -> Policy {
    let facts = json!({"window": window, "input_limit": null});
    let model = models::find(transcript.model.as_deref().unwrap_or("gpt-5"));
    let model = model.with_stated_facts(facts.as_object().unwrap()).unwrap();
    Policy::new(&Config::default(), &model).unwrap().0
}

fn wish(session: &StoredSession) -> CompactOptions {
    let originals = Originals::Stored(RecallIds::new(session.key.clone()));
    let (key, name) = (Some(session.key.clone()), Some(session.name.clone()));
    CompactOptions { originals, session_key: key, session_id: name, ..CompactOptions::default() }
}

/// What the engine makes of a recorded body that is to have so many tokens.
pub(crate) fn planned(recorded: &SessionMatch, body: &str, tokens: u64) -> Plan {
    planned_by(&Compressor, recorded, body, tokens)
}

fn planned_by(engine: &dyn Engine, recorded: &SessionMatch, body: &str, tokens: u64) -> Plan {
    let transcript = parsed(body);
    let options = CompactOptions { to_tokens: Some(Tokens(tokens)), ..wish(&recorded.session) };
    let policy = policy(&transcript, 400_000);
    engine
        .plan(
            &recorded.view.ledger,
            PlanInput {
                policy: &policy,
                options: &options,
                cache: &mut BlockCache::default(),
                transcript: &transcript,
            },
        )
        .unwrap()
}

/// The same, where it must change something.
#[track_caller]
pub(crate) fn outcome(recorded: &SessionMatch, body: &str, tokens: u64) -> CompactedRequest {
    match planned(recorded, body, tokens) {
        Plan::Ready(outcome) => outcome,
        Plan::Unchanged(report) => panic!("left: {}", report.reason),
    }
}

/// What the decisions so far make of a body, and nothing more.
#[track_caller]
pub(crate) fn replayed(recorded: &SessionMatch, body: &str) -> String {
    let transcript = parsed(body);
    let policy = policy(&transcript, 2_000_000);
    let ledger = &recorded.view.ledger;
    match Compressor
        .plan(
            ledger,
            PlanInput {
                policy: &policy,
                options: &wish(&recorded.session),
                cache: &mut BlockCache::default(),
                transcript: &transcript,
            },
        )
        .unwrap()
    {
        Plan::Ready(outcome) => outcome.body,
        Plan::Unchanged(_) => body.to_owned(),
    }
}

/// A compaction after which a new session begins.
#[track_caller]
pub(crate) fn restarting(recorded: &SessionMatch, body: &str) -> CompactedRequest {
    let transcript = parsed(body);
    let policy = policy(&transcript, 8_000);
    let ledger = &recorded.view.ledger;
    match SacredZone
        .plan(
            ledger,
            PlanInput {
                policy: &policy,
                options: &wish(&recorded.session),
                cache: &mut BlockCache::default(),
                transcript: &transcript,
            },
        )
        .unwrap()
    {
        Plan::Ready(outcome) => outcome,
        Plan::Unchanged(report) => panic!("left: {}", report.reason),
    }
}

/// A session that no longer fits a small window, whatever is made shorter.
pub(crate) fn too_much(more: &[Turn]) -> Vec<Turn> {
    let words = |n: usize| format!("requirement {n} that has to be met, in so many words, and another. ").repeat(300);
    let mut turns = vec![user(&words(0)), reply(&words(1)), user(&words(2)), reply(&words(3)), user("go on")];
    turns.extend(more.iter().cloned());
    turns
}

/// Keeps a compaction.
pub(crate) async fn keep(
    store: &Store,
    tenant: &Tenant,
    recorded: &SessionMatch,
    body: &str,
    outcome: &CompactedRequest,
) -> Result<CommitOutcome> {
    let how = CommitOptions { rules: &Rules::default(), at: NOON };
    store.commit_compaction(tenant, recorded, &parsed(body), outcome, how).await
}

/// Records, compacts to so many tokens and keeps, all of which must work.
pub(crate) async fn compact(
    store: &Store,
    tenant: &Tenant,
    body: &str,
    tokens: u64,
) -> (StoredSession, CompactedRequest) {
    let recorded = record(store, tenant, body).await;
    let outcome = outcome(&recorded, body, tokens);
    match keep(store, tenant, &recorded, body, &outcome).await.unwrap() {
        CommitOutcome::Done { session, .. } => (session, outcome),
        other => panic!("{other:?}"),
    }
}

/// The same by the engine that keeps an overview in pages.
pub(crate) async fn page(store: &Store, tenant: &Tenant, body: &str, tokens: u64) -> (StoredSession, CompactedRequest) {
    let recorded = record(store, tenant, body).await;
    let Plan::Ready(outcome) = planned_by(&Lossless, &recorded, body, tokens) else { panic!("left") };
    match keep(store, tenant, &recorded, body, &outcome).await.unwrap() {
        CommitOutcome::Done { session, .. } => (session, outcome),
        other => panic!("{other:?}"),
    }
}

/// The handles that stand in a text, as the model reads them.
pub(crate) fn handles_in(text: &str) -> Vec<String> {
    let recall_id = regex::Regex::new("recall ([0-9a-z]{10})").unwrap();
    recall_id.captures_iter(text).map(|found| found[1].to_owned()).collect()
}
