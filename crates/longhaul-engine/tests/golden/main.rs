//! Cases that a person can read, each a test under its own name: compactions in `tests/compressor/*.txt` and passes in
//! `tests/passes/*.txt`, in all three dialects, digests of single outputs in `tests/digests/*.txt` (see `digests.rs`), and what
//! digests must keep in `tests/outputs/*.txt` (see `outputs.rs`).
//!
//! ```text
//! # An older identical read becomes a pointer to the newer one.      the idea; a case goes on to the next such line
//! policy: window 8000, first 1                                       what differs from the defaults (see `policy.rs`)
//! dialects: chat messages                                            left out: all three
//! breaks: A1 O2 R2                                                   rules that the transcript itself breaks
//! may break: A25                                                     rules that no rewrite of it could keep
//! peer: OpenHands drops both, because a provider refuses either          which peer behaves so, and why it serves; for the reader only
//! client: sends the original                                         with each round; left out: it sends what came out before
//! == before                                                          a transcript (see `support/notation.rs`)
//! user     fix the config
//! …
//! == after                                                           what came out (see `render.rs`); written by UPDATE_GOLDEN=1
//! == report                                                          and what was said about it; also written
//! == holds                                                           what must be true of it (see `holds.rs`)
//! == then: to 2000                                                   what came next, on top of what came out before
//! ```
//!
//! Where dialects differ, `== after chat` and `== after messages responses` stand side by side. A round without `== after` has
//! none. Whatever a compaction is about, its output breaks no rule that its input kept, is not larger, is the same the second time,
//! and does not change when it is compacted again. `cargo test -p longhaul-engine --test golden words` runs only the cases with
//! these words in their file's name or their idea.

#![allow(
    clippy::unwrap_used,
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
mod digests;
mod holds;
mod outputs;
mod passes;
mod policy;
mod render;
mod run;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use case::{Case, Golden};
use libtest_mimic::{Arguments, Failed, Trial};
use longhaul_engine::{ApiFormat, wire};
use run::Made;
use support::notation::Session;
use support::write;

fn main() {
    let tests: [(&str, fn()); 3] = [
        ("the notation says the same in every dialect", the_notation_says_the_same_in_every_dialect),
        ("passes: each has its cases", passes::each_has_its_cases),
        ("digests: the page for users shows them", digests::the_page_for_users_shows_them),
    ];
    let tests = tests.into_iter().map(|(name, run)| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    });
    let trials = tests
        .chain(cases("compressor", run::run))
        .chain(cases("passes", passes::run))
        .chain(files("digests").into_iter().map(digests::trial))
        .chain(outputs::trials());
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

fn files(of: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder(of)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

fn stem(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

/// Whether what comes out is to be written down instead of being compared.
fn is_update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

/// The cases of a folder.
fn cases(folder: &'static str, run: fn(&Case) -> Made) -> impl Iterator<Item = Trial> {
    files(folder).into_iter().flat_map(move |path| {
        let all = Case::all(&std::fs::read_to_string(&path).unwrap());
        let trials = all.into_iter().enumerate().map(|(at, case)| {
            let name = format!("{folder}/{}: {}", stem(&path), case.idea());
            let path = path.clone();
            Trial::test(name, move || judge(&path, at, &case, run(&case)))
        });
        trials.collect::<Vec<_>>()
    })
}

fn judge(path: &Path, at: usize, case: &Case, made: Made) -> Result<(), Failed> {
    let mut wrong = made.failures;
    if is_update() {
        write_down(path, at, &made.goldens);
    } else {
        wrong.extend(case.differences(&made.goldens));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n\n").into()) }
}

/// Puts what came out into the file of a case, which others may want to write at the same time.
fn write_down(path: &Path, at: usize, goldens: &[Vec<Golden>]) {
    static WRITING: Mutex<()> = Mutex::new(());
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = std::fs::read_to_string(path).unwrap();
    let mut cases = Case::all(&text);
    cases[at].replace(goldens);
    let written = cases.iter().map(Case::text).collect::<String>().trim_end().to_owned() + "\n";
    if written != text {
        std::fs::write(path, written).unwrap();
    }
}

/// What the notation says, it says in every dialect: the transcripts that are read back differ only in what the wire can say
/// about failure.
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
    let sketches = ApiFormat::ALL.map(|api_format| {
        let body = write::body(api_format, "gpt-5", &session, &session);
        let (transcript, _) = wire::parse(api_format, &body).unwrap();
        assert_eq!(transcript.turns.len(), session.units.len(), "{api_format}");
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
