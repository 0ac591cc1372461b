//! Time grows with the body and not faster, whatever stands in it: eight times as much of a shape takes about eight times the
//! work.
//!
//! Work is the time that this thread had on a processor, the least of several runs. The limit is an exponent, so that it says the
//! same of every shape; a shape that misses it is measured again, because a busy machine makes some runs look larger.

use crate::support::slow::{self, TARGETS, repeat, search};
use crate::support::{policy, processor_time};
use longhaul_engine::block_cache::BlockCache;
use longhaul_engine::cache::{BreakpointCarrier, CacheRules};
use longhaul_engine::check::Target;
use longhaul_engine::cost::{BreakpointPolicy, CostStrategy, RecordedSession, Replay};
use longhaul_engine::models::Caching;
use longhaul_engine::plan::{CompactOptions, Compressor, Engine, PlanInput};
use longhaul_engine::policy::{CacheStrategy, CacheTtl, Config};
use longhaul_engine::redact::{RedactionMode, Redactor, Rules};
use longhaul_engine::{ApiFormat, Tokens, models, prices, wire};
use serde_json::{Value, json};
use std::time::Duration;

tests! {
    always: [
        a_compaction_takes_time_in_proportion_to_the_body,
        many_small_things_take_time_in_proportion_to_their_number,
        slow_units_take_time_in_proportion_to_their_text,
        what_a_search_finds_slow_takes_time_in_proportion_to_its_text,
        a_repeated_prefix_is_redacted_nearly_as_fast_as_ordinary_text,
        a_replay_takes_time_in_proportion_to_the_steps,
    ],
    real: [],
}

/// What is allowed: eight times the input in 8^1.15 times the time.
const EXPONENT: f64 = 1.15;
const TIMES: usize = 8;
const RUNS: usize = 3;
const ATTEMPTS: usize = 6;
/// The same for short units, of which a compaction reads more from some size on: quadratic work has 2.
const STEEPEST: f64 = 1.4;
/// How many times as much a repeated prefix may cost as ordinary text, in a build that is hardly optimised: 18 is the most that was
/// measured. Optimised, 408 of 422 prefixes are redacted at 50 MB/s or more, and the slowest, which have another prefix inside, at 12
/// (`slow_inputs -- prefixes`).
const DEAREST_PREFIX: f64 = 24.0;

