//! The section Earlier Work: a tree of recall pages, of which a checkpoint shows the top nodes, oldest first.
//!
//! ```text
//! Actions 1–240 in 6 stretches (recall …)      a group: its page lists six nodes, each with its recall ID
//! Actions 241–283 (recall …)                   a span: its page is a checkpoint of these actions, and names every block
//! Actions 284–320 (recall …)
//! ```
//!
//! Invariants:
//! - A node disappears only if the node that replaces it leads to it.
//! - The number of nodes grows with the logarithm of the number of spans.
//! - The nodes never exceed their budget, however long the session is, provided the budget is enough for one node.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::Checkpoint;
use super::weights::{
    GROUP_FACTOR, GROUP_SIZE, MAX_NODES_PER_LEVEL, NODE_AGE_FACTORS, NODE_LINE_CHARS, NODE_LINE_TOKENS,
    REPEATED_KIND_POWER, age_factor, node_line_value,
};
use crate::texts::{ActionEntry, EarlierWorkNode, EntryKind};
use crate::tokens::budget::{BudgetItem, PricedForm, fill_budget};
use crate::tokens::{TokenCounter, Tokens, estimate};

/// A text that the host must store under its recall ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecallPage {
    pub(crate) recall_id: String,
    pub(crate) text: String,
}

/// The nodes of a checkpoint while it is being written, oldest first.
pub(crate) struct EarlierWork<'k> {
    nodes: Vec<EarlierWorkNode>,
    /// The pages that were written for the nodes so far.
    pages: Vec<RecallPage>,
    /// Returns the recall ID of a text, if originals are stored.
    recall_id_for: &'k dyn Fn(&str) -> Option<String>,
}

impl<'k> EarlierWork<'k> {
    /// Starts with the nodes of the previous checkpoint.
    pub(crate) fn from_checkpoint(before: Option<&Checkpoint>, recall_id: &'k dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            nodes: before.map_or_else(Vec::new, |before| before.earlier_work.clone()),
            pages: Vec::new(),
            recall_id_for: recall_id,
        }
    }

    /// Moves the actions of the previous checkpoint into nodes. Actions that belong to its newest node become
    /// lines of that node. The others become a new span, whose page is the previous checkpoint itself.
    pub(crate) fn absorb_actions(&mut self, before: &Checkpoint, page: Option<String>) {
        let covered = self.nodes.iter().filter_map(EarlierWorkNode::actions).map(|(_, last)| last).max().unwrap_or(0);
        let (own, others): (Vec<_>, Vec<_>) =
            before.completed().iter().partition(|completed| completed.number <= covered);
        if let Some(newest) = self.nodes.pop() {
            let is_own = |number: u32| newest.actions().is_some_and(|(first, _)| number >= first);
            let own = own.iter().filter(|completed| is_own(completed.number)).map(|done| &done.entry);
            let lines: Vec<ActionEntry> = newest.lines().iter().chain(own).cloned().collect();
            self.nodes.push(newest.with_lines(lines.iter(), NODE_LINE_CHARS));
        }
        if let [first, .., last] | [first @ last] = others.as_slice() {
            let node = EarlierWorkNode::leaf(first.number..=last.number, page);
            self.nodes.push(node.with_lines(others.iter().map(|completed| &completed.entry), NODE_LINE_CHARS));
        }
    }

    /// Adds a span with its page and the lines that describe it.
    pub(crate) fn add_span(&mut self, actions: RangeInclusive<u32>, page: String, titles: &[ActionEntry]) {
        let recall_id = (self.recall_id_for)(&page);
        self.nodes.push(EarlierWorkNode::leaf(actions, recall_id.clone()).with_lines(titles.iter(), NODE_LINE_CHARS));
        self.pages.extend(recall_id.map(|recall_id| RecallPage { recall_id, text: page }));
    }

    /// Returns the nodes within a budget, and the pages that were written for them. Old nodes are grouped,
    /// and only the most valuable lines stay.
    pub(crate) fn fit_to_budget(
        mut self,
        budget: Tokens,
        counter: TokenCounter,
    ) -> (Vec<EarlierWorkNode>, Vec<RecallPage>) {
        while let Some(first) = self.find_crowded() {
            self.group(first, GROUP_SIZE);
        }
        let heads = |nodes: &[EarlierWorkNode]| nodes.iter().map(|node| node.keep_lines(|_| false)).collect::<Vec<_>>();
        while self.nodes.len() > 1 && section_tokens(&heads(&self.nodes), counter) > budget {
            let others = self.nodes.len() - 1;
            self.group(0, others.clamp(2, GROUP_SIZE));
        }
        let left = budget - section_tokens(&heads(&self.nodes), counter);
        let nodes = select_lines(&self.nodes, left, |nodes| section_tokens(nodes, counter) <= budget, counter);
        (nodes, self.pages)
    }

    /// Returns the index of the oldest node in a run of more than [`MAX_NODES_PER_LEVEL`] nodes of one level.
    fn find_crowded(&self) -> Option<usize> {
        let level = |node: &EarlierWorkNode| node.spans().max(1).ilog(GROUP_SIZE as u32);
        let mut rows = self.nodes.chunk_by(|one, next| level(one) == level(next));
        let mut first = 0;
        rows.find_map(|row| {
            let at = first;
            first += row.len();
            (row.len() > MAX_NODES_PER_LEVEL).then_some(at)
        })
    }

    /// Replaces `count` nodes from index `first` by one group, and writes its page.
    fn group(&mut self, first: usize, count: usize) {
        let below: Vec<EarlierWorkNode> = self.nodes.drain(first..first + count).collect();
        let text = Checkpoint { earlier_work: below.clone(), ..Checkpoint::default() }.render_page();
        let recall_id = (self.recall_id_for)(&text);
        self.nodes.insert(first, EarlierWorkNode::group(&below, recall_id.clone()));
        self.pages.extend(recall_id.map(|recall_id| RecallPage { recall_id, text }));
    }
}

