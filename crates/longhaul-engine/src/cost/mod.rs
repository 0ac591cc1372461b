//! What requests cost.
//!
//! ```text
//! prices.rs   dollars for a million tokens, by model (prices.toml)
//! usage.rs    what a provider reported, in one shape, with what it did not report told from zero
//! ```

mod prices;
mod usage;

pub use prices::{Dollars, LongTariff, Price, Prices, find};
pub use usage::{Bill, Usage, hit_rate};
