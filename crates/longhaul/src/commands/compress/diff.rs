//! The changes of a compaction, turn by turn, and the important facts that the new request no longer
//! contains.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_engine::action::Actions;
use longhaul_engine::facts::{Fact, FactKind, Facts};
use longhaul_engine::plan::{BlockReport, CompactionReport, ContentKind, Fate, SUMMARIZED_REASON};
use longhaul_engine::transcript::{Turn, TurnKind};
use longhaul_engine::truncate;
use longhaul_engine::wire::{self, Role};
use longhaul_engine::{Tokens, Transcript};

use super::text_page;
use crate::output::{
    self, EMPHASIS_STYLE, ERROR_STYLE, Page, RECALLABLE_STYLE, SECONDARY_STYLE, SUCCESS_STYLE, StyledLine,
    WARNING_STYLE,
};

/// The changes of a compaction, in the order of the session.
pub(super) struct CompactionDiff {
    turns: Vec<ChangedTurn>,
    /// The facts in changed tool outputs that the new request does not contain, each with the name of its
    /// turn.
    missing_facts: Vec<(String, String)>,
}

/// A turn that was changed at least in part.
struct ChangedTurn {
    name: String,
    /// The subject of the turn: a command, a file, or the first words of a message.
    target: String,
    fates: BTreeSet<TurnFate>,
    tokens: [Tokens; 2],
    reasons: BTreeSet<&'static str>,
    recall_ids: Vec<String>,
}

/// The kind of change to a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TurnFate {
    Summarized,
    Shortened,
    Removed,
}

impl CompactionDiff {
    /// Compares a transcript with the request body that its compaction made.
    pub(super) fn new(before: &Transcript<'_>, after: &str, report: &CompactionReport) -> Self {
        let turns = turns_by_message(before);
        let actions = Actions::from_transcript(before);
        let mut changed_turns: BTreeMap<usize, ChangedTurn> = BTreeMap::new();
        for block in &report.blocks {
            let Some(turn) = turn_of_block(before, &turns, block) else { continue };
            let changed_turn = changed_turns.entry(turn).or_insert_with(|| ChangedTurn::new(before, &actions, turn));
            changed_turn.fates.insert(block_fate(report, block));
            changed_turn.tokens[0] += block.tokens[0];
            changed_turn.tokens[1] += block.tokens[1];
            changed_turn.reasons.insert(block.why);
            changed_turn.recall_ids.extend(block.handle.clone());
        }
        let missing_facts = find_missing_facts(before, &changed_turns, after);
        Self { turns: changed_turns.into_values().collect(), missing_facts }
    }
}

impl ChangedTurn {
    fn new(transcript: &Transcript<'_>, actions: &Actions, turn: usize) -> Self {
        let is_step = |turn: &&Turn<'_>| matches!(turn.kind, TurnKind::Assistant { .. });
        let number = transcript.turns[..=turn].iter().filter(is_step).count();
        let first_text = |turn: &Turn<'_>| turn.blocks().next().map(|block| block.text().into_owned());
        let this = &transcript.turns[turn];
        let (name, target) = match &this.kind {
            TurnKind::Assistant { .. } => {
                let named = actions.in_turn(turn).iter().map(|action| {
                    [action.tool.as_str(), action.target.as_deref().unwrap_or("")].join(" ").trim().to_owned()
                });
                let named: Vec<String> = named.filter(|name| !name.is_empty()).collect();
                (format!("turn {number}"), if named.is_empty() { first_text(this) } else { Some(named.join(", ")) })
            }
            TurnKind::Checkpoint(_) => ("checkpoint".to_owned(), None),
            TurnKind::Opaque(_) => ("opaque".to_owned(), None),
            TurnKind::Prompt { .. } => {
                let first = this.owned_elements.first().and_then(|id| transcript.message_of(*id));
                let role = first.and_then(|message| transcript.role(message));
                let name = if role == Some(Role::User) { "user" } else { "instructions" };
                (name.to_owned(), first_text(this))
            }
        };
        Self {
            name,
            target: truncate::to_one_line(&target.unwrap_or_default(), MAX_TARGET_CHARS),
            fates: BTreeSet::new(),
            tokens: [Tokens::ZERO; 2],
            reasons: BTreeSet::new(),
            recall_ids: Vec::new(),
        }
    }
}

/// The maximum length of a target in the table, in characters. Chosen by hand for a terminal; the JSON report
/// has it in full.
const MAX_TARGET_CHARS: usize = 60;

/// Maps each message index to the turns that have elements in that message.
fn turns_by_message(transcript: &Transcript<'_>) -> BTreeMap<usize, Vec<usize>> {
    let mut turns: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, turn) in transcript.turns.iter().enumerate() {
        for message in turn.owned_elements.iter().filter_map(|id| transcript.message_of(*id)) {
            turns.entry(message).or_default().push(at);
        }
    }
    turns
}

/// Finds the turn of a changed block. A message can contain the end of one turn and the start of the next;
/// the kind of the block then decides.
fn turn_of_block(
    transcript: &Transcript<'_>,
    turns: &BTreeMap<usize, Vec<usize>>,
    block: &BlockReport,
) -> Option<usize> {
    let candidates = turns.get(&block.at)?;
    let fits = |turn: &&usize| match transcript.turns[**turn].kind {
        TurnKind::Assistant { .. } => {
            matches!(block.what, ContentKind::Reply | ContentKind::Reasoning | ContentKind::Call | ContentKind::Result)
        }
        TurnKind::Prompt { .. } => block.what == ContentKind::Prompt,
        TurnKind::Checkpoint(_) => block.what == ContentKind::Checkpoint,
        TurnKind::Opaque(_) => block.what == ContentKind::Opaque,
    };
    candidates.iter().find(fits).or(candidates.first()).copied()
}

