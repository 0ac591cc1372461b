//! Completed Actions: `N. ACTION target — outcome [tool: name]`, runs of similar ones as one line.
//!
//! A line is a [`Line`] until it is written. Those of the checkpoint before come back as text and are read again only to fold
//! them further, which happens to the oldest first when room is short. Counts are of actions, so that folding twice stays true.

use super::targets::{NAMED, as_target, many, read_target, summed, what_is_left};
use crate::action::{Action, Outcome, Verb};
use crate::tokens::estimate;

/// The verb of tools of which nothing is known but the name.
const OTHER: &str = "USE";
/// The verb of a line that sums up several verbs.
const SUM: &str = "DO";
/// Between the tally of a repeated action and its last outcome.
const LAST: &str = ", the last time ";
/// How commands came out whose output does not tell.
const NO_STATUS: &str = "no exit status shown";
/// Characters of a target that a line shows.
pub(super) const TARGET: usize = 120;

/// One action, or several that read as one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    /// The number it had in the checkpoint before.
    pub(super) number: Option<u32>,
    verb: String,
    /// What was acted on, each once, while all are known.
    targets: Vec<String>,
    /// What is left of the targets where they are no longer known one by one: of files the folder that all are in, of others
    /// the first, of a sum the verbs.
    under: Option<String>,
    tally: Tally,
    /// How the last one came out, in words.
    last: String,
    tools: Vec<String>,
    /// The text as it was written before, while nothing was folded into it.
    written: Option<String>,
    /// Whether it stays a line of its own.
    pub(super) kept: bool,
    /// About what it costs with its number, once somebody asked.
    cost: Option<u64>,
}

/// How many actions of a line came out how, in the order of [`Tally::WORDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally([u32; 4]);

impl Tally {
    const WORDS: [(Outcome, &'static str); 4] = [
        (Outcome::Succeeded, "succeeded"),
        (Outcome::Failed, "failed"),
        (Outcome::Unknown, "answered"),
        (Outcome::Unanswered, "without a result"),
    ];

    fn of(outcome: Outcome, times: u32) -> Self {
        Self(Self::WORDS.map(|(known, _)| if known == outcome { times } else { 0 }))
    }

    fn total(self) -> u32 {
        self.0.iter().sum()
    }

    fn failed(self) -> u32 {
        self.0[1]
    }

    fn add(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(more);
        }
    }

    /// `3 succeeded, 1 failed`.
    fn words(self) -> String {
        let total = self.total();
        let counts = || Self::WORDS.iter().zip(self.0).map(|((_, word), count)| (count, *word));
        if let Some((_, word)) = counts().find(|(count, _)| *count == total) {
            return format!("all {word}");
        }
        let shown = counts().filter(|(count, _)| *count > 0);
        shown.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }

    /// The tally behind words of ours about so many actions.
    fn read(outcome: &str, count: u32) -> Self {
        let mut tally = Self::default();
        let counts = outcome.split(LAST).next().unwrap_or(outcome);
        for part in counts.split(", ") {
            let (number, word) = part.split_once(' ').unwrap_or_default();
            let known = Self::WORDS.iter().find(|(_, known)| *known == word);
            let (Ok(number), Some((outcome, _))) = (number.parse(), known) else { break };
            tally.add(Self::of(*outcome, number));
        }
        if tally.total() > 0 {
            return tally;
        }
        let opens = |word: &str| counts.strip_prefix("all ").unwrap_or(counts).starts_with(word);
        let known = Self::WORDS.iter().find(|(_, word)| opens(word)).map(|(outcome, _)| *outcome);
        let ended = || opens("done") || opens("reported") || opens("withdrawn");
        let outcome = known.unwrap_or(if ended() { Outcome::Succeeded } else { Outcome::Unknown });
        Self::of(outcome, count)
    }
}

/// How tightly neighbours are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fold {
    /// What only looked at things, and the same thing done again.
    Looking,
    /// Whatever has one verb and came out the same way.
    Alike,
}

