//! The checkpoint that takes the place of folded units: what goes in, how large it may be, where it stands.

use std::collections::BTreeSet;

use super::draft::Folding;
use super::leaf::{leaf, source};
use super::ours::Vouched;
use super::report::{CheckpointReport, WrittenBy};
use super::survey::Survey;
use super::work::{Past, Work};
use super::{CountFacts, Keep};
use crate::Tokens;
use crate::checkpoint::{self, Brief, Checkpoint, Earlier, Page, Quoted, Section, Told, Topic};
use crate::clip::start_within;
use crate::facts::Facts;
use crate::ledger::Placed;
use crate::redact::{Content, Redacted};
use crate::summary::{Answer, Audited, Finding, LONGEST as LONGEST_SUMMARY, Mended};
use crate::texts::{Closing, Marker, Node, signed};
use crate::transcript::{BlockAt, Form, UnitKind};
use crate::wire::Role;

/// The checkpoint of what goes within a budget, but never less than its marker.
pub(super) fn within(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>, budget: Tokens) -> Folding {
    let survey = work.survey;
    let before = place(survey, gone);
    let evidence = work.evidence();
    let marker = Marker { closing: closing(survey, before), memory: evidence.memory.clone() };
    let before_it = previous(survey, gone);
    let focus = survey.focus();
    let quotes =
        focus.as_deref().and_then(Topic::on).map_or_else(Vec::new, |topic| quotes(work, gone, &topic));
    let keep = &survey.wish.keep;
    let handle = |at: BlockAt| match keep {
        Keep::Originals(handles) => survey.transcript.block(at).map(|block| handles.of_block(block)),
        Keep::Nothing => None,
    };
    let told = told(work, gone);
    let kept = survey.wish.kept.as_ref().and_then(kept_by_host);
    let key = survey.wish.key.as_ref();
    let mark = key.map_or(Tokens::ZERO, |_| MARK);
    let brief = Brief {
        evidence: &evidence,
        folded: &|unit| gone.contains(&unit),
        previous: before_it.as_ref(),
        earlier: &[],
        before: before_it.as_ref().map_or(0, Checkpoint::last_action),
        told: told.audited.as_ref().map(|(audited, covers)| Told {
            statements: &audited.statements,
            covers,
            wrong: &audited.wrong,
        }),
        quotes: &quotes,
        kept: kept.as_ref(),
        handle: &handle,
        budget: (budget - mark).max(survey.meter.counter.count(&Checkpoint::least(&marker))),
        counter: survey.meter.counter,
        answer: survey.answer(),
        focus: focus.as_deref(),
        marker: &marker,
    };
    let (earlier, pages) = earlier(work, gone, &brief);
    let standing = match work.past {
        Past::Carried => before_it.clone(),
        Past::Paged => before_it.as_ref().map(Checkpoint::standing),
    };
    let brief = Brief { earlier: &earlier, previous: standing.as_ref(), ..brief };
    let written = checkpoint::write(&brief, work.redactor);
    let sections = written.checkpoint.sections();
    let tokens = written.tokens + mark;
    let (by, findings) = match told.audited {
        None => (WrittenBy::Code, Vec::new()),
        Some((audited, _)) => (WrittenBy::Model, with_put_back(audited.findings, &written.put_back)),
    };
    let report = CheckpointReport { by, tokens, sections };
    let text = key.map_or_else(|| written.text.clone(), |key| signed(&written.text, key));
    let placed = Placed { before, text, takes: survey.takes() };
    Folding { placed, report, found: written.found, kept: written.kept, findings, note: told.note, pages }
}

/// What stands in a checkpoint for the work before, with the pages that were written for it.
fn earlier(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>, brief: &Brief<'_>) -> (Vec<Node>, Vec<Page>) {
    let keep = &work.survey.wish.keep;
    let handle = |text: &str| keep.handle(text);
    let mut earlier = Earlier::of(brief.previous, &handle);
    if work.past == Past::Paged {
        if let Some(before) = brief.previous {
            let own = work.survey.checkpoint().and_then(|unit| (brief.handle)(BlockAt { unit, block: 0 }));
            earlier.take_over(before, own);
        }
        let leaf = leaf(work, gone, brief);
        earlier.add(brief.before + 1..=leaf.last, leaf.page, &leaf.titles);
    }
    // The rules of the user come before all that was done.
    let room = brief.budget - for_rules(work, gone);
    earlier.within(brief.budget.share(EARLIER).min(room), brief.counter)
}

