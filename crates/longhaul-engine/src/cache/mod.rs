//! The provider's prompt cache: what is in it, where marks pay, what a change of bytes costs.
//!
//! A cache is equality of the prompt's prefix, read in the order tools, system prompt, messages ([`crate::wire::reading`]).
//!
//! ```text
//! chain.rs      hashes of the prefixes of a body, and the first place where two bodies part
//! weigh.rs      how many tokens each piece of it costs
//! warm.rs       how much of a new body is known from the old one
//! volatile.rs   text early in a prompt that is another one tomorrow, or in the next request
//! route.rs      whether and how a body is cached on its way to a model (providers.toml)
//! marks.rs      where marks go, and the edits that set them
//! pace.rs       how long they should live
//! model.rs      a provider's cache, modelled: what each request of a session reads and writes
//! ```
//!
//! It may use `policy`, `wire` and what is below them.

mod chain;
mod marks;
mod model;
mod pace;
mod route;
mod volatile;
mod warm;
mod weigh;

pub use chain::{Chain, Change, Difference, Link, Prefix, chain, compare};
pub(crate) use marks::most_valuable;
pub use marks::{
    By, LOOK_BACK, Landmarks, MOST_MARKS, Mark, Marking, cache_key, edits, marks, session_key, surplus, unset,
};
pub use model::{Cache, Ends, Request, Rules, Traffic};
pub use pace::{Choice, FIVE_MINUTES, ONE_HOUR, Rhythm, lifetime};
pub use route::{Carrier, Provider, Route};
pub use volatile::{Pace, Remedy, Volatile, volatile};
pub use warm::{Warm, warm};
pub use weigh::Weights;
