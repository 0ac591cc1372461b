//! Compactions that a person can read: the cases in `tests/compressor/*.txt`, each run in all three dialects.
//!
//! ```text
//! # An older identical read becomes a pointer to the newer one.      the idea; a case goes on to the next such line
//! policy: window 8000, first 1                                       what differs from the defaults (see `policy.rs`)
//! dialects: chat messages                                            left out: all three
//! breaks: A1 O2 R2                                                   rules that the transcript itself breaks
//! may break: A25                                                     rules that no rewrite of it could keep
//! client: sends the original                                         with each round; left out: it sends what came out before
//! == before                                                          a transcript (see `notation.rs`)
//! user     fix the config
//! …
//! == after                                                           what came out (see `render.rs`); written by UPDATE_GOLDEN=1
//! == report                                                          and what was said about it; also written
//! == holds                                                           what must be true of it (see `holds.rs`)
//! == then: to 2000                                                   what came next, on top of what came out before
//! ```
//!
//! Where dialects differ, `== after chat` and `== after messages responses` stand side by side. A round without `== after` has
//! none. Whatever a case is about, its output breaks no rule that its input kept, is not larger, is the same the second time, and
//! does not change when it is compacted again. `GOLDEN=words` runs only the cases with these words in their idea.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    clippy::similar_names,
    clippy::format_collect,
    unreachable_pub,
    reason = "all of it is test code, in functions too"
)]

#[path = "../support/mod.rs"]
mod support;

mod case;
mod holds;
mod notation;
mod policy;
mod render;
mod run;
mod write;

use std::path::{Path, PathBuf};

use case::Case;
use longhaul_engine::{Dialect, wire};
use notation::Session;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compressor");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "txt"));
    paths.sort();
    paths
}

/// Runs the cases of a file, and gives what is wrong.
fn run_file(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let name = path.file_stem().unwrap().to_string_lossy();
    let (mut wrong, mut written) = (Vec::new(), String::new());
    for mut case in Case::all(&text) {
        if case.idea().contains(&only) {
            let made = run::run(&case);
            let failures =
                made.failures.iter().map(|failure| format!("{name}: {}\n  {failure}", case.idea()));
            wrong.extend(failures);
            if update {
                case.replace(&made.goldens);
            } else {
                let stale = case.differences(&made.goldens).into_iter();
                wrong.extend(stale.map(|difference| format!("{name}: {}\n{difference}", case.idea())));
            }
        }
        written.push_str(&case.text());
    }
    let written = written.trim_end().to_owned() + "\n";
    if update && written != text {
        std::fs::write(path, written).unwrap();
    }
    wrong
}

#[test]
fn every_case_comes_out_as_it_is_written_down() {
    let files = files();
    assert!(!files.is_empty());
    let (odd, even): (Vec<_>, Vec<_>) = files.iter().enumerate().partition(|(n, _)| n % 2 == 1);
    let run = |half: Vec<(usize, &PathBuf)>| {
        half.into_iter().flat_map(|(_, path)| run_file(path)).collect::<Vec<_>>()
    };
    let wrong = std::thread::scope(|scope| {
        let odd = scope.spawn(|| run(odd));
        let mut wrong = run(even);
        wrong.extend(odd.join().unwrap());
        wrong
    });
    assert!(wrong.is_empty(), "{} do not hold\n\n{}", wrong.len(), wrong.join("\n\n"));
}

/// What the notation says, it says in every dialect: the transcripts that are read back differ only in what the wire can say
/// about failure.
#[test]
fn the_notation_says_the_same_in_every_dialect() {
    let lines = "
        system   You are careful.
        tools    2
        user     look at both
        + image  80x60
        + text   and mind the port
        sealed   both of them
        + reply  Reading.
        + read   a.toml → port = 80 ¦ host = here
        + bash   make «x × 3»\\ntest ✗ «log 1..3»exit code: 2
        write    b.py := «lines 1..8 of b.py» → ok
        orphan   → nobody asked
        bash     never answered
        user     stop
        for n in 1..3
          ask    {\"n\":{n},\"text\":\"«words 5 {n}»\"} → yes
        user     go on
        bash     still open";
    let mut session = Session::default();
    session.extend(lines.lines().map(|line| line.strip_prefix("        ").unwrap_or(line)));
    let sketches = Dialect::ALL.map(|dialect| {
        let body = write::body(dialect, "gpt-5", &session, &session);
        let (transcript, _) = wire::parse(dialect, &body).unwrap();
        assert_eq!(transcript.units.len(), session.units.len(), "{dialect}");
        let lines = support::sketch(&transcript).into_iter().filter(|line| !line.starts_with("Reasoning"));
        let settled = |line: String| match line.strip_prefix("Call ") {
            Some(arguments) => support::canonical(arguments),
            None => line.replace("Some(true)", "None"),
        };
        lines.map(settled).collect::<Vec<_>>()
    });
    assert_eq!(sketches[0], sketches[1]);
    assert_eq!(sketches[0], sketches[2]);
}
