//! Who asked for what, and what became of it: the units in order, as turns of a user and an assistant.
//!
//! A request is pending until a turn ends in a report; the report closes all that is pending, unless the user says at once
//! that it is not so. Taking it back cancels it. What is still pending at the end is open.

use crate::action::Touched;
use crate::lines::clip;

use super::exchange::{Did, Ending};
use super::names::{self, shared};
use super::phrases::{List, TABLE};
use super::prompt::{self, Speech, Spoken, Utterance};
use super::replaced::replaces;
use super::reply::{Leaves, Told};
use super::{Ask, Asker, OnceOnly, Question, Request, RequestState, Reversal, Rule, SaidKind, Uses};

/// So much of an answer is kept.
const ANSWER: usize = 400;

/// A request with more telling words than this is not taken back by a word about one of its details.
const DETAILED: usize = 8;

/// A reversal is about one of so many newest requests or rules: looking further back would cost more the longer a session is.
const RECENT: usize = 64;

/// In a prompt with more sentences than this, only the first take something back: the rest is a task of its own.
const BRIEF: usize = 8;
const OPENING: usize = 3;

/// How a turn of the assistant stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Turn {
    /// Nothing was asked for yet.
    Idle,
    /// It goes on, or was broken off.
    Working,
    /// It ended with words, in this unit, perhaps with an offer.
    Reported { unit: usize, offer: Option<String>, word: Word },
    /// It ended in a question or an obstacle.
    Waiting,
}

/// What the last words of a turn say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// That something was done.
    Done,
    /// Something else, which may be all that was wanted.
    Said,
}

