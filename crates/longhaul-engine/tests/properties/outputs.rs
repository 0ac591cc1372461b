//! Outputs to digest: made up here, in twenty variants a kind, and read from a folder of real ones.

use crate::support::shared;
use longhaul_engine::digest::OutputKind;
use serde_json::Value;
use std::fmt::Write as _;

/// Variants of each kind.
const VARIANTS: usize = 21;

/// Makes one variant of a kind.
type Maker = fn(usize) -> String;

/// Every kind in all its variants.
pub(crate) fn all() -> Vec<(OutputKind, String)> {
    let makers: [(OutputKind, Maker); 13] = [
        (OutputKind::Binary, binary),
        (OutputKind::Json, json),
        (OutputKind::Diff, diff),
        (OutputKind::Html, html),
        (OutputKind::Build, build),
        (OutputKind::Search, search),
        (OutputKind::Tests, tests),
        (OutputKind::Table, table),
        (OutputKind::Listing, listing),
        (OutputKind::Log, log),
        (OutputKind::Source, source),
        (OutputKind::Prose, prose),
        (OutputKind::Output, output),
    ];
    makers.iter().flat_map(|(kind, make)| (0..VARIANTS).map(move |variant| (*kind, make(variant)))).collect()
}

/// Runs that failed, each said in another way.
pub(crate) fn failures() -> Vec<(&'static str, String)> {
    let chatter = "working on the next part of the job\n".repeat(120);
    vec![
        ("a status at the end", format!("{chatter}[The command completed with exit code 1.]\n")),
        ("a status at the start", format!("Exit code: 1\n{chatter}")),
        (
            "a traceback",
            format!(
                "{chatter}Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\nKeyError: 'x'\n"
            ),
        ),
        ("a build", format!("{chatter}FAILURE: Build failed with an exception.\nBUILD FAILED in 1s\n")),
        (
            "pytest",
            format!(
                "===== test session starts =====\n{chatter}FAILED t.py::test_a - assert 1 == 2\n==== 1 failed, 3 passed in 0.1s ====\n"
            ),
        ),
        (
            "cargo",
            format!(
                "running 2 tests\n{chatter}test a::b ... FAILED\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n"
            ),
        ),
        (
            "an envelope",
            format!("{{\"output\":\"{}\",\"metadata\":{{\"exit_code\":1}}}}", chatter.replace('\n', "\\n")),
        ),
        ("mocha", format!("{chatter}  60 passing (12ms)\n  1 failing\n\n  1) Array\n       should return -1:\n")),
        ("a panic", format!("thread 'main' panicked at src/main.rs:1:5:\nno luck\n{chatter}")),
        (
            "a Java trace",
            format!(
                "Exception in thread \"main\" java.lang.IllegalStateException: no\n{}",
                "\tat a.B.c(B.java:1)\n".repeat(90)
            ),
        ),
        (
            "JUnit",
            format!(
                "<testsuites><testsuite name=\"a\">\n{}<testcase name=\"b\"><failure message=\"x\"/></testcase>\n",
                "<testcase name=\"a\"/>\n".repeat(90)
            ),
        ),
        ("a tag", format!("<returncode>1</returncode>\n<output>\n{chatter}</output>\n")),
    ]
}

