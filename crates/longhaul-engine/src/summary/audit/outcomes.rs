//! Checks whether an outcome that a summary claims is what happened.
//!
//! It decides only what is beyond doubt: the words name one command, or one edited file, and every such run or edit of
//! the session ended otherwise. A wrong removal costs more than a wrong word, because the reader cannot know of it.

use super::claims::{ClaimKind, code_spans, find_claims, is_shell_command};
use super::clauses::statement_opening;
use super::phrases::{TABLE, contains_any, lowercase_prose, on_one_line, remove_phrases};
use super::session_index::{SessionIndex, ToolUseRecord, ToolUseResult, find_test_counts};
use crate::transcript::BlockPosition;

/// The shortest command by which runs are found, in bytes. A shorter one is part of many others.
const MIN_COMMAND_BYTES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClaimedResult {
    Success,
    Failure,
}

/// Returns the tool calls that a clause of an item contradicts; none if that cannot be decided.
pub(super) fn find_contradicted(item: &str, clause: &str, source: &SessionIndex) -> Vec<BlockPosition> {
    let Some(claimed) = claimed_result(clause) else { return Vec::new() };
    let about = find_tool_uses(item, source);
    let is_contradicted = |tool_use: &&ToolUseRecord| match claimed {
        ClaimedResult::Success => !may_have_succeeded(tool_use),
        // What failed after an edit may be a run that the item does not name.
        ClaimedResult::Failure => tool_use.is_run && !may_have_failed(tool_use),
    };
    if about.iter().all(is_contradicted) { about.iter().map(|tool_use| tool_use.at).collect() } else { Vec::new() }
}

/// Returns the outcome that a text claims; `None` if it claims none, or both.
fn claimed_result(text: &str) -> Option<ClaimedResult> {
    let prose = lowercase_prose(text);
    let plain = remove_phrases(&prose, &TABLE.neither);
    let badly = contains_any(&plain, &TABLE.badly);
    let well = contains_any(&plain, &TABLE.well) || plain != prose && contains_any(&prose, &TABLE.well);
    match (well, badly) {
        (true, false) => Some(ClaimedResult::Success),
        (false, true) => Some(ClaimedResult::Failure),
        _ => None,
    }
}

/// Returns the runs of the only command that an item names, or the edits of the only file that it says to have edited.
fn find_tool_uses<'s>(item: &str, source: &'s SessionIndex) -> Vec<&'s ToolUseRecord> {
    let mut commands: Vec<&str> = code_spans(item).filter(|code| is_shell_command(code)).collect();
    commands.dedup();
    if let [command] = commands.as_slice() {
        let command = on_one_line(&command.to_lowercase());
        let is_run = |tool_use: &&ToolUseRecord| tool_use.is_run && tool_use.request.contains(&command);
        return if command.len() < MIN_COMMAND_BYTES {
            Vec::new()
        } else {
            source.tool_uses.iter().filter(is_run).collect()
        };
    }
    let opening = statement_opening(item).to_lowercase();
    let verb = opening.split_whitespace().next().unwrap_or_default();
    let paths: Vec<&str> =
        find_claims(item).into_iter().filter(|claim| claim.kind == ClaimKind::Path).map(|claim| claim.text).collect();
    match paths.as_slice() {
        [path] if commands.is_empty() && TABLE.editing.iter().any(|word| word == verb) => {
            let path = path.to_lowercase();
            source.tool_uses.iter().filter(|tool_use| tool_use.is_edit && tool_use.request.contains(&path)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns whether a tool use may have succeeded. A shell pipe hides the exit status of a command, so an output that
/// shows a problem must also show a success.
fn may_have_succeeded(tool_use: &ToolUseRecord) -> bool {
    let in_doubt = tool_use.result == ToolUseResult::Failed || contains_any(&tool_use.output, &TABLE.trouble);
    tool_use.result != ToolUseResult::Refused
        && (!in_doubt || contains_any(&remove_phrases(&tool_use.output, &TABLE.badly), &TABLE.well))
}

/// Returns whether a tool use may have failed: it did, or its output shows a failure, also inside a longer word such as
/// the name of an exception.
fn may_have_failed(tool_use: &ToolUseRecord) -> bool {
    const WORDS: [&str; 3] = ["error", "exception", "fail"];
    let shown = remove_phrases(&tool_use.output, &TABLE.neither);
    tool_use.result != ToolUseResult::NotFailed
        || tool_use.exit_status.is_some_and(|status| status != 0)
        || WORDS.iter().any(|word| shown.contains(word))
        || contains_any(&shown, &TABLE.badly)
        || contains_any(&shown, &TABLE.trouble)
}

/// Returns whether a clause quotes an output that no tool result contains.
pub(super) fn is_misreported(clause: &str, source: &SessionIndex) -> bool {
    let reports = |claim: &str| {
        let before = clause.split_once(claim).map_or("", |(before, _)| before);
        contains_any(&lowercase_prose(before), &TABLE.reported)
    };
    let is_output =
        |text: &str| text.contains(' ') && !source.is_in_tool_request(text) && !source.is_in_tool_output(text);
    find_claims(clause)
        .iter()
        .any(|claim| claim.kind == ClaimKind::Code && is_output(claim.text) && reports(claim.text))
}

/// Returns whether a clause has a count of tests that no output has, though outputs have such counts.
pub(super) fn is_miscounted(clause: &str, source: &SessionIndex) -> bool {
    find_test_counts(&lowercase_prose(clause))
        .any(|(count, what)| source.has_counts_of(what) && !source.has_count(count, what))
}
