//! Which lines of what goes are worth their tokens.
//!
//! A line is worth the values in it that stand nowhere in what is kept, and a little for itself: more where the agent wrote it
//! into a call, for that is what agents write again. A value that was used in a call counts far more than one that was only
//! shown, a recent one more than an old one, one that comes up often more than one that came up once. Lines are taken by worth
//! per token, and each one taken makes its values worth nothing in the others.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::ops::Range;
use std::sync::Arc;

use super::survey::Survey;
use crate::Tokens;
use crate::checkpoint::Topic as Words;
use crate::known::Known;
use crate::passes::BlockAt;
use crate::transcript::{BlockKind, Form, UnitKind};
use crate::values::{Key, Line, Lines};

/// What a value counts that was used in a call, and one that was only shown. In recorded sessions one in five of the former was
/// needed later, and fewer than one in a hundred of the latter (`bench/retention/rates.py`).
const USED: f64 = 10.0;
const SHOWN: f64 = 0.5;
/// What is one line in all says what its heading, or the list of actions, says already.
const SHORT: f64 = 0.15;
/// Lines shorter than this say nothing by themselves.
const TELLING_LINE: usize = 24;
/// How fast values and lines lose their worth with age.
const VALUE_AGEING: f64 = 4.0;
const LINE_AGEING: f64 = 3.0;
/// How much more a line on the topic counts: however old, it comes before what is not on it.
const ON_TOPIC: f64 = 1_000.0;
/// The most of the picked lines that may be on it: a little more than a checkpoint gives to it, for the marker is on none.
const TOPIC: f64 = 0.7;
/// Lines are looked for in so many times the tokens that they may take.
pub(super) const LOOKED_THROUGH: u64 = 25;
/// What it costs to say where lines come from.
const HEADING: f64 = 11.0;

/// Keys are hashes already.
#[derive(Default)]
struct Unhashed(u64);

impl std::hash::Hasher for Unhashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

type KeyMap<V> = HashMap<Key, V, BuildHasherDefault<Unhashed>>;
type KeySet = HashSet<Key, BuildHasherDefault<Unhashed>>;

/// A block as lines.
struct Source {
    at: BlockAt,
    lines: Arc<Lines>,
    tokens: f64,
    tokens_a_byte: f64,
    /// What a line of it counts for itself.
    line: f64,
}

/// What is known of a value.
#[derive(Clone, Copy, Default)]
struct Use {
    times: u32,
    used: bool,
    /// How old its newest use is.
    age: f64,
}

impl Use {
    /// What the value is worth where nothing else says it.
    fn worth(self) -> f64 {
        let often = (1.0 + f64::from(self.times).ln()).sqrt();
        (if self.used { USED } else { SHOWN }) * often / (1.0 + VALUE_AGEING * self.age)
    }
}

/// What a line counts for itself, by who wrote it: agents write their own lines again, seldom those that they were shown.
fn line_worth(unit: &UnitKind<'_>, block: BlockKind, place: usize) -> f64 {
    match (unit, block) {
        (_, BlockKind::Call) => 3.0,
        (_, BlockKind::Reasoning(_)) | (UnitKind::Prompt { .. }, _) => 0.1,
        (UnitKind::Step { reply, .. }, _) if place < reply.len() => 0.6,
        _ => 0.4,
    }
}

/// All lines of a transcript, and how its values were used.
pub(super) struct Pool {
    sources: Vec<Source>,
    uses: KeyMap<Use>,
}

/// What becomes of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// It stays: what it says need not be said again.
    Stays,
    /// Lines of it can be kept.
    Goes,
    /// All of it can be kept, or nothing.
    Whole,
    /// Nothing of it is worth keeping.
    Ignored,
}

/// Lines by block, as ranges of its [readable](crate::values::readable) text, with the worth per token of the best of them.
pub(super) type PickedLines = BTreeMap<BlockAt, (f64, Vec<Range<usize>>)>;

/// What was picked.
#[derive(Debug, Default)]
pub(super) struct Picked {
    /// Lines.
    pub(super) lines: PickedLines,
    /// Blocks that are kept whole.
    pub(super) whole: BTreeSet<BlockAt>,
    /// Whether everything of any worth was.
    pub(super) everything: bool,
}

