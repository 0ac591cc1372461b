//! The phrases by which a sentence is known for a rule, a reversal, a report: data, in several languages.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Deserialize;

/// A list of `phrases.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum List {
    Filler,
    Standing,
    StandingAnywhere,
    Prohibition,
    ProhibitedDeed,
    HabitVerb,
    EveryOccasion,
    UseVerb,
    ForAll,
    EachOf,
    Obligation,
    Ensure,
    AlwaysNever,
    Only,
    NeverElse,
    Answering,
    Language,
    NotStanding,
    Once,
    Permission,
    Reversal,
    ReversalAnywhere,
    ReversalWhole,
    ReplaceVerb,
    Instead,
    InsteadOf,
    InPlaceOf,
    RatherThanBefore,
    Forbids,
    Closing,
    Continuing,
    Resume,
    AsksForDeed,
    Wish,
    Imperative,
    Contrast,
    Conditional,
    Thanking,
    Undo,
    OwnPlan,
    NotDone,
    Choice,
    Finding,
    NotFinding,
    Hedge,
    Reason,
    Next,
    Doing,
    Done,
    HaveDone,
    DoneAnywhere,
    Blocked,
    AsksInput,
    Offer,
}

impl List {
    pub(super) const fn bit(self) -> u64 {
        1 << self as u64
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    own_words: Vec<String>,
    host_tags: Vec<String>,
    relayed: Vec<String>,
    abbreviations: Vec<String>,
    finishing_tools: Vec<String>,
    finishing_commands: Vec<String>,
    asking_tools: Vec<String>,
    standing: Vec<Row>,
    lists: BTreeMap<List, Vec<String>>,
}

/// What makes a sentence a standing rule: how it begins, what follows at once, what stands anywhere in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    begins: Option<List>,
    then: Option<List>,
    has: Option<List>,
}

/// The tables of `phrases.toml`, ready to be searched for.
pub(super) struct Table {
    /// Tags that wrap a person's own words.
    pub(super) own_words: Vec<String>,
    /// Tags in which the program around the model speaks.
    pub(super) host_tags: Vec<String>,
    /// How texts open that a program writes under a person's name.
    pub(super) relayed: Vec<String>,
    pub(super) abbreviations: Vec<String>,
    /// Tools whose call ends a turn with a report.
    pub(super) finishing_tools: Vec<String>,
    /// What a command that ends the work has in it.
    pub(super) finishing_commands: Vec<String>,
    /// Tools whose call is a question to the user.
    pub(super) asking_tools: Vec<String>,
    standing: Vec<Row>,
    finder: Option<AhoCorasick>,
    phrases: Vec<Phrase>,
}

/// A phrase and the lists it stands in.
struct Phrase {
    lists: u64,
    /// Whether letters may follow, as in `emoji*`.
    is_stem: bool,
}

/// A phrase found in a sentence.
#[derive(Clone, Copy)]
struct Hit {
    start: usize,
    end: usize,
    lists: u64,
}

/// Which lists a sentence has phrases of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Marks {
    begins: u64,
    has: u64,
    whole: u64,
    /// Whether it is a rule that goes on being one.
    pub(super) stands: bool,
    /// Whether it says nothing but yes, thanks, go on.
    pub(super) acknowledges: bool,
    /// Where the words end that take something back, if it begins with such.
    pub(super) reversal_end: usize,
}

impl Marks {
    /// Whether the sentence begins with a phrase of the list, fillers apart.
    pub(super) fn begins(self, list: List) -> bool {
        self.begins & list.bit() != 0
    }

    /// Whether a phrase of the list stands anywhere.
    pub(super) fn has(self, list: List) -> bool {
        self.has & list.bit() != 0
    }

    /// Whether the sentence is a phrase of the list and no more.
    pub(super) fn is(self, list: List) -> bool {
        self.whole & list.bit() != 0
    }
}

/// Read once; a test holds that the file is well formed.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml::from_str(include_str!("phrases.toml")).map_or_else(|_| Table::empty(), Table::new)
});

