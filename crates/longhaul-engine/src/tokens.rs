//! Counts the tokens of texts and images.
//!
//! ```text
//! Vocabulary::count    exact count by a public tokenizer
//! TokenCounter::count  the same times a factor, for models whose tokenizer is not public
//! estimate             one pass by character classes, where speed matters more than the last percent
//! images               by size in pixels, never by the length of the base64
//! budget               selects the texts with the highest value per token
//! ```
//!
//! Each function counts one text. [`crate::block_cache`] caches the counts.
//!
//! This module may use `json` and the modules below it, and knows nothing of the cache.

mod amount;
pub(crate) mod budget;
mod counter;
mod estimate;
pub mod images;
mod vocabulary;

pub use amount::{Tokens, group_digits, percent};
pub use counter::{TokenCounter, TokenFactor};
pub use estimate::{RUN_WEIGHTS, RunClass, count_runs, estimate};
pub use vocabulary::Vocabulary;
