//! What a compaction took away, step by step, and which facts went with it.

use std::collections::{BTreeMap, BTreeSet};

use longhaul_engine::action::Actions;
use longhaul_engine::clip;
use longhaul_engine::facts::{Fact, FactKind, Facts};
use longhaul_engine::plan::{BlockReport, Fate, Report, What};
use longhaul_engine::transcript::{Unit, UnitKind};
use longhaul_engine::wire::{self, Role};
use longhaul_engine::{Tokens, Transcript};

use super::show;
use crate::output::{self, AWAY, BAD, FAINT, FAIR, GOOD, Line, Page, STRONG};

/// What changed, in the order of the session.
pub(super) struct Difference {
    steps: Vec<Step>,
    /// What the changed outputs said and the new body does not, each with the step that said it.
    unsaid: Vec<(String, String)>,
}

/// A step, or a message, of which something changed.
struct Step {
    name: String,
    /// What it was about: a command, a file, the first words of a message.
    target: String,
    fates: BTreeSet<Became>,
    tokens: [Tokens; 2],
    why: BTreeSet<&'static str>,
    handles: Vec<String>,
}

/// What became of a step, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Became {
    Folded,
    Digested,
    Removed,
}

impl Difference {
    /// Between a transcript and the body that came of it.
    pub(super) fn of(before: &Transcript<'_>, after: &str, report: &Report) -> Self {
        let units = units(before);
        let actions = Actions::of(before);
        let mut steps: BTreeMap<usize, Step> = BTreeMap::new();
        for block in &report.blocks {
            let Some(unit) = unit_of(before, &units, block) else { continue };
            let step = steps.entry(unit).or_insert_with(|| Step::new(before, &actions, unit));
            step.fates.insert(became(report, block));
            step.tokens[0] += block.tokens[0];
            step.tokens[1] += block.tokens[1];
            step.why.insert(block.why);
            step.handles.extend(block.handle.clone());
        }
        let unsaid = unsaid(before, &steps, after);
        Self { steps: steps.into_values().collect(), unsaid }
    }
}

impl Step {
    fn new(transcript: &Transcript<'_>, actions: &Actions, unit: usize) -> Self {
        let is_step = |unit: &&Unit<'_>| matches!(unit.kind, UnitKind::Step { .. });
        let number = transcript.units[..=unit].iter().filter(is_step).count();
        let said = |unit: &Unit<'_>| unit.blocks().next().map(|block| block.text().into_owned());
        let this = &transcript.units[unit];
        let (name, target) = match &this.kind {
            UnitKind::Step { .. } => {
                let named = actions.of_unit(unit).iter().map(|action| {
                    [action.tool.as_str(), action.target.as_deref().unwrap_or("")].join(" ").trim().to_owned()
                });
                let named: Vec<String> = named.filter(|name| !name.is_empty()).collect();
                (format!("step {number}"), if named.is_empty() { said(this) } else { Some(named.join(", ")) })
            }
            UnitKind::Checkpoint(_) => ("checkpoint".to_owned(), None),
            UnitKind::Opaque(_) => ("opaque".to_owned(), None),
            UnitKind::Prompt { .. } => {
                let first = this.owns.first().and_then(|id| transcript.message_of(*id));
                let role = first.and_then(|message| transcript.role(message));
                let name = if role == Some(Role::User) { "user" } else { "instructions" };
                (name.to_owned(), said(this))
            }
        };
        Self {
            name,
            target: clip::on_one_line(&target.unwrap_or_default(), LONGEST_TARGET),
            fates: BTreeSet::new(),
            tokens: [Tokens::ZERO; 2],
            why: BTreeSet::new(),
            handles: Vec::new(),
        }
    }
}

/// A target longer than this is cut; the report for programs has it whole.
const LONGEST_TARGET: usize = 60;

/// The units that have something in each message.
fn units(transcript: &Transcript<'_>) -> BTreeMap<usize, Vec<usize>> {
    let mut units: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, unit) in transcript.units.iter().enumerate() {
        for message in unit.owns.iter().filter_map(|id| transcript.message_of(*id)) {
            units.entry(message).or_default().push(at);
        }
    }
    units
}

/// The unit that a changed block belongs to. A message can hold the end of one and the beginning of the next: then the kind of
/// the block tells.
fn unit_of(
    transcript: &Transcript<'_>,
    units: &BTreeMap<usize, Vec<usize>>,
    block: &BlockReport,
) -> Option<usize> {
    let there = units.get(&block.at)?;
    let fits = |unit: &&usize| match transcript.units[**unit].kind {
        UnitKind::Step { .. } => {
            matches!(block.what, What::Reply | What::Reasoning | What::Call | What::Result)
        }
        UnitKind::Prompt { .. } => block.what == What::Prompt,
        UnitKind::Checkpoint(_) => block.what == What::Checkpoint,
        UnitKind::Opaque(_) => block.what == What::Opaque,
    };
    there.iter().find(fits).or(there.first()).copied()
}

