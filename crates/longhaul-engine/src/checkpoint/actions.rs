//! Completed Actions: `N. ACTION target — outcome [tool: name]`, runs of similar ones as one line.
//!
//! A line is a [`Line`] until it is written. Those of the checkpoint before come back as text and are read again only to fold
//! them further, which happens to the oldest first when room is short. Counts are of actions, so that folding twice stays true.

use crate::action::{Action, Outcome, Verb};
use crate::tokens::estimate;

/// Names of files that a folded line still gives.
const NAMED: usize = 4;
/// The verb of a line that sums up several verbs.
const SUM: &str = "DO";
/// Between the tally of a repeated action and its last outcome.
const LAST: &str = ", the last time ";
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
    /// The folder that all targets are in, where they are no longer known one by one.
    under: Option<String>,
    tally: Tally,
    /// How the last one came out, in words.
    last: String,
    tools: Vec<String>,
    /// The text as it was written before, while nothing was folded into it.
    written: Option<String>,
    /// Whether it stays a line of its own.
    pub(super) kept: bool,
}

/// How many actions of a line came out how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tally {
    succeeded: u32,
    failed: u32,
    unstated: u32,
}

impl Tally {
    fn total(self) -> u32 {
        self.succeeded + self.failed + self.unstated
    }

    fn add(&mut self, other: Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.unstated += other.unstated;
    }

    fn words(self) -> String {
        let total = self.total();
        let parts =
            [(self.succeeded, "succeeded"), (self.failed, "failed"), (self.unstated, "without a status")];
        if let Some((_, word)) = parts.iter().find(|(count, _)| *count == total) {
            return format!("all {word}");
        }
        let shown = parts.iter().filter(|(count, _)| *count > 0);
        shown.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
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
    /// An action with the first line of its error, if it had one.
    pub(super) fn of(action: &Action, error: Option<&str>) -> Self {
        let outcome = action.outcome;
        let mut tally = Tally::default();
        match outcome {
            Outcome::Succeeded => tally.succeeded = 1,
            Outcome::Failed => tally.failed = 1,
            Outcome::Unknown | Outcome::Unanswered => tally.unstated = 1,
        }
        let target = action.target.as_deref().map(|target| clip_line(target, TARGET));
        Self {
            number: None,
            verb: verb(action.verb).to_owned(),
            targets: target.into_iter().filter(|target| !target.is_empty()).collect(),
            under: None,
            tally,
            last: outcome_words(action, error),
            tools: vec![clip_line(&action.tool, 40)],
            written: None,
            kept: false,
        }
    }

    /// A request that came to its end.
    pub(super) fn of_request(verb: &str, request: &str, outcome: &str) -> Self {
        let tally = Tally { succeeded: 1, ..Tally::default() };
        Self {
            number: None,
            verb: verb.to_owned(),
            targets: vec![clip_line(request, TARGET)],
            under: None,
            tally,
            last: outcome.to_owned(),
            tools: Vec::new(),
            written: None,
            kept: false,
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
            tally: read_tally(outcome, count),
            last: outcome.to_owned(),
            tools,
            written: Some(text.to_owned()),
            kept: false,
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
            (_, Some(under)) if under.is_empty() => (format!("{count}×"), self.tally.words()),
            (_, Some(verbs)) if self.verb == SUM => (format!("{count}× {verbs}"), self.tally.words()),
            (_, Some(under)) => (format!("{count}× under {under}"), self.tally.words()),
            (targets, None) => (many(&self.verb, targets), self.tally.words()),
        };
        let tools = if self.tools.is_empty() { "none".to_owned() } else { self.tools.join(", ") };
        let target = if target.is_empty() { target } else { format!(" {}", target.trim_start()) };
        format!("{}{target} — {outcome} [tool: {tools}]", self.verb)
    }

    /// How the same thing came out over and over.
    fn again(&self) -> String {
        let all = self.tally.words();
        if all.strip_prefix("all ") == Some(&self.last) { all } else { format!("{all}{LAST}{}", self.last) }
    }

    fn joins(&self, next: &Self, fold: Fold) -> bool {
        let looking = ["READ", "SEARCH", "LIST", "FETCH", "BROWSE", "NOTE"].contains(&self.verb.as_str());
        let same_way = (self.tally.failed == 0) == (next.tally.failed == 0);
        self.verb == next.verb
            && self.tools == next.tools
            && self.kept == next.kept
            && !["FINISH", "CANCEL"].contains(&self.verb.as_str())
            && (self.targets.len() == 1 && self.targets == next.targets
                || same_way && (looking || fold == Fold::Alike))
    }

    /// Takes the action after it in.
    fn join(&mut self, next: Self) {
        self.written = None;
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
            let folders = self.under.take().into_iter().chain(next.under);
            let targets = std::mem::take(&mut self.targets).into_iter().chain(next.targets);
            let all: Vec<String> = folders.chain(targets).collect();
            self.under = Some(common_folder(&all));
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
            self.under = Some(self.under.take().unwrap_or_else(|| common_folder(&self.targets)));
            self.targets.clear();
        }
    }
}

