//! One compaction, message by message: what stood there, what stands there now, and why.
//!
//! ```text
//! before, after ──side──▶ messages ──align──▶ which became which ──model──▶ Compaction ──show──▶ Markup
//! the report ──account──▶ reasons, handles ──────────────────────▲
//! the checkpoint ──checkpoint──▶ which line speaks for what ──────┘
//! ```
//!
//! What became of a message is read from the two bodies, and the report adds the reasons: so a report that was made on the way
//! from an even older body, or is none of these bodies', makes no page that says something false of a text.

mod account;
mod align;
mod caching;
mod checkpoint;
mod model;
mod show;
mod side;
mod texts;

#[cfg(test)]
mod tests;

pub use account::{Account, Both, Changed, CheckpointSaid, Cost, Evidence, TokensSaid, Units};
pub use caching::{Breakpoint, Caching};
pub use checkpoint::{Checkpoint, Item, ItemKind};
pub use model::{Added, Compaction, Message, Piece, Preamble, Sides, Who};
pub use show::{Reader, list, top, view};
pub use texts::Secrets;
