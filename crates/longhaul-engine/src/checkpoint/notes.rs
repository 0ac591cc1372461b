//! A summary that a model wrote, as Markdown in parts that can be left out one by one.
//!
//! ```text
//! ## Rules                      a heading
//! - Never push.                 a part
//!   - Not even tags.            a part that makes no sense without the one above
//! The port is 80. It is fixed.  two parts; the second makes no sense without the first
//! ```
//!
//! Together, the parts are the whole text. So a summary of which nothing is left out keeps every byte, and one of
//! which something is left out keeps the bytes, the order and the numbers of everything else.

use std::ops::Range;

use serde::Deserialize;

use super::rarity::KeptWords;
use super::weights::{SummaryWeights, Weights, age_factor};
use crate::evidence::{depends_on_sentence_before, sentence_ends};
use crate::redact::Redacted;
use crate::tokens::budget::{BudgetItem, PricedForm, fill_budget};
use crate::tokens::{TokenCounter, Tokens};

/// A model's summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    text: Redacted,
    parts: Vec<NotesPart>,
}

/// The smallest piece of a summary that can be left out without damage to the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotesPart {
    /// The bytes of the part, with the white space behind it.
    pub(crate) range: Range<usize>,
    pub(crate) kind: NotesPartKind,
    /// The topic of the heading above the part.
    pub(crate) topic: NotesTopic,
    /// The index of the heading above the part.
    heading: Option<usize>,
    /// The part without which this one makes no sense: the list item above a nested one, the line that introduces a
    /// list, or the sentence before.
    parent: Option<usize>,
}

/// The kind of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotesPartKind {
    /// A heading of this level.
    Heading(usize),
    /// A list item with this indentation.
    Item(usize),
    /// A paragraph, a table or a block of code; after the split into sentences, also one sentence.
    Text,
}

/// What a section of a summary is about. It decides what a part is worth if there is no room for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NotesTopic {
    Request,
    Rules,
    State,
    Ongoing,
    Blocked,
    Remaining,
    Decisions,
    Questions,
    Values,
    Files,
    Actions,
    Findings,
    /// No heading, or one with unknown words.
    #[serde(skip)]
    Unknown,
}

impl NotesTopic {
    /// Returns whether a section states the wishes of people.
    pub(crate) fn states_user_wishes(self) -> bool {
        matches!(self, Self::Request | Self::Rules)
    }

    /// Returns whether a section lists work that is still open.
    pub(crate) fn is_open_work(self) -> bool {
        matches!(self, Self::Request | Self::Ongoing | Self::Remaining)
    }
}

