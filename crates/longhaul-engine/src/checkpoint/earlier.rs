//! What was done before the newest stretch: a tree of pages, of which a handover shows the outermost nodes, oldest first.
//!
//! ```text
//! Actions 1–240 in 6 stretches (recall …)      a group: its page lists six nodes as they stood here, each with its handle
//! Actions 241–283 (recall …)                   a stretch: its page is a handover of these actions, and names every block
//! Actions 284–320 (recall …)
//! ```
//!
//! What must hold: nothing goes from here unless what takes its place leads to it; the nodes are as many as the logarithm of the
//! stretches; and they cost no more than their budget, however long the session, as long as that has room for one.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::Checkpoint;
use super::fill::{Form, Offer, fill};
use crate::texts::{Act, Entry, Node};
use crate::tokens::{Counter, Tokens, estimate};

/// So many nodes become a group,
const FAN: usize = 6;
/// once more than so many of one size stand there.
const MOST: usize = 9;
/// Characters of a line.
const LINE: usize = 150;
/// What the mark of a line costs.
const MARK: u64 = 2;

/// A text that the host keeps, and what fetches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) handle: String,
    pub(crate) text: String,
}

/// The nodes of a handover while it is being made, oldest first.
pub(crate) struct Earlier<'k> {
    nodes: Vec<Node>,
    /// The pages that were written for them now.
    pages: Vec<Page>,
    /// What fetches a text, where texts are kept.
    handle: &'k dyn Fn(&str) -> Option<String>,
}

impl<'k> Earlier<'k> {
    /// The nodes of a handover as they stand in it.
    pub(crate) fn of(before: Option<&Checkpoint>, handle: &'k dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            nodes: before.map_or_else(Vec::new, |before| before.earlier.clone()),
            pages: Vec::new(),
            handle,
        }
    }

    /// Takes over the actions that a handover lists: the newest stretch gets the words for those that are its own, and the rest
    /// becomes a stretch whose page is the handover itself.
    pub(crate) fn take_over(&mut self, before: &Checkpoint, page: Option<String>) {
        let covered = self.nodes.iter().filter_map(Node::actions).map(|(_, last)| last).max().unwrap_or(0);
        let (own, others): (Vec<_>, Vec<_>) =
            before.completed().iter().partition(|completed| completed.number <= covered);
        if let Some(newest) = self.nodes.pop() {
            let is_own = |number: u32| newest.actions().is_some_and(|(first, _)| number >= first);
            let own = own.iter().filter(|completed| is_own(completed.number)).map(|done| &done.entry);
            let lines: Vec<Entry> = newest.lines().iter().chain(own).cloned().collect();
            self.nodes.push(newest.with_lines(lines.iter(), LINE));
        }
        if let [first, .., last] | [first @ last] = others.as_slice() {
            let node = Node::leaf(first.number..=last.number, page);
            self.nodes.push(node.with_lines(others.iter().map(|completed| &completed.entry), LINE));
        }
    }

    /// Adds a stretch by its page, with the lines that name it.
    pub(crate) fn add(&mut self, actions: RangeInclusive<u32>, page: String, titles: &[Entry]) {
        let handle = (self.handle)(&page);
        self.nodes.push(Node::leaf(actions, handle.clone()).with_lines(titles.iter(), LINE));
        self.pages.extend(handle.map(|handle| Page { handle, text: page }));
    }

    /// The nodes within a budget, and the pages that were written for them: what is old is grouped, and of all lines those stay that
    /// tell most.
    pub(crate) fn within(mut self, budget: Tokens, counter: Counter) -> (Vec<Node>, Vec<Page>) {
        while let Some(first) = self.crowded() {
            self.group(first, FAN);
        }
        let heads = |nodes: &[Node]| nodes.iter().map(|node| node.with_only(|_| false)).collect::<Vec<_>>();
        while self.nodes.len() > 1 && tokens(&heads(&self.nodes), counter) > budget {
            let others = self.nodes.len() - 1;
            self.group(0, others.clamp(2, FAN));
        }
        let left = budget - tokens(&heads(&self.nodes), counter);
        let nodes = with_lines(&self.nodes, left, |nodes| tokens(nodes, counter) <= budget, counter);
        (nodes, self.pages)
    }

    /// The oldest of those nodes that are too many of one size.
    fn crowded(&self) -> Option<usize> {
        let size = |node: &Node| node.stretches().max(1).ilog(FAN as u32);
        let mut rows = self.nodes.chunk_by(|one, next| size(one) == size(next));
        let mut first = 0;
        rows.find_map(|row| {
            let at = first;
            first += row.len();
            (row.len() > MOST).then_some(at)
        })
    }

    /// Puts so many nodes into one, from the given one on.
    fn group(&mut self, first: usize, count: usize) {
        let below: Vec<Node> = self.nodes.drain(first..first + count).collect();
        let text = Checkpoint { earlier: below.clone(), ..Checkpoint::default() }.page();
        let handle = (self.handle)(&text);
        self.nodes.insert(first, Node::group(&below, handle.clone()));
        self.pages.extend(handle.map(|handle| Page { handle, text }));
    }
}

/// What the section costs.
fn tokens(nodes: &[Node], counter: Counter) -> Tokens {
    if nodes.is_empty() {
        return Tokens::ZERO;
    }
    counter.count(&Checkpoint { earlier: nodes.to_vec(), ..Checkpoint::default() }.page())
}

/// The nodes with as many of their lines as there is room for: those that tell most, of newer nodes more than of older ones.
fn with_lines(nodes: &[Node], room: Tokens, fits: impl Fn(&[Node]) -> bool, counter: Counter) -> Vec<Node> {
    let mut offers = Vec::new();
    let mut places = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let weight = if node.stretches() > 1 { 1.3 } else { 1.0 };
        let age = 0.7 + 0.3 * (at + 1) as f64 / nodes.len() as f64;
        // Ten of a kind tell less than two of each.
        let mut told: BTreeMap<Act, f64> = BTreeMap::new();
        for (place, line) in node.lines().iter().enumerate().rev() {
            let times = told.entry(line.act()).or_default();
            *times += 1.0;
            let tokens = counter.factor.times(estimate(&line.to_string())).number() + MARK;
            let rate = worth(line.act()) * weight * age / times.powf(0.75);
            offers.push(Offer { group: 0, forms: vec![Form { tokens, rate }] });
            places.push((at, place));
        }
    }
    let mut bought = fill(&offers, &mut [0], &mut room.number(), |_| true);
    loop {
        let forms = bought.forms(offers.len());
        let is_bought = |at: usize, place: usize| {
            places.iter().zip(&forms).any(|(offered, form)| *offered == (at, place) && form.is_some())
        };
        let nodes: Vec<Node> =
            nodes.iter().enumerate().map(|(at, node)| node.with_only(|place| is_bought(at, place))).collect();
        if fits(&nodes) || !bought.give_back(&offers, 1) {
            return nodes;
        }
    }
}

/// What a token of a line is worth where a line has to tell of a hundred actions: what was wanted and concluded before what was run.
fn worth(act: Act) -> f64 {
    match act {
        Act::Asked => 6.0,
        Act::Answer => 3.5,
        Act::Other | Act::Noted => 3.0,
        Act::Edit => 2.6,
        Act::Delegate | Act::Delete => 2.0,
        Act::Create | Act::Restore | Act::Run | Act::Message => 1.4,
        Act::Call | Act::Fetch => 1.0,
    }
}
