//! What a checkpoint is made from, and what comes out.

use super::statement::Told;
use super::{Checkpoint, Quoted, Section};
use crate::evidence::Evidence;
use crate::redact::Redacted;
use crate::texts::{Marker, Node};
use crate::tokens::{Counter, Tokens};
use crate::transcript::BlockAt;

/// What a checkpoint is made from.
#[derive(Clone, Copy)]
pub struct Brief<'d> {
    /// What could be cited.
    pub evidence: &'d Evidence,
    /// Which units are folded.
    pub folded: &'d dyn Fn(usize) -> bool,
    /// The checkpoint that this one takes the place of.
    pub previous: Option<&'d Checkpoint>,
    /// What was done before, as it is to stand in the checkpoint.
    pub earlier: &'d [Node],
    /// The number of the last action before those of the folded units.
    pub before: u32,
    /// What a model told about what goes, as far as it is borne out.
    pub told: Option<Told<'d>>,
    /// Lines on the topic.
    pub quotes: &'d [Quoted],
    /// What the host wants kept.
    pub kept: Option<&'d Quoted>,
    /// What fetches a block of a unit again, where originals are kept.
    pub handle: &'d dyn Fn(BlockAt) -> Option<String>,
    /// What it may cost.
    pub budget: Tokens,
    /// Whose tokens.
    pub counter: Counter,
    /// The unit with the answer that the newest message replies to.
    pub answer: Option<usize>,
    /// A topic that is to be kept before all else.
    pub focus: Option<&'d str>,
    /// The words around it.
    pub marker: &'d Marker,
}

/// A checkpoint as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The checkpoint.
    pub checkpoint: Checkpoint,
    /// Its text.
    pub text: String,
    /// What that costs.
    pub tokens: Tokens,
    /// How many things there were to say,
    pub found: usize,
    /// and how many of them are said.
    pub kept: usize,
    /// The number of the last action of the folded units, said or not.
    pub last: u32,
    /// What a model lost of what it was shown, and is said all the same.
    pub put_back: Vec<(Section, Redacted)>,
}
