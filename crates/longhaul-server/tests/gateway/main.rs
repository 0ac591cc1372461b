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
mod door;
mod first;
mod ground;
mod heard;
mod holes;
mod hushed;
mod keeping;
mod outage;
mod overtaken;
mod pages;
mod postgres;
mod shared;
mod street;
mod told;
mod worker;
