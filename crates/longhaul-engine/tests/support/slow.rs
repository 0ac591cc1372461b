//! A search for slow inputs: short units, repeated, that cost a function the most time a byte.
//!
//! Units are made of the words, prefixes, separators and quotes of the engine's own tables, so that a new rule brings its own
//! units. The search is a hill climb from a seed: the same seed tries the same first units, and what it finds is judged by how
//! time grows, not by how long it took.

use std::time::Duration;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::plan::{CompactOptions, Compressor, Engine, PlanInput};
use longhaul_engine::redact::{RedactionMode, Redactor, Rules};
use longhaul_engine::{ApiFormat, check, wire};
use serde_json::{Value, json};

use super::{Numbers, policy, processor_time};

/// The tables that say what the engine looks for in text.
const TABLES: [&str; 8] = [
    include_str!("../../src/redact/rules.toml"),
    include_str!("../../src/evidence/words.toml"),
    include_str!("../../src/digest/words.toml"),
    include_str!("../../src/digest/commands.toml"),
    include_str!("../../src/wire/user_text.toml"),
    include_str!("../../src/host_text.toml"),
    include_str!("../../src/cache/volatile.toml"),
    include_str!("../../src/tools.toml"),
];

/// What stands between words, and what opens and closes things in the texts that tools print.
const SIGNS: &str = "= : ; , . - _ / \\ | & ? % + * # @ ! $ ~ ^ < > ( ) [ ] { } \" ' ` \\\" \\n \\\\ // :// -- == => := <<< ``` ... \
     %3D %26 %25 :\" =\" =' ': \": a A b1 Z9 0 1 7 aB3 2026-01-01T00:00:00 ERROR WARN FAILED error: at File line test passed failed \
     1/2 100% diff @@ --- +++ <p> </p> <div <a -----BEGIN -----END PRIVATE KEY----- PuTTY-User-Key-File- Private-Lines: kind\":\"Secret\" \
     kind: Secret data: machine login password cookie";

/// Signs that have no form between blanks.
const BLANKS: [&str; 9] = [" ", "\n", "\t", "\r\n", "  ", "\u{1b}[0m", "\u{200b}", "é", "汉"];

/// The longest word that is taken from a table, in bytes.
const MAX_TOKEN_BYTES: usize = 28;
/// The most tokens of a unit.
const MAX_TOKENS: usize = 6;

/// The tokens that units are made of.
pub fn tokens() -> Vec<String> {
    let mut tokens: Vec<String> = SIGNS.split_whitespace().chain(BLANKS).map(str::to_owned).collect();
    for table in TABLES {
        let lines = table.lines().filter(|line| !line.trim_start().starts_with('#'));
        for string in lines.flat_map(|line| line.split('"').skip(1).step_by(2)) {
            // Of a shape only its literals: `ghp_{base62:36}`.
            for literal in string.split(['{', '}']).step_by(2).flat_map(|part| [part, part.trim()]) {
                tokens.push(literal.to_owned());
                if literal.len() > MAX_TOKEN_BYTES {
                    tokens.extend(literal.split_whitespace().map(str::to_owned));
                }
            }
        }
    }
    tokens.retain(|token| (1..=MAX_TOKEN_BYTES).contains(&token.len()));
    tokens.sort();
    tokens.dedup();
    tokens
}

/// The literals that the shapes of keys begin with.
pub fn prefixes() -> Vec<String> {
    let shapes = TABLES[0].lines().filter_map(|line| line.split_once("shapes = [")?.1.split_once(']'));
    let strings = shapes.flat_map(|(shapes, _)| shapes.split('"').skip(1).step_by(2));
    let mut prefixes: Vec<String> = strings.filter_map(|shape| shape.split('{').next()).map(str::to_owned).collect();
    prefixes.retain(|prefix| prefix.len() >= 2);
    prefixes.sort();
    prefixes.dedup();
    prefixes
}

