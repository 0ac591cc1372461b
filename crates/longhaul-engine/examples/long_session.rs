//! A two-hour session in a window that it outgrows: 83 tool calls, 127,000 tokens of results, 47,000 of other text, in a
//! window of 100,000, kept going by the sacred zone alone. Prints each compaction and draws tokens over time.
//!
//!     LONGHAUL_SHARED=… cargo run --release -p longhaul-engine --example long_session -- session.svg
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used, reason = "a measurement, not a library")]

use std::fmt::Write;
use std::path::PathBuf;

use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::meter::Meter;
use longhaul_engine::models;
use longhaul_engine::plan::{CompactOptions, Engine, Plan, PlanInput, SacredZone, Trigger};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::{ElementId, TurnKind};
use longhaul_engine::{Edit, Rewrite, wire};
use serde_json::{Value, json};

const CALLS: usize = 83;
const RESULT_TOKENS: u64 = 127_000;
const OTHER_TOKENS: u64 = 47_000;
const WINDOW: usize = 100_000;

fn main() {
    let drawing = std::env::args().nth(1).expect("where to write the drawing");
    let shared = std::env::var_os("LONGHAUL_SHARED").expect("LONGHAUL_SHARED names the folder of the corpus");
    let pieces = Pieces::read(&PathBuf::from(shared).join("corpus"));
    let turns = pieces.session();
    let model = models::find("gpt-5");
    let stated = json!({"window": WINDOW, "input_limit": null});
    let model = model.with_stated_facts(stated.as_object().unwrap()).unwrap();
    let (policy, _) = Policy::new(&Config::default(), &model).unwrap();
    let (meter, mut cache) = (Meter::for_model(&model), BlockCache::default());

    let mut body = json!({"model": "gpt-5", "messages": [{"role": "system", "content": pieces.system}]}).to_string();
    let mut line: Vec<(u64, Option<u64>)> = Vec::new();
    let mut raw = 0;
    for (turn, messages) in turns.iter().enumerate() {
        body = with(&body, messages);
        let (transcript, _) = wire::parse(None, &body).unwrap();
        let before = meter.breakdown(&mut cache, &transcript).total().number();
        raw += messages.iter().map(|m| meter.counter.count(&m.to_string()).number()).sum::<u64>();
        let options = CompactOptions { trigger: Trigger::Reply, ..CompactOptions::default() };
        let after = match SacredZone
            .compact(PlanInput { policy: &policy, options: &options, cache: &mut cache, transcript: &transcript })
            .unwrap()
        {
            Plan::Unchanged(_) => None,
            Plan::Ready(outcome) => {
                let report = outcome.report;
                println!(
                    "turn {turn:3}: {} → {} tokens ({:.0} % of the window), {} outputs digested, {} units dropped, recent zone {}",
                    report.tokens.before,
                    report.tokens.after,
                    100.0 * report.tokens.after.number() as f64 / WINDOW as f64,
                    report.units.digested,
                    report.units.dropped,
                    report.zone.map_or_else(String::new, |zone| zone.recent.to_string()),
                );
                body = outcome.body;
                Some(report.tokens.after.number())
            }
        };
        line.push((before, after));
    }
    let calls = body.matches("\"tool_call_id\"").count();
    let highest = line.iter().map(|(before, _)| before).max().unwrap();
    println!("{calls} calls, {raw} tokens as JSON in all; the window of {WINDOW} was never more than {highest} full");
    std::fs::write(&drawing, svg(&line)).expect("the drawing can be written");
}

/// The body with messages at its end.
fn with(body: &str, messages: &[Value]) -> String {
    let (transcript, _) = wire::parse(None, body).unwrap();
    let array = transcript.turns.iter().flat_map(|u| &u.owned_elements).map(|id| id.array).min().unwrap_or(0);
    let end = ElementId { array, index: transcript.message_count() as u32 };
    let edits = messages.iter().map(|m| Edit::Insert { before: end, json: m.to_string() });
    Rewrite::new(&transcript, edits.collect()).unwrap().apply(body)
}

/// What sessions are made of: results with their calls, and prose.
struct Pieces {
    system: String,
    steps: Vec<(String, String, String, u64)>,
    prose: Vec<(String, u64)>,
}

