//! Writes the checkpoint that replaces the summarized turns: its content, its size limits and its position.

use std::collections::BTreeSet;

use super::CountFacts;
use super::draft::CheckpointDraft;
use super::own_checkpoint::CheckpointTrust;
use super::page::{block_label, write_page};
use super::report::{CheckpointReport, WrittenBy};
use super::survey::Survey;
use super::workspace::{EarlierActions, Workspace};
use crate::Tokens;
use crate::checkpoint::{
    self, Checkpoint, CheckpointInput, EarlierWork, QuotedLines, QuotedSummary, RecallPage, Section, SummaryNotes,
    Topic,
};
use crate::facts::Facts;
use crate::host_text;
use crate::ledger::PlacedText;
use crate::redact::{Redacted, RedactionMode};
use crate::summary::{
    AuditAction, AuditFinding, AuditedSummary, MAX_SUMMARY_BYTES as LONGEST_SUMMARY, ModelSummary, escape_markers,
};
use crate::texts::{CheckpointMarker, EarlierWorkNode, RequestPosition, sign_checkpoint};
use crate::transcript::{BlockKind, BlockPosition, BlockRole, TextEncoding, Transcript, TurnBlock, TurnKind};
use crate::truncate::first_bytes;
use crate::wire::Role;

// The sizes of a checkpoint and of its parts.

/// The smallest checkpoint in tokens; a smaller one has too little to continue from. Chosen by hand.
pub(super) const MIN_CHECKPOINT_TOKENS: Tokens = Tokens(400);
/// A checkpoint has at most one part in so many of the tokens that it replaces, whatever size is requested.
const MAX_SIZE_DIVISOR: u64 = 4;
/// The largest share of a checkpoint for earlier work. Chosen by hand.
const MAX_EARLIER_WORK_SHARE: f64 = 0.35;
/// The tokens that an entry of earlier work needs, and the number of entries that get them.
const TOKENS_PER_NODE: u64 = 20;
const MAX_COUNTED_NODES: usize = 10;
/// The tokens that are reserved before the user's rules are counted.
const RULES_RESERVE_TOKENS: Tokens = Tokens(100);
/// The tokens that a quoted message adds in a checkpoint: a list marker and its share of the heading.
const RULE_FRAMING_TOKENS: Tokens = Tokens(10);
/// The size of a supplied summary with what code adds behind it, divided by its own size.
const BEHIND_SUMMARY_FACTOR: f64 = 1.3;
/// The largest number of tokens that the signature of a session takes.
const MAX_SIGNATURE_TOKENS: Tokens = Tokens(11);

/// Writes a checkpoint for the removed turns within a budget, but never smaller than its frame.
pub(super) fn write_within(
    work: &mut Workspace<'_, '_, '_>,
    gone: &BTreeSet<usize>,
    budget: Tokens,
) -> CheckpointDraft {
    let survey = work.survey;
    let before = checkpoint_position(survey, gone);
    let evidence = work.evidence();
    let marker = CheckpointMarker {
        request_position: request_position(survey, before),
        memory_files: evidence.memory_files.clone(),
    };
    let previous = previous_checkpoint(survey, gone);
    let focus = survey.focus();
    let quotes =
        focus.as_deref().and_then(Topic::parse).map_or_else(Vec::new, |topic| quote_focus_lines(work, gone, &topic));
    let originals = &survey.options.originals;
    let recall_id = |at: BlockPosition| Some(originals.recall_ids()?.for_block(survey.transcript.block(at)?));
    let supplied = audit_supplied_summary(work, gone);
    let host_note = survey.options.host_note.as_ref().and_then(quote_host_note);
    let key = survey.options.session_key.as_ref();
    let signature_tokens = key.map_or(Tokens::ZERO, |_| MAX_SIGNATURE_TOKENS);
    let input = CheckpointInput {
        evidence: &evidence,
        is_summarized: &|turn| gone.contains(&turn),
        previous: previous.as_ref(),
        previous_turn: survey.newest_checkpoint.filter(|turn| gone.contains(turn)),
        earlier_work: &[],
        last_action_before: previous.as_ref().map_or(0, Checkpoint::last_action),
        notes: supplied.audited.as_ref().map(|(audited, covers)| SummaryNotes {
            author: &supplied.author,
            notes: &audited.notes,
            turns: covers,
            moved: &audited.moved,
            misreported: &audited.misreported,
        }),
        topic_quotes: &quotes,
        host_note: host_note.as_ref(),
        result_text: &|at| result_text(survey.transcript, at),
        visit_kept_texts: &|visit| visit_kept_texts(survey.transcript, gone, visit),
        recall_id: &recall_id,
        budget: (budget - signature_tokens).max(survey.meter.counter.count(&Checkpoint::render_empty(&marker))),
        counter: survey.meter.counter,
        replied_to_turn: survey.answer_before_newest_prompt(),
        focus: focus.as_deref(),
        weights: survey.options.weights(),
        marker: &marker,
    };
    let (earlier, pages) = earlier_work(work, gone, &input);
    let repeated_previous = match work.earlier_actions {
        EarlierActions::Repeated => previous.clone(),
        EarlierActions::Paged => previous.as_ref().map(Checkpoint::without_actions),
    };
    let input = CheckpointInput { earlier_work: &earlier, previous: repeated_previous.as_ref(), ..input };
    let written = checkpoint::write(&input, &mut work.redactor);
    let sections = written.checkpoint.section_count();
    let tokens = written.tokens + signature_tokens;
    let (by, findings) = match supplied.audited {
        None => (WrittenBy::Code, Vec::new()),
        Some((audited, _)) => (WrittenBy::Model, with_restored_statements(audited.findings, &written.restored)),
    };
    let report = CheckpointReport { by, tokens, sections };
    let text = key.map_or_else(|| written.text.clone(), |key| sign_checkpoint(&written.text, key));
    let placed = PlacedText { before, text, takes: survey.role_order() };
    CheckpointDraft {
        placed,
        report,
        evidence_found: written.candidates_found,
        evidence_kept: written.candidates_kept,
        findings,
        unused_summary_note: supplied.note,
        pages,
    }
}

