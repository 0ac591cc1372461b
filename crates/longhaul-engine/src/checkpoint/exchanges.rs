//! The requests of people, each with the answer that ended it and what the next message says of that answer.
//!
//! ```text
//! user: fix the port      ┐
//! assistant: (works)      │ an exchange; its answer is "It was 80."
//! assistant: It was 80.   ┘
//! user: thanks, and …     the next exchange; its first word accepts the answer above
//! ```

use super::input::CheckpointInput;
use crate::evidence::{EvidenceItem, Reception, has_question, is_small_talk, reception};

/// A request with everything up to the next one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange<'d> {
    /// The message with the request; `None` for the turns behind a checkpoint, whose request is in the checkpoint.
    pub(super) request: Option<&'d EvidenceItem>,
    /// The question of the assistant that the request answers.
    pub(super) asked_back: Option<&'d EvidenceItem>,
    /// The first turn after the exchange.
    pub(super) end: usize,
    /// The answer that closed the exchange: a text, or the call that submitted the work.
    pub(super) answer: Option<&'d EvidenceItem>,
    pub(super) status: RequestStatus,
}

/// What became of a request, as far as the transcript proves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestStatus {
    /// Nothing is known, or only that the agent answered.
    Unknown,
    /// The agent submitted the work with a tool.
    Submitted,
    /// The next message accepts the answer.
    Accepted,
    /// The next message rejects the answer.
    Rejected,
    /// The next message replaces the request by another one.
    Superseded,
    /// A later request is about the same, so the answer was not the last word.
    Revisited,
}

/// Returns the exchanges of a session, oldest first. A message such as "continue" belongs to the exchange before it.
pub(super) fn collect_exchanges<'d>(input: &CheckpointInput<'d>) -> Vec<Exchange<'d>> {
    let evidence = input.evidence;
    let messages: Vec<&EvidenceItem> =
        evidence.user_messages.iter().filter(|message| message.by_user && !message.text().is_empty()).collect();
    let mut exchanges: Vec<Exchange<'d>> = Vec::new();
    let mut checkpoint = input.previous_turn;
    for (at, message) in messages.iter().enumerate() {
        let end = messages.get(at + 1).map_or(usize::MAX, |next| next.at.unit);
        exchanges.extend(
            checkpoint
                .take_if(|turn| *turn < message.at.unit)
                .map(|turn| Exchange::behind_checkpoint(input, turn, message.at.unit)),
        );
        let before = exchanges.last().and_then(|before| before.answer);
        let asked_back = before.filter(|answer| answer.tool_use().is_none() && has_question(last_line(answer.text())));
        let is_continuation = is_small_talk(message.text()) && asked_back.is_none();
        // A message that only accepts or continues ends nothing that it does not name.
        if let (true, Some(open)) = (is_continuation, exchanges.last_mut()) {
            open.status = status_after(message.text(), open.status);
            open.end = end;
            open.answer = find_answer(input, message.at.unit, end).or(open.answer);
            continue;
        }
        if let Some(before) = exchanges.last_mut() {
            before.status = status_after(message.text(), before.status);
        }
        let answer = find_answer(input, message.at.unit, end);
        let status = match answer {
            Some(answer) if is_submission(answer) => RequestStatus::Submitted,
            _ => RequestStatus::Unknown,
        };
        let request = Some(*message);
        exchanges.push(Exchange { request, asked_back, end, answer, status });
    }
    exchanges.extend(checkpoint.map(|turn| Exchange::behind_checkpoint(input, turn, usize::MAX)));
    exchanges
}

impl<'d> Exchange<'d> {
    fn behind_checkpoint(input: &CheckpointInput<'d>, start: usize, end: usize) -> Self {
        let answer = find_answer(input, start, end);
        Self { request: None, asked_back: None, end, answer, status: RequestStatus::Unknown }
    }
}

fn last_line(text: &str) -> &str {
    text.trim_end().rsplit('\n').next().unwrap_or(text)
}

fn status_after(next: &str, before: RequestStatus) -> RequestStatus {
    match reception(next) {
        _ if before == RequestStatus::Submitted => before,
        Some(Reception::Accepts) => RequestStatus::Accepted,
        Some(Reception::Rejects) => RequestStatus::Rejected,
        Some(Reception::Supersedes) => RequestStatus::Superseded,
        None => before,
    }
}

fn is_submission(answer: &EvidenceItem) -> bool {
    answer.tool_use().is_some_and(|tool_use| tool_use.submits_work)
        || answer.assistant_text().is_some_and(|text| text.submits_work)
}

/// Returns the answer to the request in turn `start`: the last closing text before `end`, or the call that submitted the
/// work. A checkpoint in between hides what the answer belongs to, so then there is none.
fn find_answer<'d>(input: &CheckpointInput<'d>, start: usize, end: usize) -> Option<&'d EvidenceItem> {
    let is_hidden = |turn: usize| input.previous_turn.is_some_and(|checkpoint| start < checkpoint && checkpoint < turn);
    let inside = |item: &&EvidenceItem| item.at.unit > start && item.at.unit < end && !is_hidden(item.at.unit);
    let evidence = input.evidence;
    let first = evidence.tool_uses.partition_point(|item| item.at.unit <= start);
    let uses = evidence.tool_uses[first..].iter().take_while(|item| item.at.unit < end);
    let submitted =
        uses.filter(inside).filter(|item| item.tool_use().is_some_and(|tool_use| tool_use.submits_work)).last();
    let first = evidence.assistant_texts.partition_point(|item| item.at.unit <= start);
    let texts = evidence.assistant_texts[first..].iter().take_while(|item| item.at.unit < end);
    let is_answer = |item: &&EvidenceItem| item.visible && item.is_closing && !item.text().trim().is_empty();
    let closing = texts.filter(inside).filter(is_answer).last();
    match (submitted, closing) {
        (Some(call), Some(text)) if text.at.unit > call.at.unit => Some(text),
        (call, text) => call.or(text),
    }
}

/// Returns the first turn after the last submitted work, or 0. Of the work before it, only changes and answers become
/// candidates.
pub(super) fn first_open_turn(exchanges: &[Exchange<'_>]) -> usize {
    let submitted = exchanges.iter().filter(|exchange| exchange.status == RequestStatus::Submitted);
    submitted.map(|exchange| exchange.end).filter(|end| *end != usize::MAX).max().unwrap_or(0)
}
