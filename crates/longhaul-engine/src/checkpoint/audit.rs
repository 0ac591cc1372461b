//! Which evidence stands in a text.

use aho_corasick::{AhoCorasick, MatchKind};

use crate::evidence::Evidence;
use crate::redact::{Content, Redactor};

/// Bytes of a line by which it is looked for.
const LOOKED_FOR: usize = 160;

/// Every piece of evidence, in the order of the kinds and of the transcript, with whether it stands in a text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// The pieces.
    pub pieces: Vec<Cited>,
}

/// A piece of evidence and whether it stands in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cited {
    /// The unit it came from; a file has the last unit that touched it, state has none.
    pub unit: Option<usize>,
    /// Whether every line of it stands in the text.
    pub kept: bool,
}

impl Audit {
    /// How many pieces there are.
    #[must_use]
    pub fn found(&self) -> usize {
        self.pieces.len()
    }

    /// How many stand in the text.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.pieces.iter().filter(|piece| piece.kept).count()
    }
}

/// Looks for each piece of evidence, as it is after redaction, in the text of an output: the words of users, rules, questions
/// and answers, errors, decisions and announcements line by line, actions by their target, files by their path, state by its
/// values.
#[must_use]
pub fn audit(text: &str, evidence: &Evidence, redactor: &mut Redactor) -> Audit {
    let pieces = pieces(evidence);
    let mut lines: Vec<String> = Vec::new();
    let mut ranges = Vec::with_capacity(pieces.len());
    for (_, piece) in &pieces {
        let first = lines.len();
        let redacted = redactor.redact(piece, Content::Text).text;
        let wanted = redacted.as_str().lines().map(str::trim).filter(|line| !line.is_empty());
        lines.extend(wanted.map(|line| line[..line.floor_char_boundary(LOOKED_FOR)].to_owned()));
        ranges.push(first..lines.len());
    }
    let mut distinct: Vec<&str> = lines.iter().map(String::as_str).collect();
    distinct.sort_unstable();
    distinct.dedup();
    let mut seen = vec![false; distinct.len()];
    if let Ok(finder) = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&distinct) {
        for hit in finder.find_overlapping_iter(text) {
            seen[hit.pattern().as_usize()] = true;
        }
    }
    let stands = |line: &String| distinct.binary_search(&line.as_str()).is_ok_and(|at| seen[at]);
    let cited = pieces.iter().zip(ranges);
    let pieces = cited.map(|((unit, _), range)| Cited { unit: *unit, kept: lines[range].iter().all(stands) });
    Audit { pieces: pieces.collect() }
}

/// The pieces with their units.
fn pieces(evidence: &Evidence) -> Vec<(Option<usize>, String)> {
    let mut pieces: Vec<(Option<usize>, String)> = Vec::new();
    let mut add = |unit: usize, text: &str| pieces.push((Some(unit), text.to_owned()));
    evidence.requests.iter().for_each(|request| add(request.unit, &request.text));
    evidence.rules.iter().for_each(|rule| add(rule.unit, &rule.text));
    for question in &evidence.questions {
        add(question.unit, &format!("{}\n{}", question.text, question.answer.as_deref().unwrap_or_default()));
    }
    for deed in &evidence.deeds {
        add(deed.unit, deed.action.target.as_deref().unwrap_or(&deed.action.tool));
    }
    for file in &evidence.files {
        add(file.touched.last().map_or(0, |(unit, _)| *unit), &file.path);
    }
    evidence.problems.iter().for_each(|problem| add(problem.unit, &problem.text));
    evidence.decisions.iter().for_each(|decision| add(decision.unit, &decision.text));
    evidence.said.iter().for_each(|said| add(said.unit, &said.text));
    let state = &evidence.state;
    let values =
        state.directory.iter().chain(&state.branch).chain(&state.processes).chain(&state.environment);
    pieces.extend(values.map(|value| (None, value.clone())));
    pieces
}
