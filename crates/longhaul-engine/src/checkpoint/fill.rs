//! Which pieces a budget holds: first what must be there, then by value per token.
//!
//! Tokens are counted once for each piece that is looked at, as it is written; pieces end at line ends, where tokens hardly
//! ever reach across, so the sum is close. The whole is counted at the end, and what is too much goes again.

use super::actions;
use super::clip::{clip, says_anything};
use super::gather::{Gathered, Need, Piece, Place, gather, task, worth};
use super::quotes::{Quotable, quotes};
use super::render::{ITEM, heading, push_item, push_quoted, push_source};
use super::{Checkpoint, Closing, Completed, EmptySections, Quote, Quoted, Section, Topic, Voice};
use crate::evidence::Evidence;
use crate::redact::{Content, Redacted, Redactor};
use crate::tokens::{Counter, Tokens, estimate};

/// What a checkpoint is made from.
pub struct Draft<'d> {
    /// What the transcript shows.
    pub evidence: &'d Evidence,
    /// Whether a unit is folded into this checkpoint. What an earlier one holds already is not folded again.
    pub folded: &'d dyn Fn(usize) -> bool,
    /// The checkpoint that this one replaces.
    pub previous: Option<&'d Checkpoint>,
    /// Lines worth quoting.
    pub quotes: &'d [Quote],
    /// What the rendering may cost, marker and all.
    pub budget: Tokens,
    /// What all of it but the quotes may cost: where lines were picked by their worth, they are not to be crowded out.
    pub sections: Tokens,
    /// Below this budget, empty sections are left out.
    pub terse_below: Tokens,
    /// How tokens are counted.
    pub counter: Counter,
    /// The topic that is to get most of the budget.
    pub focus: Option<&'d str>,
    /// Where the request is.
    pub closing: Closing,
    /// Whose words it will stand as.
    pub voice: Voice,
}

/// The share of the budget that a topic gets.
const TOPIC: f64 = 0.65;
/// After so many pieces in a row that do not fit, no smaller one is looked for.
const MISSES: usize = 200;
/// Up to this many tokens, two fifths of the room are for actions; of what is more, a tenth.
const ROOMY: u64 = 5_000;
/// A must is not clipped to less than this.
const LEAST: u64 = 16;
/// Tokens of the task in the smallest checkpoint.
const SMALLEST_TASK: u64 = 24;
/// Characters of a piece that is not on the topic.
const OFF_TOPIC: usize = 160;

impl Checkpoint {
    /// The checkpoint for a draft: never over its budget, unless not even the [smallest](Self::smallest) fits in it.
    #[must_use]
    pub fn build(draft: &Draft<'_>, redactor: &mut Redactor) -> Self {
        Sections::choose(draft, redactor).quoting(draft.quotes, draft.budget, redactor).checkpoint
    }

    /// The least that a checkpoint can be: the marker and the beginning of the task.
    #[must_use]
    pub fn smallest(draft: &Draft<'_>, redactor: &mut Redactor) -> Self {
        Self::of_task(task(draft, redactor).as_ref(), draft.counter)
    }

    fn of_task(task: Option<&Redacted>, counter: Counter) -> Self {
        let mut smallest = Self { empty: EmptySections::LeftOut, ..Self::default() };
        if let Some(task) = task {
            smallest.push(Section::ActiveTask, clip_to(task, SMALLEST_TASK, counter));
        }
        smallest
    }
}

/// All of a checkpoint but its quotes, chosen: what is quoted, and within which budget, is tried more than once.
pub(crate) struct Sections {
    fill: Fill,
    task: Option<Redacted>,
    quoted_before: Vec<Quoted>,
}

/// A checkpoint with its rendering.
pub(crate) struct Written {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) text: String,
    pub(crate) tokens: Tokens,
}

impl Sections {
    /// Chooses what a draft's sections hold.
    pub(crate) fn choose(draft: &Draft<'_>, redactor: &mut Redactor) -> Self {
        let Gathered { pieces, lines } = gather(draft, redactor);
        let task = pieces.iter().find(|piece| piece.place == Place::List(Section::ActiveTask));
        let task = task.map(|piece| piece.text.clone());
        let mut fill = Fill::new(draft, pieces);
        fill.musts();
        fill.actions(lines, redactor);
        fill.choose();
        let quoted_before = draft.previous.map_or_else(Vec::new, |before| before.quoted().to_vec());
        Self { fill, task, quoted_before }
    }

    /// Whether sections without anything are left out, as they are under small budgets.
    pub(crate) fn are_terse(&self) -> bool {
        self.fill.empty == EmptySections::LeftOut
    }

