//! What requests cost.
//!
//! ```text
//! prices.rs   dollars for a million tokens, by model (prices.toml)
//! replay.rs   a session request by request, through a modelled cache
//! usage.rs    what a provider reported, in one shape, with what it did not report told from zero
//! ```

mod prices;
mod replay;
mod usage;

pub use prices::{Dollars, LongTariff, Price, Prices, find};
pub use replay::{Sent, Session, pauses, total};
pub use usage::{Bill, Usage, hit_rate};
