//! Writes a checkpoint from evidence within a budget.

use std::collections::HashSet;

use super::candidates::{Candidates, DraftCandidate, collect_candidates};
use super::forms::{CandidateText, FormWriter, WordedCandidate};
use super::input::{CheckpointInput, SummaryNotes, WrittenCheckpoint};
use super::notes_index::{NotesIndex, NotesPlace};
use super::rarity::KeptWords;
use super::render::heading;
use super::weights::{
    BEHIND_SUMMARY_SHARE, EARLIER_SUMMARY_SHARE, LACKING_SHARE, MAX_STATE_LINES, MIN_CANDIDATES, MIN_PEOPLE_SHARE,
    MIN_TOKENS_PER_CANDIDATE, RULES_SHARE, TOPIC_SHARE,
};
use super::{Checkpoint, CompletedAction, Notes, QuotedLines, QuotedSummary, Section, Topic};
use crate::redact::{Redacted, Redactor};
use crate::texts::EntryKind;
use crate::tokens::budget::{BudgetItem, Selection, fill_budget};
use crate::tokens::{Tokens, estimate};

/// Writes the checkpoint of the summarized turns. It never exceeds the budget, unless the two marker lines
/// alone already do.
pub(crate) fn write(input: &CheckpointInput<'_>, redactor: &mut Redactor) -> WrittenCheckpoint {
    let Candidates { mut drafts, rarity } = collect_candidates(input);
    let found = drafts.len();
    drafts.sort_by_key(|draft| draft.position);
    let last_action = number_actions(input, &mut drafts);
    // Put only as many candidates into words as the budget could pay for.
    let max_candidates = MIN_CANDIDATES + (input.budget.number() / MIN_TOKENS_PER_CANDIDATE) as usize;
    if input.focus.is_none() && input.notes.is_none() && drafts.len() > max_candidates {
        drafts.sort_by(|a, b| b.value_per_token.total_cmp(&a.value_per_token));
        drafts.truncate(max_candidates);
    }
    drafts.sort_by_key(|draft| draft.position);
    let mut writer = FormWriter::new(input, redactor, &rarity, &drafts);
    let notes = input.notes.map(NotesIndex::new);
    let mut places: Vec<NotesPlace> = Vec::new();
    let mut candidates: Vec<WordedCandidate> = Vec::with_capacity(drafts.len());
    for draft in &drafts {
        let Some(candidate) = writer.word_candidate(draft) else { continue };
        let Some(notes) = &notes else {
            candidates.push(candidate);
            continue;
        };
        let Some(place) = notes.place(draft, &candidate) else { continue };
        places.push(place);
        candidates.push(match place {
            // What the summary told wrongly is no news.
            NotesPlace::Correction => candidate.into_item_of(Section::NotInSummary),
            NotesPlace::SinceThen | NotesPlace::Lacking => candidate,
        });
    }
    if input.notes.is_none() {
        drop_repeated_entries(&mut candidates);
        limit_state(&mut candidates);
    }
    let items: Vec<BudgetItem> = candidates.iter().map(WordedCandidate::to_budget_item).collect();
    let frame = frame_of(input);
    let left = (input.budget - frame.tokens(input.counter, input.marker)).number();
    let mut selection = match input.notes {
        Some(summary) => select_beside_summary(input, summary, (&candidates, &items), &places, left),
        None => select_candidates(input, &candidates, &items, left),
    };
    loop {
        let forms = selection.chosen_forms(items.len());
        let mut checkpoint = Checkpoint { earlier_work: frame.earlier_work.clone(), ..assemble(&candidates, &forms) };
        checkpoint.summary.clone_from(&frame.summary);
        let tells_news = !checkpoint.completed.is_empty();
        if let Some(summary) = input.notes {
            let leaves_gap = !tells_news && has_newer_turns(input, summary);
            let text = Redacted::literal("");
            checkpoint.summary = Some(QuotedSummary { author: summary.author.clone(), text, leaves_gap });
        }
        if let Some(earlier) = checkpoint.summary.as_mut().filter(|_| input.notes.is_none()) {
            earlier.leaves_gap |= !tells_news;
        }
        if checkpoint.summary.is_some() {
            checkpoint.move_behind_summary(input.notes.map_or(&[], |summary| summary.moved));
        }
        // The summary gets the room that the rest leaves.
        let rest = checkpoint.tokens(input.counter, input.marker);
        if let (Some(summary), Some(notes)) = (&mut checkpoint.summary, input.notes) {
            summary.text = fit_notes(input, notes.notes, input.budget - rest);
        }
        let text = checkpoint.render(input.marker);
        let tokens = input.counter.count(&text);
        let over = tokens.number().saturating_sub(input.budget.number());
        if over == 0 || !selection.release(&items, over) {
            let kept = forms.iter().flatten().count();
            let restored =
                candidates.iter().zip(&forms).zip(&places).filter(|(_, place)| **place != NotesPlace::SinceThen);
            let restored = restored.filter_map(|((candidate, form), _)| {
                let (piece, _) = &candidate.forms[(*form)?];
                Some((candidate.section, piece.one_line()))
            });
            let restored = restored.collect();
            return WrittenCheckpoint {
                checkpoint,
                text,
                tokens,
                candidates_found: found,
                candidates_kept: kept,
                last_action,
                restored,
            };
        }
    }
}

