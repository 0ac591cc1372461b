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

mod accounts;
mod agent;
mod corpus;
mod dashboard;
mod dashboard_access;
mod deadline;
mod door;
mod echo;
mod failing_open;
mod figures;
mod first;
mod flood;
mod ground;
mod heard;
mod holes;
mod hostile;
mod hushed;
mod keeping;
mod leaving;
mod limits;
mod native;
mod outage;
mod overtaken;
mod pages;
mod passing;
mod postgres;
mod raw;
mod recalling;
mod shared;
mod stopping;
mod streams;
mod street;
mod summaries;
mod told;
mod worker;