impl Table {
    fn empty() -> Self {
        let none = Vec::new;
        Self {
            own_words: none(),
            host_tags: none(),
            relayed: none(),
            abbreviations: none(),
            finishing_tools: none(),
            finishing_commands: none(),
            asking_tools: none(),
            standing: Vec::new(),
            finder: None,
            phrases: Vec::new(),
        }
    }

    fn new(data: Data) -> Self {
        let mut lists: BTreeMap<String, Phrase> = BTreeMap::new();
        for (list, phrases) in data.lists {
            for phrase in phrases {
                let is_stem = phrase.ends_with('*');
                let phrase = phrase.trim_end_matches('*').to_owned();
                for spelling in [phrase.replace('\'', "’"), phrase] {
                    let entry = lists.entry(spelling).or_insert(Phrase { lists: 0, is_stem });
                    entry.lists |= list.bit();
                }
            }
        }
        let mut finder = AhoCorasick::builder();
        finder.ascii_case_insensitive(true).match_kind(MatchKind::Standard);
        Self {
            own_words: data.own_words,
            host_tags: data.host_tags,
            relayed: data.relayed,
            abbreviations: data.abbreviations,
            finishing_tools: data.finishing_tools,
            finishing_commands: data.finishing_commands,
            asking_tools: data.asking_tools,
            standing: data.standing,
            finder: finder.build(lists.keys()).ok(),
            phrases: lists.into_values().collect(),
        }
    }

    /// What a sentence has of the lists.
    pub(super) fn marks(&self, sentence: &str) -> Marks {
        let hits = self.hits(sentence);
        if hits.is_empty() {
            return Marks::default();
        }
        let starts = starts(sentence, &hits);
        let mut marks = Marks::default();
        for hit in &hits {
            marks.has |= hit.lists;
            if starts.contains(&hit.start) {
                marks.begins |= hit.lists;
                if hit.lists & List::Reversal.bit() != 0 {
                    marks.reversal_end = marks.reversal_end.max(hit.end);
                }
                if !sentence[hit.end..].chars().any(char::is_alphanumeric) {
                    marks.whole |= hit.lists;
                }
            }
        }
        marks.stands = !marks.begins(List::NotStanding)
            && self.standing.iter().any(|row| row.holds(sentence, marks, &hits, &starts));
        marks.acknowledges = covers(sentence, &hits);
        marks
    }

    /// Where the first phrase of a list stands.
    pub(super) fn first(&self, list: List, sentence: &str) -> Option<Range<usize>> {
        let hits = self.hits(sentence);
        let first = hits.iter().filter(|hit| hit.lists & list.bit() != 0).min_by_key(|hit| hit.start)?;
        Some(first.start..first.end)
    }

    /// A sentence without the phrases of these lists.
    pub(super) fn without(&self, lists: &[List], sentence: &str) -> String {
        let mask = lists.iter().fold(0, |mask, list| mask | list.bit());
        let mut cut: Vec<Hit> = self.hits(sentence).into_iter().filter(|hit| hit.lists & mask != 0).collect();
        cut.sort_by_key(|hit| hit.start);
        let mut rest = String::new();
        let mut from = 0;
        for hit in cut {
            rest.push_str(sentence.get(from..hit.start).unwrap_or_default());
            from = from.max(hit.end);
        }
        rest.push_str(&sentence[from..]);
        rest
    }

    fn hits(&self, sentence: &str) -> Vec<Hit> {
        let Some(finder) = &self.finder else { return Vec::new() };
        let quoted = quoted(sentence);
        let found = finder.find_overlapping_iter(sentence).filter_map(|found| {
            let phrase = &self.phrases[found.pattern().as_usize()];
            let (start, end) = (found.start(), found.end());
            let is_word = stands_alone(sentence, start, end, phrase.is_stem);
            let is_own = !quoted.iter().any(|(from, to)| (*from..*to).contains(&start));
            (is_word && is_own).then_some(Hit { start, end, lists: phrase.lists })
        });
        found.collect()
    }
}