    /// The checkpoint with lines quoted, within a budget.
    pub(crate) fn quoting(&self, quoted: &[Quote], budget: Tokens, redactor: &mut Redactor) -> Written {
        let mut fill = self.fill.clone();
        let (counter, closing, voice) = (fill.counter, fill.closing, fill.voice);
        fill.budget = in_vocabulary(budget, counter);
        let quotable = Quotable { before: &self.quoted_before, quotes: quoted, budget };
        let (sources, pieces) = quotes(&quotable, fill.topic.as_ref(), redactor);
        fill.add_quotes(sources, pieces);
        fill.choose();
        fill.exact(budget).unwrap_or_else(|| {
            let checkpoint = Checkpoint::of_task(self.task.as_ref(), counter);
            let text = checkpoint.render(closing, voice);
            let tokens = counter.count(&text);
            Written { checkpoint, text, tokens }
        })
    }
}

#[derive(Clone)]
struct Fill {
    counter: Counter,
    closing: Closing,
    voice: Voice,
    topic: Option<Topic>,
    empty: EmptySections,
    sources: Vec<Redacted>,
    pieces: Vec<Weighed>,
    spent: Spent,
    /// The budget in tokens of the vocabulary.
    budget: u64,
    /// Whose headings are paid for.
    opened: Vec<bool>,
}

/// A piece with what is known of it.
#[derive(Clone)]
struct Weighed {
    piece: Piece,
    on_topic: bool,
    cost: Option<u64>,
    taken: bool,
}

/// Tokens by what they are for.
#[derive(Clone, Copy, Default)]
struct Spent {
    topic: u64,
    rest: u64,
}

impl Spent {
    fn total(self) -> u64 {
        self.topic + self.rest
    }
}

impl Fill {
    fn new(draft: &Draft<'_>, pieces: Vec<Piece>) -> Self {
        let empty =
            if draft.budget < draft.terse_below { EmptySections::LeftOut } else { EmptySections::Said };
        let frame = Checkpoint { empty, ..Checkpoint::default() }.render(draft.closing, draft.voice);
        let budget = in_vocabulary(draft.sections.min(draft.budget), draft.counter);
        let mut fill = Self {
            counter: draft.counter,
            closing: draft.closing,
            voice: draft.voice,
            topic: draft.focus.and_then(Topic::on),
            empty,
            sources: Vec::new(),
            pieces: Vec::new(),
            spent: Spent { topic: 0, rest: draft.counter.vocabulary.count(&frame).number() },
            budget,
            opened: vec![empty == EmptySections::Said; Section::ALL.len()],
        };
        for piece in pieces {
            fill.add(piece);
        }
        fill
    }

    fn add(&mut self, mut piece: Piece) {
        let on_topic = self.topic.as_ref().is_some_and(|topic| match piece.place {
            Place::Line(at) => topic.is_in(self.sources[at].as_str()) || topic.is_in(piece.text.as_str()),
            _ => topic.is_in(piece.text.as_str()),
        });
        let verbatim = [Section::ActiveTask, Section::Constraints, Section::PendingUserAsks].map(Place::List);
        if self.topic.is_some() && !on_topic && !verbatim.contains(&piece.place) {
            piece.text = Redacted::from_store(actions::clip_line(piece.text.as_str(), OFF_TOPIC));
        }
        self.pieces.push(Weighed { piece, on_topic, cost: None, taken: false });
    }

    fn room(&self) -> u64 {
        self.budget.saturating_sub(self.spent.total())
    }

    fn count(&self, text: &str) -> u64 {
        self.counter.vocabulary.count(text).number()
    }

    /// What a piece costs as it is written, and what its heading or source costs where it is the first under it.
    fn cost(&mut self, at: usize) -> u64 {
        let own = self.pieces[at].cost.unwrap_or_else(|| self.count(&written(&self.pieces[at].piece)));
        self.pieces[at].cost = Some(own);
        own + self.opening_of(at)
    }

    /// What the heading or source of a piece costs where nothing stands under it yet.
    fn opening_of(&self, at: usize) -> u64 {
        match self.pieces[at].piece.place {
            Place::List(section) => self.opening(section),
            Place::Action(_) => self.opening(Section::CompletedActions),
            Place::Line(source) if self.opened[Section::ALL.len() + source] => 0,
            Place::Line(source) => {
                let mut line = String::new();
                push_source(self.sources[source].as_str(), &mut line);
                self.opening(Section::CriticalContext) + self.count(&line)
            }
        }
    }

    fn opening(&self, section: Section) -> u64 {
        if self.opened[section as usize] { 0 } else { self.count(&heading(section)) + 1 }
    }

