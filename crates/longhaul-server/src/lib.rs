//! All that touches the world: files of other programs today; stores, sessions and the gateway stand on it later.
//!
//! ```text
//! agents/    the sessions that coding agents keep on disk, as the requests that they would send next
//! ```
//!
//! The engine stays pure: what is read here goes into it as bytes, and what it gives is written by whoever called.

pub mod agents;
