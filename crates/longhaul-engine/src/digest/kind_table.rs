//! The table of output kinds: how each is recognized and digested.

use super::expected_kind::expected_kind;
use super::kinds;
use super::output_kind::{OutputKind, OutputOrigin};
use super::parsed_output::{ParsedOutput, Sample};
use super::proposal::DigestProposal;

/// One kind of output: how it is recognized and digested.
pub(super) struct KindRow {
    pub(super) kind: OutputKind,
    /// The name of the kind on the command line and in digests.
    pub(super) name: &'static str,
    pub(super) origin: OutputOrigin,
    /// Returns whether the content has this kind.
    pub(super) recognizes: fn(&ParsedOutput<'_>, &Sample<'_>) -> bool,
    /// Proposes what a digest should keep.
    pub(super) propose: for<'a> fn(&ParsedOutput<'a>, &mut DigestProposal<'a>),
}

macro_rules! row_of {
    ($kind:ident, $name:literal, $origin:ident, $module:ident) => {
        KindRow {
            kind: OutputKind::$kind,
            name: $name,
            origin: OutputOrigin::$origin,
            recognizes: kinds::$module::recognizes,
            propose: kinds::$module::propose,
        }
    };
}

/// The kinds in the order in which they are tried: those recognized by their first characters come first,
/// those that need a guess last.
static KIND_TABLE: [KindRow; 13] = [
    row_of!(Binary, "binary", Read, binary),
    row_of!(Json, "json", Read, json),
    row_of!(Diff, "diff", Read, diff),
    row_of!(Html, "html", Read, html),
    row_of!(Build, "build", Run, build),
    row_of!(Search, "search-results", Read, search),
    row_of!(Tests, "tests", Run, test_run),
    row_of!(Table, "table", Read, table),
    row_of!(Listing, "listing", Read, listing),
    row_of!(Log, "log", Run, log),
    row_of!(Source, "source", Read, source),
    row_of!(Prose, "prose", Read, prose),
    row_of!(Output, "output", Run, output),
];

impl OutputKind {
    /// Returns all kinds, in the order in which they are tried.
    pub fn all() -> impl Iterator<Item = Self> {
        KIND_TABLE.iter().map(|row| row.kind)
    }

    /// Returns the name of the kind on the command line and in digests.
    #[must_use]
    pub fn name(self) -> &'static str {
        row(self).name
    }
}

pub(super) fn row(kind: OutputKind) -> &'static KindRow {
    let last = &KIND_TABLE[KIND_TABLE.len() - 1];
    KIND_TABLE.iter().find(|row| row.kind == kind).unwrap_or(last)
}

/// Returns the kind of an output: by its content, or else by the tool that printed it.
pub(super) fn detect_kind(output: &ParsedOutput<'_>) -> OutputKind {
    let sample = output.sample();
    // Code, prose and plain output are recognized only by shares of lines, so here the tool is the better
    // evidence.
    let sure = KIND_TABLE
        .iter()
        .filter(|row| !matches!(row.kind, OutputKind::Source | OutputKind::Prose | OutputKind::Output));
    let shown = sure.into_iter().find(|row| (row.recognizes)(output, &sample)).map(|row| row.kind);
    shown
        .or_else(|| expected_kind(output.call))
        .or_else(|| KIND_TABLE.iter().find(|row| (row.recognizes)(output, &sample)).map(|row| row.kind))
        .unwrap_or(OutputKind::Output)
}