    fn is_rule(&self, at: usize) -> bool {
        let Piece { place, need, .. } = &self.pieces[at].piece;
        *place == Place::List(Section::Constraints) && *need == Need::Must
    }

    fn take(&mut self, at: usize, cost: u64) {
        let weighed = &mut self.pieces[at];
        weighed.taken = true;
        let spent = if weighed.on_topic { &mut self.spent.topic } else { &mut self.spent.rest };
        *spent += cost;
        match weighed.piece.place {
            Place::List(section) => self.opened[section as usize] = true,
            Place::Action(_) => self.opened[Section::CompletedActions as usize] = true,
            Place::Line(source) => {
                self.opened[Section::CriticalContext as usize] = true;
                self.opened[Section::ALL.len() + source] = true;
            }
        }
    }

    /// Takes what must be there. Where it is more than three quarters of the room, the longest are clipped to one length, the
    /// task less than others and the goal more, and what is worth least goes.
    fn musts(&mut self) {
        let mut musts: Vec<usize> =
            (0..self.pieces.len()).filter(|at| self.pieces[*at].piece.need == Need::Must).collect();
        musts.sort_by(|a, b| self.pieces[*b].piece.weight.total_cmp(&self.pieces[*a].piece.weight));
        // A rule that is cut is another rule: they come first, and whole if the budget can hold them.
        let rules: Vec<usize> = musts.iter().copied().filter(|at| self.is_rule(*at)).collect();
        for at in rules {
            let cost = self.cost(at);
            if cost <= self.room() {
                self.take(at, cost);
            }
        }
        musts.retain(|at| !self.pieces[*at].taken);
        let room = self.room() * 3 / 4;
        let costs: Vec<u64> = musts.iter().map(|at| self.cost(*at)).collect();
        let cap = cap(&costs, room);
        for at in musts {
            let place = self.pieces[at].piece.place;
            let is_task = place == Place::List(Section::ActiveTask);
            let most = match place {
                Place::List(Section::ActiveTask) => cap.max(room / 2),
                Place::List(Section::Goal) if cap < u64::MAX => cap.min(room / 5),
                _ => cap,
            };
            let most = most.min(self.room());
            if self.cost(at) > most && (most >= LEAST || is_task) {
                let room = most.saturating_sub(self.opening_of(at) + 3);
                self.pieces[at].piece.text = clip_to(&self.pieces[at].piece.text, room, self.counter);
                self.pieces[at].cost = None;
            }
            let cost = self.cost(at);
            if cost <= self.room() && says_anything(self.pieces[at].piece.text.as_str()) {
                self.take(at, cost);
            }
        }
    }

    /// Completed Actions, folded to their part of the room and to what nothing else asks for. With a topic, its own actions stay
    /// apart, and the rest gets less.
    fn actions(&mut self, mut lines: Vec<actions::Line>, redactor: &mut Redactor) {
        let room = self.room();
        let mut part = room.min(ROOMY) * 2 / 5 + room.saturating_sub(ROOMY) / 10;
        let asked = self.pieces.iter().filter(|weighed| !weighed.taken);
        let asked: u64 = asked.map(|weighed| estimate(weighed.piece.text.as_str()).number() + 3).sum();
        if let Some(topic) = &self.topic {
            for line in &mut lines {
                line.kept = topic.is_in(&line.text());
            }
            part /= 4;
        } else {
            part = part.max(room.saturating_sub(asked));
        }
        let mut number = lines.iter().filter_map(|line| line.number).max().unwrap_or(0);
        for line in actions::fit(lines, part) {
            let place = Place::Action(line.number.unwrap_or_else(|| {
                number = number.saturating_add(1);
                number
            }));
            let text = redactor.redact(&line.text(), Content::Text).text;
            self.add(Piece { place, text, weight: worth(Section::CompletedActions), need: Need::Wanted });
        }
    }

    fn add_quotes(&mut self, sources: Vec<Redacted>, pieces: Vec<Piece>) {
        self.opened.resize(Section::ALL.len() + sources.len(), false);
        self.sources = sources;
        for piece in pieces {
            self.add(piece);
        }
    }

