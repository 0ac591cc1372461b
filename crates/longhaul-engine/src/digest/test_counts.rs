//! Parses how many tests passed and failed, from the summaries of common test runners.

use memchr::memmem;

use super::parsed_output::ParsedOutput;
use crate::facts::is_log_line;

/// The numbers of passed and failed tests of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TestCounts {
    /// The number of tests that passed.
    pub passed: usize,
    /// The number of tests that failed or ended with an error.
    pub failed: usize,
}

/// The start of the summary that `cargo test` prints for each binary; the counts of a run are their sum.
const CARGO_SUMMARY: &str = "test result: ";
/// The number of lines at the end of an output in which a summary is searched for. Chosen by hand.
const MAX_SUMMARY_LINES: usize = 30;

impl TestCounts {
    /// Parses the counts of a run.
    pub(super) fn parse(output: &ParsedOutput<'_>) -> Option<Self> {
        Self::sum_cargo_summaries(output.text).or_else(|| {
            let lines = output.last_lines(MAX_SUMMARY_LINES);
            let end = lines.last().map_or("", |first| &output.text[first.offset..]);
            // Every summary has one of these words, and most outputs have none.
            if !["pass", "fail", "est"].iter().any(|word| memmem::find(end.as_bytes(), word.as_bytes()).is_some()) {
                return None;
            }
            let lines: Vec<&str> = lines.iter().map(|line| line.text).collect();
            lines.iter().find_map(|line| parse_line(line)).or_else(|| parse_several_lines(&lines))
        })
    }

    /// Adds up all summaries of `cargo test`. They contain nothing that JSON escapes, so `text` may be the
    /// escaped text of a request.
    pub(crate) fn sum_cargo_summaries(text: &str) -> Option<Self> {
        let summaries = memmem::find_iter(text.as_bytes(), CARGO_SUMMARY).filter_map(|at| {
            let line = text[at..].split(['\n', '\\']).next()?;
            Some((number_before(line, " passed")?, number_before(line, " failed")?))
        });
        summaries.fold(None, |sum, (passed, failed)| {
            let sum = sum.unwrap_or(Self::default());
            Some(Self { passed: sum.passed + passed, failed: sum.failed + failed })
        })
    }
}

/// Parses the summary of a runner that prints it on one line.
fn parse_line(line: &str) -> Option<TestCounts> {
    // Most lines have no number, so this saves the searches below.
    if !line.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if is_log_line(line) {
        return None;
    }
    let line = line.trim().trim_matches('=').trim();
    if let Some(run) = number_after(line, "Tests run: ") {
        let failed = number_after(line, "Failures: ")? + number_after(line, "Errors: ").unwrap_or(0);
        let skipped = number_after(line, "Skipped: ").unwrap_or(0);
        return Some(TestCounts { passed: run.saturating_sub(failed + skipped), failed });
    }
    if line.contains(" tests failed out of ") {
        let failed = number_before(line, " tests failed")?;
        return Some(TestCounts { passed: number_after(line, "out of ")?.saturating_sub(failed), failed });
    }
    let run = number_before(line, " examples").or_else(|| number_before(line, " tests"));
    if let (Some(run), Some(failed)) = (run, number_before(line, " failure")) {
        return Some(TestCounts { passed: run.saturating_sub(failed), failed });
    }
    // `3 failed, 12 passed in 0.31s`, `Tests:  1 failed, 4 passed, 5 total`, `Tests  4 passed (4)`
    let (passed, failed) = (number_before(line, " passed"), number_before(line, " failed"));
    let errors = number_before(line, " error").unwrap_or(0);
    let is_summary = line.starts_with("Tests") || line.contains(" in ") && line.contains('s');
    if !is_summary || passed.is_none() && failed.is_none() {
        return None;
    }
    Some(TestCounts { passed: passed.unwrap_or(0), failed: failed.unwrap_or(0) + errors })
}

