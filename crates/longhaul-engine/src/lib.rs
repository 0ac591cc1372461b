//! Rewrites a long transcript of an LLM agent into a smaller one that its provider still accepts.
//!
//! Everything here is pure: no input or output, no clock, no environment, no randomness. Equal inputs give equal bytes.

pub mod dialect;
pub mod known;
pub mod tokens;

pub use dialect::Dialect;
pub use tokens::Tokens;