impl SummaryWeights {
    /// Returns the value of a part under a heading with this topic.
    pub(super) fn of(&self, topic: NotesTopic) -> f64 {
        match topic {
            NotesTopic::Request => self.request,
            NotesTopic::Rules => self.rules,
            NotesTopic::State => self.state,
            NotesTopic::Ongoing => self.ongoing,
            NotesTopic::Blocked => self.blocked,
            NotesTopic::Remaining => self.remaining,
            NotesTopic::Values => self.values,
            NotesTopic::Decisions => self.decisions,
            NotesTopic::Findings => self.findings,
            NotesTopic::Unknown => self.unknown,
            NotesTopic::Actions => self.actions,
            NotesTopic::Questions => self.questions,
            NotesTopic::Files => self.files,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicTable {
    topic: Vec<TopicRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TopicRow {
    name: NotesTopic,
    words: Vec<String>,
}

table! {
    static TOPICS: TopicTable = "notes_topics.toml";
}

/// The level of a heading that is only bold, below all levels of Markdown.
const BOLD_HEADING_LEVEL: usize = 7;
/// The longest line that is taken for a bold heading, in bytes. A longer one is a sentence.
const MAX_BOLD_HEADING_BYTES: usize = 80;

impl Notes {
    /// Splits a summary into its parts.
    #[must_use]
    pub fn parse(text: &Redacted) -> Self {
        let text = text.trimmed();
        let mut parts = split_sentences(text.as_str(), split_blocks(text.as_str()));
        assign_topics(text.as_str(), &mut parts);
        Self { text, parts }
    }

    /// Returns the whole text.
    #[must_use]
    pub fn text(&self) -> &Redacted {
        &self.text
    }

    pub(crate) fn parts(&self) -> &[NotesPart] {
        &self.parts
    }

    /// Returns the text of a part.
    pub(crate) fn text_of(&self, part: &NotesPart) -> &str {
        &self.text.as_str()[part.range.clone()]
    }

    /// Returns the topic by which a part is judged: that of its section, or of a heading that stands in its code, because a
    /// reader may take what follows that heading for a section too.
    pub(crate) fn judged_topic(&self, part: &NotesPart) -> NotesTopic {
        let lines = self.text_of(part).lines().map(str::trim).filter(|line| line.starts_with('#'));
        let inside =
            lines.skip(usize::from(matches!(part.kind, NotesPartKind::Heading(_)))).filter_map(topic_of_heading);
        inside.into_iter().find(|topic| topic.states_user_wishes()).unwrap_or(part.topic)
    }

    /// Returns the words of the heading above a part; empty if there is none.
    pub(crate) fn heading_of(&self, part: &NotesPart) -> String {
        let line = part.heading.map_or("", |heading| self.text_of(&self.parts[heading]));
        line.trim_matches(|c: char| c == '#' || c == '*' || c == ':' || c.is_whitespace()).to_owned()
    }

    /// Returns the summary with only those parts for which `is_kept` is true, by index. A part goes with the one that it
    /// depends on, and a heading goes with the last part below it. If nothing goes, the text is the same, byte for byte.
    #[must_use]
    pub(crate) fn keep(&self, is_kept: &dyn Fn(usize) -> bool) -> Self {
        let kept = self.effective(is_kept);
        if kept.iter().all(|kept| *kept) {
            return self.clone();
        }
        let text = self.text.as_str();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let mut after_heading = true;
        for (part, is_kept) in self.parts.iter().zip(kept) {
            let range = if is_kept {
                after_heading = matches!(part.kind, NotesPartKind::Heading(_));
                part.range.clone()
            } else {
                let dropped = &text[part.range.clone()];
                let before = ranges.last().map_or("\n\n", |last| &text[..last.end]);
                let blank_start = if !before.ends_with('\n') {
                    // The line break after the last sentence of a paragraph belongs to the paragraph.
                    part.range.start + dropped.trim_end().len()
                } else if !after_heading && !before.ends_with("\n\n") && dropped.ends_with("\n\n") {
                    // The empty line behind the last part of a section belongs to the section.
                    part.range.end - 1
                } else {
                    continue;
                };
                blank_start..part.range.end
            };
            match ranges.last_mut().filter(|last| last.end == range.start) {
                Some(last) => last.end = range.end,
                None => ranges.push(range),
            }
        }
        Self::parse(&self.text.join_ranges(&ranges, "", ""))
    }

    /// Returns for each part whether it stays: it is kept, and so is what it depends on.
    fn effective(&self, is_kept: &dyn Fn(usize) -> bool) -> Vec<bool> {
        let mut kept: Vec<bool> = Vec::with_capacity(self.parts.len());
        for (at, part) in self.parts.iter().enumerate() {
            kept.push(is_kept(at) && part.parent.is_none_or(|parent| kept[parent]));
        }
        // A line that only introduces a list is nothing without the list.
        for at in (0..self.parts.len()).rev() {
            let introduced = self.introduced_by(at);
            if !introduced.is_empty() && !introduced.into_iter().any(|part| kept[part]) {
                kept[at] = false;
            }
        }
        for at in 0..self.parts.len() {
            if let NotesPartKind::Heading(level) = self.parts[at].kind {
                let mut content = self.section_of(at, level).filter(|inside| self.is_content(*inside)).peekable();
                kept[at] = content.peek().is_none() || content.any(|inside| kept[inside]);
            }
        }
        kept
    }

    /// Returns the parts that directly depend on a part.
    fn children_of(&self, at: usize) -> impl Iterator<Item = usize> {
        (at + 1..self.parts.len()).filter(move |child| self.parts[*child].parent == Some(at))
    }

    /// Returns the parts that a part introduces with a colon: those that depend on it, or else the next items of its list.
    fn introduced_by(&self, at: usize) -> Vec<usize> {
        if !self.text_of(&self.parts[at]).trim_end().ends_with([':', '：']) {
            return Vec::new();
        }
        let children: Vec<usize> = self.children_of(at).collect();
        let is_sibling = |next: &usize| self.parts[*next].kind == self.parts[at].kind;
        match self.parts[at].kind {
            NotesPartKind::Item(_) if children.is_empty() => {
                (at + 1..self.parts.len()).take_while(is_sibling).collect()
            }
            _ => children,
        }
    }

    fn is_content(&self, at: usize) -> bool {
        !matches!(self.parts[at].kind, NotesPartKind::Heading(_))
    }

    /// Returns the indices of the parts below a heading, up to the next one of the same level or above.
    fn section_of(&self, heading: usize, level: usize) -> impl Iterator<Item = usize> {
        let ends = |part: &NotesPart| matches!(part.kind, NotesPartKind::Heading(other) if other <= level);
        let length = self.parts[heading + 1..].iter().take_while(|part| !ends(part)).count();
        heading + 1..heading + 1 + length
    }

    /// Returns the summary in at most `budget` tokens. The most valuable parts stay: requests, rules and the state before
    /// actions, newer actions before older ones, and what the rest of the request lacks before what it has.
    #[must_use]
    pub(crate) fn fit(
        &self,
        budget: Tokens,
        counter: TokenCounter,
        weights: &Weights,
        kept_words: impl FnOnce() -> KeptWords,
    ) -> Self {
        if counter.count(self.text.as_str()) <= budget {
            return self.clone();
        }
        let kept_words = kept_words();
        let tokens: Vec<u64> = self.parts.iter().map(|part| counter.count(self.text_of(part)).number()).collect();
        let values: Vec<f64> = self.parts.iter().map(|part| self.value_of(part, &kept_words, weights)).collect();
        // Each item is a part with those that depend on it, from the part alone to all of them.
        let roots: Vec<usize> =
            (0..self.parts.len()).filter(|at| self.is_content(*at) && self.parts[*at].parent.is_none()).collect();
        let families: Vec<Vec<usize>> = roots.iter().map(|root| self.family_of(*root)).collect();
        let items: Vec<BudgetItem> = roots
            .iter()
            .zip(&families)
            .map(|(root, family)| self.to_budget_item(*root, family, (&tokens, &values), weights))
            .collect();
        let mut openings = vec![0; self.parts.len() + 1];
        for (at, _) in self.parts.iter().enumerate().filter(|(at, _)| !self.is_content(*at)) {
            openings[at + 1] = tokens[at];
        }
        let mut left = budget.number();
        let mut selection = fill_budget(&items, &mut openings, &mut left, |_| true);
        loop {
            let forms = selection.chosen_forms(items.len());
            let chosen: Vec<usize> = forms
                .iter()
                .zip(&families)
                .flat_map(|(form, family)| {
                    family.iter().take(form.map_or(0, |form| self.first_form_parts(family) + form)).copied()
                })
                .collect();
            let fitted = self.keep(&|at| !self.is_content(at) || chosen.contains(&at));
            let over = counter.count(fitted.text.as_str()).number().saturating_sub(budget.number());
            if over == 0 || !selection.release(&items, over) {
                return fitted;
            }
        }
    }

    /// Returns a part with all parts that depend on it, in order.
    fn family_of(&self, root: usize) -> Vec<usize> {
        let mut family = vec![root];
        for (at, part) in self.parts.iter().enumerate().skip(root + 1) {
            if part.parent.is_some_and(|parent| family.contains(&parent)) {
                family.push(at);
            }
        }
        family
    }

    /// Returns how many parts the shortest form of a family has: an introduction is nothing without what it introduces.
    fn first_form_parts(&self, family: &[usize]) -> usize {
        if family.len() > 1 && !self.introduced_by(family[0]).is_empty() { 2 } else { 1 }
    }

    /// Returns what each token of a part is worth, by its topic and by how much it tells that the request does not.
    fn value_of(&self, part: &NotesPart, kept_words: &KeptWords, weights: &Weights) -> f64 {
        let plain = weights.summary.plain_part_share;
        weights.summary.of(part.topic) * (plain + (1.0 - plain) * kept_words.news(self.text_of(part)))
    }

    fn to_budget_item(
        &self,
        root: usize,
        family: &[usize],
        (tokens, values): (&[u64], &[f64]),
        weights: &Weights,
    ) -> BudgetItem {
        let part = &self.parts[root];
        let mut age = 1.0;
        if part.topic == NotesTopic::Actions {
            let section = part.heading.map_or(0, |heading| heading + 1);
            let count = self.parts[section..].iter().take_while(|other| other.topic == part.topic).count();
            age = age_factor(weights.age.summary_action, root - section, count);
        }
        let first = self.first_form_parts(family);
        let mut all = family[..first - 1].iter().map(|at| tokens[*at]).sum::<u64>();
        let forms = family.iter().enumerate().skip(first - 1).map(|(depth, at)| {
            all += tokens[*at];
            let factor = if depth == 0 { 1.0 } else { weights.summary.child_factor };
            PricedForm { tokens: all, value_per_token: values[*at] * age * factor }
        });
        BudgetItem { group: part.heading.map_or(0, |heading| heading + 1), forms: forms.collect() }
    }
}

/// Splits a text into headings, list items and other blocks.
fn split_blocks(text: &str) -> Vec<NotesPart> {
    let mut parts: Vec<NotesPart> = Vec::new();
    let mut fence: Option<&str> = None;
    let mut after_blank = true;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let range = offset..offset + line.len();
        offset = range.end;
        let bare = line.trim();
        let indent = line.len() - line.trim_start().len();
        let marks = ["```", "~~~"].into_iter().find(|mark| bare.starts_with(mark));
        let is_inside = fence.is_some();
        match (fence, marks) {
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, Some(mark)) if !bare[3..].contains(mark) => fence = Some(mark),
            _ => {}
        }
        let last = parts.last().map(|part| part.kind);
        let follows_text = matches!(last, Some(NotesPartKind::Item(_) | NotesPartKind::Text));
        let kind = match () {
            () if is_inside || bare.is_empty() => None,
            // Code belongs to the text that introduces it.
            () if marks.is_some() => (!follows_text).then_some(NotesPartKind::Text),
            () if heading_level(bare).is_some() => heading_level(bare).map(NotesPartKind::Heading),
            () if is_item(bare) => Some(NotesPartKind::Item(indent)),
            () if follows_text && !after_blank => None,
            () if matches!(last, Some(NotesPartKind::Item(at)) if indent > at) => None,
            () => Some(NotesPartKind::Text),
        };
        after_blank = bare.is_empty() && !is_inside;
        match (kind, parts.last_mut()) {
            (None, Some(part)) => part.range.end = range.end,
            (kind, _) => {
                let kind = kind.unwrap_or(NotesPartKind::Text);
                let parent = match kind {
                    NotesPartKind::Item(indent) => parent_of_item(text, &parts, indent),
                    _ => None,
                };
                parts.push(NotesPart { range, kind, topic: NotesTopic::Unknown, heading: None, parent });
            }
        }
    }
    parts
}

/// Returns the level of the heading that a line is.
fn heading_level(line: &str) -> Option<usize> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    if level > 0 {
        return (level <= 6 && line[level..].starts_with(' ')).then_some(level);
    }
    let bold = line.strip_prefix("**").and_then(|rest| rest.trim_end_matches(':').strip_suffix("**"));
    let is_heading = |words: &str| !words.contains("**") && words.len() <= MAX_BOLD_HEADING_BYTES;
    bold.is_some_and(is_heading).then_some(BOLD_HEADING_LEVEL)
}

fn is_item(line: &str) -> bool {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let behind = match digits {
        0 => line.strip_prefix(['-', '*', '+', '•']),
        1..=3 => line[digits..].strip_prefix(['.', ')']),
        _ => None,
    };
    behind.is_some_and(|rest| rest.starts_with(' '))
}

/// Returns the part that a list item depends on: the nearest item above it with less indentation, or the line that
/// introduces the list.
fn parent_of_item(text: &str, parts: &[NotesPart], indent: usize) -> Option<usize> {
    for (at, part) in parts.iter().enumerate().rev() {
        match part.kind {
            NotesPartKind::Item(other) if other < indent => return Some(at),
            NotesPartKind::Item(_) => {}
            NotesPartKind::Text => {
                return text[part.range.clone()].trim_end().ends_with([':', '：']).then_some(at);
            }
            NotesPartKind::Heading(_) => return None,
        }
    }
    None
}

/// Splits paragraphs into sentences. Tables, code and the lines that introduce a list stay whole.
fn split_sentences(text: &str, blocks: Vec<NotesPart>) -> Vec<NotesPart> {
    let mut parts: Vec<NotesPart> = Vec::with_capacity(blocks.len());
    // The index of the part that each block became, or of its last sentence.
    let mut moved: Vec<usize> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let words = &text[block.range.clone()];
        let is_prose = block.kind == NotesPartKind::Text && !words.starts_with(['|', '>']) && !words.contains("```");
        let mut ends = if is_prose { sentence_ends(words) } else { vec![words.len()] };
        let last_end = words.len();
        ends.retain(|end| *end == last_end || is_balanced(&words[..*end]));
        let mut start = block.range.start;
        for (sentence, end) in ends.into_iter().enumerate() {
            let range = start..block.range.start + end;
            start = range.end;
            let depends = sentence > 0 && depends_on_sentence_before(text[range.clone()].trim());
            let parent = if depends { parts.len().checked_sub(1) } else { block.parent.map(|parent| moved[parent]) };
            parts.push(NotesPart { range, parent, ..block.clone() });
        }
        moved.push(parts.len() - 1);
    }
    parts
}