/// What takes text: a name, and a run over one text.
pub type Target = (&'static str, fn(&str));

/// Everything of the engine that takes text which others wrote.
pub const TARGETS: [Target; 8] = [
    ("redact", |text| drop(Redactor::numbered(Rules::default()).redact(text, RedactionMode::Text))),
    ("redact JSON", |text| {
        let body = json!({"password": text, text: ["x"]}).to_string();
        drop(Redactor::numbered(Rules::default()).redact_json(&body));
    }),
    ("parse and check a body", |text| {
        let inner = text.replace(['"', '\\', '\n', '\r', '\t', '\u{1b}'], " ");
        let body = format!("{{\"messages\":[{{\"role\":\"user\",\"content\":\"{inner}\",\"{inner}\":[{inner}");
        for body in [text, &body] {
            drop(wire::parse(None, body));
            drop(check::check(body, ApiFormat::Chat, &check::Target::default_for(ApiFormat::Chat)));
        }
    }),
    ("compact a result", |text| compacted(call("bash", &json!({"command": "make"}), text))),
    ("compact a script", |text| compacted(call("bash", &json!({"command": text}), "ok"))),
    ("compact an edit", |text| {
        compacted(call("edit_file", &json!({"path": "a.py", "old_string": text, "new_string": "x"}), "ok"));
    }),
    ("compact a request", |text| compacted(vec![said("user", text), said("assistant", "Yes.")])),
    ("compact a reply", |text| {
        compacted(vec![said("user", "Well?"), said("assistant", text), said("user", text)]);
    }),
];

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

fn call(tool: &str, arguments: &Value, result: &str) -> Vec<Value> {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    vec![
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": function}]}),
        json!({"role": "tool", "tool_call_id": "c", "content": result}),
    ]
}

/// Compacts a body with these messages in the middle.
fn compacted(middle: Vec<Value>) {
    let mut messages = vec![said("system", "Be careful."), said("user", "Begin.")];
    messages.extend(middle);
    messages.extend((0..30).map(|i| said(["assistant", "user"][i % 2], "Go on with the next of them.")));
    let body = json!({"model": "gpt-5", "messages": messages}).to_string();
    let (transcript, _) = wire::parse(ApiFormat::Chat, &body).unwrap();
    let options = CompactOptions { force: true, ..CompactOptions::default() };
    drop(Compressor.compact(PlanInput {
        policy: &policy("gpt-5", 4_000),
        options: &options,
        cache: &mut BlockCache::default(),
        transcript: &transcript,
    }));
}

/// A unit and what it costs, in nanoseconds a byte.
#[derive(Debug, Clone)]
pub struct Slow {
    /// The tokens, joined.
    pub unit: String,
    /// The time for each byte of the unit repeated.
    pub cost: f64,
    tokens: Vec<usize>,
}

/// Looks for units that are slow for `run` when they are repeated to `bytes`: so many tries, the slowest first.
pub fn search(seed: u64, tries: usize, bytes: usize, run: &dyn Fn(&str)) -> Vec<Slow> {
    let tokens = tokens();
    let mut choices = Numbers(seed);
    let mut best: Vec<Slow> = Vec::new();
    for attempt in 0..tries {
        // A third of the tries begin anew; the others change one of the best.
        let turn = match best.len() {
            kept if kept > 2 && attempt % 3 != 0 => {
                let parent = best[choices.below(kept)].tokens.clone();
                changed(parent, &mut choices, tokens.len())
            }
            _ => (0..=choices.below(4)).map(|_| choices.below(tokens.len())).collect(),
        };
        let text: String = turn.iter().map(|&token| tokens[token].as_str()).collect();
        if best.iter().any(|cache| cache.unit == text) {
            continue;
        }
        let repeated = repeat(&text, bytes);
        let spent = spent(|| run(&repeated));
        let cost = spent.as_nanos() as f64 / repeated.len() as f64;
        let place = best.partition_point(|cache| cache.cost > cost);
        best.insert(place, Slow { unit: text, cost, tokens: turn });
        best.truncate(12);
    }
    best
}

fn changed(mut turn: Vec<usize>, choices: &mut Numbers, count: usize) -> Vec<usize> {
    let (at, token) = (choices.below(turn.len()), choices.below(count));
    match choices.below(4) {
        0 if turn.len() < MAX_TOKENS => turn.insert(at, token),
        1 if turn.len() > 1 => {
            turn.remove(at);
        }
        2 => {
            let other = choices.below(turn.len());
            turn.swap(at, other);
        }
        _ => turn[at] = token,
    }
    turn
}

/// A unit again and again, to about so many bytes.
pub fn repeat(turn: &str, bytes: usize) -> String {
    turn.repeat((bytes / turn.len()).max(1))
}

/// The time that this thread had on a processor for it.
pub fn spent(run: impl FnOnce()) -> Duration {
    let start = processor_time();
    run();
    processor_time().saturating_sub(start)
}
