//! Groups pieces into turns, and finds the turns of the original that a rewritten body kept.
//!
//! A turn is the smallest thing that is kept or removed as a whole: a user message, or a reply with its calls
//! and their results.

use std::collections::HashMap;

use super::pieces::{ComparedPiece, PieceAuthor, PieceKind};

/// A turn of one of the two compared bodies.
pub(super) struct ComparedTurn {
    pub(super) author: PieceAuthor,
    /// The indices of its pieces, ascending.
    pub(super) pieces: Vec<usize>,
    /// The structure hashes of its pieces in order, without thinking and blank text.
    pub(super) structure_hashes: Vec<u64>,
    /// The index of the last piece that answers one of its calls.
    last_result: usize,
}

/// Groups pieces into turns.
///
/// Calls are matched with results first: a reply can continue in the next message while its calls wait for
/// results, and that is still the same turn. A call that was never answered does not keep a turn open.
pub(super) fn group_into_turns(pieces: &[ComparedPiece]) -> Vec<ComparedTurn> {
    let answers = match_results(pieces);
    let mut turns: Vec<ComparedTurn> = Vec::new();
    let mut turn_of = vec![0; pieces.len()];
    let mut call_of = vec![None; pieces.len()];
    for (call, answer) in answers.iter().enumerate() {
        if let Some(answer) = *answer {
            call_of[answer] = Some(call);
        }
    }
    for (p, piece) in pieces.iter().enumerate() {
        let turn = call_of[p].map(|call| turn_of[call]).or_else(|| find_turn_to_join(piece, p, pieces, &turns));
        let turn = turn.unwrap_or_else(|| {
            turns.push(ComparedTurn {
                author: piece.author,
                pieces: Vec::new(),
                structure_hashes: Vec::new(),
                last_result: 0,
            });
            turns.len() - 1
        });
        turn_of[p] = turn;
        let turn = &mut turns[turn];
        turn.pieces.push(p);
        if piece.is_matched() {
            turn.structure_hashes.push(piece.structure_hash);
        }
        turn.last_result = turn.last_result.max(answers[p].unwrap_or(0));
    }
    turns
}

/// Returns, for each call, the index of the piece that answers it.
pub(super) fn match_results(pieces: &[ComparedPiece]) -> Vec<Option<usize>> {
    let mut answers = vec![None; pieces.len()];
    let mut waiting: HashMap<&str, usize> = HashMap::new();
    for (p, piece) in pieces.iter().enumerate() {
        match piece.kind {
            PieceKind::Call => drop(waiting.insert(piece.id, p)),
            PieceKind::Result => {
                if let Some(call) = waiting.remove(piece.id) {
                    answers[call] = Some(p);
                }
            }
            _ => {}
        }
    }
    answers
}

/// Returns the last turn if the piece belongs to it. In one message, text belongs neither to a result nor to
/// a checkpoint beside it.
fn find_turn_to_join(
    piece: &ComparedPiece,
    p: usize,
    pieces: &[ComparedPiece],
    turns: &[ComparedTurn],
) -> Option<usize> {
    let turn = turns.last()?;
    let previous = &pieces[*turn.pieces.last()?];
    let apart = |piece: &ComparedPiece| {
        piece.kind == PieceKind::Result || piece.author == PieceAuthor::User && piece.is_checkpoint()
    };
    let same = turn.author == piece.author && !apart(piece) && !apart(previous);
    let continues = previous.message == piece.message
        || piece.author == PieceAuthor::Assistant && (turn.last_result > p || previous.kind == PieceKind::Thinking);
    (same && continues).then(|| turns.len() - 1)
}

/// Returns, for each turn of the rewritten body, the original turn with the same structure, matched in order
/// from the end.
pub(super) fn match_kept_turns(before: &[ComparedTurn], after: &[ComparedTurn]) -> Vec<Option<usize>> {
    let mut places: HashMap<&[u64], Vec<usize>> = HashMap::new();
    for (u, turn) in before.iter().enumerate() {
        places.entry(&turn.structure_hashes).or_default().push(u);
    }
    let mut bound = before.len();
    let mut kept: Vec<Option<usize>> = after
        .iter()
        .rev()
        .map(|turn| {
            let places = places.get_mut(turn.structure_hashes.as_slice())?;
            places.truncate(places.partition_point(|&u| u < bound));
            bound = *places.last()?;
            Some(bound)
        })
        .collect();
    kept.reverse();
    kept
}