/// Calls a function with the texts of the system prompt and of the turns that are not in `gone`.
fn visit_kept_texts(transcript: &Transcript<'_>, gone: &BTreeSet<usize>, visit: &mut dyn FnMut(&str)) {
    let system = transcript.preamble.iter().filter(|block| block.kind == BlockKind::System);
    let kept = (0..transcript.turns.len()).filter(|turn| !gone.contains(turn));
    let blocks = kept.flat_map(|turn| transcript.blocks_of_turn(turn)).map(|part| part.block);
    system.chain(blocks).filter(|block| block.text.is_some()).for_each(|block| visit(&block.text()));
}

/// Returns the text of all results of the tool call with a block at this position, without what a host added.
fn result_text(transcript: &Transcript<'_>, at: BlockPosition) -> String {
    let parts = || transcript.blocks_of_turn(at.unit);
    let Some(call) = parts().find(|part| part.position == at).and_then(|part| part.role.tool_call()) else {
        return String::new();
    };
    let is_own = |part: &TurnBlock<'_, '_>| {
        matches!(part.role, BlockRole::Result { tool_call, .. } if std::ptr::eq(tool_call, call))
            && part.block.kind == BlockKind::Text
            && part.block.text.is_some()
    };
    let mut all = String::new();
    for part in parts().filter(is_own) {
        all.push_str(host_text::without_trailing(&part.block.text()));
        all.push('\n');
    }
    all
}

/// Returns the entries for earlier work in a new checkpoint, with the pages that were written for them.
fn earlier_work(
    work: &mut Workspace<'_, '_, '_>,
    gone: &BTreeSet<usize>,
    input: &CheckpointInput<'_>,
) -> (Vec<EarlierWorkNode>, Vec<RecallPage>) {
    let originals = &work.survey.options.originals;
    let recall_id = |text: &str| originals.recall_id(text);
    let mut earlier = EarlierWork::from_checkpoint(input.previous, &recall_id);
    if work.earlier_actions == EarlierActions::Paged {
        if let Some(before) = input.previous {
            let own = work
                .survey
                .newest_checkpoint
                .and_then(|turn| (input.recall_id)(BlockPosition { unit: turn, block: 0 }));
            earlier.absorb_actions(before, own);
        }
        let leaf = write_page(work, gone, input);
        earlier.add_span(input.last_action_before + 1..=leaf.last_action, leaf.text, &leaf.titles);
    }
    // The user's rules have priority over all earlier work.
    let room = input.budget - tokens_for_rules(work, gone);
    earlier.fit_to_budget(input.budget.share(MAX_EARLIER_WORK_SHARE).min(room), input.counter)
}

