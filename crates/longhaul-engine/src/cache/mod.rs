//! The provider's prompt cache: what it contains, where breakpoints pay off, and what a change of bytes
//! costs.
//!
//! A provider caches prefixes of the prompt, in the order tools, system prompt, messages
//! ([`crate::wire::prompt_order`]).
//!
//! ```text
//! prefix_chain.rs      hashes of all prefixes of a request, and the first difference between two requests
//! piece_tokens.rs      the tokens of each piece of a prompt
//! cached_prefix.rs     how much of a new request is cached from the old one
//! volatile.rs          text early in a prompt that changes from request to request, or from day to day
//! caching_mode.rs      whether and how a request is cached on its way to a model (providers.toml)
//! breakpoints.rs       where breakpoints are set, and the edits that set them
//! lifetime.rs          how long cached prefixes should live
//! simulated_cache.rs   a simulated cache: what each request of a session reads and writes
//! ```
//!
//! This module may use `policy`, `wire` and the modules below them.

mod breakpoints;
mod cached_prefix;
mod caching_mode;
mod lifetime;
mod piece_tokens;
mod prefix_chain;
mod simulated_cache;
mod volatile;

pub(crate) use breakpoints::split_surplus;
pub use breakpoints::{
    Breakpoint, BreakpointOptions, BreakpointOwner, LOOKBACK_PIECES, MAX_BREAKPOINTS, StablePieces, breakpoint_edits,
    place_breakpoints, remove_breakpoint_edit, session_cache_key, set_cache_key_edit, surplus_breakpoints,
};
pub use cached_prefix::{CachedPrefix, cached_prefix};
pub use caching_mode::{BreakpointCarrier, CacheProvider, CachingMode};
pub(crate) use lifetime::recent_pauses;
pub use lifetime::{FIVE_MINUTES, LifetimeChoice, ONE_HOUR, SessionPace, choose_lifetime};
pub use piece_tokens::PieceTokens;
pub use prefix_chain::{
    PrefixChain, PrefixChange, PrefixDifference, PrefixHash, PrefixLink, compare_chains, prefix_chain,
};
pub use simulated_cache::{CacheRequest, CacheRules, CacheUsage, PrefixEnds, SimulatedCache};
pub use volatile::{ChangeFrequency, Remedy, VolatileText, find_volatile_text};
