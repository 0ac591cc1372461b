//! The provider's prompt cache: what is in it, where marks pay, what a change of bytes costs.
//!
//! A cache is equality of the prompt's prefix, read in the order tools, system prompt, messages ([`crate::wire::reading`]).
//!
//! ```text
//! chain.rs      hashes of the prefixes of a body, and the first place where two bodies part
//! weigh.rs      how many tokens each piece of it costs
//! volatile.rs   text early in a prompt that is another one tomorrow, or in the next request
//! ```

mod chain;
mod volatile;
mod weigh;

pub use chain::{Chain, Change, Difference, Link, Prefix, chain, compare};
pub use volatile::{Pace, Remedy, Volatile, volatile};
pub use weigh::Weights;