/// Writes a checkpoint that quotes a summary from outside word for word. The user's rules are added, whatever
/// the summary says.
pub(super) fn write_quoting(
    work: &mut Workspace<'_, '_, '_>,
    gone: &BTreeSet<usize>,
    summary: &str,
) -> CheckpointDraft {
    let survey = work.survey;
    let before = checkpoint_position(survey, gone);
    let evidence = work.evidence();
    let marker = CheckpointMarker {
        request_position: request_position(survey, before),
        memory_files: evidence.memory_files.clone(),
    };
    let previous = previous_checkpoint(survey, gone).unwrap_or_default();
    let rules = evidence.rules().filter(|(turn, _)| gone.contains(turn));
    let rules: Vec<Redacted> = rules.map(|(_, rule)| work.redactor.redact(&rule, RedactionMode::Text).text).collect();
    let by = work.redactor.redact(work.context.engine.name(), RedactionMode::Text).text.one_line(80);
    let text = work.redactor.redact(summary, RedactionMode::Text).text.collapse_blank_lines();
    let host_note = survey.options.host_note.as_ref().and_then(quote_host_note);
    let summary = QuotedSummary { author: by, text: escape_markers(&text), leaves_gap: false };
    let checkpoint = Checkpoint::from_summary(&previous, &rules, summary, host_note);
    let text = checkpoint.render(&marker);
    let text = survey.options.session_key.as_ref().map_or_else(|| text.clone(), |key| sign_checkpoint(&text, key));
    let tokens = survey.meter.counter.count(&text);
    let report = CheckpointReport { by: WrittenBy::Plugin, tokens, sections: checkpoint.section_count() };
    let (found, kept) = count_facts_kept(survey, gone, &text);
    let placed = PlacedText { before, text, takes: survey.role_order() };
    CheckpointDraft {
        placed,
        report,
        evidence_found: found,
        evidence_kept: kept,
        findings: Vec::new(),
        unused_summary_note: None,
        pages: Vec::new(),
    }
}

/// Counts the facts in the removed turns, and how many of them a text contains; returns zeros if nobody will
/// read the counts.
fn count_facts_kept(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>, text: &str) -> (usize, usize) {
    if survey.options.count_facts == CountFacts::No {
        return (0, 0);
    }
    let parts = gone.iter().flat_map(|turn| survey.transcript.blocks_of_turn(*turn));
    parts.filter(|part| part.block.text.is_some()).fold((0, 0), |(found, kept), part| {
        let words = part.block.text();
        let facts = Facts::scan(&words);
        (found + facts.all.len(), kept + facts.count_kept_in(text))
    })
}

/// A summary that the caller supplied: what the audit left of it, with the turns that it is about, or the reason why
/// it is not used.
struct SuppliedSummary {
    author: Redacted,
    audited: Option<(AuditedSummary, BTreeSet<usize>)>,
    note: Option<String>,
}

fn audit_supplied_summary(work: &mut Workspace<'_, '_, '_>, gone: &BTreeSet<usize>) -> SuppliedSummary {
    let survey = work.survey;
    let Some(answer) = &survey.options.summary else {
        return SuppliedSummary { author: Redacted::literal(""), audited: None, note: None };
    };
    let author =
        work.redactor.redact(&answer.author, RedactionMode::Text).text.one_line(80).replace_with_literal("]", ")");
    let audited = match answer.scope.find_turns(survey.transcript, gone) {
        None => Err("what it was asked about has changed since".to_owned()),
        Some(covers) => match &*work.audited(answer) {
            Ok(audited) => Ok((audited.clone(), covers)),
            Err(why) => Err(why.to_string()),
        },
    };
    let refused =
        |why| format!("the summary of {} is not used, and the checkpoint is made by code: {why}", answer.author);
    let note = audited.as_ref().err().map(refused);
    SuppliedSummary { author, audited: audited.ok(), note }
}

/// Returns whether the caller supplied a summary of these turns that passes the audit.
pub(super) fn has_usable_summary(work: &mut Workspace<'_, '_, '_>, gone: &BTreeSet<usize>) -> bool {
    work.survey.options.summary.is_some() && audit_supplied_summary(work, gone).audited.is_some()
}

/// Quotes the text that the host wants to keep.
fn quote_host_note(text: &Redacted) -> Option<QuotedLines> {
    QuotedLines::new(Redacted::literal("kept by the host"), text.without_blank_lines().lines().collect())
}

fn with_restored_statements(mut findings: Vec<AuditFinding>, put_back: &[(Section, Redacted)]) -> Vec<AuditFinding> {
    findings.extend(put_back.iter().map(|(section, text)| AuditFinding {
        action: AuditAction::Restored,
        section: section.title().to_owned(),
        text: text.as_str().to_owned(),
        why: "the summary does not say it".to_owned(),
    }));
    findings
}

/// Returns the turn before which the checkpoint is inserted: after everything that it replaces, or at the
/// very front if the request would begin with a reply otherwise, because a request begins with a user
/// message.
fn checkpoint_position(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>) -> usize {
    let transcript = survey.transcript;
    let behind = gone.last().map_or(0, |last| last + 1);
    let first = (0..behind).find(|turn| !gone.contains(turn)).filter(|first| *first > 0);
    let is_reply = |turn: &usize| {
        let message = transcript.turns[*turn].owned_elements.first().and_then(|id| transcript.message_of(*id));
        let role = message.and_then(|message| transcript.role(message));
        // Instructions in the middle of the conversation must not become part of the system prompt.
        matches!(role, Some(Role::Assistant | Role::Tool | Role::System))
    };
    first.filter(is_reply).unwrap_or(behind)
}