/// Real outputs: the files of `tool-outputs`, and results in the bodies of `corpus`.
pub(crate) fn real() -> Vec<String> {
    let files = |folder: &str| {
        let mut paths: Vec<_> = std::fs::read_dir(shared(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.retain(|path| path.is_file() && !path.ends_with("MANIFEST.json"));
        paths
    };
    let read = |path: &std::path::PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    // The largest files say nothing more by all their length, and the suite is to be quick.
    let mut texts: Vec<String> =
        files("tool-outputs").iter().map(|path| read(path).chars().take(60_000).collect()).collect();
    for path in files("corpus").iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let body: Value = serde_json::from_str(&read(path)).unwrap();
        results(&body, &mut texts);
    }
    texts.retain(|text| text.len() > 600);
    let every = texts.len().div_ceil(400);
    texts.into_iter().step_by(every).collect()
}

fn results(node: &Value, texts: &mut Vec<String>) {
    match node {
        Value::Object(map) => {
            let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
            let is_result = map.get("role").and_then(Value::as_str) == Some("tool")
                || kind == "tool_result"
                || kind.ends_with("_call_output");
            let text = map.get("content").or_else(|| map.get("output")).and_then(Value::as_str);
            match text.filter(|_| is_result) {
                Some(text) => texts.push(text.to_owned()),
                None => map.values().for_each(|value| results(value, texts)),
            }
        }
        Value::Array(items) => items.iter().for_each(|item| results(item, texts)),
        _ => {}
    }
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(|i| line(i) + "\n").collect()
}

fn binary(variant: usize) -> String {
    match variant % 3 {
        0 => format!("\u{fffd}PNG\r\n\u{1a}\n{}", "\u{0}\u{1}\u{fffd}IHDR".repeat(60 + variant)),
        1 => format!("data:image/png;base64,iVBORw0KGgo{}", "AAAANSUhEUgAA1x9".repeat(60 + variant)),
        _ => format!("JVBERi0xLjQKJ{}", "c2FtcGxlMTIzNDU2Nzg5MEFC".repeat(50 + variant)),
    }
}

fn json(variant: usize) -> String {
    let record = |i: usize| {
        let status = if i % 17 == 3 { "failed" } else { "done" };
        format!(
            "{{\"id\":{i},\"name\":\"job {i}\",\"status\":\"{status}\",\"owner\":{{\"login\":\"user{}\",\"żó\":null}},\"tags\":[\"a\",\"b\"]}}",
            i % 5
        )
    };
    let count = 40 + variant * 7;
    let records: Vec<_> = (0..count).map(record).collect();
    match variant % 5 {
        0 => format!("[{}]", records.join(",")),
        1 => records.join("\n"),
        2 => format!("{{\n  \"total\": {count},\n  \"items\": [\n    {}\n  ]\n}}\n", records.join(",\n    ")),
        3 => {
            let text = format!("[{}]", records.join(", "));
            text.chars().take(text.chars().count() * 2 / 3).collect()
        }
        _ => format!(
            "{{{}}}",
            records
                .iter()
                .enumerate()
                .map(|(i, record)| format!("\"key{i}\": {record}"))
                .collect::<Vec<_>>()
                .join(",\n")
        ),
    }
}

fn diff(variant: usize) -> String {
    let mut text = String::new();
    if variant.is_multiple_of(3) {
        text.push_str("commit 2ee20ccdf62450db611acc4a1a7e42f407ce8a14\nAuthor: A <a@example.com>\nDate:   Wed Dec 15 22:32:23 2021\n\n    Resolve links\n\n");
    }
    for file in 0..6 + variant {
        if variant.is_multiple_of(2) {
            let _ = write!(text, "diff --git a/src/f{file}.rs b/src/f{file}.rs\nindex 1..2 100644\n");
        }
        let _ = write!(
            text,
            "--- a/src/f{file}.rs\n+++ b/src/f{file}.rs\n@@ -1,4 +1,5 @@ fn main()\n use a;\n-let x = {file};\n+let x = {file} + 1;\n+--- not a header\n let y = 2;\n let z = 3;\n"
        );
    }
    text
}

fn html(variant: usize) -> String {
    if variant.is_multiple_of(2) {
        let rows = lines(40 + variant, |i| {
            format!("<p>Paragraph number {i} about the thing.</p><a href=\"/p/{i}\">go to {i}</a>")
        });
        return format!(
            "<!DOCTYPE html>\n<html><head><title>Shop {variant}</title><script>var a = '<p>';</script></head>\n<body><h1>Welcome</h1>\n{rows}</body></html>\n"
        );
    }
    let tree = lines(60 + variant, |i| {
        format!("  - {} \"Item {i}\" [ref=e{i}]", ["link", "button", "heading", "listitem", "textbox"][i % 5])
    });
    format!("- document \"Shop\" [ref=e0]\n{tree}")
}

fn build(variant: usize) -> String {
    let count = 30 + variant;
    match variant % 4 {
        0 => lines(count, |i| {
            format!(
                "src/app/file{}.ts({},5): error TS23{}: Type 'a' is not assignable to type 'b{i}'.",
                i % 6,
                i + 1,
                i % 9
            )
        }),
        1 => {
            lines(count, |i| {
                format!("src/main{}.c:{}:7: warning: unused variable 'x{i}' [-Wunused-variable]", i % 4, i + 1)
            }) + "make: *** [all] Error 2\n"
        }
        2 => {
            lines(count, |i| format!("   Compiling crate{i} v0.{i}.0"))
                + "error[E0308]: mismatched types\n --> src/main.rs:3:5\nerror: could not compile `app` (bin \"app\") due to 1 previous error\n"
        }
        _ => {
            lines(count, |i| format!("> Task :module{i}:compile"))
                + "e: file:///app/src/A.kt:3:4 Unresolved reference: foo\n\nBUILD FAILED in 3s\n"
        }
    }
}

fn search(variant: usize) -> String {
    let count = 50 + variant;
    match variant % 4 {
        0 => lines(count, |i| format!("src/mod{}/file.rs:{}:    let cache = parser.cache({i});", i % 7, i + 10)),
        1 => lines(count, |i| {
            format!(
                "lib/a{}.py{}{}{}    value = {i}",
                i % 3,
                if i % 4 == 0 { ':' } else { '-' },
                i + 1,
                if i % 4 == 0 { ':' } else { '-' }
            )
        }),
        2 => lines(count, |i| format!("{}:\tdef method_{i}(self):", i * 3 + 1)),
        _ => lines(count, |i| {
            format!(
                "{i}. Result about compaction\n   URL: https://example.com/page/{i}\n   A short text about the page number {i}."
            )
        }),
    }
}

fn tests(variant: usize) -> String {
    let count = 40 + variant * 3;
    let bad = variant % 5;
    match variant % 4 {
        0 => {
            let run =
                lines(count, |i| format!("tests/test_a.py::test_{i} {}", if i < bad { "FAILED" } else { "PASSED" }));
            let summary = lines(bad, |i| format!("FAILED tests/test_a.py::test_{i} - assert {i} == 2"));
            format!(
                "============ test session starts ============\ncollected {count} items\n{run}=== short test summary info ===\n{summary}==== {bad} failed, {} passed in 1.2s ====\n",
                count - bad
            )
        }
        1 => {
            let run = lines(count, |i| format!("test module::case_{i} ... {}", if i < bad { "FAILED" } else { "ok" }));
            format!(
                "running {count} tests\n{run}\ntest result: {}. {} passed; {bad} failed; 0 ignored\n",
                if bad > 0 { "FAILED" } else { "ok" },
                count - bad
            )
        }
        2 => {
            let run = lines(count, |i| {
                format!("=== RUN   TestCase{i}\n--- {}: TestCase{i} (0.00s)", if i < bad { "FAIL" } else { "PASS" })
            });
            format!("{run}{}\texample.com/pkg\t0.3s\n", if bad > 0 { "FAIL" } else { "ok  " })
        }
        _ => {
            let run = lines(count, |i| format!(" {} adds numbers of sort {i}", if i < bad { '×' } else { '✓' }));
            format!(
                " RUN  v3.2.4 /app\n\n{run}\n Test Files  1 failed (1)\n      Tests  {bad} failed | {} passed ({count})\n",
                count - bad
            )
        }
    }
}

fn table(variant: usize) -> String {
    let count = 40 + variant;
    match variant % 5 {
        0 => format!("id,name,price,stock\n{}", lines(count, |i| format!("{i},\"item, {i}\",{}.5,{}", i * 3, i % 7))),
        1 => format!("id\tname\tprice\n{}", lines(count, |i| format!("{i}\titem {i}\t{}", i * 2))),
        2 => format!(
            "| id | name | price |\n|----|------|------:|\n{}",
            lines(count, |i| format!("| {i} | item {i} | {} |", i + 5))
        ),
        3 => format!(
            " id | name  | price\n----+-------+-------\n{}({count} rows)\n",
            lines(count, |i| format!(" {i:2} | item{i} | {}", i * 4))
        ),
        _ => format!(
            "NAME      READY   STATUS    RESTARTS\n{}",
            lines(count, |i| format!("pod-{i:03}   1/1     Running   {}", i % 3))
        ),
    }
}

fn listing(variant: usize) -> String {
    let count = 60 + variant;
    match variant % 4 {
        0 => format!(
            "total 48\n{}",
            lines(count, |i| format!("-rw-r--r-- 1 root root {:5} Nov 15 21:11 file{i}.rs", i * 31))
        ),
        1 => lines(count, |i| format!("./src/module{}/part_{i}.py", i % 5)),
        2 => format!("src\n{}", lines(count, |i| format!("├── module{i}.ts"))),
        _ => lines(count, |i| format!("100644 blob 2e90753cb8e29946973b91d1042c9ea249c728cf     {i}\tdocs/page{i}.md")),
    }
}

fn log(variant: usize) -> String {
    let count = 80 + variant * 4;
    let level = |i: usize| {
        if i % 29 == 7 {
            "ERROR"
        } else if i % 13 == 5 {
            "WARN"
        } else {
            "INFO"
        }
    };
    match variant % 4 {
        0 => lines(count, |i| {
            format!("2024-05-01 10:{:02}:{:02},123 {} worker {i} did its part", i / 60 % 60, i % 60, level(i))
        }),
        1 => lines(count, |i| {
            format!("May  1 10:{:02}:{:02} host app[{i}]: {} request {i}", i / 60 % 60, i % 60, level(i).to_lowercase())
        }),
        2 => lines(count, |i| format!("[{}] cache of parser {i} was read", level(i))),
        _ => lines(count, |i| {
            format!(
                "127.0.0.1 - - [10/Oct/2023:13:{:02}:36 +0000] \"GET /p/{i} HTTP/1.1\" {}",
                i % 60,
                if i % 9 == 0 { 500 } else { 200 }
            )
        }),
    }
}

fn source(variant: usize) -> String {
    let count = 12 + variant;
    match variant % 4 {
        0 => format!(
            "import os\nimport sys\n\n{}",
            lines(count, |i| format!(
                "def compute_{i}(a, b):\n    \"\"\"Computes.\"\"\"\n    if a > {i}:\n        raise ValueError(\"an error of sort {i}\")\n    return a + b\n"
            ))
        ),
        1 => format!(
            "use std::fmt;\n\n{}",
            lines(count, |i| format!(
                "pub struct Part{i} {{\n    value: usize,\n}}\n\nimpl Part{i} {{\n    pub fn value(&self) -> usize {{\n        self.value + {i}\n    }}\n}}\n"
            ))
        ),
        2 => lines(count * 5, |i| format!("{:6}\tconst value{i} = compute({i}, other);", i + 1)),
        _ => format!(
            "import x from \"x\";\n\n{}",
            lines(count, |i| format!(
                "export function handle{i}(event: Event) {{\n\tconst value = event.value;\n\treturn value + {i};\n}}\n"
            ))
        ),
    }
}

fn prose(variant: usize) -> String {
    lines(14 + variant, |i| {
        format!(
            "## Part {i}\n\nThis part of the guide tells how the cache is kept warm over many turns.\nIt goes on for a while and then it says what to do next in such a case.\n\n- first the reader checks the log of the run\n- then they try again with more patience\n"
        )
    })
}

fn output(variant: usize) -> String {
    lines(60 + variant, |i| match (variant + i) % 6 {
        0 => format!("step={i} loss=0.{i:03} lr=1e-4"),
        1 => format!("epoch {i} >> saved"),
        2 => format!("~ {i} / 300"),
        3 => format!("mem {i}MB"),
        4 => format!("** phase {i} **"),
        _ => format!("tick {i}"),
    })
}
