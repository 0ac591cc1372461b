//! Whether what was done worked: read once, said in every digest.

use super::kind::{Kind, Row};
use super::page::Page;
use super::tools::Family;
use crate::facts::FactKind;
use memchr::memmem;

/// What is known of the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) exit: Option<i64>,
    pub(super) failed: bool,
}

/// What an output is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Of something that ran: failing tests and error totals in it are its own.
    Run,
    /// Of something that was read: what it says about failing, it says about something else.
    Read,
}

impl Origin {
    /// What an output of this kind is of, given what the tool does.
    pub(super) fn of(page: &Page<'_>, row: &Row) -> Self {
        match page.call.family {
            // What a file reader prints is what was read, whatever it looks like.
            Some(
                Family::Read
                | Family::Search
                | Family::List
                | Family::WebSearch
                | Family::Fetch
                | Family::Memory,
            ) => Self::Read,
            Some(Family::Run | Family::Code) if row.kind == Kind::Prose => Self::Run,
            _ => row.origin,
        }
    }
}

impl Outcome {
    pub(super) fn of(page: &Page<'_>, origin: Origin) -> Self {
        let exit = page.status();
        let failed = exit.is_some_and(|status| status != 0)
            || opens_with_an_error(page)
            || (origin == Origin::Run
                && (says_it_failed(page) || (exit.is_none() && ends_in_an_error(page))));
        Self { exit, failed }
    }

    /// The outcome in words, nothing where nothing is known.
    pub(super) fn words(self) -> Vec<String> {
        let exit = self.exit.map(|status| format!("exit {status}"));
        exit.into_iter().chain(self.failed.then(|| "failed".to_owned())).collect()
    }
}

/// A tool that could not do its work says so first.
fn opens_with_an_error(page: &Page<'_>) -> bool {
    const OPENERS: [&str; 15] = [
        "error:",
        "error ",
        "<tool_use_error>",
        "<error",
        "fatal:",
        "traceback (most recent",
        "failed to ",
        "command failed",
        "exception:",
        "exception in thread ",
        "{\"error\"",
        "{\"is_error\":true",
        "{\"success\":false",
        "{\"success\": false",
        "permission denied",
    ];
    let Some(first) =
        page.source.lines().map(str::trim).find(|line| {
            !line.is_empty() && !line.starts_with("<output") && !line.starts_with("<observation")
        })
    else {
        return false;
    };
    let panics = first.starts_with("thread '") && first.contains(" panicked at ");
    panics
        || OPENERS
            .iter()
            .any(|opener| first.get(..opener.len()).is_some_and(|start| start.eq_ignore_ascii_case(opener)))
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