/// Drops each entry that a later one repeats word for word: an earlier checkpoint told the same.
fn drop_repeated_entries(candidates: &mut Vec<WordedCandidate>) {
    let mut later = HashSet::new();
    let mut stays: Vec<bool> = candidates.iter().rev().map(|candidate| candidate.is_new_beside(&mut later)).collect();
    candidates.retain(|_| stays.pop().unwrap_or(true));
}

/// Leaves at most [`MAX_STATE_LINES`] lines of state, the most valuable ones.
fn limit_state(candidates: &mut Vec<WordedCandidate>) {
    let value = |candidate: &WordedCandidate| candidate.forms.first().map_or(0.0, |(_, form)| form.value_per_token);
    let is_state = |candidate: &&WordedCandidate| candidate.section == Section::State;
    let mut values: Vec<f64> = candidates.iter().filter(is_state).map(value).collect();
    values.sort_by(|one, other| other.total_cmp(one));
    let Some(least) = values.get(MAX_STATE_LINES).copied() else { return };
    let mut left = MAX_STATE_LINES;
    candidates.retain(|candidate| {
        let stays = !is_state(&candidate) || left > 0 && value(candidate) > least;
        left -= usize::from(stays && is_state(&candidate));
        stays
    });
}

/// Returns what the checkpoint has in any case: the nodes of earlier work, and an earlier summary by a model unless a
/// newer one replaces it.
fn frame_of(input: &CheckpointInput<'_>) -> Checkpoint {
    let summary = input.previous.and_then(Checkpoint::summary).filter(|_| input.notes.is_none());
    let summary = summary.map(|summary| {
        let room = input.budget.share(EARLIER_SUMMARY_SHARE);
        QuotedSummary { text: fit_notes(input, &Notes::parse(&summary.text), room), ..summary.clone() }
    });
    Checkpoint { earlier_work: input.earlier_work.to_vec(), summary, ..Checkpoint::default() }
}

/// Returns whether the checkpoint replaces turns that are newer than the summary.
fn has_newer_turns(input: &CheckpointInput<'_>, summary: SummaryNotes<'_>) -> bool {
    let evidence = input.evidence;
    let items = evidence.user_messages.iter().chain(&evidence.assistant_texts).chain(&evidence.tool_uses);
    let is_newer = |turn: usize| summary.turns.last().is_some_and(|last| turn > *last);
    items.map(|item| item.at.unit).any(|turn| is_newer(turn) && (input.is_summarized)(turn))
}

/// Returns a summary in the room that there is for it.
fn fit_notes(input: &CheckpointInput<'_>, notes: &Notes, room: Tokens) -> Redacted {
    notes.fit(room, input.counter, input.weights, || KeptWords::collect(input)).text().clone()
}

/// Selects the rules of people, before anything else: at most [`RULES_SHARE`] of the budget. Returns them with the room
/// that is left.
fn select_rules(
    budget: Tokens,
    candidates: &[WordedCandidate],
    items: &[BudgetItem],
    openings: &mut [u64],
    room: u64,
) -> (Selection, u64) {
    let share = budget.share(RULES_SHARE).number().min(room);
    let mut left = share;
    let is_rule = |index: usize| candidates[index].section == Section::Constraints;
    let rules = fill_budget(items, openings, &mut left, is_rule);
    (rules, room - (share - left))
}

/// Selects what stands behind a model's summary: the rules that it lacks, how things ended that it reported wrongly, what
/// happened since, then other facts that it lacks. This gets the room that the summary leaves, but at least [`BEHIND_SUMMARY_SHARE`] of all.
fn select_beside_summary(
    input: &CheckpointInput<'_>,
    summary: SummaryNotes<'_>,
    (candidates, items): (&[WordedCandidate], &[BudgetItem]),
    places: &[NotesPlace],
    room: u64,
) -> Selection {
    let mut openings = heading_tokens(input);
    let (rules, left) = select_rules(input.budget, candidates, items, &mut openings, room);
    let own = input.counter.count(summary.notes.text().as_str()).number();
    let mut since_then = left.saturating_sub(own).max((left as f64 * BEHIND_SUMMARY_SHARE) as u64);
    let is_rule = |index: usize| candidates[index].section == Section::Constraints;
    let is_at = |index: usize, place: NotesPlace| places[index] == place && !is_rule(index);
    let corrections = fill_budget(items, &mut openings, &mut since_then, |index| is_at(index, NotesPlace::Correction));
    let newer = fill_budget(items, &mut openings, &mut since_then, |index| is_at(index, NotesPlace::SinceThen));
    let mut lacking = since_then.min((own as f64 * LACKING_SHARE) as u64);
    let lacking = fill_budget(items, &mut openings, &mut lacking, |index| is_at(index, NotesPlace::Lacking));
    rules.append(corrections).append(newer).append(lacking)
}

