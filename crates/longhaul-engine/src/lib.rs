//! Rewrites a long transcript of an LLM agent into a smaller one that its provider still accepts.
//!
//! ```text
//! bytes ──wire::parse──▶ Transcript ──plan──▶ Ledger ──edits──▶ Rewrite ──apply──▶ bytes
//! ```
//!
//! A tour, in the order in which a request passes:
//!
//! - [`wire`] reads a body of any of three [`dialect`]s into a [`Transcript`]: units with the spans of their bytes. It uses
//!   [`json`], which knows where values are and how strings are written.
//! - [`meter`] counts it for one of the [`models`], with the tokenizers of [`tokens`]; [`known`] remembers what was counted.
//! - [`action`] says what each tool call did: the verb, the target, the files, the outcome.
//! - [`policy`] turns a configuration into the numbers that hold for the model.
//! - [`passes`] propose shorter texts for single blocks: pointers, lines, cut arguments, marks in place of images.
//! - [`plan`] decides what shrinks and what goes. [`digest`] makes one tool output short and keeps its [`facts`]; it reads text
//!   by [`lines`] and JSON by its [`shape`]. What is kept elsewhere passes [`redact`] first.
//! - [`evidence`] is what a handover could cite: what people said, what the agent told, what it did and how that ended.
//! - [`checkpoint`] makes the handover from it that stands in place of what was folded, within a budget; [`texts`] are its entries.
//! - [`identity`] says what a message is known by when it is sent again.
//! - [`ledger`] keeps what was decided, so that it can be decided again when the history is sent again, and says it as edits.
//! - [`rewrite`] makes the change: splices, and an inverse that gives back the bytes.
//! - [`cache`] sets the marks and knows what a provider has kept; [`cost`] says what that is worth.
//! - [`check`] judges what comes out, and shares nothing with the rest but the dialect and the loader of tables.
//!
//! Everything here is pure: no input or output, no clock, no environment, no randomness. Equal inputs give equal bytes.

#[macro_use]
pub mod table;

pub mod action;
pub mod cache;
pub mod check;
pub mod checkpoint;
pub mod clip;
pub mod config;
pub mod cost;
pub mod dialect;
pub mod digest;
pub mod evidence;
pub mod facts;
pub mod hosted;
pub mod identity;
pub mod json;
pub mod known;
pub mod ledger;
pub mod lines;
pub mod meter;
pub mod models;
mod parallel;
pub mod passes;
pub mod plan;
pub mod policy;
pub mod prices;
pub mod redact;
pub mod rewrite;
pub mod seat;
pub mod shape;
mod shell;
pub mod stop;
pub mod summary;
pub mod texts;
pub mod tokens;
mod tools;
pub mod transcript;
pub mod wire;

pub use dialect::Dialect;
pub use rewrite::{Edit, Refused, Rewrite};
pub use stop::Stop;
pub use tokens::Tokens;
pub use transcript::Transcript;
