//! Reading and rewriting, beside the cheapest things that could be done with the same bytes.
//!
//!     LONGHAUL_SHARED=… cargo bench -p longhaul-engine --bench wire
//!
//! Without LONGHAUL_SHARED the body is made of invented words.

use std::hint::black_box;

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher};
use longhaul_engine::{Edit, Rewrite, wire};
use serde::de::IgnoredAny;

#[global_allocator]
static ALLOCATIONS: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const MEGABYTES: [usize; 3] = [4, 25, 100];

/// A chat body of this many megabytes, made of the messages of real ones.
fn body(megabytes: usize) -> String {
    let messages = real_messages().unwrap_or_else(invented_messages);
    let mut out = String::from(r#"{"model":"gpt-5","messages":[{"role":"system","content":"You work."}"#);
    for message in messages.iter().cycle() {
        if out.len() >= megabytes << 20 {
            break;
        }
        out.push(',');
        out.push_str(message);
    }
    out.push_str("]}");
    out
}

fn real_messages() -> Option<Vec<String>> {
    let folder = std::path::PathBuf::from(std::env::var_os("LONGHAUL_SHARED")?).join("corpus");
    let mut paths: Vec<_> = std::fs::read_dir(folder).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.retain(|p| p.to_string_lossy().ends_with(".chat.json"));
    paths.sort();
    let values = paths
        .iter()
        .filter_map(|p| serde_json::from_slice::<serde_json::Value>(&std::fs::read(p).ok()?).ok());
    let messages = values.flat_map(|v| v["messages"].as_array().cloned().unwrap_or_default());
    Some(messages.filter(|m| m["role"] != "system").map(|m| m.to_string()).collect())
}

fn invented_messages() -> Vec<String> {
    let line = "src/main.rs:17: warning: unused variable `x`\\n\\tlet x = \\\"a\\\";\\n";
    let step = |i: usize| {
        let output = line.repeat(1 + i % 40);
        [
            format!(
                r#"{{"role":"assistant","content":"step {i}","tool_calls":[{{"id":"c{i}","type":"function","function":{{"name":"bash","arguments":"{{\"command\":\"cargo check\"}}"}}}}]}}"#
            ),
            format!(r#"{{"role":"tool","tool_call_id":"c{i}","content":"{output}"}}"#),
        ]
    };
    (0..2000).flat_map(step).collect()
}

#[divan::bench(args = MEGABYTES)]
fn a_skip_by_serde_json(bencher: Bencher<'_, '_>, megabytes: usize) {
    let body = body(megabytes);
    bencher.counter(BytesCount::of_str(&body)).bench(|| serde_json::from_str::<IgnoredAny>(black_box(&body)));
}

#[divan::bench(args = MEGABYTES)]
fn b_parse(bencher: Bencher<'_, '_>, megabytes: usize) {
    let body = body(megabytes);
    bencher.counter(BytesCount::of_str(&body)).bench(|| wire::parse(None, black_box(&body)));
}

#[divan::bench(args = MEGABYTES)]
fn c_copy(bencher: Bencher<'_, '_>, megabytes: usize) {
    let body = body(megabytes);
    bencher.counter(BytesCount::of_str(&body)).bench(|| black_box(&body).clone());
}

#[divan::bench(args = MEGABYTES)]
fn d_apply_200_edits(bencher: Bencher<'_, '_>, megabytes: usize) {
    let body = body(megabytes);
    let rewrite = rewrite(&body);
    bencher.counter(BytesCount::of_str(&body)).bench(|| rewrite.apply(black_box(&body)));
}

/// Two hundred texts, evenly spread, each replaced by a line.
fn rewrite(body: &str) -> Rewrite {
    let Ok((transcript, _)) = wire::parse(None, body) else { return Rewrite::default() };
    let texts: Vec<_> = transcript.blocks().filter_map(|b| b.text).collect();
    let every = texts.len() / 200;
    let edits = texts.iter().step_by(every).take(200);
    let edits =
        edits.map(|text| Edit::Text { text: *text, with: "{\"shorter\":\"a line of \\\"text\\\"\"}".into() });
    Rewrite::new(&transcript, edits.collect()).unwrap_or_default()
}
