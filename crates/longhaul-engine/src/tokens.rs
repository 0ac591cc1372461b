//! How many tokens a text or an image costs.
//!
//! ```text
//! Vocabulary::count   what the tokenizer says, to the token
//! Counter::count      the same times a factor, for models whose tokenizer is not public
//! estimate            one pass by character classes, where speed matters more than the last percent
//! images              by pixel size, never by the length of the base64
//! ```
//!
//! Everything here is about one text at a time. What was counted before is remembered by [`crate::known`].
//!
//! It may use `json` and what is below it, and does not know that counts are remembered.

mod amount;
mod counter;
mod estimate;
pub mod images;
mod vocabulary;

pub use amount::{Tokens, grouped, percent};
pub use counter::{Counter, Factor};
pub use estimate::{Class, WEIGHTS, classes, estimate};
pub use vocabulary::Vocabulary;
