//! The table of kinds: how each is recognised and digested.

use super::kind::{Kind, Origin};
use super::kinds;
use super::page::{Page, Sample};
use super::proposal::Proposal;
use super::usual::usual_kind;

/// One kind: how it is recognised and digested.
pub(super) struct Row {
    pub(super) kind: Kind,
    /// How it is called, on the command line and in digests.
    pub(super) name: &'static str,
    pub(super) origin: Origin,
    /// Whether the content shows it.
    pub(super) shows: fn(&Page<'_>, &Sample<'_>) -> bool,
    /// What is worth keeping of it.
    pub(super) propose: for<'a> fn(&Page<'a>, &mut Proposal<'a>),
}

macro_rules! row {
    ($kind:ident, $name:literal, $origin:ident, $module:ident) => {
        Row {
            kind: Kind::$kind,
            name: $name,
            origin: Origin::$origin,
            shows: kinds::$module::shows,
            propose: kinds::$module::propose,
        }
    };
}

/// In the order of trial: what is sure by its first characters first, what takes a guess last.
static KINDS: [Row; 13] = [
    row!(Binary, "binary", Read, binary),
    row!(Json, "json", Read, json),
    row!(Diff, "diff", Read, diff),
    row!(Html, "html", Read, html),
    row!(Build, "build", Run, build),
    row!(Search, "search-results", Read, search),
    row!(Tests, "tests", Run, tests),
    row!(Table, "table", Read, table),
    row!(Listing, "listing", Read, listing),
    row!(Log, "log", Run, log),
    row!(Source, "source", Read, source),
    row!(Prose, "prose", Read, prose),
    row!(Output, "output", Run, output),
];

impl Kind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|row| row.kind)
    }

    /// Its name on the command line and in digests.
    #[must_use]
    pub fn name(self) -> &'static str {
        row(self).name
    }
}

pub(super) fn row(kind: Kind) -> &'static Row {
    let last = &KINDS[KINDS.len() - 1];
    KINDS.iter().find(|row| row.kind == kind).unwrap_or(last)
}

/// The kind of an output: by its content, else by what its tool usually gives.
pub(super) fn detect(page: &Page<'_>) -> Kind {
    let sample = page.sample();
    // Code, prose and plain output are told apart by shares of lines; there the tool knows better.
    let sure = KINDS.iter().filter(|row| !matches!(row.kind, Kind::Source | Kind::Prose | Kind::Output));
    let shown = sure.into_iter().find(|row| (row.shows)(page, &sample)).map(|row| row.kind);
    shown
        .or_else(|| usual_kind(page.call))
        .or_else(|| KINDS.iter().find(|row| (row.shows)(page, &sample)).map(|row| row.kind))
        .unwrap_or(Kind::Output)
}
