//! Rewrites a long transcript of an LLM agent into a smaller one that its provider still accepts.
//!
//! Everything here is pure: no input or output, no clock, no environment, no randomness. Equal inputs give equal bytes.

pub mod check;
pub mod dialect;
pub mod digest;
pub mod facts;
pub mod json;
pub mod known;
pub mod lines;
pub mod meter;
pub mod models;
pub mod plan;
pub mod policy;
pub mod redact;
pub mod rewrite;
pub mod shape;
pub mod tokens;
pub mod transcript;
pub mod wire;

pub use dialect::Dialect;
pub use rewrite::{Edit, Refused, Rewrite};
pub use tokens::Tokens;
pub use transcript::Transcript;