/// What users said and what became of it.
pub(super) struct Turns {
    pub(super) requests: Vec<Request>,
    pub(super) rules: Vec<Rule>,
    pub(super) once_only: Vec<OnceOnly>,
    pub(super) questions: Vec<Question>,
    pub(super) reversals: Vec<Reversal>,
    pub(super) replacements: Vec<String>,
    /// Units whose reply closed all that was pending.
    pub(super) closings: Vec<usize>,
    /// The telling words of each request and rule.
    request_words: Vec<Vec<u64>>,
    rule_words: Vec<Vec<u64>>,
    pending: Vec<usize>,
    turn: Turn,
    has_open_todo: bool,
    /// Whether a checkpoint stands before, which may hold requests open.
    continues: bool,
    /// The unit of the newest prompt.
    asked: usize,
    /// Whether anything was changed since.
    changed: bool,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            requests: Vec::new(),
            rules: Vec::new(),
            once_only: Vec::new(),
            questions: Vec::new(),
            reversals: Vec::new(),
            replacements: Vec::new(),
            closings: Vec::new(),
            request_words: Vec::new(),
            rule_words: Vec::new(),
            pending: Vec::new(),
            turn: Turn::Idle,
            has_open_todo: false,
            continues: false,
            asked: 0,
            changed: false,
        }
    }

    /// A checkpoint, which may hold requests open.
    pub(super) fn checkpoint(&mut self) {
        self.continues = true;
    }

    /// A user's prompt.
    pub(super) fn prompt(&mut self, unit: usize, spoken: &[&Spoken]) {
        let said: Vec<&Utterance> = spoken.iter().flat_map(|spoken| &spoken.sentences).collect();
        let has = |kinds: &[Speech]| said.iter().any(|said| kinds.contains(&said.kind));
        let text = spoken
            .iter()
            .map(|spoken| spoken.text.as_str())
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("\n\n");
        if text.is_empty() {
            return;
        }
        let was_waiting = self.turn == Turn::Waiting;
        self.answer_from_user(&text);
        let wants_something = said.iter().any(|said| said.kind.wants()) || said.is_empty();
        let wants_plainly = said.iter().any(|said| said.kind.wants_plainly());
        let resumes = has(&[Speech::Resume]) && !wants_plainly;
        let denies =
            said.iter().find(|said| said.kind.wants()).is_some_and(|said| said.kind == Speech::Denial);
        let (reported, offer) = match &self.turn {
            Turn::Reported { offer, .. } => (true, offer.clone()),
            _ => (false, None),
        };
        let has_open = !self.pending.is_empty() || self.continues && self.requests.is_empty();
        if !(denies || resumes && has_open) {
            self.settle();
        }
        self.take_back(unit, &said, was_waiting);
        self.keep_rules(unit, &said);
        let accepts = offer.filter(|_| has(&[Speech::Yes]) && !wants_something);
        // Words that only go with what was said before: an answer, thanks with a remark, go on.
        let goes_with =
            !wants_plainly && (was_waiting || reported && has(&[Speech::Thanks]) || resumes && has_open);
        if let Some(offer) = accepts {
            let gist = format!("{text} (to: {offer})");
            self.request(unit, text, gist, Ask::Task);
        } else if (wants_something || resumes) && !goes_with {
            let demands = said.iter().any(|said| said.kind.wants_plainly() && said.kind != Speech::Question);
            let ask = match (has(&[Speech::Question]), demands) {
                (true, true) => Ask::Both,
                (true, false) if !has(&[Speech::Statement]) => Ask::Question,
                _ => Ask::Task,
            };
            let gist = prompt::gist(said.iter().copied());
            let gist = if gist.is_empty() { clip(&text, ANSWER).to_owned() } else { gist };
            self.request(unit, text, gist, ask);
        }
        (self.asked, self.changed) = (unit, false);
        let asked = said.iter().filter(|said| said.kind == Speech::Question);
        self.questions.extend(asked.map(|said| Question {
            unit,
            by: Asker::User,
            text: said.text.clone(),
            answer: None,
            uses: Uses::default(),
        }));
        self.turn = if self.pending.is_empty() { Turn::Idle } else { Turn::Working };
    }

    fn request(&mut self, unit: usize, text: String, gist: String, ask: Ask) {
        self.pending.push(self.requests.len());
        self.request_words.push(names::telling(&gist));
        self.has_open_todo = false;
        self.requests.push(Request {
            unit,
            text,
            gist,
            ask,
            state: RequestState::Open,
            settled: None,
            uses: Uses::default(),
        });
    }

    fn keep_rules(&mut self, unit: usize, said: &[&Utterance]) {
        for said in said {
            self.replace_rules(said);
            match said.kind {
                Speech::Rule if !self.rules.iter().rev().take(RECENT).any(|rule| rule.text == said.text) => {
                    self.rule_words.push(names::telling(&said.text));
                    self.rules.push(Rule { unit, text: said.text.clone(), uses: Uses::default() });
                }
                Speech::OnceOnly => {
                    self.once_only.push(OnceOnly { unit, text: said.text.clone(), uses: Uses::default() });
                }
                _ => {}
            }
        }
    }

    /// Drops the rules that a sentence puts something else in the place of.
    fn replace_rules(&mut self, said: &Utterance) {
        if !said.replaces || !matches!(said.kind, Speech::Rule | Speech::Demand | Speech::Replacement) {
            return;
        }
        let stays: Vec<bool> = self.rules.iter().map(|rule| !replaces(&said.text, &rule.text)).collect();
        let mut keep = stays.iter();
        self.rules.retain(|_| keep.next().is_none_or(|stays| *stays));
        let mut keep = stays.iter();
        self.rule_words.retain(|_| keep.next().is_none_or(|stays| *stays));
        self.replacements.push(said.text.clone());
    }

    /// The newest prompt answers what the assistant asked.
    fn answer_from_user(&mut self, text: &str) {
        let open = self
            .questions
            .iter_mut()
            .rev()
            .take_while(|question| question.by == Asker::Assistant && question.answer.is_none());
        for question in open {
            question.answer = Some(clip(text, ANSWER).to_owned());
        }
    }

    /// Cancels what the user takes back or wants replaced.
    fn take_back(&mut self, unit: usize, said: &[&Utterance], was_waiting: bool) {
        let opening = if said.len() <= BRIEF { said } else { &said[..OPENING] };
        for (at, said) in opening.iter().enumerate() {
            match said.kind {
                Speech::Reversal => {
                    let about = about(&said.text);
                    let cancels =
                        self.withdraw_rule(&about).map_or_else(|| self.cancelled_by(&about, at), |()| None);
                    self.reversals.push(Reversal {
                        unit,
                        text: said.text.clone(),
                        cancels: cancels.map(|at| self.requests[at].unit),
                    });
                    if let Some(request) = cancels {
                        self.cancel(request, unit);
                    }
                }
                Speech::Undo => {
                    let newest = self.requests.len().checked_sub(1);
                    let cancels = newest.filter(|at| self.requests[*at].state != RequestState::Cancelled);
                    self.reversals.push(Reversal {
                        unit,
                        text: said.text.clone(),
                        cancels: cancels.map(|at| self.requests[at].unit),
                    });
                    if let Some(request) = cancels {
                        self.cancel(request, unit);
                    }
                }
                Speech::Replacement if !was_waiting => {
                    if let Some(request) = self.pending.last().copied() {
                        self.cancel(request, unit);
                    }
                }
                _ => {}
            }
        }
    }

    fn cancel(&mut self, request: usize, unit: usize) {
        self.pending.retain(|at| *at != request);
        self.requests[request].state = RequestState::Cancelled;
        self.requests[request].settled = Some(unit);
    }

    /// Drops the rule that a reversal names, if it names one rather than a request.
    fn withdraw_rule(&mut self, about: &[u64]) -> Option<()> {
        let hits = |(at, words): (usize, &Vec<u64>)| (at, shared(about, words));
        let newest = |lists: &[Vec<u64>]| {
            lists.iter().enumerate().rev().take(RECENT).map(hits).max_by_key(|(_, hits)| *hits)
        };
        let (at, best) = newest(&self.rule_words)?;
        let requests = newest(&self.request_words).map_or(0, |(_, hits)| hits);
        (best > 0 && best > requests && 2 * best >= about.len()).then(|| {
            self.rules.remove(at);
            self.rule_words.remove(at);
        })
    }

    /// The request that a reversal is about: the one that it names, or the newest.
    fn cancelled_by(&self, about: &[u64], place: usize) -> Option<usize> {
        let newest = self.request_words.iter().enumerate().rev().take(RECENT);
        let alive = newest.filter(|(at, _)| self.requests[*at].state != RequestState::Cancelled);
        let named =
            alive.map(|(at, words)| (at, shared(about, words), words.len())).filter(|(_, hits, _)| *hits > 0);
        if let Some((at, hits, words)) = named.max_by_key(|(at, hits, _)| (*hits, *at)) {
            return (words <= DETAILED || hits * 4 >= words).then_some(at);
        }
        // Words about something that no request names take back nothing that was asked for.
        self.pending.last().copied().filter(|_| about.len() <= 2 && place < OPENING)
    }

    /// A reply of the assistant with what it did.
    pub(super) fn step(&mut self, unit: usize, told: &[&Told], did: &[&Did]) {
        for todo in did.iter().map(|did| &did.todo).filter(|todo| !todo.is_empty()) {
            self.has_open_todo = todo.iter().any(|item| item.kind != SaidKind::Done);
        }
        for did in did {
            self.changed |= did.action.files.iter().any(|touch| touch.how != Touched::Read);
            match &did.ending {
                Ending::None => self.turn = Turn::Working,
                Ending::Finishes => {
                    self.turn = Turn::Reported { unit, offer: None, word: Word::Done };
                }
                Ending::Asks(question) => {
                    self.turn = Turn::Waiting;
                    let text = question.clone();
                    self.questions.push(Question {
                        unit,
                        by: Asker::Assistant,
                        text,
                        answer: None,
                        uses: Uses::default(),
                    });
                }
            }
        }
        let told: Vec<&&Told> = told.iter().filter(|told| told.leaves != Leaves::Silent).collect();
        let Some(last) = told.last().filter(|_| did.is_empty()) else { return };
        let reports = told.iter().any(|told| told.leaves == Leaves::Reporting);
        let is_blocked = told.iter().any(|told| told.leaves == Leaves::Blocked);
        if last.leaves == Leaves::Announcing && !reports {
            self.turn = Turn::Working;
            return;
        }
        self.answer_from_assistant(&told);
        let asked = last.asks.iter().map(|text| Question {
            unit,
            by: Asker::Assistant,
            text: text.clone(),
            answer: None,
            uses: Uses::default(),
        });
        self.questions.extend(asked);
        self.turn = if !reports && (!last.asks.is_empty() || is_blocked) {
            Turn::Waiting
        } else {
            Turn::Reported {
                unit,
                offer: last.offer.clone(),
                word: if reports { Word::Done } else { Word::Said },
            }
        };
    }

    /// The words that end a turn answer what its prompt asks. Where the prompt wants more than an answer, or the words ask
    /// something themselves, they must speak of what the question speaks of: no answer is better than a wrong one.
    fn answer_from_assistant(&mut self, told: &[&&Told]) {
        let Some(answer) = told.iter().map(|told| &told.opening).find(|opening| !opening.is_empty()) else {
            return;
        };
        let asked = self.asked;
        let only_answers = told.iter().all(|told| told.asks.is_empty())
            && self.requests.last().is_some_and(|newest| newest.unit == asked && newest.ask == Ask::Question);
        let words = names::telling(answer);
        let open = self.questions.iter_mut().rev().take_while(|question| question.unit >= asked);
        for question in open.filter(|question| question.by == Asker::User) {
            if only_answers || shared(&names::telling(&question.text), &words) > 0 {
                question.answer = Some(answer.clone());
            }
        }
    }

    /// Closes what the words at the end of the turn close.
    fn settle(&mut self) {
        let Turn::Reported { unit, word, .. } = self.turn else { return };
        let newest = self.pending.last().map(|at| (self.requests[*at].unit, self.requests[*at].ask));
        let is_answer = word == Word::Said && newest.is_some_and(|(_, ask)| ask == Ask::Question);
        let closes = |request: &Request| match word {
            Word::Done => true,
            // A question between two steps of a task does not end the task.
            Word::Said if is_answer => newest.is_some_and(|(unit, _)| unit == request.unit),
            Word::Said => request.ask != Ask::Both || self.changed,
        };
        for at in self.pending.extract_if(.., |at| closes(&self.requests[*at])).collect::<Vec<_>>() {
            self.requests[at].state = RequestState::Done;
            self.requests[at].settled = Some(unit);
        }
        if self.pending.is_empty() && !is_answer {
            self.closings.push(unit);
        }
    }

    /// The transcript is over: a report at its end closes what it reports on, unless its own list says that work is left.
    pub(super) fn end(&mut self) {
        if !self.has_open_todo {
            self.settle();
        }
    }
}

/// What a reversal is about: its telling words, besides those that take something back.
pub(super) fn about(reversal: &str) -> Vec<u64> {
    let lists = [List::Reversal, List::ReversalAnywhere, List::ReversalWhole];
    names::telling(&TABLE.without(&lists, reversal))
}