/// Returns where the newest request is, seen from a checkpoint before this turn.
fn request_position(survey: &Survey<'_, '_>, before: usize) -> RequestPosition {
    match survey.newest_prompt() {
        Some(newest) if newest < before => RequestPosition::Above,
        Some(_) => RequestPosition::Below,
        None => RequestPosition::Unknown,
    }
}

/// Returns the checkpoint that the new one replaces.
fn previous_checkpoint(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>) -> Option<Checkpoint> {
    let at = survey.newest_checkpoint.filter(|at| gone.contains(at))?;
    let TurnKind::Checkpoint(block) = &survey.transcript.turns[at].kind else { return None };
    let previous = Checkpoint::parse(&block.text())?;
    Some(match survey.checkpoint_trust {
        CheckpointTrust::Verified => previous,
        CheckpointTrust::Unverified => previous.with_unverified_rules(),
    })
}

/// Returns the largest checkpoint in place of `replaced` tokens. A larger one would not be worth the loss.
pub(super) fn max_checkpoint_tokens(replaced: Tokens) -> Tokens {
    replaced / MAX_SIZE_DIVISOR
}

/// Returns the tokens that a checkpoint needs for a supplied summary, and for what code adds behind it.
pub(super) fn supplied_summary_tokens(survey: &Survey<'_, '_>) -> Tokens {
    let tokens = |answer: &ModelSummary| {
        survey.meter.counter.count(first_bytes(&answer.text, LONGEST_SUMMARY)).share(BEHIND_SUMMARY_FACTOR)
    };
    survey.options.summary.as_ref().map_or(Tokens::ZERO, tokens)
}

/// Returns the tokens that a checkpoint of these turns needs for the user's rules and for the entries of
/// earlier work. Merged entries are never separated again, so they need room now.
pub(super) fn required_tokens(work: &mut Workspace<'_, '_, '_>, gone: &BTreeSet<usize>) -> Tokens {
    let nodes =
        previous_checkpoint(work.survey, gone).map_or(0, |before| before.earlier_work().len().min(MAX_COUNTED_NODES));
    tokens_for_rules(work, gone) + Tokens(TOKENS_PER_NODE * nodes as u64)
}

/// Returns the tokens for the user's rules in these turns and in the checkpoint that is replaced.
fn tokens_for_rules(work: &mut Workspace<'_, '_, '_>, gone: &BTreeSet<usize>) -> Tokens {
    let counter = work.survey.meter.counter;
    let cost = |rule: &str| counter.count(rule) + RULE_FRAMING_TOKENS;
    let evidence = work.evidence();
    let rules = evidence.rules().filter(|(turn, _)| gone.contains(turn));
    let previous = previous_checkpoint(work.survey, gone).unwrap_or_default();
    let previous_rules = [Section::Constraints, Section::ActiveTask, Section::NotInSummary]
        .map(|section| previous.list(section).iter().map(|rule| cost(rule.as_str())).sum::<Tokens>());
    RULES_RESERVE_TOKENS + rules.map(|(_, rule)| cost(&rule)).chain(previous_rules).sum::<Tokens>()
}

/// Quotes the lines of the removed turns that are about a topic, grouped by block, newest last. Each block is
/// redacted as a whole, because a single line out of a key could not be recognized as a secret.
fn quote_focus_lines(work: &mut Workspace<'_, '_, '_>, gone: &BTreeSet<usize>, topic: &Topic) -> Vec<QuotedLines> {
    /// The length in bytes from which on a line is data, not text. Chosen by hand.
    const MAX_LINE_BYTES: usize = 400;
    let transcript = work.survey.transcript;
    let mut quotes = Vec::new();
    for turn in gone {
        let kind = &transcript.turns[*turn].kind;
        if matches!(kind, TurnKind::Checkpoint(_)) {
            continue;
        }
        for part in transcript.blocks_of_turn(*turn) {
            let block = part.block;
            let Some(text) = block.text.filter(|text| text.encoding != TextEncoding::Damaged) else {
                continue;
            };
            let raw = &block.body[text.at.range()];
            let name = block_label(kind, part);
            if !topic.matches(raw) && !topic.matches(&name) {
                continue;
            }
            let all = topic.matches(&name) && text.encoding == TextEncoding::String;
            let words = work.redactor.redact(&block.text(), RedactionMode::Text).text;
            let is_wanted = |line: &Redacted| {
                let text = line.as_str();
                text.len() <= MAX_LINE_BYTES && text.chars().any(char::is_alphanumeric) && (all || topic.matches(text))
            };
            let lines: Vec<Redacted> = words.lines().filter(is_wanted).collect();
            let source = work.redactor.redact(&name, RedactionMode::Text).text.one_line(120);
            quotes.extend(QuotedLines::new(source, lines));
        }
    }
    quotes
}
