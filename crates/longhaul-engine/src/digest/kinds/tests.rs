//! Test runs: the totals, each failing test, and what it complained about.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, number};
use super::super::words::WORDS;
use crate::facts::{FactKind, MOST_DISTINCT, is_event};
use crate::lines::Line;
use aho_corasick::AhoCorasick;
use memchr::memmem;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Words that only test runners print, at their beginning or end.
const MARKS: [&str; 28] = [
    "test session starts",
    "short test summary",
    "test result: ",
    " passed in ",
    " failed in ",
    "Test Suites:",
    "Test Files ",
    "--- FAIL:",
    "--- PASS:",
    "=== RUN",
    "<testsuite",
    "TAP version",
    "examples, ",
    "Tests run:",
    "# tests ",
    "# pass ",
    "Tests:  ",
    "Ran all test suites",
    "tests passed",
    "Failures:",
    "FAILED (failures=",
    "FAILED (errors=",
    "vitest run",
    " RUN  v",
    "tests completed",
    " passing (",
    "Snapshots:",
    " snapshot failed",
];

/// Finds all the marks in one look at a line: every output is asked whether it is a test run.
static FINDER: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(MARKS).ok());

fn has_mark(line: &str) -> bool {
    FINDER.as_ref().is_some_and(|finder| finder.is_match(line))
}

/// Words that make a test run wherever they stand: behind the log of an installation, say.
const STRONG: [&str; 3] = ["= test session starts =", "= short test summary info =", "\ntest result: "];

pub(in super::super) fn shows(page: &Page<'_>, sample: &Sample<'_>) -> bool {
    let marked = |line: &str| (has_mark(line) || is_count(line)) && !is_event(line);
    let named = page.facts.of_kind(FactKind::Failing).take(2).count();
    let verdict = |line: &str| {
        line.ends_with(" ... ok")
            || line.ends_with(" ... FAILED")
            || line.ends_with(" PASSED")
            || line.contains(" PASSED ")
    };
    let totals = page
        .facts
        .of_kind(FactKind::Total)
        .filter(|fact| fact.text.ends_with("passed") || fact.text.ends_with("failed"))
        .count();
    let marks = sample.lines().filter(|line| marked(line)).count();
    let deep = STRONG.iter().any(|mark| memmem::find(page.text.as_bytes(), mark.as_bytes()).is_some());
    let junit = sample.head.iter().take(4).any(|line| line.contains("<testsuite"));
    marks >= 2
        || junit
        || deep && (named > 0 || totals > 0)
        || (marks >= 1 && (named > 0 || totals > 0))
        || sample.share(verdict) >= 0.3
}

/// A line that says what was wanted or what came instead, or which test it was: `Expected: 3`, `1) Bed::holds rows`.
fn complains(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = (1..=3).contains(&digits) && line[digits..].starts_with(") ");
    numbered || WORDS.complaints.iter().any(|opener| line.starts_with(opener.as_str()))
}

/// `running 12 tests`, `Ran 17 tests in 0.012s`, `ok   example.com/pkg 0.3s`
fn is_count(line: &str) -> bool {
    let counts = |prefix: &str| {
        line.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains(" test"))
    };
    counts("running ") || counts("Ran ") || line.starts_with("ok  \t") || line.starts_with("FAIL\t")
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let failing: Vec<Cow<'a, str>> =
        page.facts.of_kind(FactKind::Failing).take(400).map(|fact| fact.text.clone()).collect();
    match page.facts.of_kind(FactKind::Failing).count() {
        0 => {}
        MOST_DISTINCT => proposal.lead.push(format!("{} or more failing", number(MOST_DISTINCT))),
        count => proposal.lead.push(format!("{} failing", number(count))),
    }
    proposal.note("failing", 14.0, failing);
    proposal.facts(page, Worth { frame: 7.0, ..Worth::RUN });
    for line in page.last_lines(30) {
        let counts = line.text.bytes().any(|byte| byte.is_ascii_digit());
        let progress = line.text.starts_with("=== RUN") || line.text.starts_with("--- PASS");
        if counts && !progress && (has_mark(line.text) || is_count(line.text)) {
            // `ok  <tab> package 0.3s` is the news of one package of many.
            proposal.quote(line, if line.text.starts_with("ok  \t") { 1.5 } else { 8.0 });
        }
    }
    let complaints = page.lines().map(Line::trimmed).filter(|line| complains(line.text));
    for (rank, line) in complaints.take(60).enumerate() {
        proposal.quote(line, 8.0 / (1.0 + rank as f64 * 0.1));
    }
    // Go prints what went wrong with the file in front of it, and no word of failing.
    for at in memmem::find_iter(page.text.as_bytes(), b"_test.go:").take(60) {
        let start = page.text[..at].rfind('\n').map_or(0, |at| at + 1);
        let line = page.text[start..].lines().next().unwrap_or_default();
        proposal.quote(Line { at: start, text: line }.trimmed(), 8.0);
    }
    proposal.edges(page, 1, 3, 2.0);
}
