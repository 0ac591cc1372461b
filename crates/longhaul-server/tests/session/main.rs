//! What holds of a session: when it compacts, what it says, how it fails and what it remembers. No clock is read and no socket opened.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::similar_names,
    clippy::format_collect,
    clippy::duration_suboptimal_units,
    reason = "all of it is test code, in functions too"
)]

mod asleep;
mod failures;
mod growth;
mod hooks;
mod learning;
mod real;
mod restart;
mod script;
mod serving;
mod small_window;
mod stored;
mod triggers;
mod waiting;
mod world;