/// The checkpoint that quotes a summary which somebody else wrote, word for word. The rules of people are not left to it.
pub(super) fn quoting(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>, summary: &str) -> Folding {
    let survey = work.survey;
    let before = place(survey, gone);
    let evidence = work.evidence();
    let marker = Marker { closing: closing(survey, before), memory: evidence.memory.clone() };
    let held = previous(survey, gone).unwrap_or_default();
    let rules = evidence.rules().filter(|(unit, _)| gone.contains(unit));
    let rules: Vec<Redacted> =
        rules.map(|(_, rule)| work.redactor.redact(&rule, Content::Text).text).collect();
    let by = work.redactor.redact(work.occasion.engine.name(), Content::Text).text.on_one_line(80);
    let words = work.redactor.redact(summary, Content::Text).text.without_blank_runs();
    let kept = survey.wish.kept.as_ref().and_then(kept_by_host);
    let summary = Quoted::summary(&by, words.lines().collect());
    let checkpoint = Checkpoint::quoting(&held, &rules, summary.into_iter().chain(kept));
    let text = checkpoint.render(&marker);
    let text = survey.wish.key.as_ref().map_or_else(|| text.clone(), |key| signed(&text, key));
    let tokens = survey.meter.counter.count(&text);
    let report = CheckpointReport { by: WrittenBy::Plugin, tokens, sections: checkpoint.sections() };
    let (found, kept) = facts_in(survey, gone, &text);
    let placed = Placed { before, text, takes: survey.takes() };
    Folding { placed, report, found, kept, findings: Vec::new(), note: None, pages: Vec::new() }
}

/// How many facts stand in what goes, and how many of them in a text; neither where nobody will look.
fn facts_in(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>, text: &str) -> (usize, usize) {
    if survey.wish.facts == CountFacts::No {
        return (0, 0);
    }
    let parts = gone.iter().flat_map(|unit| survey.transcript.parts_of(*unit));
    parts.filter(|part| part.block.text.is_some()).fold((0, 0), |(found, kept), part| {
        let words = part.block.text();
        let facts = Facts::of(&words);
        (found + facts.found.len(), kept + facts.kept_in(text))
    })
}

/// What of a model's summary is borne out, and about which units; or why it is not taken.
#[derive(Default)]
struct Taken {
    audited: Option<(Audited, BTreeSet<usize>)>,
    note: Option<String>,
}

fn told(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>) -> Taken {
    let survey = work.survey;
    let Some(answer) = &survey.wish.summary else { return Taken::default() };
    let refused = |why: String| {
        let note =
            format!("the summary of {} is not used, and the checkpoint is made by code: {why}", answer.by);
        Taken { note: Some(note), ..Taken::default() }
    };
    let Some(covers) = answer.covers.find(survey.transcript, gone) else {
        return refused("what it was asked about has changed since".to_owned());
    };
    match &*work.audited(answer) {
        Ok(audited) => Taken { audited: Some((audited.clone(), covers)), note: None },
        Err(why) => refused(why.to_string()),
    }
}

/// What the host wants kept of what goes.
fn kept_by_host(text: &Redacted) -> Option<Quoted> {
    Quoted::of(Redacted::own("kept by the host"), text.without_blank_lines().lines().collect())
}

fn with_put_back(mut findings: Vec<Finding>, put_back: &[(Section, Redacted)]) -> Vec<Finding> {
    findings.extend(put_back.iter().map(|(section, text)| Finding {
        action: Mended::PutBack,
        section: section.title(),
        text: text.as_str().to_owned(),
        why: "the summary does not say it".to_owned(),
    }));
    findings
}

/// Before which unit the checkpoint stands: behind all that it replaces; but first of all where a reply would be, for a request
/// begins with the user's words.
fn place(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>) -> usize {
    let transcript = survey.transcript;
    let behind = gone.last().map_or(0, |last| last + 1);
    let first = (0..behind).find(|unit| !gone.contains(unit)).filter(|first| *first > 0);
    let is_reply = |unit: &usize| {
        let message = transcript.units[*unit].owns.first().and_then(|id| transcript.message_of(*id));
        let role = message.and_then(|message| transcript.role(message));
        // Instructions that stood in the conversation do not become the system prompt.
        matches!(role, Some(Role::Assistant | Role::Tool | Role::System))
    };
    first.filter(is_reply).unwrap_or(behind)
}

/// Where the request is, seen from a checkpoint before this unit.
fn closing(survey: &Survey<'_, '_>, before: usize) -> Closing {
    match survey.newest_prompt() {
        Some(newest) if newest < before => Closing::RequestAbove,
        Some(_) => Closing::RequestFollows,
        None => Closing::None,
    }
}