/// Counts the tokens of the section.
fn section_tokens(nodes: &[EarlierWorkNode], counter: TokenCounter) -> Tokens {
    if nodes.is_empty() {
        return Tokens::ZERO;
    }
    counter.count(&Checkpoint { earlier_work: nodes.to_vec(), ..Checkpoint::default() }.render_page())
}

/// Returns the nodes with those lines that fit: the most valuable ones, and more of newer nodes than of older
/// ones.
fn select_lines(
    nodes: &[EarlierWorkNode],
    room: Tokens,
    fits: impl Fn(&[EarlierWorkNode]) -> bool,
    counter: TokenCounter,
) -> Vec<EarlierWorkNode> {
    let mut offers = Vec::new();
    let mut places = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let weight = if node.spans() > 1 { GROUP_FACTOR } else { 1.0 };
        let age = age_factor(NODE_AGE_FACTORS, at + 1, nodes.len());
        // Each further line of the same kind is worth less.
        let mut told: BTreeMap<EntryKind, f64> = BTreeMap::new();
        for (place, line) in node.lines().iter().enumerate().rev() {
            let times = told.entry(line.kind()).or_default();
            *times += 1.0;
            let tokens = counter.factor.apply(estimate(&line.to_string())).number() + NODE_LINE_TOKENS;
            let value_per_token = node_line_value(line.kind()) * weight * age / times.powf(REPEATED_KIND_POWER);
            offers.push(BudgetItem { group: 0, forms: vec![PricedForm { tokens, value_per_token }] });
            places.push((at, place));
        }
    }
    let mut bought = fill_budget(&offers, &mut [0], &mut room.number(), |_| true);
    loop {
        let forms = bought.chosen_forms(offers.len());
        let is_bought = |at: usize, place: usize| {
            places.iter().zip(&forms).any(|(offered, form)| *offered == (at, place) && form.is_some())
        };
        let nodes: Vec<EarlierWorkNode> =
            nodes.iter().enumerate().map(|(at, node)| node.keep_lines(|place| is_bought(at, place))).collect();
        if fits(&nodes) || !bought.release(&offers, 1) {
            return nodes;
        }
    }
}
