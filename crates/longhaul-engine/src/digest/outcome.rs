//! Whether what was done worked: read once, said in every digest.

use super::kind::{Kind, Origin};
use super::page::Page;
use super::rows::row;
use super::test_counts::TestCounts;
use super::usual::{answers_no, only_reads};
use super::words::{WORDS, opens_with};
use crate::clip;
use crate::facts::{FactKind, Words};
use crate::lines::Line;
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
        if ran && only_reads(page.call) {
            return Self::Read;
        }
        Self::of_family(page.call.family).unwrap_or_else(|| match kind() {
            Kind::Prose if ran => Self::Run,
            // What looks like a list and ends in a message of its own.
            Kind::Listing | Kind::Table | Kind::Search if ran && ends_in_a_message(page) => Self::Run,
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
        let is_no = exit == Some(1) && answers_no(page.call);
        let bad_status = exit.is_some_and(|status| status != 0) && !is_no;
        let surely_failed = said == Some(true) || bad_status || opens_with_an_error(page);
        let may_have_failed =
            !surely_failed && (says_it_failed(page) || (exit.is_none() && ends_in_an_error(page)));
        let counts = TestCounts::of(page);
        let ran = (may_have_failed || counts.is_some()) && Origin::of(page, kind) == Origin::Run;
        let failed = surely_failed || (ran && may_have_failed);
        let tests = counts.filter(|_| ran);
        let succeeded =
            said == Some(false) || exit == Some(0) || is_no || tests.is_some() || shows_success(page);
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

fn ends_in_a_message(page: &Page<'_>) -> bool {
    let opens = ["error: ", "Error: ", "ERROR: ", "fatal: "];
    page.last_lines(4).iter().any(|line| opens.iter().any(|word| line.text.contains(word)))
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
    const LAST: usize = 4;
    /// Some tools draw a box around an error; its other lines are not counted.
    const BOX: usize = 12;
    let lines = page.last_lines(LAST + BOX);
    let mut counted = 0;
    for (at, line) in lines.iter().enumerate() {
        if is_verdict(line.text) || at < LAST && ends_a_traceback(&lines[at..]) {
            return true;
        }
        counted += usize::from(!line.text.starts_with(['│', '╵', '╷']));
        if counted == LAST {
            break;
        }
    }
    false
}

/// The line at the end that says that something broke.
pub(super) fn verdict<'a>(page: &Page<'a>) -> Option<Line<'a>> {
    page.last_lines(4).into_iter().find(|line| is_verdict(line.text))
}

fn is_verdict(line: &str) -> bool {
    let ended = WORDS.endings.iter().any(|opener| line.starts_with(opener.as_str()));
    let missing =
        line.ends_with(": command not found") || line.starts_with("sh: ") && line.ends_with(": not found");
    ended
        || missing
        || Words::of(line).error && WORDS.verdicts.iter().any(|word| line.contains(word.as_str()))
}

/// Whether these lines, the last one first, are those of a Python exception: its name, then the frames that led to it.
fn ends_a_traceback(lines: &[Line<'_>]) -> bool {
    let named = |line: &Line<'_>| {
        let name = line.text.split([':', ' ']).next().unwrap_or_default();
        let class = name.rsplit('.').next().unwrap_or_default();
        class.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'))
    };
    lines.first().is_some_and(named)
        && lines
            .iter()
            .skip(1)
            .take(3)
            .any(|line| line.text.starts_with("File \"") && line.text.contains(", line "))
}
