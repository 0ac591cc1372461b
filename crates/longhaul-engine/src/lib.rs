//! Compacts the requests of an LLM agent, so that it can keep working past its context window.
//!
//! An agent sends its whole history with every request, until the context window is full. This library takes
//! such a request body (JSON in the format of Chat Completions, Messages or Responses) and returns a smaller
//! one that the provider still accepts: long tool outputs become short forms, and a checkpoint replaces the
//! oldest turns. No model has to be called, and nothing is read or sent: a compaction is a pure function of
//! the request and the session's earlier decisions, and takes milliseconds.
//!
//! # Compact a request
//!
//! Make one [`Session`] for each conversation, and pass it every request before you send it:
//!
//! ```
//! use longhaul_engine::Session;
//!
//! # fn send(_: &str) {}
//! # fn main() -> Result<(), longhaul_engine::Error> {
//! # let body = include_str!("../../../examples/session.json");
//! let mut session = Session::new("gpt-5");
//! match session.compact(&body)? {
//!     Some(smaller) => send(&smaller.body),
//!     None => send(&body),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Keep your own history complete, and send the whole of it to the session each time. The session remembers
//! what it decided and repeats that byte for byte, so that the provider's prompt cache stays valid while the
//! conversation grows:
//!
//! ```
//! use longhaul_engine::{Options, Session, Tokens};
//!
//! # fn main() -> Result<(), longhaul_engine::Error> {
//! # let body = include_str!("../../../examples/session.json");
//! let mut session = Session::new("gpt-5").with_context_length(Tokens(8_000)).with_protected_last(6);
//! let first = session.compact(body)?.expect("the request is over the threshold");
//!
//! let again = session.compact(body)?.expect("the decisions still apply");
//! assert!(again.is_replay);
//! assert_eq!(again.body, first.body);
//! # Ok(())
//! # }
//! ```
//!
//! # The types
//!
//! | type | purpose |
//! | --- | --- |
//! | [`Session`] | one conversation: its model, its options, its decisions so far |
//! | [`Options`] | the options of one call: a target size, a topic, a summary |
//! | [`Compacted`] | the smaller request, its report, and the originals of what is missing |
//! | [`SummaryRequest`] | prompts for a model that writes the summary; without one, code writes it |
//! | [`Proposal`] | the decisions of an engine of your own |
//! | [`Error`] | the reason why a call failed; the request can then be sent as it is |
//!
//! The module [`report`] describes what a compaction did. A session also [counts
//! tokens](Session::count_tokens), [checks](Session::check) a request against the provider's rules and sets
//! [cache breakpoints](Session::set_cache_breakpoints). The functions [`redact_text`] and
//! [`digest_tool_output`] work on single texts.
//!
//! # Examples
//!
//! The folder `examples` of this crate has complete programs: `compact` (a request becomes smaller, and then
//! grows), `agent_loop` (with a summary by a model) and `custom_engine` (your own rules for what to remove).
//! Run one with `cargo run -p longhaul-engine --example compact`. The guide `docs/library.md` explains them
//! task by task.
//!
//! # What it does not do
//!
//! - It reads no file, clock or environment variable, uses no network and no randomness. Equal inputs give
//!   equal bytes.
//! - It stores nothing: you keep the ledger ([`Session::save_ledger`]) and the originals
//!   ([`Session::with_originals`]), if you need them after the process ends.
//! - It changes no byte that it does not have to: a result differs from its request only where text was
//!   removed, shortened or inserted.
//!
//! # Stability
//!
//! This page lists everything that you can rely on. The other modules are public only for the other crates of
//! Longhaul; they are not documented here, and any version may change them.

// The modules are for the other crates of Longhaul. Only the documentation hides them: a plain `doc(hidden)` would
// also switch off the lint `missing_docs` for them.

#[macro_use]
#[cfg_attr(doc, doc(hidden))]
pub mod table;

