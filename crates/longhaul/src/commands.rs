//! The commands of the binary, one file for each. A command takes its parsed arguments, prints its result,
//! and returns an exit code or a failure.

pub(crate) mod cache;
mod cache_compare;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod compress;
pub(crate) mod config;
pub(crate) mod cost;
pub(crate) mod delete;
pub(crate) mod digest;
pub(crate) mod engines;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod recall;
pub(crate) mod redact;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod show;
mod show_traffic;
pub(crate) mod stats;
pub(crate) mod summarize;
pub(crate) mod tokens;
pub(crate) mod trust;
pub(crate) mod undo;
pub(crate) mod vacuum;