impl Line {
    /// An action with its target and the first line of its error, both on one line, if it had them.
    pub(super) fn of(action: &Action, target: Option<String>, error: Option<&str>) -> Self {
        let outcome = action.outcome;
        Self {
            number: None,
            verb: verb(action.verb).to_owned(),
            targets: target.into_iter().filter(|target| !target.is_empty()).collect(),
            under: None,
            tally: Tally::of(outcome, 1),
            last: outcome_words(action, error),
            tools: vec![clip_line(&action.tool, 40)],
            written: None,
            kept: false,
            cost: None,
        }
    }

    /// A request that came to its end.
    pub(super) fn of_request(verb: &str, request: &str, outcome: &str) -> Self {
        Self {
            number: None,
            verb: verb.to_owned(),
            targets: vec![clip_line(request, TARGET)],
            under: None,
            tally: Tally::of(Outcome::Succeeded, 1),
            last: outcome.to_owned(),
            tools: Vec::new(),
            written: None,
            kept: false,
            cost: None,
        }
    }

    /// A line of an earlier checkpoint.
    pub(super) fn written(number: u32, text: &str) -> Self {
        let (head, tools) = match text.strip_suffix(']').and_then(|text| text.rsplit_once(" [tool: ")) {
            Some((head, tools)) => {
                (head, tools.split(", ").filter(|tool| *tool != "none").map(str::to_owned).collect())
            }
            None => (text, Vec::new()),
        };
        let (head, outcome) = head.rsplit_once(" — ").unwrap_or((head, ""));
        let (verb, target) = head.split_once(' ').unwrap_or((head, ""));
        let (count, targets, under) = read_target(target);
        Self {
            number: Some(number),
            verb: verb.to_owned(),
            targets,
            under,
            tally: Tally::read(outcome, count),
            last: outcome.to_owned(),
            tools,
            written: Some(text.to_owned()),
            kept: false,
            cost: None,
        }
    }

    /// The line without its number.
    pub(super) fn text(&self) -> String {
        if let Some(written) = &self.written {
            return written.clone();
        }
        let count = self.tally.total();
        let (target, outcome) = match (&self.targets[..], &self.under) {
            (targets @ ([] | [_]), None) => {
                let target = targets.first().map_or("", String::as_str);
                if count == 1 {
                    (target.to_owned(), self.last.clone())
                } else {
                    (format!("{target} {count}×"), self.again())
                }
            }
            (_, Some(verbs)) if self.verb == SUM => (format!("{count}× {verbs}"), self.all()),
            (_, Some(under)) => (summed(&self.verb, count, under), self.all()),
            (targets, None) => (many(&self.verb, targets), self.all()),
        };
        // What became of a request is no tool's doing.
        let tools = self.tools.join(", ");
        let tools = if tools.is_empty() { tools } else { format!(" [tool: {tools}]") };
        let target = if target.is_empty() { target } else { format!(" {}", target.trim_start()) };
        format!("{}{target} — {outcome}{tools}", self.verb)
    }

    /// How several things came out.
    fn all(&self) -> String {
        let unknown = self.tally == Tally::of(Outcome::Unknown, self.tally.total());
        if unknown && self.verb == verb(Verb::Run) { NO_STATUS.to_owned() } else { self.tally.words() }
    }

    /// How the same thing came out over and over.
    fn again(&self) -> String {
        let all = self.tally.words();
        if all.strip_prefix("all ") == Some(&self.last) { all } else { format!("{all}{LAST}{}", self.last) }
    }

    fn joins(&self, next: &Self, fold: Fold) -> bool {
        let looking = ["READ", "SEARCH", "LIST", "FETCH", "BROWSE", "NOTE"].contains(&self.verb.as_str());
        let same_way = (self.tally.failed() == 0) == (next.tally.failed() == 0);
        self.verb == next.verb
            && self.tools == next.tools
            && self.kept == next.kept
            && !["FINISH", "ANSWER", "CANCEL"].contains(&self.verb.as_str())
            && (self.targets.len() == 1 && self.targets == next.targets
                || same_way && (looking || fold == Fold::Alike))
    }

