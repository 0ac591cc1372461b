//! Who asked for what, and what became of it: the units in order, as turns of a user and an assistant.
//!
//! A request is pending until a turn ends in a report; the report closes all that is pending, unless the user says at once
//! that it is not so. Taking it back cancels it. What is still pending at the end is open.

use crate::lines::clip;

use super::exchange::{Did, Ending};
use super::names::{self, shared};
use super::phrases::{List, TABLE};
use super::prompt::{self, Speech, Spoken, Utterance};
use super::reply::Told;
use super::{Ask, Asker, OnceOnly, Question, Request, RequestState, Reversal, Rule, SaidKind, Uses};

/// So much of an answer is kept.
const ANSWER: usize = 400;

/// A request with more telling words than this is not taken back by a word about one of its details.
const DETAILED: usize = 8;

/// A reversal is about one of so many newest requests or rules: looking further back would cost more the longer a session is.
const RECENT: usize = 64;

/// How a turn of the assistant stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Turn {
    /// Nothing was asked for yet.
    Idle,
    /// It goes on, or was broken off.
    Working,
    /// It ended in a report, in this unit, perhaps with an offer.
    Reported { unit: usize, offer: Option<String> },
    /// It ended in a question or an obstacle.
    Waiting,
}

/// What users said and what became of it.
pub(super) struct Turns {
    pub(super) requests: Vec<Request>,
    pub(super) rules: Vec<Rule>,
    pub(super) once_only: Vec<OnceOnly>,
    pub(super) questions: Vec<Question>,
    pub(super) reversals: Vec<Reversal>,
    /// Units whose reply closed all that was pending.
    pub(super) closings: Vec<usize>,
    pending: Vec<usize>,
    turn: Turn,
    has_open_todo: bool,
    /// The unit of the newest prompt.
    asked: usize,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self {
            requests: Vec::new(),
            rules: Vec::new(),
            once_only: Vec::new(),
            questions: Vec::new(),
            reversals: Vec::new(),
            closings: Vec::new(),
            pending: Vec::new(),
            turn: Turn::Idle,
            has_open_todo: false,
            asked: 0,
        }
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
        self.keep_rules(unit, &said);
        let wants_something = said.iter().any(|said| said.kind.wants()) || said.is_empty();
        let wants_plainly = said.iter().any(|said| said.kind.wants_plainly());
        let resumes = has(&[Speech::Resume]) && !wants_plainly;
        let denies =
            said.iter().find(|said| said.kind.wants()).is_some_and(|said| said.kind == Speech::Denial);
        let (reported, offer) = match &self.turn {
            Turn::Reported { offer, .. } => (true, offer.clone()),
            _ => (false, None),
        };
        if !(denies || resumes && !self.pending.is_empty()) {
            self.settle();
        }
        self.take_back(unit, &said, was_waiting);
        let accepts = offer.filter(|_| has(&[Speech::Yes]) && !wants_something);
        // Words that only go with what was said before: an answer, thanks with a remark, go on.
        let goes_with = !wants_plainly
            && (was_waiting || reported && has(&[Speech::Thanks]) || resumes && !self.pending.is_empty());
        if let Some(offer) = accepts {
            let gist = format!("{text} (to: {offer})");
            self.request(unit, text, gist, Ask::Task);
        } else if (wants_something || resumes) && !goes_with {
            let other = |said: &&&Utterance| said.kind.wants() && said.kind != Speech::Question;
            let only_questions = has(&[Speech::Question]) && !said.iter().any(|said| other(&said));
            let gist = prompt::gist(said.iter().copied());
            let gist = if gist.is_empty() { clip(&text, ANSWER).to_owned() } else { gist };
            self.request(unit, text, gist, if only_questions { Ask::Question } else { Ask::Task });
        }
        self.asked = unit;
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
            match said.kind {
                Speech::Rule if !self.rules.iter().rev().take(RECENT).any(|rule| rule.text == said.text) => {
                    self.rules.push(Rule { unit, text: said.text.clone(), uses: Uses::default() });
                }
                Speech::OnceOnly => {
                    self.once_only.push(OnceOnly { unit, text: said.text.clone(), uses: Uses::default() })
                }
                _ => {}
            }
        }
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
        for (at, said) in said.iter().enumerate() {
            match said.kind {
                Speech::Reversal => {
                    let about =
                        names::telling(&TABLE.without(
                            &[List::Reversal, List::ReversalAnywhere, List::ReversalWhole],
                            &said.text,
                        ));
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
        let hits = |text: &str| shared(about, &names::telling(text));
        let (at, best) = self
            .rules
            .iter()
            .enumerate()
            .rev()
            .take(RECENT)
            .map(|(at, rule)| (at, hits(&rule.text)))
            .max_by_key(|(_, hits)| *hits)?;
        let requests =
            self.requests.iter().rev().take(RECENT).map(|request| hits(&request.gist)).max().unwrap_or(0);
        (best > 0 && best > requests && 2 * best >= about.len()).then(|| drop(self.rules.remove(at)))
    }

    /// The request that a reversal is about: the one that it names, or the newest.
    fn cancelled_by(&self, about: &[u64], place: usize) -> Option<usize> {
        let alive = || {
            self.requests
                .iter()
                .enumerate()
                .rev()
                .take(RECENT)
                .filter(|(_, request)| request.state != RequestState::Cancelled)
        };
        let named = alive().map(|(at, request)| (at, names::telling(&request.gist)));
        let named = named
            .map(|(at, words)| (at, shared(about, &words), words.len()))
            .filter(|(_, hits, _)| *hits > 0);
        if let Some((at, hits, words)) = named.max_by_key(|(at, hits, _)| (*hits, *at)) {
            return (words <= DETAILED || hits * 4 >= words).then_some(at);
        }
        // Words about something that no request names take back nothing that was asked for.
        self.pending.last().copied().filter(|_| about.len() <= 2 && place < 3)
    }

    /// A reply of the assistant with what it did.
    pub(super) fn step(&mut self, unit: usize, told: &[&Told], did: &[&Did]) {
        for todo in did.iter().map(|did| &did.todo).filter(|todo| !todo.is_empty()) {
            self.has_open_todo = todo.iter().any(|item| item.kind != SaidKind::Done);
        }
        for did in did {
            match &did.ending {
                Ending::None => self.turn = Turn::Working,
                Ending::Finishes => self.turn = Turn::Reported { unit, offer: None },
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
        let told: Vec<&&Told> = told.iter().filter(|told| !told.is_empty).collect();
        self.answer_from_assistant(&told);
        let Some(last) = told.last().filter(|_| did.is_empty()) else { return };
        let reports = told.iter().any(|told| told.reports);
        let is_blocked = told.iter().any(|told| told.is_blocked) && !reports;
        if last.announces && !reports {
            self.turn = Turn::Working;
            return;
        }
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
            Turn::Reported { unit, offer: last.offer.clone() }
        };
    }

    /// The newest words of the turn answer what the newest prompt asks: what is said before the work is done is an answer only
    /// where nothing follows.
    fn answer_from_assistant(&mut self, told: &[&&Told]) {
        let Some(answer) = told.iter().map(|told| &told.opening).find(|opening| !opening.is_empty()) else {
            return;
        };
        let asked = self.asked;
        let open = self.questions.iter_mut().rev().take_while(|question| question.unit >= asked);
        for question in open.filter(|question| question.by == Asker::User) {
            question.answer = Some(answer.clone());
        }
    }

    /// Closes what is pending if the turn ended in a report.
    fn settle(&mut self) {
        let Turn::Reported { unit, .. } = self.turn else { return };
        self.closings.push(unit);
        for request in self.pending.drain(..) {
            self.requests[request].state = RequestState::Done;
            self.requests[request].settled = Some(unit);
        }
    }

    /// The transcript is over: a report at its end closes what it reports on, unless its own list says that work is left.
    pub(super) fn end(&mut self) {
        if !self.has_open_todo {
            self.settle();
        }
    }
}
