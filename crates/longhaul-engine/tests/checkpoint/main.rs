//! Checkpoints: cases a person can read, budgets, topics, and many compactions in a row.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::too_many_lines,
    reason = "a test may stop where its data is not as it should be"
)]

mod budget;
mod cases;
mod notation;
mod rounds;
mod topic;
