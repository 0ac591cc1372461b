//! The prices of tokens, and the usage that providers report. Both come from tables.
//!
//! ```text
//! table.rs     dollars per million tokens by model (prices.toml), and prices that the user states
//! usage.rs     the usage of a request in one shape for all providers (usage.toml); a missing value is not zero
//! ```

mod table;
mod usage;

pub(crate) use table::cost_of;
pub use table::{Dollars, LongTariff, ModelPrices, TokenPrices, find, find_with_config};
pub use usage::{Bill, Usage, hit_rate};