    /// Takes pieces by value per token while there is room, the newest first among equals.
    fn choose(&mut self) {
        let mut order: Vec<usize> = (0..self.pieces.len()).filter(|at| !self.pieces[*at].taken).collect();
        order.sort_by(|a, b| {
            let weight = |at: &usize| self.pieces[*at].piece.weight;
            weight(b).total_cmp(&weight(a)).then(b.cmp(a))
        });
        if self.topic.is_none() {
            return self.take_while(&order, self.room());
        }
        let (topical, rest): (Vec<usize>, Vec<usize>) =
            order.into_iter().partition(|at| self.pieces[*at].on_topic);
        let aim = (self.budget as f64 * TOPIC) as u64;
        self.take_while(&topical, aim.saturating_sub(self.spent.topic).min(self.room()));
        // Where the topic does not fill its share, the rest shrinks with it, so that the share holds.
        let rest_most = (self.spent.topic as f64 * (1.0 - TOPIC) / TOPIC) as u64;
        self.take_while(&rest, rest_most.saturating_sub(self.spent.rest).min(self.room()));
    }

    fn take_while(&mut self, order: &[usize], room: u64) {
        let until = self.spent.total() + room;
        let mut misses = 0;
        for &at in order {
            let cost = self.cost(at);
            if self.spent.total() + cost <= until {
                self.take(at, cost);
                misses = 0;
            } else {
                misses += 1;
                if misses > MISSES || self.spent.total() >= until {
                    break;
                }
            }
        }
    }

    /// The checkpoint of what was taken, with its tokens counted as a whole; none if not even the musts fit. Rules go last.
    fn exact(mut self, budget: Tokens) -> Option<Written> {
        let mut order: Vec<usize> = (0..self.pieces.len()).filter(|at| self.pieces[*at].taken).collect();
        order.sort_by(|a, b| {
            let weights = self.pieces[*b].piece.weight.total_cmp(&self.pieces[*a].piece.weight);
            self.is_rule(*b).cmp(&self.is_rule(*a)).then(weights).then(a.cmp(b))
        });
        loop {
            let checkpoint = self.checkpoint();
            let text = checkpoint.render(self.closing, self.voice);
            let tokens = self.counter.count(&text);
            if tokens <= budget {
                return Some(Written { checkpoint, text, tokens });
            }
            let mut over = (tokens - budget).number();
            while over > 0 {
                let last = order.pop()?;
                self.pieces[last].taken = false;
                over = over.saturating_sub(self.pieces[last].cost.unwrap_or(1));
            }
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        let mut checkpoint = Checkpoint { empty: self.empty, ..Checkpoint::default() };
        let mut last_source = None;
        for Weighed { piece, .. } in self.pieces.iter().filter(|weighed| weighed.taken) {
            let text = piece.text.clone();
            match piece.place {
                Place::List(section) => checkpoint.push(section, text),
                Place::Action(number) => checkpoint.completed.push(Completed { number, text }),
                Place::Line(source) if last_source == Some(source) => {
                    checkpoint
                        .quoted
                        .last_mut()
                        .into_iter()
                        .for_each(|quoted| quoted.lines.push(text.clone()));
                }
                Place::Line(source) => {
                    last_source = Some(source);
                    let source = self.sources[source].clone();
                    checkpoint.quoted.push(Quoted { source, lines: vec![text] });
                }
            }
        }
        checkpoint.settle()
    }
}

/// A budget in tokens of the vocabulary, before the family's factor.
fn in_vocabulary(budget: Tokens, counter: Counter) -> u64 {
    (budget.number() as f64 / f64::from(counter.factor)).floor() as u64
}

/// The piece as it is written.
fn written(piece: &Piece) -> String {
    let mut text = String::new();
    match piece.place {
        Place::List(_) => push_item(ITEM, piece.text.as_str(), &mut text),
        Place::Action(number) => push_item(&format!("{number}. "), piece.text.as_str(), &mut text),
        Place::Line(_) => push_quoted(piece.text.as_str(), &mut text),
    }
    text
}

/// The most that each may cost so that all fit.
fn cap(costs: &[u64], room: u64) -> u64 {
    let mut costs = costs.to_vec();
    costs.sort_unstable();
    let mut left = room;
    for (index, cost) in costs.iter().enumerate() {
        let each = left / (costs.len() - index) as u64;
        if *cost > each {
            return each;
        }
        left -= cost;
    }
    u64::MAX
}

/// The text, clipped so that it costs at most so many tokens.
fn clip_to(text: &Redacted, most: u64, counter: Counter) -> Redacted {
    let count = |text: &str| counter.vocabulary.count(text).number();
    let tokens = count(text.as_str());
    if tokens <= most {
        return text.clone();
    }
    let mut characters = text.as_str().chars().count() as u64 * most / tokens.max(1);
    loop {
        let clipped = clip(text.as_str(), characters as usize);
        if count(&clipped) <= most || characters == 0 {
            return Redacted::from_store(clipped);
        }
        characters = characters * 4 / 5;
    }
}
