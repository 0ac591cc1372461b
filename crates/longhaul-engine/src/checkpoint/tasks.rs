//! What users want: the active task, the goal, asks that wait, rules.
//!
//! What the checkpoint before held open stays open until the evidence says that it was closed or taken back. A finished task
//! leaves the list for good: it is named among the actions, and the first request of all stays word for word under Goal.

use super::Section;
use super::actions::Line;
use super::clip::{clip, is_clipped_form_of};
use super::gather::{Gather, Need, Place};
use crate::evidence::{Ask, RequestState, Uses, replaces};
use crate::redact::Redacted;

/// Characters of a request whose full text stays in the transcript anyway.
const IN_PLACE: usize = 300;
/// What Goal says while the task is the first request itself.
const SAME_AS_TASK: &str = "The active task: it is the first request.";
/// Before what a user allowed once.
const ONCE: &str = "Once only, not a standing rule: ";

impl Gather<'_> {
    /// The newest open request is the task; older ones are asks that wait.
    pub(super) fn tasks(&mut self) {
        let evidence = self.evidence;
        let mut open = self.still_open();
        let newest = evidence.requests.iter().rposition(|request| request.state == RequestState::Open);
        for (index, request) in evidence.requests.iter().enumerate() {
            if request.state != RequestState::Open {
                continue;
            }
            if self.folded(request.unit) {
                open.push((request.text.clone(), request.uses));
            } else if Some(index) == newest {
                let whole = request.text.chars().count() <= IN_PLACE || request.gist.trim().is_empty();
                let words = self.redact(if whole { &request.text } else { &request.gist });
                open.push((clip(words.as_str(), IN_PLACE), request.uses));
            }
        }
        let task = open.pop();
        if let Some((text, uses)) = &task {
            self.add(Section::ActiveTask, text, Need::Must, *uses);
        }
        for (text, uses) in open {
            self.add(Section::PendingUserAsks, &text, Need::Must, uses);
        }
        self.goal(task.as_ref().map_or("", |(text, _)| text));
    }

    /// What the checkpoint before held open and nothing ended. What the transcript still shows is told by its own evidence.
    fn still_open(&mut self) -> Vec<(String, Uses)> {
        let evidence = self.evidence;
        let texts: Vec<Redacted> =
            evidence.requests.iter().map(|request| self.redact(&request.text)).collect();
        let first = self.first_request().to_owned();
        let mut open = Vec::new();
        for (section, item) in [Section::PendingUserAsks, Section::ActiveTask]
            .into_iter()
            .flat_map(|section| self.before.list(section).iter().map(move |item| (section, item.as_str())))
        {
            let told = texts.iter().position(|text| is_clipped_form_of(item, text.as_str()));
            let answered =
                evidence.questions.iter().any(|q| q.answer.is_some() && item.ends_with(q.text.trim()));
            let end = match told.map(|at| evidence.requests[at].state) {
                Some(RequestState::Open) => continue,
                Some(RequestState::Done) => "done",
                Some(RequestState::Cancelled) => "withdrawn by the user",
                None if answered => continue,
                None if self.is_taken_back(item, section) => "withdrawn by the user",
                None if !evidence.closings.is_empty() => "reported as done",
                None => {
                    open.push((item.to_owned(), Uses::default()));
                    continue;
                }
            };
            if is_clipped_form_of(&first, item) {
                self.end_goal(item, end, Uses::default());
            } else if told.is_none() {
                let verb = if end == "reported as done" { "FINISH" } else { "CANCEL" };
                self.ended.push(Line::of_request(verb, item, end));
            }
        }
        open
    }

    /// Whether the user took back something of the checkpoint before: by naming it, or, where nothing newer was asked for,
    /// in so many words.
    pub(super) fn is_taken_back(&self, item: &str, section: Section) -> bool {
        let newer = self.evidence.requests.first().map_or(usize::MAX, |request| request.unit);
        let rules = self.before.list(Section::Constraints);
        self.evidence.reversals.iter().filter(|reversal| reversal.cancels.is_none()).any(|reversal| {
            let about = telling(&reversal.text);
            // Who takes back a rule does not take back the request that it was said with.
            let is_rule = || rules.iter().any(|rule| names(&about, rule.as_str()));
            let bare = about.is_empty() && section == Section::ActiveTask && reversal.unit <= newer;
            bare || names(&about, item) && (section == Section::Constraints || !is_rule())
        })
    }

    /// The first request in full, with what became of it, once it stands nowhere else.
    fn end_goal(&mut self, request: &str, end: &str, uses: Uses) {
        self.add(Section::Goal, &format!("The first request, {end}: {}", request.trim()), Need::Must, uses);
    }

    /// What Goal said before, or the task that it pointed to.
    fn first_request(&self) -> &str {
        let first = |section| self.before.list(section).first().map_or("", Redacted::as_str);
        if first(Section::Goal) == SAME_AS_TASK { first(Section::ActiveTask) } else { first(Section::Goal) }
    }

    /// What it is all for: the first request.
    fn goal(&mut self, task: &str) {
        if self.pieces.iter().any(|piece| piece.place == Place::List(Section::Goal)) {
            return;
        }
        let before = self.first_request().to_owned();
        let (first, state, uses) = match self.evidence.requests.first() {
            _ if !before.is_empty() => (before, RequestState::Open, Uses::default()),
            Some(first) if self.folded(first.unit) => (first.text.trim().to_owned(), first.state, first.uses),
            _ => return,
        };
        let wants_answer = self.evidence.requests.first().is_some_and(|first| first.ask == Ask::Question);
        match state {
            RequestState::Open if is_clipped_form_of(&first, task) => {
                self.add(Section::Goal, SAME_AS_TASK, Need::Wanted, uses);
            }
            RequestState::Open => self.add(Section::Goal, &first, Need::Must, uses),
            RequestState::Done if wants_answer => self.end_goal(&first, "answered", uses),
            RequestState::Done => self.end_goal(&first, "done", uses),
            RequestState::Cancelled => self.end_goal(&first, "withdrawn by the user", uses),
        }
    }

    /// Standing rules word for word; what was allowed once is said to be so, and is forgotten with the work it was for.
    pub(super) fn rules(&mut self) {
        let evidence = self.evidence;
        let stays: Vec<Redacted> = self
            .before
            .list(Section::Constraints)
            .iter()
            .filter(|item| match item.as_str().strip_prefix(ONCE) {
                Some(_) => evidence.closings.is_empty(),
                None => {
                    !self.is_taken_back(item.as_str(), Section::Constraints)
                        && !evidence.replacements.iter().any(|said| replaces(said, item.as_str()))
                }
            })
            .cloned()
            .collect();
        for item in stays {
            self.add(Section::Constraints, item.as_str(), Need::Must, Uses::default());
        }
        for rule in &evidence.rules {
            if self.folded(rule.unit) {
                self.add(Section::Constraints, &rule.text, Need::Must, rule.uses);
            }
        }
        for once in &evidence.once_only {
            if self.folded(once.unit) && evidence.closings.iter().all(|closing| *closing < once.unit) {
                self.add(
                    Section::Constraints,
                    &format!("{ONCE}{}", once.text.trim()),
                    Need::Wanted,
                    once.uses,
                );
            }
        }
    }
}

/// Whether these words, or half of them, stand in an item.
fn names(about: &[String], item: &str) -> bool {
    let of_item = telling(item);
    let hits = about.iter().filter(|word| of_item.contains(word)).count();
    hits > 0 && hits * 2 >= about.len()
}

/// The words that say what a sentence is about, besides those that take things back.
fn telling(text: &str) -> Vec<String> {
    const COMMON: [&str; 28] = [
        "about", "actually", "again", "also", "anymore", "cancel", "don't", "drop", "forget", "from", "have",
        "instead", "just", "leave", "let's", "mind", "more", "need", "never", "please", "rule", "skip",
        "stop", "that", "this", "undo", "what", "with",
    ];
    let words =
        text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '\''))).map(str::to_lowercase);
    words.filter(|word| word.chars().count() >= 4 && !COMMON.contains(&word.as_str())).collect()
}
