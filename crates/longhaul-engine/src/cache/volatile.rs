//! Finds text early in a prompt that changes between requests, days or sessions, and suggests a remedy.
//!
//! It changes nothing: a line with the date may be worth its price, and only its author can decide that.

use std::ops::Range;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::json::unescape;
use crate::truncate::truncate_with_ellipsis;
use crate::wire::{PromptOrder, PromptPart, PromptPiece};

/// The number of characters of a volatile text that are shown.
const MAX_SHOWN_CHARS: usize = 60;

/// How often a text changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeFrequency {
    /// With every request, so that the prompt after it is never read from the cache.
    Request,
    /// Once a day.
    Day,
    /// With every session, so that sessions do not share the cache of the prompt after it.
    Session,
}

/// A change that the author of the prompt could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// Put the text into a block of its own: it is at the end of its block, and the rest would stay cached.
    SplitOff,
    /// Move the text to the end of the system prompt or into the newest message: more text follows it, which
    /// would stay cached then.
    MoveToEnd,
}

/// A text in a prompt that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolatileText {
    /// The name of the kind of text, such as `date`, `counter` or `billing line`.
    pub name: &'static str,
    /// How often it changes.
    pub frequency: ChangeFrequency,
    /// The part of the prompt that contains it.
    pub part: PromptPart,
    /// The index of the piece that contains it; this piece and all later ones are uncached after a change.
    pub piece: usize,
    /// The line in the text of the piece, counted from 1.
    pub line: usize,
    /// The text itself, truncated if it is long.
    pub text: String,
    /// The suggested remedy.
    pub remedy: Remedy,
}

/// Finds volatile text in the tools and the system prompt, in the provider's order.
#[must_use]
pub fn find_volatile_text(body: &str, prompt_order: &PromptOrder) -> Vec<VolatileText> {
    let early = prompt_order.pieces.iter().take_while(|piece| piece.part < PromptPart::Messages);
    early.enumerate().flat_map(|(at, piece)| find_in_piece(body, piece, at)).collect()
}

fn find_in_piece(body: &str, piece: &PromptPiece, at: usize) -> Vec<VolatileText> {
    let text = match piece.text {
        Some(text) => unescape(&body[text.at.range()]),
        None => unescape(&body[piece.at.range()]),
    };
    let mut found: Vec<(Range<usize>, &'static VolatilePattern)> = Vec::new();
    for row in PATTERNS.iter() {
        for hit in row.pattern.find_iter(&text).map(|hit| hit.range()) {
            let is_new = found.iter().all(|(other, _)| hit.end <= other.start || other.end <= hit.start);
            if is_new && row.applies_at(&text, hit.start) {
                found.push((hit, row));
            }
        }
    }
    found.sort_by_key(|(hit, _)| hit.start);
    let volatile = |(hit, row): (Range<usize>, &'static VolatilePattern)| VolatileText {
        name: &row.name,
        frequency: row.frequency,
        part: piece.part,
        piece: at,
        line: text[..hit.start].matches('\n').count() + 1,
        remedy: suggest_remedy(&text[hit.end..]),
        text: truncate_with_ellipsis(&text[hit], MAX_SHOWN_CHARS).into_owned(),
    };
    found.into_iter().map(volatile).collect()
}

/// Suggests a remedy from the text that follows. The rest of the same line belongs to the volatile text, and
/// one or two short lines are negligible.
fn suggest_remedy(after: &str) -> Remedy {
    const MAX_NEGLIGIBLE_BYTES: usize = 200;
    let rest = after.split_once('\n').map_or("", |(_, rest)| rest);
    if rest.trim().len() <= MAX_NEGLIGIBLE_BYTES { Remedy::SplitOff } else { Remedy::MoveToEnd }
}

struct VolatilePattern {
    name: String,
    pattern: Regex,
    /// What has to be in the same line for a match to count, unless it is in the first two lines.
    near: Option<Regex>,
    frequency: ChangeFrequency,
}

impl VolatilePattern {
    /// Whether a match counts at this position.
    fn applies_at(&self, text: &str, at: usize) -> bool {
        const OPENING_LINES: usize = 2;
        let Some(near) = &self.near else { return true };
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        near.is_match(&text[start..end]) || text[..at].matches('\n').count() < OPENING_LINES
    }
}

#[derive(Deserialize)]
struct PatternTable {
    row: Vec<PatternRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PatternRow {
    name: String,
    pattern: String,
    near: Option<String>,
    pace: ChangeFrequency,
}

table! {
    static PATTERNS: Vec<VolatilePattern> = "volatile.toml", |table: PatternTable| table.row.into_iter().map(PatternRow::compile).collect();
}

impl PatternRow {
    fn compile(self) -> Result<VolatilePattern, String> {
        let Self { name, pattern, near, pace } = self;
        let regex = |pattern: &str| Regex::new(pattern).map_err(|error| format!("{name}: {error}"));
        let (pattern, near) = (regex(&pattern)?, near.as_deref().map(regex).transpose()?);
        Ok(VolatilePattern { name, pattern, near, frequency: pace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_told_from_what_only_looks_like_it() {
        let cases: &[(&str, &[&str])] = &[
            ("Today is 2026-11-16.\nYou are careful.", &["date 2026-11-16"]),
            ("You work.\n\n\nToday's date: Monday, November 16, 2026", &["date November 16, 2026"]),
            ("a\nb\nc\nCurrent time: 2026-11-16T08:30:12Z", &["date and time 2026-11-16T08:30:12Z"]),
            ("a\nb\nc\nThe current time is 8:30 PM.", &["time 8:30 PM"]),
            ("a\nb\nNow: Mon Nov 16 08:30:12 UTC 2026", &["date and time Mon Nov 16 08:30:12 UTC 2026"]),
            ("x-billing-header: v=2.1; id=0f3;\nYou are careful.", &["billing line x-billing-header: v=2.1; id=0f3;"]),
            ("a\nsession_id: 7f3a9", &["session id session_id: 7f3a9"]),
            ("a\nRequest ID = req_0123", &["request id Request ID = req_0123"]),
            (
                "a\nb\nc\nYour session is 6fa459ea-ee8a-3ca4-894e-db77e160355e",
                &["id 6fa459ea-ee8a-3ca4-894e-db77e160355e"],
            ),
            ("Turn 3 of 20. Tokens used: 18,212", &["counter Turn 3 of 20", "counter Tokens used: 18,212"]),
            ("a\nb\nc\nunix timestamp 1763280000", &["timestamp 1763280000"]),
            ("a\nb\nc\nWrite releases as v2024-01-31, and step 1 of the plan first.", &[]),
            ("a\nb\nc\nCommits follow the form 12:30 or 1.2.3; call tool 3 times.", &[]),
            ("Ports 8080 and 443. Python 3.12. RFC 9110.", &[]),
        ];
        for (text, wanted) in cases {
            let body = format!(r#"{{"system":{},"messages":[]}}"#, serde_json::json!(text));
            let (transcript, _) = crate::wire::parse(crate::ApiFormat::Messages, &body).unwrap();
            let found = find_volatile_text(&body, &crate::wire::prompt_order(&transcript));
            let found: Vec<String> = found.iter().map(|v| format!("{} {}", v.name, v.text)).collect();
            assert_eq!(&found, wanted, "{text}");
        }
    }

    #[test]
    fn a_remedy_depends_on_what_follows() {
        assert_eq!(suggest_remedy(" is the date.\nGood luck!"), Remedy::SplitOff);
        assert_eq!(suggest_remedy(&format!(" is the date.\n{}", "Rule. ".repeat(50))), Remedy::MoveToEnd);
    }
}