/// Folds neighbours that only looked at things, or did the same again.
pub(super) fn fold_runs(lines: Vec<Line>) -> Vec<Line> {
    fold_neighbours(lines, Fold::Looking)
}

/// Folds lines, those of the checkpoint before first, until they cost no more than `room`. Lines that are kept cost nothing
/// here and stay.
pub(super) fn fit(mut lines: Vec<Line>, room: u64) -> Vec<Line> {
    let old = lines.iter().filter(|line| line.number.is_some()).count();
    let steps = [
        Step::ByVerb { old: 0.5, all: 0.0 },
        Step::ByVerb { old: 1.0, all: 0.0 },
        Step::Neighbours,
        Step::ByVerb { old: 1.0, all: 0.5 },
        Step::ByVerb { old: 1.0, all: 0.8 },
        Step::ByVerb { old: 1.0, all: 1.0 },
    ];
    for step in steps {
        if tokens(&lines) <= room {
            return lines;
        }
        lines = match step {
            Step::Neighbours => fold_neighbours(lines, Fold::Alike),
            Step::ByVerb { old: part, all } => {
                let of_old = (old.min(lines.len()) as f64 * part) as usize;
                let until = of_old.max((lines.len() as f64 * all) as usize);
                by_verb(lines, until)
            }
        };
    }
    if tokens(&lines) <= room { lines } else { in_one(lines) }
}

/// One way to fewer lines.
enum Step {
    /// Neighbours with one verb become one.
    Neighbours,
    /// The first lines become one for each verb: this part of the old ones, or this part of all.
    ByVerb { old: f64, all: f64 },
}