/// Parses the summary of a runner that prints it on several lines. The last line comes first.
fn parse_several_lines(lines: &[&str]) -> Option<TestCounts> {
    let found = |count: &dyn Fn(&str) -> Option<usize>| lines.iter().find_map(|line| count(line.trim()));
    let whole =
        |line: &str, word: &str| number_before(line, word).filter(|_| line.starts_with(|c: char| c.is_ascii_digit()));
    if let Some(passed) = found(&|line| whole(line, " passing")) {
        return Some(TestCounts { passed, failed: found(&|line| whole(line, " failing")).unwrap_or(0) });
    }
    if let Some(passed) = found(&|line| line.strip_prefix("# pass ")?.trim().parse().ok()) {
        let failed = found(&|line| line.strip_prefix("# fail ")?.trim().parse().ok()).unwrap_or(0);
        return Some(TestCounts { passed, failed });
    }
    let run = found(&|line| line.strip_prefix("Ran ")?.split_once(" test")?.0.parse().ok())?;
    let verdict =
        lines.iter().map(|line| line.trim()).find(|line| line.starts_with("OK") || line.starts_with("FAILED ("))?;
    let failed = number_after(verdict, "failures=").unwrap_or(0) + number_after(verdict, "errors=").unwrap_or(0);
    let skipped = number_after(verdict, "skipped=").unwrap_or(0);
    Some(TestCounts { passed: run.saturating_sub(failed + skipped), failed })
}

/// Returns the number directly before a word.
fn number_before(line: &str, word: &str) -> Option<usize> {
    let start = &line[..line.find(word)?];
    let digits = start.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (rest, number) = start.split_at(start.len() - digits);
    // The seconds of a time of day are no count.
    let is_clock = rest.strip_suffix(':').is_some_and(|rest| rest.ends_with(|c: char| c.is_ascii_digit()));
    number.parse().ok().filter(|_| !is_clock)
}

/// Returns the number directly after a word.
fn number_after(line: &str, word: &str) -> Option<usize> {
    let rest = &line[line.find(word)? + word.len()..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Focus;
    use crate::tools::ParsedCall;

    #[test]
    fn each_runner_is_understood() {
        for (text, passed, failed) in [
            ("test result: ok. 5 passed; 0 failed; 0 ignored\n\ntest result: FAILED. 2 passed; 1 failed;\n", 7, 1),
            ("===== 3 failed, 12 passed, 1 warning in 0.31s =====\n", 12, 3),
            ("12 passed in 0.31s\n", 12, 0),
            ("1 failed, 2 error in 3.1s\n", 0, 3),
            ("Test Suites: 1 failed, 1 total\nTests:       1 failed, 4 passed, 5 total\nTime: 3 s\n", 4, 1),
            (" Test Files  1 passed (1)\n      Tests  4 passed (4)\n", 4, 0),
            ("  12 passing (3s)\n  2 failing\n\n  1) it breaks\n", 12, 2),
            ("....\nRan 12 tests in 0.012s\n\nOK (skipped=2)\n", 10, 0),
            ("Ran 12 tests in 0.012s\n\nFAILED (failures=1, errors=2)\n", 9, 3),
            ("12 examples, 2 failures\n", 10, 2),
            ("12 tests, 2 failures\n", 10, 2),
            ("[INFO] x\n[INFO] Tests run: 12, Failures: 1, Errors: 1, Skipped: 2\n", 8, 2),
            ("92% tests passed, 1 tests failed out of 12\n", 11, 1),
            ("# tests 3\n# pass 2\n# fail 1\n", 2, 1),
        ] {
            let (focus, call) = (Focus::none(), ParsedCall::default());
            let counts = TestCounts::parse(&ParsedOutput::parse(text, &focus, &call));
            assert_eq!(counts, Some(TestCounts { passed, failed }), "{text}");
        }
    }

    #[test]
    fn what_is_no_test_run_has_no_counts() {
        for text in [
            "",
            "it passed in the end\n",
            "3 files changed, 2 insertions(+)\n",
            "Tests are in tests/\n",
            "2026-03-01 10:00:49 failed in its first seconds\n",
            "2026-03-01 10:00:49 WARN 3 failed in the last 60s\n",
        ] {
            let (focus, call) = (Focus::none(), ParsedCall::default());
            assert_eq!(TestCounts::parse(&ParsedOutput::parse(text, &focus, &call)), None, "{text}");
        }
    }
}
