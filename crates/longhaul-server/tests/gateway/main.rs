//! The gateway, between clients and a simulator of the providers.

#[path = "../simulator/mod.rs"]
mod simulator;

mod corpus;
mod first;
mod ground;
mod keeping;
