//! Text early in a prompt that changes between requests, days or sessions: named, and what could be done about it said.
//!
//! Nothing is changed here. A line that names the date may be worth its price, and only its author can know.

use std::ops::Range;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::clip::signed;
use crate::json::unescape;
use crate::wire::{Part, Piece, Reading};

/// How much of what changes is shown.
const WIDTH: usize = 60;

/// How often a text changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// With every request: what is behind it is never read from the cache.
    Request,
    /// Once a day.
    Day,
    /// From session to session: what is behind it is not shared between them.
    Session,
}

/// What the author of the prompt could do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// It stands at the end of its block: as a block of its own it would leave the rest cached.
    SplitOff,
    /// More text follows: at the end of the system prompt, or in the newest message, it would cost itself only.
    MoveToEnd,
}

/// A volatile text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volatile {
    /// What it is: a date, a counter, a billing line.
    pub name: &'static str,
    /// How often it changes.
    pub pace: Pace,
    /// The part of the prompt.
    pub part: Part,
    /// The piece that it stands in; this and all after it goes cold when it changes.
    pub piece: usize,
    /// The line of the piece's text, from 1.
    pub line: usize,
    /// The text itself, cut where it is long.
    pub text: String,
    /// What could be done.
    pub remedy: Remedy,
}

/// Volatile text in the tools and the system prompt, in the order of reading.
#[must_use]
pub fn volatile(body: &str, reading: &Reading) -> Vec<Volatile> {
    let early = reading.pieces.iter().take_while(|piece| piece.part < Part::Messages);
    early.enumerate().flat_map(|(at, piece)| in_piece(body, piece, at)).collect()
}

fn in_piece(body: &str, piece: &Piece, at: usize) -> Vec<Volatile> {
    let text = match piece.text {
        Some(text) => unescape(&body[text.at.range()]),
        None => unescape(&body[piece.at.range()]),
    };
    let mut found: Vec<(Range<usize>, &'static Row)> = Vec::new();
    for row in ROWS.iter() {
        for hit in row.pattern.find_iter(&text).map(|hit| hit.range()) {
            let is_new = found.iter().all(|(other, _)| hit.end <= other.start || other.end <= hit.start);
            if is_new && row.counts(&text, hit.start) {
                found.push((hit, row));
            }
        }
    }
    found.sort_by_key(|(hit, _)| hit.start);
    let volatile = |(hit, row): (Range<usize>, &'static Row)| Volatile {
        name: &row.name,
        pace: row.pace,
        part: piece.part,
        piece: at,
        line: text[..hit.start].matches('\n').count() + 1,
        remedy: remedy(&text[hit.end..]),
        text: signed(&text[hit], WIDTH).into_owned(),
    };
    found.into_iter().map(volatile).collect()
}

/// What follows on the same line belongs to it; a line or two more are as good as none.
fn remedy(after: &str) -> Remedy {
    const AS_GOOD_AS_NONE: usize = 200;
    let rest = after.split_once('\n').map_or("", |(_, rest)| rest);
    if rest.trim().len() <= AS_GOOD_AS_NONE { Remedy::SplitOff } else { Remedy::MoveToEnd }
}

struct Row {
    name: String,
    pattern: Regex,
    near: Option<Regex>,
    pace: Pace,
}

impl Row {
    /// Whether a find counts where it stands.
    fn counts(&self, text: &str, at: usize) -> bool {
        const OPENING_LINES: usize = 2;
        let Some(near) = &self.near else { return true };
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let end = text[at..].find('\n').map_or(text.len(), |end| at + end);
        near.is_match(&text[start..end]) || text[..at].matches('\n').count() < OPENING_LINES
    }
}

#[derive(Deserialize)]
struct Table {
    row: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    pattern: String,
    near: Option<String>,
    pace: Pace,
}

table! {
    static ROWS: Vec<Row> = "volatile.toml", |table: Table| table.row.into_iter().map(Written::read).collect();
}

impl Written {
    fn read(self) -> Result<Row, String> {
        let Self { name, pattern, near, pace } = self;
        let regex = |pattern: &str| Regex::new(pattern).map_err(|error| format!("{name}: {error}"));
        let (pattern, near) = (regex(&pattern)?, near.as_deref().map(regex).transpose()?);
        Ok(Row { name, pattern, near, pace })
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
            (
                "x-billing-header: v=2.1; id=0f3;\nYou are careful.",
                &["billing line x-billing-header: v=2.1; id=0f3;"],
            ),
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
            let (transcript, _) = crate::wire::parse(crate::Dialect::Messages, &body).unwrap();
            let found = volatile(&body, &crate::wire::reading(&transcript));
            let found: Vec<String> = found.iter().map(|v| format!("{} {}", v.name, v.text)).collect();
            assert_eq!(&found, wanted, "{text}");
        }
    }

    #[test]
    fn a_remedy_depends_on_what_follows() {
        assert_eq!(remedy(" is the date.\nGood luck!"), Remedy::SplitOff);
        assert_eq!(remedy(&format!(" is the date.\n{}", "Rule. ".repeat(50))), Remedy::MoveToEnd);
    }
}