    /// Takes the action after it in.
    fn join(&mut self, next: Self) {
        self.written = None;
        self.cost = None;
        self.number = self.number.max(next.number);
        self.tally.add(next.tally);
        self.last.clone_from(&next.last);
        for tool in &next.tools {
            if !self.tools.contains(tool) {
                self.tools.push(tool.clone());
            }
        }
        if self.verb == SUM && next.verb == SUM {
            self.under = Some(in_verbs(self.by_verb().into_iter().chain(next.by_verb())));
            return;
        }
        if self.under.is_some() || next.under.is_some() {
            // A folder is written as one, so that it is not taken for a file in the folder above.
            let under = [self.under.take(), next.under]
                .into_iter()
                .flatten()
                .map(|under| as_target(&self.verb, under));
            let targets = std::mem::take(&mut self.targets).into_iter().chain(next.targets);
            self.under = Some(what_is_left(&self.verb, &under.chain(targets).collect::<Vec<_>>()));
            return;
        }
        for target in next.targets {
            if !self.targets.contains(&target) {
                self.targets.push(target);
            }
        }
    }

    /// How many actions there are of each verb.
    fn by_verb(&self) -> Vec<(String, u32)> {
        let verbs = self.under.as_deref().filter(|_| self.verb == SUM);
        let Some(verbs) = verbs else { return vec![(self.verb.clone(), self.tally.total())] };
        let parts = verbs.trim_matches(['(', ')']).split(", ").filter_map(|part| part.rsplit_once(' '));
        parts
            .filter_map(|(verb, times)| Some((verb.to_owned(), times.strip_suffix('×')?.parse().ok()?)))
            .collect()
    }

    /// Gives up the single targets for the folder they share.
    fn forget_targets(&mut self) {
        if self.targets.len() > NAMED || self.under.is_some() {
            self.under = Some(self.under.take().unwrap_or_else(|| what_is_left(&self.verb, &self.targets)));
            self.targets.clear();
            self.cost = None;
        }
    }

    /// About what it costs with its number. Estimated once: lines are folded in steps, and most are the same after a step.
    fn cost(&mut self) -> u64 {
        let cost = self.cost.unwrap_or_else(|| estimate(&self.text()).number() + 3);
        self.cost = Some(cost);
        cost
    }
}

/// Folds neighbours that only looked at things, or did the same again.
pub(super) fn fold_runs(lines: Vec<Line>) -> Vec<Line> {
    fold_neighbours(lines, Fold::Looking)
}

/// Folds lines until they cost no more than `room`: those of the checkpoint before first, then neighbours, then all but the
/// newest, then all. Lines that are kept cost nothing here and stay.
pub(super) fn fit(mut lines: Vec<Line>, room: u64) -> Vec<Line> {
    let old = |lines: &[Line]| lines.iter().filter(|line| line.number.is_some()).count();
    let steps: [&dyn Fn(Vec<Line>) -> Vec<Line>; 5] = [
        &|lines| by_verb(old(&lines) / 2, lines),
        &|lines| by_verb(old(&lines), lines),
        &|lines| fold_neighbours(lines, Fold::Alike),
        &|mut lines| by_verb(all_but_newest(&mut lines, room), lines),
        &|lines| by_verb(lines.len(), lines),
    ];
    for step in steps {
        if tokens(&mut lines) <= room {
            return lines;
        }
        lines = step(lines);
    }
    if tokens(&mut lines) <= room { lines } else { in_one(lines) }
}

/// How many lines there are before those that fit in two thirds of the room.
fn all_but_newest(lines: &mut [Line], room: u64) -> usize {
    let mut left = room * 2 / 3;
    let fits = |line: &mut Line| {
        let cost = if line.kept { 0 } else { line.cost() };
        let fits = cost <= left;
        left = left.saturating_sub(cost);
        fits
    };
    let all = lines.len();
    all - lines.iter_mut().rev().map(fits).take_while(|fits| *fits).count()
}

/// About what the lines cost, with their numbers.
fn tokens(lines: &mut [Line]) -> u64 {
    lines.iter_mut().filter(|line| !line.kept).map(Line::cost).sum()
}

