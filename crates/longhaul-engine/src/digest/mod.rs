//! One tool output → a short, truthful one.
//!
//! ```text
//! [tests: 213 lines; exit 1; failed; 4 error lines; 201 left out]      what it is, how it ended, what is missing
//! [failing: tests/test_a.py::test_x, tests/test_b.py::test_y]          notes: our words, in square brackets
//! [… 40 lines]
//! E       assert 3 == 4                                                quotes: lines of the source, in its order
//! ```
//!
//! What holds for every kind: the counts are exact; a quoted line stands in the source (where it is cut, `…` says so); a
//! failure never reads as a success; a digest is never longer than its source and keeps to its budget; equal inputs give
//! equal bytes.
//!
//! It may use `texts`, `facts`, `tools` and what is below them.

mod again;
mod excerpt;
mod focus;
mod kind;
mod kinds;
mod one_line;
mod outcome;
mod page;
mod proposal;
mod rows;
mod test_counts;
mod usual;
mod words;

use crate::clip;
use crate::hosted;
use crate::tokens::{Tokens, estimate};
use crate::tools::Call;
use std::fmt::Write as _;

use page::Page;
use proposal::{Head, Proposal, counted};

pub use again::{first_line, is_digest};
pub use focus::Focus;
pub use kind::Kind;
pub use one_line::one_line;
pub(crate) use one_line::{failure, line};
pub(crate) use outcome::Ended;
pub use outcome::Outcome;
pub(crate) use proposal::number;
pub use test_counts::TestCounts;
pub(crate) use words::WORDS;

/// No digest says anything in less.
const SMALLEST: Tokens = Tokens(32);

/// A tool output and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The output.
    pub text: &'a str,
    /// How many bytes it was, where not all of them were text and `text` is what could be read of them.
    pub bytes: Option<usize>,
    /// The tool's name.
    pub tool: Option<&'a str>,
    /// The call's arguments, as JSON.
    pub arguments: Option<&'a str>,
    /// The kind, where the caller knows it.
    pub kind: Option<Kind>,
    /// Whether the wire itself says that it failed; most results say nothing.
    pub failed: Option<bool>,
    /// What the task is about.
    pub focus: &'a Focus,
    /// What fetches the original again; only where it leads somewhere.
    pub handle: Option<&'a str>,
}

/// A digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// What the output was taken for.
    pub kind: Kind,
    /// The short text.
    pub text: String,
    /// Lines of the source with something in them that the text does not quote.
    pub left_out: usize,
}

/// What a digest of this text may cost where the caller has no figure: 220 tokens or a twentieth, whichever is more.
#[must_use]
pub fn default_budget(text: &str) -> Tokens {
    // The beginning of a large text is enough to tell how dense it is.
    let start = clip::start(text, 100_000);
    let tokens = estimate(start).0 * text.len() as u64 / start.len().max(1) as u64;
    Tokens(tokens / 20).max(Tokens(220))
}

/// Whether a text costs no more than this. One of 32 bytes a token is too long in any language.
fn fits(text: &str, budget: Tokens) -> bool {
    text.len() as u64 <= budget.0.saturating_mul(32) && estimate(text) <= budget
}

/// How the call that gave this text ended, given what the wire itself says about failing. For a digest: how its source did.
pub(crate) fn ended(call: &Call, text: &str, said: Option<bool>) -> Ended {
    let text = hosted::output(text);
    if is_digest(text, call.tool.as_deref().unwrap_or_default()) {
        return Ended::of_digest(text.lines().next().unwrap_or_default(), call, said);
    }
    let focus = Focus::none();
    let page = Page::of(text, &focus, call);
    Ended::of(&page, &|| rows::detect(&page), said)
}

/// The digest of an output in at most `budget` tokens (but never under 32, in which little can be said).
///
/// A text that fits the budget is its own digest.
#[must_use]
pub fn digest(source: &Source<'_>, budget: Tokens) -> Digest {
    let budget = budget.max(SMALLEST);
    let call = Call::of(source.tool, source.arguments);
    let page = Page::of(source.text, source.focus, &call).made_of(source.bytes);
    let kind = source.kind.unwrap_or_else(|| rows::detect(&page));
    let whole = |kind| Digest { kind, text: source.text.to_owned(), left_out: 0 };
    if fits(source.text, budget) {
        return whole(kind);
    }
    let row = rows::row(kind);
    let mut proposal = Proposal::default();
    (row.propose)(&page, &mut proposal);
    proposal.focus(&page);
    let head = head(&page, row, source);
    let settled = proposal.settle(&page, &head, budget);
    if settled.text.len() >= source.text.len() {
        return whole(kind);
    }
    Digest { kind, text: settled.text, left_out: settled.left_out }
}

fn head<'a>(page: &Page<'_>, row: &rows::Row, source: &Source<'a>) -> Head<'a> {
    let mut size = counted(page.facts.full_lines(), "line");
    if page.facts.blank > 0 {
        let _ = write!(size, " and {} blank", number(page.facts.blank));
    }
    if page.facts.full_lines() < 5 || row.kind == Kind::Json {
        let _ = write!(size, ", {}", page.length());
    }
    if !page.envelope.is_empty() {
        let _ = write!(size, ", inside JSON with {}", page.envelope.join(", "));
    }
    let mut outcome = Ended::of(page, &|| row.kind, source.failed).words();
    for (lines, noun) in [(page.facts.error_lines, "error line"), (page.facts.warning_lines, "warning line")]
    {
        if lines > 0 {
            outcome.push(counted(lines, noun));
        }
    }
    Head { kind: row.name, outcome, size, handle: source.handle }
}
