//! What the assistant's text says of its work, read from the text alone.

use crate::lines::clip;

use super::SaidKind;
use super::names::{self, Sense};
use super::phrases::{List, Marks, TABLE};
use super::prose::{Place, Sentence, sentences};
use super::todo::{self, Item};

/// So much of a reply answers a question.
const ANSWER: usize = 400;

/// No reply decides more, or announces more of a kind.
const MOST_DECISIONS: usize = 6;
const MOST_SAID: usize = 3;
const MOST_LISTED: usize = 10;

/// A sentence shorter or longer than this is no decision.
const DECISION_LENGTH: std::ops::RangeInclusive<usize> = 20..=500;

/// A finding says what it found, and takes some words for it.
const FINDING_WORDS: usize = 7;

/// So many sentences at the end may ask for something.
const LAST_WORDS: usize = 6;
const OPENING_SENTENCES: usize = 4;

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
    /// How it leaves the turn, if nothing is done in it.
    pub(super) leaves: Leaves,
    pub(super) todo: Vec<Item>,
    pub(super) names: Vec<u64>,
}

/// How a reply leaves a turn; the later in this list, the more it says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leaves {
    /// There are no words in it.
    #[default]
    Silent,
    /// It ends by announcing what comes.
    Announcing,
    /// It says something else.
    Speaking,
    /// It says that it cannot go on.
    Blocked,
    /// It says that something was done.
    Reporting,
}

/// A decision, before it is known where it was made.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) text: String,
    pub(super) reason: Option<String>,
    pub(super) names: Vec<u64>,
    pub(super) sense: Sense,
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
        let marks: Vec<Marks> = sentences.iter().map(|sentence| TABLE.marks(sentence.text)).collect();
        let mut told = Self {
            opening: opening(&sentences, &marks),
            todo: todo::checklist(text),
            names: names::names(text),
            ..Self::default()
        };
        let mut heading: Option<SaidKind> = None;
        for (sentence, marks) in sentences.iter().zip(&marks) {
            heading = told.hear(*sentence, *marks, heading);
            told.decide(*sentence, *marks);
        }
        let newest = sentences.len().saturating_sub(LAST_WORDS);
        for (sentence, marks) in sentences.iter().zip(&marks).skip(newest) {
            told.ask(*sentence, *marks);
        }
        let last = sentences.last().zip(marks.last()).and_then(|(sentence, marks)| kind(*sentence, *marks));
        told.leaves = told.leaves.max(match text.trim_end() {
            "" => Leaves::Silent,
            text if text.ends_with(':') || matches!(last, Some(SaidKind::Doing | SaidKind::Next)) => {
                Leaves::Announcing
            }
            _ => Leaves::Speaking,
        });
        told
    }

    /// Takes in one sentence; gives the heading that list items below it stand under.
    fn hear(&mut self, sentence: Sentence<'_>, marks: Marks, heading: Option<SaidKind>) -> Option<SaidKind> {
        let kind = kind(sentence, marks);
        self.leaves = self.leaves.max(match kind {
            Some(SaidKind::Done) => Leaves::Reporting,
            Some(SaidKind::Blocked) => Leaves::Blocked,
            _ => Leaves::Silent,
        });
        if sentence.leads() || sentence.place == Place::Heading {
            return kind.filter(|kind| matches!(kind, SaidKind::Next | SaidKind::Blocked));
        }
        let under = heading.filter(|_| sentence.place == Place::Item);
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

    fn decide(&mut self, sentence: Sentence<'_>, marks: Marks) {
        if !DECISION_LENGTH.contains(&sentence.text.len())
            || self.decisions.len() >= MOST_DECISIONS
            || sentence.is_question()
        {
            return;
        }
        let chooses = marks.has(List::Choice)
            && !marks.begins(List::Hedge)
            && (marks.begins(List::Choice) && !marks.begins(List::Doing) || marks.has(List::Reason));
        let finds = marks.has(List::Finding)
            && !marks.has(List::NotFinding)
            && !marks.has(List::Hedge)
            && sentence.text.split_whitespace().nth(FINDING_WORDS).is_some();
        if !(chooses || finds)
            || marks.has(List::Offer)
            || sentence.leads()
            || sentence.place == Place::Heading
        {
            return;
        }
        let reason = TABLE.first(List::Reason, sentence.text).filter(|at| at.start > 0);
        let reason = reason.map(|at| sentence.text[at.end..].trim().trim_end_matches(['.', '!']).to_owned());
        let reason = reason.filter(|reason| !reason.is_empty());
        let text = sentence.on_one_line().into_owned();
        self.decisions.push(Made { names: names::names(&text), sense: Sense::of(&text), text, reason });
    }

    /// Reads what one of the last sentences asks for.
    fn ask(&mut self, sentence: Sentence<'_>, marks: Marks) {
        let text = || clip(&sentence.on_one_line(), ANSWER).to_owned();
        if marks.has(List::AsksInput) {
            self.asks.push(text());
        } else if marks.has(List::Offer) {
            self.offer = Some(text());
        } else if sentence.is_question() {
            self.asks.push(text());
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

/// How the work stands by this sentence.
fn kind(sentence: Sentence<'_>, marks: Marks) -> Option<SaidKind> {
    let polite = marks.has(List::Offer) || marks.has(List::AsksInput) || sentence.is_question();
    match () {
        () if polite => None,
        () if marks.begins(List::Blocked) => Some(SaidKind::Blocked),
        () if marks.begins(List::Next) => Some(SaidKind::Next),
        () if marks.begins(List::Done) || has_done(sentence, marks) => Some(SaidKind::Done),
        () if marks.begins(List::Doing) => Some(SaidKind::Doing),
        () if marks.has(List::DoneAnywhere) && !marks.has(List::Contrast) => Some(SaidKind::Done),
        () => None,
    }
}

/// Whether it says "I have" with a deed behind it, not with a thing.
fn has_done(sentence: Sentence<'_>, marks: Marks) -> bool {
    const IRREGULAR: [&str; 14] = [
        "made",
        "written",
        "built",
        "run",
        "put",
        "set",
        "done",
        "rewritten",
        "cut",
        "split",
        "begun",
        "brought",
        "taken",
        "got",
    ];
    let participle = |word: &str| {
        word.len() > 4 && word.ends_with("ed") || IRREGULAR.contains(&word) || word.starts_with("ge")
    };
    if !marks.begins(List::HaveDone) {
        return false;
    }
    let behind = TABLE.first(List::HaveDone, sentence.text).map(|at| &sentence.text[at.end..]);
    let words = behind.map(|rest| rest.split_whitespace().take(3).collect::<Vec<_>>()).unwrap_or_default();
    words.iter().any(|word| participle(&word.to_lowercase()))
}

/// The first sentences that say something, and no more than a paragraph of them; items of a list only where there is nothing
/// else.
fn opening(sentences: &[Sentence<'_>], marks: &[Marks]) -> String {
    let says = |sentence: &Sentence<'_>, marks: &Marks| {
        let is_exclamation = marks.acknowledges && marks.has(List::Closing);
        !sentence.is_question() && sentence.place != Place::Heading && !sentence.leads() && !is_exclamation
    };
    let telling = || {
        sentences
            .iter()
            .zip(marks)
            .filter(|(sentence, marks)| says(sentence, marks))
            .map(|(sentence, _)| sentence)
    };
    let has_prose = telling().any(|sentence| sentence.place == Place::Paragraph);
    let shown = telling().filter(|sentence| !has_prose || sentence.place == Place::Paragraph);
    let mut opening = String::new();
    for sentence in shown.take(OPENING_SENTENCES) {
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