/// Returns whether all quotations and brackets that a text opens end in it.
fn is_balanced(text: &str) -> bool {
    let count = |wanted: char| text.chars().filter(|c| *c == wanted).count();
    let pairs = [('“', '”'), ('«', '»'), ('(', ')'), ('[', ']')];
    count('"').is_multiple_of(2) && pairs.iter().all(|(open, close)| count(*open) <= count(*close))
}

/// Gives each part its heading and the topic of that heading. A heading with unknown words has the topic of the one
/// above it.
fn assign_topics(text: &str, parts: &mut [NotesPart]) {
    let mut open: Vec<(usize, usize, NotesTopic)> = Vec::new();
    for (at, part) in parts.iter_mut().enumerate() {
        if let NotesPartKind::Heading(level) = part.kind {
            open.retain(|(_, above, _)| *above < level);
            let above = open.last().map_or(NotesTopic::Unknown, |(.., topic)| *topic);
            // Whatever stands below the rules of people is read as a rule.
            let own = topic_of_heading(&text[part.range.clone()]).filter(|_| above != NotesTopic::Rules);
            let topic = own.unwrap_or(above);
            open.push((at, level, topic));
        }
        let above = open.last();
        part.heading = above.map(|(heading, ..)| *heading);
        part.topic = above.map_or(NotesTopic::Unknown, |(.., topic)| *topic);
    }
}