fn block_fate(report: &CompactionReport, block: &BlockReport) -> TurnFate {
    match block.fate {
        Fate::Digested => TurnFate::Shortened,
        // Reasoning that is bound to a changed block is removed and not summarized.
        Fate::Kept | Fate::Recallable | Fate::Lost if block.what == ContentKind::Reasoning => TurnFate::Removed,
        Fate::Kept | Fate::Recallable | Fate::Lost if report.checkpoint.is_some() => TurnFate::Summarized,
        Fate::Kept | Fate::Recallable | Fate::Lost => TurnFate::Removed,
    }
}

/// The kinds of facts that a reader may miss most.
const IMPORTANT_FACT_KINDS: [FactKind; 3] = [FactKind::FailingTest, FactKind::Error, FactKind::Total];

/// Finds the facts in the tool outputs of changed turns that the new request does not contain. Each fact is
/// listed once.
fn find_missing_facts(
    before: &Transcript<'_>,
    changed_turns: &BTreeMap<usize, ChangedTurn>,
    after: &str,
) -> Vec<(String, String)> {
    let Ok((rewritten, _)) = wire::parse(Some(before.api_format), after) else { return Vec::new() };
    let new_text: String = rewritten.blocks().fold(String::new(), |all, block| all + &block.text() + "\n");
    let (mut seen, mut missing_facts) = (BTreeSet::new(), Vec::new());
    for (turn, changed_turn) in changed_turns {
        for result in before.turns[*turn].tool_calls().iter().flat_map(|tool_call| &tool_call.results) {
            let text = result.text();
            let facts = Facts::scan(&text);
            for fact in
                IMPORTANT_FACT_KINDS.iter().flat_map(|kind| facts.of_kind(*kind)).filter(|fact| fact.is_specific())
            {
                let fact_text = fact.text.trim();
                if !new_text.contains(truncate::first_chars(fact_text, Fact::IDENTIFYING_CHARS))
                    && seen.insert(fact_text.to_owned())
                {
                    missing_facts.push((changed_turn.name.clone(), truncate::to_one_line(fact_text, MAX_FACT_CHARS)));
                }
            }
        }
    }
    missing_facts
}

/// The maximum length of a listed fact, in characters. Chosen by hand for a terminal.
const MAX_FACT_CHARS: usize = 100;

/// The maximum number of facts that the page lists. Chosen by hand: all of them would be as long as the
/// session.
const MAX_LISTED_FACTS: usize = 20;

/// Renders the diff for a terminal.
pub(super) fn page(body: &str, report: &CompactionReport, diff: Option<&CompactionDiff>) -> Page {
    let mut page = Page::default();
    page.add_line(
        StyledLine::default().styled(EMPHASIS_STYLE, body).plain(format!(": {}", text_page::size_summary(report))),
    );
    let Some(CompactionDiff { turns: changed_turns, missing_facts }) = diff else { return page };
    page.add_table(changed_turns.iter().map(turn_row));
    if let Some(checkpoint) = &report.checkpoint {
        let line = StyledLine::from("  ").styled(SUCCESS_STYLE, "+ checkpoint").plain(": ");
        page.add_line(text_page::checkpoint_line(line, checkpoint, &report.findings));
    }
    if !missing_facts.is_empty() {
        let is_recallable = report.blocks.iter().any(|block| block.handle.is_some());
        let (style, remedy) = if is_recallable {
            (RECALLABLE_STYLE, "can be recalled by the recall IDs above")
        } else {
            (ERROR_STYLE, "lost; --originals FILE would keep them")
        };
        let count = output::group_digits(missing_facts.len() as u64);
        let what = "errors, failing tests and totals missing from the new request";
        let line = StyledLine::from(format!("  {what} ({count}): "));
        page.add_line(line.styled(style, remedy));
        page.add_table(
            missing_facts.iter().take(MAX_LISTED_FACTS).map(|(turn, fact)| [format!("    {turn}"), fact.clone()]),
        );
        if missing_facts.len() > MAX_LISTED_FACTS {
            page.add_line(
                StyledLine::default()
                    .styled(SECONDARY_STYLE, format!("    … and {} more", missing_facts.len() - MAX_LISTED_FACTS)),
            );
        }
    }
    page
}

fn turn_row(changed_turn: &ChangedTurn) -> [StyledLine; 5] {
    let mut fates = StyledLine::default();
    for (at, fate) in changed_turn.fates.iter().enumerate() {
        let (word, style) = match fate {
            TurnFate::Summarized => ("summarized", WARNING_STYLE),
            TurnFate::Shortened => ("shortened", WARNING_STYLE),
            TurnFate::Removed => ("removed", ERROR_STYLE),
        };
        fates = fates.plain(if at > 0 { ", " } else { "" }).styled(style, word);
    }
    // The column before it already shows that the turn was summarized.
    let reasons =
        changed_turn.reasons.iter().filter(|reason| **reason != SUMMARIZED_REASON).copied().collect::<Vec<_>>();
    let recall_ids = changed_turn.recall_ids.join(", ");
    let recall = if recall_ids.is_empty() { String::new() } else { format!(" (recall {recall_ids})") };
    let [before, after] = changed_turn.tokens;
    [
        format!("  {}", changed_turn.name).into(),
        changed_turn.target.clone().into(),
        format!("{:>19}", format!("{before} → {after}")).into(),
        fates,
        StyledLine::from(reasons.join("; ")).styled(SECONDARY_STYLE, recall),
    ]
}
