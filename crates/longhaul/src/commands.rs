//! One file a command: what was parsed goes in, an exit code or a failure comes out.

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
pub(crate) mod recall;
pub(crate) mod redact;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod stats;
pub(crate) mod summarize;
pub(crate) mod tokens;
mod traffic;
pub(crate) mod undo;
pub(crate) mod vacuum;
