//! How many tests passed and failed, from the summaries that the common runners print.

use memchr::memmem;

use super::page::Page;
use crate::facts::is_log_line;

/// The counts of a test run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TestCounts {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed or broke.
    pub failed: usize,
}

/// What opens the summary of each binary that `cargo test` runs; the counts of a run are their sum.
const CARGO: &str = "test result: ";
/// Summaries stand at the end.
const LAST_LINES: usize = 30;

impl TestCounts {
    /// The counts of a run.
    pub(super) fn of(page: &Page<'_>) -> Option<Self> {
        Self::of_cargo(page.text).or_else(|| {
            let lines = page.last_lines(LAST_LINES);
            let end = lines.last().map_or("", |first| &page.text[first.at..]);
            // Every summary has one of these, and most outputs have none.
            if !["pass", "fail", "est"]
                .iter()
                .any(|word| memmem::find(end.as_bytes(), word.as_bytes()).is_some())
            {
                return None;
            }
            let lines: Vec<&str> = lines.iter().map(|line| line.text).collect();
            lines.iter().find_map(|line| of_line(line)).or_else(|| of_several(&lines))
        })
    }

    /// The sum over all the summaries of `cargo test`. They hold nothing that JSON escapes, so a body's bytes will do.
    pub(crate) fn of_cargo(text: &str) -> Option<Self> {
        let summaries = memmem::find_iter(text.as_bytes(), CARGO).filter_map(|at| {
            let line = text[at..].split(['\n', '\\']).next()?;
            Some((before(line, " passed")?, before(line, " failed")?))
        });
        summaries.fold(None, |sum, (passed, failed)| {
            let sum = sum.unwrap_or(Self::default());
            Some(Self { passed: sum.passed + passed, failed: sum.failed + failed })
        })
    }
}

/// Runners that say it all on one line.
fn of_line(line: &str) -> Option<TestCounts> {
    // Most lines have no number, and none of the words that go with one.
    if !line.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if is_log_line(line) {
        return None;
    }
    let line = line.trim().trim_matches('=').trim();
    if let Some(run) = after(line, "Tests run: ") {
        let failed = after(line, "Failures: ")? + after(line, "Errors: ").unwrap_or(0);
        let skipped = after(line, "Skipped: ").unwrap_or(0);
        return Some(TestCounts { passed: run.saturating_sub(failed + skipped), failed });
    }
    if line.contains(" tests failed out of ") {
        let failed = before(line, " tests failed")?;
        return Some(TestCounts { passed: after(line, "out of ")?.saturating_sub(failed), failed });
    }
    let run = before(line, " examples").or_else(|| before(line, " tests"));
    if let (Some(run), Some(failed)) = (run, before(line, " failure")) {
        return Some(TestCounts { passed: run.saturating_sub(failed), failed });
    }
    // `3 failed, 12 passed in 0.31s`, `Tests:  1 failed, 4 passed, 5 total`, `Tests  4 passed (4)`
    let (passed, failed) = (before(line, " passed"), before(line, " failed"));
    let errors = before(line, " error").unwrap_or(0);
    let is_summary = line.starts_with("Tests") || line.contains(" in ") && line.contains('s');
    if !is_summary || passed.is_none() && failed.is_none() {
        return None;
    }
    Some(TestCounts { passed: passed.unwrap_or(0), failed: failed.unwrap_or(0) + errors })
}

/// Runners that say it on several; the last line comes first.
fn of_several(lines: &[&str]) -> Option<TestCounts> {
    let found = |count: &dyn Fn(&str) -> Option<usize>| lines.iter().find_map(|line| count(line.trim()));
    let whole = |line: &str, word: &str| {
        before(line, word).filter(|_| line.starts_with(|c: char| c.is_ascii_digit()))
    };
    if let Some(passed) = found(&|line| whole(line, " passing")) {
        return Some(TestCounts { passed, failed: found(&|line| whole(line, " failing")).unwrap_or(0) });
    }
    if let Some(passed) = found(&|line| line.strip_prefix("# pass ")?.trim().parse().ok()) {
        let failed = found(&|line| line.strip_prefix("# fail ")?.trim().parse().ok()).unwrap_or(0);
        return Some(TestCounts { passed, failed });
    }
    let run = found(&|line| line.strip_prefix("Ran ")?.split_once(" test")?.0.parse().ok())?;
    let verdict = lines
        .iter()
        .map(|line| line.trim())
        .find(|line| line.starts_with("OK") || line.starts_with("FAILED ("))?;
    let failed = after(verdict, "failures=").unwrap_or(0) + after(verdict, "errors=").unwrap_or(0);
    let skipped = after(verdict, "skipped=").unwrap_or(0);
    Some(TestCounts { passed: run.saturating_sub(failed + skipped), failed })
}

/// The number right before a word.
fn before(line: &str, word: &str) -> Option<usize> {
    let start = &line[..line.find(word)?];
    let digits = start.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (rest, number) = start.split_at(start.len() - digits);
    // The seconds of a clock count nothing.
    let is_clock = rest.strip_suffix(':').is_some_and(|rest| rest.ends_with(|c: char| c.is_ascii_digit()));
    number.parse().ok().filter(|_| !is_clock)
}

/// The number right behind a word.
fn after(line: &str, word: &str) -> Option<usize> {
    let rest = &line[line.find(word)? + word.len()..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Focus;
    use crate::tools::Call;

    #[test]
    fn each_runner_is_understood() {
        for (text, passed, failed) in [
            (
                "test result: ok. 5 passed; 0 failed; 0 ignored\n\ntest result: FAILED. 2 passed; 1 failed;\n",
                7,
                1,
            ),
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
            let (focus, call) = (Focus::none(), Call::default());
            let counts = TestCounts::of(&Page::of(text, &focus, &call));
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
            let (focus, call) = (Focus::none(), Call::default());
            assert_eq!(TestCounts::of(&Page::of(text, &focus, &call)), None, "{text}");
        }
    }
}