impl Pool {
    /// Reads the newest so many tokens: what is older has lost its worth beside them.
    pub(super) fn new(known: &mut Known, survey: &Survey<'_, '_>, newest: Tokens) -> Self {
        let mut pool = Self { sources: Vec::new(), uses: KeyMap::default() };
        let all: Tokens = survey.units.iter().copied().sum();
        let mut newer = all.number() as f64;
        for (unit, of) in survey.transcript.units.iter().enumerate() {
            newer -= survey.units[unit].number() as f64;
            if newer > newest.number() as f64 {
                continue;
            }
            let age = newer / all.number().max(1) as f64;
            if matches!(of.kind, UnitKind::Opaque(_)) {
                continue;
            }
            for (block, content) in of.blocks().enumerate() {
                let Some(text) = content.text.filter(|text| text.form != Form::Damaged) else { continue };
                let lines = Survey::lines(known, content);
                let tokens = survey.blocks[unit][block].number() as f64;
                pool.note(&lines, age, content.kind == BlockKind::Call);
                let line =
                    line_worth(&of.kind, content.kind, block) * if lines.len() == 1 { SHORT } else { 1.0 };
                let line = line * (-LINE_AGEING * age).exp();
                let tokens_a_byte = tokens / text.at.len().max(1) as f64;
                pool.sources.push(Source { at: BlockAt { unit, block }, lines, tokens, tokens_a_byte, line });
            }
        }
        pool
    }

    fn note(&mut self, lines: &Lines, age: f64, used: bool) {
        for value in lines.values() {
            let seen = self.uses.entry(*value).or_default();
            seen.times += 1;
            seen.used |= used;
            seen.age = age;
        }
    }

    /// Picks lines within a budget. `also` are texts that are kept anyway.
    pub(super) fn pick(
        &self,
        budget: Tokens,
        stand: &dyn Fn(BlockAt) -> Stand,
        also: &[&str],
        topic: &Topic<'_>,
    ) -> Picked {
        let mut left: KeyMap<f64> = self.uses.iter().map(|(key, seen)| (*key, seen.worth())).collect();
        let mut said = KeySet::default();
        for text in also {
            let lines = Lines::of(text);
            forget(&mut left, lines.values());
            said.extend(lines.iter().map(|line| line.key));
        }
        for source in self.sources.iter().filter(|source| stand(source.at) == Stand::Stays) {
            forget(&mut left, source.lines.values());
            said.extend(source.lines.iter().map(|line| line.key));
        }
        let mut greedy = Greedy::new(self, left, topic);
        for (index, source) in self.sources.iter().enumerate().rev() {
            match stand(source.at) {
                Stand::Stays | Stand::Ignored => {}
                Stand::Whole => greedy.offer(index, WHOLE, 1.0),
                Stand::Goes => {
                    let factor = topic.of_block(source.at);
                    for line in 0..source.lines.len() {
                        // The newest of equal lines stands for all.
                        if said.insert(source.lines.line(line).key) {
                            greedy.offer(index, line, factor);
                        }
                    }
                }
            }
        }
        greedy.take(budget)
    }
}

/// What was said is worth nothing a second time.
fn forget(left: &mut KeyMap<f64>, values: &[Key]) {
    for value in values {
        left.remove(value);
    }
}

/// Which lines are on the topic that was asked for: those with a word of it, and those of a block whose name has one.
pub(super) struct Topic<'t> {
    words: Option<Words>,
    name: Box<dyn Fn(BlockAt) -> String + 't>,
    read: Box<dyn Fn(BlockAt, Range<usize>) -> Option<String> + 't>,
}

impl<'t> Topic<'t> {
    /// No topic: lines count by what they say alone.
    pub(super) fn none() -> Self {
        Self { words: None, name: Box::new(|_| String::new()), read: Box::new(|_, _| None) }
    }

    /// A topic; `name` gives what a block is called, `read` the text of a line.
    pub(super) fn on(
        topic: &str,
        name: impl Fn(BlockAt) -> String + 't,
        read: impl Fn(BlockAt, Range<usize>) -> Option<String> + 't,
    ) -> Self {
        Self { words: Words::on(topic), name: Box::new(name), read: Box::new(read) }
    }

    /// What all lines of a block count for at least.
    fn of_block(&self, at: BlockAt) -> f64 {
        if self.words.as_ref().is_some_and(|words| words.is_in(&(self.name)(at))) { ON_TOPIC } else { 1.0 }
    }

    fn of_line(&self, at: BlockAt, line: &Line<'_>) -> f64 {
        let is_in = |words: &Words| (self.read)(at, line.range()).is_some_and(|text| words.is_in(&text));
        if self.words.as_ref().is_some_and(is_in) { ON_TOPIC } else { 1.0 }
    }
}

struct Greedy<'p> {
    pool: &'p Pool,
    /// What values are worth that nothing says yet.
    left: KeyMap<f64>,
    topic: &'p Topic<'p>,
    heap: BinaryHeap<Offer>,
    /// The lines of each block that may be taken: once one of them is, the others cost no heading.
    of_source: Vec<Vec<(usize, f64)>>,
    opened: Vec<bool>,
    taken: BTreeSet<(usize, usize)>,
}

