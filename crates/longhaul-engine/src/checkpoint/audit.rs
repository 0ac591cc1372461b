//! Which evidence stands in a text.

mod finder;

use std::borrow::Cow;
use std::ops::Range;

use crate::evidence::Evidence;
use crate::redact::{Content, Redactor};

use finder::Finder;

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
    Sought::of(evidence, redactor).in_text(text)
}

/// What evidence is looked for by: it is the same whatever the text is.
pub(crate) struct Sought {
    pieces: Vec<SoughtPiece>,
    /// The lines of all pieces, by their place in the finder.
    lines: Vec<usize>,
    finder: Finder,
}

struct SoughtPiece {
    unit: Option<usize>,
    lines: Range<usize>,
}

impl Sought {
    pub(crate) fn of(evidence: &Evidence, redactor: &mut Redactor) -> Self {
        let (mut sought, mut lines) = (Vec::new(), Vec::new());
        for (unit, piece) in pieces(evidence) {
            let first = lines.len();
            let redacted = redactor.redact(&piece, Content::Text).text;
            let wanted = redacted.as_str().lines().map(str::trim).filter(|line| !line.is_empty());
            lines.extend(wanted.map(|line| line[..line.floor_char_boundary(LOOKED_FOR)].to_owned()));
            sought.push(SoughtPiece { unit, lines: first..lines.len() });
        }
        let (finder, lines) = Finder::of(lines);
        Self { pieces: sought, lines, finder }
    }

    /// Which pieces stand in a text.
    pub(crate) fn in_text(&self, text: &str) -> Audit {
        let stands = self.finder.standing(text);
        let kept = |piece: &SoughtPiece| self.lines[piece.lines.clone()].iter().all(|line| stands[*line]);
        let pieces = self.pieces.iter().map(|piece| Cited { unit: piece.unit, kept: kept(piece) });
        Audit { pieces: pieces.collect() }
    }
}

/// The pieces with their units.
fn pieces(evidence: &Evidence) -> Vec<(Option<usize>, Cow<'_, str>)> {
    let mut pieces: Vec<(Option<usize>, Cow<'_, str>)> = Vec::new();
    evidence.requests.iter().for_each(|request| pieces.push((Some(request.unit), (&*request.text).into())));
    evidence.rules.iter().for_each(|rule| pieces.push((Some(rule.unit), (&*rule.text).into())));
    for question in &evidence.questions {
        let answer = question.answer.as_deref().unwrap_or_default();
        pieces.push((Some(question.unit), format!("{}\n{answer}", question.text).into()));
    }
    let mut add = |unit: usize, text| pieces.push((Some(unit), Cow::Borrowed(text)));
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
    pieces.extend(values.map(|value| (None, Cow::Borrowed(value.as_str()))));
    pieces
}
