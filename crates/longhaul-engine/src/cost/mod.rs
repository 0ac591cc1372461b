//! Simulates what a recorded session would have cost, with and without compaction, for `longhaul cost` and tests.
//! The decision whether a compaction pays is made in [`schedule`](crate::schedule), which does not use this module.
//!
//! ```text
//! recorded_session.rs   splits a request body into the requests that led to it
//! simulated_pauses.rs   simulates the time between them
//! reusable_text.rs      finds values and lines of a reply that may be needed again
//! reuse_index.rs        finds where they occurred before
//! strategy.rs           the ways to treat the requests of a session
//! request_view.rs       the request as it is sent at one point of a replay
//! replay.rs             replays a session with one strategy through a simulated cache
//! ```
//!
//! This module may use every other module; none uses it.

mod recorded_session;
mod replay;
mod request_view;
mod reusable_text;
mod reuse_index;
mod simulated_pauses;
mod strategy;

pub use recorded_session::{RecordedRequest, RecordedSession};
pub use replay::{BreakpointPolicy, RefetchedTurn, Replay, ReplayedCompaction, ReplayedRequest, sum_requests};
pub use simulated_pauses::simulate_pauses;
pub use strategy::CostStrategy;
