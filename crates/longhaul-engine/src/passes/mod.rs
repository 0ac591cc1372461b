//! Transcript → changes of single blocks, one file a pass.

use serde::{Deserialize, Serialize};

/// A block by unit and by its place in [`crate::transcript::Unit::blocks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockAt {
    /// The unit.
    pub unit: usize,
    /// The place in it.
    pub block: usize,
}

/// What stands in the place of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewText {
    /// Replaces the block's text.
    Text(String),
    /// A text block in place of an image or document.
    Mark(String),
}