impl Row {
    fn holds(&self, sentence: &str, marks: Marks, hits: &[Hit], starts: &[usize]) -> bool {
        let begins = match (self.begins, self.then) {
            (None, _) => true,
            (Some(list), None) => marks.begins(list),
            (Some(list), Some(then)) => hits.iter().any(|first| {
                let follows = |next: &Hit| {
                    next.lists & then.bit() != 0
                        && next.start >= first.end
                        && sentence[first.end..next.start].trim().is_empty()
                };
                first.lists & list.bit() != 0 && starts.contains(&first.start) && hits.iter().any(follows)
            }),
        };
        begins && self.has.is_none_or(|list| marks.has(list))
    }
}

/// The offsets at which a sentence may be said to begin: its first word, and the first after each filler.
fn starts(sentence: &str, hits: &[Hit]) -> Vec<usize> {
    let word_from = |at: usize| sentence[at..].find(|c: char| c.is_alphanumeric()).map(|more| at + more);
    let mut starts = Vec::new();
    let mut next = word_from(0);
    while let Some(at) = next {
        starts.push(at);
        let filler = hits.iter().filter(|hit| hit.start == at && hit.lists & List::Filler.bit() != 0);
        next = filler.map(|hit| hit.end).max().and_then(word_from);
    }
    starts
}

/// Whether a sentence is made of acknowledgements and fillers alone, at least one of them an acknowledgement.
fn covers(sentence: &str, hits: &[Hit]) -> bool {
    let acknowledgement = List::Closing.bit() | List::Continuing.bit();
    let mut at = 0;
    let mut any = false;
    while let Some(word) = sentence[at..].find(|c: char| c.is_alphanumeric()).map(|more| at + more) {
        let here = hits
            .iter()
            .filter(|hit| hit.start == word && hit.lists & (acknowledgement | List::Filler.bit()) != 0);
        let Some(hit) = here.max_by_key(|hit| (hit.end, hit.lists & acknowledgement != 0)) else {
            return false;
        };
        any |= hit.lists & acknowledgement != 0;
        at = hit.end;
    }
    any
}

/// The pieces of a sentence in quotation marks or back ticks: not the writer's own voice.
fn quoted(sentence: &str) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut open: Option<(usize, char)> = None;
    for (at, character) in sentence.char_indices() {
        match open {
            Some((from, close)) if character == close => {
                pieces.push((from, at));
                open = None;
            }
            Some(_) => {}
            None => {
                let close = match character {
                    '"' | '`' => character,
                    '“' | '„' => '”',
                    '«' => '»',
                    '「' => '」',
                    _ => continue,
                };
                open = Some((at, close));
            }
        }
    }
    pieces
}

/// Whether what was found is words and not a part of one. Scripts without spaces have no such bounds.
fn stands_alone(text: &str, start: usize, end: usize, is_stem: bool) -> bool {
    let joins = |c: char| (c.is_alphanumeric() && c < '\u{2E80}') || c == '_';
    let before = text[..start].chars().next_back().is_some_and(|c| joins(c) || c == '-');
    let first = text[start..].chars().next().is_some_and(joins);
    let after = text[end..].chars().next().is_some_and(|c| joins(c) || c == '-');
    let last = text[..end].chars().next_back().is_some_and(joins);
    !(before && first) && (is_stem || !(after && last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed() {
        let data: Data = toml::from_str(include_str!("phrases.toml")).unwrap();
        let all = [List::Filler, List::Offer].map(|list| data.lists.contains_key(&list));
        assert_eq!((data.lists.len(), all), (List::Offer as usize + 1, [true, true]));
        assert!(data.lists.values().flatten().all(|phrase| phrase.trim() == phrase && !phrase.is_empty()));
        assert!(TABLE.finder.is_some());
    }

    #[test]
    fn phrases_are_whole_words_outside_quotes() {
        let begins = |text: &str| TABLE.marks(text).begins(List::Standing);
        assert!(begins("Ok, please always run the tests."));
        assert!(!begins("The words \"always\" and `never` mean little."));
        assert!(!begins("Alwaysland is a place."));
    }
}
