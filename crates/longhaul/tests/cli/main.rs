//! Every command through the real binary: one file a group of commands, one test program.

#![expect(clippy::unwrap_used, reason = "all of it is test code, in functions too")]

mod bodies;
mod cache;
mod cases;
mod compress;
mod compress_many;
mod configuration;
mod cost;
mod digest;
mod files;
mod gateway;
mod http;
mod keys;
mod live;
mod plugins;
mod redact;
mod report;
mod run;
#[path = "../../../longhaul-server/tests/scripted/mod.rs"]
mod scripted;
mod sessions;
mod store;
mod store_places;
mod summaries;
mod support;
mod tenants;
mod terminal;
#[cfg(unix)]
mod trust;
