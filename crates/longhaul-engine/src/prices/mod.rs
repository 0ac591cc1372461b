//! What tokens cost, and what a provider reports of them: facts, as tables.
//!
//! ```text
//! table.rs     dollars for a million tokens, by model (prices.toml), and what the user states
//! usage.rs     what a provider reported, in one shape, with what it did not report told from zero (usage.toml)
//! ```
//!
//! It may use `config`, `models` and what is below them.

mod table;
mod usage;

pub(crate) use table::times;
pub use table::{Dollars, LongTariff, Price, Prices, find, stated};
pub use usage::{Bill, Usage, hit_rate};
