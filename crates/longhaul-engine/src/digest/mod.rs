//! Turns one tool output into a digest: a short form that makes no false statement.
//!
//! ```text
//! [tests: 213 lines; exit 1; failed; 4 error lines; 201 left out]      what it is, how it ended, what is missing
//! [failing: tests/test_a.py::test_x, tests/test_b.py::test_y]          notes: our words, in square brackets
//! [… 40 lines]
//! E       assert 3 == 4                                                quotes: lines of the source, in its order
//! ```
//!
//! Every digest has these properties: its counts are exact. Each quoted line occurs in the source; if it is
//! cut, `…` marks the cut. A failure never looks like a success. A digest is never longer than its source. It
//! exceeds its budget only if it would not be shorter than the source: then it is the source itself. Equal inputs
//! give equal bytes.
//!
//! This module may use `texts`, `facts`, `tools` and the layers below them.

mod existing_digest;
mod expected_kind;
mod focus;
mod kind_table;
mod kinds;
mod one_line;
mod outcome;
mod output_kind;
mod parsed_output;
mod proposal;
mod test_counts;
mod weights;
mod words;

use crate::host_text;
use crate::tokens::{Tokens, estimate};
use crate::tools::ParsedCall;
use crate::truncate;
use std::fmt::Write as _;

use parsed_output::ParsedOutput;
use proposal::{DigestProposal, HeadParts, count_with_noun};
use weights::{DEFAULT_DIVISOR, DEFAULT_TOKENS, ESTIMATED_CHARS, MAX_BYTES_PER_TOKEN, MIN_DIGEST_TOKENS};

pub use existing_digest::{is_digest, shorten_to_first_line};
pub(crate) use expected_kind::expected_kind;
pub use focus::Focus;
pub use one_line::one_line_digest;
pub(crate) use one_line::{failure_line, one_line_text};
pub(crate) use outcome::CallOutcome;
pub use outcome::Outcome;
pub use output_kind::OutputKind;
pub(crate) use proposal::format_count;
pub use test_counts::TestCounts;
pub(crate) use words::OUTPUT_WORDS;

/// A tool output to be digested, with everything known about it.
#[derive(Clone, Copy, Debug)]
pub struct ToolOutput<'a> {
    /// The text of the output.
    pub text: &'a str,
    /// The size of the original output in bytes, if not all of it was text and `text` is only the readable
    /// part.
    pub original_bytes: Option<usize>,
    /// The name of the tool.
    pub tool: Option<&'a str>,
    /// The arguments of the call, as JSON.
    pub arguments: Option<&'a str>,
    /// The kind of output, if the caller knows it.
    pub kind: Option<OutputKind>,
    /// Whether the request itself marks the call as failed; `None` if it does not say, as for most results.
    pub failed: Option<bool>,
    /// The words that the current task is about.
    pub focus: &'a Focus,
    /// The recall ID of the original; `None` if the original is not stored.
    pub recall_id: Option<&'a str>,
}

/// The short form of a tool output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The kind of output that was given or detected.
    pub kind: OutputKind,
    /// The text of the digest.
    pub text: String,
    /// The number of lines of the source, without blank ones, that the digest does not quote.
    pub left_out: usize,
}

/// Returns the budget of a digest if the caller has none: 220 tokens or a twentieth of the text, whichever is
/// more.
#[must_use]
pub fn default_budget(text: &str) -> Tokens {
    // The start of a large text is enough to estimate its tokens per byte.
    let start = truncate::first_chars(text, ESTIMATED_CHARS);
    let tokens = estimate(start).0 * text.len() as u64 / start.len().max(1) as u64;
    Tokens(tokens / DEFAULT_DIVISOR).max(DEFAULT_TOKENS)
}

/// Returns whether a text fits a budget. A text of more than 32 bytes per token never fits, so that long
/// texts need no estimate.
fn fits_budget(text: &str, budget: Tokens) -> bool {
    text.len() as u64 <= budget.0.saturating_mul(MAX_BYTES_PER_TOKEN) && estimate(text) <= budget
}

/// Returns how the call with this result ended. `failure_flag` is the failure flag of the request. For a digest,
/// returns how its source ended.
pub(crate) fn call_outcome(call: &ParsedCall, text: &str, failure_flag: Option<bool>) -> CallOutcome {
    let text = host_text::without_trailing(text);
    if is_digest(text, call.tool.as_deref().unwrap_or_default()) {
        return CallOutcome::from_digest(text.lines().next().unwrap_or_default(), call, failure_flag);
    }
    let focus = Focus::none();
    let output = ParsedOutput::parse(text, &focus, call);
    CallOutcome::from_output(&output, &|| kind_table::detect_kind(&output), failure_flag)
}

/// Digests an output to at most `budget` tokens, or 32 tokens if the budget is smaller.
///
/// An output that fits the budget is returned unchanged, and so is one whose digest would not be shorter, even
/// if it exceeds the budget.
#[must_use]
pub fn digest(source: &ToolOutput<'_>, budget: Tokens) -> Digest {
    let budget = budget.max(MIN_DIGEST_TOKENS);
    let call = ParsedCall::parse(source.tool, source.arguments);
    let output = ParsedOutput::parse(source.text, source.focus, &call).with_original_bytes(source.original_bytes);
    let kind = source.kind.unwrap_or_else(|| kind_table::detect_kind(&output));
    let whole = |kind| Digest { kind, text: source.text.to_owned(), left_out: 0 };
    if fits_budget(source.text, budget) {
        return whole(kind);
    }
    let row = kind_table::row(kind);
    let mut proposal = DigestProposal::default();
    (row.propose)(&output, &mut proposal);
    proposal.add_focus_lines(&output);
    let head = head_parts(&output, row, source);
    let rendered = proposal.render_within(&output, &head, budget);
    if rendered.text.len() >= source.text.len() {
        return whole(kind);
    }
    Digest { kind, text: rendered.text, left_out: rendered.left_out }
}

fn head_parts<'a>(output: &ParsedOutput<'_>, row: &kind_table::KindRow, source: &ToolOutput<'a>) -> HeadParts<'a> {
    let mut size = count_with_noun(output.facts.nonblank_lines(), "line");
    if output.facts.blank_lines > 0 {
        let _ = write!(size, " and {} blank", format_count(output.facts.blank_lines));
    }
    if output.facts.nonblank_lines() < 5 || row.kind == OutputKind::Json {
        let _ = write!(size, ", {}", output.length_text());
    }
    if !output.envelope.is_empty() {
        let _ = write!(size, ", inside JSON with {}", output.envelope.join(", "));
    }
    let mut outcome = CallOutcome::from_output(output, &|| row.kind, source.failed).to_words();
    for (lines, noun) in [(output.facts.error_lines, "error line"), (output.facts.warning_lines, "warning line")] {
        if lines > 0 {
            outcome.push(count_with_noun(lines, noun));
        }
    }
    HeadParts { kind: row.name, outcome, size, recall_id: source.recall_id }
}
