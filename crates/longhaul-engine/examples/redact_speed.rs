//! How fast redaction is: on a file of ordinary text, on text made to be slow, and on ever longer text.
//!
//!     cargo run --release -p longhaul-engine --example redact_speed -- FILE [REPEATED_TO_MB]

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use longhaul_engine::redact::{RedactionMode, Redactor, Rules};

const MB: usize = 1_000_000;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_default();
    let text = String::from_utf8_lossy(&std::fs::read(&file)?).into_owned();
    let longest: usize = arguments.next().and_then(|mb| mb.parse().ok()).unwrap_or(0);
    let rules = Rules::default();
    let ordinary = speed(&rules, &text);
    writeln!(out, "{:<28}{:>8.1} MB  {:>8.1} MB/s", "ordinary", text.len() as f64 / MB as f64, ordinary)?;
    for (name, text) in hard_texts() {
        let hard = speed(&rules, &text);
        writeln!(
            out,
            "{name:<28}{:>8.1} MB  {hard:>8.1} MB/s  {:.2} of ordinary",
            text.len() as f64 / MB as f64,
            hard / ordinary
        )?;
    }
    for size in [1, 10, 50, 100, 200].into_iter().filter(|&size| size <= longest) {
        let mut long = String::with_capacity(size * MB + text.len());
        while long.len() < size * MB {
            long.push_str(&text);
        }
        long.truncate((0..=size * MB).rev().find(|&at| long.is_char_boundary(at)).unwrap_or(0));
        writeln!(out, "{:<28}{size:>8.1} MB  {:>8.1} MB/s", "ordinary, repeated", speed(&rules, &long))?;
    }
    Ok(())
}

/// Megabytes a second of this thread's own time, over enough runs that the clock's step does not show.
fn speed(rules: &Rules, text: &str) -> f64 {
    let runs = (40 * MB / text.len()).clamp(1, 40);
    let start = thread_time();
    for _ in 0..runs {
        black_box(Redactor::numbered(rules.clone()).redact(black_box(text), RedactionMode::Text));
    }
    let spent = thread_time().saturating_sub(start);
    (runs * text.len()) as f64 / MB as f64 / spent.as_secs_f64()
}

/// Time on the processor where the system tells it, so that a busy machine does not count; else the clock.
fn thread_time() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = spent.and_then(|line| line.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// A megabyte each of what scanners stumble over.
fn hard_texts() -> Vec<(&'static str, String)> {
    let repeat = |part: &str| part.repeat(MB / part.len());
    let run = repeat("aB3");
    vec![
        ("run, secret before", format!("password={run}")),
        ("run, secret after", format!("{run}password=hunter2")),
        ("run, secrets inside", repeat("aB3xpasswordaB3x")),
        ("run of `key`", repeat("key")),
        ("run of `token=`", repeat("token=")),
        ("`secret: ` again and again", repeat("secret: ")),
        ("`secret:\"` again and again", repeat("secret:\"")),
        ("`\"api_key\": ` again", repeat("\"api_key\": ")),
        ("`password ` again", repeat("password ")),
        ("nested brackets", repeat("[{(")),
        ("brackets with names", repeat("{\"key\":[")),
        ("a million =", repeat("=")),
        ("long base64", repeat("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo+/")),
        ("dotted keys", repeat("api.key.secret.token.")),
        ("dashed keys", repeat("api-key-secret-token-")),
        ("eyJ.eyJ.eyJ", repeat("eyJ.")),
        ("eyJ-eyJ-eyJ", repeat("eyJ-")),
        ("eyJ-…-eyJ.eyJ!", format!("{}.eyJ!", repeat("eyJ-"))),
        ("ghp_ghp_ghp_", repeat("ghp_")),
        ("glpat-glpat-", repeat("glpat-")),
        ("sk-sk-sk-", repeat("sk-")),
        ("xoxb-1-", repeat("xoxb-1234567890-")),
        ("urls", repeat("a://b:c@")),
        ("long authorities", repeat("http://aaaaaaaaaaaaaaaaaaaaaaaa")),
        ("-----BEGIN", repeat("-----BEGIN PRIVATE KEY-----")),
        ("-----BEGIN, spaced", repeat("-----BEGIN PRIVATE KEY----- !")),
        ("PuTTY", repeat("PuTTY-User-Key-File-2: Private-Lines:")),
        ("kind: Secret", repeat("kind: Secret\n")),
        ("kind: Secret, data", repeat("kind: Secret\ndata:\n  a: b\n")),
        ("cookies", repeat("Cookie: a=b; ")),
        ("cookie=cookie=", repeat("cookie=")),
        ("curl -u", repeat("curl -u a:b ")),
        ("curl curl curl", repeat("curl ")),
        ("plus signs", repeat("+1")),
        ("phone numbers", repeat("+14155552671 ")),
        ("connection strings", repeat("Server=a;Password=b1c2d3e4;")),
        ("AKIA ids", repeat("AKIAABCDEFGHIJKLMNOP ")),
        ("backslashes", repeat("password=\\\\\\\"")),
        ("percent", repeat("password%3D%26")),
        ("marks", repeat("[REDACTED:token:1]")),
    ]
}