/// Numbers the actions in order, whether they will be listed or not: a gap in the numbers shows that
/// something was left out. The numbers go on from those of the checkpoint before.
fn number_actions(input: &CheckpointInput<'_>, drafts: &mut [DraftCandidate<'_>]) -> u32 {
    let mut last = input.last_action_before;
    for draft in drafts.iter_mut().filter(|draft| draft.source.is_action()) {
        last = last.saturating_add(1);
        draft.action_number = last;
    }
    last
}

/// Returns the price of each section's heading.
fn heading_tokens(input: &CheckpointInput<'_>) -> Vec<u64> {
    let estimated = |text: &str| input.counter.factor.apply(estimate(text)).number();
    Section::ALL.iter().map(|section| estimated(&heading(*section)) + 1).collect()
}

/// Selects the forms that the budget can pay for. The rules of people come first. With a topic, their messages are next,
/// then candidates on the topic, then the rest.
fn select_candidates(
    input: &CheckpointInput<'_>,
    candidates: &[WordedCandidate],
    items: &[BudgetItem],
    budget: u64,
) -> Selection {
    let mut heading_tokens = heading_tokens(input);
    let (rules, mut budget) = select_rules(input.budget, candidates, items, &mut heading_tokens, budget);
    let is_rule = |index: usize| candidates[index].section == Section::Constraints;
    let Some(topic) = input.focus.and_then(Topic::parse) else {
        return rules.append(fill_budget(items, &mut heading_tokens, &mut budget, |index| !is_rule(index)));
    };
    let on_topic: Vec<bool> = candidates.iter().map(|candidate| candidate.is_on_topic(&topic)).collect();
    let of_all = |share: f64| (input.budget.number() as f64 * share) as u64;
    // A topic must not displace what people said.
    let is_from_people = |index: usize| candidates[index].is_from_people();
    let mut people = (budget - of_all(TOPIC_SHARE).min(budget)).max(of_all(MIN_PEOPLE_SHARE)).min(budget);
    budget -= people;
    let said = fill_budget(items, &mut heading_tokens, &mut people, |index| is_from_people(index) && !is_rule(index));
    budget += people;
    let mut share = of_all(TOPIC_SHARE).min(budget);
    budget -= share;
    let first = fill_budget(items, &mut heading_tokens, &mut share, |index| on_topic[index] && !is_from_people(index));
    budget += share;
    let others =
        fill_budget(items, &mut heading_tokens, &mut budget, |index| !on_topic[index] && !is_from_people(index));
    rules.append(said).append(first).append(others)
}

/// Puts the selected forms into their sections, in order of time.
fn assemble(candidates: &[WordedCandidate], forms: &[Option<usize>]) -> Checkpoint {
    let mut checkpoint = Checkpoint::default();
    let kept = candidates.iter().zip(forms).filter(|(_, form)| form.is_some());
    let listed: HashSet<String> = kept.filter_map(|(candidate, _)| candidate.listed_path()).collect();
    for (candidate, form) in candidates.iter().zip(forms) {
        let Some(form) = form else { continue };
        let text = &candidate.forms[*form].0;
        if let Some((number, mut entry)) = text.to_entry() {
            if let Some(path) = candidate.full_path.as_ref().filter(|path| !listed.contains(path.as_str())) {
                entry = entry.with_target(path);
            }
            let number = number.unwrap_or(candidate.action_number);
            checkpoint.completed.push(CompletedAction { number, entry });
        }
        match text {
            CandidateText::Item(text) => checkpoint.push(candidate.section, text.clone()),
            CandidateText::QuotedLine(source, line) => match checkpoint.quoted.last_mut() {
                Some(last) if last.source == *source => last.lines.push(line.clone()),
                _ => checkpoint.quoted.push(QuotedLines { source: source.clone(), lines: vec![line.clone()] }),
            },
            CandidateText::Exchange(..) | CandidateText::Action(..) => {}
        }
    }
    // Omit a rule that a quoted message already contains.
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    let requests = checkpoint.completed.iter().filter(|action| action.entry.kind() == EntryKind::UserRequest);
    let state = checkpoint.list(Section::State).iter().map(|line| bare(line.as_str()));
    let said: Vec<String> = requests.map(|request| bare(&request.entry.to_string())).chain(state).collect();
    let mut seen = HashSet::new();
    let mut is_new = |rule: &Redacted| {
        let rule = bare(rule.as_str());
        !said.iter().any(|said| said.contains(&rule)) && seen.insert(rule)
    };
    checkpoint.lists[Section::Constraints as usize].retain(&mut is_new);
    checkpoint
}