/// In the place of a line: all of them.
const WHOLE: usize = usize::MAX;

/// A line and what it was worth per token when it was last looked at.
#[derive(Clone, Copy)]
struct Offer {
    rate: f64,
    factor: f64,
    source: usize,
    line: usize,
}

impl PartialEq for Offer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Offer {}
impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Offer {
    fn cmp(&self, other: &Self) -> Ordering {
        let newer = (self.source, self.line).cmp(&(other.source, other.line));
        self.rate.total_cmp(&other.rate).then(newer)
    }
}

impl<'p> Greedy<'p> {
    fn new(pool: &'p Pool, left: KeyMap<f64>, topic: &'p Topic<'p>) -> Self {
        let (of_source, opened) = (vec![Vec::new(); pool.sources.len()], vec![false; pool.sources.len()]);
        Self { pool, left, topic, heap: BinaryHeap::new(), of_source, opened, taken: BTreeSet::new() }
    }

    /// Offers a line of a block whose lines count for so much at least.
    fn offer(&mut self, source: usize, line: usize, least: f64) {
        let of = &self.pool.sources[source];
        let is_plain = line != WHOLE && least <= 1.0;
        let factor = if is_plain { self.topic.of_line(of.at, &of.lines.line(line)) } else { least };
        let rate = self.rate(source, line, factor);
        if rate > 0.0 {
            self.heap.push(Offer { rate, factor, source, line });
            self.of_source[source].push((line, factor));
        }
    }

    /// Offers the lines of a block again, now that they cost less.
    fn open(&mut self, source: usize) {
        if std::mem::replace(&mut self.opened[source], true) {
            return;
        }
        for (line, factor) in std::mem::take(&mut self.of_source[source]) {
            let rate = self.rate(source, line, factor);
            if rate > 0.0 && !self.taken.contains(&(source, line)) {
                self.heap.push(Offer { rate, factor, source, line });
            }
        }
    }

    fn cost(&self, source: usize, line: usize) -> f64 {
        let of = &self.pool.sources[source];
        if line == WHOLE {
            return of.tokens;
        }
        let heading = if self.opened[source] { 0.0 } else { HEADING };
        1.0 + heading + of.lines.line(line).range().len() as f64 * of.tokens_a_byte
    }

    fn rate(&self, source: usize, line: usize, factor: f64) -> f64 {
        let of = &self.pool.sources[source];
        let worth = if line == WHOLE {
            of.lines.iter().map(|line| self.worth(of, &line)).sum()
        } else {
            self.worth(of, &of.lines.line(line))
        };
        factor * worth / self.cost(source, line)
    }

    fn worth(&self, of: &Source, line: &Line<'_>) -> f64 {
        let values: f64 = line.values.iter().filter_map(|value| self.left.get(value)).sum();
        let telling = line.range().len() >= TELLING_LINE;
        let itself = if telling { of.line } else { 0.0 };
        values + itself
    }

    fn take(mut self, budget: Tokens) -> Picked {
        let mut left = budget.number() as f64;
        // What else there is gets a part, too.
        let mut left_for_topic = if self.topic.words.is_some() { left * TOPIC } else { left };
        let mut picked = Picked { everything: true, ..Picked::default() };
        while let Some(offer) = self.heap.pop() {
            let Offer { source, line, factor, .. } = offer;
            if self.taken.contains(&(source, line)) {
                continue;
            }
            let now = self.rate(source, line, factor);
            if now <= 0.0 {
                continue;
            }
            if self.heap.peek().is_some_and(|next| now < next.rate) {
                self.heap.push(Offer { rate: now, ..offer });
                continue;
            }
            let cost = self.cost(source, line);
            if cost > left {
                picked.everything = false;
                if left < 1.0 + HEADING {
                    break;
                }
                continue;
            }
            if factor > 1.0 {
                if cost > left_for_topic {
                    picked.everything = false;
                    continue;
                }
                left_for_topic -= cost;
            }
            left -= cost;
            self.taken.insert((source, line));
            let of = &self.pool.sources[source];
            if line == WHOLE {
                forget(&mut self.left, of.lines.values());
                picked.whole.insert(of.at);
                continue;
            }
            self.open(source);
            let line = of.lines.line(line);
            forget(&mut self.left, line.values);
            picked.lines.entry(of.at).or_insert_with(|| (now, Vec::new())).1.push(line.range());
        }
        for (_, lines) in picked.lines.values_mut() {
            lines.sort_by_key(|line| line.start);
        }
        picked
    }
}
