//! The quotes of Critical Context as single lines, by source.
//!
//! There may be thousands, of which the budget holds a few: lines are put in order by what they say they are worth, and only
//! those that have a chance are redacted and counted.

use std::collections::{HashMap, HashSet};

use super::actions::clip_line;
use super::gather::{Need, Piece, Place, QUOTED_BEFORE};
use super::{Quote, Quoted, Topic};
use crate::redact::{Content, Redacted, Redactor};
use crate::tokens::{Tokens, estimate};

/// Shorter lines than this may stand twice: a brace is not a repetition.
const TELLING: usize = 12;
/// Characters of a source.
const SOURCE: usize = 40;
/// Lines are looked at until their estimate is so many times the budget.
const CHANCE: f64 = 1.3;

/// What could be quoted, within which budget.
pub(super) struct Quotable<'q> {
    /// Lines of the checkpoint before.
    pub(super) before: &'q [Quoted],
    pub(super) quotes: &'q [Quote],
    pub(super) budget: Tokens,
}

/// A line with the index of its source.
struct Line<'q> {
    source: usize,
    text: &'q str,
    weight: f64,
}

/// The sources, oldest first, and the lines that have a chance, in the order of their sources, each telling line once.
pub(super) fn quotes(
    quotable: &Quotable<'_>,
    topic: Option<&Topic>,
    redactor: &mut Redactor,
) -> (Vec<Redacted>, Vec<Piece>) {
    let (sources, lines) = lines(quotable, redactor);
    let mut lines = with_a_chance(lines, &sources, quotable.budget.number() as f64 * CHANCE, topic);
    lines.sort_by_key(|line| line.source);
    let mut pieces = Vec::with_capacity(lines.len());
    for lines in lines.chunk_by(|a, b| a.source == b.source) {
        redact(lines, redactor, &mut pieces);
    }
    (sources, pieces)
}

/// Every line of the checkpoint before and of the quotes, with the sources as they are written: redacted, and then cut.
fn lines<'q>(quotable: &Quotable<'q>, redactor: &mut Redactor) -> (Vec<Redacted>, Vec<Line<'q>>) {
    let mut sources: Vec<Redacted> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut written: HashMap<String, usize> = HashMap::new();
    let mut place = |source: &'q str| {
        *places.entry(source).or_insert_with(|| {
            let line = clip_line(redactor.redact(source, Content::Text).text.as_str(), SOURCE);
            *written.entry(line).or_insert_with_key(|line| {
                sources.push(Redacted::from_store(line.clone()));
                sources.len() - 1
            })
        })
    };
    let mut lines: Vec<Line<'_>> = Vec::new();
    for quoted in quotable.before {
        let source = place(quoted.source());
        lines.extend(quoted.lines().map(|text| Line { source, text, weight: QUOTED_BEFORE }));
    }
    let mut order: Vec<&Quote> = quotable.quotes.iter().collect();
    order.sort_by_key(|quote| quote.unit);
    for quote in order {
        let source = place(&quote.source);
        let whole = quote.lines.iter().flat_map(|line| line.split('\n'));
        lines.extend(whole.map(|text| Line { source, text, weight: quote.weight }));
    }
    (sources, lines)
}

/// The lines that are worth most, those on the topic and the others each up to `room` tokens; of equal lines the one that is
/// worth most, or else the newest.
fn with_a_chance<'q>(
    lines: Vec<Line<'q>>,
    sources: &[Redacted],
    room: f64,
    topic: Option<&Topic>,
) -> Vec<Line<'q>> {
    let topical: Vec<bool> =
        sources.iter().map(|source| topic.is_some_and(|topic| topic.is_in(source.as_str()))).collect();
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|a, b| lines[*b].weight.total_cmp(&lines[*a].weight).then(b.cmp(a)));
    let mut seen: HashSet<&str> = HashSet::new();
    let mut spent = [0.0; 2];
    let mut stays = vec![false; lines.len()];
    for at in order {
        if spent.iter().all(|spent| *spent > room) || topic.is_none() && spent[0] > room {
            break;
        }
        let line = &lines[at];
        let telling = line.text.trim();
        let on_topic = topical[line.source] || topic.is_some_and(|topic| topic.is_in(line.text));
        let spent = &mut spent[usize::from(on_topic)];
        if *spent <= room && (telling.len() < TELLING || seen.insert(telling)) {
            *spent += estimate(line.text).number() as f64 + 1.0;
            stays[at] = true;
        }
    }
    let mut stays = stays.into_iter();
    lines.into_iter().filter(|_| stays.next() == Some(true)).collect()
}

/// Redacts the lines of one source together, so that a secret of several lines is seen. Where there was one, it is no longer
/// known which line is which, and all are worth what the best was.
fn redact(lines: &[Line<'_>], redactor: &mut Redactor, pieces: &mut Vec<Piece>) {
    let joined: Vec<&str> = lines.iter().map(|line| line.text).collect();
    let clean = redactor.redact(&joined.join("\n"), Content::Text).text;
    let clean: Vec<&str> = clean.as_str().split('\n').collect();
    let best = lines.iter().map(|line| line.weight).fold(0.0, f64::max);
    let is_whole = clean.len() == lines.len();
    let Some(source) = lines.first().map(|line| line.source) else { return };
    pieces.extend(clean.iter().enumerate().map(|(at, text)| Piece {
        place: Place::Line(source),
        text: Redacted::from_store((*text).to_owned()),
        weight: if is_whole { lines[at].weight } else { best },
        need: Need::Wanted,
    }));
}