/// The checkpoint that this one replaces.
fn previous(survey: &Survey<'_, '_>, gone: &BTreeSet<usize>) -> Option<Checkpoint> {
    let at = survey.checkpoint().filter(|at| gone.contains(at))?;
    let UnitKind::Checkpoint(block) = &survey.transcript.units[at].kind else { return None };
    let previous = Checkpoint::parse(&block.text())?;
    Some(match survey.vouched {
        Vouched::BySession => previous,
        Vouched::ByNobody => previous.unvouched(),
    })
}

/// What of a checkpoint is for the work before, at most.
const EARLIER: f64 = 0.35;

/// What the mark of a session costs at most.
const MARK: Tokens = Tokens(11);

/// A handover of fewer tokens says nothing that anybody could go on from.
pub(super) const SMALLEST: Tokens = Tokens(400);

/// The most that a handover in place of so many tokens may cost: nobody reads a longer one. With pages, it is also an overview of
/// all that came before.
pub(super) fn largest(past: Past, replaced: Tokens) -> Tokens {
    let most = Tokens(1_500 + replaced.number() / 33);
    match past {
        Past::Carried => most,
        Past::Paged => most + most / 2,
    }
}

/// What a checkpoint needs that says a summary which was handed in, and what it lost.
pub(super) fn summary(survey: &Survey<'_, '_>) -> Tokens {
    const LOST: f64 = 1.4;
    let tokens =
        |answer: &Answer| survey.meter.counter.count(start_within(&answer.text, LONGEST_SUMMARY)).share(LOST);
    survey.wish.summary.as_ref().map_or(Tokens::ZERO, tokens)
}

/// What a person's words add to themselves in a checkpoint: a mark, and their part of the heading.
const FRAMING: Tokens = Tokens(10);

/// What a checkpoint of these units needs: for rules, and for what leads to the work before. What is squeezed into one node is never
/// told apart again.
pub(super) fn needed(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>) -> Tokens {
    const NODE: u64 = 20;
    const NODES: usize = 10;
    let nodes = previous(work.survey, gone).map_or(0, |before| before.earlier().len().min(NODES));
    for_rules(work, gone) + Tokens(NODE * nodes as u64)
}

/// What a checkpoint of these units needs to hold the rules of their people, and of the checkpoint that it replaces.
fn for_rules(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>) -> Tokens {
    let counter = work.survey.meter.counter;
    let cost = |rule: &str| counter.count(rule) + FRAMING;
    let evidence = work.evidence();
    let rules = evidence.rules().filter(|(unit, _)| gone.contains(unit));
    let held = previous(work.survey, gone).unwrap_or_default();
    let held = [Section::Constraints, Section::ActiveTask]
        .map(|section| held.list(section).iter().map(|rule| cost(rule.as_str())).sum::<Tokens>());
    Tokens(100) + rules.map(|(_, rule)| cost(&rule)).chain(held).sum::<Tokens>()
}

/// The lines of what goes that are on a topic, by the block that they stand in, newest last. A block is redacted as a whole: a
/// line out of the middle of a key shows nothing by which it could be told.
fn quotes(work: &mut Work<'_, '_, '_>, gone: &BTreeSet<usize>, topic: &Topic) -> Vec<Quoted> {
    /// A line longer than this is data.
    const LONGEST: usize = 400;
    let transcript = work.survey.transcript;
    let mut quotes = Vec::new();
    for unit in gone {
        let kind = &transcript.units[*unit].kind;
        if matches!(kind, UnitKind::Checkpoint(_)) {
            continue;
        }
        for part in transcript.parts_of(*unit) {
            let block = part.block;
            let Some(text) = block.text.filter(|text| text.form != Form::Damaged) else { continue };
            let raw = &block.body[text.at.range()];
            let name = source(kind, part);
            if !topic.is_in(raw) && !topic.is_in(&name) {
                continue;
            }
            let all = topic.is_in(&name) && text.form == Form::String;
            let words = work.redactor.redact(&block.text(), Content::Text).text;
            let is_wanted = |line: &Redacted| {
                let text = line.as_str();
                text.len() <= LONGEST && text.chars().any(char::is_alphanumeric) && (all || topic.is_in(text))
            };
            let lines: Vec<Redacted> = words.lines().filter(is_wanted).collect();
            let source = work.redactor.redact(&name, Content::Text).text.on_one_line(120);
            quotes.extend(Quoted::of(source, lines));
        }
    }
    quotes
}