/// A shape: its name, how many of it are one, and the messages that have so many.
type Shape = (&'static str, usize, fn(usize) -> Vec<Value>);

const SHAPES: &[Shape] = &[
    // What once was quadratic.
    ("one file polled", 250, |n| {
        steps(n, |i| ("read_file", json!({"path": "a.txt"}), format!("line {i}\n").repeat(5)))
    }),
    ("rules that replace each other", 200, |n| said(n, |i| format!("Use tool{i} instead of tool{}.", i + 1))),
    ("questions", 300, |n| said(n, |i| format!("What is number {i}?"))),
    ("files edited", 200, |n| steps(n, |i| ("edit_file", edit(i), "edited".into()))),
    ("files deleted", 250, |n| steps(n, |i| ("bash", command(format!("rm src/d{}/f{i}.py", i % 97)), "ok".into()))),
    ("failures", 200, |n| {
        steps(n, |i| ("bash", command(format!("python t{i}.py")), format!("Error: bad {i}\nexit code: 1")))
    }),
    ("calls with one id", 250, |n| (0..n).flat_map(|_| call(0, "bash", &command("ls".into()), "x")).collect()),
    ("parallel calls", 300, parallel),
    ("replies in a row", 400, |n| (0..n).map(|i| reply(&format!("Reply {i} because of `x{i}`."))).collect()),
    ("a script of many parts", 500, |n| result_of(&many(n, "; ", |i| format!("echo a{i} > f{i}")), "ok")),
    ("tiny messages", 700, |n| said(n, |_| "a".into())),
    // Texts that are hard to split, to escape or to count.
    ("one long line", 12_000, |n| shown(&"x y".repeat(n))),
    ("blank lines", 30_000, |n| shown(&"\n".repeat(n))),
    ("spaces", 30_000, |n| shown(&" ".repeat(n))),
    ("tabs and spaces", 12_000, |n| shown(&"\t ".repeat(n))),
    ("quotes", 20_000, |n| shown(&"\"".repeat(n))),
    ("backslashes", 20_000, |n| shown(&"\\".repeat(n))),
    ("brackets", 20_000, |n| shown(&"[".repeat(n))),
    ("braces in pairs", 12_000, |n| shown(&"{}".repeat(n))),
    ("deep JSON", 10_000, |n| shown(&format!("{}{}", "{\"a\":".repeat(n), "}".repeat(n)))),
    ("a JSON list", 1_200, |n| shown(&format!("[{}]", many(n, ",", |i| format!("{{\"id\":{i},\"name\":\"n{i}\"}}"))))),
    ("one letter", 30_000, |n| shown(&"a".repeat(n))),
    ("equal signs", 30_000, |n| shown(&"=".repeat(n))),
    ("digits", 60_000, |n| shown(&"7".repeat(n))),
    ("Chinese", 8_000, |n| shown(&"汉字".repeat(n))),
    ("marks on a letter", 8_000, |n| shown(&format!("e{}", "\u{301}".repeat(n)))),
    ("line separators", 16_000, |n| shown(&"a\u{2028}".repeat(n))),
    ("carriage returns", 16_000, |n| shown(&"50 %\r".repeat(n))),
    ("colours", 5_000, |n| shown(&"\u{1b}[31mred\u{1b}[0m ".repeat(n))),
    // Outputs of tools.
    ("a log", 4_000, |n| {
        shown(&many(n, "\n", |i| format!("2026-01-01T00:00:{:02} INFO request {i} took {i} ms", i % 60)))
    }),
    ("errors", 3_200, |n| shown(&many(n, "\n", |i| format!("error: cannot open file{i}.rs: denied")))),
    ("failing tests", 3_200, |n| shown(&many(n, "\n", |i| format!("test case_{i} ... FAILED")))),
    ("stack frames", 1_800, |n| {
        shown(&many(n, "\n", |i| format!("  File \"a{i}.py\", line {i}, in f{i}\nValueError: {i}")))
    }),
    ("a diff", 2_400, |n| shown(&many(n, "\n", |i| format!("@@ -{i},1 +{i},1 @@\n-old {i}\n+new {i}")))),
    ("a table", 4_800, |n| shown(&many(n, "\n", |i| format!("{i},name {i},{}", i * 7)))),
    ("HTML", 3_200, |n| shown(&many(n, "", |i| format!("<div><p>text {i}</p>")))),
    ("a listing", 6_000, |n| shown(&many(n, "\n", |i| format!("src/d{}/f{i}.rs", i % 31)))),
    ("addresses", 2_400, |n| {
        shown(&many(n, "\n", |i| format!("https://user:pass{i}@host{i}.example/path?token=abc{i}")))
    }),
    ("names with secrets", 1_600, |n| {
        shown(&many(n, "\n", |i| format!("API_KEY_{i}=sk-abcdefghijklmnopqrstuvwx{i:06}")))
    }),
    ("the same result", 60, |n| steps(n, |i| ("bash", command(format!("make {i}")), "a line of output\n".repeat(30)))),
    // What people, agents and calls say.
    ("a long request", 2_000, |n| {
        long_said(&many(n, "\n\n", |i| format!("Please never touch file {i}, because it is {i}.")))
    }),
    ("a long reply", 400, |n| turn(&reply(&many(n, " ", |i| format!("I changed `f{i}` because x{i} was wrong."))))),
    ("a list of tasks", 200, |n| steps(2, |_| ("todo_write", todos(n), "ok".into()))),
    ("code in a reply", 3_200, |n| {
        turn(&reply(&format!("```\n{}\n```", many(n, "\n", |i| format!("let x{i} = f({i});")))))
    }),
    ("nested arguments", 5_000, |n| steps(1, |_| ("run", nested(n), "ok".into()))),
    ("many arguments", 2_400, |n| {
        steps(1, |_| ("run", (0..n).map(|i| (format!("a{i}"), json!(i))).collect(), "ok".into()))
    }),
    ("a file written", 4_500, |n| {
        steps(1, |_| {
            ("write_file", json!({"path": "a.py", "content": many(n, "\n", |i| format!("x{i} = {i}"))}), "ok".into())
        })
    }),
    ("one file edited", 200, |n| {
        steps(n, |i| {
            (
                "edit_file",
                json!({"path": "a.py", "old_string": format!("a = {i}"), "new_string": format!("a = {}", i + 1)}),
                "edited".into(),
            )
        })
    }),
    ("a document in a script", 3_000, |n| {
        result_of(&format!("cat > a.py <<'END'\n{}\nEND", many(n, "\n", |i| format!("x{i} = {i}"))), "ok")
    }),
    ("a quote that never ends", 20_000, |n| result_of(&format!("echo '{}", "a b ".repeat(n)), "ok")),
    ("orphans", 900, |n| {
        (0..n).map(|i| json!({"role": "tool", "tool_call_id": format!("o{i}"), "content": "x"})).collect()
    }),
    ("pictures", 300, |n| (0..n).flat_map(|_| picture()).collect()),
    ("searches", 250, |n| steps(n, |i| ("grep", json!({"pattern": format!("p{i}")}), format!("src/a{i}.rs:1:p{i}")))),
];

const MARKS: BreakpointPolicy = BreakpointPolicy {
    strategy: CacheStrategy::SystemAndThree,
    ttl: CacheTtl::FiveMinutes,
    carrier: BreakpointCarrier::Content,
};

fn a_compaction_takes_time_in_proportion_to_the_body() {
    let policy = policy("gpt-5", 20_000);
    let focused = CompactOptions { force: true, focus: Some("port".into()), ..CompactOptions::default() };
    let plain = CompactOptions { force: true, ..CompactOptions::default() };
    let lines = |n: usize| shown(&many(n, "\n", |i| format!("line {i} of the port log")));
    let shapes = SHAPES.iter().map(|&(name, n, make)| (name, n, make, &plain));
    let mut late = Vec::new();
    for (name, n, make, options) in shapes.chain([("lines on a topic", 1_000, lines as fn(usize) -> _, &focused)]) {
        let exponent = exponent(
            |times| body(make(n * times)),
            |body| {
                let (transcript, _) = wire::parse(ApiFormat::Chat, body).unwrap();
                Compressor
                    .compact(PlanInput {
                        policy: &policy,
                        options,
                        cache: &mut BlockCache::default(),
                        transcript: &transcript,
                    })
                    .unwrap();
            },
        );
        say!("{exponent:.2} {name}");
        if exponent > EXPONENT {
            late.push(format!("{name}: {exponent:.2}"));
        }
    }
    assert!(late.is_empty(), "time grows faster than the body: {late:?}");
}

fn a_replay_takes_time_in_proportion_to_the_steps() {
    let courses = [
        CostStrategy::BreakpointsOnly,
        CostStrategy::Compressor(0.5),
        CostStrategy::SacredZone,
        CostStrategy::Scheduler,
    ];
    let both = ["gpt-5", "claude-sonnet-4-5"].into_iter().flat_map(|name| courses.map(|course| (name, course)));
    for (name, course) in both {
        let model = models::find(name);
        // A window that the session fills many times over, so that it is compacted on its way.
        let mut config = Config::default();
        config.models.entry(name.to_owned()).or_default().context_length = Some(Tokens(16_000));
        let policy = course.policy(&config, &model).unwrap();
        let small = |i: usize| ("bash", command(format!("ls {i}")), format!("file {i}"));
        let exponent = exponent(
            |times| json!({"model": name, "messages": steps(2_000 * times, small)}).to_string(),
            |body| {
                let (transcript, _) = wire::parse(ApiFormat::Chat, body).unwrap();
                let cache = &mut BlockCache::default();
                let session = RecordedSession::new(&transcript, &model, cache);
                let requests = session.requests();
                let replay = Replay {
                    session: &session,
                    requests: &requests,
                    pauses: &vec![Duration::from_secs(10); requests.len()],
                    rules: CacheRules::for_model(&model),
                    price: &prices::find(name).unwrap().price,
                    breakpoints: (model.facts.caching == Caching::Breakpoints).then_some(MARKS),
                };
                replay.run(course, &policy, cache).unwrap();
            },
        );
        say!("{exponent:.2} a replay of small steps for {name}, {course}");
        assert!(exponent <= EXPONENT, "{name}, {course}: {exponent:.2}");
    }
}

/// Messages, blocks and definitions that say nothing, in great number.
const SMALL: [&str; 16] = [
    "{}",
    "[]",
    "null",
    "0",
    "\"\"",
    "[[[[]]]]",
    r#"{"role":"user"}"#,
    r#"{"role":"user","content":""}"#,
    r#"{"role":"user","content":[]}"#,
    r#"{"role":"user","content":[{}]}"#,
    r#"{"role":"user","content":[{"type":"text","text":""}]}"#,
    r#"{"role":"assistant","content":null,"tool_calls":[{}]}"#,
    r#"{"role":"system","content":"a"}"#,
    r#"{"role":"tool"}"#,
    r#"{"type":"function_call"}"#,
    r#"{"type":"reasoning"}"#,
];

/// Bodies with so many of a thing: as messages, as the blocks of one message, and as definitions of tools.
fn many_of(api_format: ApiFormat, thing: &str, count: usize) -> [String; 3] {
    let list = vec![thing; count].join(",");
    let field = if api_format == ApiFormat::Responses { "input" } else { "messages" };
    [
        format!(r#"{{"model":"gpt-5","{field}":[{list}]}}"#),
        format!(r#"{{"model":"gpt-5","{field}":[{{"role":"user","content":[{list}]}}]}}"#),
        format!(r#"{{"model":"gpt-5","tools":[{list}],"{field}":[{{"role":"user","content":"a"}}]}}"#),
    ]
}

fn many_small_things_take_time_in_proportion_to_their_number() {
    const COUNT: usize = 4_000;
    let policy = policy("gpt-5", 20_000);
    let options = CompactOptions { force: true, ..CompactOptions::default() };
    let mut late = Vec::new();
    for api_format in [ApiFormat::Chat, ApiFormat::Messages, ApiFormat::Responses] {
        for thing in SMALL {
            for place in 0..3 {
                let exponent = exponent(
                    |times| many_of(api_format, thing, COUNT * times)[place].clone(),
                    |body| {
                        let (transcript, _) = wire::parse(api_format, body).unwrap();
                        let _ = longhaul_engine::cache::prefix_chain(&transcript);
                        let _ = longhaul_engine::keyed_hash::KeyedHasher::new([7; 32]).hash_chain(&transcript);
                        let _ = longhaul_engine::check::check(body, api_format, &Target::default_for(api_format));
                        let _ = Compressor.compact(PlanInput {
                            policy: &policy,
                            options: &options,
                            cache: &mut BlockCache::default(),
                            transcript: &transcript,
                        });
                    },
                );
                say!("{exponent:.2} {api_format} {thing} {place}");
                if exponent > EXPONENT {
                    late.push(format!("{api_format} {thing} {place}: {exponent:.2}"));
                }
            }
        }
    }
    assert!(late.is_empty(), "time grows faster than the number: {late:?}");
}

/// Units that were found by a search (`cargo run --example slow_inputs`) or reported: what once was quadratic, and what costs most.
const SLOW_UNITS: [&str; 30] = [
    "secret:",
    "=$+++api_key",
    ":auth",
    "stripe:",
    "a=cookie;",
    "cookie;a=1;",
    "kind\":\"Secret\"",
    "{kind\":\"Secret\"",
    "-----BEGIN PRIVATE KEY----------END ",
    "PuTTY-User-Key-File-2: ",
    "password>",
    "key=\"",
    "key=\\\"",
    "key='\\\\\\'",
    "Password=b1c2;",
    "private-token:AAck_jetzt",
    "api-key-api-secret:",
    "\\n+14155552671",
    "eyJ-eyJ.",
    "\\u0067hp_",
    "Z2hwX2FiY2RlZmdoaWprbG1ub3A",
    "a\0",
    "\u{200b}echo 'hunter2' | sudo -kS id",
    "<system-reminder>\n",
    "</system-reminder>\n",
    "<system-reminder>\nThe user sent a new message while you were working:\n</system-reminder>\n",
    "</feedback>",
    "\r\nof",
    "10:00:49 ERROR 3 failed ",
    "wellinstrumentationinfo",
];

fn slow_units_take_time_in_proportion_to_their_text() {
    late_ones(SLOW_UNITS.iter().flat_map(|turn| TARGETS.map(|target| ((*turn).to_owned(), target))));
}

/// A short run of the search, always from the same seed.
fn what_a_search_finds_slow_takes_time_in_proportion_to_its_text() {
    const TRIES: usize = 60;
    const FINALISTS: usize = 3;
    let found = TARGETS.into_iter().flat_map(|target| {
        let slow = search(20_261_118, TRIES, 4 << 10, &target.1);
        slow.into_iter().take(FINALISTS).map(move |slow| (slow.unit, target))
    });
    late_ones(found);
}

fn late_ones(turns: impl Iterator<Item = (String, slow::Target)>) {
    const BYTES: usize = 16 << 10;
    let mut late = Vec::new();
    for (turn, (name, run)) in turns {
        let exponent = exponent(|times| repeat(&turn, BYTES * times), |text| run(text));
        say!("{exponent:.2} {name}: {turn:?}");
        if exponent > STEEPEST {
            late.push(format!("{name}: {turn:?}: {exponent:.2}"));
        }
    }
    assert!(late.is_empty(), "time grows faster than the text: {late:?}");
}

/// Every prefix of the table, again and again: each hit costs a look, and none may cost much more.
fn a_repeated_prefix_is_redacted_nearly_as_fast_as_ordinary_text() {
    const BYTES: usize = 64 << 10;
    let redact = |text: &str| drop(Redactor::numbered(Rules::default()).redact(text, RedactionMode::Text));
    let cost = |turn: &str| {
        let text = repeat(turn, BYTES);
        let time = (0..RUNS).map(|_| slow::spent(|| redact(&text))).min().unwrap();
        time.as_secs_f64() / text.len() as f64
    };
    redact("The tables are read once.");
    let ordinary = || cost("The quick brown fox jumps over the lazy dog, line by line.\n");
    let mut late = Vec::new();
    for prefix in slow::prefixes() {
        let mut times = f64::MAX;
        for _ in 0..ATTEMPTS {
            // Both within one attempt, so that a busy machine disturbs both or neither.
            times = times.min(cost(&prefix) / ordinary());
            if times <= DEAREST_PREFIX {
                break;
            }
        }
        say!("{times:.1} {prefix:?}");
        if times > DEAREST_PREFIX {
            late.push(format!("{prefix:?}: {times:.1}"));
        }
    }
    assert!(late.is_empty(), "a prefix costs more than {DEAREST_PREFIX} times ordinary text: {late:?}");
}

/// The power of the input's size that the work grows with. What disturbs one attempt does not last to the next: small and large are
/// held against each other within an attempt, and the attempt that was disturbed least counts.
///
/// A busy machine takes the processor's caches away, which slows the large input down and not the small one. So a shape that misses
/// the limit is measured with inputs that are both too large for them: work that grows too fast does so there as well.
fn exponent<T>(make: impl Fn(usize) -> T, run: impl Fn(&T)) -> f64 {
    let least = |input: &T| {
        let once = |_| {
            let start = processor_time();
            run(input);
            processor_time().saturating_sub(start)
        };
        (0..RUNS).map(once).min().unwrap().as_secs_f64()
    };
    let mut found = f64::MAX;
    for (small, attempts) in [(1, ATTEMPTS), (TIMES, 2)] {
        let (one, many) = (make(small), make(small * TIMES));
        for _ in 0..attempts {
            found = found.min((least(&many) / least(&one)).log(TIMES as f64));
            if found <= EXPONENT {
                return found;
            }
        }
    }
    found
}

/// A request with these messages in the middle, and so much behind them that they are folded.
fn body(middle: Vec<Value>) -> String {
    let mut messages = vec![json!({"role": "system", "content": "Be careful."}), user("Begin.")];
    messages.extend(middle);
    messages.extend((0..30).flat_map(|i| call(1_000_000 + i, "bash", &command("ls".into()), &"x ".repeat(300))));
    messages.push(user("Go on."));
    json!({"model": "gpt-5", "messages": messages}).to_string()
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn reply(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn call(id: usize, tool: &str, arguments: &Value, result: &str) -> [Value; 2] {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let calls = json!([{"id": format!("c{id}"), "type": "function", "function": function}]);
    [
        json!({"role": "assistant", "content": null, "tool_calls": calls}),
        json!({"role": "tool", "tool_call_id": format!("c{id}"), "content": result}),
    ]
}

/// Calls one after the other.
fn steps(n: usize, make: impl Fn(usize) -> (&'static str, Value, String)) -> Vec<Value> {
    let step = |i: usize| {
        let (tool, arguments, result) = make(i);
        call(i, tool, &arguments, &result)
    };
    (0..n).flat_map(step).collect()
}

/// Short turns.
fn said(n: usize, make: impl Fn(usize) -> String) -> Vec<Value> {
    (0..n).flat_map(|i| [user(&make(i)), reply("Yes.")]).collect()
}

fn long_said(text: &str) -> Vec<Value> {
    vec![user(text), reply("Yes.")]
}

fn turn(reply: &Value) -> Vec<Value> {
    vec![user("Well?"), reply.clone()]
}

/// A command whose output is this.
fn shown(text: &str) -> Vec<Value> {
    call(0, "bash", &command("make".into()), text).into()
}

fn result_of(script: &str, result: &str) -> Vec<Value> {
    call(0, "bash", &command(script.to_owned()), result).into()
}

fn command(command: String) -> Value {
    json!({"command": command})
}

fn edit(i: usize) -> Value {
    json!({"path": format!("src/d{}/f{i}.py", i % 97), "old_string": format!("a = {i}"), "new_string": format!("b = {i}")})
}

fn todos(n: usize) -> Value {
    let todo = |i: usize| json!({"content": format!("Do thing {i}"), "status": "pending"});
    json!({"todos": (0..n).map(todo).collect::<Vec<_>>()})
}

fn nested(n: usize) -> Value {
    // As text: a value that deep could not be dropped.
    json!({"value": format!("{}1{}", "[".repeat(n), "]".repeat(n))})
}

fn parallel(n: usize) -> Vec<Value> {
    let call = |i: usize| {
        let function = json!({"name": "read_file", "arguments": format!("{{\"path\":\"f{i}\"}}")});
        json!({"id": format!("p{i}"), "type": "function", "function": function})
    };
    let calls: Vec<Value> = (0..n).map(call).collect();
    let mut messages = vec![json!({"role": "assistant", "content": null, "tool_calls": calls})];
    let result = |i: usize| json!({"role": "tool", "tool_call_id": format!("p{i}"), "content": format!("text {i}")});
    messages.extend((0..n).map(result));
    messages
}

fn picture() -> [Value; 2] {
    let url = json!({"url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"});
    [json!({"role": "user", "content": [{"type": "image_url", "image_url": url}]}), reply("Seen.")]
}

fn many(n: usize, between: &str, make: impl Fn(usize) -> String) -> String {
    (0..n).map(make).collect::<Vec<_>>().join(between)
}
