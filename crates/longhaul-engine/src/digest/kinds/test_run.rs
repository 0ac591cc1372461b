//! Test runs: keeps the totals, the names of failing tests, and what they expected and got.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, decay, format_count};
use super::super::weights::{self as all, test_run as weights};
use super::super::words::OUTPUT_WORDS;
use crate::facts::{FactKind, MAX_DISTINCT_FACTS, is_log_event};
use crate::lines::Line;
use aho_corasick::AhoCorasick;
use memchr::memmem;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Finds all runner phrases in one pass, because every output is tested for them.
static RUNNER_PHRASE_FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::new(&OUTPUT_WORDS.runners).ok());

fn has_runner_phrase(line: &str) -> bool {
    RUNNER_PHRASE_FINDER.as_ref().is_some_and(|finder| finder.is_match(line))
}

pub(in super::super) fn recognizes(output: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    let marked = |line: &str| (has_runner_phrase(line) || is_count_line(line)) && !is_log_event(line);
    let named = output.facts.of_kind(FactKind::FailingTest).take(2).count();
    let verdict = |line: &str| {
        line.ends_with(" ... ok")
            || line.ends_with(" ... FAILED")
            || line.ends_with(" PASSED")
            || line.contains(" PASSED ")
    };
    let totals = output
        .facts
        .of_kind(FactKind::Total)
        .filter(|fact| fact.text.ends_with("passed") || fact.text.ends_with("failed"))
        .count();
    let marks = sample.lines().filter(|line| marked(line)).count();
    let deep =
        OUTPUT_WORDS.test_runs.iter().any(|mark| memmem::find(output.text.as_bytes(), mark.as_bytes()).is_some());
    let junit = sample.head.iter().take(4).any(|line| line.contains("<testsuite"));
    marks >= 2
        || junit
        || deep && (named > 0 || totals > 0)
        || (marks >= 1 && (named > 0 || totals > 0))
        || sample.share(verdict) >= weights::MIN_RESULT_SHARE
}

/// Returns whether a line shows the expected value, the actual value or the name of a test: `Expected: 3`,
/// `1) Bed::holds rows`.
fn is_complaint(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let numbered = (1..=3).contains(&digits) && line[digits..].starts_with(") ");
    numbered || OUTPUT_WORDS.complaints.iter().any(|opener| line.starts_with(opener.as_str()))
}

/// Returns whether a line counts tests: `running 12 tests`, `Ran 17 tests in 0.012s`, `ok   example.com/pkg
/// 0.3s`.
fn is_count_line(line: &str) -> bool {
    let counts = |prefix: &str| {
        line.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains(" test"))
    };
    counts("running ") || counts("Ran ") || line.starts_with("ok  \t") || line.starts_with("FAIL\t")
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let failing: Vec<Cow<'a, str>> =
        output.facts.of_kind(FactKind::FailingTest).take(all::MAX_CANDIDATES).map(|fact| fact.text.clone()).collect();
    match output.facts.of_kind(FactKind::FailingTest).count() {
        0 => {}
        MAX_DISTINCT_FACTS => {
            proposal.head_facts.push(format!("{} or more failing", format_count(MAX_DISTINCT_FACTS)));
        }
        count => proposal.head_facts.push(format!("{} failing", format_count(count))),
    }
    proposal.add_list("failing", weights::FAILING_VALUE, failing);
    proposal.add_facts(output, weights::FACTS);
    for line in output.last_lines(weights::SUMMARY_LINES) {
        let counts = line.text.bytes().any(|byte| byte.is_ascii_digit());
        let progress = line.text.starts_with("=== RUN") || line.text.starts_with("--- PASS");
        if counts && !progress && (has_runner_phrase(line.text) || is_count_line(line.text)) {
            let is_package = line.text.starts_with("ok  \t");
            proposal.add_quote(line, if is_package { weights::PACKAGE_VALUE } else { weights::SUMMARY_VALUE });
        }
    }
    let complaints = output.lines().map(Line::trimmed).filter(|line| is_complaint(line.text));
    for (rank, line) in complaints.take(weights::MAX_COMPLAINT_LINES).enumerate() {
        proposal.add_quote(line, decay(weights::COMPLAINT_VALUE, rank, weights::COMPLAINT_DECAY));
    }
    // Go prints a failure as the file and a message, which need not contain a word for an error.
    for at in memmem::find_iter(output.text.as_bytes(), b"_test.go:").take(weights::MAX_COMPLAINT_LINES) {
        let start = output.text[..at].rfind('\n').map_or(0, |at| at + 1);
        let line = output.text[start..].lines().next().unwrap_or_default();
        proposal.add_quote(Line { offset: start, text: line }.trimmed(), weights::COMPLAINT_VALUE);
    }
    proposal.add_edges(output, &weights::EDGES);
}
