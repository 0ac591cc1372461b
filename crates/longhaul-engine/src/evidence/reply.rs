//! What the assistant's text says of its work, read from the text alone.

use crate::lines::clip;

use super::SaidKind;
use super::names;
use super::phrases::{List, TABLE};
use super::prose::{Sentence, sentences};
use super::todo::{self, Item};

/// So much of a reply answers a question.
const ANSWER: usize = 400;

/// No reply decides more, or announces more of a kind.
const MOST_DECISIONS: usize = 6;
const MOST_SAID: usize = 3;
const MOST_LISTED: usize = 10;

/// A sentence shorter or longer than this is no decision.
const DECISION_LENGTH: std::ops::RangeInclusive<usize> = 20..=500;

/// What a reply says.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Its first sentences.
    pub(super) opening: String,
    pub(super) decisions: Vec<Made>,
    pub(super) said: Vec<Announced>,
    /// What it asks at its end.
    pub(super) asks: Vec<String>,
    /// What it offers to do, at its end.
    pub(super) offer: Option<String>,
    /// Whether it says that something was done.
    pub(super) reports: bool,
    /// Whether it says that it cannot go on.
    pub(super) is_blocked: bool,
    /// Whether it ends by announcing what comes.
    pub(super) announces: bool,
    pub(super) is_empty: bool,
    pub(super) todo: Vec<Item>,
    pub(super) names: Vec<u64>,
}

/// A decision, before it is known where it was made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) text: String,
    pub(super) reason: Option<String>,
    pub(super) names: Vec<u64>,
}

/// What is said of the work.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) text: String,
    pub(super) kind: SaidKind,
    pub(super) names: Vec<u64>,
}

impl Told {
    pub(super) fn of(text: &str) -> Self {
        let sentences = sentences(text);
        let mut told = Self {
            opening: opening(&sentences),
            is_empty: text.trim().is_empty(),
            todo: todo::checklist(text),
            names: names::names(text),
            ..Self::default()
        };
        let mut heading: Option<SaidKind> = None;
        for (at, sentence) in sentences.iter().enumerate() {
            let is_last = at + 1 == sentences.len();
            heading = told.hear(*sentence, heading, is_last);
        }
        told.announces |= text.trim_end().ends_with(':');
        told.ask(&sentences);
        told
    }

    /// Takes in one sentence; gives the heading that list items below it stand under.
    fn hear(&mut self, sentence: Sentence<'_>, heading: Option<SaidKind>, is_last: bool) -> Option<SaidKind> {
        let marks = TABLE.marks(sentence.text);
        let kind = if sentence.is_question() {
            None
        } else if marks.begins(List::Blocked) || (marks.has(List::Blocked) && marks.begins(List::Doing)) {
            Some(SaidKind::Blocked)
        } else if marks.begins(List::Next) {
            Some(SaidKind::Next)
        } else if marks.begins(List::Done) || (marks.has(List::Done) && is_first_of(self, SaidKind::Done)) {
            Some(SaidKind::Done)
        } else if marks.begins(List::Doing) {
            Some(SaidKind::Doing)
        } else {
            None
        };
        self.reports |= kind == Some(SaidKind::Done);
        self.is_blocked |= kind == Some(SaidKind::Blocked);
        self.announces = is_last && matches!(kind, Some(SaidKind::Doing)) && !marks.has(List::Offer);
        self.decide(sentence);
        if sentence.text.ends_with([':', '：']) && !sentence.in_list {
            return kind
                .filter(|kind| matches!(kind, SaidKind::Next | SaidKind::Blocked))
                .or(heading.filter(|_| kind.is_none()));
        }
        let under = heading.filter(|_| sentence.in_list);
        if let Some(kind) = under.or(kind) {
            self.say(kind, sentence, if under.is_some() { MOST_LISTED } else { MOST_SAID });
        }
        under
    }

    fn say(&mut self, kind: SaidKind, sentence: Sentence<'_>, most: usize) {
        let text = clip(&sentence.on_one_line(), ANSWER).to_owned();
        let so_far = self.said.iter().filter(|other| other.kind == kind).count();
        if kind == SaidKind::Doing && so_far > 0 {
            // What is said last is what is being done.
            self.said.retain(|other| other.kind != kind);
        } else if so_far >= most {
            return;
        }
        self.said.push(Announced { names: names::names(&text), text, kind });
    }

    fn decide(&mut self, sentence: Sentence<'_>) {
        if !DECISION_LENGTH.contains(&sentence.text.len())
            || self.decisions.len() >= MOST_DECISIONS
            || sentence.is_question()
        {
            return;
        }
        let marks = TABLE.marks(sentence.text);
        let chooses = marks.has(List::Choice)
            && (marks.begins(List::Choice) && !marks.begins(List::Doing) || marks.has(List::Reason));
        let finds = marks.has(List::Finding) && !sentence.text.ends_with(':');
        if !(chooses || finds) || marks.has(List::Offer) {
            return;
        }
        let reason = TABLE.first(List::Reason, sentence.text).filter(|at| at.start > 0);
        let reason = reason.map(|at| sentence.text[at.end..].trim().trim_end_matches(['.', '!']).to_owned());
        let reason = reason.filter(|reason| !reason.is_empty());
        let text = sentence.on_one_line().into_owned();
        self.decisions.push(Made { names: names::names(&text), text, reason });
    }

    /// Reads what the last sentences ask for.
    fn ask(&mut self, sentences: &[Sentence<'_>]) {
        for sentence in sentences.iter().rev().take(6).rev() {
            let marks = TABLE.marks(sentence.text);
            let text = || clip(&sentence.on_one_line(), ANSWER).to_owned();
            if marks.has(List::Offer) {
                self.offer = Some(text());
            } else if sentence.is_question() {
                self.asks.push(text());
            }
        }
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        let decisions: usize =
            self.decisions.iter().map(|made| 2 * made.text.len() + 8 * made.names.len()).sum();
        let said: usize = self.said.iter().map(|said| said.text.len() + 8 * said.names.len()).sum();
        let rest: usize = self.asks.iter().chain(&self.offer).map(String::len).sum();
        let todo: usize = self.todo.iter().map(|item| item.text.len()).sum();
        self.opening.len() + decisions + said + rest + todo + self.names.len() * 8 + 200
    }
}

fn is_first_of(told: &Told, kind: SaidKind) -> bool {
    !told.said.iter().any(|other| other.kind == kind)
}

fn opening(sentences: &[Sentence<'_>]) -> String {
    let mut opening = String::new();
    for sentence in sentences.iter().filter(|sentence| !sentence.is_question()) {
        if !opening.is_empty() && opening.len() + sentence.text.len() > ANSWER {
            break;
        }
        if !opening.is_empty() {
            opening.push(' ');
        }
        opening.push_str(clip(&sentence.on_one_line(), ANSWER));
    }
    opening
}
