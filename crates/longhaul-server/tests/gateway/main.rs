//! The gateway, between clients and a simulator of the providers.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::format_collect,
    reason = "all of it is test code, in functions too"
)]

#[path = "../simulator/mod.rs"]
mod simulator;

mod corpus;
mod echo;
mod failing_open;
mod first;
mod ground;
mod hostile;
mod keeping;
mod leaving;
mod limits;
mod passing;
mod raw;
mod stopping;
mod streams;
mod told;