fn fold_neighbours(lines: Vec<Line>, fold: Fold) -> Vec<Line> {
    let mut folded: Vec<Line> = Vec::new();
    for line in lines {
        match folded.last_mut() {
            Some(last) if last.number.is_some() == line.number.is_some() && last.joins(&line, fold) => {
                last.join(line);
            }
            _ => folded.push(line),
        }
    }
    folded
}

/// Folds the first so many lines into one for each verb, where the last of them was.
fn by_verb(until: usize, lines: Vec<Line>) -> Vec<Line> {
    let mut folded: Vec<Line> = Vec::new();
    for (index, line) in lines.into_iter().enumerate() {
        let is_old = line.number.is_some();
        let same = |old: &Line| {
            let same_tool = old.verb != OTHER || old.tools == line.tools;
            old.verb == line.verb && same_tool && !old.kept && old.number.is_some() == is_old
        };
        let may_join = index < until && !line.kept;
        match may_join.then(|| folded.iter().position(same)).flatten() {
            Some(at) => {
                let mut first = folded.remove(at);
                first.join(line);
                first.forget_targets();
                folded.push(first);
            }
            None => folded.push(line),
        }
    }
    folded
}

/// `(RUN 4×, READ 12×)`.
fn in_verbs(counts: impl Iterator<Item = (String, u32)>) -> String {
    let mut verbs: Vec<(String, u32)> = Vec::new();
    for (verb, times) in counts {
        match verbs.iter_mut().find(|(known, _)| *known == verb) {
            Some((_, sum)) => *sum += times,
            None => verbs.push((verb, times)),
        }
    }
    let verbs: Vec<String> = verbs.iter().map(|(verb, times)| format!("{verb} {times}×")).collect();
    format!("({})", verbs.join(", "))
}

/// Everything but what is kept in one line.
fn in_one(lines: Vec<Line>) -> Vec<Line> {
    let (kept, lines): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(|line| line.kept);
    let verbs = in_verbs(lines.iter().flat_map(Line::by_verb));
    let folded = lines.into_iter().reduce(|mut all, line| {
        all.join(line);
        all
    });
    let Some(mut all) = folded else { return kept };
    if all.written.is_none() {
        SUM.clone_into(&mut all.verb);
        all.targets.clear();
        all.cost = None;
        all.under = Some(verbs);
        all.tools.truncate(NAMED);
    }
    std::iter::once(all).chain(kept).collect()
}

fn verb(verb: Verb) -> &'static str {
    match verb {
        Verb::Read => "READ",
        Verb::Write => "WRITE",
        Verb::Edit => "EDIT",
        Verb::Search => "SEARCH",
        Verb::List => "LIST",
        Verb::Run => "RUN",
        Verb::Fetch => "FETCH",
        Verb::Browse => "BROWSE",
        Verb::Delegate => "DELEGATE",
        Verb::Note => "NOTE",
        Verb::Other => OTHER,
    }
}

fn outcome_words(action: &Action, error: Option<&str>) -> String {
    let outcome = match (action.outcome, action.exit) {
        (Outcome::Succeeded, _) => "succeeded".to_owned(),
        (Outcome::Failed, Some(exit)) => format!("failed, exit {exit}"),
        (Outcome::Failed, None) => "failed".to_owned(),
        (Outcome::Unknown, _) => "answered".to_owned(),
        (Outcome::Unanswered, _) => "without a result".to_owned(),
    };
    let tests = action.tests.map_or(String::new(), |tests| {
        format!(", {} of {} tests passed", tests.passed, tests.passed + tests.failed)
    });
    let error = error.map(|error| error.replace(" — ", " - "));
    let error = error.filter(|error| !error.is_empty()).map_or(String::new(), |error| format!(": {error}"));
    outcome + &tests + &error
}

/// A text on one line, of at most so many characters.
pub(super) fn clip_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > most && line.chars().nth(most).is_some() {
            break;
        }
    }
    if let Some((cut, _)) = line.char_indices().nth(most) {
        line.truncate(cut);
        line.truncate(line.trim_end().len());
        line.push('…');
    }
    line
}
