//! What several test files need: real bodies, generated bodies, and ways to write the same body differently.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]
#![allow(
    clippy::format_collect,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "all of it is test code, in functions too"
)]

pub mod generate;
pub mod notation;
pub mod passes;
pub mod slow;
pub mod write;

use std::path::PathBuf;
use std::time::Duration;

use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::{Block, CallStatus, ToolCall, Transcript, TurnKind};
use longhaul_engine::{ApiFormat, models, wire};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// A file or folder of the shared data, which only the tests that are listed as `real` read.
pub fn shared(path: &str) -> PathBuf {
    let folder = std::env::var_os("LONGHAUL_SHARED").expect("LONGHAUL_SHARED names the folder of real data");
    PathBuf::from(folder).join(path)
}

/// The corpus bodies with their file names.
pub fn corpus() -> Vec<(String, String)> {
    let mut paths: Vec<_> = std::fs::read_dir(shared("corpus")).unwrap().map(|e| e.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    assert!(!paths.is_empty(), "LONGHAUL_SHARED names a folder without a corpus");
    paths
        .iter()
        .map(|p| (p.file_name().unwrap().to_string_lossy().into(), std::fs::read_to_string(p).unwrap()))
        .collect()
}

/// A body with its name and its dialect.
pub type Body = (String, ApiFormat, String);

/// The corpus bodies with the dialects that they are recognised as.
pub fn real_bodies() -> Vec<Body> {
    let api_format = |body: &str| wire::parse(None, body).unwrap().0.api_format;
    corpus().into_iter().map(|(name, body)| (name, api_format(&body), body)).collect()
}

/// The same body, written in other ways: pretty-printed, with CRLF, with every non-ASCII character escaped, with its keys
/// in another order.
pub fn written_differently(body: &str) -> Vec<(&'static str, String)> {
    let value: Value = serde_json::from_str(body).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    vec![
        ("crlf", pretty.replace('\n', "\r\n")),
        ("pretty", pretty),
        ("escaped", ascii_only(&serde_json::to_string(&value).unwrap())),
        ("reordered", serde_json::to_string(&reversed(value)).unwrap()),
    ]
}

fn ascii_only(json: &str) -> String {
    let mut turns = [0; 2];
    let escaped = json.chars().map(|c| {
        if c.is_ascii() {
            return c.to_string();
        }
        c.encode_utf16(&mut turns).iter().map(|u| format!("\\u{u:04x}")).collect()
    });
    escaped.collect()
}

fn reversed(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(reversed).collect(),
        Value::Object(fields) => Value::Object(fields.into_iter().rev().map(|(k, v)| (k, reversed(v))).collect()),
        other => other,
    }
}

/// A transcript as lines, without places in the body: two bodies that say the same have the same lines.
pub fn sketch(transcript: &Transcript<'_>) -> Vec<String> {
    let block =
        |b: &Block<'_>| format!("{} {}", kind(b), if is_json(b) { canonical(&b.text()) } else { b.text().into() });
    let mut lines: Vec<String> = transcript.preamble.iter().map(|b| format!("preamble {}", block(b))).collect();
    lines.sort();
    for turn in &transcript.turns {
        match &turn.kind {
            TurnKind::Prompt { speaker: by, blocks } => {
                lines.push(format!("prompt {by:?}"));
                lines.extend(blocks.iter().map(block));
            }
            TurnKind::Assistant { reply, tool_calls: exchanges } => {
                lines.push("step".into());
                lines.extend(reply.iter().map(block));
                for ToolCall { tool, call, results, result_elements: answers, status, failed } in exchanges {
                    lines.push(format!("exchange {tool} {} {failed:?} {}", name(*status), answers.len()));
                    lines.extend(call.iter().map(block));
                    lines.extend(results.iter().map(block));
                }
            }
            TurnKind::Checkpoint(b) => lines.push(format!("checkpoint {}", block(b))),
            TurnKind::Opaque(b) => lines.push(format!("opaque {}", block(b))),
        }
    }
    lines
}

fn name(status: CallStatus) -> String {
    format!("{status:?}")
}

/// A block's kind without the place of its data.
fn kind(block: &Block<'_>) -> String {
    format!("{:?}", block.kind).split(['(', ' ']).next().unwrap_or_default().to_owned()
}

fn is_json(block: &Block<'_>) -> bool {
    block.text.is_some_and(|t| t.encoding == longhaul_engine::transcript::TextEncoding::Json)
}

/// JSON without white space and with its keys sorted.
pub fn canonical(json: &str) -> String {
    fn sorted(value: Value) -> Value {
        match value {
            Value::Array(items) => items.into_iter().map(sorted).collect(),
            Value::Object(fields) => {
                let mut fields: Vec<_> = fields.into_iter().map(|(k, v)| (k, sorted(v))).collect();
                fields.sort_by(|a, b| a.0.cmp(&b.0));
                Value::Object(fields.into_iter().collect())
            }
            other => other,
        }
    }
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |value| sorted(value).to_string())
}

/// The default policy for a model with such a window.
pub fn policy(model: &str, window: usize) -> Policy {
    let stated = json!({"window": window, "input_limit": null});
    let model = models::find(model).with_stated_facts(stated.as_object().unwrap()).unwrap();
    Policy::new(&Config::default(), &model).unwrap().0
}

/// The time that this thread had on a processor.
pub fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap()
}

/// Fails where eight times the input takes far more than eight times the work: a quadratic walk takes 64 times as much. Work is
/// the time that this thread had on a processor, the least of several runs, which other work on the machine hardly changes.
pub fn assert_in_proportion<T>(what: &str, make: impl Fn(usize) -> T, run: impl Fn(&T)) {
    let work = |times: usize| {
        let input = make(times);
        let once = |_| {
            let start = processor_time();
            run(&input);
            processor_time().saturating_sub(start)
        };
        (0..5).map(once).min().unwrap()
    };
    let (one, eight) = (work(1), work(8));
    assert!(eight < 24 * one, "{what}: eight times the input took {one:?} → {eight:?}");
}

/// Repeatable numbers for tests: `SplitMix64`.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}
