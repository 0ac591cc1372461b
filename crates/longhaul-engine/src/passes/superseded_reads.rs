//! Shortens a result that shows a file, if a later result shows the file again or the file was changed since.

use std::collections::HashMap;

use super::{Pass, PassScope, ProposedChange, Remainder, ResultBlock};
use crate::action::{FileOperation, Outcome};
use crate::digest::format_count;
use crate::lines::{LineBreak, Lines};
use memchr::memmem;

pub(super) const PASS: Pass = Pass {
    name: "superseded",
    reason: "the file was read again later, or changed since",
    remainder: Remainder::Minimal,
    run,
};

/// The position of a tool call: the index of its turn, and its index in the turn.
type CallPosition = (usize, usize);

/// The later events of a file, newest first.
#[derive(Default)]
struct FileHistory<'s, 'b> {
    reads: Vec<ResultBlock<'s, 'b>>,
    changes: Vec<(CallPosition, FileOperation, &'s str)>,
}

fn run(scope: &PassScope<'_, '_>) -> Vec<ProposedChange> {
    let mut changes = Vec::new();
    let mut later: HashMap<&str, FileHistory<'_, '_>> = HashMap::new();
    let mut results = scope.results().rev().peekable();
    for (turn, place, action) in scope.actions.all().rev() {
        let when = (turn, place);
        let may_have_succeeded = matches!(action.outcome, Outcome::Succeeded | Outcome::Unknown);
        if let Some(path) = action.shown_file.as_deref().filter(|_| may_have_succeeded) {
            while results.next_if(|found| found.position() > when).is_some() {}
            while let Some(found) = results.next_if(|found| found.position() == when) {
                if !scope.is_long(found.block) || found.is_already_shortened() {
                    continue;
                }
                let of_file = later.entry(path).or_default();
                if (scope.may_change)(turn) {
                    changes.extend(
                        of_file.superseding_event(&found).and_then(|why| superseded_change(scope, &found, &why)),
                    );
                }
                of_file.reads.push(found);
            }
        }
        if may_have_succeeded {
            for touch in action.files.iter().filter(|touch| touch.operation != FileOperation::Read) {
                later.entry(&touch.path).or_default().changes.push((when, touch.operation, &action.tool));
            }
        }
    }
    changes.reverse();
    changes
}

impl FileHistory<'_, '_> {
    /// Returns the event that makes an older read of the file obsolete, in words: `edited later by Edit`.
    fn superseding_event(&self, older: &ResultBlock<'_, '_>) -> Option<String> {
        let last_change = self.changes.first();
        let first_change = self.changes.last();
        let again = self.reads.iter().find(|newer| {
            let changed_between = first_change.is_some_and(|(when, ..)| *when < newer.position());
            covers_lines(newer.action.shown_lines, older.action.shown_lines)
                && (changed_between || shows_same_text(newer, older))
        });
        if let Some(newer) = again {
            return Some(format!("read again later by {}", newer.tool()));
        }
        let (_, how, tool) = last_change?;
        let done = match how {
            FileOperation::Deleted => "deleted",
            FileOperation::Created => "written anew",
            FileOperation::Restored => "restored",
            FileOperation::Edited | FileOperation::Read => "edited",
        };
        Some(format!("{done} later by {}", if tool.is_empty() { "a tool" } else { tool }))
    }
}

/// Whether the lines of the newer read include those of the older one. `None` means the whole file.
fn covers_lines(newer: Option<(usize, usize)>, older: Option<(usize, usize)>) -> bool {
    match (newer, older) {
        (None, _) | (Some((1, usize::MAX)), None) => true,
        (Some(_), None) => false,
        (Some(newer), Some(older)) => newer.0 <= older.0 && older.1 <= newer.1,
    }
}

/// Whether a newer result contains the text of an older one and was not cut. It tests three lines of the
/// older one.
fn shows_same_text(newer: &ResultBlock<'_, '_>, older: &ResultBlock<'_, '_>) -> bool {
    let (newer, older) = (newer.block.raw(), older.block.raw());
    let lines: Vec<&str> = Lines::new(older, LineBreak::EscapedNewline)
        .map(|line| strip_line_number(line.text))
        .filter(|line| line.len() > 8)
        .collect();
    let few = [lines.first(), lines.get(lines.len() / 2), lines.get(lines.len().saturating_sub(2))];
    !lines.is_empty() && few.iter().flatten().all(|line| memmem::find(newer.as_bytes(), line.as_bytes()).is_some())
}

/// Returns a line without the line number that some tools put before it, and without white space around it.
fn strip_line_number(line: &str) -> &str {
    let start = line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit());
    start.trim_start_matches("\\t").trim_start_matches(['→', '|', ':', ' ']).trim_end()
}

/// Makes the change to a short form such as ``[Read] src/a.rs from line 1 (3,400 chars) → edited later by
/// Edit``.
fn superseded_change(scope: &PassScope<'_, '_>, found: &ResultBlock<'_, '_>, why: &str) -> Option<ProposedChange> {
    let text = found.block.text();
    let from =
        found.action.shown_lines.map(|(from, _)| format!(" from line {}", format_count(from))).unwrap_or_default();
    let (opening, size) = (found.describe_call(), format_count(text.chars().count()));
    let line = format!("{opening}{from} ({size} chars) → {}{why}{}", found.outcome_prefix(), scope.recall_note(&text));
    found.shorten_to(PASS.name, &text, line)
}

impl ResultBlock<'_, '_> {
    fn position(&self) -> CallPosition {
        (self.at.unit, self.call_index)
    }
}