#[cfg_attr(doc, doc(hidden))]
pub mod action;
#[cfg_attr(doc, doc(hidden))]
pub mod api_format;
#[cfg_attr(doc, doc(hidden))]
pub mod block_cache;
#[cfg_attr(doc, doc(hidden))]
pub mod cache;
#[cfg_attr(doc, doc(hidden))]
pub mod cancel;
#[cfg_attr(doc, doc(hidden))]
pub mod check;
#[cfg_attr(doc, doc(hidden))]
pub mod checkpoint;
#[cfg_attr(doc, doc(hidden))]
pub mod config;
#[cfg_attr(doc, doc(hidden))]
pub mod cost;
#[cfg_attr(doc, doc(hidden))]
pub mod digest;
#[cfg_attr(doc, doc(hidden))]
pub mod evidence;
mod facade;
#[cfg_attr(doc, doc(hidden))]
pub mod facts;
#[cfg_attr(doc, doc(hidden))]
pub mod host_text;
#[cfg_attr(doc, doc(hidden))]
pub mod insertion_point;
#[cfg_attr(doc, doc(hidden))]
pub mod json;
#[cfg_attr(doc, doc(hidden))]
pub mod keyed_hash;
#[cfg_attr(doc, doc(hidden))]
pub mod ledger;
#[cfg_attr(doc, doc(hidden))]
pub mod lines;
#[cfg_attr(doc, doc(hidden))]
pub mod meter;
#[cfg_attr(doc, doc(hidden))]
pub mod models;
mod parallel;
#[cfg_attr(doc, doc(hidden))]
pub mod passes;
#[cfg_attr(doc, doc(hidden))]
pub mod plan;
#[cfg_attr(doc, doc(hidden))]
pub mod policy;
#[cfg_attr(doc, doc(hidden))]
pub mod prices;
#[cfg_attr(doc, doc(hidden))]
pub mod redact;
#[cfg_attr(doc, doc(hidden))]
pub mod rewrite;
#[cfg_attr(doc, doc(hidden))]
pub mod schedule;
#[cfg_attr(doc, doc(hidden))]
pub mod shape;
mod shell;
#[cfg_attr(doc, doc(hidden))]
pub mod summary;
#[cfg_attr(doc, doc(hidden))]
pub mod texts;
#[cfg_attr(doc, doc(hidden))]
pub mod timestamp;
#[cfg_attr(doc, doc(hidden))]
pub mod tokens;
mod tools;
#[cfg_attr(doc, doc(hidden))]
pub mod transcript;
#[cfg_attr(doc, doc(hidden))]
pub mod truncate;
#[cfg_attr(doc, doc(hidden))]
pub mod wire;

/// What a compaction did: the type of [`Compacted::report`] and its parts.
pub mod report {
    pub use crate::config::EngineName;
    pub use crate::plan::{
        Advice, BeforeAfter, BlockReport, CheckpointReport, CompactionReport, ContentKind, CostReport,
        EscalationAction, EscalationStep, EvidenceReport, Fate, SessionRestart, StateReport, TokensReport, Trigger,
        TurnsReport, WrittenBy, ZoneReport,
    };
    pub use crate::summary::{AuditAction, AuditFinding};
}

pub use api_format::ApiFormat;
pub use check::{Severity, Violation};
pub use facade::{Compacted, Error, Options, Prompt, Session, SummaryRequest, digest_tool_output, redact_text};
pub use plan::{InputBlock, InputMessage, Original, Proposal, ProposalInput, ShorterText};
pub use tokens::Tokens;

#[cfg_attr(doc, doc(hidden))]
pub use cancel::CancelFlag;
#[cfg_attr(doc, doc(hidden))]
pub use rewrite::{Edit, Rewrite, RewriteError};
#[cfg_attr(doc, doc(hidden))]
pub use timestamp::Timestamp;
#[cfg_attr(doc, doc(hidden))]
pub use transcript::Transcript;

/// Runs the code of the library guide as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryGuide;
