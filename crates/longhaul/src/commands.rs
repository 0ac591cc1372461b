//! One file a command: what was parsed goes in, an exit code or a failure comes out.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod explain;
pub(crate) mod redact;