fn topic_of_heading(line: &str) -> Option<NotesTopic> {
    let line = line.to_lowercase();
    let words = line.trim_matches(|c: char| !c.is_alphanumeric());
    let contains = |word: &str| {
        let begins = |at: usize| !words[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        words.match_indices(word).any(|(at, _)| begins(at))
    };
    TOPICS.topic.iter().find(|row| row.words.iter().any(|word| contains(word))).map(|row| row.name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn notes(text: &str) -> Notes {
        Notes::parse(&Redacted::assume_redacted(text.to_owned()))
    }

    const TEXT: &str = "# Notes\n\nThe port was wrong. It is fixed now. The log is open.\n\n## Rules from the user\n- Never push.\n  - \
                        Not even tags.\n- Ask first:\n  ```sh\n  ask\n  ```\n\n## What was tried\nThree things:\n1. A cache.\n2. A lock, as in \
                        1.\n\n**Next**\nTest it.";

    fn without(words: &str) -> String {
        let notes = notes(TEXT);
        let gone = notes.parts().iter().position(|part| notes.text_of(part).contains(words)).unwrap();
        notes.keep(&|at| at != gone).text().as_str().to_owned()
    }

    #[test]
    fn parts_are_items_with_their_code_and_sentences() {
        let notes = notes(TEXT);
        let parts: Vec<(&str, NotesTopic)> =
            notes.parts().iter().map(|part| (notes.text_of(part).trim(), part.topic)).collect();
        assert_eq!(
            parts,
            [
                ("# Notes", NotesTopic::Findings),
                ("The port was wrong.", NotesTopic::Findings),
                ("It is fixed now.", NotesTopic::Findings),
                ("The log is open.", NotesTopic::Findings),
                ("## Rules from the user", NotesTopic::Rules),
                ("- Never push.", NotesTopic::Rules),
                ("- Not even tags.", NotesTopic::Rules),
                ("- Ask first:\n  ```sh\n  ask\n  ```", NotesTopic::Rules),
                ("## What was tried", NotesTopic::Decisions),
                ("Three things:", NotesTopic::Decisions),
                ("1. A cache.", NotesTopic::Decisions),
                ("2. A lock, as in 1.", NotesTopic::Decisions),
                ("**Next**", NotesTopic::Remaining),
                ("Test it.", NotesTopic::Remaining),
            ]
        );
    }

    #[test]
    fn a_part_goes_with_what_depends_on_it_and_a_heading_with_its_last_part() {
        assert!(without("The log").contains("It is fixed now. \n\n## Rules"));
        let gone = without("The port");
        assert!(gone.starts_with("# Notes\n\nThe log is open.\n\n## Rules"), "{gone}");
        assert!(!without("Never push").contains("tags"));
        assert!(without("A cache").contains("Three things:\n2. A lock, as in 1."));
        assert!(without("Test it").ends_with("as in 1."));
        let list = notes("## State\n- The prices are:\n- 4 for a.\n- 5 for b.\n\n## Next\n- Go on.");
        assert_eq!(list.keep(&|at| at != 2 && at != 3).text().as_str(), "## Next\n- Go on.");
        assert!(list.keep(&|at| at != 2).text().as_str().contains("- The prices are:\n- 5 for b.\n\n## Next"));
        let bare = notes(TEXT).keep(&|at| at < 10);
        assert!(bare.text().as_str().ends_with("```"), "{}", bare.text());
    }

    #[test]
    fn a_quotation_with_several_sentences_is_one_part() {
        let notes =
            notes("She said: \"Yes. Go ahead. Thanks!\" Two are done. (One is not. It failed.) The rest is open.");
        let parts: Vec<&str> = notes.parts().iter().map(|part| notes.text_of(part).trim()).collect();
        assert_eq!(
            parts,
            ["She said: \"Yes. Go ahead. Thanks!\"", "Two are done.", "(One is not. It failed.)", "The rest is open.",]
        );
    }

    #[test]
    fn little_room_keeps_rules_before_what_was_tried() {
        let notes = notes(TEXT);
        let counter = crate::meter::Meter::for_model(&crate::models::find("gpt-5")).counter;
        let small = notes.fit(Tokens(24), counter, Weights::fitted(), KeptWords::default);
        assert!(counter.count(small.text().as_str()) <= Tokens(24));
        let words = small.text().as_str();
        assert!(words.contains("## Rules from the user") && !words.contains("cache"), "{words}");
        assert_eq!(notes.fit(Tokens(1_000), counter, Weights::fitted(), KeptWords::default), notes);
    }

    proptest! {
        #[test]
        fn parts_are_the_whole_text(text in "((#|##|-|1\\.|```|\\||  -|\\*\\*a\\*\\*)? ?[a-z.:!? `é日]{0,20}\n{0,2}){0,12}") {
            let notes = notes(&text);
            let joined: String = notes.parts().iter().map(|part| notes.text_of(part)).collect();
            prop_assert_eq!(&joined, notes.text().as_str());
            let kept = notes.keep(&|_| true);
            prop_assert_eq!(kept.text(), notes.text());
            let half = notes.keep(&|at| at % 2 == 0);
            prop_assert!(half.text().as_str().len() <= notes.text().as_str().len());
        }
    }
}
