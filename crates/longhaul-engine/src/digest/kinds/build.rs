//! Builds and linters: how many complaints of which sort in which file, one of each, and the verdict.

use super::super::page::{Page, Sample};
use super::super::proposal::{Proposal, Worth, number};
use super::super::words::WORDS;
use super::Tally;
use crate::lines::Line;
use std::borrow::Cow;

/// A complaint: how bad, its code if it has one, and the file it is about.
struct Complaint<'a> {
    severity: &'a str,
    sort: &'a str,
    path: &'a str,
}

/// The place of a complaint on a line of its own: `  --> src/main.rs:3:4`.
fn place(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("--> ").map(path_in).filter(|path| !path.is_empty())
}

/// Reads `path:3:4: error: …`, `path(3,4): error TS1: …`, `e: file:///path:3:4 …`, `error[E1]: …`, `  3:4  error  …  rule`.
fn complaint(line: &str) -> Option<Complaint<'_>> {
    let line = line.trim_start();
    for severity in ["error", "warning"] {
        for (at, _) in line.match_indices(severity).take(2) {
            let (before, after) = (&line[..at], &line[at + severity.len()..]);
            let placed = before.is_empty()
                || before.ends_with(": ")
                || before.ends_with("  ")
                || before.ends_with('[');
            let named = after.starts_with([':', '[', '('])
                || code(after).is_some_and(|code| code.len() <= 8)
                || after.starts_with("  ")
                || after.starts_with("s:");
            if placed && named {
                let sort = code(after).unwrap_or(severity);
                return Some(Complaint { severity, sort, path: path_in(before) });
            }
        }
    }
    if let Some((before, after)) = line.split_once(": ") {
        // `path:3:4: F401 …` says only by its code that something is wrong.
        let placed = !path_in(before).is_empty() && before.ends_with(|c: char| c.is_ascii_digit());
        if let Some(code) = code(after).filter(|code| placed && code.len() <= 8 && after.starts_with(code)) {
            return Some(Complaint { severity: "error", sort: code, path: path_in(before) });
        }
    }
    let rest = line.strip_prefix("e: ").or_else(|| line.strip_prefix("w: "))?;
    let severity = if line.starts_with('e') { "error" } else { "warning" };
    rest.starts_with("file:").then(|| Complaint { severity, sort: &line[..1], path: path_in(rest) })
}

/// `[E0308]`, ` TS2345`, or the rule at the end of a linter's line.
fn code(after: &str) -> Option<&str> {
    let inner = after.trim_start_matches(['[', ' ', '(']);
    let length =
        inner.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).count();
    let word = &inner[..length];
    if length < after.len()
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.starts_with(|c: char| c.is_ascii_uppercase())
    {
        return Some(word);
    }
    let (_, rule) = after.strip_prefix("  ")?.rsplit_once("  ")?;
    (!rule.is_empty() && !rule.contains(' ')).then_some(rule)
}

/// The code that a complaint begins with whose place stands on the next line: `F401 [*] …`.
fn headed(line: &str) -> Option<&str> {
    code(line).filter(|code| code.len() <= 8 && line.starts_with(*code))
}

/// The file that the complaints below are about, on a line of its own.
fn heading(line: &str) -> Option<&str> {
    let path = line.trim_end();
    let is_path = path.contains(['/', '\\', '.']) && !path.contains([' ', '\t', ':', '(']);
    (is_path && path.ends_with(|c: char| c.is_ascii_alphanumeric())).then_some(path)
}

/// The path before a place: up to `:3:4` or `(3,4)`. A number is none: `3:4` alone is a place in the file named above.
fn path_in(before: &str) -> &str {
    let before = before.trim_start_matches("file://");
    let end = before
        .char_indices()
        .find(|(at, c)| {
            matches!(c, ':' | '(') && before[at + 1..].starts_with(|next: char| next.is_ascii_digit())
        })
        .map_or(0, |(at, _)| at);
    let path = before[..end].trim();
    if path.bytes().all(|byte| byte.is_ascii_digit()) { "" } else { path }
}

pub(in super::super) fn shows(_: &Page<'_>, sample: &Sample<'_>) -> bool {
    let opened = |line: &str| WORDS.build.iter().any(|opener| line.trim_start().starts_with(opener.as_str()));
    let placed = |line: &str| complaint(line).is_some() || place(line).is_some();
    let places = |line: &str| place(line).is_some();
    let told_apart = sample.lines().filter(|line| places(line)).count() >= 2 && sample.share(places) >= 0.04;
    sample.share(placed) >= 0.15 || sample.share(opened) >= 0.3 || told_apart
}

pub(in super::super) fn propose<'a>(page: &Page<'a>, proposal: &mut Proposal<'a>) {
    let mut found = Found { severity: "error", ..Found::default() };
    for line in page.lines() {
        found.look_at(line, proposal);
    }
    for (label, tally, value) in [("by sort", found.sorts, 3.5), ("by file", found.files, 2.8)] {
        let counts = tally.most_first();
        proposal.note(
            label,
            value,
            counts.iter().map(|(name, count)| Cow::Owned::<str>(format!("{name} {}", number(*count)))),
        );
    }
    proposal.facts(page, Worth { error: 8.0, ..Worth::RUN });
    proposal.edges(page, 5, 8, 3.0);
}

/// What was found so far, line by line.
#[derive(Default)]
struct Found<'a> {
    sorts: Tally<'a>,
    files: Tally<'a>,
    /// The file that the complaints below are about.
    under: Option<Line<'a>>,
    before: Option<Line<'a>>,
    /// How bad the complaint is whose place comes next.
    severity: &'a str,
    places: u32,
}

impl<'a> Found<'a> {
    fn look_at(&mut self, line: Line<'a>, proposal: &mut Proposal<'a>) {
        if let Some(complaint) = complaint(line.text) {
            let above = self.under.filter(|_| complaint.path.is_empty() && line.text.starts_with(' '));
            // One of each sort tells more than many of one.
            if self.sorts.add(complaint.sort) {
                proposal.quote(line.trimmed(), 12.0);
                above.into_iter().for_each(|above| proposal.quote(above.trimmed(), 12.0));
            }
            let path = above.map_or(complaint.path, |above| above.text.trim_end());
            if !path.is_empty() {
                self.files.add(path);
            }
            self.severity = complaint.severity;
        } else if let Some(path) = place(line.text) {
            self.files.add(path);
            if let Some((before, code)) = self.before.and_then(|line| Some((line, headed(line.text)?))) {
                self.severity = "error";
                if self.sorts.add(code) {
                    proposal.quote(before.trimmed(), 12.0);
                }
            }
            // Two errors in the same words differ in their places only. The second place of one complaint is a remark on it.
            let value = if self.severity == "error" { 11.0 } else { 4.0 };
            proposal.quote(line.trimmed(), value / (1.0 + f64::from(self.places) * 0.04));
            self.places += 1;
            self.severity = "remark";
        } else if heading(line.text).is_some() {
            self.under = Some(line);
        }
        self.before = Some(line);
    }
}
