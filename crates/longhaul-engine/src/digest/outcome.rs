//! Determines whether a call worked, from the failure flag of the request, the exit status and the output.

use super::expected_kind::{exit_1_is_negative_result, only_reads};
use super::kind_table::row;
use super::output_kind::{OutputKind, OutputOrigin};
use super::parsed_output::ParsedOutput;
use super::test_counts::TestCounts;
use super::words::{OUTPUT_WORDS, starts_with_any};
use crate::facts::{FactKind, LineSignals};
use crate::lines::Line;
use crate::texts::DigestHead;
use crate::tools::{ParsedCall, ToolFamily};
use crate::truncate;
use memchr::memmem;

/// Whether a call worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The request, an exit status or the output reports success.
    Succeeded,
    /// The request, an exit status or the output reports a failure.
    Failed,
    /// Nothing reports the outcome.
    Unknown,
    /// The call has no result.
    Unanswered,
}

/// How a call ended: its outcome, with the exit status and the test counts if they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallOutcome {
    pub(crate) outcome: Outcome,
    pub(crate) exit_status: Option<i64>,
    pub(crate) test_counts: Option<TestCounts>,
}

impl OutputOrigin {
    /// Determines the origin of an output, by the tool or else by the kind. `kind` is called only if it is
    /// needed.
    fn detect(output: &ParsedOutput<'_>, kind: &dyn Fn() -> OutputKind) -> Self {
        let ran = matches!(output.call.family, Some(ToolFamily::Run | ToolFamily::Code));
        if ran && only_reads(output.call) {
            return Self::Read;
        }
        Self::from_family(output.call.family).unwrap_or_else(|| match kind() {
            OutputKind::Prose if ran => Self::Run,
            // The output looks like a list, but ends with an error message of the program.
            OutputKind::Listing | OutputKind::Table | OutputKind::Search if ran && ends_with_error_message(output) => {
                Self::Run
            }
            kind => row(kind).origin,
        })
    }

    /// Returns the origin for tools whose output is always content that was read.
    fn from_family(family: Option<ToolFamily>) -> Option<Self> {
        match family? {
            ToolFamily::Read
            | ToolFamily::Search
            | ToolFamily::List
            | ToolFamily::WebSearch
            | ToolFamily::Fetch
            | ToolFamily::Memory => Some(Self::Read),
            _ => None,
        }
    }
}

impl CallOutcome {
    /// The outcome of a call without a result.
    pub(crate) const UNANSWERED: Self = Self { outcome: Outcome::Unanswered, exit_status: None, test_counts: None };

    /// Determines how a call ended. `failure_flag` is the failure flag of the request. `kind` is called only if it is
    /// needed, because detecting the kind costs more than everything else.
    pub(super) fn from_output(
        output: &ParsedOutput<'_>,
        kind: &dyn Fn() -> OutputKind,
        failure_flag: Option<bool>,
    ) -> Self {
        let exit = output.exit_status();
        let is_negative_result = exit == Some(1) && exit_1_is_negative_result(output.call);
        let bad_status = exit.is_some_and(|status| status != 0) && !is_negative_result;
        let surely_failed = failure_flag == Some(true) || bad_status || starts_with_error(output);
        let may_have_failed =
            !surely_failed && (reports_failure(output) || (exit.is_none() && ends_with_error(output)));
        let counts = TestCounts::parse(output);
        let ran = (may_have_failed || counts.is_some()) && OutputOrigin::detect(output, kind) == OutputOrigin::Run;
        let failed = surely_failed || (ran && may_have_failed);
        let tests = counts.filter(|_| ran);
        let succeeded = failure_flag == Some(false)
            || exit == Some(0)
            || is_negative_result
            || tests.is_some()
            || reports_success(output);
        let outcome = match (failed, succeeded) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Succeeded,
            (false, false) => Outcome::Unknown,
        };
        Self { outcome, exit_status: exit, test_counts: tests }
    }

    /// Determines how the source of a digest ended, from the first line of the digest.
    pub(super) fn from_digest(first: &str, call: &ParsedCall, failure_flag: Option<bool>) -> Self {
        // In a one-line digest the outcome follows an arrow or the tool; in a full digest it is one of the
        // facts.
        let said_first = first.split(" → ").skip(1).chain(first.split_once("] ").map(|(_, said)| said));
        let whole = first.parse::<DigestHead>().ok();
        let (exit, failed) = said_first
            .map(|results| parse_outcome_words(results.split([',', ';', ' '])))
            .chain(whole.map(|head| parse_outcome_words(head.facts.iter().skip(1).map(String::as_str))))
            .fold((None, false), |(exit, failed), (also, fails)| (exit.or(also), failed || fails));
        let reads = OutputOrigin::from_family(call.family) == Some(OutputOrigin::Read);
        let outcome = match failed || failure_flag == Some(true) {
            true => Outcome::Failed,
            false if failure_flag == Some(false) || exit == Some(0) || reads => Outcome::Succeeded,
            false => Outcome::Unknown,
        };
        Self { outcome, exit_status: exit, test_counts: None }
    }

    /// Combines the outcomes of two parts of one result: the result failed if one part did.
    pub(crate) fn combine(self, other: Self) -> Self {
        let outcome = match (self.outcome, other.outcome) {
            (Outcome::Failed, _) | (_, Outcome::Failed) => Outcome::Failed,
            (Outcome::Succeeded, _) | (_, Outcome::Succeeded) => Outcome::Succeeded,
            (outcome, _) => outcome,
        };
        Self {
            outcome,
            exit_status: self.exit_status.or(other.exit_status),
            test_counts: self.test_counts.or(other.test_counts),
        }
    }

    pub(super) fn is_failed(self) -> bool {
        self.outcome == Outcome::Failed
    }

    /// Returns the outcome in words; empty if nothing is known.
    pub(super) fn to_words(self) -> Vec<String> {
        let exit = self.exit_status.map(|status| format!("exit {status}"));
        exit.into_iter().chain(self.is_failed().then(|| FAILED_WORD.to_owned())).collect()
    }
}

