//! Real sessions, turn by turn, through the gateway, in a window of a quarter of their size.
//!
//! What must hold: nothing is refused; each body that goes out extends the one before, except where a compaction is reported; answers
//! come through to the last byte; and what the provider could have cached, it has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::check::{Severity, check};
use longhaul_engine::meter::Meter;
use longhaul_engine::plan::{CompactOptions, EngineRegistry, Plan, PlanInput};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::Role;
use longhaul_engine::{ApiFormat, Tokens, Transcript, models, wire};
use serde_json::Value;

use crate::ground::{Ground, header, settings, shared, with_window};
use crate::simulator::{Limits, Room, Say, Settings, Simulator, Traffic, says, target};

/// Smaller sessions fit.
const FEWEST_TOKENS: u64 = 30_000;
const FEWEST_REQUESTS: usize = 20;
/// The time between two requests.
const PAUSE: Duration = Duration::from_secs(20);

/// A real session.
struct Recorded {
    name: String,
    dialect: ApiFormat,
    body: String,
    model: String,
    tokens: u64,
    window: u64,
    /// How many messages each of its requests had.
    requests: Vec<usize>,
}

/// How one session went.
#[derive(Debug, Default)]
struct Course {
    requests: usize,
    compactions: usize,
    tokens: Traffic,
    /// The tokens of its first request.
    first: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn real_sessions_run_past_their_window_and_stay_cached() {
    let Some(shared) = shared() else { return };
    let most = std::env::var("LONGHAUL_SESSIONS").ok().and_then(|most| most.parse().ok()).unwrap_or(usize::MAX);
    let only = std::env::var("LONGHAUL_ONLY").unwrap_or_default();
    let mut sessions = sessions(&shared.join("corpus"));
    sessions.retain(|session| session.name.contains(&only));
    sessions.sort_by_key(|session| session.tokens * session.requests.len() as u64);
    assert!(!sessions.is_empty());
    let mut problems = Vec::new();
    let (mut all, mut requests, mut compactions) = (Traffic::default(), 0, 0);
    for session in sessions.iter().take(most) {
        let course = match run(session).await {
            Ok(course) => course,
            Err(problem) => {
                problems.push(format!("{}: {problem}", session.name));
                continue;
            }
        };
        let share = course.tokens.share_of_unlimited();
        println!(
            "{}: {} tokens, window {}, {} requests, {} compactions, read {:.3}, of unlimited {share:.3}",
            session.name,
            session.tokens,
            session.window,
            course.requests,
            course.compactions,
            course.tokens.read_share(),
        );
        // What a provider caches nothing of cannot be found again: the beginning of a session that is shorter than the minimum.
        if share < 0.97 && course.first >= Limits::default().minimum {
            problems.push(format!("{}: read {share:.3} of what an unlimited cache would", session.name));
        }
        all = all + course.tokens;
        (requests, compactions) = (requests + course.requests, compactions + course.compactions);
    }
    println!("{requests} requests, {compactions} compactions, read {:.3} of all prompt tokens", all.read_share());
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(all.read_share() >= 0.90, "{all:?}");
}

fn sessions(corpus: &Path) -> Vec<Recorded> {
    let files = std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    files.iter().filter_map(|file| session(file)).collect()
}

fn session(file: &Path) -> Option<Recorded> {
    let name = file.file_stem().unwrap().to_string_lossy().into_owned();
    let text = mended(std::fs::read_to_string(file).unwrap());
    let (transcript, _) = wire::parse(None, &text).ok()?;
    let api_format = transcript.api_format;
    let replies = (1..transcript.message_count())
        .filter(|at| transcript.role(*at) == Some(Role::Assistant) && transcript.role(at - 1) != Some(Role::Assistant));
    let requests: Vec<usize> = replies.collect();
    let model = models::find(transcript.model.as_deref().unwrap_or_default());
    let meter = Meter::for_model(&model);
    let tokens = meter.breakdown(&mut BlockCache::default(), &transcript).total().number();
    if tokens < FEWEST_TOKENS || requests.len() < FEWEST_REQUESTS {
        return None;
    }
    // What a provider refuses as it is says nothing about us.
    let last = transcript.body_with_first_messages(*requests.last()?);
    let is_taken = check(&last, api_format, &target(api_format, &model.name))
        .iter()
        .all(|found| found.severity != Severity::Error);
    if !is_taken {
        println!("{name}: no provider would take it as it is");
        return None;
    }
    // Where most is added at once, most of it can be the newest turn.
    let sizes: Vec<usize> = requests.iter().map(|count| transcript.body_with_first_messages(*count).len()).collect();
    let mut by_growth: Vec<usize> = (1..requests.len()).collect();
    by_growth.sort_by_key(|at| std::cmp::Reverse(sizes[*at] - sizes[at - 1]));
    let largest = by_growth.iter().take(6).chain(by_growth.last()).map(|at| requests[*at]);
    let floors = largest.map(|count| floor(&transcript.body_with_first_messages(count), api_format));
    let window = (tokens / 4).max(2 * floors.max().unwrap_or_default());
    let model = transcript.model.as_deref().unwrap_or("house-model").to_owned();
    Some(Recorded { name, dialect: api_format, model, tokens, window, requests, body: text.clone() })
}

/// A session in the Messages dialect as its client would have sent it. Agents write down more than they send: calls that were broken
/// off, thinking without its signature; and the tools stand elsewhere.
fn mended(text: String) -> String {
    let Ok(mut body) = serde_json::from_str::<Value>(&text) else { return text };
    let is_messages = wire::parse(None, &text).is_ok_and(|(read, _)| read.api_format == ApiFormat::Messages);
    let Some(messages) = body["messages"].as_array_mut().filter(|_| is_messages) else { return text };
    let blocks = |message: &Value| message["content"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<Value> = Vec::new();
    for at in 0..messages.len() {
        let next = messages.get(at + 1).map(blocks).unwrap_or_default();
        let is_answered = |call: &Value| next.iter().any(|block| block["tool_use_id"] == call["id"]);
        let Some(own) = messages[at]["content"].as_array_mut() else { continue };
        own.retain(|block| match block["type"].as_str() {
            Some("tool_use") => is_answered(block),
            Some("thinking") => block["signature"].as_str().is_some_and(|signature| !signature.is_empty()),
            _ => true,
        });
        names.extend(own.iter().filter(|block| block["type"] == "tool_use").map(|call| call["name"].clone()));
    }
    messages.retain(|message| message["content"].as_array().is_none_or(|blocks| !blocks.is_empty()));
    names.sort_by_key(Value::to_string);
    names.dedup();
    if body.get("tools").is_none() {
        let tool = |name: &Value| serde_json::json!({"name": name, "input_schema": {"type": "object"}});
        body["tools"] = names.iter().map(tool).collect();
    }
    body.to_string()
}

/// What nothing can be taken of: the system prompt, the tools and the newest turn.
fn floor(body: &str, api_format: ApiFormat) -> u64 {
    let (transcript, _) = wire::parse(api_format, body).unwrap();
    let model = models::find(transcript.model.as_deref().unwrap_or_default());
    let (policy, _) = Policy::new(&Config::default(), &model).unwrap();
    let engine = EngineRegistry::default().find_or_compressor(&policy.engine);
    let options = CompactOptions { force: true, to_tokens: Some(Tokens(1)), ..CompactOptions::default() };
    match engine.plan(
        &longhaul_engine::ledger::Ledger::default(),
        PlanInput { policy: &policy, options: &options, cache: &mut BlockCache::default(), transcript: &transcript },
    ) {
        Ok(Plan::Unchanged(report)) => report.tokens.floor.number(),
        Ok(Plan::Ready(outcome)) => outcome.report.tokens.floor.number(),
        Err(_) => 0,
    }
}

async fn run(session: &Recorded) -> Result<Course, String> {
    let (transcript, _) = wire::parse(session.dialect, &session.body).unwrap();
    let reply = transcript.max_reply_tokens.unwrap_or_default();
    let room = if reply < session.window / 4 { Room::Reserved } else { Room::Free };
    let limits = Limits { window: session.window, ..Limits::default() };
    let speaker = says(|_, number| Say::text(format!("step {number} is done")));
    let simulator =
        Simulator::start(Settings { limits, room, speaker, models: BTreeMap::new(), ..Settings::default() }).await;
    let settings = with_window(settings(&simulator.origin()), &session.model, session.window);
    let ground = Ground::start(settings, &simulator).await;
    let path = match session.dialect {
        ApiFormat::Chat => "/v1/chat/completions",
        ApiFormat::Messages => "/v1/messages",
        ApiFormat::Responses => "/v1/responses",
    };
    let mut course = Course::default();
    let mut before: Option<Value> = None;
    for (number, count) in session.requests.iter().enumerate() {
        let body = streamed(&transcript, *count, number % 2 == 0);
        let response = ground.post(path, body).await;
        let (status, action) = (response.status().as_u16(), header(&response, "x-longhaul-action"));
        let reply = response.bytes().await.map_err(|error| error.to_string())?;
        let mut seen = simulator.take();
        let refused = seen.iter().find(|seen| seen.is_refused());
        if let Some(refused) = refused {
            let said = String::from_utf8_lossy(&refused.reply).into_owned();
            return Err(format!("request {number} ({action}) was refused: {said}"));
        }
        let last = seen.pop().ok_or_else(|| format!("request {number} never went out"))?;
        if status != 200 || reply != last.shown() {
            return Err(format!("request {number}: the answer is not what was sent ({status})"));
        }
        let sent = plain(&last.value());
        if let Some(before) = before.as_ref().filter(|_| action != "compacted") {
            extends(before, &sent).map_err(|what| format!("request {number} ({action}): {what}"))?;
        }
        before = Some(sent);
        if number == 0 {
            course.first = last.tokens.unwrap_or_default().total;
        }
        course.requests += 1;
        course.compactions += usize::from(action == "compacted");
        course.tokens = course.tokens + last.tokens.unwrap_or_default();
        simulator.pass(PAUSE);
    }
    Ok(course)
}

/// A request of the session, streamed or not.
fn streamed(transcript: &Transcript<'_>, count: usize, stream: bool) -> String {
    let body = transcript.body_with_first_messages(count);
    let mut value: Value = serde_json::from_str(&body).unwrap();
    match value.as_object_mut() {
        Some(object) if object.contains_key("messages") || object.contains_key("input") => {
            object.insert("stream".to_owned(), Value::Bool(stream));
            value.to_string()
        }
        _ => body,
    }
}

/// A body without marks, and with one form for one content.
pub(crate) fn plain(value: &Value) -> Value {
    match value {
        Value::Array(list) => Value::Array(list.iter().map(plain).collect()),
        Value::Object(object) => {
            let members = object.iter().filter(|(key, _)| *key != "cache_control").map(|(key, value)| {
                let value = match value.as_str() {
                    Some(text) if key == "content" || key == "system" => {
                        serde_json::json!([{"type": "text", "text": text}])
                    }
                    _ => plain(value),
                };
                (key.clone(), value)
            });
            Value::Object(members.collect())
        }
        other => other.clone(),
    }
}

/// Whether a body only goes on from another.
pub(crate) fn extends(before: &Value, after: &Value) -> Result<(), String> {
    for key in ["tools", "system", "instructions"] {
        if before[key] != after[key] {
            return Err(format!("{key} changed"));
        }
    }
    let list = |value: &Value| match &value["messages"] {
        Value::Array(list) => list.clone(),
        _ => value["input"].as_array().cloned().unwrap_or_default(),
    };
    let (before, after) = (list(before), list(after));
    match before.iter().zip(&after).position(|(before, after)| before != after) {
        Some(at) => Err(format!("message {at} changed without a compaction")),
        None if after.len() < before.len() => Err("messages are gone without a compaction".to_owned()),
        None => Ok(()),
    }
}
