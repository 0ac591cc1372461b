//! Calls without results, results without calls and arguments that are no JSON, as some clients leave them. What a compaction may
//! rewrite is repaired where the provider would refuse it; what it may not is named.

use std::collections::BTreeSet;

use serde_json::json;

use super::draft::{Draft, InPlace};
use crate::check::{Severity, check};
use crate::clip::on_one_line;
use crate::json::Scanner;
use crate::passes::NewText;
use crate::transcript::{BlockAt, ElementId, Exchange, Form, PartKind, Status, Transcript, UnitKind};

/// What a client got wrong about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// It has no result, and the transcript went on.
    Unanswered,
    /// It is missing: there is only the result.
    Orphan,
    /// Its arguments are no JSON object.
    Arguments,
}

/// Which rules say that a provider refuses it, and how it is named, one and several.
const FAULTS: [(Fault, &[&str], [&str; 2]); 3] = [
    (Fault::Unanswered, &["A1", "O2", "R2", "M5"], ["a call without a result", "calls without a result"]),
    (Fault::Orphan, &["A2", "O1", "R1", "M5"], ["a result without a call", "results without a call"]),
    (
        Fault::Arguments,
        &["G4", "X1"],
        ["a call with arguments that are no JSON", "calls with arguments that are no JSON"],
    ),
];

/// Why arguments were changed that are no JSON.
pub(super) const NO_JSON: &str = "arguments that are no JSON, which the provider refuses";

/// How much of what is no JSON is kept.
const KEPT: usize = 200;

/// The result of a call that has none.
const STUB: &str = "[no result of this call was recorded; a checkpoint above says what is known of it]";

/// Every fault, by the block that has it.
fn faults(transcript: &Transcript<'_>) -> impl Iterator<Item = (Fault, BlockAt)> {
    transcript.parts().filter_map(move |part| {
        let fault = match part.kind {
            PartKind::Call(exchange) if exchange.status == Status::Aborted => Fault::Unanswered,
            PartKind::Call(_) if part.block.text.is_some_and(|text| text.form == Form::JsonInString) => {
                let is_fine = is_object(&part.block.text());
                (!is_fine).then_some(Fault::Arguments)?
            }
            PartKind::Result { exchange, .. } if exchange.status == Status::Orphan => Fault::Orphan,
            _ => return None,
        };
        Some((fault, part.at))
    })
}

/// Whether arguments are a JSON object, or nothing at all.
fn is_object(arguments: &str) -> bool {
    let mut scanner = Scanner::new(arguments);
    let mut is_json = || scanner.value().and_then(|_| scanner.end()).is_ok();
    let arguments = arguments.trim();
    arguments.is_empty() || arguments.starts_with('{') && is_json()
}

/// Repairs what may change and would be refused.
pub(super) fn repair(draft: &mut Draft<'_, '_, '_>, may_change: &dyn Fn(usize) -> bool) {
    let (transcript, policy) = (draft.survey.transcript, draft.survey.policy);
    let found: Vec<(Fault, BlockAt)> = faults(transcript).filter(|(_, at)| may_change(at.unit)).collect();
    if found.is_empty() {
        return;
    }
    let broken = check(transcript.body, transcript.dialect, &policy.model.target(transcript.dialect));
    let errors = broken.iter().filter(|violation| violation.severity == Severity::Error);
    let rules: BTreeSet<&str> = errors.map(|violation| violation.rule).collect();
    let is_refused = |fault: Fault| {
        FAULTS.iter().any(|(own, of, _)| *own == fault && of.iter().any(|rule| rules.contains(rule)))
    };
    for (fault, at) in found.into_iter().filter(|(fault, _)| is_refused(*fault)) {
        match fault {
            // The result may have to stand in the message behind.
            Fault::Unanswered if may_change(at.unit + 1) => draft.answer(at, STUB),
            Fault::Orphan if is_bare(transcript, at.unit) => draft.take_out(at.unit),
            Fault::Unanswered | Fault::Orphan => {}
            Fault::Arguments => {
                let words = transcript.block(at).map(|block| on_one_line(&block.text(), KEPT));
                let text = json!({ "no_json": words.unwrap_or_default() }).to_string();
                draft.change(at, NewText::Text(text), NO_JSON);
            }
        }
    }
}

/// Whether a unit is nothing but results without calls, in messages of their own.
fn is_bare(transcript: &Transcript<'_>, unit: usize) -> bool {
    let is_message = |id: &ElementId| Some(id.array) == transcript.messages;
    let is_orphan = |exchange: &Exchange<'_>| exchange.status == Status::Orphan;
    matches!(&transcript.units[unit].kind, UnitKind::Step { reply, exchanges }
        if reply.is_empty() && exchanges.iter().all(is_orphan))
        && transcript.units[unit].owns.iter().all(is_message)
}

/// The faults that a transcript has, in words, each with the messages that have it.
pub(super) fn named(transcript: &Transcript<'_>) -> Vec<String> {
    /// So many places are named.
    const PLACES: usize = 3;
    let found: Vec<(Fault, BlockAt)> = faults(transcript).collect();
    let message = |at: &BlockAt| {
        let owns = &transcript.units[at.unit].owns;
        owns.first().and_then(|id| transcript.message_of(*id)).unwrap_or(0).to_string()
    };
    let line = |(fault, _, [one, several]): &(Fault, _, [&str; 2])| {
        let places: Vec<String> =
            found.iter().filter(|(own, _)| own == fault).map(|(_, at)| message(at)).collect();
        match places.len() {
            0 => None,
            1 => Some(format!("{one} stays as it is: message {}", places[0])),
            count => {
                let more = if count > PLACES { ", …" } else { "" };
                let first = places[..count.min(PLACES)].join(", ");
                Some(format!("{count} {several} stay as they are: messages {first}{more}"))
            }
        }
    };
    FAULTS.iter().filter_map(line).collect()
}

/// What was repaired, in words.
pub(super) fn repaired(draft: &Draft<'_, '_, '_>) -> Vec<String> {
    let transcript = draft.survey.transcript;
    // What is folded is told in the checkpoint.
    let removed = match draft.in_place {
        InPlace::Nothing => draft.gone.iter().filter(|unit| is_bare(transcript, **unit)).count(),
        InPlace::Count(_) | InPlace::Checkpoint(_) => 0,
    };
    let counted = |count: usize, one: &str, several: &str| {
        (count > 0).then(|| if count == 1 { format!("a {one}") } else { format!("{count} {several}") })
    };
    let stubs = draft.stubs.keys().filter(|at| !draft.gone.contains(&at.unit)).count();
    let removed = counted(removed, "result without a call is removed", "results without a call are removed");
    let stubs = counted(stubs, "call without a result got a stub", "calls without a result got a stub");
    removed.into_iter().chain(stubs).collect()
}
