//! Whether what was done worked: read once, said in every digest.

use super::kind::{Kind, Origin};
use super::page::Page;
use super::rows::row;
use super::test_counts::TestCounts;
use super::words::{WORDS, opens_with};
use crate::clip;
use crate::facts::FactKind;
use crate::texts::DigestHead;
use crate::tools::{Call, Family};
use memchr::memmem;

/// Whether something that was done worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The wire, an exit status or the output itself says so.
    Succeeded,
    /// The same, the other way.
    Failed,
    /// Nothing says.
    Unknown,
    /// There is no result.
    Unanswered,
}

/// How something that was done ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) exit: Option<i64>,
    pub(crate) tests: Option<TestCounts>,
}

impl Origin {
    /// What an output is of: the tool says, else the kind.
    fn of(page: &Page<'_>, kind: &dyn Fn() -> Kind) -> Self {
        let ran = matches!(page.call.family, Some(Family::Run | Family::Code));
        Self::of_family(page.call.family).unwrap_or_else(|| match kind() {
            Kind::Prose if ran => Self::Run,
            kind => row(kind).origin,
        })
    }

    /// What a file reader prints is what was read, whatever it looks like.
    fn of_family(family: Option<Family>) -> Option<Self> {
        match family? {
            Family::Read
            | Family::Search
            | Family::List
            | Family::WebSearch
            | Family::Fetch
            | Family::Memory => Some(Self::Read),
            _ => None,
        }
    }
}

impl Ended {
    /// There is no result.
    pub(crate) const UNANSWERED: Self = Self { outcome: Outcome::Unanswered, exit: None, tests: None };

    /// How it ended, given what the wire itself says about failing. The kind is asked for only where it matters: to tell it
    /// costs more than all the rest.
    pub(super) fn of(page: &Page<'_>, kind: &dyn Fn() -> Kind, said: Option<bool>) -> Self {
        let exit = page.status();
        let surely_failed =
            said == Some(true) || exit.is_some_and(|status| status != 0) || opens_with_an_error(page);
        let may_have_failed =
            !surely_failed && (says_it_failed(page) || (exit.is_none() && ends_in_an_error(page)));
        let counts = TestCounts::of(page);
        let ran = (may_have_failed || counts.is_some()) && Origin::of(page, kind) == Origin::Run;
        let failed = surely_failed || (ran && may_have_failed);
        let tests = counts.filter(|_| ran);
        let succeeded = said == Some(false) || exit == Some(0) || tests.is_some() || shows_success(page);
        let outcome = match (failed, succeeded) {
            (true, _) => Outcome::Failed,
            (false, true) => Outcome::Succeeded,
            (false, false) => Outcome::Unknown,
        };
        Self { outcome, exit, tests }
    }

    /// How the source of a digest ended, from the digest's first line.
    pub(super) fn of_digest(first: &str, call: &Call, said: Option<bool>) -> Self {
        // The outcome stands first behind an arrow, or behind the tool; in a whole digest it is among the pieces.
        let said_first = first.split(" → ").skip(1).chain(first.split_once("] ").map(|(_, said)| said));
        let whole = first.parse::<DigestHead>().ok();
        let (exit, failed) = said_first
            .map(|results| read_back(results.split([',', ';', ' '])))
            .chain(whole.map(|head| read_back(head.says.iter().skip(1).map(String::as_str))))
            .fold((None, false), |(exit, failed), (also, fails)| (exit.or(also), failed || fails));
        let reads = Origin::of_family(call.family) == Some(Origin::Read);
        let outcome = match failed || said == Some(true) {
            true => Outcome::Failed,
            false if said == Some(false) || exit == Some(0) || reads => Outcome::Succeeded,
            false => Outcome::Unknown,
        };
        Self { outcome, exit, tests: None }
    }

    /// How two parts of one result ended: it failed if one did.
    pub(crate) fn and(self, other: Self) -> Self {
        let outcome = match (self.outcome, other.outcome) {
            (Outcome::Failed, _) | (_, Outcome::Failed) => Outcome::Failed,
            (Outcome::Succeeded, _) | (_, Outcome::Succeeded) => Outcome::Succeeded,
            (outcome, _) => outcome,
        };
        Self { outcome, exit: self.exit.or(other.exit), tests: self.tests.or(other.tests) }
    }

    pub(super) fn failed(self) -> bool {
        self.outcome == Outcome::Failed
    }

    /// The outcome in words, nothing where nothing is known.
    pub(super) fn words(self) -> Vec<String> {
        let exit = self.exit.map(|status| format!("exit {status}"));
        exit.into_iter().chain(self.failed().then(|| FAILED.to_owned())).collect()
    }
}

/// How an outcome says that it failed.
pub(super) const FAILED: &str = "failed";

/// The status and the verdict at the start of these pieces.
fn read_back<'a>(pieces: impl Iterator<Item = &'a str>) -> (Option<i64>, bool) {
    let mut exit = None;
    let mut words = pieces.flat_map(|piece| piece.split(' ')).filter(|word| !word.is_empty()).take(4);
    while let Some(word) = words.next() {
        match word.trim_end_matches([',', ']']) {
            "exit" => exit = words.next().and_then(|status| status.trim_end_matches([',', ']']).parse().ok()),
            FAILED => return (exit, true),
            _ => break,
        }
    }
    (exit, false)
}

/// A read that gave something worked; an editor that worked says so in one of a few ways.
fn shows_success(page: &Page<'_>) -> bool {
    match page.call.family {
        Some(Family::Write | Family::Edit) => {
            let opening = clip::start(page.source, 400).to_ascii_lowercase();
            WORDS.successes.iter().any(|words| opening.contains(words.as_str()))
        }
        family => Origin::of_family(family) == Some(Origin::Read) && !page.source.trim_start().is_empty(),
    }
}

/// A tool that could not do its work says so first.
fn opens_with_an_error(page: &Page<'_>) -> bool {
    let Some(first) =
        page.source.lines().map(str::trim).find(|line| {
            !line.is_empty() && !line.starts_with("<output") && !line.starts_with("<observation")
        })
    else {
        return false;
    };
    let panics = first.starts_with("thread '") && first.contains(" panicked at ");
    panics || opens_with(first, &WORDS.errors)
}

fn says_it_failed(page: &Page<'_>) -> bool {
    page.facts.of_kind(FactKind::Failing).next().is_some()
        || memmem::find(page.text.as_bytes(), b"<failure ").is_some()
        || page.facts.of_kind(FactKind::Total).any(|fact| {
            let (count, noun) = fact.text.split_once(' ').unwrap_or_default();
            matches!(noun.to_ascii_lowercase().as_str(), "failed" | "failing" | "error" | "errors" | "fail")
                && count != "0"
        })
}

/// The last lines of a run that broke: the exception, the build tool's verdict.
fn ends_in_an_error(page: &Page<'_>) -> bool {
    page.last_lines(4).iter().any(|line| {
        let line = line.text;
        let words = crate::facts::Words::of(line);
        let verdict = ["FAILED", "FAILURE", "error:", "Error:", "fatal:", "ERR!", "Exception:", "panicked"];
        words.error
            && verdict.iter().any(|word| line.contains(word))
            && !line.contains("0 failed")
            && !line.contains("0 errors")
    })
}
