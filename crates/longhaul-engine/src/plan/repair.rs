//! Finds calls without results, results without calls and arguments that are not JSON, as some clients leave
//! them. Inside the turns that a compaction may change, it repairs those that the provider would refuse. It
//! only reports the others.

use serde_json::json;

use super::draft::{Draft, Replacement};
use crate::check::Severity;
use crate::json::Scanner;
use crate::passes::NewText;
use crate::transcript::{BlockPosition, BlockRole, CallStatus, ElementId, TextEncoding, Transcript};
use crate::truncate::to_one_line;

/// A mistake of the client about a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// The call has no result, although the conversation continued.
    Unanswered,
    /// The call is missing: there is only a result.
    OrphanedResult,
    /// The arguments are not a JSON object.
    InvalidArguments,
}

/// Each fault with the rules by which a provider refuses it, and its description in singular and plural.
const FAULTS: [(Fault, &[&str], [&str; 2]); 3] = [
    (Fault::Unanswered, &["A1", "O2", "R2", "M5"], ["a call without a result", "calls without a result"]),
    (Fault::OrphanedResult, &["A2", "O1", "R1", "M5"], ["a result without a call", "results without a call"]),
    (
        Fault::InvalidArguments,
        &["G4", "X1"],
        ["a call with arguments that are no JSON", "calls with arguments that are no JSON"],
    ),
];

/// The reason in the report for replaced arguments.
pub(super) const INVALID_ARGUMENTS_REASON: &str = "arguments that are no JSON, which the provider refuses";

/// The number of characters that stay of arguments that are not JSON. Chosen by hand.
const MAX_KEPT_ARGUMENT_CHARS: usize = 200;

/// The text of the result that is added to a call without one.
const STUB_RESULT: &str = "[no result of this call was recorded; a checkpoint above says what is known of it]";

/// Finds every fault, with the position of its block.
fn find_faults(transcript: &Transcript<'_>) -> impl Iterator<Item = (Fault, BlockPosition)> {
    transcript.turn_blocks().filter_map(move |part| {
        let fault = match part.role {
            BlockRole::Call(tool_call) if tool_call.status == CallStatus::Aborted => Fault::Unanswered,
            BlockRole::Call(_) if part.block.text.is_some_and(|text| text.encoding == TextEncoding::JsonInString) => {
                let is_fine = is_json_object(&part.block.text());
                (!is_fine).then_some(Fault::InvalidArguments)?
            }
            BlockRole::Result { tool_call, .. } if tool_call.status == CallStatus::Orphan => Fault::OrphanedResult,
            _ => return None,
        };
        Some((fault, part.position))
    })
}

/// Whether arguments are a JSON object or empty.
fn is_json_object(arguments: &str) -> bool {
    let mut scanner = Scanner::new(arguments);
    let mut is_json = || scanner.skip_value().and_then(|_| scanner.expect_end()).is_ok();
    let arguments = arguments.trim();
    arguments.is_empty() || arguments.starts_with('{') && is_json()
}

/// Repairs the faults that the provider would refuse, in turns that may change.
pub(super) fn repair(draft: &mut Draft<'_, '_, '_>, may_change: &dyn Fn(usize) -> bool) {
    let survey = draft.survey;
    let transcript = survey.transcript;
    let found: Vec<(Fault, BlockPosition)> = find_faults(transcript).filter(|(_, at)| may_change(at.unit)).collect();
    let is_broken = |rule: &&str| survey.violations().iter().any(|v| v.rule == *rule && v.severity == Severity::Error);
    let is_refused = |fault: Fault| FAULTS.iter().any(|(own, rules, _)| *own == fault && rules.iter().any(is_broken));
    for (fault, at) in found.into_iter().filter(|(fault, _)| is_refused(*fault)) {
        match fault {
            // The result may have to be part of the next message.
            Fault::Unanswered if may_change(at.unit + 1) => draft.add_stub_result(at, STUB_RESULT),
            Fault::OrphanedResult if is_removable_orphan(transcript, at.unit) => {
                draft.remove_turn(at.unit);
            }
            Fault::Unanswered | Fault::OrphanedResult => {}
            Fault::InvalidArguments => {
                let words = transcript.block(at).map(|block| to_one_line(&block.text(), MAX_KEPT_ARGUMENT_CHARS));
                let text = json!({ "no_json": words.unwrap_or_default() }).to_string();
                draft.replace_text(at, NewText::Text(text), INVALID_ARGUMENTS_REASON);
            }
        }
    }
}

/// Whether a turn consists only of results without calls, in messages of their own.
fn is_removable_orphan(transcript: &Transcript<'_>, turn: usize) -> bool {
    let is_message = |id: &ElementId| Some(id.array) == transcript.message_array;
    let turn = &transcript.turns[turn];
    turn.has_only_orphaned_results() && turn.owned_elements.iter().all(is_message)
}

/// Describes the faults of a transcript, each with the messages that have it.
pub(super) fn describe_faults(transcript: &Transcript<'_>) -> Vec<String> {
    /// The number of messages that are listed for each fault.
    const MAX_NAMED_PLACES: usize = 3;
    let found: Vec<(Fault, BlockPosition)> = find_faults(transcript).collect();
    let message = |at: &BlockPosition| {
        let owns = &transcript.turns[at.unit].owned_elements;
        owns.first().and_then(|id| transcript.message_of(*id)).unwrap_or(0).to_string()
    };
    let line = |(fault, _, [one, several]): &(Fault, _, [&str; 2])| {
        let places: Vec<String> = found.iter().filter(|(own, _)| own == fault).map(|(_, at)| message(at)).collect();
        match places.len() {
            0 => None,
            1 => Some(format!("{one} stays as it is: message {}", places[0])),
            count => {
                let more = if count > MAX_NAMED_PLACES { ", …" } else { "" };
                let first = places[..count.min(MAX_NAMED_PLACES)].join(", ");
                Some(format!("{count} {several} stay as they are: messages {first}{more}"))
            }
        }
    };
    FAULTS.iter().filter_map(line).collect()
}

/// Describes the repairs that were made.
pub(super) fn describe_repairs(draft: &Draft<'_, '_, '_>) -> Vec<String> {
    let transcript = draft.survey.transcript;
    // The checkpoint covers the results that were summarized.
    let removed = match draft.replacement {
        Replacement::Nothing => {
            draft.removed_turns.iter().filter(|turn| is_removable_orphan(transcript, **turn)).count()
        }
        Replacement::CountOnly(_) | Replacement::Checkpoint(_) => 0,
    };
    let counted = |count: usize, one: &str, several: &str| {
        (count > 0).then(|| if count == 1 { format!("a {one}") } else { format!("{count} {several}") })
    };
    let stubs = draft.stubs.keys().filter(|at| !draft.removed_turns.contains(&at.unit)).count();
    let removed = counted(removed, "result without a call is removed", "results without a call are removed");
    let stubs = counted(stubs, "call without a result got a stub", "calls without a result got a stub");
    removed.into_iter().chain(stubs).collect()
}