impl Pieces {
    fn read(corpus: &std::path::Path) -> Self {
        let mut files: Vec<_> = std::fs::read_dir(corpus).unwrap().map(|e| e.unwrap().path()).collect();
        files.retain(|f| {
            let name = f.file_name().unwrap().to_string_lossy();
            name.starts_with("openhands_") || name.starts_with("mini-swe-agent_") || name.starts_with("pi-mono_large")
        });
        files.sort();
        let counter = models::find("gpt-5").counter();
        let mut pieces = Self { system: String::new(), steps: Vec::new(), prose: Vec::new() };
        for file in files {
            let body = std::fs::read_to_string(file).unwrap();
            let (transcript, _) = wire::parse(None, &body).unwrap();
            if pieces.system.is_empty() {
                pieces.system = transcript
                    .preamble
                    .iter()
                    .map(longhaul_engine::transcript::Block::text)
                    .collect::<Vec<_>>()
                    .join("\n");
            }
            for turn in &transcript.turns {
                match &turn.kind {
                    TurnKind::Assistant { reply, tool_calls: exchanges } => {
                        pieces.prose.extend(reply.iter().map(|b| (b.text().into_owned(), 0)));
                        for e in exchanges {
                            let result: String =
                                e.results.iter().map(longhaul_engine::transcript::Block::text).collect();
                            let arguments = e.call.as_ref().map(|c| c.text().into_owned()).unwrap_or_default();
                            let tokens = counter.count(&result).number();
                            pieces.steps.push((e.tool.to_string(), arguments, result, tokens));
                        }
                    }
                    TurnKind::Prompt { blocks, .. } => {
                        pieces.prose.extend(blocks.iter().map(|b| (b.text().into_owned(), 0)));
                    }
                    _ => {}
                }
            }
        }
        for (text, tokens) in &mut pieces.prose {
            *tokens = counter.count(text).number();
        }
        pieces.prose.retain(|(_, tokens)| (80..1_500).contains(tokens));
        pieces.steps.retain(|(_, arguments, _, tokens)| (60..9_000).contains(tokens) && arguments.len() < 1_500);
        pieces
    }

    /// Turns of one call each, with a user's message every ten, whose sums run evenly towards the wanted ones.
    fn session(&self) -> Vec<Vec<Value>> {
        let counter = models::find("gpt-5").counter();
        let (mut results, mut other) = (0, counter.count(&self.system).number());
        let (mut step, mut prose) = (0, 0);
        let mut turns = Vec::new();
        for call in 0..CALLS {
            let share = (call + 1) as f64 / CALLS as f64;
            let wanted = (RESULT_TOKENS as f64 * share) as u64;
            // The candidate among the next sixty that comes nearest to the even course.
            let window = (step..step + 60).map(|at| at % self.steps.len());
            let best = window.min_by_key(|at| (results + self.steps[*at].3).abs_diff(wanted)).unwrap();
            step += 7;
            let (tool, arguments, output, tokens) = &self.steps[best];
            results += tokens;
            other += counter.count(arguments).number() + 12;
            let mut said = String::new();
            let wanted = (OTHER_TOKENS as f64 * share) as u64;
            while other + 40 < wanted {
                let (text, tokens) = &self.prose[prose % self.prose.len()];
                prose += 1;
                if other + tokens > wanted + 200 {
                    continue;
                }
                said.push_str(text);
                other += tokens;
            }
            let mut messages = Vec::new();
            if call % 10 == 0 {
                messages.push(json!({"role": "user", "content": if said.is_empty() { "go on".into() } else { std::mem::take(&mut said) }}));
            }
            let id = format!("call_{call}");
            let function = json!({"name": tool, "arguments": arguments});
            messages.push(json!({"role": "assistant", "content": said, "tool_calls": [{"id": id, "type": "function", "function": function}]}));
            messages.push(json!({"role": "tool", "tool_call_id": id, "content": output}));
            turns.push(messages);
        }
        println!("{CALLS} calls, {results} tokens of results, {other} of other text");
        turns
    }
}

/// Tokens over turns: a line, the trigger, the target and the window.
fn svg(line: &[(u64, Option<u64>)]) -> String {
    let (width, height, left, bottom) = (760.0, 320.0, 60.0, 30.0);
    let x = |turn: usize| left + turn as f64 * (width - left - 10.0) / line.len() as f64;
    let y = |tokens: u64| (height - bottom) * (1.0 - tokens as f64 / (WINDOW as f64 * 1.05));
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>"#
    );
    for (tokens, name) in [(WINDOW as u64, "window"), (75_000, "trigger"), (50_000, "target")] {
        let at = y(tokens);
        let _ = write!(
            out,
            r##"<line x1="{left}" x2="{}" y1="{at:.1}" y2="{at:.1}" stroke="#bbb" stroke-dasharray="4 3"/><text x="4" y="{:.1}">{name}</text>"##,
            width - 10.0,
            at + 4.0
        );
    }
    let mut path = format!("M{left:.1} {:.1}", y(0));
    for (turn, (before, after)) in line.iter().enumerate() {
        let _ = write!(path, " L{:.1} {:.1}", x(turn + 1), y(*before));
        if let Some(after) = after {
            let _ = write!(path, " L{:.1} {:.1}", x(turn + 1), y(*after));
            let _ = write!(out, r##"<circle cx="{:.1}" cy="{:.1}" r="3" fill="#c33"/>"##, x(turn + 1), y(*after));
        }
    }
    let _ = write!(out, r##"<path d="{path}" fill="none" stroke="#247" stroke-width="1.6"/>"##);
    let _ =
        write!(out, r#"<text x="{}" y="{}">tool calls (0 to {})</text></svg>"#, width / 2.0, height - 8.0, line.len());
    out
}
