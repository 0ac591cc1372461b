//! What a file held once, where a later result shows it as it is, or where it was changed since.

use std::collections::HashMap;

use super::{Change, Found, Leaves, Pass, Scope};
use crate::action::{Outcome, Touched};
use crate::digest::number;
use crate::lines::{Breaks, Lines};
use memchr::memmem;

pub(super) const PASS: Pass = Pass {
    name: "superseded",
    why: "the file was read again later, or changed since",
    leaves: Leaves::Least,
    run,
};

/// When something happened: unit, place of the exchange in it.
type When = (usize, usize);

/// What happened to a file, newest first.
#[derive(Default)]
struct Later<'s, 'b> {
    shown: Vec<Found<'s, 'b>>,
    changed: Vec<(When, Touched, &'s str)>,
}

fn run(scope: &Scope<'_, '_>) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut later: HashMap<&str, Later<'_, '_>> = HashMap::new();
    let mut results = scope.results().rev().peekable();
    for (unit, place, action) in scope.actions.all().rev() {
        let when = (unit, place);
        let got_through = matches!(action.outcome, Outcome::Succeeded | Outcome::Unknown);
        if let Some(path) = action.shows.as_deref().filter(|_| got_through) {
            while results.next_if(|found| found.when() > when).is_some() {}
            while let Some(found) = results.next_if(|found| found.when() == when) {
                if !scope.is_long(found.block) || found.is_ours() {
                    continue;
                }
                let of_file = later.entry(path).or_default();
                if (scope.may_change)(unit) {
                    changes.extend(of_file.supersedes(&found).and_then(|why| line(scope, &found, &why)));
                }
                of_file.shown.push(found);
            }
        }
        if got_through {
            for touch in action.files.iter().filter(|touch| touch.how != Touched::Read) {
                later.entry(&touch.path).or_default().changed.push((when, touch.how, &action.tool));
            }
        }
    }
    changes.reverse();
    changes
}

impl Later<'_, '_> {
    /// What makes an older read of the file worthless, in words.
    fn supersedes(&self, older: &Found<'_, '_>) -> Option<String> {
        let last_change = self.changed.first();
        let first_change = self.changed.last();
        let again = self.shown.iter().find(|newer| {
            let changed_between = first_change.is_some_and(|(when, ..)| *when < newer.when());
            covers(newer.action.lines, older.action.lines) && (changed_between || holds(newer, older))
        });
        if let Some(newer) = again {
            return Some(format!("read again later by {}", newer.tool()));
        }
        let (_, how, tool) = last_change?;
        let done = match how {
            Touched::Deleted => "deleted",
            Touched::Created => "written anew",
            Touched::Restored => "restored",
            Touched::Edited | Touched::Read => "edited",
        };
        Some(format!("{done} later by {}", if tool.is_empty() { "a tool" } else { tool }))
    }
}

/// Whether lines that were asked for hold other ones.
fn covers(newer: Option<(usize, usize)>, older: Option<(usize, usize)>) -> bool {
    match (newer, older) {
        (None, _) | (Some((1, usize::MAX)), None) => true,
        (Some(_), None) => false,
        (Some(newer), Some(older)) => newer.0 <= older.0 && older.1 <= newer.1,
    }
}

/// Whether a newer result really shows what an older one did, and was not cut: a few lines of the older one stand in it.
fn holds(newer: &Found<'_, '_>, older: &Found<'_, '_>) -> bool {
    let (newer, older) = (newer.block.raw(), older.block.raw());
    let lines: Vec<&str> = Lines::new(older, Breaks::Escaped)
        .map(|line| bare(line.text))
        .filter(|line| line.len() > 8)
        .collect();
    let few = [lines.first(), lines.get(lines.len() / 2), lines.get(lines.len().saturating_sub(2))];
    !lines.is_empty()
        && few.iter().flatten().all(|line| memmem::find(newer.as_bytes(), line.as_bytes()).is_some())
}

/// A line without the number that some readers put before it, and without blanks around it.
fn bare(line: &str) -> &str {
    let start = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
    start.trim_start_matches("\\t").trim_start_matches(['→', '|', ':', ' ']).trim_end()
}

/// ``[Read] src/a.rs from line 1 (3,400 chars) → edited later by Edit``
fn line(scope: &Scope<'_, '_>, found: &Found<'_, '_>, why: &str) -> Option<Change> {
    let text = found.block.text();
    let from = found.action.lines.map(|(from, _)| format!(" from line {}", number(from))).unwrap_or_default();
    let (opening, size) = (found.opening(), number(text.chars().count()));
    let line = format!("{opening}{from} ({size} chars) → {}{why}{}", found.outcome(), scope.recall(&text));
    found.shortened(PASS.name, &text, line)
}

impl Found<'_, '_> {
    fn when(&self) -> When {
        (self.at.unit, self.place)
    }
}
