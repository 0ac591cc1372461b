//! The simulator of the providers, itself under test: what it refuses, keeps, signs and sends.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "all of it is test code, in functions too")]

mod automatic;
mod client;
mod delivery;
mod marks;
mod real;
mod refusals;
mod replies;
#[path = "../simulator/mod.rs"]
mod simulator;
mod thinking;