fn ends_with_error_message(output: &ParsedOutput<'_>) -> bool {
    let opens = ["error: ", "Error: ", "ERROR: ", "fatal: "];
    output.last_lines(4).iter().any(|line| opens.iter().any(|word| line.text.contains(word)))
}

/// The word for a failure in a digest.
pub(super) const FAILED_WORD: &str = "failed";

/// Parses the exit status and the word for a failure at the start of these pieces.
fn parse_outcome_words<'a>(pieces: impl Iterator<Item = &'a str>) -> (Option<i64>, bool) {
    let mut exit = None;
    let mut words = pieces.flat_map(|piece| piece.split(' ')).filter(|word| !word.is_empty()).take(4);
    while let Some(word) = words.next() {
        match word.trim_end_matches([',', ']']) {
            "exit" => exit = words.next().and_then(|status| status.trim_end_matches([',', ']']).parse().ok()),
            FAILED_WORD => return (exit, true),
            _ => break,
        }
    }
    (exit, false)
}

/// Returns whether the output shows success: for an editor, a phrase that reports it; for a read, any text at
/// all.
fn reports_success(output: &ParsedOutput<'_>) -> bool {
    match output.call.family {
        Some(ToolFamily::Write | ToolFamily::Edit) => {
            let opening = truncate::first_chars(output.source, 400).to_ascii_lowercase();
            OUTPUT_WORDS.successes.iter().any(|words| opening.contains(words.as_str()))
        }
        family => {
            OutputOrigin::from_family(family) == Some(OutputOrigin::Read) && !output.source.trim_start().is_empty()
        }
    }
}

/// Returns whether the output starts with an error, as it does if a tool could not do its work.
fn starts_with_error(output: &ParsedOutput<'_>) -> bool {
    let Some(first) = output
        .source
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("<output") && !line.starts_with("<observation"))
    else {
        return false;
    };
    let panics = first.starts_with("thread '") && first.contains(" panicked at ");
    panics || starts_with_any(first, &OUTPUT_WORDS.errors)
}

fn reports_failure(output: &ParsedOutput<'_>) -> bool {
    output.facts.of_kind(FactKind::FailingTest).next().is_some()
        || memmem::find(output.text.as_bytes(), b"<failure ").is_some()
        || output.facts.of_kind(FactKind::Total).any(|fact| {
            let (count, noun) = fact.text.split_once(' ').unwrap_or_default();
            matches!(noun.to_ascii_lowercase().as_str(), "failed" | "failing" | "error" | "errors" | "fail")
                && count != "0"
        })
}

/// Returns whether the last lines report that a run failed: an exception, or the final message of a build
/// tool.
fn ends_with_error(output: &ParsedOutput<'_>) -> bool {
    const LAST_LINES: usize = 4;
    /// The lines of a box that some tools draw around an error, which do not count as last lines.
    const BOX: usize = 12;
    let lines = output.last_lines(LAST_LINES + BOX);
    let mut counted = 0;
    for (at, line) in lines.iter().enumerate() {
        if is_final_error(line.text) || at < LAST_LINES && is_python_traceback_end(&lines[at..]) {
            return true;
        }
        counted += usize::from(!line.text.starts_with(['│', '╵', '╷']));
        if counted == LAST_LINES {
            break;
        }
    }
    false
}

/// Returns the line among the last four that reports a failure.
pub(super) fn final_error_line<'a>(output: &ParsedOutput<'a>) -> Option<Line<'a>> {
    output.last_lines(4).into_iter().find(|line| is_final_error(line.text))
}

fn is_final_error(line: &str) -> bool {
    let ended = OUTPUT_WORDS.endings.iter().any(|opener| line.starts_with(opener.as_str()));
    let missing = line.ends_with(": command not found") || line.starts_with("sh: ") && line.ends_with(": not found");
    ended
        || missing
        || LineSignals::scan(line).error && OUTPUT_WORDS.verdicts.iter().any(|word| line.contains(word.as_str()))
}

/// Returns whether these lines, the last one first, end a Python traceback: the exception's name, then the
/// frames that led to it.
fn is_python_traceback_end(lines: &[Line<'_>]) -> bool {
    let named = |line: &Line<'_>| {
        let name = line.text.split([':', ' ']).next().unwrap_or_default();
        let class = name.rsplit('.').next().unwrap_or_default();
        class.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'))
    };
    lines.first().is_some_and(named)
        && lines.iter().skip(1).take(3).any(|line| line.text.starts_with("File \"") && line.text.contains(", line "))
}