/// About what the lines cost, with their numbers.
fn tokens(lines: &[Line]) -> u64 {
    lines.iter().filter(|line| !line.kept).map(|line| estimate(&line.text()).number() + 3).sum()
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
fn by_verb(lines: Vec<Line>, until: usize) -> Vec<Line> {
    let mut folded: Vec<Line> = Vec::new();
    for (index, line) in lines.into_iter().enumerate() {
        let is_old = line.number.is_some();
        let same = |old: &Line| old.verb == line.verb && !old.kept && old.number.is_some() == is_old;
        match folded.iter().position(same).filter(|_| index < until && !line.kept) {
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
        Verb::Other => "USE",
    }
}

fn outcome_words(action: &Action, error: Option<&str>) -> String {
    let mut words = match (action.outcome, action.exit) {
        (Outcome::Succeeded, _) => "succeeded".to_owned(),
        (Outcome::Failed, Some(exit)) => format!("failed, exit {exit}"),
        (Outcome::Failed, None) => "failed".to_owned(),
        (Outcome::Unknown, _) => "answered".to_owned(),
        (Outcome::Unanswered, _) => "no result".to_owned(),
    };
    if let Some(tests) = action.tests {
        words += &format!(", {} of {} tests passed", tests.passed, tests.passed + tests.failed);
    }
    if let Some(error) =
        error.map(|error| clip_line(error, TARGET).replace(" — ", " - ")).filter(|error| !error.is_empty())
    {
        words.push_str(": ");
        words.push_str(&error);
    }
    words
}

/// Several targets in a few words.
fn many(verb: &str, targets: &[String]) -> String {
    let noun = match verb {
        "READ" | "WRITE" | "EDIT" => "files",
        "RUN" => "commands",
        "SEARCH" => "queries",
        "LIST" => "folders",
        "FETCH" | "BROWSE" => "pages",
        _ => "targets",
    };
    let folder = if noun == "files" { common_folder(targets) } else { String::new() };
    let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
    let names: Vec<&str> = targets.iter().map(|target| target.get(start..).unwrap_or(target)).collect();
    let mut shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        shown.push_str(", …");
    }
    let under = if folder.is_empty() { String::new() } else { format!(" under {folder}") };
    format!("{} {noun}{under} ({})", targets.len(), clip_line(&shown, TARGET))
}

/// The folder that holds all of these paths; empty where there is none.
fn common_folder(paths: &[String]) -> String {
    let folder = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    let mut paths = paths.iter();
    let Some(first) = paths.next() else { return String::new() };
    let mut common = folder(first);
    for path in paths {
        while !common.is_empty()
            && !path.strip_prefix(common.as_str()).is_some_and(|rest| rest.starts_with('/'))
        {
            common = folder(&common);
        }
    }
    common
}

/// How many actions a written target stands for, the target if it is one, the folder if it is many.
fn read_target(target: &str) -> (u32, Vec<String>, Option<String>) {
    let folder = |rest: &str| {
        if rest.starts_with('(') {
            return rest.to_owned();
        }
        let under = rest.split_once("under ").map_or("", |(_, under)| under);
        under.split(" (").next().unwrap_or_default().to_owned()
    };
    let (first, rest) = target.split_once(' ').unwrap_or((target, ""));
    if let Some(count) = first.strip_suffix('×').and_then(|count| count.parse().ok()) {
        return (count, Vec::new(), Some(folder(rest)));
    }
    let nouns = ["files", "commands", "queries", "folders", "pages", "targets"];
    if let (Ok(count), Some(noun)) = (first.parse(), rest.split(' ').next())
        && nouns.contains(&noun)
    {
        return (count, Vec::new(), Some(folder(rest)));
    }
    match target.rsplit_once(' ') {
        Some((target, times)) if times.ends_with('×') => {
            let count = times.trim_end_matches('×').parse().unwrap_or(1);
            (count, vec![target.to_owned()], None)
        }
        _ => (1, Some(target.to_owned()).filter(|target| !target.is_empty()).into_iter().collect(), None),
    }
}

/// The tally behind words of ours.
fn read_tally(outcome: &str, count: u32) -> Tally {
    let mut tally = Tally::default();
    let counts = outcome.split(LAST).next().unwrap_or(outcome);
    for part in counts.split(", ") {
        let (number, word) = part.split_once(' ').unwrap_or_default();
        let Ok(number) = number.parse::<u32>() else { break };
        match word {
            "succeeded" => tally.succeeded = number,
            "failed" => tally.failed = number,
            "without a status" => tally.unstated = number,
            _ => break,
        }
    }
    if tally.total() == 0 {
        let of = |word: &str| {
            counts.starts_with(word) || counts.strip_prefix("all ").is_some_and(|c| c.starts_with(word))
        };
        match () {
            () if of("failed") => tally.failed = count,
            () if of("succeeded") || of("done") || of("withdrawn") => tally.succeeded = count,
            () => tally.unstated = count,
        }
    }
    tally
}

/// A text on one line, of at most so many characters.
pub(super) fn clip_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > most * 4 {
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
