//! Builds and linters: counts the diagnostics by code and by file, and keeps one of each code and the final
//! message.

use super::super::parsed_output::{ParsedOutput, Sample};
use super::super::proposal::{DigestProposal, decay, format_count};
use super::super::weights::{self as all, build as weights};
use super::super::words::OUTPUT_WORDS;
use super::NameCounts;
use crate::lines::Line;
use std::borrow::Cow;

/// A diagnostic: its severity, its code (or else the severity again), and the path of its file.
struct Diagnostic<'a> {
    severity: &'a str,
    code: &'a str,
    path: &'a str,
}

/// Returns the path in a line that gives only the location of a diagnostic: `  --> src/main.rs:3:4`.
fn location_line_path(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("--> ").map(path_before_position).filter(|path| !path.is_empty())
}

/// Parses `path:3:4: error: …`, `path(3,4): error TS1: …`, `e: file:///path:3:4 …`, `error[E1]: …`, `  3:4
/// error  …  rule`.
fn parse_diagnostic(line: &str) -> Option<Diagnostic<'_>> {
    let line = line.trim_start();
    for severity in ["error", "warning"] {
        for (at, _) in line.match_indices(severity).take(2) {
            let (before, after) = (&line[..at], &line[at + severity.len()..]);
            let placed = before.is_empty() || before.ends_with(": ") || before.ends_with("  ") || before.ends_with('[');
            let named = after.starts_with([':', '[', '('])
                || diagnostic_code(after).is_some_and(|code| code.len() <= 8)
                || after.starts_with("  ")
                || after.starts_with("s:");
            if placed && named {
                let sort = diagnostic_code(after).unwrap_or(severity);
                return Some(Diagnostic { severity, code: sort, path: path_before_position(before) });
            }
        }
    }
    if let Some((before, after)) = line.split_once(": ") {
        // In `path:3:4: F401 …`, only the code shows that this is an error.
        let placed = !path_before_position(before).is_empty() && before.ends_with(|c: char| c.is_ascii_digit());
        if let Some(code) = diagnostic_code(after).filter(|code| placed && code.len() <= 8 && after.starts_with(code)) {
            return Some(Diagnostic { severity: "error", code, path: path_before_position(before) });
        }
    }
    let rest = line.strip_prefix("e: ").or_else(|| line.strip_prefix("w: "))?;
    let severity = if line.starts_with('e') { "error" } else { "warning" };
    rest.starts_with("file:").then(|| Diagnostic { severity, code: &line[..1], path: path_before_position(rest) })
}

/// Returns the code in `[E0308]` or ` TS2345`, or the rule at the end of a linter's line.
fn diagnostic_code(after: &str) -> Option<&str> {
    let inner = after.trim_start_matches(['[', ' ', '(']);
    let length = inner.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')).count();
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

/// Returns the code that starts a diagnostic whose location is on the next line: `F401 [*] …`.
fn leading_code(line: &str) -> Option<&str> {
    diagnostic_code(line).filter(|code| code.len() <= 8 && line.starts_with(*code))
}

/// Returns the path in a line that names the file of the diagnostics below it.
fn file_heading(line: &str) -> Option<&str> {
    let path = line.trim_end();
    let is_path = path.contains(['/', '\\', '.']) && !path.contains([' ', '\t', ':', '(']);
    (is_path && path.ends_with(|c: char| c.is_ascii_alphanumeric())).then_some(path)
}

/// Returns the path before a position such as `:3:4` or `(3,4)`. Returns an empty path for a bare `3:4`,
/// which is a position in the file named above.
fn path_before_position(before: &str) -> &str {
    let before = before.trim_start_matches("file://");
    let end = before
        .char_indices()
        .find(|(at, c)| matches!(c, ':' | '(') && before[at + 1..].starts_with(|next: char| next.is_ascii_digit()))
        .map_or(0, |(at, _)| at);
    let path = before[..end].trim();
    if path.bytes().all(|byte| byte.is_ascii_digit()) { "" } else { path }
}

pub(in super::super) fn recognizes(_: &ParsedOutput<'_>, sample: &Sample<'_>) -> bool {
    let opened = |line: &str| OUTPUT_WORDS.build.iter().any(|opener| line.trim_start().starts_with(opener.as_str()));
    let placed = |line: &str| parse_diagnostic(line).is_some() || location_line_path(line).is_some();
    let alone = |line: &str| location_line_path(line).is_some();
    let told_apart = sample.lines().filter(|line| alone(line)).count() >= weights::MIN_LOCATION_LINES
        && sample.share(alone) >= weights::MIN_LOCATION_SHARE;
    sample.share(placed) >= weights::MIN_DIAGNOSTIC_SHARE
        || sample.share(opened) >= weights::MIN_BUILD_TOOL_SHARE
        || told_apart
}

pub(in super::super) fn propose<'a>(output: &ParsedOutput<'a>, proposal: &mut DigestProposal<'a>) {
    let mut found = DiagnosticScan { severity: "error", ..DiagnosticScan::default() };
    for line in output.lines() {
        found.add_line(line, proposal);
    }
    for (label, metrics, value) in
        [("by sort", found.by_code, weights::BY_CODE_VALUE), ("by file", found.by_file, weights::BY_FILE_VALUE)]
    {
        let counts = metrics.most_frequent_first();
        proposal.add_list(
            label,
            value,
            counts.iter().map(|(name, count)| Cow::Owned::<str>(format!("{name} {}", format_count(*count)))),
        );
    }
    proposal.add_facts(output, weights::FACTS);
    proposal.add_edges(output, &weights::EDGES);
}

/// The state of the scan for diagnostics, line by line.
#[derive(Default)]
struct DiagnosticScan<'a> {
    by_code: NameCounts<'a>,
    by_file: NameCounts<'a>,
    /// The line that names the file of the diagnostics below it.
    current_file: Option<Line<'a>>,
    previous_line: Option<Line<'a>>,
    /// The severity of the diagnostic whose location follows.
    severity: &'a str,
    location_count: usize,
}

impl<'a> DiagnosticScan<'a> {
    fn add_line(&mut self, line: Line<'a>, proposal: &mut DigestProposal<'a>) {
        if let Some(complaint) = parse_diagnostic(line.text) {
            let above = self.current_file.filter(|_| complaint.path.is_empty() && line.text.starts_with(' '));
            if self.by_code.add(complaint.code) {
                proposal.add_quote(line.trimmed(), weights::NEW_CODE_VALUE);
                if let Some(above) = above {
                    proposal.add_quote(above.trimmed(), weights::NEW_CODE_VALUE);
                }
            }
            let path = above.map_or(complaint.path, |above| above.text.trim_end());
            if !path.is_empty() {
                self.by_file.add(path);
            }
            self.severity = complaint.severity;
        } else if let Some(path) = location_line_path(line.text) {
            self.by_file.add(path);
            if let Some((before, code)) = self.previous_line.and_then(|line| Some((line, leading_code(line.text)?))) {
                self.severity = "error";
                if self.by_code.add(code) {
                    proposal.add_quote(before.trimmed(), weights::NEW_CODE_VALUE);
                }
            }
            // Two errors with the same message differ only in their locations. A second location of one
            // diagnostic is only a remark.
            let value =
                if self.severity == "error" { weights::ERROR_LOCATION_VALUE } else { weights::OTHER_LOCATION_VALUE };
            proposal.add_quote(line.trimmed(), decay(value, self.location_count, all::DECAY));
            self.location_count += 1;
            self.severity = "remark";
        } else if file_heading(line.text).is_some() {
            self.current_file = Some(line);
        }
        self.previous_line = Some(line);
    }
}
