//! Rewrites a long transcript of an LLM agent into a smaller one that its provider still accepts.
//!
//! Everything here is pure: no input or output, no clock, no environment, no randomness. Equal inputs give equal bytes.

pub mod dialect;
pub mod models;
pub mod policy;
pub mod redact;

pub use dialect::Dialect;