fn became(report: &Report, block: &BlockReport) -> Became {
    match block.fate {
        Fate::Digested => Became::Digested,
        // What is bound to something that changed goes without being said anywhere.
        Fate::Kept | Fate::Recallable | Fate::Lost if block.what == What::Reasoning => Became::Removed,
        Fate::Kept | Fate::Recallable | Fate::Lost if report.checkpoint.is_some() => Became::Folded,
        Fate::Kept | Fate::Recallable | Fate::Lost => Became::Removed,
    }
}

/// The facts that a reader may miss most: what failed, and how much of it.
const TELLING: [FactKind; 3] = [FactKind::Failing, FactKind::Error, FactKind::Total];

/// What the outputs of these steps said and the new body says nowhere. What several said is listed once.
fn unsaid(before: &Transcript<'_>, steps: &BTreeMap<usize, Step>, after: &str) -> Vec<(String, String)> {
    let Ok((rewritten, _)) = wire::parse(Some(before.dialect), after) else { return Vec::new() };
    let said: String = rewritten.blocks().fold(String::new(), |all, block| all + &block.text() + "\n");
    let (mut seen, mut unsaid) = (BTreeSet::new(), Vec::new());
    for (unit, step) in steps {
        for result in before.units[*unit].exchanges().iter().flat_map(|exchange| &exchange.results) {
            let text = result.text();
            let facts = Facts::of(&text);
            for fact in TELLING.iter().flat_map(|kind| facts.of_kind(*kind)).filter(|fact| fact.is_specific())
            {
                let words = fact.text.trim();
                if !said.contains(clip::start(words, Fact::TELLING)) && seen.insert(words.to_owned()) {
                    unsaid.push((step.name.clone(), clip::on_one_line(words, LONGEST_FACT)));
                }
            }
        }
    }
    unsaid
}

const LONGEST_FACT: usize = 100;

/// So many facts are listed; all of them would be the session again.
const MOST_FACTS: usize = 20;

/// The page of it.
pub(super) fn page(body: &str, report: &Report, difference: Option<&Difference>) -> Page {
    let mut page = Page::default();
    page.line(Line::default().styled(STRONG, body).plain(format!(": {}", show::verdict(report))));
    let Some(Difference { steps, unsaid }) = difference else { return page };
    page.table(steps.iter().map(row));
    if let Some(made) = &report.checkpoint {
        let line = Line::from("  ").styled(GOOD, "+ checkpoint").plain(": ");
        page.line(show::checkpoint(line, made, &report.findings));
    }
    if !unsaid.is_empty() {
        let kept = report.blocks.iter().any(|block| block.handle.is_some());
        let (style, became) = if kept {
            (AWAY, "can be recalled by the handles above")
        } else {
            (BAD, "lost; --originals FILE would keep them")
        };
        let count = output::grouped(unsaid.len() as u64);
        let what = "errors, failing tests and totals that the new body does not say";
        let line = Line::from(format!("  {what} ({count}): "));
        page.line(line.styled(style, became));
        page.table(unsaid.iter().take(MOST_FACTS).map(|(step, fact)| [format!("    {step}"), fact.clone()]));
        if unsaid.len() > MOST_FACTS {
            page.line(Line::default().styled(FAINT, format!("    … and {} more", unsaid.len() - MOST_FACTS)));
        }
    }
    page
}

fn row(step: &Step) -> [Line; 5] {
    let mut fates = Line::default();
    for (at, fate) in step.fates.iter().enumerate() {
        let (word, style) = match fate {
            Became::Folded => ("folded", FAIR),
            Became::Digested => ("digested", FAIR),
            Became::Removed => ("removed", BAD),
        };
        fates = fates.plain(if at > 0 { ", " } else { "" }).styled(style, word);
    }
    // What is folded or removed says so already.
    let why =
        step.why.iter().filter(|why| **why != "folded into the checkpoint").copied().collect::<Vec<_>>();
    let handles = step.handles.join(", ");
    let recall = if handles.is_empty() { String::new() } else { format!(" (recall {handles})") };
    let [before, after] = step.tokens;
    [
        format!("  {}", step.name).into(),
        step.target.clone().into(),
        format!("{:>19}", format!("{before} → {after}")).into(),
        fates,
        Line::from(why.join("; ")).styled(FAINT, recall),
    ]
}
