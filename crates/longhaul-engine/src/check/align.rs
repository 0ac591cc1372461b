//! Pieces grouped into units, and which units of the original a rewritten body kept.
//!
//! A unit is what is kept or removed as a whole: a message of the user, or a reply with its calls and their results.

use std::collections::HashMap;

use super::pieces::{Kind, Piece, Speaker};

pub(super) struct Unit {
    pub(super) speaker: Speaker,
    /// Indices of its pieces, rising.
    pub(super) pieces: Vec<usize>,
    /// The pieces' skeletons in order, thinking and blank text left out.
    pub(super) skeleton: Vec<u64>,
    /// The last piece that answers one of its calls.
    answered_until: usize,
}

/// Groups pieces into units.
///
/// Calls are matched with results first, because a reply can go on in the next message while its calls wait for their
/// results, and that is the same unit; a call that was never answered holds nothing open.
pub(super) fn units(pieces: &[Piece]) -> Vec<Unit> {
    let answers = answers(pieces);
    let mut units: Vec<Unit> = Vec::new();
    let mut unit_of = vec![0; pieces.len()];
    let mut call_of = vec![None; pieces.len()];
    for (call, answer) in answers.iter().enumerate() {
        if let Some(answer) = *answer {
            call_of[answer] = Some(call);
        }
    }
    for (p, piece) in pieces.iter().enumerate() {
        let unit = call_of[p].map(|call| unit_of[call]).or_else(|| joins(piece, p, pieces, &units));
        let unit = unit.unwrap_or_else(|| {
            units.push(Unit {
                speaker: piece.speaker,
                pieces: Vec::new(),
                skeleton: Vec::new(),
                answered_until: 0,
            });
            units.len() - 1
        });
        unit_of[p] = unit;
        let unit = &mut units[unit];
        unit.pieces.push(p);
        if piece.counts() {
            unit.skeleton.push(piece.skeleton);
        }
        unit.answered_until = unit.answered_until.max(answers[p].unwrap_or(0));
    }
    units
}

/// For each call the piece that answers it.
pub(super) fn answers(pieces: &[Piece]) -> Vec<Option<usize>> {
    let mut answers = vec![None; pieces.len()];
    let mut waiting: HashMap<&str, usize> = HashMap::new();
    for (p, piece) in pieces.iter().enumerate() {
        match piece.kind {
            Kind::Call => drop(waiting.insert(piece.id, p)),
            Kind::Result => {
                if let Some(call) = waiting.remove(piece.id) {
                    answers[call] = Some(p);
                }
            }
            _ => {}
        }
    }
    answers
}

/// The last unit, if the piece belongs to it. Words belong neither to a result that stands beside them in a message nor to a
/// checkpoint that does.
fn joins(piece: &Piece, p: usize, pieces: &[Piece], units: &[Unit]) -> Option<usize> {
    let unit = units.last()?;
    let previous = &pieces[*unit.pieces.last()?];
    let apart =
        |piece: &Piece| piece.kind == Kind::Result || piece.speaker == Speaker::User && piece.is_checkpoint();
    let same = unit.speaker == piece.speaker && !apart(piece) && !apart(previous);
    let continues = previous.message == piece.message
        || piece.speaker == Speaker::Assistant
            && (unit.answered_until > p || previous.kind == Kind::Thinking);
    (same && continues).then(|| units.len() - 1)
}

/// For each unit of the rewritten body the original one that it is, matched from the end and in order.
pub(super) fn kept(before: &[Unit], after: &[Unit]) -> Vec<Option<usize>> {
    let mut places: HashMap<&[u64], Vec<usize>> = HashMap::new();
    for (u, unit) in before.iter().enumerate() {
        places.entry(&unit.skeleton).or_default().push(u);
    }
    let mut bound = before.len();
    let mut kept: Vec<Option<usize>> = after
        .iter()
        .rev()
        .map(|unit| {
            let places = places.get_mut(unit.skeleton.as_slice())?;
            places.truncate(places.partition_point(|&u| u < bound));
            bound = *places.last()?;
            Some(bound)
        })
        .collect();
    kept.reverse();
    kept
}
