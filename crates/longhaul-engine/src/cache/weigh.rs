//! How many tokens the pieces of a body cost, counted only as far as somebody asks.

use crate::known::Known;
use crate::meter::{MESSAGE_FRAMING, Meter};
use crate::transcript::{Block, Place, Transcript, UnitKind};
use crate::wire::Reading;
use crate::{Tokens, models::Model};

/// The blocks of a transcript beside the pieces that they are part of, ready to be counted.
pub struct Weights<'t, 'b> {
    reading: &'t Reading,
    /// For each piece, the blocks in it with the tools' names that go with them.
    blocks: Vec<Vec<(&'t Block<'b>, &'t str)>>,
    meter: Meter,
}

impl<'t, 'b> Weights<'t, 'b> {
    /// Sorts the blocks to their pieces. Nothing is counted yet.
    #[must_use]
    pub fn new(transcript: &'t Transcript<'b>, reading: &'t Reading, model: &Model) -> Self {
        let mut by_place: Vec<usize> = (0..reading.pieces.len()).collect();
        by_place.sort_by_key(|&piece| reading.pieces[piece].at.start);
        let mut blocks = vec![Vec::new(); reading.pieces.len()];
        let mut sort = |block: &'t Block<'b>, name: &'t str| {
            let after = by_place.partition_point(|&piece| reading.pieces[piece].at.start <= block.at.start);
            let is_before = |piece: usize| match block.place {
                Place::Field { of, .. } => reading.pieces[piece].at.start < of.start,
                Place::Element(_) => false,
            };
            // A field of a message that stands before its content belongs to the message's first piece, not to the last one
            // of the message before.
            let at = after.checked_sub(1).filter(|&at| !is_before(by_place[at])).unwrap_or(after);
            if let Some(&piece) = by_place.get(at).or(by_place.last()) {
                blocks[piece].push((block, name));
            }
        };
        transcript.preamble.iter().for_each(|block| sort(block, ""));
        for unit in &transcript.units {
            match &unit.kind {
                UnitKind::Step { reply, exchanges } => {
                    for block in reply {
                        sort(block, "");
                    }
                    for exchange in exchanges {
                        // The name goes with the call; a call in words has it in its words.
                        exchange.call.iter().for_each(|block| sort(block, &exchange.tool));
                        exchange.results.iter().for_each(|block| sort(block, ""));
                    }
                }
                _ => unit.blocks().for_each(|block| sort(block, "")),
            }
        }
        Self { reading, blocks, meter: Meter::of(model) }
    }

    /// The tokens of one piece, with the framing of the message that it begins.
    pub fn piece(&self, known: &mut Known, piece: usize) -> Tokens {
        let message = |at: usize| self.reading.pieces[at].message;
        let begins = message(piece).is_some() && (piece == 0 || message(piece - 1) != message(piece));
        let framing = if begins { MESSAGE_FRAMING } else { Tokens::ZERO };
        let words = self.blocks[piece]
            .iter()
            .map(|(block, name)| self.meter.block(known, block) + self.meter.counter.count(name));
        words.sum::<Tokens>() + framing
    }

    /// The tokens up to and with each piece.
    pub fn prefixes(&self, known: &mut Known) -> Vec<Tokens> {
        let mut sum = Tokens::ZERO;
        let pieces = 0..self.reading.pieces.len();
        pieces
            .map(|piece| {
                sum += self.piece(known, piece);
                sum
            })
            .collect()
    }

    /// The first piece with which the prefix has at least this many tokens: no more is counted than it takes to know.
    pub fn first_reaching(&self, known: &mut Known, least: Tokens) -> Option<usize> {
        let mut sum = Tokens::ZERO;
        (0..self.reading.pieces.len()).find(|&piece| {
            sum += self.piece(known, piece);
            sum >= least
        })
    }
}
